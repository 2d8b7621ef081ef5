/* DESIGN: a list of paths that are kept for each kind, as a tree of names; everything else goes. In arrays the tree goes on
   with each element. */
#include "operator/source/trim.h"

#include "base/macros.h"
#include "base/str.h"
#include "operator/plan/actions.h"

enum { TEMPLATES_MAX = 64, DEPTH_MAX = 16 };

struct keep {
	const char *name;
	const struct keep *below; /* NULL: all of it */
};
#define END                \
	{                  \
		NULL, NULL \
	}

static const struct keep owner[] = { { "uid", NULL }, { "kind", NULL }, { "name", NULL },
	{ "controller", NULL }, END };
static const struct keep our_annotations[] = { { KP_ANNOTATION_APPLIED, NULL },
	{ KP_INJECT_DONE, NULL }, { KP_INJECT_KEY, NULL }, { "kelpie.dev/engine-container", NULL },
	{ "kubectl.kubernetes.io/default-container", NULL }, END };
static const struct keep meta[] = { { "name", NULL }, { "namespace", NULL }, { "uid", NULL },
	{ "resourceVersion", NULL }, { "generation", NULL }, { "labels", NULL },
	{ "deletionTimestamp", NULL }, { "ownerReferences", owner },
	{ "annotations", our_annotations }, END };

static const struct keep amounts[] = { { "requests", NULL }, { "limits", NULL }, { "claims", NULL },
	END };
static const struct keep container[] = { { "name", NULL }, { "resources", amounts },
	{ "ports", NULL }, END };
static const struct keep init_container[] = { { "name", NULL }, END };
static const struct keep gate[] = { { "conditionType", NULL }, END };
static const struct keep claim[] = { { "name", NULL }, END };
static const struct keep pod_spec[] = { { "nodeName", NULL }, { "containers", container },
	{ "initContainers", init_container }, { "readinessGates", gate },
	{ "terminationGracePeriodSeconds", NULL }, { "resourceClaims", claim }, END };
static const struct keep condition[] = { { "type", NULL }, { "status", NULL }, { "reason", NULL },
	{ "message", NULL }, END };
static const struct keep terminated[] = { { "exitCode", NULL }, { "reason", NULL },
	{ "message", NULL }, END };
static const struct keep last_state[] = { { "terminated", terminated }, END };
static const struct keep waiting[] = { { "reason", NULL }, { "message", NULL }, END };
static const struct keep container_state[] = { { "waiting", waiting }, END };
static const struct keep container_status[] = { { "name", NULL }, { "restartCount", NULL },
	{ "state", container_state }, { "lastState", last_state }, END };
static const struct keep pod_status[] = { { "phase", NULL }, { "podIP", NULL },
	{ "conditions", condition }, { "initContainerStatuses", container_status },
	{ "containerStatuses", container_status }, END };
static const struct keep pod[] = { { "metadata", meta }, { "spec", pod_spec },
	{ "status", pod_status }, END };

/* What a Deployment says of itself: why pods are not made. */
static const struct keep owned_condition[] = { { "type", NULL }, { "status", NULL },
	{ "message", NULL }, END };
static const struct keep owned_status[] = { { "conditions", owned_condition }, END };
static const struct keep owned[] = { { "metadata", meta }, { "status", owned_status }, END };

static const struct keep workload_meta[] = { { "name", NULL }, { "namespace", NULL },
	{ "uid", NULL }, { "resourceVersion", NULL }, END };
static const struct keep workload[] = { { "metadata", workload_meta }, { "spec", NULL }, END };

static const struct keep node_status[] = { { "allocatable", NULL }, END };
static const struct keep node[] = { { "metadata", meta }, { "status", node_status }, END };

static const struct keep *find(const struct keep *list, const char *name)
{
	for (; list->name; list++) {
		if (kp_str_eq(kp_str_c(list->name), kp_str_c(name))) {
			return list;
		}
	}
	return NULL;
}

static void trim(json_t *v, const struct keep *list)
{
	const char *key;
	json_t *member;
	void *next;
	for (size_t i = 0; i < json_array_size(v); i++) {
		trim(json_array_get(v, i), list);
	}
	if (!json_is_object(v)) {
		return;
	}
	json_object_foreach_safe(v, next, key, member)
	{
		const struct keep *k = find(list, key);
		if (!k) {
			json_object_del(v, key);
		} else if (k->below) {
			trim(member, k->below);
		}
	}
}

void kp_trim_pod(json_t *object)
{
	trim(object, pod);
}
void kp_trim_owned(json_t *object)
{
	trim(object, owned);
}
/* A pod template is what has metadata and a spec with containers, wherever it stands: kinds have one, or several in lists. */
static void find_templates(const json_t *v, int depth, json_t *engines, json_int_t *n)
{
	const json_t *containers = json_object_get(json_object_get(v, "spec"), "containers");
	if (depth == 0 || *n == TEMPLATES_MAX) {
		return;
	}
	if (json_is_array(containers)) {
		json_t *label = kp_unconst(
			json_object_get(json_object_get(json_object_get(v, "metadata"), "labels"),
				KP_INJECT_LABEL));
		++*n;
		if (json_is_string(label)) {
			json_array_append(engines, label);
		}
		return;
	}
	for (size_t i = 0; i < json_array_size(v); i++) {
		find_templates(json_array_get(v, i), depth - 1, engines, n);
	}
	for (void *it = json_object_iter(kp_unconst(v)); it;
		it = json_object_iter_next(kp_unconst(v), it)) {
		find_templates(json_object_iter_value(it), depth - 1, engines, n);
	}
}

void kp_trim_workload(json_t *object)
{
	json_t *engines = json_array();
	json_int_t n = 0;
	json_object_del(object, "status");
	find_templates(object, DEPTH_MAX, engines, &n);
	trim(object, workload);
	json_object_set_new(
		object, "spec", json_pack("{s:o,s:I}", "engines", engines, "templates", n));
}
void kp_trim_node(json_t *object)
{
	trim(object, node);
}

bool kp_trim_same(const json_t *a, const json_t *b)
{
	json_t *x = json_copy(kp_unconst(a)), *y = json_copy(kp_unconst(b)),
	       *mx = json_copy(json_object_get(a, "metadata")),
	       *my = json_copy(json_object_get(b, "metadata"));
	json_object_del(mx, "resourceVersion");
	json_object_del(my, "resourceVersion");
	json_object_set_new(x, "metadata", mx);
	json_object_set_new(y, "metadata", my);
	bool is_same = json_equal(x, y) == 1;
	json_decref(x);
	json_decref(y);
	return is_same;
}

/* What an API server says, in any shape: trimmed, put into a world, and everything that follows from it. */
#include "inject/inject.h"
#include "operator/plan/actions.h"
#include "operator/plan/engine.h"
#include "operator/source/objects.h"
#include "operator/source/trim.h"
#include "operator/plan/intent.h"

#include "json/jansson.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int check(void *ctx, const struct kp_object_set *set, struct kp_problems *problems,
	struct kp_err *err)
{
	struct kp_intent **intent = ctx;
	kp_intent_destroy(*intent);
	*intent = NULL;
	return kp_intent_build(set, problems, intent, err);
}

static void add(struct kp_world *w, const struct kp_objects *objects, json_t *v)
{
	const json_t *m = json_object_get(v, "metadata");
	kp_str kind = kp_doc_str(v, "kind"), ns = kp_doc_str(m, "namespace"),
	       name = kp_doc_str(m, "name");
	if (kp_str_eq(kind, KP_S("InferenceEngine"))) {
		kp_world_add_engine(w, v,
			kp_object_set_find(w->set, KP_KIND_INFERENCE_ENGINE, ns, name),
			kp_objects_problem(objects, KP_KIND_INFERENCE_ENGINE, ns, name));
	} else if (kp_str_eq(kind, KP_S("InferencePool"))) {
		const struct kp_object *o =
			kp_object_set_find(w->set, KP_KIND_INFERENCE_POOL, ns, name);
		if (o) {
			kp_world_add_pool(w, v, o);
		}
	} else if (kp_str_eq(kind, KP_S("Node"))) {
		kp_trim_node(v);
		kp_world_add_node(w, v);
	} else if (kp_str_eq(kind, KP_S("DaemonSet"))) {
		kp_trim_owned(v);
		kp_world_add_owned(w, "DaemonSet", v);
	} else if (kp_str_eq(kind, KP_S("StatefulSet"))) {
		kp_trim_workload(v);
		kp_world_add_workload(w, 0, v);
	} else {
		kp_trim_pod(v);
		kp_world_add_pod(w, v);
	}
}

/* What is taken out and put in again. */
static void change(struct kp_world *w, const json_t *list)
{
	size_t n = w->n_pods + w->n_gateways;
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *v = json_array_get(list, i);
		if (json_is_object(v) && kp_world_drop_pod(w, v)) {
			KP_BUG_ON(w->n_pods + w->n_gateways != n - 1);
			kp_world_add_pod(w, v);
		}
	}
	KP_BUG_ON(w->n_pods + w->n_gateways != n);
}

static void follow(const struct kp_world *w)
{
	const struct kp_inject_settings settings = kp_inject_defaults();
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create((size_t)64 << 20);
	struct kp_actions *one = kp_actions_make(w, &settings),
			  *two = kp_actions_make(w, &settings);
	KP_BUG_ON(one->n != two->n);
	for (size_t i = 0; i < one->n; i++) {
		KP_BUG_ON(!kp_str_eq(kp_str_c(one->p[i].digest), kp_str_c(two->p[i].digest)));
	}
	for (size_t i = 0; i < w->n_engines; i++) {
		struct kp_engine_pods pods;
		if (w->engines[i].spec && kp_engine_is_in_pods(w->engines[i].spec)) {
			kp_engine_pods(w, &w->engines[i], a, &pods);
			KP_BUG_ON(pods.n_ready > pods.n || pods.n_updated > pods.n);
		}
	}
	kp_actions_destroy(one);
	kp_actions_destroy(two);
}

/* An array of objects. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum { MAX = 32 };
	static const struct kp_world_kind one = { .api_version = KP_S_INIT("apps/v1"),
		.kind = KP_S_INIT("StatefulSet"),
		.is_known = true };
	struct kp_objects_input in[MAX];
	struct kp_objects objects;
	struct kp_intent *intent = NULL;
	struct kp_err err;
	json_t *list;
	size_t n = 0;
	if (kp_doc_json(kp_str_n((const char *)data, size), "world", &kp_doc_limits_manifest, &list,
		    &err)) {
		return 0;
	}
	for (size_t i = 0; i < json_array_size(list) && n < MAX; i++) {
		json_t *v = json_array_get(list, i);
		kp_str kind = kp_doc_str(v, "kind");
		bool is_engine = kp_str_eq(kind, KP_S("InferenceEngine"));
		if (is_engine || kp_str_eq(kind, KP_S("InferencePool"))) {
			in[n++] = (struct kp_objects_input){
				is_engine ? KP_KIND_INFERENCE_ENGINE : KP_KIND_INFERENCE_POOL, v
			};
		}
	}
	if (kp_objects_read(in, n, check, &intent, &objects, &err) == 0) {
		struct kp_world *w = kp_world_create(kp_steal(objects.set));
		w->has_nodes = true;
		w->kinds = &one;
		w->n_kinds = 1;
		for (size_t i = 0; i < json_array_size(list); i++) {
			if (json_is_object(json_array_get(list, i))) {
				add(w, &objects, json_array_get(list, i));
			}
		}
		kp_world_sort(w);
		follow(w);
		change(w, list);
		follow(w);
		kp_world_destroy(w);
	}
	kp_objects_fini(&objects);
	kp_intent_destroy(intent);
	json_decref(list);
	return 0;
}

/* DESIGN: arrays that grow, then sorted once; strings are those of the JSON values, which are kept. */
#include "operator/plan/world.h"

#include "base/vec.h"

#include <stdlib.h>

enum { GRACE_DEFAULT_S = 30 };

struct kp_world *kp_world_create(struct kp_object_set *set)
{
	struct kp_world *w = kp_new(struct kp_world);
	w->arena = kp_arena_create((size_t)256 << 20);
	w->set = set;
	w->kept = json_array();
	KP_BUG_ON(!w->kept);
	return w;
}

void kp_world_destroy(struct kp_world *w)
{
	if (w) {
		json_decref(w->kept);
		kp_mem_free(w->engines);
		kp_mem_free(w->pools);
		kp_mem_free(w->pods);
		kp_mem_free(w->gateways);
		kp_mem_free(w->owned);
		kp_mem_free(w->nodes);
		kp_mem_free(w->workloads);
		if (w->set) {
			kp_object_set_fini(w->set);
			kp_mem_free(w->set);
		}
		kp_arena_destroy(w->arena);
		kp_mem_free(w);
	}
}

static void keep(struct kp_world *w, const json_t *v)
{
	KP_BUG_ON(json_array_append(w->kept, kp_unconst(v)));
}

/* One more zeroed element behind the last. */
static void *add(void **array, size_t *n, size_t size)
{
	/* Grown by halves; the capacity follows from the number. */
	if ((*n & (*n - 1)) == 0) {
		size_t cap = *n ? 2 * *n : 1;
		void *to = kp_xcalloc(cap, size);
		if (*n) {
			memcpy(to, *array, *n * size);
		}
		kp_mem_free(*array);
		*array = to;
	}
	return (char *)*array + (*n)++ * size;
}
#define ADD(w, list, n) add((void **)&(w)->list, &(w)->n, sizeof(*(w)->list))

static const json_t *meta(const json_t *v)
{
	return json_object_get(v, "metadata");
}

/* Never p NULL, so that it compares and prints. */
static kp_str text(const json_t *object, const char *key)
{
	kp_str s = kp_doc_str(object, key);
	return s.p ? s : KP_S("");
}

static int64_t whole(const json_t *object, const char *key, int64_t without)
{
	const json_t *v = json_object_get(object, key);
	return json_is_integer(v) ? json_integer_value(v) : without;
}

void kp_world_add_engine(
	struct kp_world *w, const json_t *v, const struct kp_object *o, kp_str problem)
{
	struct kp_world_engine *e = ADD(w, engines, n_engines);
	const json_t *m = meta(v);
	struct kp_err err;
	keep(w, v);
	*e = (struct kp_world_engine){ .ns = text(m, "namespace"),
		.name = text(m, "name"),
		.uid = text(m, "uid"),
		.generation = whole(m, "generation", 0),
		.is_ending = json_object_get(m, "deletionTimestamp") != NULL,
		.json = v,
		.spec = o ? o->spec.engine : NULL,
		.problem = KP_S("") };
	if (problem.n && kp_arena_dup(w->arena, problem, &e->problem, &err)) {
		e->problem = KP_S("it is left out; there is too much wrong to say what");
	}
}

void kp_world_add_pool(struct kp_world *w, const json_t *v, const struct kp_object *o)
{
	struct kp_world_pool *p = ADD(w, pools, n_pools);
	const json_t *m = meta(v);
	keep(w, v);
	*p = (struct kp_world_pool){ .ns = text(m, "namespace"),
		.name = text(m, "name"),
		.uid = text(m, "uid"),
		.json = v,
		.spec = o->spec.pool };
}

/* --- pods --- */

static const json_t *named(const json_t *list, const char *key, kp_str name)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *v = json_array_get(list, i);
		if (kp_str_eq(kp_doc_str(v, key), name)) {
			return v;
		}
	}
	return NULL;
}

const json_t *kp_world_condition(const json_t *object, kp_str type, kp_str status)
{
	const json_t *c = named(kp_doc_at(object, "status.conditions"), "type", type);
	return kp_str_eq(kp_doc_str(c, "status"), status) ? c : NULL;
}

static bool is_true(const json_t *object, kp_str condition)
{
	return kp_world_condition(object, condition, KP_S("True"));
}

void kp_world_add_pod(struct kp_world *w, const json_t *v)
{
	const json_t *m = meta(v), *labels = json_object_get(m, "labels"),
		     *spec = json_object_get(v, "spec"), *status = json_object_get(v, "status");
	kp_str phase = kp_doc_str(status, "phase");
	kp_str key = text(json_object_get(m, "annotations"), KP_INJECT_KEY);
	bool is_gateway = json_object_get(labels, KP_INJECT_NODE_LABEL) != NULL;
	struct kp_world_pod *p = is_gateway ? ADD(w, gateways, n_gateways) : ADD(w, pods, n_pods);
	keep(w, v);
	*p = (struct kp_world_pod){ .ns = text(m, "namespace"),
		.name = text(m, "name"),
		.uid = text(m, "uid"),
		.node = text(spec, "nodeName"),
		.ip = text(status, "podIP"),
		.engine = text(labels, KP_INJECT_LABEL),
		.revision = text(labels, KP_LABEL_REVISION),
		.key = kp_inject_is_key(key) ? key : KP_S(""),
		.json = v,
		.labels = labels,
		.is_ready = is_true(v, KP_S("Ready")),
		.is_ending = json_object_get(m, "deletionTimestamp") ||
			     kp_str_eq(phase, KP_S("Failed")) ||
			     kp_str_eq(phase, KP_S("Succeeded")),
		.has_gate = named(json_object_get(spec, "readinessGates"), "conditionType",
				    KP_S(KP_INJECT_GATE)) != NULL,
		.is_routable = is_true(v, KP_S(KP_INJECT_GATE)),
		.is_injected = named(json_object_get(spec, "initContainers"), "name",
				       KP_S(KP_INJECT_CONTAINER)) != NULL,
		.grace_s = whole(spec, "terminationGracePeriodSeconds", GRACE_DEFAULT_S) };
}

const json_t *kp_world_container(const struct kp_world_pod *pod, kp_str name)
{
	struct kp_err err;
	const json_t *found = kp_inject_engine_container(pod->json, name, &err);
	return found || name.n ? found : json_array_get(kp_doc_at(pod->json, "spec.containers"), 0);
}

uint32_t kp_world_restarts(const struct kp_world_pod *pod, kp_str container)
{
	const json_t *list = kp_doc_at(pod->json, "status.containerStatuses");
	kp_str name = kp_doc_str(kp_world_container(pod, container), "name");
	int64_t n = whole(named(list, "name", name), "restartCount", 0);
	return (uint32_t)KP_MIN(KP_MAX(n, INT64_C(0)), (int64_t)UINT32_MAX);
}

/* --- the rest --- */

void kp_world_add_owned(struct kp_world *w, const char *kind, const json_t *v)
{
	struct kp_world_owned *o = ADD(w, owned, n_owned);
	const json_t *m = meta(v);
	keep(w, v);
	*o = (struct kp_world_owned){ .kind = kind,
		.ns = text(m, "namespace"),
		.name = text(m, "name"),
		.uid = text(m, "uid"),
		.json = v };
}

void kp_world_add_workload(struct kp_world *w, int kind, const json_t *v)
{
	struct kp_world_workload *o = ADD(w, workloads, n_workloads);
	const json_t *m = meta(v);
	keep(w, v);
	*o = (struct kp_world_workload){ .kind = kind,
		.ns = text(m, "namespace"),
		.name = text(m, "name"),
		.engine = text(kp_doc_at(v, "spec.template.metadata.labels"), KP_INJECT_LABEL) };
}

void kp_world_add_node(struct kp_world *w, const json_t *v)
{
	struct kp_world_node *n = ADD(w, nodes, n_nodes);
	keep(w, v);
	*n = (struct kp_world_node){ .name = text(meta(v), "name"),
		.allocatable = kp_doc_at(v, "status.allocatable") };
}

/* --- order --- */

static int order(kp_str a1, kp_str b1, kp_str a2, kp_str b2, kp_str a3, kp_str b3)
{
	int r = kp_str_cmp(a1, b1);
	r = r ? r : kp_str_cmp(a2, b2);
	return r ? r : kp_str_cmp(a3, b3);
}

static int by_engine(const void *a, const void *b)
{
	const struct kp_world_engine *x = a, *y = b;
	return order(x->ns, y->ns, x->name, y->name, x->uid, y->uid);
}
static int by_pool(const void *a, const void *b)
{
	const struct kp_world_pool *x = a, *y = b;
	return order(x->ns, y->ns, x->name, y->name, x->uid, y->uid);
}
static int by_pod(const void *a, const void *b)
{
	const struct kp_world_pod *x = a, *y = b;
	return order(x->ns, y->ns, x->engine, y->engine, x->name, y->name);
}
static int by_node(const void *a, const void *b)
{
	const struct kp_world_pod *x = a, *y = b;
	return order(x->ns, y->ns, x->node, y->node, x->name, y->name);
}
static int by_owned(const void *a, const void *b)
{
	const struct kp_world_owned *x = a, *y = b;
	return order(kp_str_c(x->kind), kp_str_c(y->kind), x->ns, y->ns, x->name, y->name);
}
static int by_workload(const void *a, const void *b)
{
	const struct kp_world_workload *x = a, *y = b;
	int r = (x->kind > y->kind) - (x->kind < y->kind);
	return r ? r : order(x->ns, y->ns, x->name, y->name, KP_S(""), KP_S(""));
}
static int by_name(const void *a, const void *b)
{
	return kp_str_cmp(
		((const struct kp_world_node *)a)->name, ((const struct kp_world_node *)b)->name);
}

static void sort(void *p, size_t n, size_t size, int (*compare)(const void *, const void *))
{
	if (n) {
		qsort(p, n, size, compare);
	}
}

void kp_world_sort(struct kp_world *w)
{
	sort(w->engines, w->n_engines, sizeof(*w->engines), by_engine);
	sort(w->pools, w->n_pools, sizeof(*w->pools), by_pool);
	sort(w->pods, w->n_pods, sizeof(*w->pods), by_pod);
	sort(w->gateways, w->n_gateways, sizeof(*w->gateways), by_node);
	sort(w->owned, w->n_owned, sizeof(*w->owned), by_owned);
	sort(w->workloads, w->n_workloads, sizeof(*w->workloads), by_workload);
	sort(w->nodes, w->n_nodes, sizeof(*w->nodes), by_name);
}

/* --- look-ups --- */

static int has_engine_name(const void *key, const void *engine)
{
	const struct kp_world_engine *x = key, *y = engine;
	return order(x->ns, y->ns, x->name, y->name, KP_S(""), KP_S(""));
}

const struct kp_world_engine *kp_world_engine(const struct kp_world *w, kp_str ns, kp_str name)
{
	const struct kp_world_engine key = { .ns = ns, .name = name };
	return w->n_engines ? bsearch(&key, w->engines, w->n_engines, sizeof(key), has_engine_name)
			    : NULL;
}

static int has_pool_name(const void *key, const void *pool)
{
	const struct kp_world_pool *x = key, *y = pool;
	return order(x->ns, y->ns, x->name, y->name, KP_S(""), KP_S(""));
}

const struct kp_world_pool *kp_world_pool(const struct kp_world *w, kp_str ns, kp_str name)
{
	const struct kp_world_pool key = { .ns = ns, .name = name };
	return w->n_pools ? bsearch(&key, w->pools, w->n_pools, sizeof(key), has_pool_name) : NULL;
}

const struct kp_world_owned *kp_world_owned(
	const struct kp_world *w, const char *kind, kp_str ns, kp_str name)
{
	const struct kp_world_owned key = { .kind = kind, .ns = ns, .name = name };
	return w->n_owned ? bsearch(&key, w->owned, w->n_owned, sizeof(key), by_owned) : NULL;
}

const struct kp_world_workload *kp_world_workload(
	const struct kp_world *w, int kind, kp_str ns, kp_str name)
{
	const struct kp_world_workload key = { .kind = kind, .ns = ns, .name = name };
	return w->n_workloads
		       ? bsearch(&key, w->workloads, w->n_workloads, sizeof(key), by_workload)
		       : NULL;
}

int kp_world_workload_kind(const struct kp_inference_engine_spec *s)
{
	const struct kp_inference_engine_workload_ref *r = s->workload_ref;
	for (int i = 0; r && kp_str_eq(r->api_version, KP_S("apps/v1")) && i < KP_WORKLOAD_KINDS;
		i++) {
		if (kp_str_eq(r->kind, kp_str_c(kp_workload_kinds[i].kind))) {
			return i;
		}
	}
	return -1;
}

kp_str kp_world_says(const struct kp_world_owned *o, kp_str condition)
{
	return text(kp_world_condition(o->json, condition, KP_S("True")), "message");
}

/* The first that is not before (ns, second). */
static size_t first_pod(
	const struct kp_world_pod *pods, size_t n, kp_str ns, kp_str second, bool by_its_node)
{
	size_t from = 0, to = n;
	while (from < to) {
		size_t mid = from + (to - from) / 2;
		const struct kp_world_pod *p = &pods[mid];
		int r = order(
			p->ns, ns, by_its_node ? p->node : p->engine, second, KP_S(""), KP_S(""));
		from = r < 0 ? mid + 1 : from;
		to = r < 0 ? to : mid;
	}
	return from;
}

const struct kp_world_pod *kp_world_pods(
	const struct kp_world *w, kp_str ns, kp_str engine, size_t *ret_n)
{
	size_t from = first_pod(w->pods, w->n_pods, ns, engine, false), to = from;
	while (to < w->n_pods && kp_str_eq(w->pods[to].ns, ns) &&
		kp_str_eq(w->pods[to].engine, engine)) {
		to++;
	}
	*ret_n = to - from;
	return w->n_pods ? w->pods + from : NULL;
}

const struct kp_world_pod *kp_world_node_gateway(const struct kp_world *w, kp_str ns, kp_str node)
{
	for (size_t at = first_pod(w->gateways, w->n_gateways, ns, node, true);
		node.n && at < w->n_gateways && kp_str_eq(w->gateways[at].ns, ns) &&
		kp_str_eq(w->gateways[at].node, node);
		at++) {
		if (!w->gateways[at].is_ending) {
			return &w->gateways[at];
		}
	}
	return NULL;
}

bool kp_world_selects(const struct kp_inference_pool_selector *s, const json_t *labels)
{
	for (size_t i = 0; i < s->n_match_labels; i++) {
		const struct kp_kv *want = &s->match_labels[i];
		const json_t *v = json_object_getn(labels, want->key.p, want->key.n);
		if (!json_is_string(v) ||
			!kp_str_eq(kp_str_n(json_string_value(v), json_string_length(v)),
				want->value)) {
			return false;
		}
	}
	return true;
}

bool kp_engine_is_in_pods(const struct kp_inference_engine_spec *s)
{
	return s->has_template || s->workload_ref;
}

/* DESIGN: sorted arrays, one description for all of them. They are filled and sorted once; from then on what comes is put into its
   place and what goes is taken out of it, so that a change costs a search and a move of memory, whatever the number of pods. Strings
   are those of the JSON values; each element has a reference to its own. */
#include "operator/plan/world.h"

#include <stddef.h>
#include <stdlib.h>

enum { GRACE_DEFAULT_S = 30 };

/* --- lists --- */

struct list {
	size_t at, n_at;      /* of array and number in the world */
	size_t size, json_at; /* of an element; of the JSON that it borrows from */
	int (*compare)(const void *, const void *);
};

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

enum which { ENGINES, POOLS, PODS, GATEWAYS, OWNED, WORKLOADS, NODES, N_LISTS };

#define LIST(array, type, by)                                                           \
	{                                                                               \
		offsetof(struct kp_world, array), offsetof(struct kp_world, n_##array), \
			sizeof(struct type), offsetof(struct type, json), by            \
	}
static const struct list lists[N_LISTS] = {
	[ENGINES] = LIST(engines, kp_world_engine, by_engine),
	[POOLS] = LIST(pools, kp_world_pool, by_pool),
	[PODS] = LIST(pods, kp_world_pod, by_pod),
	[GATEWAYS] = LIST(gateways, kp_world_pod, by_node),
	[OWNED] = LIST(owned, kp_world_owned, by_owned),
	[WORKLOADS] = LIST(workloads, kp_world_workload, by_workload),
	[NODES] = LIST(nodes, kp_world_node, by_name),
};

struct view {
	char **p; /* the array */
	size_t *n;
};
static struct view view(struct kp_world *w, const struct list *l)
{
	return (struct view){ (char **)((char *)w + l->at), (size_t *)((char *)w + l->n_at) };
}

static const json_t *json_in(const struct list *l, const char *element)
{
	return *(const json_t *const *)(const void *)(element + l->json_at);
}

/* The first that is not before `one`. */
static size_t place(struct kp_world *w, const struct list *l, const void *one)
{
	struct view v = view(w, l);
	size_t from = 0, to = *v.n;
	while (from < to) {
		size_t mid = from + (to - from) / 2;
		if (l->compare(*v.p + mid * l->size, one) < 0) {
			from = mid + 1;
		} else {
			to = mid;
		}
	}
	return from;
}

/* At its place once the world is sorted, else behind the last. */
static void put(struct kp_world *w, enum which which, const void *one)
{
	const struct list *l = &lists[which];
	struct view v = view(w, l);
	size_t n = *v.n, at = w->is_sorted ? place(w, l, one) : n;
	if ((n & (n - 1)) == 0) { /* twice as large; that it is full follows from the number */
		char *to = kp_xcalloc(n ? 2 * n : 1, l->size);
		if (n) {
			memcpy(to, *v.p, n * l->size);
		}
		kp_mem_free(*v.p);
		*v.p = to;
	}
	char *here = *v.p + at * l->size;
	memmove(here + l->size, here, (n - at) * l->size);
	memcpy(here, one, l->size);
	json_incref(kp_unconst(json_in(l, here)));
	++*v.n;
}

static bool drop(struct kp_world *w, enum which which, const void *one)
{
	const struct list *l = &lists[which];
	struct view v = view(w, l);
	KP_BUG_ON(!w->is_sorted);
	size_t at = place(w, l, one);
	if (at == *v.n) {
		return false;
	}
	char *here = *v.p + at * l->size;
	if (l->compare(here, one) != 0) {
		return false;
	}
	json_decref(kp_unconst(json_in(l, here)));
	memmove(here, here + l->size, (*v.n - at - 1) * l->size);
	--*v.n;
	return true;
}

void kp_world_sort(struct kp_world *w)
{
	for (size_t i = 0; i < N_LISTS; i++) {
		struct view v = view(w, &lists[i]);
		if (*v.n) {
			qsort(*v.p, *v.n, lists[i].size, lists[i].compare);
		}
	}
	w->is_sorted = true;
}

struct kp_world *kp_world_create(struct kp_object_set *set)
{
	struct kp_world *w = kp_new(struct kp_world);
	w->set = set;
	return w;
}

void kp_world_destroy(struct kp_world *w)
{
	if (!w) {
		return;
	}
	for (size_t i = 0; i < N_LISTS; i++) {
		struct view v = view(w, &lists[i]);
		for (size_t k = 0; k < *v.n; k++) {
			json_decref(kp_unconst(json_in(&lists[i], *v.p + k * lists[i].size)));
		}
		kp_mem_free(*v.p);
	}
	kp_vec_fini(&w->podless);
	if (w->set) {
		kp_object_set_fini(w->set);
		kp_mem_free(w->set);
	}
	kp_mem_free(w);
}

/* --- our objects --- */

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
	const json_t *m = meta(v);
	const struct kp_world_engine one = { .ns = text(m, "namespace"),
		.name = text(m, "name"),
		.uid = text(m, "uid"),
		.generation = whole(m, "generation", 0),
		.is_ending = json_object_get(m, "deletionTimestamp") != NULL,
		.json = v,
		.spec = o ? o->spec.engine : NULL,
		.problem = problem.n ? problem : KP_S("") };
	put(w, ENGINES, &one);
}

bool kp_world_drop_engine(struct kp_world *w, const json_t *v)
{
	const json_t *m = meta(v);
	const struct kp_world_engine one = {
		.ns = text(m, "namespace"), .name = text(m, "name"), .uid = text(m, "uid")
	};
	return drop(w, ENGINES, &one);
}

void kp_world_add_pool(struct kp_world *w, const json_t *v, const struct kp_object *o)
{
	const json_t *m = meta(v);
	const struct kp_world_pool one = { .ns = text(m, "namespace"),
		.name = text(m, "name"),
		.uid = text(m, "uid"),
		.json = v,
		.spec = o->spec.pool };
	put(w, POOLS, &one);
}

bool kp_world_drop_pool(struct kp_world *w, const json_t *v)
{
	const json_t *m = meta(v);
	const struct kp_world_pool one = {
		.ns = text(m, "namespace"), .name = text(m, "name"), .uid = text(m, "uid")
	};
	return drop(w, POOLS, &one);
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

static bool is_any_waiting(const json_t *statuses)
{
	for (size_t i = 0; i < json_array_size(statuses); i++) {
		const json_t *state = json_object_get(json_array_get(statuses, i), "state");
		if (json_object_get(state, "waiting")) {
			return true;
		}
	}
	return false;
}

static uint32_t count_restarts(const struct kp_world_pod *pod, kp_str container)
{
	const json_t *list = kp_doc_at(pod->json, "status.containerStatuses");
	kp_str name = kp_doc_str(kp_world_container(pod, container), "name");
	int64_t n = whole(named(list, "name", name), "restartCount", 0);
	return (uint32_t)KP_MIN(KP_MAX(n, INT64_C(0)), (int64_t)UINT32_MAX);
}

bool kp_world_is_gateway(const json_t *pod)
{
	return json_object_get(json_object_get(meta(pod), "labels"), KP_INJECT_NODE_LABEL) != NULL;
}

/* What its place follows from. */
static struct kp_world_pod place_of_pod(const json_t *v)
{
	const json_t *m = meta(v), *labels = json_object_get(m, "labels");
	return (struct kp_world_pod){ .ns = text(m, "namespace"),
		.name = text(m, "name"),
		.node = text(json_object_get(v, "spec"), "nodeName"),
		.engine = text(labels, KP_INJECT_LABEL),
		.json = v,
		.labels = labels };
}

void kp_world_add_pod(struct kp_world *w, const json_t *v)
{
	const json_t *m = meta(v), *spec = json_object_get(v, "spec"),
		     *status = json_object_get(v, "status");
	kp_str phase = kp_doc_str(status, "phase");
	kp_str key = text(json_object_get(m, "annotations"), KP_INJECT_KEY);
	struct kp_world_pod p = place_of_pod(v);
	p.uid = text(m, "uid");
	p.ip = text(status, "podIP");
	p.revision = text(p.labels, KP_LABEL_REVISION);
	p.key = kp_inject_is_key(key) ? key : KP_S("");
	p.is_ready = is_true(v, KP_S("Ready"));
	p.is_ending = json_object_get(m, "deletionTimestamp") || kp_str_eq(phase, KP_S("Failed")) ||
		      kp_str_eq(phase, KP_S("Succeeded"));
	p.has_gate = named(json_object_get(spec, "readinessGates"), "conditionType",
			     KP_S(KP_INJECT_GATE)) != NULL;
	p.is_routable = is_true(v, KP_S(KP_INJECT_GATE));
	p.is_injected = named(json_object_get(spec, "initContainers"), "name",
				KP_S(KP_INJECT_CONTAINER)) != NULL;
	p.is_waiting = kp_world_condition(v, KP_S("PodScheduled"), KP_S("False")) ||
		       is_any_waiting(json_object_get(status, "initContainerStatuses")) ||
		       is_any_waiting(json_object_get(status, "containerStatuses"));
	p.grace_s = whole(spec, "terminationGracePeriodSeconds", GRACE_DEFAULT_S);
	p.restarts = count_restarts(&p, KP_S(""));
	put(w, kp_world_is_gateway(v) ? GATEWAYS : PODS, &p);
}

bool kp_world_drop_pod(struct kp_world *w, const json_t *v)
{
	const struct kp_world_pod p = place_of_pod(v);
	return drop(w, kp_world_is_gateway(v) ? GATEWAYS : PODS, &p);
}

const json_t *kp_world_container(const struct kp_world_pod *pod, kp_str name)
{
	struct kp_err err;
	const json_t *found = kp_inject_engine_container(pod->json, name, &err);
	return found || name.n ? found : json_array_get(kp_doc_at(pod->json, "spec.containers"), 0);
}

uint32_t kp_world_restarts(const struct kp_world_pod *pod, kp_str container)
{
	return container.n ? count_restarts(pod, container) : pod->restarts;
}

/* --- the rest --- */

static struct kp_world_owned owned_of(const char *kind, const json_t *v)
{
	const json_t *m = meta(v);
	return (struct kp_world_owned){ .kind = kind,
		.ns = text(m, "namespace"),
		.name = text(m, "name"),
		.uid = text(m, "uid"),
		.json = v };
}

void kp_world_add_owned(struct kp_world *w, const char *kind, const json_t *v)
{
	const struct kp_world_owned one = owned_of(kind, v);
	put(w, OWNED, &one);
}

bool kp_world_drop_owned(struct kp_world *w, const char *kind, const json_t *v)
{
	const struct kp_world_owned one = owned_of(kind, v);
	return drop(w, OWNED, &one);
}

static struct kp_world_workload workload_of(int kind, const json_t *v)
{
	const json_t *m = meta(v);
	return (struct kp_world_workload){ .kind = kind,
		.ns = text(m, "namespace"),
		.name = text(m, "name"),
		.engines = kp_doc_at(v, "spec.engines"),
		.n_templates = (size_t)KP_MAX(
			whole(json_object_get(v, "spec"), "templates", 0), INT64_C(0)),
		.json = v };
}

void kp_world_add_workload(struct kp_world *w, int kind, const json_t *v)
{
	const struct kp_world_workload one = workload_of(kind, v);
	put(w, WORKLOADS, &one);
}

bool kp_world_drop_workload(struct kp_world *w, int kind, const json_t *v)
{
	const struct kp_world_workload one = workload_of(kind, v);
	return drop(w, WORKLOADS, &one);
}

static struct kp_world_node node_of(const json_t *v)
{
	return (struct kp_world_node){ .name = text(meta(v), "name"),
		.allocatable = kp_doc_at(v, "status.allocatable"),
		.json = v };
}

void kp_world_add_node(struct kp_world *w, const json_t *v)
{
	const struct kp_world_node one = node_of(v);
	put(w, NODES, &one);
}

bool kp_world_drop_node(struct kp_world *w, const json_t *v)
{
	const struct kp_world_node one = node_of(v);
	return drop(w, NODES, &one);
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

int kp_world_workload_kind(const struct kp_world *w, const struct kp_inference_engine_spec *s)
{
	const struct kp_inference_engine_workload_ref *r = s->workload_ref;
	for (size_t i = 0; r && i < w->n_kinds; i++) {
		if (kp_str_eq(r->api_version, w->kinds[i].api_version) &&
			kp_str_eq(r->kind, w->kinds[i].kind)) {
			return (int)i;
		}
	}
	return -1;
}

bool kp_world_is_labelled(const struct kp_world_workload *w, kp_str engine)
{
	for (size_t i = 0; i < json_array_size(w->engines); i++) {
		const json_t *v = json_array_get(w->engines, i);
		if (json_is_string(v) &&
			kp_str_eq(kp_str_n(json_string_value(v), json_string_length(v)), engine)) {
			return true;
		}
	}
	return false;
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

bool kp_world_has_pods(const struct kp_world *w, kp_str ns)
{
	for (size_t i = 0; i < w->podless.n; i++) {
		if (!w->podless.p[i].n || kp_str_eq(w->podless.p[i], ns)) {
			return false;
		}
	}
	return true;
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

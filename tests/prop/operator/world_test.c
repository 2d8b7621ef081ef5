/* Histories of a cluster: whatever order the events of different objects come in, in whatever order stores list what they have, and
   whether the world is made of all of it at once or changed step by step, the end is the same programs, the same actions and the same conditions; and planning twice gives the same. */
#include "inject/inject.h"
#include "operator/plan/actions.h"
#include "operator/plan/engine.h"
#include "operator/source/objects.h"
#include "operator/source/trim.h"
#include "tests/unit/operator/common.h"

enum { ROUNDS = 150, MAX = 64 };

#define META(name, uid, more) \
	"\"metadata\":{\"name\":\"" name "\",\"namespace\":\"default\",\"uid\":\"" uid "\"" more "}"
#define P_POOL(name, app, port)                                                                 \
	"{\"kind\":\"InferencePool\",\"apiVersion\":\"inference.networking.k8s.io/v1\"," META(  \
		name, "p-" name, "") ",\"spec\":{\"selector\":{\"matchLabels\":{\"app\":\"" app \
				     "\"}},\"targetPorts\":[{\"number\":" port "}]}}"
#define P_ENGINE(name, generation, more)                                                                                                                 \
	"{\"kind\":\"InferenceEngine\",\"apiVersion\":\"kelpie.dev/v1alpha1\"," META(name,                                                               \
		"e-" name,                                                                                                                               \
		",\"generation\":" generation) ",\"spec\":{\"poolRef\":{\"name\":\"a\"},\"model\":{\"name\":\"m\"},\"engine\":{\"type\":\"vllm\"}," more \
					       "}}"
#define TEMPLATE(image)                                                                                      \
	"\"template\":{\"metadata\":{\"labels\":{\"app\":\"x\"}},\"spec\":{\"containers\":[{\"name\":\"c\"," \
	"\"image\":\"" image "\",\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"2\"}}}]}}"
#define REF "\"workloadRef\":{\"apiVersion\":\"apps/v1\",\"kind\":\"StatefulSet\",\"name\":\"s\"}"
#define P_POD(name, uid, engine, app, node, phase, ip, restarts, more)                       \
	"{\"kind\":\"Pod\",\"apiVersion\":\"v1\"," META(name, uid,                           \
		",\"labels\":{\"kelpie.dev/engine\":\"" engine "\",\"app\":\"" app "\"" more \
		"}") ",\"spec\":{\"nodeName\":\"" node                                       \
		     "\",\"containers\":[{\"name\":\"c\"}]},\"status\":{\"phase\":\"" phase  \
		     "\",\"podIP\":\"" ip                                                    \
		     "\",\"containerStatuses\":[{\"name\":\"c\",\"restartCount\":" restarts "}]}}"
/* The label's object ends here, so that annotations may follow. */
#define KEY(key) "},\"annotations\":{\"kelpie.dev/drain-key\":\"" key "\""
#define GATEWAY  ",\"kelpie.dev/node-gateway\":\"default\""
#define P_OWNED(kind, name, owner)                                                      \
	"{\"kind\":\"" kind "\",\"apiVersion\":\"apps/v1\"," META(name, "o-" name,      \
		",\"ownerReferences\":[{\"kind\":\"InferenceEngine\",\"name\":\"" owner \
		"\",\"uid\":\"e-" owner "\"}]") "}"
#define P_WORKLOAD(name, labels)                                                                  \
	"{\"kind\":\"StatefulSet\",\"apiVersion\":\"apps/v1\"," META(                             \
		name, "s-" name, "") ",\"spec\":{\"template\":{\"metadata\":{\"labels\":{" labels \
				     "}},\"spec\":{\"containers\":[]}}}}"
#define P_NODE(name, gpus)                                                \
	"{\"kind\":\"Node\",\"apiVersion\":\"v1\"," META(name, "n-" name, \
		"") ",\"status\":{\"allocatable\":{\"nvidia.com/gpu\":\"" gpus "\"}}}"
#define GONE(kind, name) "{\"kind\":\"" kind "\",\"gone\":true," META(name, "", "") "}"

/* Events in the order in which each object had them; a cluster's day: a pool that is changed, engines that come, change,
   switch modes and go, pods that start, restart, are evicted and come again by the same name and at the same address. */
static const char *const history[] = {
	P_POOL("a", "x", "8080"),
	P_POOL("b", "y", "8081"),
	P_POOL("a", "x", "8082"),
	P_ENGINE("t", "1", TEMPLATE("i:1")),
	P_ENGINE("t", "2", TEMPLATE("i:2") ",\"replicas\":3"),
	P_ENGINE("w", "1", REF),
	P_ENGINE("n", "1", REF ",\"gateway\":{\"mode\":\"Node\"}"),
	P_ENGINE("was", "1", REF ",\"gateway\":{\"mode\":\"Node\"}"),
	P_ENGINE("was", "2", REF),
	P_ENGINE("odd", "1", "\"replicas\":-1"),
	P_ENGINE("gone", "1", TEMPLATE("i:1")),
	GONE("InferenceEngine", "gone"),
	P_POD("t-1", "u1", "t", "x", "n1", "Pending", "", "0", ""),
	P_POD("t-1", "u1", "t", "x", "n1", "Running", "10.0.0.1", "0", ""),
	P_POD("t-1", "u1", "t", "x", "n1", "Running", "10.0.0.1", "1", ""),
	P_POD("t-2", "u2", "t", "y", "n2", "Running", "10.0.0.2", "0", ""),
	P_POD("t-2", "u2", "t", "y", "n2", "Failed", "10.0.0.2", "0", ""),
	P_POD("w-0", "u3", "w", "x", "n1", "Running", "10.0.0.3", "4", ""),
	GONE("Pod", "w-0"),
	P_POD("w-0", "u4", "w", "x", "n1", "Running", "10.0.0.3", "0", ""),
	P_POD("n-0", "u5", "n", "x", "n1", "Running", "10.0.0.5", "0", KEY("key-5")),
	P_POD("n-1", "u6", "n", "x", "n2", "Running", "10.0.0.6", "0", KEY("no key")),
	P_POD("g-1", "g1", "none", "x", "n1", "Running", "10.0.0.9", "0", GATEWAY),
	P_POD("g-0", "g0", "none", "x", "n1", "Running", "10.0.0.8", "0", GATEWAY),
	P_POD("stray", "u7", "nobody", "x", "n1", "Running", "10.0.0.7", "0", ""),
	P_OWNED("DaemonSet", "old", "was"),
	P_OWNED("DaemonSet", "kelpie-gateway", "n"),
	P_OWNED("Deployment", "t", "t"),
	P_WORKLOAD("s", ""),
	P_WORKLOAD("s", "\"kelpie.dev/engine\":\"w\""),
	P_WORKLOAD("other", ""),
	P_NODE("n1", "8"),
	P_NODE("n2", "8"),
};

/* --- stores --- */

struct cluster {
	json_t *objects[MAX]; /* in any order */
	size_t n;
};

static kp_str name_of(const json_t *v)
{
	return kp_doc_str(json_object_get(v, "metadata"), "name");
}

static void take(struct cluster *c, const char *text)
{
	json_t *v = json_loads(text, 0, NULL);
	assert_non_null(v);
	if (kp_str_eq(kp_doc_str(v, "kind"), KP_S("Pod"))) {
		kp_trim_pod(v); /* as on arrival; the kind is asked before */
		json_object_set_new(v, "kind", json_string("Pod"));
	} else if (kp_str_eq(kp_doc_str(v, "kind"), KP_S("StatefulSet")) &&
		   json_object_get(v, "spec")) {
		kp_trim_workload(v);
		json_object_set_new(v, "kind", json_string("StatefulSet"));
	}
	json_t *whole = json_loads(text, 0, NULL);
	bool is_gone = json_object_get(whole, "gone") != NULL;
	size_t at = 0;
	while (at < c->n &&
		!(kp_str_eq(name_of(c->objects[at]), name_of(whole)) &&
			kp_str_eq(kp_doc_str(c->objects[at], "kind"), kp_doc_str(whole, "kind")))) {
		at++;
	}
	if (at < c->n) {
		json_decref(c->objects[at]);
		c->objects[at] = c->objects[--c->n];
	}
	if (is_gone) {
		json_decref(v);
	} else {
		c->objects[c->n++] = v;
	}
	json_decref(whole);
}

/* One of the orders in which they may come: those of one object as they were. */
static void play(struct cluster *c, struct kp_rng *r)
{
	bool is_played[KP_LEN(history)] = { false };
	for (size_t left = KP_LEN(history); left > 0; left--) {
		size_t at = kp_rng_below(r, KP_LEN(history));
		while (is_played[at]) {
			at = (at + 1) % KP_LEN(history);
		}
		/* The first of this object that is left. */
		json_t *v = json_loads(history[at], 0, NULL);
		for (size_t i = 0; i < at; i++) {
			json_t *earlier = json_loads(history[i], 0, NULL);
			bool is_same =
				kp_str_eq(name_of(v), name_of(earlier)) &&
				kp_str_eq(kp_doc_str(v, "kind"), kp_doc_str(earlier, "kind"));
			json_decref(earlier);
			if (is_same && !is_played[i]) {
				at = i;
				break;
			}
		}
		json_decref(v);
		is_played[at] = true;
		take(c, history[at]);
	}
	for (size_t i = c->n; i > 1; i--) {
		size_t k = kp_rng_below(r, i);
		json_t *t = c->objects[i - 1];
		c->objects[i - 1] = c->objects[k];
		c->objects[k] = t;
	}
}

/* --- what follows from them --- */

enum { STATEFUL_SET = 0 };
static const struct kp_world_kind kinds[] = { [STATEFUL_SET] = {
						      .api_version = KP_S_INIT("apps/v1"),
						      .kind = KP_S_INIT("StatefulSet"),
						      .is_known = true } };

struct checked {
	struct kp_intent *intent;
	struct kp_objects objects;
};

static int check(void *ctx, const struct kp_object_set *set, struct kp_problems *problems,
	struct kp_err *err)
{
	struct checked *c = ctx;
	kp_intent_destroy(c->intent);
	c->intent = NULL;
	return kp_intent_build(set, problems, &c->intent, err);
}

static void read_ours(const struct cluster *c, struct checked *checked)
{
	struct kp_objects_input in[MAX];
	struct kp_err err = KP_ERR_INIT;
	size_t n = 0;
	for (size_t i = 0; i < c->n; i++) {
		kp_str kind = kp_doc_str(c->objects[i], "kind");
		enum kp_kind k = kp_str_eq(kind, KP_S("InferencePool")) ? KP_KIND_INFERENCE_POOL
				 : kp_str_eq(kind, KP_S("InferenceEngine"))
					 ? KP_KIND_INFERENCE_ENGINE
					 : KP_KIND_NONE;
		if (k != KP_KIND_NONE) {
			in[n++] = (struct kp_objects_input){ k, c->objects[i] };
		}
	}
	int r = kp_objects_read(in, n, check, checked, &checked->objects, &err);
	assert_string_equal(err.msg, "");
	assert_int_equal(r, 0);
}

static void add(struct kp_world *w, const struct checked *checked, const json_t *v)
{
	kp_str kind = kp_doc_str(v, "kind"), name = name_of(v), ns = KP_S("default");
	if (kp_str_eq(kind, KP_S("InferencePool"))) {
		kp_world_add_pool(
			w, v, kp_object_set_find(w->set, KP_KIND_INFERENCE_POOL, ns, name));
	} else if (kp_str_eq(kind, KP_S("InferenceEngine"))) {
		kp_world_add_engine(w, v,
			kp_object_set_find(w->set, KP_KIND_INFERENCE_ENGINE, ns, name),
			kp_objects_problem(&checked->objects, KP_KIND_INFERENCE_ENGINE, ns, name));
	} else if (kp_str_eq(kind, KP_S("Pod"))) {
		kp_world_add_pod(w, v);
	} else if (kp_str_eq(kind, KP_S("Node"))) {
		kp_world_add_node(w, v);
	} else if (kp_str_eq(kind, KP_S("StatefulSet"))) {
		kp_world_add_workload(w, STATEFUL_SET, v);
	} else {
		bool is_set = kp_str_eq(kind, KP_S("DaemonSet"));
		kp_world_add_owned(w, is_set ? "DaemonSet" : "Deployment", v);
	}
}

static bool drop(struct kp_world *w, const json_t *v)
{
	kp_str kind = kp_doc_str(v, "kind");
	return kp_str_eq(kind, KP_S("InferencePool"))     ? kp_world_drop_pool(w, v)
	       : kp_str_eq(kind, KP_S("InferenceEngine")) ? kp_world_drop_engine(w, v)
	       : kp_str_eq(kind, KP_S("Pod"))             ? kp_world_drop_pod(w, v)
	       : kp_str_eq(kind, KP_S("Node"))            ? kp_world_drop_node(w, v)
	       : kp_str_eq(kind, KP_S("StatefulSet"))
		       ? kp_world_drop_workload(w, STATEFUL_SET, v)
		       : kp_world_drop_owned(w,
				 kp_str_eq(kind, KP_S("DaemonSet")) ? "DaemonSet" : "Deployment",
				 v);
}

/* As it was at some time in the history. */
static json_t *as_it_was(const json_t *v, struct kp_rng *r)
{
	for (;;) {
		json_t *was = json_loads(history[kp_rng_below(r, KP_LEN(history))], 0, NULL);
		if (kp_str_eq(name_of(was), name_of(v)) && !json_object_get(was, "gone") &&
			kp_str_eq(kp_doc_str(was, "kind"), kp_doc_str(v, "kind"))) {
			return was;
		}
		json_decref(was);
	}
}

/* r: NULL, it is made of everything at once; else part of it comes later, one by one, and first as it was before. */
static struct kp_world *world_of(const struct cluster *c, struct checked *checked, struct kp_rng *r)
{
	json_t *old[MAX] = { NULL };
	bool is_late[MAX] = { false };
	read_ours(c, checked);
	struct kp_world *w = kp_world_create(kp_steal(checked->objects.set));
	w->has_nodes = true;
	w->kinds = kinds;
	w->n_kinds = KP_LEN(kinds);
	for (size_t i = 0; i < c->n; i++) {
		is_late[i] = r && kp_rng_below(r, 2);
		old[i] = r && kp_rng_below(r, 2) ? as_it_was(c->objects[i], r) : NULL;
		if (!is_late[i]) {
			add(w, checked, old[i] ? old[i] : c->objects[i]);
		}
	}
	kp_world_sort(w);
	for (size_t i = 0; i < c->n; i++) {
		if (is_late[i]) {
			assert_false(drop(w, c->objects[i]));
			add(w, checked, old[i] ? old[i] : c->objects[i]);
		}
		if (old[i]) {
			assert_true(drop(w, old[i]));
			add(w, checked, c->objects[i]);
		}
		json_decref(old[i]);
	}
	return w;
}

static void fini_checked(struct checked *c)
{
	kp_objects_fini(&c->objects);
	kp_intent_destroy(c->intent);
}

/* A plan that follows another one is the plan that would have been made without it, and makes nothing anew when nothing is new. */
static struct kp_plan *plan_by_steps(const struct kp_intent *intent, const struct kp_world *w,
	const struct kp_plan_gateway gateways[2])
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_plan *fresh = NULL, *less = NULL, *more = NULL, *same = NULL;
	assert_int_equal(kp_plan_make(intent, w, gateways, 2, 0, NULL, &fresh, &err), 0);
	assert_int_equal(kp_plan_make(intent, w, gateways, 1, 0, NULL, &less, &err), 0);
	assert_int_equal(kp_plan_make(intent, w, gateways, 2, 0, less, &more, &err), 0);
	kp_plan_destroy(less);
	assert_int_equal(more->n_made, more->n);
	assert_int_equal(kp_plan_make(intent, w, gateways, 2, 0, more, &same, &err), 0);
	kp_plan_destroy(more);
	assert_int_equal(same->n_made, 0);
	assert_int_equal(same->n, fresh->n);
	for (size_t i = 0; i < same->n; i++) {
		assert_true(kp_items_same(same->namespaces[i].items, fresh->namespaces[i].items));
		assert_str(same->namespaces[i].name, fresh->namespaces[i].name);
	}
	kp_plan_destroy(fresh);
	return same;
}

static const struct kp_plan_gateway gateways[] = {
	{ .is = { .id = KP_S_INIT("u1"), .peer = KP_S_INIT("10.0.0.1:9443") },
		.ns = KP_S_INIT("default") },
	{ .is = { .id = KP_S_INIT("g0"), .peer = KP_S_INIT("10.0.0.8:9443") },
		.ns = KP_S_INIT("default") },
};

/* Everything that follows, as text. */
static void write_outcome(const struct cluster *c, struct kp_rng *r, struct kp_buf *out)
{
	struct checked checked = { 0 };
	struct kp_plan *plan;
	char hex[KP_HASH_TEXT_MAX];
	const struct kp_inject_settings settings = kp_inject_defaults();
	struct kp_world *w = world_of(c, &checked, r);
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	plan = plan_by_steps(checked.intent, w, gateways);
	for (size_t i = 0; i < plan->n; i++) {
		const struct kp_program *p = plan->namespaces[i].program;
		kp_buf_printf(out, "program %s\n",
			kp_hash_text(plan->namespaces[i].items->hash, 64, hex));
		for (size_t k = 0; k < p->n_engines; k++) {
			for (size_t m = 0; m < p->engines[k].n_endpoints; m++) {
				const struct kp_program_endpoint *e = &p->engines[k].endpoints[m];
				kp_buf_printf(out,
					"endpoint %" KP_FMT " %" KP_FMT " %" KP_FMT " of %" KP_FMT
					"\n",
					KP_ARG(p->engines[k].name), KP_ARG(e->address),
					KP_ARG(e->instance),
					KP_ARG(e->owner ? e->owner->id : KP_S("nobody")));
			}
		}
	}
	struct kp_actions *actions = kp_actions_make(w, &settings);
	for (size_t i = 0; i < actions->n; i++) {
		kp_buf_printf(out, "%s %s %" KP_FMT "/%" KP_FMT " %s\n",
			actions->p[i].intent ? "apply" : "delete", actions->p[i].kind->kind,
			KP_ARG(actions->p[i].ns), KP_ARG(actions->p[i].name), actions->p[i].digest);
	}
	for (size_t i = 0; i < w->n_engines; i++) {
		struct kp_engine_pods pods;
		kp_buf_printf(out, "engine %" KP_FMT ": %" KP_FMT "\n", KP_ARG(w->engines[i].name),
			KP_ARG(w->engines[i].problem));
		if (!w->engines[i].spec || !kp_engine_is_in_pods(w->engines[i].spec)) {
			continue;
		}
		kp_engine_pods(w, &w->engines[i], a, &pods);
		kp_buf_printf(out, "  %zu pods, %zu updated, %zu wanted, %zu kinds of gpus\n",
			pods.n, pods.n_updated, pods.n_wanted, pods.n_gpus);
		for (size_t k = 0; k < pods.n_gpus; k++) {
			kp_buf_printf(out, "  %" KP_FMT " %d of %d\n", KP_ARG(pods.gpus[k].name),
				(int)pods.gpus[k].per_replica, (int)pods.gpus[k].allocatable);
		}
		for (size_t k = 0; k < pods.n_links; k++) {
			kp_buf_printf(out, "  %s %s %s\n", pods.links[k].type, pods.links[k].reason,
				pods.links[k].message);
		}
	}
	kp_actions_destroy(actions);
	kp_plan_destroy(plan);
	kp_world_destroy(w);
	fini_checked(&checked);
}

static void fini(struct cluster *c)
{
	while (c->n) {
		json_decref(c->objects[--c->n]);
	}
}

static void assert_has(const struct kp_buf *out, const char *what)
{
	if (!kp_str_has(kp_buf_str(out), kp_str_c(what))) {
		print_error("not there: %s\nin:\n%.*s\n", what, (int)out->n, out->p);
		fail();
	}
}

static void test_every_order_ends_the_same(void **state)
{
	struct cluster first = { .n = 0 };
	struct kp_rng r;
	struct kp_buf wanted, again;
	(void)state;
	kp_rng_seed(&r, test_seed());
	kp_buf_init(&wanted, 1 << 20);
	kp_buf_init(&again, 1 << 20);
	for (size_t i = 0; i < KP_LEN(history); i++) {
		take(&first, history[i]);
	}
	write_outcome(&first, NULL, &wanted);
	write_outcome(&first, NULL, &again);
	assert_str(kp_buf_str(&wanted), kp_buf_str(&again)); /* planning twice */
	fini(&first);
	for (int i = 0; i < ROUNDS; i++) {
		struct cluster c = { .n = 0 };
		play(&c, &r);
		kp_buf_reset(&again);
		write_outcome(&c, i % 2 ? &r : NULL, &again);
		assert_str(kp_buf_str(&again), kp_buf_str(&wanted));
		fini(&c);
	}
	/* And the end is the right one. */
	assert_has(&wanted, "endpoint default/t 10.0.0.1:50051 u1/1 of u1\n");
	assert_has(&wanted, "endpoint default/w 10.0.0.3:50051 u4/0 of nobody\n");
	assert_has(&wanted, "endpoint default/n 10.0.0.5:50051 u5/0/key-5 of g0\n");
	assert_has(&wanted, "endpoint default/n 10.0.0.6:50051 u6/0 of nobody\n");
	assert_false(kp_str_has(kp_buf_str(&wanted), KP_S("10.0.0.2")));
	assert_has(&wanted, "apply Deployment default/t ");
	assert_has(&wanted, "apply DaemonSet default/kelpie-gateway ");
	assert_has(&wanted, "delete DaemonSet default/old ");
	assert_has(&wanted, "apply Service default/a ");
	assert_has(&wanted, "apply Service default/kelpie-gateway ");
	assert_has(&wanted, "apply Service default/b ");
	assert_false(kp_str_has(kp_buf_str(&wanted), KP_S("default/gone")));
	assert_has(&wanted, "engine odd: spec.replicas: Invalid value: -1");
	assert_has(&wanted,
		"  1 pods, 0 updated, 3 wanted, 1 kinds of gpus\n  nvidia.com/gpu 2 of 16\n");
	assert_has(
		&wanted, "  NodeFits Fits 2 of 2 nodes have the accelerators that a pod needs\n");
	assert_has(&wanted, "  WorkloadFound Found StatefulSet `s` makes its pods\n");
	assert_has(&wanted, "  WorkloadFound WorkloadNotLabelled spec.workloadRef: ");
	kp_buf_fini(&wanted);
	kp_buf_fini(&again);
}

static struct kp_plan *plan_of(const struct cluster *c, struct kp_plan *before)
{
	struct checked checked = { 0 };
	struct kp_err err = KP_ERR_INIT;
	struct kp_plan *plan = NULL;
	struct kp_world *w = world_of(c, &checked, NULL);
	assert_int_equal(kp_plan_make(checked.intent, w, gateways, 2, 0, before, &plan, &err), 0);
	kp_world_destroy(w);
	fini_checked(&checked);
	return plan;
}

/* Whatever a program says of a pod counts: the plan of before is not taken for the new one. */
static void test_a_pods_change_is_planned_anew(void **state)
{
	static const char *const changes[] = {
		P_POD("t-1", "u1", "t", "x", "n1", "Running", "10.0.0.1", "2", ""),
		P_POD("t-1", "u1", "t", "x", "n1", "Running", "10.0.0.11", "1", ""),
		P_POD("t-1", "u9", "t", "x", "n1", "Running", "10.0.0.1", "1", ""),
		P_POD("t-1", "u1", "t", "x", "n1", "Failed", "10.0.0.1", "1", ""),
		P_POD("n-0", "u5", "n", "x", "n1", "Running", "10.0.0.5", "0", KEY("key-6")),
		P_POD("n-0", "u5", "n", "x", "n2", "Running", "10.0.0.5", "0", KEY("key-5")),
	};
	(void)state;
	for (size_t i = 0; i < KP_LEN(changes); i++) {
		struct cluster c = { .n = 0 };
		for (size_t k = 0; k < KP_LEN(history); k++) {
			take(&c, history[k]);
		}
		struct kp_plan *before = plan_of(&c, NULL);
		take(&c, changes[i]);
		struct kp_plan *fresh = plan_of(&c, NULL), *after = plan_of(&c, before);
		assert_int_equal(after->n_made, 1);
		assert_int_equal(after->n, fresh->n);
		for (size_t k = 0; k < fresh->n; k++) {
			assert_true(kp_items_same(
				fresh->namespaces[k].items, after->namespaces[k].items));
		}
		kp_plan_destroy(before);
		kp_plan_destroy(fresh);
		kp_plan_destroy(after);
		fini(&c);
	}
}

/* Each link, broken by one change, and none by none. */
static void test_links(void **state)
{
	static const struct {
		const char *change, *says;
	} cases[] = {
		{ P_POOL("a", "z", "8080"),
			"PoolSelects SelectorMisses pool `a` does not select `t-1`" },
		{ P_POOL("b", "x", "8080"),
			"PoolSelects SeveralPools `t-1` is selected by the pools `a` and `b`" },
		{ P_POOL("a", "x", "50051"),
			"PortsFree PortClash port 50051 is the engine's and a target port of pool `a`" },
		{ P_ENGINE("t", "2", TEMPLATE("i:1") ",\"drain\":{\"budgetSeconds\":30}"),
			"DrainFits GracePeriodTooShort terminationGracePeriodSeconds is 30" },
	};
	(void)state;
	for (size_t i = 0; i <= KP_LEN(cases); i++) {
		struct cluster c = { .n = 0 };
		KP_AUTO(buf) struct kp_buf out;
		kp_buf_init(&out, 1 << 20);
		take(&c, P_POOL("a", "x", "8080"));
		take(&c, P_POOL("b", "y", "8080"));
		take(&c, P_ENGINE("t", "1", TEMPLATE("i:1") ",\"drain\":{\"budgetSeconds\":29}"));
		take(&c, P_POD("t-1", "u1", "t", "x", "n1", "Running", "10.0.0.1", "0", ""));
		if (i < KP_LEN(cases)) {
			take(&c, cases[i].change);
		}
		write_outcome(&c, NULL, &out);
		for (size_t k = 0; k < KP_LEN(cases); k++) {
			bool is_there = kp_str_has(kp_buf_str(&out), kp_str_c(cases[k].says));
			if (is_there != (k == i)) {
				print_error("case %zu, %s:\n%.*s\n", i, cases[k].says, (int)out.n,
					out.p);
				fail();
			}
		}
		fini(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_order_ends_the_same),
		cmocka_unit_test(test_a_pods_change_is_planned_anew),
		cmocka_unit_test(test_links),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* DESIGN: InferenceEngines and InferencePools as the API server has them; one that a pod names is read when it is asked for. What
   makes no sense counts as not there: the operator's conditions say so, the webhook need not. The Services of node gateways beside them; without
   one the end of a pod only sleeps, so nothing waits for them. */
#include "operator/https/internal.h"

#include "api/object.h"
#include "base/clock.h"
#include "inject/review.h"
#include "kube/store.h"
#include "operator/plan/actions.h"

enum { ARENA_MAX = 8 << 20, FIELD_ERRORS_MAX = 4 };

struct kp_https_objects {
	struct kp_https *h;
	size_t n;
	struct {
		struct kp_kube_store *pools, *engines, *services;
	} watched[]; /* for each namespace that is watched */
};

static void on_changed(void *ctx, const json_t *before, const json_t *now)
{
	(void)ctx;
	(void)before;
	(void)now;
}
static void on_synced(void *ctx)
{
	struct kp_https_objects *o = ctx;
	kp_https_look_ready(o->h);
}

/* A kind that the server does not have has no objects. */
static bool is_listed(const struct kp_kube_store *s)
{
	const struct kp_kube_store_state *st = kp_kube_store_state(s);
	return st->is_synced || st->err.code == KP_NOT_FOUND;
}

bool kp_https_objects_are_listed(const struct kp_https_objects *o)
{
	bool are = o;
	for (size_t i = 0; are && i < o->n; i++) {
		are = is_listed(o->watched[i].pools) && is_listed(o->watched[i].engines);
	}
	return are;
}

struct kp_https_objects *kp_https_objects_create(struct kp_https *h)
{
	static const struct kp_kube_store_ops ops = { on_changed, on_synced, on_synced };
	const struct kp_strings *namespaces = h->opts.namespaces;
	size_t n = KP_MAX(namespaces->n, (size_t)1);
	struct kp_https_objects *o = kp_xcalloc(1, sizeof(*o) + n * sizeof(o->watched[0]));
	o->h = h;
	o->n = n;
	for (size_t i = 0; i < n; i++) {
		struct kp_kube_store_opts opts = {
			.ns = kp_str_c(namespaces->n ? namespaces->p[i] : ""), .ops = &ops, .ctx = o
		};
		opts.kind = &kp_kind_pool;
		o->watched[i].pools = kp_kube_store_create(h->kube, &opts);
		opts.kind = &kp_kind_engine;
		o->watched[i].engines = kp_kube_store_create(h->kube, &opts);
		opts.kind = &kp_kind_service;
		opts.labels = KP_S(KP_INJECT_NODE_LABEL);
		o->watched[i].services = kp_kube_store_create(h->kube, &opts);
	}
	return o;
}

void kp_https_objects_destroy(struct kp_https_objects *o)
{
	for (size_t i = 0; o && i < o->n; i++) {
		kp_kube_store_destroy(o->watched[i].pools);
		kp_kube_store_destroy(o->watched[i].engines);
		kp_kube_store_destroy(o->watched[i].services);
	}
	kp_mem_free(o);
}

/* --- the webhook --- */

struct finding {
	const struct kp_https_objects *objects;
	struct kp_arena *arena;
	json_t *kept; /* what the specs came from */
};

/* NULL: it is not there, or makes no sense. */
static const void *read_spec(struct finding *f, enum kp_kind kind, const json_t *object)
{
	struct kp_field_errors errs;
	struct kp_object o;
	struct kp_err err;
	json_t *v = object ? json_deep_copy(object) : NULL;
	if (!v) {
		return NULL;
	}
	json_array_append_new(f->kept, v);
	if (kp_field_errors_init(&errs, f->arena, FIELD_ERRORS_MAX, &err) ||
		kp_object_load(kind, v, KP_STR_NULL, f->arena, &o, &errs, &err) || errs.n) {
		return NULL;
	}
	return o.spec.any;
}

/* "None": somebody made it himself. */
static kp_str cluster_ip(const json_t *service)
{
	kp_str ip = kp_doc_str(json_object_get(service, "spec"), "clusterIP");
	return ip.n && !kp_str_eq(ip, KP_S("None")) ? ip : KP_STR_NULL;
}

static void find(void *ctx, kp_str ns, kp_str name, struct kp_inject_engine *ret)
{
	struct finding *f = ctx;
	const struct kp_https_objects *o = f->objects;
	const json_t *engine = NULL, *pool = NULL;
	for (size_t i = 0; i < o->n && !engine; i++) {
		engine = kp_kube_store_get(o->watched[i].engines, ns, name);
	}
	ret->engine = read_spec(f, KP_KIND_INFERENCE_ENGINE, engine);
	for (size_t i = 0; ret->engine && i < o->n && !pool; i++) {
		pool = kp_kube_store_get(o->watched[i].pools, ns, ret->engine->pool_ref.name);
	}
	ret->pool = read_spec(f, KP_KIND_INFERENCE_POOL, pool);
	for (size_t i = 0; i < o->n && !ret->node_gateway.n; i++) {
		ret->node_gateway = cluster_ip(
			kp_kube_store_get(o->watched[i].services, ns, KP_S(KP_NODE_GATEWAYS)));
	}
}

static void count(struct kp_https *h, const struct kp_review *r, int64_t took_ns)
{
	const char *verdict = kp_review_verdict_name(r->verdict);
	const struct kp_label label = { "verdict", kp_str_c(verdict) };
	kp_counter_add(kp_metrics_counter(h->opts.metrics, "kelpie_operator_injections_total",
			       "Pods that the webhook was asked about, by verdict.", &label, 1),
		1);
	kp_histogram_observe(
		kp_metrics_histogram(h->opts.metrics, "kelpie_operator_injection_seconds",
			"Time that the webhook took to decide.", kp_bounds_seconds,
			KP_LEN(kp_bounds_seconds), NULL, 0),
		(double)took_ns / 1e9);
	if (r->verdict == KP_REVIEW_INJECTED || r->verdict == KP_REVIEW_REFUSED) {
		bool is_refused = r->verdict == KP_REVIEW_REFUSED;
		kp_log(is_refused ? KP_LOG_WARN : KP_LOG_INFO,
			is_refused ? "pod refused" : "gateway injected", kp_f_z("namespace", r->ns),
			kp_f_z("pod", r->pod), kp_f_z("engine", r->engine),
			kp_f_bool("dry_run", r->is_dry_run),
			kp_f_z("reason", r->err.code == KP_OK ? "" : r->err.msg));
	}
}

void kp_https_inject(struct kp_https_call *c)
{
	struct kp_https *h = c->h;
	KP_AUTO(arena) struct kp_arena *arena = kp_arena_create(ARENA_MAX);
	KP_AUTO(buf) struct kp_buf out = { 0 };
	struct finding f = { h->objects, arena, json_array() };
	int64_t begin = kp_now_ns();
	struct kp_err err;
	if (!kp_https_objects_are_listed(
		    h->objects)) { /* else a pod would be made for an engine that is unknown */
		kp_err_set(&err, KP_UNAVAILABLE, "engines and pools are not listed yet");
		kp_https_fail(c, &err);
		json_decref(f.kept);
		return;
	}
	kp_buf_init(&out, KP_REVIEW_MAX_ANSWER);
	struct kp_review r =
		kp_inject_review(kp_buf_str(&c->body), &h->opts.inject, find, &f, &out);
	count(h, &r, kp_now_ns() - begin);
	kp_https_reply(c, (int)r.http_status, "application/json", kp_buf_str(&out));
	json_decref(f.kept);
}

/* DESIGN: one request at a time: read, then write what was read with a change, by its resourceVersion, so that of two
   who take it at once one gets 409 and reads again. A holder writes what it wrote last, without reading. `renewed_ns`
   is when the request was sent that last succeeded, not when its answer came. */
#include "kube/lease.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/rand.h"
#include "kube/event.h"
#include "kube/write.h"
#include "obs/log.h"

#include <stdio.h>

#define DURATION_NS (15 * KP_NS_PER_S)
#define RENEW_NS    (10 * KP_NS_PER_S)
#define RETRY_NS    (2 * KP_NS_PER_S)
#define RELEASE_NS  (2 * KP_NS_PER_S)

struct kp_kube_lease {
	struct kp_kube *k;
	struct kp_kube_lease_opts opts;
	char *ns, *name, *identity;
	struct kp_kube_call *call;
	struct kp_timer next, deadline;
	json_t *lease;       /* as the server had it last; NULL: not known, or not there */
	char *holder;        /* what `seen` was told; NULL: nothing yet */
	kp_str version;      /* ours: of what was observed */
	int64_t observed_ns; /* since when it is so */
	int64_t sent_ns, renewed_ns;
	uint64_t term, next_term;
	uint64_t number, next_number;
	bool is_held, is_ending;
	struct kp_err err;
	void (*released)(void *ctx);
	void *released_ctx;
};

static void try(struct kp_kube_lease *l);
static void give_back(struct kp_kube_lease *l);

static int64_t now_of(const struct kp_kube_lease *l)
{
	return kp_loop_now(kp_kube_loop(l->k));
}

static void on_next(struct kp_timer *t)
{
	try(KP_CONTAINER(t, struct kp_kube_lease, next));
}

/* A fifth of chance, so that candidates do not come together. */
static void try_later(struct kp_kube_lease *l)
{
	if (l->is_ending) {
		return;
	}
	int64_t jitter =
		(int64_t)kp_rng_below(kp_kube_rng(l->k), (uint64_t)l->opts.retry_ns / 5 + 1);
	kp_timer_start(
		kp_kube_loop(l->k), &l->next, now_of(l) + l->opts.retry_ns + jitter, on_next);
}

static const json_t *spec_of(const struct kp_kube_lease *l)
{
	return json_object_get(l->lease, "spec");
}

static void see(struct kp_kube_lease *l, kp_str holder)
{
	if (!l->holder || !kp_str_eq(kp_str_c(l->holder), holder)) {
		kp_mem_free(l->holder);
		l->holder = kp_str_z(holder);
		if (l->opts.seen) {
			l->opts.seen(l->opts.ctx, kp_str_c(l->holder));
		}
	}
}

static void lose(struct kp_kube_lease *l, const struct kp_err *why)
{
	if (l->is_held) {
		l->is_held = false;
		kp_timer_stop(kp_kube_loop(l->k), &l->deadline);
		l->opts.lost(l->opts.ctx, why);
	}
}

static void on_deadline(struct kp_timer *t)
{
	struct kp_kube_lease *l = KP_CONTAINER(t, struct kp_kube_lease, deadline);
	struct kp_err err;
	kp_err_set(&err, KP_DEADLINE_EXCEEDED, "renew lease `%s`: not within %lld ms%s%s", l->name,
		(long long)(l->opts.renew_ns / KP_NS_PER_MS), l->err.code ? ": " : "",
		l->err.code ? l->err.msg : "");
	lose(l, &err);
}

/* What the server has now. */
static void observe(struct kp_kube_lease *l, json_t *lease)
{
	kp_str version = kp_kube_meta_of(lease).version;
	if (!kp_str_eq(version, l->version)) {
		kp_mem_free(kp_unconst(l->version.p));
		l->version = (kp_str){ kp_str_z(version), version.n };
		l->observed_ns = now_of(l);
	}
	json_decref(l->lease);
	l->lease = json_incref(lease);
	kp_str holder = kp_doc_str(spec_of(l), "holderIdentity");
	if (l->is_held && !kp_str_eq(holder, kp_str_c(l->identity))) {
		struct kp_err err;
		kp_err_set(&err, KP_ABORTED, "renew lease `%s`: `%" KP_FMT "` holds it", l->name,
			KP_ARG(kp_str_sub(holder, 0, 100)));
		lose(l, &err);
	}
	see(l, holder);
}

static void won(struct kp_kube_lease *l)
{
	l->renewed_ns = l->sent_ns;
	kp_timer_start(
		kp_kube_loop(l->k), &l->deadline, l->renewed_ns + l->opts.renew_ns, on_deadline);
	if (!l->is_held) {
		l->is_held = true;
		l->term = l->next_term;
		l->number = l->next_number;
		l->opts.acquired(l->opts.ctx, l->term);
	}
}

/* --- writing --- */

static void forget(struct kp_kube_lease *l)
{
	json_decref(l->lease);
	l->lease = NULL;
}

static void take_written(struct kp_kube_lease *l, const struct kp_kube_answer *a)
{
	json_t *v = kp_kube_answer_json(a, &l->err);
	if (!v) {
		/* 409: somebody else wrote. Anything else: ours may have been written all the same. What is there
		   must be read. */
		forget(l);
		return;
	}
	l->err = KP_ERR_INIT;
	observe(l, v);
	json_decref(v);
	if (now_of(l) - l->sent_ns < l->opts.renew_ns && !l->is_ending) {
		won(l);
	}
}

static void on_written(void *ctx, const struct kp_kube_answer *a)
{
	struct kp_kube_lease *l = ctx;
	bool is_overtaken = a->failure && (a->failure->http == 409 || a->failure->http == 404);
	l->call = NULL;
	try_later(l);
	if (is_overtaken && !l->is_ending) {
		kp_timer_start(
			kp_kube_loop(l->k), &l->next, now_of(l) + l->opts.retry_ns / 10, on_next);
	}
	take_written(l, a);
	if (l->is_ending) {
		give_back(l);
	}
}

static void set_text(json_t *spec, const char *key, const char *value)
{
	json_object_set_new(spec, key, json_string(value));
}

static uint64_t transitions_of(const struct kp_kube_lease *l)
{
	const json_t *v = json_object_get(spec_of(l), "leaseTransitions");
	return json_is_integer(v) && json_integer_value(v) > 0 ? (uint64_t)json_integer_value(v)
							       : 0;
}

static void keep_number(json_t *lease, const char *annotation, uint64_t number)
{
	json_t *meta = json_object_get(lease, "metadata"),
	       *all = json_object_get(meta, "annotations");
	char text[32];
	snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
	if (!json_is_object(all)) {
		all = json_object();
		json_object_set_new(meta, "annotations", all);
	}
	json_object_set_new(all, annotation, json_string(text));
}

/* A text that is no number counts for nothing. */
static uint64_t number_of(const struct kp_kube_lease *l)
{
	uint64_t n;
	return kp_str_u64(kp_kube_annotation(l->lease, l->opts.annotation), UINT64_MAX / 2, &n) ? n
												: 0;
}

/* A copy of the Lease as it shall be. */
static json_t *wanted(
	struct kp_kube_lease *l, const char *holder, int64_t duration_ns, bool is_new_term)
{
	char now[KP_KUBE_TIME_MAX];
	json_t *v = l->lease ? json_deep_copy(l->lease)
			     : json_pack("{s:s,s:s,s:{s:s,s:s}}", "apiVersion",
				       "coordination.k8s.io/v1", "kind", "Lease", "metadata",
				       "namespace", l->ns, "name", l->name);
	KP_BUG_ON(!v);
	json_t *spec = json_object_get(v, "spec");
	if (!json_is_object(spec)) {
		spec = json_object();
		json_object_set_new(v, "spec", spec);
	}
	kp_kube_time(kp_wall_ns(), now);
	set_text(spec, "holderIdentity", holder);
	set_text(spec, "renewTime", now);
	json_object_set_new(spec, "leaseDurationSeconds",
		json_integer(KP_MAX((duration_ns + KP_NS_PER_S - 1) / KP_NS_PER_S, INT64_C(1))));
	if (is_new_term) {
		/* The first is 1, so that 0 is no term. */
		l->next_term = transitions_of(l) + 1;
		set_text(spec, "acquireTime", now);
		json_object_set_new(
			spec, "leaseTransitions", json_integer((json_int_t)l->next_term));
	}
	if (l->opts.annotation) {
		l->next_number =
			is_new_term ? l->opts.next_number(l->opts.ctx, number_of(l)) : l->number;
		keep_number(v, l->opts.annotation, l->next_number);
	}
	return v;
}

static void put(
	struct kp_kube_lease *l, const json_t *lease, kp_kube_done *done, int64_t timeout_ns)
{
	const struct kp_kube_write w = { .ref = { .kind = &kp_kube_kind_lease,
						 .ns = kp_str_c(l->ns),
						 .name = kp_str_c(l->name) },
		.timeout_ns = timeout_ns,
		.once = true,
		.done = done,
		.ctx = l };
	l->sent_ns = now_of(l);
	l->call = l->lease ? kp_kube_replace(l->k, &w, lease)
			   : kp_kube_create_object(l->k, &w, lease);
}

static void write(struct kp_kube_lease *l)
{
	json_t *v = wanted(l, l->identity, l->opts.duration_ns, !l->is_held);
	put(l, v, on_written, l->opts.renew_ns / 2);
	json_decref(v);
}

/* --- reading --- */

static bool is_free(const struct kp_kube_lease *l)
{
	kp_str holder = kp_doc_str(spec_of(l), "holderIdentity");
	const json_t *seconds = json_object_get(spec_of(l), "leaseDurationSeconds");
	int64_t duration = l->opts.duration_ns;
	if (json_is_integer(seconds) && json_integer_value(seconds) > 0 &&
		json_integer_value(seconds) < 3600) {
		duration = json_integer_value(seconds) * KP_NS_PER_S;
	}
	return !holder.n || kp_str_eq(holder, kp_str_c(l->identity)) ||
	       now_of(l) - l->observed_ns >= duration;
}

static void on_read(void *ctx, const struct kp_kube_answer *a)
{
	struct kp_kube_lease *l = ctx;
	json_t *v;
	l->call = NULL;
	bool is_missing = a->failure && a->failure->http == 404;
	v = kp_kube_answer_json(a, &l->err);
	if (v) {
		l->err = KP_ERR_INIT;
		observe(l, v);
		json_decref(v);
	} else if (is_missing) {
		forget(l);
	}
	if (l->is_ending) {
		give_back(l);
	} else if (is_missing || (v && is_free(l))) {
		write(l);
	} else {
		try_later(l);
	}
}

static void try(struct kp_kube_lease *l)
{
	const struct kp_kube_write w = { .ref = { .kind = &kp_kube_kind_lease,
						 .ns = kp_str_c(l->ns),
						 .name = kp_str_c(l->name) },
		.timeout_ns = l->opts.renew_ns / 2,
		.once = true,
		.done = on_read,
		.ctx = l };
	if (l->call || l->is_ending) {
		return;
	}
	if (l->is_held && l->lease) {
		write(l);
	} else {
		l->call = kp_kube_get(l->k, &w);
	}
}

/* --- life --- */

struct kp_kube_lease *kp_kube_lease_create(struct kp_kube *k, const struct kp_kube_lease_opts *opts)
{
	struct kp_kube_lease *l = kp_new(struct kp_kube_lease);
	struct kp_kube_lease_opts *o = &l->opts;
	l->k = k;
	*o = *opts;
	o->duration_ns = o->duration_ns ? o->duration_ns : DURATION_NS;
	o->renew_ns = o->renew_ns ? o->renew_ns : RENEW_NS;
	o->retry_ns = o->retry_ns ? o->retry_ns : RETRY_NS;
	KP_BUG_ON(o->duration_ns <= o->renew_ns || o->renew_ns <= o->retry_ns);
	l->ns = kp_str_z(opts->ns);
	l->name = kp_str_z(opts->name);
	l->identity = kp_xstrdup(opts->identity);
	kp_timer_start(kp_kube_loop(k), &l->next, now_of(l), on_next);
	return l;
}

void kp_kube_lease_destroy(struct kp_kube_lease *l)
{
	if (!l) {
		return;
	}
	if (l->call) {
		kp_kube_cancel(l->call);
	}
	kp_timer_stop(kp_kube_loop(l->k), &l->next);
	kp_timer_stop(kp_kube_loop(l->k), &l->deadline);
	json_decref(l->lease);
	kp_mem_free(kp_unconst(l->version.p));
	kp_mem_free(l->holder);
	kp_mem_free(l->ns);
	kp_mem_free(l->name);
	kp_mem_free(l->identity);
	kp_mem_free(l);
}

/* --- giving it up --- */

static void ended(struct kp_kube_lease *l)
{
	kp_timer_stop(kp_kube_loop(l->k), &l->next);
	l->released(l->released_ctx);
}

static void on_released(void *ctx, const struct kp_kube_answer *a)
{
	struct kp_kube_lease *l = ctx;
	l->call = NULL;
	if (a->failure) {
		kp_log(KP_LOG_WARN, "the lease could not be given up", kp_f_err(&a->failure->err));
	}
	ended(l);
}

static void on_release_timer(struct kp_timer *t)
{
	struct kp_kube_lease *l = KP_CONTAINER(t, struct kp_kube_lease, next);
	if (l->call) {
		kp_kube_cancel(l->call);
		l->call = NULL;
	}
	ended(l);
}

static void give_back(struct kp_kube_lease *l)
{
	if (!kp_str_eq(kp_doc_str(spec_of(l), "holderIdentity"), kp_str_c(l->identity))) {
		ended(l);
		return;
	}
	json_t *v = wanted(l, "", KP_NS_PER_S, false);
	put(l, v, on_released, RELEASE_NS);
	json_decref(v);
}

void kp_kube_lease_release(struct kp_kube_lease *l, void (*done)(void *ctx), void *ctx)
{
	bool is_held = l->is_held;
	int64_t within = 0;
	l->is_ending = true;
	l->is_held = false;
	l->released = done;
	l->released_ctx = ctx;
	kp_timer_stop(kp_kube_loop(l->k), &l->deadline);
	if (l->call || (is_held && l->lease)) {
		within = RELEASE_NS;
	}
	kp_timer_start(kp_kube_loop(l->k), &l->next, now_of(l) + within, on_release_timer);
	if (within && !l->call) { /* else what is under way comes to an end first */
		give_back(l);
	}
}

bool kp_kube_lease_is_held(const struct kp_kube_lease *l)
{
	return l->is_held && now_of(l) - l->renewed_ns < l->opts.renew_ns;
}

uint64_t kp_kube_lease_term(const struct kp_kube_lease *l)
{
	return l->term;
}

uint64_t kp_kube_lease_number(const struct kp_kube_lease *l)
{
	return l->number;
}

void kp_kube_lease_raise(struct kp_kube_lease *l, uint64_t number)
{
	l->number = KP_MAX(l->number, number);
}

kp_str kp_kube_lease_holder(const struct kp_kube_lease *l)
{
	return kp_str_c(l->holder);
}

const struct kp_err *kp_kube_lease_error(const struct kp_kube_lease *l)
{
	return &l->err;
}

/* DESIGN: a map from "Kind/what namespace/name" to what is wanted there, and a queue of the keys that need work. Work looks at
   the want and at what the stores have at that moment, and makes one request; its answer ends the work. What cannot be made
   (UNMADE) is in the map for its problem alone; what is there of it stays. */
#include "operator/apply/apply.h"

#include "base/clock.h"
#include "base/map.h"
#include "kube/event.h"
#include "kube/queue.h"
#include "kube/write.h"
#include "obs/log.h"

#include <stdio.h>

#define LAG_NS       (5 * KP_NS_PER_S)  /* that a watch may be behind */
#define FORBIDDEN_NS (30 * KP_NS_PER_S) /* until what was refused is tried again, at least */
#define LATE_NS      KP_NS_PER_S        /* that is_late means */
enum { WORKERS = 8, KEY_MAX = 700 };

enum mode { OBJECT = 1, DELETION, STATUS, UNMADE };

struct want {
	struct kp_apply *a;
	char *key;
	enum mode mode;
	const struct kp_kube_kind *kind;
	char *ns, *name, *uid; /* uid: of what is to be deleted, or of the owner */
	json_t *intent;
	char digest[KP_DIGEST_MAX];
	uint64_t round;        /* when it was wanted last */
	bool is_gone;          /* is not wanted any more, but a request is under way */
	int64_t not_before_ns; /* of one that is not there yet */
	/* Of the last write that succeeded: what was written, when, and the generation or version it left. */
	char written[KP_DIGEST_MAX];
	int64_t written_ns;
	char *left;
	struct kp_err err;
	struct kp_kube_call *call;
	enum mode asked; /* of the request that is under way */
	char asked_digest[KP_DIGEST_MAX];
};
struct kp_apply {
	struct kp_apply_opts opts;
	struct kp_map wants;
	struct kp_kube_queue *queue;
	uint64_t round;
	struct kp_counter *ok, *conflict, *forbidden, *failed;
};

static int64_t now_of(const struct kp_apply *a)
{
	return kp_loop_now(kp_kube_loop(a->opts.kube));
}

static void destroy(void *value)
{
	struct want *w = value;
	if (w->call) {
		kp_kube_cancel(w->call);
	}
	kp_mem_free(w->key);
	kp_mem_free(w->ns);
	kp_mem_free(w->name);
	kp_mem_free(w->uid);
	kp_mem_free(w->left);
	json_decref(w->intent);
	kp_mem_free(w);
}

/* --- how it is now --- */

/* What changes when somebody changes the object: its generation, where the kind counts one. */
static void write_left(const json_t *v, char buf[64])
{
	const json_t *m = json_object_get(v, "metadata"), *g = json_object_get(m, "generation");
	kp_str version = kp_kube_meta_of(v).version;
	if (json_is_integer(g)) {
		snprintf(buf, 64, "g%lld", (long long)json_integer_value(g));
	} else {
		snprintf(buf, 64, "v%" KP_FMT, KP_ARG(kp_str_sub(version, 0, 60)));
	}
}

static const json_t *live_of(const struct want *w)
{
	const struct kp_kube_store *s = w->a->opts.store(w->a->opts.ctx, w->kind, kp_str_c(w->ns));
	return s ? kp_kube_store_get(s, kp_str_c(w->ns), kp_str_c(w->name)) : NULL;
}

/* The store is complete: what it does not have is not there, or not ours. */
static bool is_known(const struct want *w)
{
	const struct kp_kube_store *s = w->a->opts.store(w->a->opts.ctx, w->kind, kp_str_c(w->ns));
	return s && kp_kube_store_state(s)->is_synced;
}

/* Whether it is as wanted; until a watch has brought what was written last, that cannot be seen. */
enum sight { DONE, TOO_EARLY, NEEDED };

/* 1: somebody changed it after our write; -1: our write cannot be seen yet; 0: it is what we left. A generation counts up, a
   version only differs. */
static int since_written(const struct want *w, const json_t *live)
{
	char left[64];
	write_left(live, left);
	if (kp_str_eq(kp_str_c(left), kp_str_c(w->left))) {
		return 0;
	}
	uint64_t is, was;
	bool counts = left[0] == 'g' && kp_str_u64(kp_str_c(left + 1), UINT64_MAX, &is) &&
		      kp_str_u64(kp_str_c(w->left + 1), UINT64_MAX, &was);
	return counts && is > was ? 1 : -1;
}

static enum sight see(const struct want *w)
{
	bool is_written = w->written_ns && kp_str_eq(kp_str_c(w->written), kp_str_c(w->digest));
	enum sight otherwise =
		is_written && now_of(w->a) - w->written_ns < LAG_NS ? TOO_EARLY : NEEDED;
	if (w->mode == UNMADE) {
		return DONE;
	}
	if (w->mode == STATUS) {
		return otherwise; /* what there is does not lie in a store of ours */
	}
	const json_t *live = live_of(w);
	if (w->mode == DELETION) {
		return live ? otherwise : DONE;
	}
	if (!live && now_of(w->a) < w->not_before_ns) {
		return TOO_EARLY;
	}
	if (!live || !is_written || !w->left) {
		return otherwise;
	}
	int since = since_written(w, live);
	bool is_marked =
		kp_str_eq(kp_kube_annotation(live, KP_ANNOTATION_APPLIED), kp_str_c(w->digest));
	return since > 0 ? NEEDED : since == 0 && is_marked ? DONE : otherwise;
}

/* A status is handed in again by who compares it. */
static void look_later(struct want *w)
{
	if (w->mode == STATUS) {
		return;
	}
	int64_t early_ns = w->not_before_ns - now_of(w->a);
	kp_kube_queue_add_after(w->a->queue, kp_str_c(w->key), early_ns > 0 ? early_ns : LAG_NS);
}

static enum sight look(struct want *w)
{
	enum sight s = see(w);
	if (s == NEEDED) {
		kp_kube_queue_add(w->a->queue, kp_str_c(w->key));
	} else if (s == TOO_EARLY) {
		look_later(w);
	}
	return s;
}

/* --- one write --- */

static void set_problem(struct want *w, const struct kp_err *err)
{
	bool is_other =
		w->err.code != err->code || !kp_str_eq(kp_str_c(w->err.msg), kp_str_c(err->msg));
	w->err = *err;
	if (is_other) {
		if (err->code != KP_OK) {
			kp_log(KP_LOG_WARN, "cannot write", kp_f_z("object", w->key),
				kp_f_err(err));
		}
		w->a->opts.changed(w->a->opts.ctx);
	}
}

/* Of a request; what cannot be made any more has a problem of its own. */
static void set_outcome(struct want *w, const struct kp_err *err)
{
	if (w->mode != UNMADE) {
		set_problem(w, err);
	}
}

static void end(struct want *w, bool is_ok, int64_t wait_ns)
{
	struct kp_apply *a = w->a;
	kp_str key = kp_str_c(w->key);
	if (is_ok || w->is_gone) {
		kp_kube_queue_done(a->queue, key);
	} else {
		kp_kube_queue_failed(a->queue, key, wait_ns);
	}
	if (w->is_gone) {
		kp_map_del(&a->wants, key);
		destroy(w);
	}
}

/* What is wanted may be another thing by now: only what was asked for is written. */
static void remember(struct want *w)
{
	memcpy(w->written, w->asked_digest, sizeof(w->written));
	w->written_ns = now_of(w->a);
}

static void succeeded(struct want *w, const json_t *v)
{
	const struct kp_err none = KP_ERR_INIT;
	char left[64];
	kp_counter_add(w->a->ok, 1);
	remember(w);
	if (v && w->asked == OBJECT) {
		write_left(v, left);
		kp_mem_free(w->left);
		w->left = kp_xstrdup(left);
	}
	set_outcome(w, &none);
	end(w, true, 0);
}

static void failed(struct want *w, const struct kp_kube_failure *f)
{
	int64_t wait = f->retry_after_ns;
	if (w->asked != OBJECT && (f->http == 404 || f->http == 409)) {
		/* It is gone, or another of the name took its place; the world will say so. */
		kp_counter_add(w->a->conflict, 1);
		remember(w);
		end(w, true, 0);
		return;
	}
	if (f->http == 403) {
		kp_counter_add(w->a->forbidden, 1);
		wait = KP_MAX(wait, FORBIDDEN_NS);
	} else {
		kp_counter_add(f->http == 409 ? w->a->conflict : w->a->failed, 1);
	}
	set_outcome(w, &f->err);
	end(w, false, wait);
}

static void on_written(void *ctx, const struct kp_kube_answer *answer)
{
	struct want *w = ctx;
	struct kp_err err;
	w->call = NULL;
	if (answer->failure) {
		failed(w, answer->failure);
		return;
	}
	json_t *v = kp_kube_answer_json(answer, &err);
	succeeded(w, v);
	json_decref(v);
}

static struct kp_kube_write request(struct want *w, kp_kube_done *done)
{
	w->asked = w->mode;
	memcpy(w->asked_digest, w->digest, sizeof(w->asked_digest));
	return (struct kp_kube_write){ .ref = { .kind = w->kind,
					       .ns = kp_str_c(w->ns),
					       .name = kp_str_c(w->name),
					       .subresource = w->mode == STATUS ? "status" : NULL },
		.done = done,
		.ctx = w };
}

static void apply(struct want *w)
{
	const struct kp_kube_write r = request(w, on_written);
	w->call = kp_kube_apply(w->a->opts.kube, &r, w->intent, true);
}

/* --- what is there and is not followed --- */

static kp_str controller_of(const json_t *v)
{
	const json_t *list = kp_doc_at(v, "metadata.ownerReferences");
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *o = json_array_get(list, i);
		if (json_is_true(json_object_get(o, "controller"))) {
			return kp_doc_str(o, "uid");
		}
	}
	return KP_S("");
}

/* Ours is what our owner controls, or what nobody controls and we labelled. */
static bool is_ours(const struct want *w, const json_t *v)
{
	kp_str controller = controller_of(v);
	const json_t *labels = kp_doc_at(v, "metadata.labels");
	return kp_str_eq(kp_doc_str(labels, KP_LABEL_MANAGED), KP_S(KP_MANAGED_BY)) &&
	       (!controller.n || kp_str_eq(controller, kp_str_c(w->uid)));
}

static void refuse(struct want *w)
{
	struct kp_err err;
	kp_counter_add(w->a->conflict, 1);
	kp_err_set(&err, KP_ALREADY_EXISTS,
		"apply `%s`: there is one of that name that somebody else made", w->key);
	set_problem(w, &err);
	end(w, false, FORBIDDEN_NS);
}

static void on_read(void *ctx, const struct kp_kube_answer *answer)
{
	struct want *w = ctx;
	struct kp_err err;
	w->call = NULL;
	if (answer->failure && answer->failure->http != 404) {
		failed(w, answer->failure);
		return;
	}
	json_t *v = answer->failure ? NULL : kp_kube_answer_json(answer, &err);
	bool is_free = answer->failure || (v && is_ours(w, v));
	json_decref(v);
	if (w->is_gone || w->mode != OBJECT || !w->a->opts.may_write(w->a->opts.ctx)) {
		end(w, true, 0); /* what is wanted now is in the queue again */
	} else if (is_free) {
		apply(w);
	} else {
		refuse(w);
	}
}

static void on_work(void *ctx, kp_str key)
{
	struct kp_apply *a = ctx;
	struct want *w = kp_map_get(&a->wants, key);
	enum sight s = w && !w->call && a->opts.may_write(a->opts.ctx) ? see(w) : DONE;
	if (s != NEEDED) {
		if (s == TOO_EARLY) {
			look_later(w);
		}
		kp_kube_queue_done(a->queue, key); /* the key is gone then */
		return;
	}
	const json_t *live = w->mode == STATUS ? NULL : live_of(w);
	if (w->mode == STATUS) {
		apply(w);
	} else if (w->mode == DELETION) {
		const struct kp_kube_write r = request(w, on_written);
		const struct kp_kube_delete how = {
			.uid = kp_str_c(w->uid), .propagation = "Background", .grace_s = -1
		};
		w->call = kp_kube_delete(a->opts.kube, &r, &how);
	} else if (live && !is_ours(w, live)) {
		refuse(w);
	} else if (live) {
		apply(w);
	} else if (!is_known(w)) {
		kp_kube_queue_add_after(a->queue, key, KP_NS_PER_S);
		kp_kube_queue_done(a->queue, key);
	} else {
		const struct kp_kube_write r = request(w, on_read);
		w->call = kp_kube_get(a->opts.kube, &r);
	}
}

/* --- what is wanted --- */

static struct want *want(
	struct kp_apply *a, enum mode mode, const struct kp_kube_kind *kind, kp_str ns, kp_str name)
{
	char key[KEY_MAX];
	snprintf(key, sizeof(key), "%s%s %" KP_FMT "/%" KP_FMT, kind->kind,
		mode == STATUS ? "/status" : "", KP_ARG(ns), KP_ARG(name));
	struct want *w = kp_map_get(&a->wants, kp_str_c(key));
	if (!w) {
		w = kp_new(struct want);
		*w = (struct want){ .a = a,
			.key = kp_xstrdup(key),
			.kind = kind,
			.ns = kp_str_z(ns),
			.name = kp_str_z(name),
			.err = KP_ERR_INIT };
		kp_map_set(&a->wants, kp_str_c(key), w);
	}
	if (w->mode != mode) {
		w->written[0] = '\0';
	}
	w->mode = mode;
	w->round = a->round;
	w->is_gone = false;
	return w;
}

static void set_intent(struct want *w, json_t *intent, const char *digest, kp_str uid)
{
	json_decref(w->intent);
	w->intent = intent;
	snprintf(w->digest, sizeof(w->digest), "%s", digest);
	kp_mem_free(w->uid);
	w->uid = kp_str_z(uid);
}

static void forget_others(struct kp_apply *a, bool statuses)
{
	struct kp_map_entry *e;
	for (size_t pos = 0; (e = kp_map_next(&a->wants, &pos)) != NULL;) {
		struct want *w = e->value;
		if ((w->mode == STATUS) != statuses || w->round == a->round) {
			continue;
		}
		if (w->mode == STATUS && w->written_ns && now_of(a) - w->written_ns < LAG_NS) {
			continue; /* it remembers what was written */
		}
		if (w->call) {
			w->is_gone = true;
		} else {
			kp_map_del(&a->wants, e->key);
			destroy(w);
		}
	}
}

void kp_apply_objects(struct kp_apply *a, struct kp_actions *actions)
{
	a->round++;
	for (size_t i = 0; i < actions->n; i++) {
		struct kp_action *p = &actions->p[i];
		enum mode mode = p->cannot ? UNMADE : p->intent ? OBJECT : DELETION;
		struct want *w = want(a, mode, p->kind, p->ns, p->name);
		set_intent(w, kp_steal(p->intent), p->digest[0] ? p->digest : "-",
			p->owner_uid.n ? p->owner_uid : p->uid);
		if (p->is_late && !w->not_before_ns) {
			w->not_before_ns = now_of(a) + LATE_NS;
		}
		if (p->cannot) {
			set_problem(w, p->cannot);
		}
		(void)look(w);
	}
	forget_others(a, false);
	kp_actions_destroy(actions);
}

int64_t kp_apply_statuses(struct kp_apply *a, const struct kp_apply_status *list, size_t n)
{
	int64_t due_ns = INT64_MAX;
	a->round++;
	for (size_t i = 0; i < n; i++) {
		struct want *w = want(a, STATUS, list[i].kind, list[i].ns, list[i].name);
		set_intent(w, list[i].intent, list[i].digest, KP_S(""));
		if (look(w) == TOO_EARLY) {
			due_ns = KP_MIN(due_ns, w->written_ns + LAG_NS);
		}
	}
	forget_others(a, true);
	return due_ns;
}

const struct kp_err *kp_apply_problem(
	const struct kp_apply *a, const char *kind, kp_str ns, kp_str name)
{
	static const struct kp_err none;
	char key[KEY_MAX];
	snprintf(key, sizeof(key), "%s %" KP_FMT "/%" KP_FMT, kind, KP_ARG(ns), KP_ARG(name));
	const struct want *w = kp_map_get(&a->wants, kp_str_c(key));
	return w ? &w->err : &none;
}

/* --- life --- */

static struct kp_counter *counter(struct kp_metrics *m, const char *result)
{
	const struct kp_label label = { "result", kp_str_c(result) };
	return kp_metrics_counter(m, "kelpie_operator_writes_total",
		"Objects and statuses written to the API server, by result.", &label, 1);
}

struct kp_apply *kp_apply_create(const struct kp_apply_opts *opts)
{
	struct kp_apply *a = kp_new(struct kp_apply);
	struct kp_metrics *m = kp_kube_metrics(opts->kube);
	const struct kp_kube_queue_opts queue = { .name = "apply",
		.workers = WORKERS,
		.first_ns = 100 * KP_NS_PER_MS,
		.metrics = m,
		.work = on_work,
		.ctx = a };
	a->opts = *opts;
	kp_map_init(&a->wants);
	a->queue = kp_kube_queue_create(kp_kube_loop(opts->kube), &queue);
	a->ok = counter(m, "written");
	a->conflict = counter(m, "conflict");
	a->forbidden = counter(m, "forbidden");
	a->failed = counter(m, "failed");
	return a;
}

void kp_apply_destroy(struct kp_apply *a)
{
	if (a) {
		kp_map_fini(&a->wants, destroy);
		kp_kube_queue_destroy(a->queue);
		kp_mem_free(a);
	}
}

/* DESIGN: one request after the other, a pause between them. */
#include "kube/version.h"

#include "base/clock.h"
#include "json/jansson.h"
#include "obs/log.h"

#define AGAIN_NS (10 * 60 * KP_NS_PER_S)
#define SOON_NS  (5 * KP_NS_PER_S)

struct kp_kube_version {
	struct kp_kube *k;
	void (*changed)(void *ctx, unsigned minor);
	void *ctx;
	unsigned minor; /* 0: not known yet */
	struct kp_kube_call *call;
	struct kp_timer timer;
};

/* Clouds write "34+". */
unsigned kp_kube_minor(const json_t *version)
{
	kp_str minor = kp_doc_str(version, "minor");
	uint64_t n = 0;
	if (kp_str_ends(minor, KP_S("+"))) {
		minor = kp_str_sub(minor, 0, minor.n - 1);
	}
	bool is_known =
		kp_str_eq(kp_doc_str(version, "major"), KP_S("1")) && kp_str_u64(minor, 10000, &n);
	return is_known ? (unsigned)n : 0;
}

static void on_timer(struct kp_timer *t);

static void on_answer(void *ctx, const struct kp_kube_answer *answer)
{
	struct kp_kube_version *v = ctx;
	struct kp_err err;
	json_t *said = answer->failure ? NULL : kp_kube_answer_json(answer, &err);
	unsigned minor = kp_kube_minor(said);
	json_decref(said);
	v->call = NULL;
	kp_timer_start(kp_kube_loop(v->k), &v->timer,
		kp_loop_now(kp_kube_loop(v->k)) + (minor ? AGAIN_NS : SOON_NS), on_timer);
	if (minor && minor != v->minor) {
		v->minor = minor;
		kp_log(KP_LOG_INFO, "API server", kp_f_int("minor", minor));
		v->changed(v->ctx, minor);
	}
}

static void ask(struct kp_kube_version *v)
{
	const struct kp_kube_request r = {
		.method = "GET", .path = "/version", .done = on_answer, .ctx = v
	};
	v->call = kp_kube_send(v->k, &r);
}

static void on_timer(struct kp_timer *t)
{
	ask(KP_CONTAINER(t, struct kp_kube_version, timer));
}

struct kp_kube_version *kp_kube_version_create(
	struct kp_kube *k, void (*changed)(void *ctx, unsigned minor), void *ctx)
{
	struct kp_kube_version *v = kp_new(struct kp_kube_version);
	*v = (struct kp_kube_version){ .k = k, .changed = changed, .ctx = ctx };
	ask(v);
	return v;
}

void kp_kube_version_destroy(struct kp_kube_version *v)
{
	if (v) {
		if (v->call) {
			kp_kube_cancel(v->call);
		}
		kp_timer_stop(kp_kube_loop(v->k), &v->timer);
		kp_mem_free(v);
	}
}

/* DESIGN: cheap checks first: how often the address asks, the form of the request; then the API server says whose the token is, then
   the request must be for that pod and nothing else. Every certificate that is signed is one line of the log, with what is needed to
   find whoever got it: pod, node, the token's id, the serial number. */
#include "operator/https/internal.h"

#include "base/clock.h"
#include "json/write.h"
#include "kube/write.h"
#include "operator/trust/identity.h"

enum { REVIEWS_MAX = 512, TOKEN_MAX = 16 << 10 };
#define REVIEW_NS      (10 * KP_NS_PER_S)
#define LOG_REFUSED_NS KP_NS_PER_S

static kp_str address_of(const struct kp_https_call *c)
{
	kp_str peer = c->request->peer;
	ptrdiff_t port = kp_str_rfind_char(peer, ':');
	return kp_str_sub(peer, 0, port < 0 ? peer.n : (size_t)port);
}

/* It may be run when the listener is gone. */
struct told {
	struct kp_msg msg;
	void (*asked)(void *ctx, const struct kp_https_asked *a);
	void *ctx;
	char *uid, *address, *why;
};

static void on_told(struct kp_msg *msg)
{
	struct told *t = KP_CONTAINER(msg, struct told, msg);
	const struct kp_https_asked a = { kp_str_c(t->uid), kp_str_c(t->address),
		kp_str_c(t->why) };
	t->asked(t->ctx, &a);
	kp_mem_free(t->uid);
	kp_mem_free(t->address);
	kp_mem_free(t->why);
	kp_mem_free(t);
}

/* As often as quotas let somebody ask. */
static void tell(const struct kp_https_call *c, kp_str uid, kp_str why)
{
	struct told *t = kp_new(struct told);
	*t = (struct told){ .msg = { .run = on_told },
		.asked = c->h->opts.asked,
		.ctx = c->h->opts.ctx,
		.uid = kp_str_z(uid),
		.address = kp_str_z(address_of(c)),
		.why = kp_str_z(why) };
	kp_mailbox_post(c->h->opts.mailbox, &t->msg);
}

static void refuse(
	struct kp_https_call *c, const struct kp_pod_identity *id, const struct kp_err *err)
{
	uint64_t more;
	kp_counter_add(c->h->refused, 1);
	if (kp_log_allow(&c->h->log_refused, kp_loop_now(c->h->loop), LOG_REFUSED_NS, &more)) {
		kp_log(KP_LOG_WARN, "certificate refused", kp_f_str("address", c->request->peer),
			kp_f_str("namespace", id ? id->ns : KP_S("")),
			kp_f_str("pod", id ? id->pod : KP_S("")),
			kp_f_int("suppressed", (int64_t)more), kp_f_err(err));
	}
	tell(c, id ? id->uid : KP_S(""), kp_str_c(err->msg));
	kp_https_fail(c, err);
}

static int too_often(const char *who, int64_t wait_ns, struct kp_err *err)
{
	return kp_err_set(err, KP_RESOURCE_EXHAUSTED,
		"this %s asks for certificates too often; again in %lld s", who,
		(long long)(wait_ns / KP_NS_PER_S + 1));
}

int kp_https_certificates_begin(struct kp_https_call *c, struct kp_err *err)
{
	int64_t wait;
	if (!kp_quota_take(&c->h->of_address, address_of(c), kp_loop_now(c->h->loop), &wait)) {
		kp_counter_add(c->h->refused, 1);
		return too_often("address", wait, err);
	}
	return 0;
}

static kp_str bearer(const struct kp_http_request *r)
{
	static const kp_str scheme = KP_S_INIT("Bearer ");
	kp_str value = kp_header_get(r->headers, r->n_headers, KP_S("authorization"));
	kp_str word = kp_str_sub(value, 0, scheme.n);
	return kp_str_ieq(word, scheme) ? kp_str_trim(kp_str_skip(value, scheme.n)) : KP_S("");
}

static void answer(struct kp_https_call *c, const struct kp_trust_issued *i)
{
	KP_AUTO(buf) struct kp_buf out;
	char until[25];
	kp_buf_init(&out, 1 << 20);
	kp_time_rfc3339(i->facts.not_after_s * KP_NS_PER_S, until);
	kp_buf_lit(&out, "{\"certificate\":");
	kp_json_w_str(&out, kp_buf_str(&i->cert));
	kp_buf_lit(&out, ",\"authorities\":");
	kp_json_w_str(&out, kp_buf_str(&i->bundle));
	kp_buf_printf(&out, ",\"until\":\"%s\"}\n", until);
	kp_https_reply(c, 200, "application/json", kp_buf_str(&out));
}

static int issue(struct kp_https_call *c, const struct kp_pod_identity *id, struct kp_err *err)
{
	struct kp_https *h = c->h;
	struct kp_trust_issued i;
	int64_t wait;
	if (kp_pki_csr_check(c->csr, id->uid, err)) {
		return -1;
	}
	if (!kp_quota_take(&h->of_pod, id->uid, kp_loop_now(h->loop), &wait)) {
		return too_often("pod", wait, err);
	}
	if (kp_trust_issue(h->trust, c->csr, id->uid, id->ns, id->account, &i, err)) {
		return -1;
	}
	kp_log(KP_LOG_INFO, "certificate signed", kp_f_str("namespace", id->ns),
		kp_f_str("pod", id->pod), kp_f_str("uid", id->uid),
		kp_f_str("account", id->account), kp_f_str("node", id->node),
		kp_f_str("token", id->credential), kp_f_str("address", c->request->peer),
		kp_f_z("serial", i.facts.serial),
		kp_f_int("seconds", i.facts.not_after_s - i.facts.not_before_s - KP_PKI_SKEW_S));
	tell(c, id->uid, KP_S(""));
	answer(c, &i);
	kp_trust_issued_fini(&i);
	return 0;
}

static void on_review(void *ctx, const struct kp_kube_answer *a)
{
	struct kp_https_call *c = ctx;
	struct kp_pod_identity id;
	struct kp_err err;
	c->review = NULL;
	c->h->n_reviews--;
	json_t *review = kp_kube_answer_json(a, &err);
	if (!review) {
		err.code = KP_UNAVAILABLE; /* the operator's trouble, not the gateway's */
		kp_err_wrap(&err, "ask the API server whose the token is");
		refuse(c, NULL, &err);
	} else if (kp_pod_identity_read(review, &id, &err)) {
		refuse(c, NULL, &err);
	} else if (issue(c, &id, &err)) {
		refuse(c, &id, &err);
	}
	json_decref(review);
}

void kp_https_certificates(struct kp_https_call *c)
{
	static const char *const audiences[] = { KP_TRUST_AUDIENCE };
	struct kp_https *h = c->h;
	kp_str token = bearer(c->request);
	struct kp_err err;
	if (!token.n || token.n > TOKEN_MAX) {
		kp_err_set(&err, KP_UNAUTHENTICATED,
			"the pod's service-account token is needed: `Authorization: Bearer ...`, of 16 KiB at most");
	} else if (kp_pki_csr_read(kp_buf_str(&c->body), &c->csr, &err) == 0) {
		if (!kp_trust_is_ready(h->trust)) {
			kp_err_set(&err, KP_UNAVAILABLE, "the operator has no authority yet");
		} else if (h->n_reviews == REVIEWS_MAX) {
			kp_err_set(&err, KP_RESOURCE_EXHAUSTED, "%d tokens are under review",
				REVIEWS_MAX);
		} else {
			h->n_reviews++;
			c->review = kp_kube_review_token(
				h->kube, token, audiences, KP_LEN(audiences), on_review, c);
			return;
		}
	}
	refuse(c, NULL, &err);
}

void kp_https_certificates_closed(struct kp_https_call *c)
{
	if (c->review) {
		kp_kube_cancel(c->review);
		c->h->n_reviews--;
	}
	kp_pki_csr_destroy(c->csr);
}

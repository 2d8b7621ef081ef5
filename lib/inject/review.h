/* The webhook: bytes of an AdmissionReview (admission.k8s.io/v1) in, bytes of the answer out. Pure, any thread. The body comes from
   whoever reaches the listener: it has limits, and what makes no sense is HTTP 400 or 413, never a verdict. */
#ifndef KP_INJECT_REVIEW_H
#define KP_INJECT_REVIEW_H

#include "base/buf.h"
#include "inject/inject.h"

enum {
	KP_REVIEW_MAX_BYTES =
		8 << 20, /* of a request's body; an API server takes objects of 3 MiB */
	KP_REVIEW_MAX_ANSWER = 16 << 20
};

/* The engine of that name, if it is known: fills *ret, which stays valid until kp_inject_review returns. */
typedef void kp_inject_find(void *ctx, kp_str ns, kp_str name, struct kp_inject_engine *ret);

enum kp_review_verdict {
	KP_REVIEW_BAD = 0,   /* not an AdmissionReview: no verdict */
	KP_REVIEW_UNTOUCHED, /* not a pod that is created, or it does not opt in */
	KP_REVIEW_INJECTED,
	KP_REVIEW_UNCHANGED, /* it has everything already */
	KP_REVIEW_REFUSED,
};
const char *kp_review_verdict_name(enum kp_review_verdict v); /* "injected", for metrics */

/* What was decided, for the log and metrics. */
struct kp_review {
	unsigned http_status; /* 200; 400, 413: out is a JSON error */
	enum kp_review_verdict verdict;
	bool is_dry_run;
	char ns[64], pod[254], engine[254]; /* as far as they were readable; cut, "" unknown */
	struct kp_err err;                  /* of BAD and REFUSED */
};

/* out: the caller's, of KP_REVIEW_MAX_ANSWER at least, empty. The answer is application/json. */
struct kp_review kp_inject_review(kp_str body, const struct kp_inject_settings *settings,
	kp_inject_find *find, void *ctx, struct kp_buf *out);

#endif

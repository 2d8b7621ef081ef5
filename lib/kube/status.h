/* What an API server says of a failure: HTTP's number and, nearly always, a `Status` object. */
#ifndef KP_KUBE_STATUS_H
#define KP_KUBE_STATUS_H

#include "base/err.h"
#include "json/jansson.h"

enum { KP_KUBE_REASON_MAX = 64 };
struct kp_kube_failure {
	struct kp_err err; /* code by HTTP's number and the reason; OK: no failure */
	int http;          /* 0: there was no answer */
	char reason
		[KP_KUBE_REASON_MAX]; /* "Conflict", "AlreadyExists", "Expired"; "": none given */
	int64_t retry_after_ns;       /* what it asks for; 0: nothing */
	json_t *details; /* of the Status (kind, name, causes); the failure's, NULL: none */
};
/* From the answer's number and body; `what` ("PATCH /api/...") names the request. A body that is no Status is
   quoted, its first line up to 200 bytes. */
void kp_kube_failure_init(struct kp_kube_failure *f, int http, kp_str body, const char *what);
/* From a Status that was read already, as in a watch event. It may be anything. */
void kp_kube_failure_from_status(
	struct kp_kube_failure *f, int http, const json_t *status, const char *what);
void kp_kube_failure_fini(struct kp_kube_failure *f); /* zeroed is fine */
/* The version asked for is too old, or unknown: list anew. */
bool kp_kube_failure_is_expired(const struct kp_kube_failure *f);

#endif

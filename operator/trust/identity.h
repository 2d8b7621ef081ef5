/* Whose a bound service-account token is, from the API server's answer to a TokenReview. Pure. */
#ifndef OPERATOR_TRUST_IDENTITY_H
#define OPERATOR_TRUST_IDENTITY_H

#include "json/jansson.h"

#define KP_TRUST_AUDIENCE "kelpie.dev"

struct kp_pod_identity {
	kp_str ns, account, pod, uid;
	kp_str node, credential; /* "": the server does not say */
};
/* What *ret points at is the review's. UNAUTHENTICATED: the token is nobody's, or for another audience;
   PERMISSION_DENIED: it is somebody's, but no pod's. A server that says what makes no sense is DATA_LOSS. */
int kp_pod_identity_read(
	const json_t *review, struct kp_pod_identity *ret, struct kp_err *err) KP_MUST_USE;

#endif

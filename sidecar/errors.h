/* Errors as answers: kp_json_w_err (json/write.h) with the status of the code table (base/err.h). */
#ifndef SIDECAR_ERRORS_H
#define SIDECAR_ERRORS_H

#include "base/buf.h"
#include "net/server.h"

/* The whole answer; retryable ones carry Retry-After. Faults of ours (5xx) keep their message: it
 * names operands, never prompt text. */
void kp_error_reply(struct kp_stream *s, const struct kp_err *err);
/* As above, with an x-request-id. */
void kp_error_reply_id(struct kp_stream *s, const struct kp_err *err, kp_str request_id);

#endif

/* Errors as answers, in the dialect of the endpoint that was asked: with the status of the code table (base/err.h) as OpenAI shapes
   them (kp_json_w_err), or with Anthropic's statuses and types. Faults of ours (5xx) keep their message: it names operands, never prompt
   text. */
#ifndef SIDECAR_ERRORS_H
#define SIDECAR_ERRORS_H

#include "base/buf.h"
#include "net/server.h"

enum kp_dialect { KP_DIALECT_OPENAI = 0, KP_DIALECT_ANTHROPIC };

int kp_error_status(enum kp_dialect d, enum kp_code code);
/* The body. request_id: Anthropic's has it too; may be empty. */
void kp_error_write(
	enum kp_dialect d, const struct kp_err *err, kp_str request_id, struct kp_buf *out);

/* Headers that name the request: at most KP_ID_HEADERS, none when it has no name. Returns how many. */
enum { KP_ID_HEADERS = 2 };
size_t kp_id_headers(enum kp_dialect d, kp_str request_id, struct kp_header ret[KP_ID_HEADERS]);

/* The whole answer; retryable ones carry Retry-After. */
void kp_error_reply(
	struct kp_stream *s, enum kp_dialect d, const struct kp_err *err, kp_str request_id);
/* With a status of HTTP's own, which no code has. */
void kp_error_reply_as(struct kp_stream *s, enum kp_dialect d, int status, const struct kp_err *err,
	kp_str request_id);

#endif

/* Errors as values. A function that can fail returns 0 or -1 (or a count >= 0 or -1) and takes
   `struct kp_err *err` last, never NULL; err is set exactly when -1 is returned. No allocation,
   nothing to free; copy it by assignment.

   Messages are "verb `operand`", lower case, one line; each layer that knows something puts it in
   front with kp_err_wrap. The code table below is the only mapping from a failure to HTTP status,
   OpenAI error type and Kubernetes reason. */
#ifndef KP_BASE_ERR_H
#define KP_BASE_ERR_H

#include "base/macros.h"

#include <stdarg.h>

/* X(name, number, HTTP status, OpenAI error type, CamelCase reason, retryable by the client
   unchanged) Numbers 0..16 are gRPC's canonical codes (grpc/grpc, doc/statuscodes.md). */
#define KP_CODES(X)                                                                          \
	X(OK, 0, 200, "", "OK", false)                                                       \
	X(CANCELLED, 1, 499, "api_error", "Cancelled", false)                                \
	X(UNKNOWN, 2, 500, "server_error", "Unknown", false)                                 \
	X(INVALID_ARGUMENT, 3, 400, "invalid_request_error", "InvalidArgument", false)       \
	X(DEADLINE_EXCEEDED, 4, 504, "timeout_error", "DeadlineExceeded", true)              \
	X(NOT_FOUND, 5, 404, "invalid_request_error", "NotFound", false)                     \
	X(ALREADY_EXISTS, 6, 409, "invalid_request_error", "AlreadyExists", false)           \
	X(PERMISSION_DENIED, 7, 403, "permission_error", "PermissionDenied", false)          \
	X(RESOURCE_EXHAUSTED, 8, 429, "rate_limit_error", "ResourceExhausted", true)         \
	X(FAILED_PRECONDITION, 9, 400, "invalid_request_error", "FailedPrecondition", false) \
	X(ABORTED, 10, 409, "server_error", "Aborted", true)                                 \
	X(OUT_OF_RANGE, 11, 400, "invalid_request_error", "OutOfRange", false)               \
	X(UNIMPLEMENTED, 12, 501, "invalid_request_error", "Unimplemented", false)           \
	X(INTERNAL, 13, 500, "server_error", "Internal", false)                              \
	X(UNAVAILABLE, 14, 503, "service_unavailable_error", "Unavailable", true)            \
	X(DATA_LOSS, 15, 502, "server_error", "DataLoss", false)                             \
	X(UNAUTHENTICATED, 16, 401, "authentication_error", "Unauthenticated", false)        \
	X(CONFLICT, 17, 409, "invalid_request_error", "Conflict", true)                      \
	X(GONE, 18, 410, "invalid_request_error", "Gone", false)                             \
	X(TOO_LARGE, 19, 413, "invalid_request_error", "TooLarge", false)                    \
	X(METHOD_NOT_ALLOWED, 20, 405, "invalid_request_error", "MethodNotAllowed", false)   \
	X(UNSUPPORTED_MEDIA, 21, 415, "invalid_request_error", "UnsupportedMedia", false)

enum kp_code {
#define X(name, number, http, type, reason, retry) KP_##name = number,
	KP_CODES(X)
#undef X
};

enum { KP_ERR_MSG = 400, KP_ERR_PARAM = 96 };

struct kp_err {
	enum kp_code code;
	int sys; /* errno at the failing call, 0 when there was none */
	const char
		*reason; /* static machine word for clients ("context_length_exceeded"), or NULL */
	char param[KP_ERR_PARAM]; /* the input that is wrong ("messages[2].content"), or "" */
	char msg[KP_ERR_MSG];
};
#define KP_ERR_INIT ((struct kp_err){ .code = KP_OK })

/* Each returns -1, so that `return kp_err_set(...)` both sets and fails. Messages longer than
   KP_ERR_MSG-1 bytes are cut at a UTF-8 border; bytes that would break a log line are replaced by
   '?'. */
int kp_err_set(struct kp_err *err, enum kp_code code, const char *fmt, ...) KP_PRINTF(3, 4);
int kp_err_setv(struct kp_err *err, enum kp_code code, const char *fmt, va_list ap) KP_PRINTF(3, 0);
/* As kp_err_set with errno's text appended; the code follows from errno (ENOENT: NOT_FOUND, EACCES:
 * PERMISSION_DENIED, ...). */
int kp_err_sys(struct kp_err *err, int errno_value, const char *fmt, ...) KP_PRINTF(3, 4);
/* Puts "context: " in front of the message, keeps everything else. */
int kp_err_wrap(struct kp_err *err, const char *fmt, ...) KP_PRINTF(2, 3);
/* INVALID_ARGUMENT that names a request parameter. */
int kp_err_param(struct kp_err *err, const char *param, const char *fmt, ...) KP_PRINTF(3, 4);

const char *kp_code_name(enum kp_code code);        /* "INVALID_ARGUMENT" */
const char *kp_code_reason(enum kp_code code);      /* "InvalidArgument" */
const char *kp_code_openai_type(enum kp_code code); /* "invalid_request_error" */
int kp_code_http(enum kp_code code);                /* 400 */
bool kp_code_retryable(enum kp_code code);

#endif

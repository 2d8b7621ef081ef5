/* DESIGN: one table for Anthropic's side, by code. 529 is for what passes when somebody else is done (no engine, all full); 429 would be a
   limit of the client's own, which nobody has yet. */
#include "sidecar/errors.h"

#include "json/write.h"

static const struct anthropic {
	enum kp_code code;
	int status; /* 0: that of the code */
	const char *type;
} anthropic[] = {
	{ KP_UNAUTHENTICATED, 0, "authentication_error" },
	{ KP_PERMISSION_DENIED, 0, "permission_error" },
	{ KP_NOT_FOUND, 0, "not_found_error" },
	{ KP_TOO_LARGE, 0, "request_too_large" },
	{ KP_RESOURCE_EXHAUSTED, 529, "overloaded_error" },
	{ KP_UNAVAILABLE, 529, "overloaded_error" },
	{ KP_DEADLINE_EXCEEDED, 0, "timeout_error" },
	{ KP_UNKNOWN, 500, "api_error" },
	{ KP_INTERNAL, 500, "api_error" },
	{ KP_DATA_LOSS, 500, "api_error" },
	{ KP_ABORTED, 500, "api_error" },
	{ KP_CANCELLED, 0, "api_error" },
};

static struct anthropic anthropic_of(enum kp_code code)
{
	for (size_t i = 0; i < KP_LEN(anthropic); i++) {
		if (anthropic[i].code == code) {
			return anthropic[i];
		}
	}
	return (struct anthropic){ code, 0, "invalid_request_error" };
}

int kp_error_status(enum kp_dialect d, enum kp_code code)
{
	int status = d == KP_DIALECT_ANTHROPIC ? anthropic_of(code).status : 0;
	return status ? status : kp_code_http(code);
}

void kp_error_write(
	enum kp_dialect d, const struct kp_err *err, kp_str request_id, struct kp_buf *out)
{
	if (d == KP_DIALECT_OPENAI) {
		kp_json_w_err(out, err);
		return;
	}
	kp_buf_lit(out, "{\"type\":\"error\",\"error\":{\"type\":");
	kp_json_w_str(out, kp_str_c(anthropic_of(err->code).type));
	kp_buf_lit(out, ",\"message\":");
	kp_json_w_str(out, kp_str_c(err->msg));
	if (err->reason) {
		kp_buf_printf(out, ",\"details\":{\"error_code\":\"%s\"}", err->reason);
	}
	kp_buf_lit(out, "},\"request_id\":");
	kp_json_w_str(out, request_id);
	kp_buf_addc(out, '}');
}

size_t kp_id_headers(enum kp_dialect d, kp_str request_id, struct kp_header ret[KP_ID_HEADERS])
{
	size_t n = 0;
	if (!request_id.n) {
		return 0;
	}
	ret[n++] = (struct kp_header){ KP_S("x-request-id"), request_id };
	if (d == KP_DIALECT_ANTHROPIC) {
		ret[n++] = (struct kp_header){ KP_S("request-id"), request_id };
	}
	return n;
}

void kp_error_reply_as(struct kp_stream *s, enum kp_dialect d, int status, const struct kp_err *err,
	kp_str request_id)
{
	struct kp_header headers[2 + KP_ID_HEADERS] = { { KP_S("content-type"),
		KP_S("application/json") } };
	size_t n = 1;
	KP_AUTO(buf) struct kp_buf out;
	kp_buf_init(&out, 16384);
	kp_error_write(d, err, request_id, &out);
	if (kp_code_retryable(err->code)) {
		headers[n++] = (struct kp_header){ KP_S("retry-after"), KP_S("1") };
	}
	n += kp_id_headers(d, request_id, &headers[n]);
	kp_stream_reply(s, status, headers, n, kp_buf_str(&out));
}

void kp_error_reply(
	struct kp_stream *s, enum kp_dialect d, const struct kp_err *err, kp_str request_id)
{
	kp_error_reply_as(s, d, kp_error_status(d, err->code), err, request_id);
}

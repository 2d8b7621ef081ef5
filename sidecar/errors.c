/* DESIGN: see errors.h. `code` is the machine word of the error, or null; `param` the input that is
 * wrong, or null. */
#include "sidecar/errors.h"

#include "json/write.h"

static void string_or_null(struct kp_buf *out, const char *z)
{
	if (z && z[0]) {
		kp_json_w_str(out, kp_str_c(z));
	} else {
		kp_buf_lit(out, "null");
	}
}

void kp_error_json(struct kp_buf *out, const struct kp_err *err)
{
	kp_buf_lit(out, "{\"error\":{\"message\":");
	kp_json_w_str(out, kp_str_c(err->msg));
	kp_buf_lit(out, ",\"type\":");
	kp_json_w_str(out, kp_str_c(kp_code_openai_type(err->code)));
	kp_buf_lit(out, ",\"param\":");
	string_or_null(out, err->param);
	kp_buf_lit(out, ",\"code\":");
	string_or_null(out, err->reason);
	kp_buf_lit(out, "}}");
}

void kp_error_reply_id(struct kp_stream *s, const struct kp_err *err, kp_str request_id)
{
	struct kp_header headers[3] = { { KP_S("content-type"), KP_S("application/json") } };
	size_t n = 1;
	KP_AUTO(buf) struct kp_buf out;
	kp_buf_init(&out, 16384);
	kp_error_json(&out, err);
	if (kp_code_retryable(err->code)) {
		headers[n++] = (struct kp_header){ KP_S("retry-after"), KP_S("1") };
	}
	if (request_id.n) {
		headers[n++] = (struct kp_header){ KP_S("x-request-id"), request_id };
	}
	kp_stream_reply(s, kp_code_http(err->code), headers, n, kp_buf_str(&out));
}

void kp_error_reply(struct kp_stream *s, const struct kp_err *err)
{
	kp_error_reply_id(s, err, KP_STR_NULL);
}

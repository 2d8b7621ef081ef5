/* DESIGN: see errors.h. */
#include "sidecar/errors.h"

#include "json/write.h"

void kp_error_reply_id(struct kp_stream *s, const struct kp_err *err, kp_str request_id)
{
	struct kp_header headers[3] = { { KP_S("content-type"), KP_S("application/json") } };
	size_t n = 1;
	KP_AUTO(buf) struct kp_buf out;
	kp_buf_init(&out, 16384);
	kp_json_w_err(&out, err);
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

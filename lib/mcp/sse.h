/* Server-sent events (WHATWG HTML, "Parsing an event stream"), as MCP uses them: bytes in, however they are cut, the data of each event out. Only
   events of the type "message", which is that of those without one; `id` and `retry` mean nothing here, since nothing is resumed. */
#ifndef KP_MCP_SSE_H
#define KP_MCP_SSE_H

#include "base/buf.h"

struct kp_sse {
	struct kp_buf line, data;
	int (*event)(void *ctx, kp_str data, struct kp_err *err); /* -1: feeding ends */
	void *ctx;
	bool has_data, is_other, after_cr, is_begun;
};

/* max_bytes: of one event's data, and of a line */
void kp_sse_init(struct kp_sse *s, size_t max_bytes, int (*event)(void *, kp_str, struct kp_err *),
	void *ctx);
void kp_sse_fini(struct kp_sse *s); /* zeroed is fine */
/* TOO_LARGE at the limit. An event that the end of the stream cuts off does not count. */
int kp_sse_feed(struct kp_sse *s, kp_str bytes, struct kp_err *err) KP_MUST_USE;

#endif

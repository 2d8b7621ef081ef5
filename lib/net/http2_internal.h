/* An HTTP/2 session, shared by http2.c (what comes in, time, life) and http2_send.c (what goes out). Private to these two. */
#ifndef KP_NET_HTTP2_INTERNAL_H
#define KP_NET_HTTP2_INTERNAL_H

#include "net/server_internal.h"

#include <nghttp2/nghttp2.h>

enum {
	KP_H2_CREDIT_MAX = 1000, /* frames that cost us work and the client nothing */
	/* Each DATA frame we send may be answered by two WINDOW_UPDATEs and a PING. */
	KP_H2_CREDIT_PER_DATA = 3,
};

struct kp_http2 {
	struct kp_http_conn *hc;
	nghttp2_session *ng;
	struct kp_list streams;
	struct kp_list work;    /* streams with something to do outside nghttp2's callbacks */
	struct kp_list closing; /* nghttp2 has closed them while handlers could not be told */
	int32_t fresh;          /* the stream that was written to last */
	bool busy;              /* inside nghttp2 */
	bool eager;             /* inside a handler's write */
	size_t n_streams;
	struct kp_defer defer;
	struct kp_http2_head head; /* the open header block */
	int64_t head_ns;           /* since when it is open, 0: none */
	int64_t idle_ns;
	int64_t credit, credit_ns;
	int32_t last_id; /* of a request */
	int32_t gap_from,
		gap_to; /* identifiers the client skipped last: using one later is an error (RFC 9113, 5.1.1) */
	int64_t goaway_ns; /* drain: when the final GOAWAY is due, 0: not draining */
	bool goaway_sent, flooded, stalled;
};

/* http2.c */
/* Sends, and looks after what is in `work` and `closing`, at the end of the iteration. */
void kp_http2_later(struct kp_http2 *h);
void kp_http2_want_work(struct kp_http2 *h, struct kp_stream *s);
static inline int64_t kp_http2_now(const struct kp_http2 *h)
{
	return kp_loop_now(h->hc->server->loop);
}

/* http2_send.c */
void kp_http2_send_callbacks(nghttp2_session_callbacks *callbacks);
/* nghttp2_session_send, marked as running. */
int kp_http2_send(struct kp_http2 *h);
void kp_http2_reset(struct kp_stream *s, uint32_t code);
static inline size_t kp_http2_out_left(const struct kp_stream *s)
{
	return s->out.b.n - s->out.off;
}
/* For kp_http2_proto. */
void kp_http2_respond(struct kp_stream *s, int status, const struct kp_header *headers, size_t n,
	int64_t content_length);
void kp_http2_write(struct kp_stream *s, kp_str bytes);
void kp_http2_finish(struct kp_stream *s, const struct kp_header *trailers, size_t n);
void kp_http2_abort(struct kp_stream *s);
size_t kp_http2_queued(const struct kp_stream *s);

#endif

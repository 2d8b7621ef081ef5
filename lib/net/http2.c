/* DESIGN: an nghttp2 server session on a connection. nghttp2 keeps the protocol; here are the requests, the limits and the bytes. Input goes through
   nghttp2_session_mem_recv; output is made by `pump` at the end of the loop's iteration, straight into the connection's queue, and stops when the kernel is
   full, so that what is waiting stays in the streams' own queues (and counts there).

   One header block at a time can be open on a connection, so its fields gather in one scratch buffer of the session; the stream is allocated, head and all, when
   the block is complete. Body bytes are delivered as they come and returned to the windows then; while a stream is paused they are held, at
   most a window of them. Frames that cost us work and the client nothing draw on a credit that time and the data we send refill; who overdraws it is
   ended with ENHANCE_YOUR_CALM.

   A stream's memory goes when nghttp2 closes it; the session's when no callback of it can be on the stack (fini). */
#include "net/server_internal.h"

#include "base/mem.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>

enum {
	STREAM_WINDOW = 1 << 20,
	CONN_WINDOW = 8 << 20,
	MAX_OUT =
		64
		<< 20, /* of one stream; a handler that ignores kp_stream_queued loses the stream */
	CREDIT_MAX = 1000, /* frames */
	CREDIT_PER_S = 100,
	CREDIT_PER_DATA =
		3, /* each DATA frame we send may be answered by two WINDOW_UPDATEs and a PING */
	DRAIN_GRACE_MS = 500, /* between "no new streams soon" and "none after this one" */
};

struct kp_http2 {
	struct kp_http_conn *hc;
	nghttp2_session *ng;
	struct kp_list streams;
	struct kp_list work; /* streams with something to do outside nghttp2's callbacks */
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

static nghttp2_session_callbacks *callbacks;
static nghttp2_option *option;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void pump(struct kp_defer *d);

static void later(struct kp_http2 *h)
{
	if (!h->hc->dead) {
		kp_loop_defer(h->hc->server->loop, &h->defer, pump);
	}
}

static void want_work(struct kp_http2 *h, struct kp_stream *s)
{
	if (!kp_list_linked(&s->work)) {
		kp_list_push(&h->work, &s->work);
	}
	later(h);
}

static int64_t now_of(const struct kp_http2 *h)
{
	return kp_loop_now(h->hc->server->loop);
}

/* ---- sending ---- */

static bool is_stalled(struct kp_http2 *h)
{
	h->stalled = kp_conn_blocked_since(h->hc->conn) != 0;
	return h->stalled;
}

static ssize_t on_send(nghttp2_session *ng, const uint8_t *p, size_t n, int flags, void *user)
{
	struct kp_http2 *h = user;
	(void)ng, (void)flags;
	if (h->hc->dead) {
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	if (is_stalled(h)) {
		return NGHTTP2_ERR_WOULDBLOCK;
	}
	kp_conn_write(h->hc->conn, kp_str_n(p, n));
	return (ssize_t)n;
}

static size_t out_left(const struct kp_stream *s)
{
	return s->out.b.n - s->out.off;
}

static nghttp2_nv *make_nv(const struct kp_header *headers, size_t n, size_t extra, char **ret_text)
{
	size_t bytes = 0;
	for (size_t i = 0; i < n; i++) {
		bytes += headers[i].value.n;
	}
	nghttp2_nv *nv = kp_xmalloc((n + extra) * sizeof(*nv) + bytes);
	*ret_text = (char *)(nv + n + extra);
	return nv;
}

static nghttp2_nv nv_of(kp_str name, kp_str value)
{
	return (nghttp2_nv){ kp_unconst(name.p), kp_unconst(value.p), name.n, value.n,
		NGHTTP2_NV_FLAG_NONE };
}

/* Adds the headers that are not ours to set, with clean values; how many. */
static size_t add_nv(nghttp2_nv *nv, char *text, const struct kp_header *headers, size_t n)
{
	size_t count = 0;
	for (size_t i = 0; i < n; i++) {
		if (!kp_stream_header_is_ours(headers[i].name)) {
			kp_stream_copy_value(text, headers[i].value);
			nv[count++] = nv_of(headers[i].name, kp_str_n(text, headers[i].value.n));
			text += headers[i].value.n;
		}
	}
	return count;
}

static void submit_trailers(struct kp_http2 *h, struct kp_stream *s)
{
	char *text;
	nghttp2_nv *nv = make_nv(s->trailers, s->n_trailers, 0, &text);
	size_t n = add_nv(nv, text, s->trailers, s->n_trailers);
	nghttp2_submit_trailer(h->ng, s->id, nv, n);
	kp_mem_free(nv);
}

static ssize_t on_read(nghttp2_session *ng, int32_t id, uint8_t *buf, size_t length,
	uint32_t *flags, nghttp2_data_source *source, void *user)
{
	struct kp_stream *s = source->ptr;
	size_t left = out_left(s), n = KP_MIN(left, length);
	(void)ng, (void)id, (void)buf;
	if (left == 0 && !s->finished) {
		s->deferred = true;
		return NGHTTP2_ERR_DEFERRED;
	}
	*flags |= NGHTTP2_DATA_FLAG_NO_COPY;
	if (n == left && s->finished) {
		*flags |= NGHTTP2_DATA_FLAG_EOF;
		if (s->n_trailers > 0) {
			*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
			submit_trailers(user, s);
		}
	}
	return (ssize_t)n;
}

static int on_send_data(nghttp2_session *ng, nghttp2_frame *frame, const uint8_t *head,
	size_t length, nghttp2_data_source *source, void *user)
{
	struct kp_http2 *h = user;
	struct kp_stream *s = source->ptr;
	(void)ng, (void)frame; /* no padding: there is no select_padding_callback */
	if (h->hc->dead) {
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	if (is_stalled(h)) {
		return NGHTTP2_ERR_WOULDBLOCK;
	}
	char *p = kp_conn_room(h->hc->conn, 9 + length);
	if (!p) {
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	memcpy(p, head, 9);
	if (length > 0) {
		memcpy(p + 9, s->out.b.p + s->out.off, length);
		kp_conn_queue_took(h->hc->server->loop, &s->out, length);
		h->credit = KP_MIN(h->credit + CREDIT_PER_DATA, (int64_t)CREDIT_MAX);
	}
	kp_conn_written(h->hc->conn, 9 + length);
	s->progress_ns = now_of(h);
	if (s->above_high && out_left(s) <= h->hc->server->limits.low_water) {
		want_work(h, s);
	}
	return 0;
}

static int on_frame_send(nghttp2_session *ng, const nghttp2_frame *frame, void *user)
{
	struct kp_stream *s;
	(void)user;
	if ((frame->hd.type != NGHTTP2_DATA && frame->hd.type != NGHTTP2_HEADERS) ||
		!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM) ||
		!(s = nghttp2_session_get_stream_user_data(ng, frame->hd.stream_id))) {
		return 0;
	}
	s->end_sent = true;
	if (!s->body_done) {
		/* The answer is complete, the request is not: the client need not send the rest (RFC 9113, 8.1). */
		nghttp2_submit_rst_stream(ng, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_NO_ERROR);
	}
	return 0;
}

static void reset(struct kp_stream *s, uint32_t code)
{
	nghttp2_submit_rst_stream(s->hc->h2->ng, NGHTTP2_FLAG_NONE, s->id, code);
	later(s->hc->h2);
}

static void respond(struct kp_stream *s, int status, const struct kp_header *headers, size_t n,
	int64_t content_length)
{
	struct kp_http2 *h = s->hc->h2;
	char code[16], length[24], *text;
	int n_code = snprintf(code, sizeof(code), "%03d", status);
	nghttp2_nv *nv = make_nv(headers, n, 3, &text);
	size_t k = 0;
	nv[k++] = nv_of(KP_S(":status"), kp_str_n(code, (size_t)n_code));
	if (status == 100) {
		nghttp2_submit_headers(h->ng, NGHTTP2_FLAG_NONE, s->id, NULL, nv, k, NULL);
	} else {
		if (!s->bare) {
			nv[k++] = nv_of(KP_S("date"), kp_http_server_date(s->hc->server));
		}
		if (content_length >= 0 && !s->bare && status != 204 && status != 304) {
			int m = snprintf(length, sizeof(length), "%lld", (long long)content_length);
			nv[k++] = nv_of(KP_S("content-length"), kp_str_n(length, (size_t)m));
		}
		k += add_nv(nv + k, text, headers, n);
		nghttp2_data_provider data = { .source.ptr = s, .read_callback = on_read };
		bool only_head = s->whole && (s->bodyless || content_length == 0);
		if (nghttp2_submit_response(h->ng, s->id, nv, k, only_head ? NULL : &data) != 0) {
			reset(s, NGHTTP2_INTERNAL_ERROR);
		}
	}
	kp_mem_free(nv);
	later(h);
}

static void resume(struct kp_http2 *h, struct kp_stream *s)
{
	if (s->deferred) {
		s->deferred = false;
		nghttp2_session_resume_data(h->ng, s->id);
	}
	later(h);
}

static void write_body(struct kp_stream *s, kp_str bytes)
{
	struct kp_http2 *h = s->hc->h2;
	if (!kp_conn_queue_room(s->hc->server->loop, &s->out, bytes.n, MAX_OUT)) {
		kp_stream_abort(s);
		return;
	}
	if (out_left(s) == 0) {
		s->progress_ns = now_of(h);
	}
	kp_buf_add(&s->out.b, bytes);
	resume(h, s);
}

static void finish(struct kp_stream *s, const struct kp_header *trailers, size_t n)
{
	if (n > 0 && !s->bodyless) {
		size_t bytes = 0;
		for (size_t i = 0; i < n; i++) {
			bytes += trailers[i].name.n + trailers[i].value.n;
		}
		s->trailers = kp_xmalloc(n * sizeof(*trailers) + bytes);
		s->n_trailers = n;
		char *p = (char *)(s->trailers + n);
		for (size_t i = 0; i < n; i++) {
			kp_str name = trailers[i].name, value = trailers[i].value;
			memcpy(p, name.p, name.n);
			memcpy(p + name.n, value.n ? value.p : "", value.n);
			s->trailers[i] =
				(struct kp_header){ { p, name.n }, { p + name.n, value.n } };
			p += name.n + value.n;
		}
	}
	resume(s->hc->h2, s);
}

static void abort_stream(struct kp_stream *s)
{
	reset(s, s->cancel ? NGHTTP2_CANCEL : NGHTTP2_INTERNAL_ERROR);
}

static size_t queued(const struct kp_stream *s)
{
	return out_left(s);
}

/* ---- limits on what a client may make us do ---- */

static int flood(struct kp_http2 *h)
{
	if (!h->flooded) {
		h->flooded = true;
		kp_http_count(&h->hc->server->counters.refused[KP_HTTP_REFUSED_FLOOD], 1);
		nghttp2_session_terminate_session(h->ng, NGHTTP2_ENHANCE_YOUR_CALM);
	}
	return NGHTTP2_ERR_CALLBACK_FAILURE;
}

static bool is_free(const nghttp2_frame_hd *hd)
{
	switch (hd->type) {
	case NGHTTP2_HEADERS:
		return true; /* a request: limited by what it starts */
	case NGHTTP2_DATA:
		return (hd->flags & NGHTTP2_FLAG_END_STREAM) ||
		       hd->length > ((hd->flags & NGHTTP2_FLAG_PADDED) ? 256 : 0);
	default:
		return false;
	}
}

static int on_begin_frame(nghttp2_session *ng, const nghttp2_frame_hd *hd, void *user)
{
	struct kp_http2 *h = user;
	if (h->hc->dead || h->flooded) {
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	if (hd->type != NGHTTP2_CONTINUATION) {
		h->head_ns = 0; /* a block that ended in an error is never reported as received */
	}
	if (hd->type == NGHTTP2_HEADERS && hd->stream_id >= h->gap_from &&
		hd->stream_id <= h->gap_to) {
		nghttp2_session_terminate_session(ng, NGHTTP2_PROTOCOL_ERROR);
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	if (is_free(hd)) {
		return 0;
	}
	int64_t now = now_of(h), earned = (now - h->credit_ns) * CREDIT_PER_S / KP_NS_PER_S;
	if (earned > 0) {
		h->credit = KP_MIN(h->credit + earned, (int64_t)CREDIT_MAX);
		h->credit_ns = now;
	}
	return --h->credit < 0 ? flood(h) : 0;
}

/* ---- heads ---- */

static int on_begin_headers(nghttp2_session *ng, const nghttp2_frame *frame, void *user)
{
	struct kp_http2 *h = user;
	(void)ng;
	if (h->hc->dead) {
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	kp_http2_head_begin(&h->head, h->hc->server);
	h->head_ns = now_of(h);
	if (frame->hd.stream_id > h->last_id) {
		if (frame->hd.stream_id > h->last_id + 2) {
			h->gap_from = h->last_id + 2;
			h->gap_to = frame->hd.stream_id - 2;
		}
		h->last_id = frame->hd.stream_id;
	}
	kp_http_conn_arm(h->hc, h->head_ns + h->hc->server->limits.head_timeout_ns);
	return 0;
}

static int on_header(nghttp2_session *ng, const nghttp2_frame *frame, const uint8_t *name,
	size_t n_name, const uint8_t *value, size_t n_value, uint8_t flags, void *user)
{
	struct kp_http2 *h = user;
	(void)ng, (void)flags;
	bool is_request = frame->headers.cat == NGHTTP2_HCAT_REQUEST;
	struct kp_header x = { kp_str_n(name, n_name), kp_str_n(value, n_value) };
	/* Trailers are checked by nghttp2, counted here and dropped. */
	if (!kp_http2_head_add(&h->head, &h->hc->server->limits, is_request, x)) {
		h->head_ns = 0;
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	}
	return 0;
}

static int on_invalid_frame(nghttp2_session *ng, const nghttp2_frame *frame, int code, void *user)
{
	struct kp_http2 *h = user;
	(void)ng, (void)code;
	if (frame->hd.type == NGHTTP2_HEADERS) {
		h->head_ns = 0;
	}
	return 0;
}

/* The block is complete: a request. */
static int start_request(struct kp_http2 *h, int32_t id, bool no_body)
{
	struct kp_http_conn *hc = h->hc;
	struct kp_refusal r;
	struct kp_stream *s = kp_http2_head_stream(&h->head, hc, &r);
	if (!s) {
		nghttp2_submit_rst_stream(h->ng, NGHTTP2_FLAG_NONE, id, NGHTTP2_ENHANCE_YOUR_CALM);
		return 0;
	}
	s->id = id;
	s->body_done = no_body;
	s->expect = s->expect && !no_body;
	s->body_ns = s->progress_ns = now_of(h);
	kp_buf_init(&s->held, STREAM_WINDOW + (64 << 10));
	kp_list_push(&h->streams, &s->link);
	h->n_streams++;
	nghttp2_session_set_stream_user_data(h->ng, id, s);
	kp_http_count(&hc->server->counters.http2_requests, 1);
	kp_http_conn_arm(hc, s->body_ns + KP_MIN(hc->server->limits.body_timeout_ns,
						  hc->server->limits.write_timeout_ns));
	if (r.status) {
		kp_stream_refuse(s, r.status, r.why, KP_STREAM_PROTOCOL);
		return 0;
	}
	return kp_stream_start(s) ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* ---- bodies ---- */

static void consumed(struct kp_http2 *h, int32_t id, size_t n)
{
	if (n > 0) {
		nghttp2_session_consume(h->ng, id, n);
		later(h);
	}
}

static int on_data(
	nghttp2_session *ng, uint8_t flags, int32_t id, const uint8_t *p, size_t n, void *user)
{
	struct kp_http2 *h = user;
	struct kp_stream *s = nghttp2_session_get_stream_user_data(ng, id);
	(void)flags;
	if (h->hc->dead) {
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	if (!s || !s->ops) { /* refused, or broken off: what still comes is dropped */
		consumed(h, id, n);
		return 0;
	}
	s->body_ns = now_of(h);
	if (s->paused || s->held.n > 0) {
		kp_buf_add(&s->held, kp_str_n(p, n)); /* the window keeps this small */
		return kp_buf_ok(&s->held) ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	}
	bool fits = kp_stream_deliver(s, kp_str_n(p, n));
	if (h->hc->dead) {
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	if (!fits) {
		kp_stream_refuse(s, 413, "the request body is too large", KP_STREAM_PROTOCOL);
	}
	consumed(h, id, n);
	return h->hc->dead ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

/* Outside nghttp2's callbacks: body held while the stream was paused, and room in its queue. */
static void work_on(struct kp_http2 *h, struct kp_stream *s)
{
	if (!s->paused && s->held.n > 0) {
		struct kp_buf held = s->held;
		kp_buf_init(&s->held, held.max);
		bool fits = kp_stream_deliver(s, kp_buf_str(&held));
		size_t n = held.n;
		kp_buf_fini(&held);
		if (h->hc->dead) {
			return;
		}
		consumed(h, s->id, n);
		if (!fits) {
			kp_stream_refuse(
				s, 413, "the request body is too large", KP_STREAM_PROTOCOL);
		}
	}
	if (!h->hc->dead && s->body_done && s->held.n == 0 && !s->end_told) {
		kp_stream_body_end(s);
	}
	if (!h->hc->dead) {
		kp_stream_low(s);
	}
}

static void pause_stream(struct kp_stream *s)
{
	if (!s->paused) {
		s->body_ns = now_of(s->hc->h2);
		want_work(s->hc->h2, s);
	}
}

static int on_frame_recv(nghttp2_session *ng, const nghttp2_frame *frame, void *user)
{
	struct kp_http2 *h = user;
	bool last = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
	if (h->hc->dead) {
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	struct kp_stream *s = nghttp2_session_get_stream_user_data(ng, frame->hd.stream_id);
	if (frame->hd.type == NGHTTP2_HEADERS) {
		h->head_ns = 0;
		int rc = 0;
		if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
			rc = start_request(h, frame->hd.stream_id, last);
			s = NULL; /* it has had its `end` */
		}
		kp_http2_head_end(&h->head, h->hc->server);
		if (rc != 0) {
			return rc;
		}
	} else if (frame->hd.type == NGHTTP2_RST_STREAM && s) {
		kp_stream_close(s, s->end_sent ? KP_STREAM_FINISHED : KP_STREAM_CLIENT_GONE);
	}
	if (s && last && (frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS)) {
		s->body_done = true;
		if (s->held.n == 0) {
			kp_stream_body_end(s);
		}
	}
	return h->hc->dead ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int on_stream_close(nghttp2_session *ng, int32_t id, uint32_t code, void *user)
{
	struct kp_http2 *h = user;
	struct kp_stream *s = nghttp2_session_get_stream_user_data(ng, id);
	(void)code;
	if (!s) {
		return 0;
	}
	kp_stream_close(s, s->end_sent  ? KP_STREAM_FINISHED
			   : s->aborted ? KP_STREAM_ABORTED
					: KP_STREAM_PROTOCOL);
	if (h->hc->dead) {
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	nghttp2_session_set_stream_user_data(ng, id, NULL);
	if (s->held.n > 0) {
		nghttp2_session_consume_connection(ng, s->held.n); /* nobody will read it */
	}
	kp_stream_free(s);
	if (--h->n_streams == 0) {
		h->idle_ns = now_of(h);
		kp_http_conn_arm(h->hc, h->idle_ns + h->hc->server->limits.idle_timeout_ns);
		later(h); /* a draining connection ends now */
	}
	return 0;
}

/* ---- the session ---- */

static void pump(struct kp_defer *d)
{
	struct kp_http2 *h = KP_CONTAINER(d, struct kp_http2, defer);
	for (int round = 0; round < 4 && !h->hc->dead; round++) {
		struct kp_list *node;
		while (!h->hc->dead && (node = kp_list_pop(&h->work))) {
			work_on(h, KP_CONTAINER(node, struct kp_stream, work));
		}
		int rc = h->hc->dead ? 0 : nghttp2_session_send(h->ng);
		if (h->hc->dead) {
			return;
		}
		if (rc != 0) {
			kp_http_conn_end(h->hc, KP_HTTP_FINISH, KP_STREAM_PROTOCOL);
			return;
		}
		if (kp_list_empty(&h->work)) {
			break;
		}
	}
	if (h->hc->dead) {
		return;
	}
	bool over = !nghttp2_session_want_read(h->ng) && !nghttp2_session_want_write(h->ng);
	if (over || (h->goaway_sent && h->n_streams == 0 && !nghttp2_session_want_write(h->ng))) {
		kp_http_conn_end(h->hc, KP_HTTP_FINISH,
			h->flooded ? KP_STREAM_PROTOCOL : KP_STREAM_FINISHED);
	} else if (!kp_list_empty(&h->work)) {
		later(h);
	}
}

static void input(struct kp_http_conn *hc, kp_str bytes)
{
	struct kp_http2 *h = hc->h2;
	ssize_t n = nghttp2_session_mem_recv(h->ng, (const uint8_t *)bytes.p, bytes.n);
	if (hc->dead) {
		return;
	}
	if (n < 0) {
		/* CALLBACK_FAILURE is ours and has said why. The others are nghttp2's own limits: answers that pile up,
		   header blocks in too many pieces. */
		if (n != NGHTTP2_ERR_CALLBACK_FAILURE && n != NGHTTP2_ERR_BAD_CLIENT_MAGIC) {
			flood(h);
		}
		/* What there is to say (GOAWAY) goes out with the last flush. */
		nghttp2_session_send(h->ng);
		if (!hc->dead) {
			kp_http_conn_end(h->hc, KP_HTTP_FINISH, KP_STREAM_PROTOCOL);
		}
		return;
	}
	later(h);
}

static void eof(struct kp_http_conn *hc)
{
	bool quiet = hc->h2->n_streams == 0;
	kp_http_conn_end(hc, quiet ? KP_HTTP_FINISH : KP_HTTP_CLOSE,
		quiet ? KP_STREAM_FINISHED : KP_STREAM_CLIENT_GONE);
}

static void sent(struct kp_http_conn *hc)
{
	if (hc->h2->stalled) {
		later(hc->h2);
	}
}

static void drain(struct kp_http_conn *hc)
{
	struct kp_http2 *h = hc->h2;
	if (!h->goaway_ns) {
		h->goaway_ns = now_of(h) + DRAIN_GRACE_MS * KP_NS_PER_MS;
		nghttp2_submit_shutdown_notice(h->ng);
		kp_http_conn_arm(hc, h->goaway_ns);
		later(h);
	}
}

/* ---- time ---- */

/* The stream's next deadline, after acting on one that has passed. */
static int64_t check_stream(struct kp_http2 *h, struct kp_stream *s, int64_t now)
{
	const struct kp_http_limits *l = &h->hc->server->limits;
	int64_t next = now + l->write_timeout_ns;
	if (out_left(s) > 0) {
		int64_t at = s->progress_ns + l->write_timeout_ns;
		if (at <= now) {
			kp_http_count(&h->hc->server->counters.refused[KP_HTTP_REFUSED_SLOW], 1);
			kp_stream_close(s, KP_STREAM_TIMEOUT);
			if (!h->hc->dead) {
				reset(s, NGHTTP2_CANCEL);
			}
			return next;
		}
		next = at;
	}
	if (!s->body_done && !s->paused && !s->finished && !s->aborted) {
		int64_t at = s->body_ns + l->body_timeout_ns;
		if (at <= now) {
			kp_stream_refuse(
				s, 408, "the body did not arrive in time", KP_STREAM_TIMEOUT);
			return next;
		}
		next = KP_MIN(next, at);
	}
	return next;
}

static int64_t check(struct kp_http_conn *hc, int64_t now)
{
	struct kp_http2 *h = hc->h2;
	const struct kp_http_limits *l = &hc->server->limits;
	int64_t next = now + l->write_timeout_ns, blocked = kp_conn_blocked_since(hc->conn);
	if ((blocked && now - blocked >= l->write_timeout_ns) ||
		(h->head_ns && now - h->head_ns >= l->head_timeout_ns)) {
		kp_http_count(&hc->server->counters.refused[KP_HTTP_REFUSED_SLOW], 1);
		kp_http_conn_end(h->hc, KP_HTTP_ABORT, KP_STREAM_TIMEOUT);
		return 0;
	}
	if (h->head_ns) {
		next = KP_MIN(next, h->head_ns + l->head_timeout_ns);
	}
	kp_list_each_safe (node, &h->streams) {
		int64_t at = check_stream(h, KP_CONTAINER(node, struct kp_stream, link), now);
		if (hc->dead) {
			return 0;
		}
		next = KP_MIN(next, at);
	}
	if (h->goaway_ns && !h->goaway_sent) {
		if (h->goaway_ns <= now) {
			h->goaway_sent = true;
			nghttp2_submit_goaway(h->ng, NGHTTP2_FLAG_NONE,
				nghttp2_session_get_last_proc_stream_id(h->ng), NGHTTP2_NO_ERROR,
				NULL, 0);
			later(h);
		} else {
			next = KP_MIN(next, h->goaway_ns);
		}
	}
	if (h->n_streams == 0) {
		if (now - h->idle_ns >= l->idle_timeout_ns) {
			nghttp2_session_terminate_session(h->ng, NGHTTP2_NO_ERROR);
			later(h);
		} else {
			next = KP_MIN(next, h->idle_ns + l->idle_timeout_ns);
		}
	}
	return next;
}

/* ---- life ---- */

static void make_callbacks(void)
{
	KP_BUG_ON(
		nghttp2_session_callbacks_new(&callbacks) != 0 || nghttp2_option_new(&option) != 0);
	nghttp2_session_callbacks_set_send_callback(callbacks, on_send);
	nghttp2_session_callbacks_set_send_data_callback(callbacks, on_send_data);
	nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
	nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
	nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
	nghttp2_option_set_no_auto_window_update(option, 1);
	nghttp2_option_set_max_outbound_ack(
		option, CREDIT_MAX + 1); /* the credit ends a flood of PING and SETTINGS */
}

void kp_http2_start(struct kp_http_conn *hc)
{
	pthread_once(&once, make_callbacks);
	struct kp_http2 *h = hc->h2 = kp_new(struct kp_http2);
	const struct kp_http_limits *l = &hc->server->limits;
	h->hc = hc;
	h->credit = CREDIT_MAX;
	h->last_id = -1;
	h->gap_from = h->gap_to = -1;
	h->credit_ns = h->idle_ns = now_of(h);
	kp_list_init(&h->streams);
	kp_list_init(&h->work);
	kp_buf_init(&h->head.text, l->max_head_bytes);
	KP_BUG_ON(nghttp2_session_server_new2(&h->ng, callbacks, h, option) != 0);
	nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, l->max_streams },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,
			(uint32_t)KP_MIN(l->max_head_bytes, (size_t)UINT32_MAX) },
	};
	nghttp2_submit_settings(h->ng, NGHTTP2_FLAG_NONE, settings, KP_LEN(settings));
	nghttp2_session_set_local_window_size(h->ng, NGHTTP2_FLAG_NONE, 0, CONN_WINDOW);
	kp_http_conn_arm(hc, h->idle_ns + l->idle_timeout_ns);
	later(h);
}

static void drop(struct kp_http_conn *hc, enum kp_stream_end why)
{
	struct kp_http2 *h = hc->h2;
	/* `closed` may end other streams' work but cannot unlink them: memory goes in fini. */
	kp_list_each_safe (node, &h->streams) {
		struct kp_stream *s = KP_CONTAINER(node, struct kp_stream, link);
		kp_stream_close(s, s->end_sent ? KP_STREAM_FINISHED : why);
	}
}

static void fini(struct kp_http_conn *hc)
{
	struct kp_http2 *h = hc->h2;
	struct kp_list *node;
	kp_loop_undefer(&h->defer);
	while ((node = kp_list_pop(&h->streams))) {
		kp_stream_free(KP_CONTAINER(node, struct kp_stream, link));
	}
	nghttp2_session_del(h->ng);
	kp_buf_fini(&h->head.text);
	kp_vec_fini(&h->head.fields);
	kp_free(&hc->h2);
}

const struct kp_http_proto kp_http2_proto = {
	.input = input,
	.eof = eof,
	.sent = sent,
	.check = check,
	.drain = drain,
	.drop = drop,
	.fini = fini,
	.respond = respond,
	.write = write_body,
	.finish = finish,
	.abort = abort_stream,
	.pause = pause_stream,
	.queued = queued,
};

/* DESIGN: an nghttp2 server session on a connection. nghttp2 keeps the protocol; here are the requests and the limits, in http2_send.c the answers. Input goes through
   nghttp2_session_mem_recv; output is made by `pump` at the end of the loop's iteration.

   One header block at a time can be open on a connection, so its fields gather in one scratch buffer of the session; the stream is allocated, head and all, when
   the block is complete. Body bytes are delivered as they come and returned to the windows then; while a stream is paused they are held, at
   most a window of them. Frames that cost us work and the client nothing draw on a credit that time and the data we send refill; who overdraws it is
   ended with ENHANCE_YOUR_CALM.

   A stream's memory goes when nghttp2 closes it; the session's when no callback of it can be on the stack (fini). */
#include "net/http2_internal.h"

#include "base/mem.h"

enum {
	STREAM_WINDOW = 1 << 20,
	CONN_WINDOW = 8 << 20,
	CREDIT_PER_S = 100,
	DRAIN_GRACE_MS = 500, /* between "no new streams soon" and "none after this one" */
};

static nghttp2_session_callbacks *callbacks;
static nghttp2_option *option;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void pump(struct kp_defer *d);

void kp_http2_later(struct kp_http2 *h)
{
	if (!h->hc->dead) {
		kp_loop_defer(h->hc->server->loop, &h->defer, pump);
	}
}

void kp_http2_want_work(struct kp_http2 *h, struct kp_stream *s)
{
	if (!kp_list_linked(&s->work)) {
		kp_list_push(&h->work, &s->work);
	}
	kp_http2_later(h);
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
	int64_t now = kp_http2_now(h), earned = (now - h->credit_ns) * CREDIT_PER_S / KP_NS_PER_S;
	if (earned > 0) {
		h->credit = KP_MIN(h->credit + earned, (int64_t)KP_H2_CREDIT_MAX);
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
	h->head_ns = kp_http2_now(h);
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
	s->body_ns = s->progress_ns = kp_http2_now(h);
	kp_buf_init(&s->held, STREAM_WINDOW + (64 << 10));
	kp_list_push(&h->streams, &s->link);
	h->n_streams++;
	nghttp2_session_set_stream_user_data(h->ng, id, s);
	kp_http_count(&hc->server->counters.http2_requests, 1);
	const struct kp_http_limits *l = &hc->server->limits;
	int64_t writes_ns = KP_MIN(l->write_timeout_ns, l->stream_timeout_ns);
	kp_http_conn_arm(hc, s->body_ns + KP_MIN(l->body_timeout_ns, writes_ns));
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
		kp_http2_later(h);
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
	s->body_ns = kp_http2_now(h);
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
		s->body_ns = kp_http2_now(s->hc->h2);
		kp_http2_want_work(s->hc->h2, s);
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

/* false: the connection is dead. */
static bool close_stream(struct kp_http2 *h, struct kp_stream *s)
{
	kp_stream_close(s, s->end_sent  ? KP_STREAM_FINISHED
			   : s->aborted ? KP_STREAM_ABORTED
					: KP_STREAM_PROTOCOL);
	if (h->hc->dead) {
		return false;
	}
	kp_stream_free(s);
	if (--h->n_streams == 0) {
		h->idle_ns = kp_http2_now(h);
		kp_http_conn_arm(h->hc, h->idle_ns + h->hc->server->limits.idle_timeout_ns);
		kp_http2_later(h); /* a draining connection ends now */
	}
	return true;
}

static int on_stream_close(nghttp2_session *ng, int32_t id, uint32_t code, void *user)
{
	struct kp_http2 *h = user;
	struct kp_stream *s = nghttp2_session_get_stream_user_data(ng, id);
	(void)code;
	if (!s) {
		return 0;
	}
	nghttp2_session_set_stream_user_data(ng, id, NULL);
	if (s->held.n > 0) {
		nghttp2_session_consume_connection(ng, s->held.n); /* nobody will read it */
	}
	if (h->eager) {
		kp_list_del(&s->work);
		kp_list_push(&h->closing, &s->work);
		kp_http2_later(h);
		return 0;
	}
	return close_stream(h, s) ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* ---- the session ---- */

static void pump(struct kp_defer *d)
{
	struct kp_http2 *h = KP_CONTAINER(d, struct kp_http2, defer);
	for (int round = 0; round < 4 && !h->hc->dead; round++) {
		struct kp_list *node;
		while (!h->hc->dead && (node = kp_list_pop(&h->closing))) {
			close_stream(h, KP_CONTAINER(node, struct kp_stream, work));
		}
		while (!h->hc->dead && (node = kp_list_pop(&h->work))) {
			work_on(h, KP_CONTAINER(node, struct kp_stream, work));
		}
		h->fresh = 0;
		int rc = h->hc->dead ? 0 : kp_http2_send(h);
		if (h->hc->dead) {
			return;
		}
		if (rc != 0) {
			kp_http_conn_end(h->hc, KP_HTTP_FINISH, KP_STREAM_PROTOCOL);
			return;
		}
		if (kp_list_empty(&h->work) && kp_list_empty(&h->closing)) {
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
	} else if (!kp_list_empty(&h->work) || !kp_list_empty(&h->closing)) {
		kp_http2_later(h);
	}
}

static void input(struct kp_http_conn *hc, kp_str bytes)
{
	struct kp_http2 *h = hc->h2;
	h->busy = true;
	ssize_t n = nghttp2_session_mem_recv(h->ng, (const uint8_t *)bytes.p, bytes.n);
	h->busy = false;
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
		kp_http2_send(h);
		if (!hc->dead) {
			kp_http_conn_end(h->hc, KP_HTTP_FINISH, KP_STREAM_PROTOCOL);
		}
		return;
	}
	kp_http2_later(h);
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
		kp_http2_later(hc->h2);
	}
}

static void drain(struct kp_http_conn *hc)
{
	struct kp_http2 *h = hc->h2;
	if (!h->goaway_ns) {
		h->goaway_ns = kp_http2_now(h) + DRAIN_GRACE_MS * KP_NS_PER_MS;
		nghttp2_submit_shutdown_notice(h->ng);
		kp_http_conn_arm(hc, h->goaway_ns);
		kp_http2_later(h);
	}
}

/* ---- time ---- */

/* The stream's next deadline, after acting on one that has passed. */
static int64_t check_stream(struct kp_http2 *h, struct kp_stream *s, int64_t now)
{
	const struct kp_http_limits *l = &h->hc->server->limits;
	int64_t next = now + l->stream_timeout_ns;
	if (kp_http2_out_left(s) > 0) {
		int64_t at = s->progress_ns + l->stream_timeout_ns;
		if (at <= now) {
			kp_http_count(&h->hc->server->counters.refused[KP_HTTP_REFUSED_SLOW], 1);
			kp_stream_close(s, KP_STREAM_TIMEOUT);
			if (!h->hc->dead) {
				kp_http2_reset(s, NGHTTP2_CANCEL);
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
			kp_http2_later(h);
		} else {
			next = KP_MIN(next, h->goaway_ns);
		}
	}
	if (h->n_streams == 0) {
		if (now - h->idle_ns >= l->idle_timeout_ns) {
			nghttp2_session_terminate_session(h->ng, NGHTTP2_NO_ERROR);
			kp_http2_later(h);
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
	kp_http2_send_callbacks(callbacks);
	nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
	nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
	nghttp2_option_set_no_auto_window_update(option, 1);
	nghttp2_option_set_max_outbound_ack(
		option, KP_H2_CREDIT_MAX + 1); /* the credit ends a flood of PING and SETTINGS */
}

void kp_http2_start(struct kp_http_conn *hc)
{
	pthread_once(&once, make_callbacks);
	struct kp_http2 *h = hc->h2 = kp_new(struct kp_http2);
	const struct kp_http_limits *l = &hc->server->limits;
	h->hc = hc;
	h->credit = KP_H2_CREDIT_MAX;
	h->last_id = -1;
	h->gap_from = h->gap_to = -1;
	h->credit_ns = h->idle_ns = kp_http2_now(h);
	kp_list_init(&h->streams);
	kp_list_init(&h->work);
	kp_list_init(&h->closing);
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
	kp_http2_later(h);
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
	.respond = kp_http2_respond,
	.write = kp_http2_write,
	.finish = kp_http2_finish,
	.abort = kp_http2_abort,
	.pause = pause_stream,
	.queued = kp_http2_queued,
};

/* DESIGN: the sending half of an HTTP/2 session: answers become frames. What a handler writes waits in its stream's queue until nghttp2 asks for it (on_read), and is
   copied once, behind the frame's head into the connection's queue (on_send_data). When the kernel takes no more, nghttp2 is told WOULDBLOCK, so that what waits stays in
   the streams' queues and counts there.

   Sending happens at the end of the iteration (http2.c, pump), and for streams that are written to in turn as soon as the next one's turn comes (send_others). */
#include "net/http2_internal.h"

#include "base/mem.h"

#include <stdio.h>

/* Of one stream; a handler that ignores kp_stream_queued loses the stream. */
enum { MAX_OUT = 64 << 20 };

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
	size_t left = kp_http2_out_left(s), n = KP_MIN(left, length);
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
		h->credit = KP_MIN(h->credit + KP_H2_CREDIT_PER_DATA, (int64_t)KP_H2_CREDIT_MAX);
	}
	kp_conn_written(h->hc->conn, 9 + length);
	s->progress_ns = kp_http2_now(h);
	if (s->above_high && kp_http2_out_left(s) <= h->hc->server->limits.low_water) {
		kp_http2_want_work(h, s);
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

void kp_http2_reset(struct kp_stream *s, uint32_t code)
{
	nghttp2_submit_rst_stream(s->hc->h2->ng, NGHTTP2_FLAG_NONE, s->id, code);
	kp_http2_later(s->hc->h2);
}

void kp_http2_respond(struct kp_stream *s, int status, const struct kp_header *headers, size_t n,
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
			kp_http2_reset(s, NGHTTP2_INTERNAL_ERROR);
		}
	}
	kp_mem_free(nv);
	kp_http2_later(h);
}

static void resume(struct kp_http2 *h, struct kp_stream *s)
{
	if (s->deferred) {
		s->deferred = false;
		nghttp2_session_resume_data(h->ng, s->id);
	}
	kp_http2_later(h);
}

int kp_http2_send(struct kp_http2 *h)
{
	h->busy = true;
	int rc = nghttp2_session_send(h->ng);
	h->busy = false;
	return rc;
}

/* Streams that are written to in one iteration are sent one after the other, as soon as the next one's turn comes, not all at its end: nghttp2's queue of
   streams stays short and their bytes warm, which takes a third off a small write. What one writes in a row still makes one frame, and all of it one
   write to the socket. No handler may be called from here, so streams that this closes wait for the end of the iteration. */
static void send_others(struct kp_http2 *h, const struct kp_stream *s)
{
	if (h->fresh != s->id && h->fresh != 0 && !h->busy) {
		h->eager = true;
		(void)kp_http2_send(h); /* what fails, fails again at the end of the iteration */
		h->eager = false;
	}
	h->fresh = s->id;
}

void kp_http2_write(struct kp_stream *s, kp_str bytes)
{
	struct kp_http2 *h = s->hc->h2;
	send_others(h, s);
	if (!kp_conn_queue_room(s->hc->server->loop, &s->out, bytes.n, MAX_OUT)) {
		kp_stream_abort(s);
		return;
	}
	if (kp_http2_out_left(s) == 0) {
		s->progress_ns = kp_http2_now(h);
	}
	kp_buf_add(&s->out.b, bytes);
	resume(h, s);
}

void kp_http2_finish(struct kp_stream *s, const struct kp_header *trailers, size_t n)
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

void kp_http2_abort(struct kp_stream *s)
{
	kp_http2_reset(s, s->cancel ? NGHTTP2_CANCEL : NGHTTP2_INTERNAL_ERROR);
}

size_t kp_http2_queued(const struct kp_stream *s)
{
	return kp_http2_out_left(s);
}

void kp_http2_send_callbacks(nghttp2_session_callbacks *callbacks)
{
	nghttp2_session_callbacks_set_send_callback(callbacks, on_send);
	nghttp2_session_callbacks_set_send_data_callback(callbacks, on_send_data);
	nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
}

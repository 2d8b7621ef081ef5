/* DESIGN: what a request is to a handler, the same for both versions of HTTP: order of the callbacks, lengths kept, refusals in JSON. The versions' own files
   are reached through hc->proto. No callback of the handler is made inside a kp_stream_* call of the handler: finish, abort and resume only mark the
   stream, the version's file goes on from its own loop or from the end of the iteration. */
#include "net/server_internal.h"

#include "base/mem.h"

#include <stdio.h>

struct kp_stream *kp_stream_new(struct kp_http_conn *hc, size_t extra)
{
	struct kp_stream *s = kp_try_malloc(sizeof(*s) + extra);
	if (s) {
		*s = (struct kp_stream){ .hc = hc, .response_left = -1 };
		s->req.content_length = -1;
		s->req.tls = hc->conn && kp_conn_is_tls(hc->conn);
		s->req.scheme = s->req.tls ? KP_S("https") : KP_S("http");
		s->req.peer = kp_str_n(hc->peer, hc->n_peer);
		s->req.peer_names = hc->peer_names;
		s->req.n_peer_names = hc->n_peer_names;
	}
	return s;
}

void kp_stream_free(struct kp_stream *s)
{
	if (s) {
		kp_conn_queue_fini(s->hc->server->loop, &s->out);
		kp_buf_fini(&s->held);
		kp_free(&s->trailers);
		kp_list_del(&s->link);
		kp_list_del(&s->work);
		kp_mem_free(s);
	}
}

/* ---- towards the handler ---- */

bool kp_stream_start(struct kp_stream *s)
{
	struct kp_http_conn *hc = s->hc;
	const struct kp_http_handler *handler = &hc->server->handler;
	s->in_request = true;
	handler->request(handler->ctx, s, &s->req);
	if (hc->dead) {
		return false;
	}
	s->in_request = false;
	/* A handler that neither takes the stream nor answers would leave the client waiting for ever. */
	KP_BUG_ON(!s->accepted && !s->finished && !s->aborted);
	if (!s->responded && !s->paused) {
		kp_stream_100(s);
	}
	if (s->body_done) {
		kp_stream_body_end(s);
	}
	return !hc->dead;
}

void kp_stream_100(struct kp_stream *s)
{
	if (s->expect) {
		s->expect = false;
		s->hc->proto->respond(s, 100, NULL, 0, -1);
	}
}

bool kp_stream_deliver(struct kp_stream *s, kp_str piece)
{
	if (s->into && !s->finished && !s->aborted) {
		kp_buf_add(s->into, piece);
		if (kp_buf_ok(s->into)) {
			piece.p = s->into->p + s->into->n - piece.n;
		}
	}
	return kp_stream_tell(s, piece);
}

bool kp_stream_tell(struct kp_stream *s, kp_str piece)
{
	s->body_bytes += (int64_t)piece.n;
	if ((uint64_t)s->body_bytes > s->hc->server->limits.max_body_bytes) {
		return false;
	}
	if (s->ops && s->ops->data && !s->finished && !s->aborted) {
		s->ops->data(s->user, piece);
	}
	return true;
}

void kp_stream_body_end(struct kp_stream *s)
{
	s->body_done = true;
	if (!s->end_told) {
		s->end_told = true;
		if (s->ops && s->ops->end && !s->finished && !s->aborted) {
			s->ops->end(s->user);
		}
	}
}

void kp_stream_close(struct kp_stream *s, enum kp_stream_end why)
{
	const struct kp_stream_ops *ops = s->ops;
	s->ops = NULL;
	s->into = NULL;
	if (!s->told) {
		s->told = true;
		if (ops && ops->closed) {
			ops->closed(s->user, why);
		}
	}
}

void kp_stream_low(struct kp_stream *s)
{
	if (s->above_high && s->hc->proto->queued(s) <= s->hc->server->limits.low_water) {
		s->above_high = false;
		if (s->ops && s->ops->writable && !s->finished && !s->aborted) {
			s->ops->writable(s->user);
		}
	}
}

/* ---- refusals ---- */

static const struct {
	int status;
	enum kp_http_refused counter;
	const char *type, *code;
} refusals[] = {
	{ 400, KP_HTTP_REFUSED_MALFORMED, "invalid_request_error", "bad_request" },
	{ 408, KP_HTTP_REFUSED_SLOW, "timeout_error", "request_timeout" },
	{ 413, KP_HTTP_REFUSED_BODY, "invalid_request_error", "body_too_large" },
	{ 414, KP_HTTP_REFUSED_HEAD, "invalid_request_error", "target_too_long" },
	{ 417, KP_HTTP_REFUSED_MALFORMED, "invalid_request_error", "expectation_failed" },
	{ 431, KP_HTTP_REFUSED_HEAD, "invalid_request_error", "headers_too_large" },
	{ 501, KP_HTTP_REFUSED_MALFORMED, "invalid_request_error", "not_implemented" },
	{ 503, KP_HTTP_REFUSED_CONNECTIONS, "service_unavailable_error", "unavailable" },
	{ 505, KP_HTTP_REFUSED_MALFORMED, "invalid_request_error", "version_not_supported" },
};

void kp_stream_refuse(struct kp_stream *s, int status, const char *text, enum kp_stream_end why)
{
	struct kp_http_conn *hc = s->hc;
	size_t i = 0;
	while (i < KP_LEN(refusals) - 1 && refusals[i].status != status) {
		i++;
	}
	kp_http_count(&hc->server->counters.refused[refusals[i].counter], 1);
	kp_stream_close(s, why);
	if (hc->dead) {
		return;
	}
	if (s->responded || s->aborted) {
		kp_stream_abort(s);
		return;
	}
	if (hc->server->refuse && hc->server->refuse(s, &s->req, status, text)) {
		return;
	}
	char body[256];
	int n = snprintf(body, sizeof(body),
		"{\"error\":{\"message\":\"%s\",\"type\":\"%s\",\"param\":null,\"code\":\"%s\"}}",
		text, refusals[i].type, refusals[i].code);
	const struct kp_header type = { KP_S("content-type"), KP_S("application/json") };
	kp_stream_reply(s, status, &type, 1, kp_str_n(body, (size_t)n));
}

/* ---- from the handler ---- */

void kp_stream_accept(struct kp_stream *s, const struct kp_stream_ops *ops, void *user)
{
	KP_BUG_ON(s->accepted || !s->in_request);
	s->accepted = true;
	s->ops = ops;
	s->user = user;
}

void kp_stream_collect(struct kp_stream *s, struct kp_buf *into)
{
	KP_BUG_ON(!s->accepted || s->body_bytes);
	s->into = into;
	if (s->req.content_length > 0 && !kp_http1_is_bulk(s)) {
		/* All of it: what grows is copied. Pages that nothing comes for are never taken. */
		kp_buf_reserve(into, (size_t)s->req.content_length);
	}
}

bool kp_stream_header_is_ours(kp_str name)
{
	return kp_str_eq(name, KP_S("content-length")) ||
	       kp_str_eq(name, KP_S("transfer-encoding")) || kp_str_eq(name, KP_S("connection")) ||
	       kp_str_eq(name, KP_S("date"));
}

void kp_stream_copy_value(char *to, kp_str value)
{
	for (size_t i = 0; i < value.n; i++) {
		char c = value.p[i];
		bool breaks = ((unsigned char)c < 0x20 && c != '\t') || c == 0x7f;
		to[i] = c;
		if (breaks) {
			to[i] = ' ';
		}
	}
}

void kp_stream_respond(struct kp_stream *s, int status, const struct kp_header *headers, size_t n,
	int64_t content_length)
{
	KP_BUG_ON(s->responded || status < 200 || status > 999);
	s->responded = true;
	if (s->hc->dead) {
		return;
	}
	s->bodyless = status == 204 || status == 304 || kp_str_eq(s->req.method, KP_S("HEAD"));
	s->response_left = content_length;
	s->hc->proto->respond(s, status, headers, n, content_length);
}

void kp_stream_write(struct kp_stream *s, kp_str bytes)
{
	if (s->finished || s->aborted || s->hc->dead) {
		return;
	}
	KP_BUG_ON(!s->responded);
	if (s->response_left >= 0) {
		bytes = kp_str_sub(bytes, 0,
			(size_t)s->response_left); /* more than was announced never leaves */
		s->response_left -= (int64_t)bytes.n;
	}
	if (bytes.n == 0 || s->bodyless) {
		return;
	}
	kp_http_count(&s->hc->server->counters.bytes_out, bytes.n);
	s->hc->proto->write(s, bytes);
	if (s->hc->proto->queued(s) > s->hc->server->limits.high_water) {
		s->above_high = true;
	}
}

void kp_stream_finish(struct kp_stream *s)
{
	kp_stream_finish_trailers(s, NULL, 0);
}

void kp_stream_finish_trailers(struct kp_stream *s, const struct kp_header *trailers, size_t n)
{
	if (s->finished || s->aborted || s->hc->dead) {
		return;
	}
	KP_BUG_ON(!s->responded);
	if (s->response_left > 0 && !s->bodyless) {
		kp_stream_abort(s); /* less than was announced must not look complete */
		return;
	}
	s->finished = true;
	s->hc->proto->finish(s, trailers, n);
}

void kp_stream_abort(struct kp_stream *s)
{
	if (!s->aborted && !s->finished && !s->hc->dead) {
		s->aborted = true;
		s->hc->proto->abort(s);
	}
}

void kp_stream_pause(struct kp_stream *s, bool paused)
{
	if (s->paused != paused && !s->hc->dead) {
		s->paused = paused;
		if (!paused && !s->responded && !s->in_request) {
			kp_stream_100(s);
		}
		s->hc->proto->pause(s);
	}
}

size_t kp_stream_queued(const struct kp_stream *s)
{
	return s->hc->dead ? 0 : s->hc->proto->queued(s);
}

void kp_stream_reply(
	struct kp_stream *s, int status, const struct kp_header *headers, size_t n, kp_str body)
{
	s->whole = true;
	kp_stream_respond(s, status, headers, n, (int64_t)body.n);
	kp_stream_write(s, body);
	kp_stream_finish(s);
}

/* DESIGN: HTTP/1.1 on a connection, one request in flight. `run` is the one loop that uses up input: head, body, next head; what it cannot use yet stays in h1->in
   (bounded: beyond 64 KiB of pipelined bytes the socket is not read). Answers are written straight into the connection's queue, so a head and a small
   body leave in one send().

   A request is over when its answer is complete and the client keeps up. What is then left of its body is dropped if it is little, else the connection ends
   after the answer. Every refusal ends the connection: what follows it cannot be trusted. */
#include "net/server_internal.h"

#include "base/mem.h"

enum {
	MAX_PIPELINED = 64 << 10, /* bytes kept for later while a request is in flight */
	MAX_DROPPED = 64 << 10,   /* rest of a body read for nothing to keep the connection */
	BULK = 256 << 10, /* a body of so much is for the receivers, but for the last bytes */
};

static void run_deferred(struct kp_defer *d);

static struct kp_http_conn *conn_of(struct kp_http1 *h)
{
	return KP_CONTAINER(h, struct kp_http_conn, h1);
}

static void later(struct kp_http1 *h)
{
	if (!conn_of(h)->dead) {
		kp_loop_defer(conn_of(h)->server->loop, &h->defer, run_deferred);
	}
}

/* ---- time ---- */

static int64_t due(const struct kp_http_conn *hc)
{
	const struct kp_http1 *h = &hc->h1;
	const struct kp_http_limits *l = &hc->server->limits;
	if (h->s == NULL && h->body == KP_BODY_NONE) {
		return h->since_ns + (h->in.n ? l->head_timeout_ns : l->idle_timeout_ns);
	}
	int64_t blocked = kp_conn_blocked_since(hc->conn);
	/* Without an obligation a look now and then finds a client that stopped taking bytes meanwhile. */
	int64_t at = (blocked ? blocked : kp_loop_now(hc->server->loop)) + l->write_timeout_ns;
	if (h->body != KP_BODY_NONE && !(h->s && h->s->paused)) {
		at = KP_MIN(at, h->since_ns + l->body_timeout_ns);
	}
	return at;
}

static void refuse_head(struct kp_http1 *h, struct kp_stream *s, struct kp_refusal r);

static int64_t check(struct kp_http_conn *hc, int64_t now)
{
	struct kp_http1 *h = &hc->h1;
	const struct kp_http_limits *l = &hc->server->limits;
	int64_t blocked = kp_conn_blocked_since(hc->conn);
	if (blocked && now - blocked >= l->write_timeout_ns) {
		kp_http_count(&hc->server->counters.refused[KP_HTTP_REFUSED_SLOW], 1);
		kp_http_conn_end(hc, KP_HTTP_ABORT, KP_STREAM_TIMEOUT);
	} else if (now < due(hc)) {
		return due(hc);
	} else if (h->s && h->body != KP_BODY_NONE) {
		h->keep_alive = false;
		kp_stream_refuse(h->s, 408, "the body did not arrive in time", KP_STREAM_TIMEOUT);
		later(h);
	} else if (h->s == NULL && h->in.n > 0 && h->body == KP_BODY_NONE) {
		refuse_head(h, NULL, kp_refuse(408, "the request head did not arrive in time"));
		later(h);
	} else {
		kp_http_conn_end(hc, KP_HTTP_FINISH, KP_STREAM_FINISHED);
	}
	return hc->dead ? 0 : now + KP_NS_PER_S;
}

/* ---- answers ---- */

static char *put(char *p, kp_str s)
{
	if (s.n) {
		memcpy(p, s.p, s.n);
	}
	return p + s.n;
}

static char *put_u64(char *p, uint64_t v, unsigned base)
{
	char tmp[20];
	size_t i = sizeof(tmp);
	do {
		tmp[--i] = "0123456789abcdef"[v % base];
		v /= base;
	} while (v);
	return put(p, kp_str_n(tmp + i, sizeof(tmp) - i));
}

static char *put_field(char *p, const struct kp_header *x)
{
	p = put(p, x->name);
	p = put(p, KP_S(": "));
	kp_stream_copy_value(p, x->value);
	return put(p + x->value.n, KP_S("\r\n"));
}

/* The field that says how long the body is. */
static char *put_framing(char *p, struct kp_stream *s, int status, int64_t content_length)
{
	struct kp_http1 *h = &s->hc->h1;
	if (status == 204 || status == 304) {
		return p;
	}
	if (content_length >= 0) {
		p = put(p, KP_S("content-length: "));
		return put(put_u64(p, (uint64_t)content_length, 10), KP_S("\r\n"));
	}
	if (s->req.version == 11) {
		s->chunked = true;
		return put(p, KP_S("transfer-encoding: chunked\r\n"));
	}
	h->keep_alive = false; /* HTTP/1.0: the end of the connection ends the body */
	return p;
}

static char *put_connection(char *p, const struct kp_stream *s)
{
	const struct kp_http1 *h = &s->hc->h1;
	if (!h->keep_alive) {
		return put(p, KP_S("connection: close\r\n"));
	}
	return s->req.version == 10 ? put(p, KP_S("connection: keep-alive\r\n")) : p;
}

static void respond(struct kp_stream *s, int status, const struct kp_header *headers, size_t n,
	int64_t content_length)
{
	struct kp_http_conn *hc = s->hc;
	struct kp_http1 *h = &hc->h1;
	if (status == 100) {
		kp_conn_write(hc->conn, KP_S("HTTP/1.1 100 Continue\r\n\r\n"));
		return;
	}
	/* Who refuses before the body came does not read it; who was not told to go on may or may not send it. */
	if ((!s->accepted && !s->body_done &&
		    (h->body == KP_BODY_CHUNKED || h->body_left > MAX_DROPPED)) ||
		s->expect || hc->draining) {
		h->keep_alive = false;
	}
	kp_str reason = kp_str_c(kp_http_reason(status));
	size_t room = 256 + reason.n;
	for (size_t i = 0; i < n; i++) {
		room += headers[i].name.n + headers[i].value.n + 4;
	}
	char *start = kp_conn_room(hc->conn, room);
	if (!start) {
		return;
	}
	char *p = put(start, KP_S("HTTP/1.1 "));
	p = put_u64(p, (uint64_t)status, 10);
	p = put(put(put(p, KP_S(" ")), reason), KP_S("\r\ndate: "));
	p = put(put(p, kp_http_server_date(hc->server)), KP_S("\r\n"));
	for (size_t i = 0; i < n; i++) {
		p = kp_stream_header_is_ours(headers[i].name) ? p : put_field(p, &headers[i]);
	}
	p = put_framing(p, s, status, content_length);
	p = put(put_connection(p, s), KP_S("\r\n"));
	kp_conn_written(hc->conn, (size_t)(p - start));
}

static void write_body(struct kp_stream *s, kp_str bytes)
{
	struct kp_conn *conn = s->hc->conn;
	if (!s->chunked) {
		kp_conn_write(conn, bytes);
		return;
	}
	char *start = kp_conn_room(conn, bytes.n + 20);
	if (start) {
		char *p = put(put_u64(start, bytes.n, 16), KP_S("\r\n"));
		p = put(put(p, bytes), KP_S("\r\n"));
		kp_conn_written(conn, (size_t)(p - start));
	}
}

static void finish(struct kp_stream *s, const struct kp_header *trailers, size_t n)
{
	struct kp_conn *conn = s->hc->conn;
	if (s->chunked && !s->bodyless) {
		size_t room = 8;
		for (size_t i = 0; i < n; i++) {
			room += trailers[i].name.n + trailers[i].value.n + 4;
		}
		char *start = kp_conn_room(conn, room);
		if (start) {
			char *p = put(start, KP_S("0\r\n"));
			for (size_t i = 0; i < n; i++) {
				p = put_field(p, &trailers[i]);
			}
			kp_conn_written(conn, (size_t)(put(p, KP_S("\r\n")) - start));
		}
	}
	later(&s->hc->h1);
}

static void abort_stream(struct kp_stream *s)
{
	later(&s->hc->h1);
}

static size_t queued(const struct kp_stream *s)
{
	return kp_conn_queued(s->hc->conn);
}

/* ---- requests ---- */

static void set_body(struct kp_http1 *h, const struct kp_head *head)
{
	h->body = head->chunked              ? KP_BODY_CHUNKED
		  : head->content_length > 0 ? KP_BODY_LENGTH
					     : KP_BODY_NONE;
	h->body_left = head->content_length > 0 ? (uint64_t)head->content_length : 0;
	h->chunked = (struct kp_chunked){ 0 };
}

/* s: NULL, or a stream that knows what could be read of the head; is taken. */
static void refuse_head(struct kp_http1 *h, struct kp_stream *s, struct kp_refusal r)
{
	if (r.not_http) {
		kp_stream_free(s);
		s = NULL;
	} else if (!s) {
		s = kp_stream_new(conn_of(h), 0);
	}
	h->keep_alive = false;
	h->body = KP_BODY_NONE;
	if (!s) {
		kp_http_count(&conn_of(h)->server->counters.refused[KP_HTTP_REFUSED_MALFORMED], 1);
		kp_http_conn_end(conn_of(h), KP_HTTP_FINISH, KP_STREAM_PROTOCOL);
		return;
	}
	s->req.version = 11;
	h->s = s;
	kp_stream_refuse(s, r.status, r.why, KP_STREAM_PROTOCOL);
}

static void fill_request(struct kp_stream *s, const struct kp_head *head)
{
	s->req.method = head->method;
	s->req.target = head->target;
	s->req.path = head->path;
	s->req.query = head->query;
	s->req.authority = head->authority;
	s->req.headers = head->headers;
	s->req.n_headers = head->n_headers;
	s->req.content_length = head->content_length;
	s->req.version = head->version;
	s->expect = head->expect_continue;
}

/* A whole head is at `bytes`. */
static void start_request(struct kp_http1 *h, kp_str bytes)
{
	struct kp_http_conn *hc = conn_of(h);
	struct kp_http_server *server = hc->server;
	size_t headers_bytes = h->scan.n_lines * sizeof(struct kp_header);
	struct kp_stream *s = kp_stream_new(hc, headers_bytes + bytes.n);
	if (!s) {
		kp_http_conn_end(hc, KP_HTTP_ABORT, KP_STREAM_PROTOCOL);
		return;
	}
	struct kp_header *headers = (struct kp_header *)(s + 1);
	char *text = (char *)headers + headers_bytes;
	memcpy(text, bytes.p, bytes.n);
	struct kp_head head;
	struct kp_refusal r = kp_head_parse(text, bytes.n, &server->head_limits, headers, &head);
	kp_http_count(&server->counters.http1_requests, 1);
	h->since_ns = kp_loop_now(server->loop);
	if (r.status) {
		s->req.path = head.path;
		refuse_head(h, s, r);
		return;
	}
	h->s = s;
	fill_request(s, &head);
	set_body(h, &head);
	h->keep_alive = head.keep_alive && !hc->draining;
	s->body_done = h->body == KP_BODY_NONE;
	if (h->body_left > server->limits.max_body_bytes) {
		h->keep_alive = false;
		kp_stream_refuse(s, 413, "the request body is too large", KP_STREAM_PROTOCOL);
		return;
	}
	kp_stream_start(s);
}

static void bad_body(struct kp_http1 *h, int status, const char *why)
{
	h->keep_alive = false;
	h->body = KP_BODY_NONE;
	if (h->s && !h->s->finished) {
		kp_stream_refuse(h->s, status, why, KP_STREAM_PROTOCOL);
	} else if (!h->s) {
		kp_http_conn_end(conn_of(h), KP_HTTP_FINISH, KP_STREAM_PROTOCOL);
	}
}

/* A piece of the body at the front of *in. */
static void take_body(struct kp_http1 *h, kp_str *in)
{
	kp_str piece = KP_STR_NULL;
	enum kp_chunk_event event = KP_CHUNK_DATA;
	h->since_ns = kp_loop_now(conn_of(h)->server->loop);
	if (h->body == KP_BODY_LENGTH) {
		piece = kp_str_sub(*in, 0, h->body_left < in->n ? (size_t)h->body_left : in->n);
		*in = kp_str_skip(*in, piece.n);
		h->body_left -= piece.n;
		if (h->body_left == 0) {
			h->body = KP_BODY_NONE;
		}
	} else {
		event = kp_chunked_feed(&h->chunked, in, &piece);
		if (event == KP_CHUNK_END) {
			h->body = KP_BODY_NONE;
		}
	}
	if (event == KP_CHUNK_BAD) {
		bad_body(h, 400, h->chunked.why);
		return;
	}
	struct kp_stream *s = h->s;
	if (!s) { /* dropping the rest of a body whose request is answered */
		h->body_left -=
			h->body == KP_BODY_CHUNKED ? KP_MIN(h->body_left, (uint64_t)piece.n) : 0;
		if (h->body == KP_BODY_CHUNKED && h->body_left == 0) {
			bad_body(h, 413, "");
		}
		return;
	}
	if (piece.n > 0 && !kp_stream_deliver(s, piece)) {
		bad_body(h, 413, "the request body is too large");
		return;
	}
	if (h->body == KP_BODY_NONE && !conn_of(h)->dead) {
		kp_stream_body_end(s);
	}
}

/* The request in flight is answered or broken off: what becomes of the connection? true: the next request may come. */
static bool complete(struct kp_http1 *h)
{
	struct kp_http_conn *hc = conn_of(h);
	struct kp_stream *s = h->s;
	if (s->aborted) {
		/* What was sent goes out; chunks or a length that stay unfinished tell the client, without
		   either only a reset does. */
		bool tells = !s->responded || s->chunked || s->response_left >= 0;
		kp_conn_flush(hc->conn);
		kp_http_conn_end(hc, tells ? KP_HTTP_FINISH : KP_HTTP_ABORT, KP_STREAM_ABORTED);
		return false;
	}
	if (kp_conn_blocked_since(hc->conn)) {
		return false; /* `sent` comes back here */
	}
	bool droppable =
		h->body == KP_BODY_NONE ||
		(!s->expect && (h->body == KP_BODY_CHUNKED || h->body_left <= MAX_DROPPED));
	if (!h->keep_alive || !droppable || hc->draining) {
		kp_http_conn_end(hc, KP_HTTP_FINISH, KP_STREAM_FINISHED);
		return false;
	}
	h->s = NULL;
	h->scan = (struct kp_head_scan){ 0 };
	if (h->body == KP_BODY_CHUNKED) {
		h->body_left = MAX_DROPPED; /* counted down while dropping */
	}
	h->since_ns = kp_loop_now(hc->server->loop);
	kp_stream_close(s, KP_STREAM_FINISHED);
	kp_stream_free(s);
	return !hc->dead;
}

/* Uses up input as far as it goes; what is left of it. */
static kp_str run(struct kp_http1 *h, kp_str in)
{
	struct kp_http_conn *hc = conn_of(h);
	struct kp_refusal r = { .status = 0 };
	h->running = true;
	while (!hc->dead) {
		if (h->s && (h->s->finished || h->s->aborted)) {
			if (!complete(h)) {
				break;
			}
		} else if (h->body != KP_BODY_NONE) {
			if (in.n == 0 || (h->s && h->s->paused)) {
				break;
			}
			take_body(h, &in);
		} else if (h->s || in.n == 0) {
			break; /* the answer is under way, or there is nothing to do */
		} else {
			size_t n = kp_head_find_end(in, &h->scan, &hc->server->head_limits, &r);
			if (r.status) {
				refuse_head(h, NULL, r);
			} else if (n == 0) {
				break;
			} else {
				kp_str head = kp_str_sub(in, h->scan.begin, h->scan.begin + n);
				in = kp_str_skip(in, h->scan.begin + n);
				start_request(h, head);
			}
		}
	}
	h->running = false;
	return in;
}

/* ---- long bodies ---- */

/* The n bytes that came last; of a body that nobody wants, so many of no content. */
static kp_str last(const struct kp_buf *body, size_t n)
{
	return body ? kp_str_n(body->p + body->n - n, n) : (kp_str){ NULL, n };
}

bool kp_http1_is_bulk(const struct kp_stream *s)
{
	return s->hc->server->receivers && s->hc->proto == &kp_http1_proto && !s->req.tls &&
	       s->req.content_length >= BULK;
}

/* With so much left, an answer before the end of the body ends the connection: no bytes have to be dropped behind a receiver's back. */
static void receive_rest(struct kp_http1 *h)
{
	struct kp_http_conn *hc = conn_of(h);
	struct kp_stream *s = h->s;
	if (s && s->into && !s->finished && !s->aborted && h->body == KP_BODY_LENGTH &&
		h->body_left > MAX_DROPPED && h->in.n == 0 && kp_http1_is_bulk(s)) {
		(void)kp_conn_receive(hc->conn, hc->server->receivers, s->into, h->body_left);
	}
}

void kp_http1_received(struct kp_http_conn *hc, struct kp_buf *body, size_t n)
{
	struct kp_http1 *h = &hc->h1;
	struct kp_stream *s = h->s;
	bool failed = !kp_buf_ok(body);
	if (n > 0) {
		h->since_ns = kp_loop_now(hc->server->loop);
	}
	h->body_left -= n;
	if (s->into) {
		*s->into = *body;
		kp_buf_init(body, body->max);
	}
	if (failed || (n > 0 && !kp_stream_tell(s, last(s->into, n)))) {
		bad_body(h, 413, "the request body is too large");
	} else if (h->body_left == 0) {
		h->body = KP_BODY_NONE;
		kp_stream_body_end(s);
	}
	run_deferred(&h->defer);
}

static void settle(struct kp_http1 *h)
{
	struct kp_http_conn *hc = conn_of(h);
	if (hc->dead) {
		return;
	}
	bool paused_body = h->s && h->s->paused && h->body != KP_BODY_NONE;
	kp_conn_pause(hc->conn, paused_body || (h->s && h->in.n >= MAX_PIPELINED));
	kp_http_conn_arm(hc, due(hc));
	receive_rest(h);
}

static void input(struct kp_http_conn *hc, kp_str bytes)
{
	struct kp_http1 *h = &hc->h1;
	if (h->in.n == 0) {
		if (h->s == NULL && h->body == KP_BODY_NONE) {
			h->since_ns = kp_loop_now(hc->server->loop); /* of a new request */
		}
		bytes = run(h, bytes);
		if (hc->dead) {
			return;
		}
		if (bytes.n > 0) {
			kp_buf_add(&h->in, bytes);
		}
	} else {
		kp_buf_add(&h->in, bytes);
		kp_str rest = run(h, kp_buf_str(&h->in));
		if (hc->dead) {
			return;
		}
		kp_buf_consume(&h->in, h->in.n - rest.n);
	}
	if (!kp_buf_ok(&h->in)) {
		kp_http_conn_end(hc, KP_HTTP_ABORT, KP_STREAM_PROTOCOL); /* no memory */
		return;
	}
	if (h->in.n == 0) {
		kp_buf_fini(&h->in);
	}
	settle(h);
}

static void run_deferred(struct kp_defer *d)
{
	struct kp_http1 *h = KP_CONTAINER(d, struct kp_http1, defer);
	struct kp_http_conn *hc = conn_of(h);
	if (hc->dead || h->running) {
		return;
	}
	kp_str rest = run(h, kp_buf_str(&h->in));
	if (hc->dead) {
		return;
	}
	kp_buf_consume(&h->in, h->in.n - rest.n);
	if (h->in.n == 0) {
		kp_buf_fini(&h->in);
	}
	settle(h);
}

static void pause_stream(struct kp_stream *s)
{
	later(&s->hc->h1);
}

static void sent(struct kp_http_conn *hc)
{
	struct kp_http1 *h = &hc->h1;
	if (h->s && !h->s->finished) {
		kp_stream_low(h->s);
	} else if (h->s) {
		later(h);
	}
}

/* The client sends nothing more. One that asked and did not wait for the end of the answer counts as gone (ARCHITECTURE,
   "Decisions"). */
static void eof(struct kp_http_conn *hc)
{
	struct kp_http1 *h = &hc->h1;
	if (!h->s || h->s->finished) {
		kp_http_conn_end(hc, KP_HTTP_FINISH, KP_STREAM_FINISHED);
	} else {
		kp_http_conn_end(hc, KP_HTTP_CLOSE, KP_STREAM_CLIENT_GONE);
	}
}

static void drain(struct kp_http_conn *hc)
{
	struct kp_http1 *h = &hc->h1;
	h->keep_alive = false;
	if (!h->s && h->body == KP_BODY_NONE && h->in.n == 0) {
		kp_http_conn_end(hc, KP_HTTP_FINISH, KP_STREAM_FINISHED);
	}
}

static void drop(struct kp_http_conn *hc, enum kp_stream_end why)
{
	if (hc->h1.s) {
		kp_stream_close(hc->h1.s, why);
	}
}

static void fini(struct kp_http_conn *hc)
{
	kp_loop_undefer(&hc->h1.defer);
	kp_stream_free(hc->h1.s);
	hc->h1.s = NULL;
	kp_buf_fini(&hc->h1.in);
}

const struct kp_http_proto kp_http1_proto = {
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

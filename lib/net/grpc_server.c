/* DESIGN: a handler of the HTTP server (server.c) that makes calls of its streams. A call's memory lives from its head to the stream's `closed`; the
   request message gathers in it, is handed out once, and is freed before anything is sent. What a client promises costs nothing: `in` grows with what arrived, under the limit
   of one message and the limit of all that are arriving.

   A call ends once: `finish` (the handler's status, or ours) or the stream's `closed`, whichever comes first. After finish only the stream is left, which sends what
   is queued and then tells us; `ops` is NULL as soon as the handler has been told. Answers to what is wrong before the first message are trailers only.

   Refusals of the HTTP server itself (head or body too large, too slow) come through `refuse_http` as a gRPC status, since that is what the other side reads. */
#include "net/grpc_server.h"
#include "base/clock.h"
#include "net/grpc_wire.h"
#include "net/server_internal.h"

#include "base/mem.h"

#include <stdio.h>

enum {
	MAX_TRAILERS = 16,
	RESERVE_MAX = 16 << 10, /* room made for a message before its bytes are there */
	SMALL_MESSAGE = 256,    /* copied once more, which costs less than a second write */
};

struct kp_grpc_server {
	struct kp_loop *loop;
	struct kp_http_server *http;
	struct kp_grpc_handler handler;
	size_t max_message, max_arriving;
	size_t arriving; /* bytes in all calls' `in` */
	size_t n_calls;
	void (*done)(void *);
	void *done_arg;
};

struct kp_grpc_serving {
	struct kp_grpc_server *server;
	struct kp_stream *stream; /* NULL: closed */
	const struct kp_http_request *http;
	const struct kp_grpc_serving_ops *ops; /* NULL: not accepted, or told */
	void *user;
	struct kp_buf in; /* the request's prefix and message, as far as they are there */
	size_t need;      /* its length, once the prefix is there; 0: not yet */
	int64_t deadline_ns;
	struct kp_timer deadline;
	bool in_request, is_kept, accepted, responded, ended;
};

/* ---- answers ---- */

static const struct kp_header content_type = { { "content-type", 12 }, { "application/grpc", 16 } };

/* What a status becomes. */
struct last_block {
	struct kp_header h[4 + MAX_TRAILERS];
	size_t n;
	char code[4];
	struct kp_buf text;
};

static void add(struct last_block *b, kp_str name, kp_str value)
{
	b->h[b->n++] = (struct kp_header){ name, value };
}

static void add_trailer(struct last_block *b, const struct kp_header *x)
{
	struct kp_err err;
	size_t from = b->text.n;
	kp_str nothing = KP_S("");
	KP_BUG_ON(kp_grpc_metadata_check(x->name, nothing, &err) < 0);
	if (kp_grpc_is_binary(x->name)) {
		kp_grpc_base64(&b->text, x->value);
	} else {
		for (size_t i = 0; i < x->value.n; i++) {
			char c = x->value.p[i];
			kp_buf_addc(&b->text, c >= 0x20 && c <= 0x7e ? c : '?');
		}
	}
	add(b, x->name, kp_str_n(b->text.p + from, b->text.n - from));
}

static void make_block(struct last_block *b, bool alone, const struct kp_err *status,
	const struct kp_header *trailers, size_t n)
{
	kp_str message = status->code == KP_OK ? KP_STR_NULL : kp_str_c(status->msg);
	size_t room = 3 * message.n + 1;
	KP_BUG_ON(n > MAX_TRAILERS);
	for (size_t i = 0; i < n; i++) {
		room += 2 * trailers[i].value.n + 4;
	}
	b->n = 0;
	kp_buf_init(&b->text, SIZE_MAX);
	KP_BUG_ON(!kp_buf_reserve(&b->text, room)); /* so that no slice below moves */
	if (alone) {
		add(b, content_type.name, content_type.value);
	}
	if (alone && status->code == KP_UNIMPLEMENTED) {
		/* For a client whose compression was refused. */
		add(b, KP_S("grpc-accept-encoding"), KP_S("identity"));
	}
	int n_code = snprintf(b->code, sizeof(b->code), "%u", kp_grpc_status_of(status->code));
	add(b, KP_S("grpc-status"), kp_str_n(b->code, (size_t)n_code));
	if (message.n) {
		kp_grpc_percent_encode(&b->text, message);
		add(b, KP_S("grpc-message"), kp_buf_str(&b->text));
	}
	for (size_t i = 0; i < n; i++) {
		add_trailer(b, &trailers[i]);
	}
}

/* Ends the stream with a status; trailers only when no message has begun the answer. */
static void send_status(struct kp_stream *s, bool responded, const struct kp_err *status,
	const struct kp_header *trailers, size_t n)
{
	struct last_block b;
	make_block(&b, !responded, status, trailers, n);
	if (responded) {
		kp_stream_finish_trailers(s, b.h, b.n);
	} else {
		s->bare = true;
		kp_stream_reply(s, 200, b.h, b.n, KP_STR_NULL);
	}
	kp_buf_fini(&b.text);
}

static void drop_request(struct kp_grpc_serving *c)
{
	c->server->arriving -= c->in.n;
	kp_buf_fini(&c->in);
}

static void finish(struct kp_grpc_serving *c, const struct kp_err *status,
	const struct kp_header *trailers, size_t n)
{
	c->ended = true;
	kp_timer_stop(c->server->loop, &c->deadline);
	if (!c->in_request && !c->is_kept) {
		drop_request(c); /* else its message is being read */
	}
	send_status(c->stream, c->responded, status, trailers, n);
}

/* ---- the request ---- */

static int read_prefix(struct kp_grpc_serving *c, struct kp_err *err)
{
	const unsigned char *u = (const unsigned char *)c->in.p;
	size_t max = c->server->max_message;
	if (u[0] != 0) {
		return kp_err_set(err, KP_INTERNAL,
			"read request: %s, and no compression was announced",
			u[0] == 1 ? "it is compressed" : "its flag byte is invalid");
	}
	size_t len = (size_t)u[1] << 24 | (size_t)u[2] << 16 | (size_t)u[3] << 8 | u[4];
	if (len > max) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED,
			"read request of %zu bytes: the limit is %zu bytes", len, max);
	}
	c->need = KP_GRPC_PREFIX + len;
	kp_buf_reserve(&c->in, KP_MIN(len, (size_t)RESERVE_MAX));
	return 0;
}

static int keep(struct kp_grpc_serving *c, kp_str bytes, struct kp_err *err)
{
	struct kp_grpc_server *s = c->server;
	if (bytes.n > s->max_arriving - KP_MIN(s->arriving, s->max_arriving)) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED,
			"read request: more than %zu bytes of requests are arriving",
			s->max_arriving);
	}
	kp_buf_add(&c->in, bytes);
	if (!kp_buf_ok(&c->in)) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "read request: no memory");
	}
	s->arriving += bytes.n;
	return 0;
}

static int take(struct kp_grpc_serving *c, kp_str piece, struct kp_err *err)
{
	if (!c->need) {
		kp_str head = kp_str_sub(piece, 0, KP_GRPC_PREFIX - c->in.n);
		piece = kp_str_skip(piece, head.n);
		if (keep(c, head, err) < 0 ||
			(c->in.n == KP_GRPC_PREFIX && read_prefix(c, err) < 0)) {
			return -1;
		}
	}
	if (piece.n > c->need - KP_MIN(c->in.n, c->need)) {
		return kp_err_set(
			err, KP_UNIMPLEMENTED, "read request: more than one message came");
	}
	return keep(c, piece, err);
}

static void on_data(void *user, kp_str piece)
{
	struct kp_grpc_serving *c = user;
	struct kp_err err;
	if (!c->ended && take(c, piece, &err) < 0) {
		finish(c, &err, NULL, 0);
	}
}

static void free_call(struct kp_grpc_serving *c)
{
	drop_request(c);
	c->server->n_calls--;
	kp_mem_free(c);
}

static void hand_out(struct kp_grpc_serving *c)
{
	struct kp_grpc_server *s = c->server;
	const struct kp_grpc_request r = { .method = c->http->path,
		.message = kp_str_skip(kp_buf_str(&c->in), KP_GRPC_PREFIX),
		.deadline_ns = c->deadline_ns,
		.http = c->http };
	c->in_request = true;
	s->handler.request(s->handler.ctx, c, &r);
	c->in_request = false;
	if (!c->stream) { /* the handler destroyed the server */
		free_call(c);
		return;
	}
	KP_BUG_ON(!c->accepted && !c->ended);
	if (!c->is_kept) {
		drop_request(c);
	}
}

void kp_grpc_serving_keep(struct kp_grpc_serving *c)
{
	KP_BUG_ON(!c->in_request || !c->accepted);
	c->is_kept = true;
}

void kp_grpc_serving_drop(struct kp_grpc_serving *c)
{
	if (c->is_kept && !c->in_request) {
		c->is_kept = false;
		drop_request(c);
	}
}

static void on_end(void *user)
{
	struct kp_grpc_serving *c = user;
	struct kp_err err;
	if (c->ended) {
		return;
	}
	if (c->in.n == 0) {
		kp_err_set(&err, KP_UNIMPLEMENTED, "read request: no message came");
	} else if (!c->need || c->in.n < c->need) {
		kp_err_set(&err, KP_INTERNAL, "read request: it ended inside the message");
	} else if (c->deadline_ns && kp_loop_now(c->server->loop) >= c->deadline_ns) {
		kp_err_set(&err, KP_DEADLINE_EXCEEDED, "read request: the deadline has passed");
	} else {
		hand_out(c);
		return;
	}
	finish(c, &err, NULL, 0);
}

/* ---- the call's life ---- */

static void tell_closed(struct kp_grpc_serving *c, enum kp_stream_end why)
{
	const struct kp_grpc_serving_ops *ops = c->ops;
	c->ops = NULL;
	if (ops && ops->closed) {
		ops->closed(c->user, why);
	}
}

static void on_closed(void *user, enum kp_stream_end why)
{
	struct kp_grpc_serving *c = user;
	kp_timer_stop(c->server->loop, &c->deadline);
	c->stream = NULL;
	c->ended = true;
	tell_closed(c, why);
	if (!c->in_request) {
		free_call(c);
	}
}

static void on_writable(void *user)
{
	struct kp_grpc_serving *c = user;
	if (c->ops && c->ops->writable) {
		c->ops->writable(c->user);
	}
}

static void on_deadline(struct kp_timer *t)
{
	struct kp_grpc_serving *c = KP_CONTAINER(t, struct kp_grpc_serving, deadline);
	struct kp_err err;
	kp_err_set(&err, KP_DEADLINE_EXCEEDED, "call `%" KP_FMT "`: the deadline passed",
		KP_ARG(c->http->path));
	if (kp_stream_queued(c->stream) == 0) {
		finish(c, &err, NULL, 0);
	} else {
		/* A status would wait behind what the client does not take. */
		c->ended = true;
		c->stream->cancel = true;
		kp_stream_abort(c->stream);
	}
	tell_closed(c, KP_STREAM_TIMEOUT); /* last: the server may be destroyed inside */
}

static const struct kp_stream_ops stream_ops = {
	.data = on_data, .end = on_end, .writable = on_writable, .closed = on_closed
};

/* ---- the head ---- */

static void refuse(struct kp_stream *s, int status, struct kp_header extra, kp_str text)
{
	const struct kp_header h[] = { { KP_S("content-type"), KP_S("text/plain") }, extra };
	kp_http_count(&s->hc->server->counters.refused[KP_HTTP_REFUSED_MALFORMED], 1);
	kp_stream_reply(s, status, h, extra.name.n ? 2 : 1, text);
}

/* The server itself refuses a request: as a status to who speaks gRPC. */
static bool refuse_http(
	struct kp_stream *s, const struct kp_http_request *r, int status, const char *text)
{
	kp_str type = kp_header_get(r->headers, r->n_headers, KP_S("content-type"));
	/* Of a head that is too large nothing was kept. */
	if (r->version != 20 || (status != 431 && !kp_grpc_is_content_type(type))) {
		return false;
	}
	struct kp_err err;
	enum kp_code code = status == 413 || status == 431 ? KP_RESOURCE_EXHAUSTED
			    : status == 408                ? KP_DEADLINE_EXCEEDED
							   : KP_INTERNAL;
	kp_err_set(&err, code, "read request: %s", text);
	send_status(s, false, &err, NULL, 0);
	return true;
}

static bool is_ours(kp_str content_type_value)
{
	kp_str type = content_type_value;
	ptrdiff_t end = kp_str_find_char(type, ';');
	if (end >= 0) {
		type = kp_str_trim(kp_str_sub(type, 0, (size_t)end));
	}
	return kp_str_ieq(type, KP_S("application/grpc")) ||
	       kp_str_ieq(type, KP_S("application/grpc+proto"));
}

/* false: answered. */
static bool check_http(struct kp_stream *s, const struct kp_http_request *r)
{
	const struct kp_header none = { KP_STR_NULL, KP_STR_NULL };
	const struct kp_header allow = { KP_S("allow"), KP_S("POST") };
	kp_str type = kp_header_get(r->headers, r->n_headers, KP_S("content-type"));
	if (r->version != 20) {
		refuse(s, 505, none, KP_S("gRPC needs HTTP/2\n"));
	} else if (!kp_str_eq(r->method, KP_S("POST"))) {
		refuse(s, 405, allow, KP_S("gRPC calls are POST requests\n"));
	} else if (!is_ours(type)) {
		refuse(s, 415, none, KP_S("the content type is not application/grpc\n"));
	} else {
		return true;
	}
	return false;
}

static int check_grpc(
	struct kp_grpc_serving *c, const struct kp_http_request *r, struct kp_err *err)
{
	bool has_timeout = false;
	if (!r->te_trailers) {
		return kp_err_set(err, KP_INTERNAL, "read request: `te: trailers` is missing");
	}
	for (size_t i = 0; i < r->n_headers; i++) {
		const struct kp_header *h = &r->headers[i];
		if (kp_str_eq(h->name, KP_S("grpc-encoding"))) {
			if (!kp_str_eq(h->value, KP_S("identity"))) {
				return kp_err_set(err, KP_UNIMPLEMENTED,
					"read request: compression `%" KP_FMT "` is not supported",
					KP_ARG(h->value));
			}
		} else if (kp_str_eq(h->name, KP_S("grpc-timeout"))) {
			int64_t ns;
			if (has_timeout || !kp_grpc_timeout_parse(h->value, &ns)) {
				return kp_err_set(err, KP_INTERNAL,
					"read request: bad grpc-timeout `%" KP_FMT "`",
					KP_ARG(h->value));
			}
			has_timeout = true;
			c->deadline_ns = kp_loop_now(c->server->loop) + ns;
		}
	}
	return 0;
}

static void on_request(void *ctx, struct kp_stream *stream, const struct kp_http_request *r)
{
	struct kp_grpc_server *s = ctx;
	struct kp_err err;
	if (!check_http(stream, r)) {
		return;
	}
	struct kp_grpc_serving *c = kp_new(struct kp_grpc_serving);
	c->server = s;
	c->stream = stream;
	c->http = r;
	kp_buf_init(&c->in, KP_GRPC_PREFIX + s->max_message);
	s->n_calls++;
	kp_stream_accept(stream, &stream_ops, c);
	if (check_grpc(c, r, &err) < 0) {
		finish(c, &err, NULL, 0);
	} else if (c->deadline_ns) {
		kp_timer_start(s->loop, &c->deadline, c->deadline_ns, on_deadline);
	}
}

/* ---- the server ---- */

struct kp_grpc_server *kp_grpc_server_create(struct kp_loop *loop,
	const struct kp_grpc_server_limits *limits, struct kp_tls_context *tls,
	const struct kp_grpc_handler *handler)
{
	struct kp_grpc_server_limits l = limits ? *limits : (struct kp_grpc_server_limits){ 0 };
	struct kp_grpc_server *s = kp_new(struct kp_grpc_server);
	s->loop = loop;
	s->handler = *handler;
	s->max_message = l.max_message_bytes ? l.max_message_bytes : (size_t)64 << 20;
	s->max_message = KP_MIN(s->max_message, (size_t)UINT32_MAX);
	s->max_arriving = l.max_arriving_bytes ? l.max_arriving_bytes : (size_t)256 << 20;
	/* More than a message and its prefix, so that it is we who say what is wrong. */
	l.http.max_body_bytes = s->max_message + KP_LOOP_READ_BYTES;
	l.http.max_streams = l.http.max_streams ? l.http.max_streams : 1024;
	l.http.idle_timeout_ns =
		l.http.idle_timeout_ns ? l.http.idle_timeout_ns : 3600 * KP_NS_PER_S;
	s->http = kp_http_server_create(
		loop, &l.http, tls, &(struct kp_http_handler){ on_request, s });
	kp_http_server_on_refusal(s->http, refuse_http);
	return s;
}

int kp_grpc_server_listen(
	struct kp_grpc_server *s, const char *address, uint16_t *ret_port, struct kp_err *err)
{
	return kp_http_server_listen(s->http, address, ret_port, err);
}

void kp_grpc_server_set_tls(struct kp_grpc_server *s, struct kp_tls_context *tls)
{
	kp_http_server_set_tls(s->http, tls);
}

void kp_grpc_server_on_tls_failure(struct kp_grpc_server *s,
	void (*failed)(void *ctx, kp_str peer, const struct kp_err *why), void *ctx)
{
	kp_http_server_on_tls_failure(s->http, failed, ctx);
}

void kp_grpc_server_drain(struct kp_grpc_server *s)
{
	kp_http_server_drain(s->http);
}

const struct kp_http_counters *kp_grpc_server_counters(const struct kp_grpc_server *s)
{
	return kp_http_server_counters(s->http);
}

size_t kp_grpc_server_calls(const struct kp_grpc_server *s)
{
	return s->n_calls;
}

struct kp_http_server *kp_grpc_server_http(struct kp_grpc_server *s)
{
	return s->http;
}

static void on_done(void *arg)
{
	struct kp_grpc_server *s = arg;
	void (*done)(void *) = s->done;
	void *done_arg = s->done_arg;
	KP_BUG_ON(s->n_calls != 0);
	kp_mem_free(s);
	if (done) {
		done(done_arg);
	}
}

void kp_grpc_server_destroy(struct kp_grpc_server *s, void (*done)(void *), void *arg)
{
	if (s) {
		s->done = done;
		s->done_arg = arg;
		kp_http_server_destroy(s->http, on_done, s);
	}
}

/* ---- for the handler ---- */

void kp_grpc_serving_accept(
	struct kp_grpc_serving *c, const struct kp_grpc_serving_ops *ops, void *user)
{
	KP_BUG_ON(c->accepted || c->ended || !c->in_request);
	c->accepted = true;
	c->ops = ops;
	c->user = user;
}

void kp_grpc_serving_send(struct kp_grpc_serving *c, kp_str message)
{
	if (c->ended) {
		return;
	}
	KP_BUG_ON(message.n > UINT32_MAX);
	if (!c->responded) {
		c->responded = true;
		c->stream->bare = true;
		kp_stream_respond(c->stream, 200, &content_type, 1, -1);
	}
	uint32_t n = (uint32_t)message.n;
	const char prefix[KP_GRPC_PREFIX] = { 0, (char)(n >> 24), (char)(n >> 16), (char)(n >> 8),
		(char)n };
	char small[SMALL_MESSAGE + KP_GRPC_PREFIX];
	if (message.n <= SMALL_MESSAGE) {
		memcpy(small, prefix, sizeof(prefix));
		memcpy(small + sizeof(prefix), message.n ? message.p : "", message.n);
		kp_stream_write(c->stream, kp_str_n(small, sizeof(prefix) + message.n));
	} else {
		kp_stream_write(c->stream, kp_str_n(prefix, sizeof(prefix)));
		kp_stream_write(c->stream, message);
	}
}

size_t kp_grpc_serving_queued(const struct kp_grpc_serving *c)
{
	return c->stream ? kp_stream_queued(c->stream) : 0;
}

void kp_grpc_serving_end(struct kp_grpc_serving *c, const struct kp_err *status,
	const struct kp_header *trailers, size_t n)
{
	if (!c->ended) {
		finish(c, status, trailers, n);
	}
}

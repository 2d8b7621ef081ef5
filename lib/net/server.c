/* DESIGN: listeners, connections and their life. A connection begins without a protocol: ALPN says which one, or the first bytes do (the 24-byte
   preface of HTTP/2, RFC 9113, 3.4; anything else is HTTP/1). One timer per connection, lazily re-armed: it is moved only when something is due earlier
   than it, so a request on a kept connection usually costs no timer work.

   Ends: kp_http_conn_end takes the connection out, tells its streams and leaves the memory to the loop's deferred calls, because callers up the
   stack (a parser's loop, nghttp2) still look at it. The server itself goes after the last of them and after its listeners' handles. */
#include "net/server_internal.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 4096, ACCEPTS_AT_ONCE = 64 };

struct listener {
	struct kp_list link;
	struct kp_http_server *server;
	uv_poll_t poll;
	int fd;
};

/* ---- connections ---- */

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

static void on_timer(struct kp_timer *t)
{
	struct kp_http_conn *hc = KP_CONTAINER(t, struct kp_http_conn, timer);
	int64_t now = kp_loop_now(hc->server->loop);
	if (!hc->proto) {
		/* Nothing, or a part of the preface, within the time for a head. */
		kp_http_count(
			&hc->server->counters.refused[KP_HTTP_REFUSED_SLOW], hc->n_preface > 0);
		kp_http_conn_end(hc, KP_HTTP_FINISH, KP_STREAM_TIMEOUT);
		return;
	}
	int64_t next = hc->proto->check(hc, now);
	if (!hc->dead) {
		kp_http_conn_arm(hc, KP_MAX(next, now + KP_NS_PER_MS));
	}
}

void kp_http_conn_arm(struct kp_http_conn *hc, int64_t due_ns)
{
	if (!hc->dead && (!hc->timer.heap_index || hc->timer.due_ns > due_ns)) {
		kp_timer_start(hc->server->loop, &hc->timer, due_ns, on_timer);
	}
}

static void choose(struct kp_http_conn *hc, bool http2)
{
	hc->proto = http2 ? &kp_http2_proto : &kp_http1_proto;
	if (http2) {
		kp_http2_start(hc);
	}
	if (hc->draining) {
		hc->proto->drain(hc);
	}
}

/* true: the protocol is chosen and *bytes is its input. */
static bool sniff(struct kp_http_conn *hc, kp_str *bytes)
{
	kp_str alpn = kp_conn_alpn(hc->conn);
	if (alpn.n > 0) {
		choose(hc, kp_str_eq(alpn, KP_S("h2")));
		return true;
	}
	if (hc->n_preface == 0 && !kp_str_starts(*bytes, KP_S("PRI"))) {
		if (bytes->n >= 3 || !kp_str_starts(KP_S("PRI"), *bytes)) {
			choose(hc, false);
			return true;
		}
	}
	size_t take = KP_MIN(bytes->n, (size_t)KP_H2_PREFACE - hc->n_preface);
	memcpy(hc->preface + hc->n_preface, bytes->p, take);
	bool matches = memcmp(hc->preface, preface, hc->n_preface + take) == 0;
	hc->n_preface = (uint8_t)(hc->n_preface + take);
	if (matches && hc->n_preface < KP_H2_PREFACE) {
		return false;
	}
	*bytes = kp_str_skip(*bytes, take);
	choose(hc, matches);
	hc->proto->input(hc, kp_str_n(hc->preface, hc->n_preface));
	return true;
}

static void on_data(void *user, kp_str bytes)
{
	struct kp_http_conn *hc = user;
	kp_http_count(&hc->server->counters.bytes_in, bytes.n);
	if (!hc->proto) {
		if (!sniff(hc, &bytes)) {
			kp_http_conn_arm(hc,
				kp_loop_now(hc->server->loop) + hc->server->limits.head_timeout_ns);
			return;
		}
	}
	if (!hc->dead && bytes.n > 0) {
		hc->proto->input(hc, bytes);
	}
}

static void on_received(void *user, struct kp_buf *into, size_t n)
{
	struct kp_http_conn *hc = user;
	kp_http_count(&hc->server->counters.bytes_in, n);
	kp_http1_received(hc, into, n);
}

static void on_eof(void *user)
{
	struct kp_http_conn *hc = user;
	if (hc->proto) {
		hc->proto->eof(hc);
	} else {
		kp_http_conn_end(hc, KP_HTTP_CLOSE, KP_STREAM_CLIENT_GONE);
	}
}

static void on_sent(void *user)
{
	struct kp_http_conn *hc = user;
	if (hc->proto) {
		hc->proto->sent(hc);
	}
}

static void on_closed(void *user, const struct kp_err *why)
{
	struct kp_http_conn *hc = user;
	struct kp_http_server *s = hc->server;
	hc->conn = NULL;
	if (hc->handshaking && why->code != KP_CANCELLED) {
		kp_http_count(&s->counters.refused[KP_HTTP_REFUSED_TLS], 1);
		if (s->tls_failed) {
			s->tls_failed(s->tls_failed_ctx, kp_str_n(hc->peer, hc->n_peer), why);
		}
	} /* else a client that breaks its connection: nobody's fault here */
	kp_http_conn_end(hc, KP_HTTP_CLOSE, KP_STREAM_CLIENT_GONE);
}

static void on_open(void *user)
{
	struct kp_http_conn *hc =
		user; /* TLS: the client has as long as for a first request from now on */
	hc->born_ns = kp_loop_now(hc->server->loop);
	hc->handshaking = false;
	hc->n_peer_names = kp_conn_peer_names(hc->conn, &hc->peer_names);
}

const struct kp_conn_ops kp_http_conn_ops = {
	.open = on_open,
	.data = on_data,
	.eof = on_eof,
	.sent = on_sent,
	.closed = on_closed,
	.received = on_received,
};

static void maybe_done(struct kp_http_server *s);

static void on_free(struct kp_defer *d)
{
	struct kp_http_conn *hc = KP_CONTAINER(d, struct kp_http_conn, free_defer);
	struct kp_http_server *s = hc->server;
	if (hc->proto && (hc->proto != &kp_http2_proto || hc->h2)) {
		hc->proto->fini(hc);
	}
	kp_free(&hc->peer_names);
	kp_mem_free(hc);
	s->n_unfreed--;
	maybe_done(s);
}

void kp_http_conn_end(struct kp_http_conn *hc, enum kp_http_end how, enum kp_stream_end why)
{
	if (hc->dead) {
		return;
	}
	hc->dead = true;
	kp_timer_stop(hc->server->loop, &hc->timer);
	kp_list_del(&hc->link);
	hc->server->n_conns--;
	kp_gauge_set(&hc->server->counters.connections, (int64_t)hc->server->n_conns);
	struct kp_conn *conn = hc->conn;
	kp_loop_defer(hc->server->loop, &hc->free_defer, on_free);
	if (hc->proto) {
		hc->proto->drop(hc, why);
	}
	hc->conn = NULL;
	if (how == KP_HTTP_FINISH) {
		kp_conn_finish(conn);
	} else if (how == KP_HTTP_CLOSE) {
		kp_conn_close(conn);
	} else {
		kp_conn_abort(conn);
	}
}

struct kp_http_conn *kp_http_conn_create(struct kp_http_server *s)
{
	struct kp_http_conn *hc = kp_new(struct kp_http_conn);
	hc->server = s;
	hc->born_ns = kp_loop_now(s->loop);
	kp_buf_init(&hc->h1.in, s->limits.max_head_bytes + 3 * (size_t)KP_LOOP_READ_BYTES);
	kp_list_push(&s->conns, &hc->link);
	s->n_conns++;
	s->n_unfreed++;
	kp_http_count(&s->counters.accepted, 1);
	kp_gauge_set(&s->counters.connections, (int64_t)s->n_conns);
	return hc;
}

void kp_http_conn_start(struct kp_http_conn *hc, struct kp_conn *conn)
{
	hc->conn = conn;
	kp_http_conn_arm(hc, hc->born_ns + hc->server->limits.idle_timeout_ns);
}

struct kp_conn *kp_http_server_memory(struct kp_http_server *s, struct kp_buf *sink)
{
	struct kp_http_conn *hc = kp_http_conn_create(s);
	struct kp_conn *conn = kp_conn_memory(s->loop, sink, &kp_http_conn_ops, hc);
	kp_http_conn_start(hc, conn);
	return conn;
}

/* ---- accepting ---- */

static void adopt(struct kp_http_server *s, int fd, const struct sockaddr *peer)
{
	if (s->n_conns >= s->limits.max_connections || s->draining) {
		kp_http_count(&s->counters.refused[KP_HTTP_REFUSED_CONNECTIONS], 1);
		close(fd);
		return;
	}
	char text[KP_ADDR_TEXT_MAX];
	kp_str name = kp_addr_print(peer, text);
	struct kp_http_conn *hc = kp_http_conn_create(s);
	hc->n_peer = (uint8_t)KP_MIN(name.n, sizeof(hc->peer));
	memcpy(hc->peer, name.p, hc->n_peer);
	hc->handshaking = s->tls != NULL;
	kp_http_conn_start(hc, kp_conn_accepted(s->loop, fd, s->tls, &kp_http_conn_ops, hc));
}

/* No descriptor left: a waiting client would keep the listener readable for ever, so take it with the descriptor in reserve and close it. */
static void turn_away(struct listener *l)
{
	struct kp_http_server *s = l->server;
	if (s->reserve_fd >= 0) {
		close(s->reserve_fd);
		int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0) {
			close(fd);
		}
		s->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	}
	kp_http_count(&s->counters.refused[KP_HTTP_REFUSED_CONNECTIONS], 1);
}

static bool accept_one(struct listener *l)
{
	struct sockaddr_storage peer = { .ss_family = AF_UNIX };
	socklen_t len = sizeof(peer);
	int fd = accept4(l->fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd >= 0) {
		adopt(l->server, fd, (const struct sockaddr *)&peer);
		return true;
	}
	if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
		turn_away(l);
		return false;
	}
	return errno == ECONNABORTED || errno == EINTR || errno == EPROTO;
}

static void on_accept(uv_poll_t *poll, int status, int events)
{
	struct listener *l = poll->data;
	(void)status, (void)events;
	kp_loop_enter(l->server->loop);
	for (int i = 0; i < ACCEPTS_AT_ONCE && accept_one(l); i++) {
	}
}

static void on_listener_closed(uv_handle_t *handle)
{
	struct listener *l = handle->data;
	struct kp_http_server *s = l->server;
	kp_loop_enter(s->loop);
	kp_mem_free(l);
	s->n_listeners--;
	maybe_done(s);
}

static void close_listeners(struct kp_http_server *s)
{
	struct kp_list *node;
	while ((node = kp_list_pop(&s->listeners))) {
		struct listener *l = KP_CONTAINER(node, struct listener, link);
		uv_poll_stop(&l->poll);
		close(l->fd);
		uv_close((uv_handle_t *)&l->poll, on_listener_closed);
	}
}

static void set_options(int fd, const struct kp_http_limits *l)
{
	unsigned user_ms = (unsigned)KP_MIN(l->write_timeout_ns / KP_NS_PER_MS, (int64_t)INT32_MAX);
	int on = 1, idle = 60, interval = 15, count = 4, off = 0;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	/* Accepted sockets inherit these, so that accepting one costs no further call. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
	/* A client that vanished takes nothing either, but its few bytes wait in the kernel, which would try for a quarter of an hour. */
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_ms, sizeof(user_ms));
}

static int open_listener(
	const struct kp_http_server *s, struct kp_addr *a, const char *address, struct kp_err *err)
{
	int fd = kp_addr_socket(a, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0) {
		return kp_err_sys(err, errno, "listen on `%s`: socket", address);
	}
	set_options(fd, &s->limits);
	if (bind(fd, (const struct sockaddr *)&a->sock, a->socklen) < 0 ||
		listen(fd, BACKLOG) < 0) {
		kp_err_sys(err, errno, "listen on `%s`", address);
		close(fd);
		return -1;
	}
	return fd;
}

int kp_http_server_listen(
	struct kp_http_server *s, const char *address, uint16_t *ret_port, struct kp_err *err)
{
	kp_assert_on(s->loop);
	struct kp_addr a;
	struct sockaddr_storage real = { .ss_family = AF_UNIX };
	socklen_t len = sizeof(real);
	if (kp_addr_parse(address, &a, err) < 0) {
		return -1;
	}
	if (!a.socklen) {
		return kp_err_set(
			err, KP_INVALID_ARGUMENT, "listen on `%s`: not a numeric address", address);
	}
	int fd = open_listener(s, &a, address, err);
	if (fd < 0) {
		return -1;
	}
	struct listener *l = kp_new(struct listener);
	int rc = uv_poll_init(&s->loop->uv, &l->poll, fd);
	if (rc < 0) {
		close(fd);
		kp_mem_free(l);
		return kp_err_set(err, KP_INTERNAL, "listen on `%s`: %s", address, uv_strerror(rc));
	}
	l->fd = fd;
	l->server = s;
	l->poll.data = l;
	kp_list_push(&s->listeners, &l->link);
	s->n_listeners++;
	uv_poll_start(&l->poll, UV_READABLE, on_accept);
	getsockname(fd, (struct sockaddr *)&real, &len);
	if (ret_port) {
		*ret_port = kp_addr_port((const struct sockaddr *)&real);
	}
	return 0;
}

/* ---- the server ---- */

static struct kp_http_limits with_defaults(const struct kp_http_limits *given)
{
	struct kp_http_limits l = given ? *given : (struct kp_http_limits){ 0 };
#define DEFAULT(field, value) (l.field = l.field ? l.field : (value))
	DEFAULT(max_head_bytes, 64 << 10);
	DEFAULT(max_target_bytes, 8 << 10);
	DEFAULT(max_headers, 100);
	DEFAULT(max_body_bytes, 32 << 20);
	DEFAULT(head_timeout_ns, 10 * KP_NS_PER_S);
	DEFAULT(body_timeout_ns, 30 * KP_NS_PER_S);
	DEFAULT(idle_timeout_ns, 75 * KP_NS_PER_S);
	DEFAULT(write_timeout_ns, 60 * KP_NS_PER_S);
	DEFAULT(stream_timeout_ns, l.write_timeout_ns);
	DEFAULT(max_connections, 20000);
	DEFAULT(max_streams, 256);
	DEFAULT(high_water, 256 << 10);
	DEFAULT(low_water, KP_MIN(l.high_water, (size_t)64 << 10));
#undef DEFAULT
	return l;
}

struct kp_http_server *kp_http_server_create(struct kp_loop *loop,
	const struct kp_http_limits *limits, struct kp_tls_context *tls,
	const struct kp_http_handler *handler)
{
	kp_assert_on(loop);
	struct kp_http_server *s = kp_new(struct kp_http_server);
	s->loop = loop;
	s->limits = with_defaults(limits);
	s->head_limits = (struct kp_head_limits){ s->limits.max_head_bytes,
		s->limits.max_target_bytes, s->limits.max_headers };
	s->tls = tls ? kp_tls_ref(tls) : NULL;
	s->handler = *handler;
	s->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	kp_list_init(&s->conns);
	kp_list_init(&s->listeners);
	return s;
}

void kp_http_server_set_receivers(struct kp_http_server *s, struct kp_workers *workers)
{
	s->receivers = workers;
}

void kp_http_server_set_tls(struct kp_http_server *s, struct kp_tls_context *tls)
{
	kp_assert_on(s->loop);
	KP_BUG_ON(!s->tls || !tls);
	struct kp_tls_context *old = s->tls;
	s->tls = kp_tls_ref(tls);
	kp_tls_unref(old);
}

void kp_http_server_on_tls_failure(struct kp_http_server *s,
	void (*failed)(void *ctx, kp_str peer, const struct kp_err *why), void *ctx)
{
	s->tls_failed = failed;
	s->tls_failed_ctx = ctx;
}

void kp_http_server_on_refusal(struct kp_http_server *s,
	bool (*refuse)(
		struct kp_stream *s, const struct kp_http_request *r, int status, const char *text))
{
	s->refuse = refuse;
}

kp_str kp_http_server_date(struct kp_http_server *s)
{
	int64_t now = kp_loop_now(s->loop);
	if (now >= s->date_ns) {
		int64_t wall = kp_wall_ns();
		kp_http_date(wall, s->date);
		s->date_ns = now + KP_NS_PER_S - wall % KP_NS_PER_S; /* the next full second */
	}
	return kp_str_n(s->date, KP_HTTP_DATE_MAX - 1);
}

void kp_http_server_drain(struct kp_http_server *s)
{
	kp_assert_on(s->loop);
	if (s->draining) {
		return;
	}
	/* Clients that the kernel has already accepted for us get an answer, not a reset. */
	kp_list_each (node, &s->listeners) {
		struct listener *l = KP_CONTAINER(node, struct listener, link);
		for (int i = 0; i < BACKLOG && accept_one(l); i++) {
		}
	}
	s->draining = true;
	close_listeners(s);
	struct kp_list all, *node;
	kp_list_take(&all, &s->conns);
	while ((node = kp_list_pop(&all))) { /* ending one may end others */
		struct kp_http_conn *hc = KP_CONTAINER(node, struct kp_http_conn, link);
		kp_list_push(&s->conns, &hc->link);
		hc->draining = true;
		if (s->destroyed) {
			kp_http_conn_end(hc, KP_HTTP_CLOSE,
				KP_STREAM_ABORTED); /* by a callback of another one */
		} else if (hc->proto) {
			hc->proto->drain(hc);
		} else {
			/* Nothing came yet: its first request may be on the way. */
			kp_http_conn_arm(hc, kp_loop_now(s->loop) + KP_NS_PER_S);
		}
	}
}

size_t kp_http_server_connections(const struct kp_http_server *s)
{
	return s->n_conns;
}

const struct kp_http_counters *kp_http_server_counters(const struct kp_http_server *s)
{
	return &s->counters;
}

static void on_done(struct kp_defer *d)
{
	struct kp_http_server *s = KP_CONTAINER(d, struct kp_http_server, done_defer);
	void (*done)(void *) = s->done;
	void *arg = s->done_arg;
	kp_tls_unref(s->tls);
	if (s->reserve_fd >= 0) {
		close(s->reserve_fd);
	}
	kp_mem_free(s);
	if (done) {
		done(arg);
	}
}

static void maybe_done(struct kp_http_server *s)
{
	if (s->destroyed && s->n_unfreed == 0 && s->n_listeners == 0) {
		kp_loop_defer(s->loop, &s->done_defer, on_done);
	}
}

void kp_http_server_destroy(struct kp_http_server *s, void (*done)(void *), void *arg)
{
	if (!s) {
		return;
	}
	kp_assert_on(s->loop);
	KP_BUG_ON(s->destroyed);
	s->destroyed = s->draining = true;
	s->done = done;
	s->done_arg = arg;
	close_listeners(s);
	while (!kp_list_empty(&s->conns)) {
		kp_http_conn_end(KP_CONTAINER(s->conns.next, struct kp_http_conn, link),
			KP_HTTP_CLOSE, KP_STREAM_ABORTED);
	}
	maybe_done(s);
}

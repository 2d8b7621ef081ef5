/* DESIGN: the client's way to an open connection. A numeric address or a Unix path connects at
   once; a name goes through getaddrinfo on libuv's pool and its addresses are tried one after the
   other, all within one deadline (the connection's timer). Each try is a new socket on the same
   uv_poll_t, which libuv must have closed in between (kp_conn_dial_handle_closed goes on). A
   look-up cannot always be cancelled: kp_conn_dial then stays until its callback, and the
   connection's memory with it. */
#include "net/conn_internal.h"
#include "net/tls.h"

#include "base/mem.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

struct kp_conn_dial {
	uv_getaddrinfo_t lookup;
	bool started, looking_up;
	struct kp_addr addr;
	struct addrinfo *found, *next;
	struct kp_err last; /* why the last try failed */
	struct kp_tls_context *tls;
	char *tls_name, *alpn, *address;
};

bool kp_conn_dial_pending(const struct kp_conn *c)
{
	return c->dial && c->dial->looking_up;
}

void kp_conn_dial_destroy(struct kp_conn *c)
{
	struct kp_conn_dial *d = c->dial;
	if (!d) {
		return;
	}
	if (d->found) {
		uv_freeaddrinfo(d->found);
		d->found = d->next = NULL;
	}
	kp_tls_unref(d->tls);
	d->tls = NULL;
	kp_free(&d->tls_name);
	kp_free(&d->alpn);
	kp_free(&d->address);
	if (d->looking_up) {
		uv_cancel((uv_req_t *)&d->lookup);
		return; /* freed with the connection, after its callback */
	}
	kp_free(&c->dial);
}

static void give_up(struct kp_conn *c)
{
	struct kp_err why = c->dial->last;
	kp_err_wrap(&why, "connect to `%s`", c->dial->address);
	why.code = why.code == KP_DEADLINE_EXCEEDED ? why.code : KP_UNAVAILABLE;
	kp_conn_fail(c, &why);
}

static void connected(struct kp_conn *c)
{
	struct kp_conn_dial *d = c->dial;
	struct kp_err err;
	if (!d->tls) {
		kp_conn_opened(c);
		kp_conn_watch(c);
		return;
	}
	c->state = KP_CONN_HANDSHAKE; /* the dial's timer goes on */
	if (kp_conn_tls_create(c, d->tls, d->tls_name, d->alpn, &err) < 0 ||
		kp_conn_tls_input(c, KP_STR_NULL, &err) < 0) {
		kp_conn_fail(c, &err);
		return;
	}
	kp_conn_touch(c);
	kp_conn_watch(c);
}

/* One try. true: under way (or done); false: failed at once, d->last says why. */
static bool try_address(struct kp_conn *c, const struct sockaddr *sa, socklen_t len)
{
	struct kp_conn_dial *d = c->dial;
	int on = 1;
	int fd = socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		kp_err_sys(&d->last, errno, "socket");
		return false;
	}
	if (sa->sa_family != AF_UNIX) {
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	}
	int rc;
	do {
		rc = connect(fd, sa, len);
	} while (rc < 0 && errno == EINTR);
	if (rc < 0 && errno != EINPROGRESS) {
		kp_err_sys(&d->last, errno, "connect");
		close(fd);
		return false;
	}
	int e = kp_conn_start(c, fd);
	if (e != 0) {
		kp_err_sys(&d->last, e, "watch socket");
		close(fd);
		return false;
	}
	kp_conn_watch(c); /* writable also when it connected at once (Unix) */
	return true;
}

static void try_next(struct kp_conn *c)
{
	struct kp_conn_dial *d = c->dial;
	while (d->next) {
		struct addrinfo *a = d->next;
		d->next = a->ai_next;
		if (try_address(c, a->ai_addr, a->ai_addrlen)) {
			return;
		}
	}
	give_up(c);
}

void kp_conn_dial_ready(struct kp_conn *c, int status)
{
	int e = 0;
	socklen_t len = sizeof(e);
	if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &e, &len) < 0) {
		e = errno;
	}
	if (e == 0 && status < 0) {
		e = ECONNREFUSED;
	}
	if (e == 0) {
		connected(c);
		return;
	}
	kp_err_sys(&c->dial->last, e, "connect");
	kp_conn_drop_socket(c); /* goes on in kp_conn_dial_handle_closed */
}

void kp_conn_dial_handle_closed(struct kp_conn *c)
{
	if (c->state == KP_CONN_DIALING && c->dial) {
		try_next(c);
	}
}

static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *found)
{
	struct kp_conn *c = req->data;
	struct kp_conn_dial *d = c->dial;
	kp_loop_enter(c->loop);
	d->looking_up = false;
	if (c->state == KP_CONN_DEAD) {
		uv_freeaddrinfo(found);
		kp_conn_release(c);
		return;
	}
	if (status < 0) {
		kp_err_set(&d->last, KP_UNAVAILABLE, "resolve `%s`: %s", d->addr.host,
			uv_strerror(status));
		give_up(c);
		return;
	}
	d->found = d->next = found;
	try_next(c);
}

static void resolve(struct kp_conn *c)
{
	struct kp_conn_dial *d = c->dial;
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG };
	char port[8];
	snprintf(port, sizeof(port), "%u", d->addr.port);
	d->lookup.data = c;
	int rc = uv_getaddrinfo(&c->loop->uv, &d->lookup, on_resolved, d->addr.host, port, &hints);
	if (rc < 0) {
		kp_err_set(&d->last, KP_UNAVAILABLE, "resolve `%s`: %s", d->addr.host,
			uv_strerror(rc));
		give_up(c);
		return;
	}
	d->looking_up = true;
}

static void on_deadline(struct kp_timer *t)
{
	struct kp_conn *c = KP_CONTAINER(t, struct kp_conn, timer);
	struct kp_err err;
	kp_err_set(&err, KP_DEADLINE_EXCEEDED, "%s `%s`: not done in time",
		c->state == KP_CONN_HANDSHAKE ? "TLS handshake with" : "connect to",
		c->dial->address);
	kp_conn_fail(c, &err);
}

void kp_conn_dial_step(struct kp_conn *c)
{
	struct kp_conn_dial *d = c->dial;
	if (d->started) {
		return;
	}
	d->started = true;
	if (d->last.code != KP_OK) {
		give_up(c);
	} else if (!d->addr.socklen) {
		resolve(c);
	} else if (!try_address(c, (const struct sockaddr *)&d->addr.sock, d->addr.socklen)) {
		give_up(c);
	}
}

struct kp_conn *kp_conn_connect(struct kp_loop *loop, const struct kp_conn_target *target,
	const struct kp_conn_ops *ops, void *user)
{
	struct kp_conn *c = kp_conn_new(loop, ops, user);
	struct kp_conn_dial *d = c->dial = kp_new(struct kp_conn_dial);
	d->address = kp_xstrdup(target->address);
	if (kp_addr_parse(target->address, &d->addr, &d->last) == 0) {
		d->tls = target->tls ? kp_tls_ref(target->tls) : NULL;
		d->tls_name = kp_xstrdup(target->tls_name ? target->tls_name : d->addr.host);
		d->alpn = target->alpn ? kp_xstrdup(target->alpn) : NULL;
	}
	int64_t timeout = target->timeout_ns ? target->timeout_ns : 5 * KP_NS_PER_S;
	kp_timer_start(loop, &c->timer, kp_loop_now(loop) + timeout, on_deadline);
	kp_conn_touch(c); /* the first step is made from the loop, so that nothing is called back in
			     here */
	return c;
}

/* A scripted server of HTTP/2 on a real socket, on the loop of the channel that is tested: it writes down what it gets and answers PINGs, unless told otherwise. */
#ifndef KP_TESTS_GRPC_CHANNEL_SERVER_H
#define KP_TESTS_GRPC_CHANNEL_SERVER_H

#include "h2_take.h"
#include "net/conn.h"
#include "net/loop.h"

#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

enum { MAX_CONNS = 16 };

struct side { /* one accepted connection */
	struct server *server;
	struct kp_conn *conn;
	struct h2_peer p;
	int n_reads;
};

struct server {
	struct kp_loop *loop;
	int fd;
	uv_poll_t poll;
	char address[32];
	struct side sides[MAX_CONNS];
	int n_sides;
	bool is_rude;  /* closes what it accepts */
	bool is_mute;  /* no SETTINGS */
	bool is_quiet; /* answers no PING */
	uint32_t max_streams;
};

static void flush_side(struct side *s)
{
	if (s->conn) {
		kp_conn_write(s->conn, kp_buf_str(&s->p.out));
	}
	kp_buf_reset(&s->p.out);
}

static void on_data(void *user, kp_str bytes)
{
	struct side *s = user;
	size_t pings = 0;
	size_t from = s->p.log.n;
	s->n_reads++;
	h2_take(&s->p, bytes);
	kp_str fresh = kp_str_skip(kp_buf_str(&s->p.log), from);
	kp_str line;
	while (kp_str_split(&fresh, '\n', &line)) {
		pings += kp_str_eq(line, KP_S("ping"));
	}
	for (; pings > 0 && !s->server->is_quiet; pings--) {
		h2_frame(&s->p, NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, KP_S("\0\0\0\0\0\0\0\0"));
	}
	flush_side(s);
}

static void on_eof(void *user)
{
	struct side *s = user;
	kp_conn_close(kp_steal(s->conn));
}

static void on_closed(void *user, const struct kp_err *why)
{
	(void)why;
	struct side *s = user;
	s->conn = NULL;
}

static const struct kp_conn_ops server_ops = {
	.data = on_data, .eof = on_eof, .closed = on_closed
};

static void on_connection(uv_poll_t *poll, int status, int events)
{
	(void)status;
	(void)events;
	struct server *srv = poll->data;
	int fd = accept4(srv->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0) {
		return;
	}
	KP_BUG_ON(srv->n_sides == MAX_CONNS);
	struct side *s = &srv->sides[srv->n_sides++];
	s->server = srv;
	h2_peer_init(&s->p);
	if (srv->is_rude) {
		close(fd);
		return;
	}
	s->conn = kp_conn_accepted(srv->loop, fd, NULL, &server_ops, s);
	if (!srv->is_mute) {
		h2_settings(&s->p, srv->max_streams);
		flush_side(s);
	}
}

static void server_open(struct server *srv, struct kp_loop *loop)
{
	*srv = (struct server){ .loop = loop };
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	srv->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	KP_BUG_ON(srv->fd < 0 || bind(srv->fd, (struct sockaddr *)&a, len) != 0 ||
		  listen(srv->fd, 64) != 0);
	KP_BUG_ON(getsockname(srv->fd, (struct sockaddr *)&a, &len) != 0);
	snprintf(srv->address, sizeof(srv->address), "127.0.0.1:%u", (unsigned)ntohs(a.sin_port));
	uv_poll_init(kp_loop_uv(loop), &srv->poll, srv->fd);
	srv->poll.data = srv;
	uv_poll_start(&srv->poll, UV_READABLE, on_connection);
}

static void close_listener(struct server *srv)
{
	if (srv->fd >= 0) {
		uv_poll_stop(&srv->poll);
		uv_close((uv_handle_t *)&srv->poll, NULL);
		close(srv->fd);
		srv->fd = -1;
	}
}

static void server_close(struct server *srv)
{
	close_listener(srv);
	for (int i = 0; i < srv->n_sides; i++) {
		kp_conn_close(kp_steal(srv->sides[i].conn));
		h2_peer_fini(&srv->sides[i].p);
	}
}

#endif

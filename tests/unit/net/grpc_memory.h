/* The gRPC server on a connection without a socket, with a handler that writes down what it sees: for unit and property tests and fuzzing. The first byte of a
   message chooses how its call is answered, so that the same input is always answered the same way. */
#ifndef KP_TESTS_NET_GRPC_MEMORY_H
#define KP_TESTS_NET_GRPC_MEMORY_H

#include "base/mem.h"
#include "net/grpc_server.h"
#include "net/server_internal.h"

#include <stdio.h>

struct grpc_memory {
	struct kp_loop *loop;
	struct kp_grpc_server *server;
	struct kp_conn *conn;
	struct kp_buf sent; /* what the client would get */
	struct kp_buf log;  /* "N request ...", "N writable", "N closed ...": N counts the calls */
	unsigned n_calls, n_open;
	bool is_kept;                  /* no call destroys the server */
	struct grpc_memory_call *last; /* the newest open call */
};

struct grpc_memory_call {
	struct grpc_memory *m;
	struct kp_grpc_serving *c;
	unsigned number, left;
	struct kp_defer defer;
};

static const struct kp_err grpc_memory_fine = { .code = KP_OK };

static void grpc_memory_on_defer(struct kp_defer *d)
{
	struct grpc_memory_call *j = KP_CONTAINER(d, struct grpc_memory_call, defer);
	if (j->left-- > 0) {
		kp_grpc_serving_send(j->c, KP_S("later"));
		kp_loop_defer(j->m->loop, &j->defer, grpc_memory_on_defer);
	} else {
		kp_grpc_serving_end(j->c, &grpc_memory_fine, NULL, 0);
	}
}

static void grpc_memory_on_writable(void *user)
{
	struct grpc_memory_call *j = user;
	kp_buf_printf(&j->m->log, "%u writable\n", j->number);
}

static void grpc_memory_on_closed(void *user, enum kp_stream_end why)
{
	struct grpc_memory_call *j = user;
	kp_buf_printf(&j->m->log, "%u closed %d\n", j->number, (int)why);
	kp_loop_undefer(&j->defer);
	j->m->n_open--;
	if (j->m->last == j) {
		j->m->last = NULL;
	}
	kp_mem_free(j);
}

static const struct kp_grpc_serving_ops grpc_memory_ops = { .writable = grpc_memory_on_writable,
	.closed = grpc_memory_on_closed };

static struct grpc_memory_call *grpc_memory_accept(
	struct grpc_memory *m, struct kp_grpc_serving *c, unsigned number)
{
	struct grpc_memory_call *j = kp_new(struct grpc_memory_call);
	*j = (struct grpc_memory_call){ .m = m, .c = c, .number = number, .left = 2 };
	m->last = j;
	m->n_open++;
	kp_grpc_serving_accept(c, &grpc_memory_ops, j);
	return j;
}

/* n: not found, at once; k: accepted and left to the test; l: answers in later iterations; x: the server is destroyed; else the message
   back and a status with trailers. */
static void grpc_memory_on_request(
	void *ctx, struct kp_grpc_serving *c, const struct kp_grpc_request *r)
{
	struct grpc_memory *m = ctx;
	unsigned number = ++m->n_calls;
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	for (size_t i = 0; i < r->message.n; i++) {
		hash = (hash ^ (unsigned char)r->message.p[i]) * UINT64_C(0x100000001b3);
	}
	kp_buf_printf(&m->log, "%u request %" KP_FMT " %zu %016llx%s\n", number, KP_ARG(r->method),
		r->message.n, (unsigned long long)hash, r->deadline_ns ? " deadline" : "");
	char kind = (char)(r->message.n ? r->message.p[0] : 0);
	struct kp_err err;
	if (kind == 'n') {
		kp_err_set(&err, KP_NOT_FOUND, "grün 100%%");
		kp_grpc_serving_end(c, &err, NULL, 0);
		return;
	}
	struct grpc_memory_call *j = grpc_memory_accept(m, c, number);
	if (kind == 'l') {
		kp_loop_defer(m->loop, &j->defer, grpc_memory_on_defer);
	} else if (kind == 'x' && !m->is_kept) {
		kp_grpc_serving_send(c, r->message);
		kp_grpc_server_destroy(kp_steal(m->server), NULL, NULL);
	} else if (kind != 'k') {
		const struct kp_header t[] = { { KP_S("x-raw-bin"), KP_S("\0\xff") },
			{ KP_S("x-plain"), KP_S("a\xc3\xbc\tb") } };
		kp_grpc_serving_send(c, r->message);
		kp_grpc_serving_end(c, &grpc_memory_fine, t, 2);
	}
}

static void grpc_memory_connect(struct grpc_memory *m)
{
	m->conn = kp_http_server_memory(kp_grpc_server_http(m->server), &m->sent);
}

static void grpc_memory_open(struct grpc_memory *m, const struct kp_grpc_server_limits *limits)
{
	*m = (struct grpc_memory){ .loop = kp_loop_create("memory") };
	kp_buf_init(&m->sent, 128 << 20);
	kp_buf_init(&m->log, 64 << 20);
	m->server = kp_grpc_server_create(
		m->loop, limits, NULL, &(struct kp_grpc_handler){ grpc_memory_on_request, m });
	grpc_memory_connect(m);
}

/* Ends of iterations until nothing is left to do. */
static void grpc_memory_spin(struct grpc_memory *m)
{
	for (int i = 0; i < 10000 && !kp_list_empty(&m->loop->deferred); i++) {
		kp_loop_stop(m->loop);
		kp_loop_run(m->loop);
	}
}

static bool grpc_memory_alive(const struct grpc_memory *m)
{
	return m->server && kp_http_server_connections(kp_grpc_server_http(m->server)) > 0;
}

/* false: the connection is over. */
static bool grpc_memory_feed(struct grpc_memory *m, kp_str bytes)
{
	return grpc_memory_alive(m) && kp_conn_memory_feed(m->conn, bytes) && grpc_memory_alive(m);
}

KP_UNUSED static void grpc_memory_eof(struct grpc_memory *m)
{
	if (grpc_memory_alive(m)) {
		kp_conn_memory_eof(m->conn);
	}
	grpc_memory_spin(m);
}

KP_UNUSED static void grpc_memory_close(struct grpc_memory *m)
{
	kp_grpc_server_destroy(kp_steal(m->server), NULL, NULL);
	KP_BUG_ON(m->n_open != 0); /* every accepted call was told that it is closed */
	grpc_memory_spin(m);
	kp_loop_destroy(m->loop);
	kp_buf_fini(&m->sent);
	kp_buf_fini(&m->log);
}

#endif

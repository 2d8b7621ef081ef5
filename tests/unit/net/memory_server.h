/* The HTTP server on a connection without a socket, with a handler that writes down what it sees: for property tests and fuzzing. The request's target chooses how it
   is answered, so that the same input is always answered the same way. */
#ifndef KP_TESTS_NET_MEMORY_SERVER_H
#define KP_TESTS_NET_MEMORY_SERVER_H

#include "base/mem.h"
#include "net/server_internal.h"

#include <stdio.h>

struct memory_server {
	struct kp_loop *loop;
	struct kp_http_server *server;
	struct kp_conn *conn;
	struct kp_buf sent; /* what the client would get */
	struct kp_buf
		log; /* "N request ...", "N body ...", "N closed ...": N counts the requests */
	unsigned n_requests, n_open;
};

struct memory_job {
	struct memory_server *m;
	struct kp_stream *s;
	unsigned number;
	enum {
		MEMORY_REPLY = 0,
		MEMORY_LATE,
		MEMORY_ECHO,
		MEMORY_PAUSE,
		MEMORY_ABORT,
		MEMORY_TRAILERS,
		MEMORY_KINDS
	} kind;
	uint64_t bytes, hash;
	bool answered;
	struct kp_defer defer;
};

static void memory_answer(struct memory_job *j)
{
	const struct kp_header x = { KP_S("x-a"), KP_S("b") };
	char text[64];
	int n = snprintf(text, sizeof(text), "%llu %016llx\n", (unsigned long long)j->bytes,
		(unsigned long long)j->hash);
	if (j->answered) {
		return;
	}
	j->answered = true;
	if (j->kind == MEMORY_ABORT) {
		kp_stream_abort(j->s);
	} else if (j->kind == MEMORY_TRAILERS) {
		kp_stream_respond(j->s, 200, &x, 1, -1);
		kp_stream_write(j->s, kp_str_n(text, (size_t)n));
		kp_stream_finish_trailers(j->s, &x, 1);
	} else if (j->kind == MEMORY_ECHO) {
		kp_stream_finish(j->s);
	} else {
		kp_stream_reply(j->s, 200, &x, 1, kp_str_n(text, (size_t)n));
	}
}

static void memory_on_defer(struct kp_defer *d)
{
	struct memory_job *j = KP_CONTAINER(d, struct memory_job, defer);
	if (j->kind == MEMORY_PAUSE) {
		kp_stream_pause(j->s, false);
	} else {
		memory_answer(j);
	}
}

static void memory_on_data(void *user, kp_str piece)
{
	struct memory_job *j = user;
	j->bytes += piece.n;
	for (size_t i = 0; i < piece.n; i++) {
		j->hash = (j->hash ^ (unsigned char)piece.p[i]) * UINT64_C(0x100000001b3);
	}
	if (j->kind == MEMORY_ECHO) {
		kp_stream_write(j->s,
			KP_S("piece")); /* not the piece itself: where it ends depends on the cuts */
		kp_stream_write(j->s, KP_STR_NULL);
	} else if (j->kind == MEMORY_PAUSE) {
		kp_stream_pause(j->s, true);
		kp_loop_defer(j->m->loop, &j->defer, memory_on_defer);
	}
}

static void memory_on_end(void *user)
{
	struct memory_job *j = user;
	kp_buf_printf(&j->m->log, "%u body %llu %016llx\n", j->number, (unsigned long long)j->bytes,
		(unsigned long long)j->hash);
	if (j->kind == MEMORY_LATE) {
		kp_loop_defer(j->m->loop, &j->defer, memory_on_defer);
	} else {
		memory_answer(j);
	}
}

static void memory_on_closed(void *user, enum kp_stream_end why)
{
	struct memory_job *j = user;
	kp_buf_printf(&j->m->log, "%u closed %d\n", j->number, (int)why);
	kp_loop_undefer(&j->defer);
	j->m->n_open--;
	kp_mem_free(j);
}

static void memory_on_request(void *ctx, struct kp_stream *s, const struct kp_http_request *r)
{
	static const struct kp_stream_ops ops = {
		.data = memory_on_data, .end = memory_on_end, .closed = memory_on_closed
	};
	struct memory_server *m = ctx;
	unsigned number = ++m->n_requests;
	kp_buf_printf(&m->log, "%u request %" KP_FMT " %" KP_FMT " %" KP_FMT " %d %lld", number,
		KP_ARG(r->method), KP_ARG(r->target), KP_ARG(r->authority), r->version,
		(long long)r->content_length);
	for (size_t i = 0; i < r->n_headers; i++) {
		kp_buf_printf(&m->log, " %" KP_FMT "=%" KP_FMT, KP_ARG(r->headers[i].name),
			KP_ARG(r->headers[i].value));
	}
	kp_buf_lit(&m->log, "\n");
	unsigned kind = 0;
	for (size_t i = 0; i < r->target.n; i++) {
		kind += (unsigned char)r->target.p[i];
	}
	kind %= MEMORY_KINDS + 1;
	if (kind == MEMORY_KINDS) {
		kp_stream_reply(s, 401, NULL, 0, KP_S("no")); /* at once, the body is not read */
		return;
	}
	struct memory_job *j = kp_new(struct memory_job);
	*j = (struct memory_job){
		.m = m, .s = s, .number = number, .kind = kind, .hash = UINT64_C(0xcbf29ce484222325)
	};
	m->n_open++;
	kp_stream_accept(s, &ops, j);
	if (kind == MEMORY_ECHO) {
		kp_stream_respond(s, 200, NULL, 0, -1);
	}
}

static void memory_server_open(struct memory_server *m, const struct kp_http_limits *limits)
{
	*m = (struct memory_server){ .loop = kp_loop_create("memory") };
	kp_buf_init(&m->sent, 64 << 20);
	kp_buf_init(&m->log, 64 << 20);
	m->server = kp_http_server_create(
		m->loop, limits, NULL, &(struct kp_http_handler){ memory_on_request, m });
	m->conn = kp_http_server_memory(m->server, &m->sent);
}

/* Ends of iterations until nothing is left to do. A loop that is stopped before it runs does only this. */
static void memory_server_spin(struct memory_server *m)
{
	for (int i = 0; i < 10000 && !kp_list_empty(&m->loop->deferred); i++) {
		kp_loop_stop(m->loop);
		kp_loop_run(m->loop);
	}
}

static bool memory_server_alive(const struct memory_server *m)
{
	return kp_http_server_connections(m->server) > 0;
}

/* As much as it takes; false: the connection is over. */
static bool memory_server_feed(struct memory_server *m, kp_str bytes)
{
	for (int tries = 0; tries < 1000 && memory_server_alive(m); tries++) {
		if (kp_conn_memory_feed(m->conn, bytes)) {
			return memory_server_alive(m);
		}
		memory_server_spin(m); /* reading is paused: what pauses it goes on */
	}
	return false;
}

static void memory_server_eof(struct memory_server *m)
{
	if (memory_server_alive(m)) {
		kp_conn_memory_eof(m->conn);
	}
	memory_server_spin(m);
}

static inline void memory_server_close(struct memory_server *m)
{
	kp_http_server_destroy(m->server, NULL, NULL);
	KP_BUG_ON(m->n_open != 0); /* every accepted stream was told that it is closed */
	memory_server_spin(m);
	kp_loop_destroy(m->loop);
	kp_buf_fini(&m->sent);
	kp_buf_fini(&m->log);
}

#endif

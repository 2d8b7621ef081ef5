/* A server and clients on one loop, for the tests of lib/rpc. */
#ifndef KP_TESTS_RPC_WORLD_H
#define KP_TESTS_RPC_WORLD_H

#include "rpc/rpc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "tests/test.h"

#define METHOD "/kelpie.test.v1.Test/Talk"

/* One end of a stream: what it heard. */
struct end {
	struct kp_rpc_stream *stream; /* NULL when closed */
	size_t n_messages, bytes;
	char last[256]; /* the beginning of the last message */
	int n_closed;
	struct kp_err status;
	bool echo;
	char names[256]; /* of a server's: of the other side's certificate, and spaces */
};

enum { ENDS_MAX = 64 };
struct world {
	struct kp_loop *loop;
	struct kp_rpc_server *server;
	char address[64];
	struct end *accepted[ENDS_MAX]; /* the server's ends */
	size_t n_accepted;
	bool echo;
	struct kp_err refuse; /* of every stream, when set */
	struct kp_timer tick;
	bool (*until)(struct world *w, void *arg);
	void *arg;
	int64_t give_up_ns;
};

static void end_message(void *user, kp_str bytes)
{
	struct end *e = user;
	assert_int_equal(e->n_closed, 0);
	e->n_messages++;
	e->bytes += bytes.n;
	snprintf(e->last, sizeof(e->last), "%" KP_FMT, KP_ARG(kp_str_sub(bytes, 0, 255)));
	if (e->echo) {
		kp_rpc_stream_send(e->stream, bytes);
	}
}
static void end_closed(void *user, const struct kp_err *status)
{
	struct end *e = user;
	e->n_closed++;
	e->status = *status;
	e->stream = NULL;
}
static const struct kp_rpc_stream_ops end_ops = { end_message, end_closed };

static int world_accept(void *ctx, struct kp_rpc_stream *s, const struct kp_rpc_peer *peer,
	struct kp_rpc_stream_ops *ops, void **user, struct kp_err *err)
{
	struct world *w = ctx;
	if (w->refuse.code) {
		*err = w->refuse;
		return -1;
	}
	assert_true(w->n_accepted < ENDS_MAX);
	struct end *e = kp_new(struct end);
	e->stream = s;
	e->echo = w->echo;
	for (size_t i = 0; i < peer->n_names; i++) {
		size_t n = strlen(e->names);
		snprintf(
			e->names + n, sizeof(e->names) - n, "%" KP_FMT " ", KP_ARG(peer->names[i]));
	}
	w->accepted[w->n_accepted++] = e;
	*ops = end_ops;
	*user = e;
	return 0;
}

static void world_start(struct world *w, const char *address, const char *tls_dir,
	const struct kp_rpc_limits *limits)
{
	struct kp_err err = KP_ERR_INIT;
	const struct kp_rpc_tls tls = { .dir = tls_dir };
	*w = (struct world){ .loop = kp_loop_create("test") };
	int r = kp_rpc_server_create(
		w->loop, address, METHOD, &tls, limits, world_accept, w, &w->server, &err);
	assert_string_equal(err.msg, "");
	assert_int_equal(r, 0);
	snprintf(w->address, sizeof(w->address), "127.0.0.1:%d", kp_rpc_server_port(w->server));
}

static void world_end(struct world *w)
{
	kp_rpc_server_destroy(w->server);
	for (size_t i = 0; i < w->n_accepted; i++) {
		assert_int_equal(w->accepted[i]->n_closed, 1);
		kp_mem_free(w->accepted[i]);
	}
	kp_timer_stop(w->loop, &w->tick);
	kp_loop_destroy(w->loop);
}

static void world_tick(struct kp_timer *t)
{
	struct world *w = KP_CONTAINER(t, struct world, tick);
	if (w->until(w, w->arg) || kp_now_ns() > w->give_up_ns) {
		kp_loop_stop(w->loop);
		return;
	}
	kp_timer_start(w->loop, t, kp_loop_now(w->loop) + 2 * KP_NS_PER_MS, world_tick);
}

/* Runs the loop until that is so; false when it is not within the seconds. */
static bool world_run(
	struct world *w, bool (*until)(struct world *w, void *arg), void *arg, int seconds)
{
	w->until = until;
	w->arg = arg;
	w->give_up_ns = kp_now_ns() + seconds * KP_NS_PER_S;
	kp_timer_start(w->loop, &w->tick, 0, world_tick);
	kp_loop_run(w->loop);
	return until(w, arg);
}

KP_UNUSED static bool is_closed(struct world *w, void *arg)
{
	(void)w;
	return ((struct end *)arg)->n_closed > 0;
}
KP_UNUSED static bool has_message(struct world *w, void *arg)
{
	(void)w;
	struct end *e = arg;
	return e->n_messages > 0 || e->n_closed > 0;
}
KP_UNUSED static bool all_closed(struct world *w, void *arg)
{
	(void)arg;
	for (size_t i = 0; i < w->n_accepted; i++) {
		if (!w->accepted[i]->n_closed) {
			return false;
		}
	}
	return w->n_accepted > 0;
}

static struct kp_rpc_client *world_client(
	struct world *w, const char *tls_dir, const char *name, const struct kp_rpc_limits *limits)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_rpc_client *c = NULL;
	const struct kp_rpc_tls tls = { .dir = tls_dir };
	int r = kp_rpc_client_create(w->loop, w->address, METHOD, &tls, name, limits, &c, &err);
	assert_string_equal(err.msg, "");
	assert_int_equal(r, 0);
	return c;
}

#endif

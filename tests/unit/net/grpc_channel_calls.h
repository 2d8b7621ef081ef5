/* A channel under test against a scripted server on the same loop; calls that write down what happens to them. */
#ifndef KP_TESTS_GRPC_CHANNEL_CALLS_H
#define KP_TESTS_GRPC_CHANNEL_CALLS_H

#include "base/clock.h"
#include "base/mem.h"
#include "grpc_channel_server.h"
#include "net/addr.h"
#include "net/grpc.h"
#include "tests/test.h"

enum { MAX_CALLS = 64 };
#define MS KP_NS_PER_MS

/* --- calls --- */

struct fixture;

struct call {
	struct fixture *f;
	struct kp_grpc_call *call;
	struct kp_buf text; /* "msg|", then "CODE" and "?" when certainly not processed */
	char msg[KP_ERR_MSG];
	int n_messages, n_ends;
	int pause_at, cancel_at, destroy_at; /* in the n-th message */
	bool destroy_at_end, restart_at_end;
	struct call *next; /* started by restart_at_end */
};

struct fixture {
	struct kp_loop *loop;
	struct kp_grpc_channel *ch;
	struct server srv;
	struct call calls[MAX_CALLS];
	int n_calls;
	struct kp_timer stop;
	bool (*until)(struct fixture *f);
	struct kp_defer look;
	int64_t deadline_ns;
	int turns; /* left; each lets the sockets speak once, however busy the machine is */
	bool timed_out;
};

static struct call *start(struct fixture *f, int64_t timeout_ms, bool wait);

static void on_message(void *user, kp_str bytes)
{
	struct call *c = user;
	kp_buf_add(&c->text, bytes);
	kp_buf_addc(&c->text, '|');
	c->n_messages++;
	if (c->n_messages == c->pause_at) {
		kp_grpc_pause(c->call, true);
	}
	if (c->n_messages == c->cancel_at) {
		kp_grpc_cancel(c->call);
	}
	if (c->n_messages == c->destroy_at) {
		kp_grpc_channel_destroy(kp_steal(c->f->ch));
	}
}

static void on_end(void *user, const struct kp_err *status, bool processed,
	const struct kp_header *t, size_t n)
{
	(void)t;
	(void)n;
	struct call *c = user;
	c->n_ends++;
	kp_buf_printf(&c->text, "%s%s", kp_code_name(status->code), processed ? "" : "?");
	memcpy(c->msg, status->msg, sizeof(c->msg));
	kp_grpc_cancel(c->call); /* inside `end`: nothing happens */
	if (c->restart_at_end) {
		c->next = start(c->f, 0, false);
	}
	if (c->destroy_at_end && c->f->ch) {
		kp_grpc_channel_destroy(kp_steal(c->f->ch));
	}
}

static const struct kp_grpc_call_ops call_ops = { .message = on_message, .end = on_end };

static struct call *start(struct fixture *f, int64_t timeout_ms, bool wait)
{
	KP_BUG_ON(f->n_calls == MAX_CALLS);
	struct call *c = &f->calls[f->n_calls++];
	*c = (struct call){ .f = f };
	kp_buf_init(&c->text, 1 << 20);
	int64_t deadline = timeout_ms ? kp_loop_now(f->loop) + timeout_ms * MS : 0;
	c->call =
		kp_grpc_start(f->ch, "/t.T/M", NULL, 0, KP_S("ask"), deadline, wait, &call_ops, c);
	KP_BUG_ON(c->n_ends != 0); /* never from inside */
	return c;
}

/* --- running --- */

static void on_stop(struct kp_timer *t)
{
	struct fixture *f = KP_CONTAINER(t, struct fixture, stop);
	f->timed_out = --f->turns < 0 && kp_loop_now(f->loop) >= f->deadline_ns;
	if (f->timed_out || (f->until && f->until(f))) {
		kp_loop_stop(f->loop);
	} else {
		kp_timer_start(f->loop, t, kp_loop_now(f->loop) + MS, on_stop);
	}
}

/* Until the condition holds; fails after five seconds. NULL: for so many ms. */
KP_UNUSED static void run(struct fixture *f, bool (*until)(struct fixture *), int64_t ms)
{
	f->until = until;
	f->turns = 10;
	f->deadline_ns = kp_now_ns() + (until ? 5000 : ms) * MS;
	kp_timer_start(f->loop, &f->stop, kp_now_ns() + MS, on_stop);
	kp_loop_run(f->loop);
	if (until) {
		assert_false(f->timed_out);
	}
}

KP_UNUSED static void open_channel(struct fixture *f, struct kp_grpc_opts o)
{
	o.address = f->srv.address;
	o.seed = 7;
	f->ch = kp_grpc_channel_create(f->loop, &o);
}

KP_UNUSED static int setup(void **state)
{
	struct fixture *f = kp_new(struct fixture);
	f->loop = kp_loop_create("test");
	server_open(&f->srv, f->loop);
	*state = f;
	return 0;
}

KP_UNUSED static int teardown(void **state)
{
	struct fixture *f = *state;
	kp_grpc_channel_destroy(kp_steal(f->ch));
	server_close(&f->srv);
	kp_loop_destroy(f->loop);
	for (int i = 0; i < f->n_calls; i++) {
		assert_true(f->calls[i].n_ends <= 1);
		kp_buf_fini(&f->calls[i].text);
	}
	kp_mem_free(f);
	return 0;
}

KP_UNUSED static bool is_ready(struct fixture *f)
{
	return kp_grpc_channel_state(f->ch) == KP_GRPC_READY;
}

KP_UNUSED static bool all_ended(struct fixture *f)
{
	for (int i = 0; i < f->n_calls; i++) {
		if (f->calls[i].n_ends == 0) {
			return false;
		}
	}
	return true;
}

/* The server has the requests of all calls, on whatever connections. */
KP_UNUSED static bool all_asked(struct fixture *f)
{
	size_t bytes = 0;
	for (int i = 0; i < f->srv.n_sides; i++) {
		bytes += f->srv.sides[i].p.body.n;
	}
	return bytes == (size_t)f->n_calls * 8;
}

#define assert_text(call, want) assert_str(kp_buf_str(&(call)->text), kp_str_c(want))

#define WITH(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

#endif

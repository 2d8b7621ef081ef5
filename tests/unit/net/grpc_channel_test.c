/* The channel's connections: states, back-off, GOAWAY, keepalive's patience, admission, what leaves together. Real servers: tests/integ/grpc. */
#include "grpc_channel_calls.h"

static void states(void **state)
{
	struct fixture *f = *state;
	open_channel(f, (struct kp_grpc_opts){ .address = NULL });
	assert_int_equal(kp_grpc_channel_state(f->ch), KP_GRPC_IDLE);
	kp_grpc_channel_connect(f->ch);
	assert_int_equal(kp_grpc_channel_state(f->ch), KP_GRPC_CONNECTING);
	run(f, is_ready, 0);
	assert_int_equal(kp_grpc_channel_calls(f->ch), 0);
	struct call *c = start(f, 0, false);
	assert_int_equal(kp_grpc_channel_calls(f->ch), 1);
	run(f, all_asked, 0);
	struct side *s = &f->srv.sides[0];
	H2_HEAD(&s->p, 1);
	h2_send(&s->p, 1, KP_S("hi"));
	H2_STATUS(&s->p, 1, "0");
	flush_side(s);
	run(f, all_ended, 0);
	assert_text(c, "hi|OK");
	assert_int_equal(kp_grpc_channel_calls(f->ch), 0);
	/* The server goes, and comes back for the next call. */
	kp_conn_close(kp_steal(s->conn));
	run(f, NULL, 20);
	assert_int_equal(kp_grpc_channel_state(f->ch), KP_GRPC_IDLE);
	start(f, 0, false);
	run(f, is_ready, 0);
	assert_int_equal(f->srv.n_sides, 2);
}

static void what_is_started_together_leaves_together(void **state)
{
	struct fixture *f = *state;
	open_channel(f, (struct kp_grpc_opts){ .address = NULL });
	kp_grpc_channel_connect(f->ch);
	run(f, is_ready, 0);
	run(f, NULL, 20);
	int reads = f->srv.sides[0].n_reads;
	for (int i = 0; i < 50; i++) {
		start(f, 0, false);
	}
	run(f, all_asked, 0);
	assert_int_equal(f->srv.sides[0].n_reads, reads + 1);
}

static void early_failures_come_in_the_same_iteration(void **state)
{
	struct fixture *f = *state;
	open_channel(f, (struct kp_grpc_opts){ .max_pending_calls = 2 });
	const struct kp_header bad = { KP_S("te"), KP_S("x") };
	struct call *a = start(f, 0, false);
	struct call *b = start(f, 0, false);
	struct call *full = start(f, 0, false);
	struct call *late = start(f, -1, false);
	struct call *wrong = &f->calls[f->n_calls++];
	*wrong = (struct call){ .f = f };
	kp_buf_init(&wrong->text, 1000);
	wrong->call = kp_grpc_start(f->ch, "/t.T/M", &bad, 1, KP_S(""), 0, false, &call_ops, wrong);
	assert_int_equal(kp_grpc_channel_calls(f->ch), 5);
	kp_loop_stop(f->loop);
	kp_loop_run(f->loop); /* one iteration */
	assert_text(full, "RESOURCE_EXHAUSTED?");
	assert_text(late, "DEADLINE_EXCEEDED?");
	assert_text(wrong, "INVALID_ARGUMENT?");
	assert_int_equal(a->n_ends + b->n_ends, 0);
	assert_int_equal(kp_grpc_channel_calls(f->ch), 2);
}

static void back_off_grows(void **state)
{
	struct fixture *f = *state;
	f->srv.is_rude = true;
	open_channel(f, (struct kp_grpc_opts){ .address = NULL });
	struct call *fails = start(f, 0, false);
	struct call *waits = start(f, 1200, true);
	run(f, NULL, 50);
	assert_text(fails, "UNAVAILABLE?");
	assert_int_equal(kp_grpc_channel_state(f->ch), KP_GRPC_BACKOFF);
	struct call *at_once = start(f, 0, false);
	kp_loop_stop(f->loop);
	kp_loop_run(f->loop);
	assert_text(at_once, "UNAVAILABLE?");
	run(f, all_ended, 0);
	assert_text(waits, "DEADLINE_EXCEEDED?");
	assert_true(kp_str_has(kp_str_c(waits->msg), KP_S("last failure: channel `127.0.0.1:")));
	/* At 0, 100, 300, 700 ms, each +-20 %; the next would be after the deadline. */
	assert_in_range(f->srv.n_sides, 4, 5);
	/* A polite server ends it. */
	f->srv.is_rude = false;
	struct call *c = start(f, 0, true);
	run(f, is_ready, 0);
	kp_grpc_cancel(c->call);
	assert_int_equal(kp_grpc_channel_calls(f->ch), 0);
}

static void no_settings_no_connection(void **state)
{
	struct fixture *f = *state;
	f->srv.is_mute = true;
	open_channel(f, (struct kp_grpc_opts){ .connect_timeout_ns = 50 * MS });
	struct call *c = start(f, 0, false);
	run(f, all_ended, 0);
	assert_text(c, "UNAVAILABLE?");
	assert_true(kp_str_has(
		kp_str_c(c->msg), KP_S("no HTTP/2 SETTINGS from the server within 50 ms")));
}

static void a_retired_connection_finishes_its_calls(void **state)
{
	struct fixture *f = *state;
	open_channel(f, (struct kp_grpc_opts){ .address = NULL });
	struct call *a = start(f, 0, false);
	struct call *b = start(f, 0, false);
	run(f, all_asked, 0);
	struct side *s = &f->srv.sides[0];
	H2_HEAD(&s->p, 1);
	h2_send(&s->p, 1, KP_S("one"));
	h2_goaway(&s->p, 1, NGHTTP2_NO_ERROR, KP_S("moving"));
	flush_side(s);
	b->restart_at_end = true;
	run(f, all_asked, 0); /* the third call is on a connection of its own */
	assert_text(b, "UNAVAILABLE?");
	assert_int_equal(f->srv.n_sides, 2);
	assert_int_equal(f->srv.sides[1].p.body.n, 8);
	assert_true(is_ready(f));
	h2_send(&s->p, 1, KP_S("two"));
	H2_STATUS(&s->p, 1, "0");
	flush_side(s);
	H2_HEAD(&f->srv.sides[1].p, 1);
	H2_STATUS(&f->srv.sides[1].p, 1, "0");
	flush_side(&f->srv.sides[1]);
	run(f, all_ended, 0);
	assert_text(a, "one|two|OK");
	assert_text(b->next, "OK");
	/* The old one is closed by us. */
	run(f, NULL, 20);
	assert_null(s->conn);
	assert_non_null(f->srv.sides[1].conn);
}

static void calls_wait_for_a_free_stream(void **state)
{
	struct fixture *f = *state;
	f->srv.max_streams = 1;
	open_channel(f, (struct kp_grpc_opts){ .address = NULL });
	struct call *a = start(f, 0, false);
	struct call *b = start(f, 0, false);
	struct call *c = start(f, 0, false);
	run(f, is_ready, 0);
	run(f, NULL, 20);
	struct side *s = &f->srv.sides[0];
	assert_int_equal(s->p.body.n, 8);
	kp_grpc_cancel(b->call); /* waiting */
	kp_grpc_cancel(a->call); /* open: its stream becomes free for c */
	run(f, NULL, 20);
	assert_int_equal(s->p.body.n, 16);
	H2_HEADERS(&s->p, 3, true, ":status", "200", "content-type", "application/grpc",
		"grpc-status", "0");
	flush_side(s);
	run(f, NULL, 20);
	assert_text(c, "OK");
	assert_int_equal(a->n_ends + b->n_ends, 0);
}

static bool lost(struct fixture *f)
{
	return kp_grpc_channel_state(f->ch) != KP_GRPC_READY;
}

static size_t pings_of(const struct side *s)
{
	kp_str log = kp_buf_str(&s->p.log);
	kp_str line;
	size_t n = 0;
	while (kp_str_split(&log, '\n', &line)) {
		n += kp_str_eq(line, KP_S("ping"));
	}
	return n;
}

static void keepalive_asks_three_times_and_then_waits(void **state)
{
	struct fixture *f = *state;
	open_channel(f, (struct kp_grpc_opts){
				.keepalive_time_ns = 10 * MS, .keepalive_timeout_ns = 1000 * MS });
	struct call *c = start(f, 0, false);
	run(f, all_asked, 0);
	run(f, NULL, 200);
	struct side *s = &f->srv.sides[0];
	assert_int_equal(pings_of(s), 3);
	/* An answer makes a new spell of it. */
	H2_HEAD(&s->p, 1);
	flush_side(s);
	run(f, NULL, 20);
	assert_int_equal(pings_of(s), 3); /* the slow timer is not moved by it */
	H2_STATUS(&s->p, 1, "0");
	flush_side(s);
	run(f, all_ended, 0);
	assert_text(c, "OK");
	/* No call, no PING. */
	size_t before = pings_of(s);
	run(f, NULL, 50);
	assert_int_equal(pings_of(s), before);
}

static void keepalive_of_our_own_servers_asks_for_ever(void **state)
{
	struct fixture *f = *state;
	open_channel(f, (struct kp_grpc_opts){ .keepalive_time_ns = 10 * MS,
				.keepalive_timeout_ns = 1000 * MS,
				.keepalive_always = true });
	start(f, 0, false);
	run(f, all_asked, 0);
	run(f, NULL, 200);
	assert_in_range(pings_of(&f->srv.sides[0]), 8, 25);
}

/* A loop that was held up finds the answer in the socket, later than it should have read it. */
static void keepalive_forgives_our_own_delay(void **state)
{
	struct fixture *f = *state;
	open_channel(f, (struct kp_grpc_opts){ .keepalive_time_ns = 20 * MS,
				.keepalive_timeout_ns = 20 * MS,
				.keepalive_always = true });
	struct call *c = start(f, 0, false);
	run(f, all_asked, 0);
	struct side *s = &f->srv.sides[0];
	for (int i = 0; i < 20; i++) {
		run(f, NULL, 25);
		/* Between two runs time passes and nothing is read. */
		struct timespec t = { 0, 60 * MS };
		nanosleep(&t, NULL);
	}
	assert_int_equal(c->n_ends, 0);
	assert_in_range(pings_of(s), 5, 60);
}

static void keepalive_ends_a_dead_connection(void **state)
{
	struct fixture *f = *state;
	f->srv.is_quiet = true;
	open_channel(f, (struct kp_grpc_opts){
				.keepalive_time_ns = 10 * MS, .keepalive_timeout_ns = 30 * MS });
	struct call *c = start(f, 0, false);
	run(f, all_asked, 0);
	run(f, all_ended, 0);
	assert_text(c, "UNAVAILABLE");
	assert_true(
		kp_str_has(kp_str_c(c->msg), KP_S("no answer to a keepalive PING within 30 ms")));
	assert_true(lost(f));
}

static int n_connected;

static void on_connected(void *user)
{
	(void)user;
	n_connected++;
}

static bool a_connection_waits(struct fixture *f)
{
	(void)f;
	return n_connected > 0;
}

static void answer(struct fixture *f, int side, int32_t stream, kp_str text)
{
	struct side *s = &f->srv.sides[side];
	H2_HEAD(&s->p, stream);
	h2_send(&s->p, stream, text);
	H2_STATUS(&s->p, stream, "0");
	flush_side(s);
}

/* Whoever listens gets nothing before the channel's owner knows who it is, on each new connection. */
static void a_connection_waits_until_it_is_admitted(void **state)
{
	struct fixture *f = *state;
	n_connected = 0;
	open_channel(f, (struct kp_grpc_opts){ .connected = on_connected });
	struct call *c = start(f, 0, false);
	for (int i = 0; i < 2; i++) {
		run(f, a_connection_waits, 0);
		run(f, NULL, 20);
		assert_int_equal(n_connected, 1);
		assert_false(kp_grpc_channel_is_admitted(f->ch));
		assert_true(kp_grpc_is_waiting(c->call));
		assert_int_equal(f->srv.sides[i].p.body.n, 0);
		if (i == 0) { /* lost while it waits */
			n_connected = 0;
			run(f, NULL, 1000); /* long enough to be no failure */
			kp_conn_close(kp_steal(f->srv.sides[0].conn));
		}
	}
	kp_grpc_channel_admit(f->ch);
	run(f, all_asked, 0);
	assert_false(kp_grpc_is_waiting(c->call));
	answer(f, 1, 1, KP_S("hi"));
	run(f, all_ended, 0);
	assert_text(c, "hi|OK");
}

/* What runs on it ends in peace, what is new goes to another one, which has to be admitted. */
static void a_renewed_connection_finishes_its_calls(void **state)
{
	struct fixture *f = *state;
	n_connected = 0;
	open_channel(f, (struct kp_grpc_opts){ .connected = on_connected });
	struct call *old = start(f, 0, false);
	run(f, a_connection_waits, 0);
	kp_grpc_channel_admit(f->ch);
	run(f, all_asked, 0);
	n_connected = 0;
	kp_grpc_channel_renew(f->ch);
	struct call *new = start(f, 0, false);
	run(f, a_connection_waits, 0);
	run(f, NULL, 20);
	assert_int_equal(f->srv.sides[1].p.body.n, 0);
	kp_grpc_channel_admit(f->ch);
	run(f, all_asked, 0);
	answer(f, 1, 1, KP_S("new"));
	answer(f, 0, 1, KP_S("old"));
	run(f, all_ended, 0);
	assert_text(old, "old|OK");
	assert_text(new, "new|OK");
	run(f, NULL, 20);
	assert_null(f->srv.sides[0].conn); /* closed when its calls were over */
}

enum { TAIL = 200000, WINDOW = 65535 };

static bool window_is_full(struct fixture *f)
{
	return f->srv.sides[0].p.body.n >= WINDOW;
}

/* On a channel of its own, until the first window is full. */
static struct call *start_with_tail(struct fixture *f, const char *tail)
{
	open_channel(f, (struct kp_grpc_opts){ .address = NULL });
	struct call *c = &f->calls[f->n_calls++];
	*c = (struct call){ .f = f };
	kp_buf_init(&c->text, 1 << 20);
	c->call = kp_grpc_start_long(
		f->ch, "/t.T/M", KP_S("ask"), kp_str_n(tail, TAIL), 0, false, &call_ops, c);
	run(f, window_is_full, 0);
	return c;
}

/* The tail follows the message as one, from where it lies, across windows; an answer may come before. */
static void a_message_with_a_tail(void **state)
{
	struct fixture *f = *state;
	char *tail = kp_xmalloc(TAIL);
	for (size_t i = 0; i < TAIL; i++) {
		tail[i] = (char)(i * 7 >> 3);
	}
	struct call *c = start_with_tail(f, tail);
	struct h2_peer *p = &f->srv.sides[0].p;
	assert_int_equal(p->body.n, WINDOW);
	assert_false(kp_grpc_is_sent(c->call));
	H2_HEAD(p, 1);
	h2_send(p, 1, KP_S("early"));
	h2_window(p, 1, 3 + TAIL - WINDOW); /* all but the prefix's five bytes */
	flush_side(&f->srv.sides[0]);
	run(f, NULL, 20);
	assert_int_equal(p->body.n, 3 + TAIL);
	assert_false(kp_grpc_is_sent(c->call));
	h2_window(p, 1, 5);
	flush_side(&f->srv.sides[0]);
	run(f, NULL, 20);
	assert_true(kp_grpc_is_sent(c->call));
	memset(tail, 0, TAIL);
	kp_mem_free(tail);
	H2_STATUS(p, 1, "0");
	flush_side(&f->srv.sides[0]);
	run(f, all_ended, 0);
	assert_text(c, "early|OK");
	kp_str body = kp_buf_str(&p->body);
	assert_int_equal(body.n, 8 + TAIL);
	assert_memory_equal(body.p,
		"\0\0\x03\x0d\x43"
		"ask",
		8);
	for (size_t i = 0; i < TAIL; i++) {
		assert_int_equal((unsigned char)body.p[8 + i], i * 7 >> 3 & 255);
	}
}

/* A call that is given up reads its tail no more. */
static void a_tail_that_is_gone_is_not_read(void **state)
{
	struct fixture *f = *state;
	char *tail = kp_xmalloc(TAIL);
	memset(tail, 'x', TAIL);
	struct call *c = start_with_tail(f, tail);
	kp_grpc_cancel(c->call);
	kp_mem_free(tail);
	h2_window(&f->srv.sides[0].p, 1, TAIL);
	flush_side(&f->srv.sides[0]);
	run(f, NULL, 20);
	assert_int_equal(f->srv.sides[0].p.body.n, WINDOW);
	assert_int_equal(c->n_ends, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(states),
		WITH(what_is_started_together_leaves_together),
		WITH(early_failures_come_in_the_same_iteration),
		WITH(back_off_grows),
		WITH(no_settings_no_connection),
		WITH(a_retired_connection_finishes_its_calls),
		WITH(calls_wait_for_a_free_stream),
		WITH(keepalive_asks_three_times_and_then_waits),
		WITH(keepalive_of_our_own_servers_asks_for_ever),
		WITH(keepalive_forgives_our_own_delay),
		WITH(keepalive_ends_a_dead_connection),
		WITH(a_connection_waits_until_it_is_admitted),
		WITH(a_renewed_connection_finishes_its_calls),
		WITH(a_message_with_a_tail),
		WITH(a_tail_that_is_gone_is_not_read),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

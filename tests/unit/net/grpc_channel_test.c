/* The channel on a real socket, against a scripted server on the same loop: states, back-off, GOAWAY, keepalive's patience, what callbacks may do, what leaves
   together. Real servers: tests/integ/grpc. */
#include "base/clock.h"
#include "base/mem.h"
#include "h2_peer.h"
#include "net/addr.h"
#include "net/conn.h"
#include "net/grpc.h"
#include "tests/test.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <uv.h>

enum { MAX_CONNS = 16, MAX_CALLS = 64 };
#define MS KP_NS_PER_MS

/* --- the server --- */

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
static void run(struct fixture *f, bool (*until)(struct fixture *), int64_t ms)
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

static void open_channel(struct fixture *f, struct kp_grpc_opts o)
{
	o.address = f->srv.address;
	o.seed = 7;
	f->ch = kp_grpc_channel_create(f->loop, &o);
}

static int setup(void **state)
{
	struct fixture *f = kp_new(struct fixture);
	f->loop = kp_loop_create("test");
	server_open(&f->srv, f->loop);
	*state = f;
	return 0;
}

static int teardown(void **state)
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

static bool is_ready(struct fixture *f)
{
	return kp_grpc_channel_state(f->ch) == KP_GRPC_READY;
}

static bool all_ended(struct fixture *f)
{
	for (int i = 0; i < f->n_calls; i++) {
		if (f->calls[i].n_ends == 0) {
			return false;
		}
	}
	return true;
}

/* The server has the requests of all calls, on whatever connections. */
static bool all_asked(struct fixture *f)
{
	size_t bytes = 0;
	for (int i = 0; i < f->srv.n_sides; i++) {
		bytes += f->srv.sides[i].p.body.n;
	}
	return bytes == (size_t)f->n_calls * 8;
}

#define assert_text(call, want) assert_str(kp_buf_str(&(call)->text), kp_str_c(want))

/* --- tests --- */

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

static void paused_and_resumed(void **state)
{
	struct fixture *f = *state;
	open_channel(f, (struct kp_grpc_opts){ .address = NULL });
	struct call *c = start(f, 0, false);
	c->pause_at = 1;
	run(f, all_asked, 0);
	struct side *s = &f->srv.sides[0];
	H2_HEAD(&s->p, 1);
	h2_send(&s->p, 1, KP_S("a"));
	h2_send(&s->p, 1, KP_S("b"));
	H2_STATUS(&s->p, 1, "0");
	flush_side(s);
	run(f, NULL, 20);
	assert_text(c, "a|");
	/* Resumed and paused again before anything could come of it. */
	kp_grpc_pause(c->call, false);
	kp_grpc_pause(c->call, true);
	run(f, NULL, 10);
	assert_text(c, "a|");
	kp_grpc_pause(c->call, false);
	assert_text(c, "a|"); /* not from inside */
	run(f, all_ended, 0);
	assert_text(c, "a|b|OK");
}

static void a_paused_call_still_has_its_deadline(void **state)
{
	struct fixture *f = *state;
	open_channel(f, (struct kp_grpc_opts){ .address = NULL });
	struct call *c = start(f, 100, false);
	c->pause_at = 1;
	run(f, all_asked, 0);
	struct side *s = &f->srv.sides[0];
	H2_HEAD(&s->p, 1);
	h2_send(&s->p, 1, KP_S("a"));
	h2_send(&s->p, 1, KP_S("b"));
	flush_side(s);
	run(f, all_ended, 0);
	assert_text(c, "a|DEADLINE_EXCEEDED");
	run(f, NULL, 20);
	assert_true(kp_str_has(kp_buf_str(&s->p.log), KP_S("rst 1: CANCEL")));
}

static void destroyed_inside_callbacks(void **state)
{
	struct fixture *f = *state;
	open_channel(f, (struct kp_grpc_opts){ .address = NULL });
	struct call *a = start(f, 0, false);
	struct call *b = start(f, 0, false);
	struct call *c = start(f, 0, false);
	a->destroy_at = 2;
	b->pause_at = 1;
	run(f, all_asked, 0);
	struct side *s = &f->srv.sides[0];
	H2_HEAD(&s->p, 3);
	h2_send(&s->p, 3, KP_S("x"));
	h2_send(&s->p, 3, KP_S("y"));
	H2_HEAD(&s->p, 1);
	h2_send(&s->p, 1, KP_S("1"));
	h2_send(&s->p, 1, KP_S("2"));
	h2_send(&s->p, 1, KP_S("3"));
	H2_STATUS(&s->p, 1, "0");
	flush_side(s);
	run(f, all_ended, 0);
	assert_text(a, "1|2|CANCELLED");
	assert_text(b, "x|CANCELLED");
	assert_text(c, "CANCELLED");
	run(f, NULL, 20);
	assert_null(s->conn);
}

static void destroyed_inside_an_end(void **state)
{
	struct fixture *f = *state;
	open_channel(f, (struct kp_grpc_opts){ .address = NULL });
	struct call *a = start(f, 0, false);
	struct call *b = start(f, 0, false);
	a->destroy_at_end = true;
	run(f, all_asked, 0);
	struct side *s = &f->srv.sides[0];
	H2_HEAD(&s->p, 1);
	H2_STATUS(&s->p, 1, "0");
	flush_side(s);
	run(f, all_ended, 0);
	assert_text(a, "OK");
	assert_text(b, "CANCELLED");
}

static void destroyed_when_the_connection_is_lost(void **state)
{
	struct fixture *f = *state;
	open_channel(f, (struct kp_grpc_opts){ .address = NULL });
	for (int i = 0; i < 5; i++) {
		start(f, 0, false)->destroy_at_end = true;
	}
	run(f, all_asked, 0);
	kp_conn_abort(kp_steal(f->srv.sides[0].conn));
	run(f, all_ended, 0);
	assert_text(&f->calls[0], "UNAVAILABLE");
	assert_text(&f->calls[4], "CANCELLED");
}

static void destroyed_by_an_early_failure(void **state)
{
	struct fixture *f = *state;
	f->srv.is_rude = true;
	open_channel(f, (struct kp_grpc_opts){ .address = NULL });
	for (int i = 0; i < 5; i++) {
		start(f, 0, i == 4)->destroy_at_end = true;
	}
	run(f, all_ended, 0);
	assert_text(&f->calls[0], "UNAVAILABLE?");
	assert_text(&f->calls[4], "CANCELLED?");
}

static void a_call_after_the_end(void **state)
{
	struct fixture *f = *state;
	open_channel(f, (struct kp_grpc_opts){ .address = NULL });
	struct call *a = start(f, 0, false);
	a->restart_at_end = true;
	struct kp_grpc_channel *ch = kp_steal(f->ch);
	f->ch = ch; /* `end` starts on it once more, while it is being destroyed */
	kp_grpc_channel_destroy(ch);
	assert_text(a, "CANCELLED?");
	f->ch = NULL;
	run(f, all_ended, 0);
	assert_text(a->next, "CANCELLED?");
}

static void cancelled_inside_a_message(void **state)
{
	struct fixture *f = *state;
	open_channel(f, (struct kp_grpc_opts){ .address = NULL });
	struct call *a = start(f, 1000, false);
	a->cancel_at = 2;
	run(f, all_asked, 0);
	struct side *s = &f->srv.sides[0];
	H2_HEAD(&s->p, 1);
	h2_data(&s->p, 1, false, KP_S("\0\0\0\0\1a\0\0\0\0\1b\0\0\0\0\1c"));
	H2_STATUS(&s->p, 1, "0");
	flush_side(s);
	run(f, NULL, 20);
	assert_text(a, "a|b|");
	assert_int_equal(kp_grpc_channel_calls(f->ch), 0);
	assert_true(kp_str_has(kp_buf_str(&s->p.log), KP_S("rst 1: CANCEL")));
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

int main(void)
{
#define WITH(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
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
		WITH(paused_and_resumed),
		WITH(a_paused_call_still_has_its_deadline),
		WITH(destroyed_inside_callbacks),
		WITH(destroyed_inside_an_end),
		WITH(destroyed_when_the_connection_is_lost),
		WITH(destroyed_by_an_early_failure),
		WITH(a_call_after_the_end),
		WITH(cancelled_inside_a_message),
		WITH(a_connection_waits_until_it_is_admitted),
		WITH(a_renewed_connection_finishes_its_calls),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

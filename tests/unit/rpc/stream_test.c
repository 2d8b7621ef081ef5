/* Streams in cleartext: messages both ways, ends of every kind, limits. */
#include "tests/unit/rpc/world.h"

static void test_talk(void **state)
{
	(void)state;
	struct world w;
	world_start(&w, "127.0.0.1:0", NULL, NULL);
	w.echo = true;
	struct kp_rpc_client *c = world_client(&w, NULL, NULL, NULL);
	struct end e = { .n_messages = 0 };
	e.stream = kp_rpc_client_open(c, &end_ops, &e);
	kp_rpc_stream_send(e.stream, KP_S("hello"));
	assert_true(world_run(&w, has_message, &e, 10));
	assert_string_equal(e.last, "hello");
	assert_string_equal(w.accepted[0]->last, "hello");
	assert_string_equal(w.accepted[0]->names, "");
	/* The server ends it in order: what was queued arrives first. */
	for (int i = 0; i < 100; i++) {
		kp_rpc_stream_send(w.accepted[0]->stream, KP_S("more"));
	}
	kp_rpc_stream_send(w.accepted[0]->stream, KP_S(""));
	kp_rpc_stream_close(w.accepted[0]->stream, NULL);
	kp_rpc_stream_send(w.accepted[0]->stream, KP_S("too late"));
	assert_true(world_run(&w, is_closed, &e, 10));
	assert_int_equal(e.status.code, KP_OK);
	assert_int_equal(e.n_messages, 102);
	assert_string_equal(e.last, "");
	assert_true(world_run(&w, all_closed, NULL, 10));
	assert_int_equal(w.accepted[0]->status.code, KP_OK);
	kp_rpc_client_destroy(c);
	world_end(&w);
}

static void test_statuses(void **state)
{
	(void)state;
	struct world w;
	world_start(&w, "127.0.0.1:0", NULL, NULL);
	struct kp_rpc_client *c = world_client(&w, NULL, NULL, NULL);
	struct end e = { .n_messages = 0 };
	const struct kp_err why = { .code = KP_UNAVAILABLE, .msg = "the leader is `b`" };
	w.refuse = why;
	e.stream = kp_rpc_client_open(c, &end_ops, &e);
	assert_true(world_run(&w, is_closed, &e, 10));
	assert_int_equal(e.status.code, KP_UNAVAILABLE);
	char want[128];
	snprintf(want, sizeof(want), "stream to `%s`: the leader is `b`", w.address);
	assert_string_equal(e.status.msg, want);
	/* A client that goes. */
	w.refuse = KP_ERR_INIT;
	e = (struct end){ .n_messages = 0 };
	e.stream = kp_rpc_client_open(c, &end_ops, &e);
	kp_rpc_stream_send(e.stream, KP_S("hello"));
	while (!w.n_accepted || !w.accepted[0]->n_messages) {
		assert_false(world_run(&w, is_closed, &e, 0));
	}
	kp_rpc_stream_close(e.stream, NULL);
	assert_true(world_run(&w, is_closed, &e, 10));
	assert_int_equal(e.status.code, KP_CANCELLED);
	assert_string_equal(e.status.msg, "the stream was closed on this side");
	assert_true(world_run(&w, all_closed, NULL, 10));
	assert_int_equal(w.accepted[0]->status.code, KP_CANCELLED);
	/* Another method. */
	struct kp_err err = KP_ERR_INIT;
	struct kp_rpc_client *other = NULL;
	assert_int_equal(
		kp_rpc_client_create(w.loop, w.address, "/a.B/C", NULL, NULL, NULL, &other, &err),
		0);
	e = (struct end){ .n_messages = 0 };
	e.stream = kp_rpc_client_open(other, &end_ops, &e);
	assert_true(world_run(&w, is_closed, &e, 10));
	assert_int_equal(e.status.code, KP_UNIMPLEMENTED);
	kp_rpc_client_destroy(other);
	kp_rpc_client_destroy(c);
	world_end(&w);
}

/* Nobody listens; then somebody does, and the next attempt gets through at once. */
static void test_reconnect(void **state)
{
	(void)state;
	struct world w;
	world_start(&w, "127.0.0.1:0", NULL, NULL);
	char address[64];
	snprintf(address, sizeof(address), "%s", w.address);
	kp_rpc_server_destroy(w.server);
	w.server = NULL;
	struct kp_rpc_client *c = world_client(&w, NULL, NULL, NULL);
	for (int i = 0; i < 3; i++) {
		struct end e = { .n_messages = 0 };
		e.stream = kp_rpc_client_open(c, &end_ops, &e);
		kp_rpc_stream_send(e.stream, KP_S("hello"));
		assert_true(world_run(&w, is_closed, &e, 10));
		assert_int_equal(e.status.code, KP_UNAVAILABLE);
		assert_non_null(strstr(e.status.msg, "refused"));
	}
	struct kp_err err = KP_ERR_INIT;
	assert_int_equal(kp_rpc_server_create(w.loop, address, METHOD, NULL, NULL, world_accept, &w,
				 &w.server, &err),
		0);
	w.echo = true;
	struct end e = { .n_messages = 0 };
	int64_t start = kp_now_ns();
	e.stream = kp_rpc_client_open(c, &end_ops, &e);
	kp_rpc_stream_send(e.stream, KP_S("hello"));
	assert_true(world_run(&w, has_message, &e, 10));
	assert_int_equal(e.n_closed, 0);
	assert_true(kp_now_ns() - start < KP_NS_PER_S);
	/* The port is taken. */
	struct kp_rpc_server *second = NULL;
	assert_int_equal(kp_rpc_server_create(w.loop, address, METHOD, NULL, NULL, world_accept, &w,
				 &second, &err),
		-1);
	char want[128];
	snprintf(want, sizeof(want), "listen on `%s`: Address already in use", address);
	assert_string_equal(err.msg, want);
	/* Both ends are told when everything goes at once. */
	kp_rpc_client_destroy(c);
	assert_int_equal(e.n_closed, 1);
	world_end(&w);
}

/* A reader that does not read: the queue fills, and the stream ends instead of growing. */
static void stall(void *user, kp_str bytes)
{
	struct end *e = user;
	(void)bytes;
	e->n_messages++;
}
static bool stop_at_once(struct world *w, void *arg)
{
	(void)w, (void)arg;
	return true;
}
static void test_slow_reader(void **state)
{
	(void)state;
	struct world w;
	const struct kp_rpc_limits limits = { .max_queue_bytes = 4 << 20 };
	world_start(&w, "127.0.0.1:0", NULL, &limits);
	struct kp_rpc_client *c = world_client(&w, NULL, NULL, NULL);
	static const struct kp_rpc_stream_ops slow = { stall, end_closed };
	struct end e = { .n_messages = 0 };
	e.stream = kp_rpc_client_open(c, &slow, &e);
	kp_rpc_stream_send(e.stream, KP_S("hello"));
	while (!w.n_accepted || !w.accepted[0]->n_messages) {
		assert_false(world_run(&w, is_closed, &e, 0));
	}
	static char big[1 << 20];
	struct kp_rpc_shared *shared = kp_rpc_shared_create(kp_str_n(big, sizeof(big)));
	/* In one turn of the loop nobody reads. */
	for (int i = 0; i < 5; i++) {
		kp_rpc_stream_send_shared(w.accepted[0]->stream, shared);
	}
	kp_rpc_shared_unref(shared);
	assert_true(world_run(&w, all_closed, NULL, 10));
	assert_int_equal(w.accepted[0]->status.code, KP_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(w.accepted[0]->status.msg,
		": 1048576 bytes, while 3146112 wait already, at most 4194304 allowed"));
	assert_true(world_run(&w, is_closed, &e, 10));
	assert_int_equal(e.status.code, KP_RESOURCE_EXHAUSTED);
	assert_true(world_run(&w, stop_at_once, NULL, 1));
	kp_rpc_client_destroy(c);
	world_end(&w);
}

static void test_large_messages(void **state)
{
	(void)state;
	struct world w;
	const struct kp_rpc_limits limits = { .max_message_bytes = 20 << 20 };
	world_start(&w, "127.0.0.1:0", NULL, &limits);
	struct kp_rpc_client *c = world_client(&w, NULL, NULL, NULL);
	struct end e = { .n_messages = 0 };
	static char big[21 << 20];
	memset(big, 'x', sizeof(big));
	e.stream = kp_rpc_client_open(c, &end_ops, &e);
	kp_rpc_stream_send(e.stream, kp_str_n(big, 20 << 20));
	kp_rpc_stream_send(e.stream, KP_S("after it"));
	while (!w.n_accepted || w.accepted[0]->n_messages < 2) {
		assert_false(world_run(&w, is_closed, &e, 0));
	}
	assert_int_equal(w.accepted[0]->bytes, (20 << 20) + 8);
	kp_rpc_stream_send(e.stream, kp_str_n(big, (20 << 20) + 1));
	assert_true(world_run(&w, is_closed, &e, 10));
	assert_int_equal(e.status.code, KP_RESOURCE_EXHAUSTED);
	assert_true(world_run(&w, all_closed, NULL, 10));
	assert_int_equal(w.accepted[0]->n_messages, 2);
	kp_rpc_client_destroy(c);
	world_end(&w);
}

static void test_too_many(void **state)
{
	(void)state;
	struct world w;
	const struct kp_rpc_limits limits = { .max_streams = 3 };
	world_start(&w, "127.0.0.1:0", NULL, &limits);
	w.echo = true;
	struct kp_rpc_client *c = world_client(&w, NULL, NULL, NULL);
	struct end e[4] = { { .n_messages = 0 } };
	for (size_t i = 0; i < 4; i++) {
		e[i].stream = kp_rpc_client_open(c, &end_ops, &e[i]);
		kp_rpc_stream_send(e[i].stream, KP_S("hello"));
		assert_true(world_run(&w, has_message, &e[i], 10));
		assert_int_equal(e[i].n_messages, i < 3);
	}
	assert_int_equal(e[3].status.code, KP_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(e[3].status.msg, "there are 3 already"));
	kp_rpc_stream_close(e[0].stream, NULL);
	assert_true(world_run(&w, is_closed, &e[0], 10));
	assert_true(world_run(&w, is_closed, w.accepted[0], 10));
	struct end again = { .n_messages = 0 };
	again.stream = kp_rpc_client_open(c, &end_ops, &again);
	kp_rpc_stream_send(again.stream, KP_S("hello"));
	assert_true(world_run(&w, has_message, &again, 10));
	assert_int_equal(again.n_messages, 1);
	kp_rpc_client_destroy(c);
	world_end(&w);
}

/* Everything goes while much is under way: no leak, `closed` once each. */
static void test_end_in_the_middle(void **state)
{
	(void)state;
	struct world w;
	world_start(&w, "127.0.0.1:0", NULL, NULL);
	w.echo = true;
	struct kp_rpc_client *c = world_client(&w, NULL, NULL, NULL);
	struct end e[20] = { { .n_messages = 0 } };
	static char big[100000];
	for (size_t i = 0; i < KP_LEN(e); i++) {
		e[i].echo = true; /* for ever */
		e[i].stream = kp_rpc_client_open(c, &end_ops, &e[i]);
		kp_rpc_stream_send(e[i].stream, kp_str_n(big, sizeof(big)));
		if (i % 3 == 0) {
			kp_rpc_stream_close(e[i].stream, NULL);
		}
	}
	assert_true(world_run(&w, has_message, &e[19], 10));
	kp_rpc_server_destroy(w.server);
	w.server = NULL;
	kp_rpc_client_destroy(c);
	for (size_t i = 0; i < KP_LEN(e); i++) {
		assert_int_equal(e[i].n_closed, 1);
	}
	world_end(&w);
}

static void test_addresses(void **state)
{
	(void)state;
	struct kp_loop *loop = kp_loop_create("test");
	struct kp_rpc_server *s = NULL;
	struct kp_rpc_client *c = NULL;
	struct kp_err err = KP_ERR_INIT;
	static const char *const open_ones[] = { "0.0.0.0:0", ":0", "10.0.0.1:7000", "[::]:0",
		"example.com:1" };
	for (size_t i = 0; i < KP_LEN(open_ones); i++) {
		assert_int_equal(kp_rpc_server_create(loop, open_ones[i], METHOD, NULL, NULL,
					 world_accept, NULL, &s, &err),
			-1);
		char want[200];
		snprintf(want, sizeof(want),
			"use address `%s`: without certificates only a loopback address or a Unix socket is allowed",
			open_ones[i]);
		assert_string_equal(err.msg, want);
		assert_int_equal(kp_rpc_client_create(
					 loop, open_ones[i], METHOD, NULL, NULL, NULL, &c, &err),
			-1);
		assert_string_equal(err.msg, want);
	}
	assert_int_equal(
		kp_rpc_client_create(loop, "127.0.0.1:0", METHOD, NULL, NULL, NULL, &c, &err), -1);
	assert_string_equal(err.msg, "use address `127.0.0.1:0`: a host and a port are needed");
	kp_loop_destroy(loop);
	static const char *const fine[] = { "localhost:0", "[::1]:0", "127.1.2.3:0",
		"unix:/tmp/kelpie-rpc-test.sock" };
	for (size_t i = 0; i < KP_LEN(fine); i++) {
		struct world w;
		world_start(&w, fine[i], NULL, NULL);
		w.echo = true;
		if (i == 3) {
			snprintf(w.address, sizeof(w.address), "%s", fine[i]);
		} else {
			snprintf(w.address, sizeof(w.address), "%.*s:%d", (int)strlen(fine[i]) - 2,
				fine[i], kp_rpc_server_port(w.server));
		}
		struct kp_rpc_client *client = world_client(&w, NULL, NULL, NULL);
		struct end e = { .n_messages = 0 };
		e.stream = kp_rpc_client_open(client, &end_ops, &e);
		kp_rpc_stream_send(e.stream, KP_S("hello"));
		assert_true(world_run(&w, has_message, &e, 10));
		assert_string_equal(e.status.msg, "");
		assert_string_equal(e.last, "hello");
		kp_rpc_client_destroy(client);
		world_end(&w);
	}
	unlink("/tmp/kelpie-rpc-test.sock");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_talk),
		cmocka_unit_test(test_statuses),
		cmocka_unit_test(test_reconnect),
		cmocka_unit_test(test_slow_reader),
		cmocka_unit_test(test_large_messages),
		cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_end_in_the_middle),
		cmocka_unit_test(test_addresses),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

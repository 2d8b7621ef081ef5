/* The gRPC server, frame by frame on a connection without a socket: what reaches the handler, which status a client gets for what is wrong, deadlines, cancelling,
   back-pressure, limits, drain. Real clients: tests/integ/grpc/test_server.py. */
#include "grpc_memory.h"
#include "h2_take.h"
#include "tests/test.h"

struct side {
	struct grpc_memory m;
	struct h2_peer p; /* what we send, and what the server sent, a line a frame */
	kp_str status;    /* points into the log */
};

static struct side t;

#define HEAD                                                                              \
	":method", "POST", ":scheme", "http", ":path", "/a.B/C", ":authority", "x", "te", \
		"trailers", "content-type", "application/grpc"
#define CALL(id) H2_HEADERS(&t.p, (id), false, HEAD)

static void begin(const struct kp_grpc_server_limits *limits)
{
	grpc_memory_open(&t.m, limits);
	h2_peer_init(&t.p);
	t.p.has_preface = true;
	kp_buf_lit(&t.p.out, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
	h2_settings(&t.p, 0);
}

static void end(void)
{
	grpc_memory_close(&t.m);
	h2_peer_fini(&t.p);
}

/* Our frames go out, the server's come in. */
static void turn(void)
{
	if (grpc_memory_feed(&t.m, kp_buf_str(&t.p.out))) {
		kp_buf_reset(&t.p.out);
	}
	grpc_memory_spin(&t.m);
	h2_take(&t.p, kp_buf_str(&t.m.sent));
	kp_buf_reset(&t.m.sent);
}

static void on_stop(struct kp_timer *timer)
{
	(void)timer;
	kp_loop_stop(t.m.loop);
}

/* The loop runs, timers and all. */
static void run_ms(int ms)
{
	struct kp_timer timer = { 0 };
	kp_timer_start(t.m.loop, &timer, kp_now_ns() + ms * KP_NS_PER_MS, on_stop);
	kp_loop_run(t.m.loop);
	turn();
}

static bool saw(const char *text)
{
	if (kp_str_has(kp_buf_str(&t.p.log), kp_str_c(text))) {
		return true;
	}
	print_message("no `%s` in:\n%s", text, kp_buf_cstr(&t.p.log));
	return false;
}

static bool logged(const char *text)
{
	if (kp_str_has(kp_buf_str(&t.m.log), kp_str_c(text))) {
		return true;
	}
	print_message("no `%s` in:\n%s", text, kp_buf_cstr(&t.m.log));
	return false;
}

static void message(int32_t id, bool last, kp_str text)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, SIZE_MAX);
	h2_message(&b, text);
	h2_data(&t.p, id, last, kp_buf_str(&b));
}

/* ---- answers ---- */

static void test_answer(void **state)
{
	(void)state;
	begin(NULL);
	CALL(1);
	message(1, true, KP_S("hello"));
	turn();
	assert_true(logged("1 request /a.B/C 5 "));
	assert_true(saw("headers 1: :status=200 content-type=application/grpc\n"));
	assert_true(saw("data 1: 10\n"));
	assert_memory_equal(t.p.body.p, "\0\0\0\0\5hello", 10);
	assert_true(saw("headers 1 end: grpc-status=0 x-raw-bin=AP8 x-plain=a???b\n"));
	assert_true(logged("1 closed 0\n"));
	assert_int_equal(kp_grpc_server_calls(t.m.server), 0);
	end();
}

static void test_trailers_only(void **state)
{
	(void)state;
	begin(NULL);
	CALL(1);
	message(1, true, KP_S("n"));
	turn();
	assert_true(saw("headers 1 end: :status=200 content-type=application/grpc grpc-status=5 "
			"grpc-message=gr%C3%BCn 100%25\n"));
	assert_false(kp_str_has(kp_buf_str(&t.m.log), KP_S("closed"))); /* it was not accepted */
	end();
}

static void test_together(void **state)
{
	(void)state;
	begin(NULL);
	CALL(1);
	message(1, true, KP_S("l")); /* one message in each of two iterations, then the end */
	CALL(3);
	message(3, true, KP_S("k"));
	turn();
	assert_true(saw("headers 1 end: grpc-status=0\n"));
	kp_buf_reset(&t.p.log);
	for (int i = 0; i < 5; i++) {
		kp_grpc_serving_send(t.m.last->c, KP_S("abc"));
	}
	kp_grpc_serving_send(t.m.last->c, KP_STR_NULL);
	assert_int_equal(kp_grpc_serving_queued(t.m.last->c), 5 * 8 + 5);
	turn();
	assert_string_equal(kp_buf_cstr(&t.p.log),
		"headers 3: :status=200 content-type=application/grpc\ndata 3: 45\n");
	assert_int_equal(kp_grpc_serving_queued(t.m.last->c), 0);
	end();
}

/* Streams that are written to in turn are sent in turn, while the handler writes: that must not call it back. */
static void test_in_turn(void **state)
{
	(void)state;
	struct grpc_memory_call *calls[3];
	begin(NULL);
	for (int32_t i = 0; i < 3; i++) {
		CALL(2 * i + 1);
		message(2 * i + 1, true, KP_S("k"));
		turn();
		calls[i] = t.m.last;
		kp_grpc_serving_send(calls[i]->c, KP_S("head"));
	}
	turn();
	kp_buf_reset(&t.p.log);
	kp_grpc_serving_send(calls[0]->c, KP_S("1"));
	kp_grpc_serving_send(calls[0]->c, KP_S("2"));
	kp_grpc_serving_end(calls[0]->c, &grpc_memory_fine, NULL, 0);
	kp_grpc_serving_send(calls[1]->c, KP_S("3"));
	kp_grpc_serving_send(calls[2]->c, KP_S("4"));
	kp_grpc_serving_send(calls[1]->c, KP_S("5"));
	assert_int_equal(t.m.sent.n, 0); /* all of it in one write */
	assert_int_equal(t.m.n_open, 3);
	turn();
	assert_string_equal(kp_buf_cstr(&t.p.log),
		"data 1: 12\nheaders 1 end: grpc-status=0\ndata 3: 6\ndata 5: 6\ndata 3: 6\n");
	assert_true(logged("1 closed 0\n"));
	assert_int_equal(t.m.n_open, 2);
	end();
}

static void test_codes_of_ours(void **state)
{
	(void)state;
	begin(NULL);
	static const struct {
		enum kp_code code;
		const char *sent;
	} cases[] = { { KP_TOO_LARGE, "grpc-status=8 " }, { KP_GONE, "grpc-status=5 " },
		{ KP_CONFLICT, "grpc-status=10 " }, { KP_UNAUTHENTICATED, "grpc-status=16 " } };
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		CALL((int32_t)(2 * i + 1));
		message((int32_t)(2 * i + 1), true, KP_S("k"));
		turn();
		struct kp_err err;
		kp_err_set(&err, cases[i].code, "why");
		kp_grpc_serving_end(t.m.last->c, &err, NULL, 0);
		kp_grpc_serving_send(t.m.last->c, KP_S("too late"));
		turn();
		assert_true(saw(cases[i].sent));
	}
	end();
}

/* ---- what is wrong with a request ---- */

static void test_http_refusals(void **state)
{
	(void)state;
	begin(NULL);
	H2_HEADERS(&t.p, 1, true, ":method", "GET", ":scheme", "http", ":path", "/a.B/C",
		":authority", "x", "te", "trailers", "content-type", "application/grpc");
	static const char *const types[] = { "application/json", "application/grpc-web",
		"application/grpc+json", "application/grpcx" };
	for (size_t i = 0; i < KP_LEN(types); i++) {
		H2_HEADERS(&t.p, (int32_t)(2 * i + 3), true, ":method", "POST", ":scheme", "http",
			":path", "/a.B/C", ":authority", "x", "te", "trailers", "content-type",
			types[i]);
	}
	turn();
	assert_true(saw("headers 1: :status=405 "));
	assert_true(saw("allow=POST"));
	assert_true(saw("headers 3: :status=415 "));
	assert_true(saw("headers 5: :status=415 "));
	assert_true(saw("headers 7: :status=415 "));
	assert_true(saw("headers 9: :status=415 "));
	assert_int_equal(t.m.n_calls, 0);
	/* These are good. */
	static const char *const good[] = { "application/grpc+proto", "Application/gRPC",
		"application/grpc; charset=x" };
	for (size_t i = 0; i < KP_LEN(good); i++) {
		int32_t id = (int32_t)(2 * i + 21);
		H2_HEADERS(&t.p, id, false, ":method", "POST", ":scheme", "http", ":path", "/a.B/C",
			":authority", "x", "te", "trailers", "content-type", good[i]);
		message(id, true, KP_S("n"));
	}
	turn();
	assert_int_equal(t.m.n_calls, KP_LEN(good));
	end();
}

static void test_http1(void **state)
{
	(void)state;
	grpc_memory_open(&t.m, NULL);
	grpc_memory_feed(&t.m,
		KP_S("POST /a.B/C HTTP/1.1\r\nHost: x\r\nContent-Type: application/grpc\r\nContent-Length: 5\r\n\r\n"));
	grpc_memory_spin(&t.m);
	assert_true(kp_str_starts(
		kp_buf_str(&t.m.sent), KP_S("HTTP/1.1 505 HTTP Version Not Supported\r\n")));
	assert_int_equal(t.m.n_calls, 0);
	grpc_memory_close(&t.m);
}

static void test_bad_heads(void **state)
{
	(void)state;
	begin(NULL);
	H2_HEADERS(&t.p, 1, false, ":method", "POST", ":scheme", "http", ":path", "/a.B/C",
		":authority", "x", "content-type", "application/grpc");
	H2_HEADERS(&t.p, 3, false, HEAD, "grpc-encoding", "gzip");
	static const char *const timeouts[] = { "1", "S", "", "-1S", "1s", "1 S", "123456789m",
		"1.5S", "+1S", "1SS" };
	for (size_t i = 0; i < KP_LEN(timeouts); i++) {
		H2_HEADERS(&t.p, (int32_t)(2 * i + 5), false, HEAD, "grpc-timeout", timeouts[i]);
	}
	H2_HEADERS(&t.p, 101, false, HEAD, "grpc-timeout", "1S", "grpc-timeout", "1S");
	message(101, true, KP_S("n"));
	H2_HEADERS(&t.p, 103, false, HEAD, "grpc-encoding", "identity");
	message(103, true, KP_S("n"));
	turn();
	assert_true(saw("headers 1 end: :status=200 content-type=application/grpc grpc-status=13 "
			"grpc-message=read request: `te: trailers` is missing\n"));
	assert_true(saw("headers 3 end: :status=200 content-type=application/grpc "
			"grpc-accept-encoding=identity grpc-status=12 "));
	for (size_t i = 0; i < KP_LEN(timeouts); i++) {
		char want[160];
		snprintf(want, sizeof(want),
			"headers %zu end: :status=200 content-type=application/grpc grpc-status=13 "
			"grpc-message=read request: bad grpc-timeout `%s`\n",
			2 * i + 5, timeouts[i]);
		assert_true(saw(want));
	}
	assert_true(
		saw("headers 101 end: :status=200 content-type=application/grpc grpc-status=13 "));
	assert_true(
		saw("headers 103 end: :status=200 content-type=application/grpc grpc-status=5 "));
	assert_true(saw("rst 1: NO_ERROR\n")); /* the rest of the request need not come */
	assert_int_equal(t.m.n_calls, 1);
	assert_int_equal(kp_grpc_server_calls(t.m.server), 0);
	end();
}

static void test_bad_messages(void **state)
{
	(void)state;
	begin(&(struct kp_grpc_server_limits){ .max_message_bytes = 100 });
	static const struct {
		kp_str body;
		const char *want;
	} cases[] = {
		{ { "", 0 }, "grpc-status=12 grpc-message=read request: no message came\n" },
		{ { "\0\0\0", 3 },
			"grpc-status=13 grpc-message=read request: it ended inside the message\n" },
		{ { "\0\0\0\0\5nope", 9 },
			"grpc-status=13 grpc-message=read request: it ended inside the message\n" },
		{ { "\0\0\0\0\1n\0\0\0\0\1n", 12 },
			"grpc-status=12 grpc-message=read request: more than one message came\n" },
		{ { "\0\0\0\0\1nx", 7 },
			"grpc-status=12 grpc-message=read request: more than one message came\n" },
		{ { "\1\0\0\0\1n", 6 },
			"grpc-status=13 grpc-message=read request: it is compressed, and no compression was announced\n" },
		{ { "\2\0\0\0\1n", 6 },
			"grpc-status=13 grpc-message=read request: its flag byte is invalid, and no compression was announced\n" },
		{ { "\0\0\0\0\x65", 5 },
			"grpc-status=8 grpc-message=read request of 101 bytes: the limit is 100 bytes\n" },
		{ { "\0\xff\xff\xff\xff", 5 },
			"grpc-status=8 grpc-message=read request of 4294967295 bytes: the limit is 100 bytes\n" },
	};
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		int32_t id = (int32_t)(2 * i + 1);
		CALL(id);
		h2_data(&t.p, id, true, cases[i].body);
		turn();
		char want[200];
		if (!strstr(cases[i].want, "=12")) {
			snprintf(want, sizeof(want),
				"headers %d end: :status=200 content-type=application/grpc %s", id,
				cases[i].want);
			assert_true(saw(want));
		} else {
			snprintf(want, sizeof(want),
				"headers %d end: :status=200 content-type=application/grpc grpc-accept-encoding=identity %s",
				id, cases[i].want);
			assert_true(saw(want));
		}
	}
	assert_int_equal(t.m.n_calls, 0);
	/* Exactly the limit is fine, and so is nothing at all. */
	char big[100] = "n";
	CALL(51);
	message(51, true, kp_str_n(big, sizeof(big)));
	CALL(53);
	message(53, true, KP_STR_NULL);
	turn();
	assert_int_equal(t.m.n_calls, 2);
	assert_true(saw("headers 53 end: grpc-status=0 "));
	end();
}

static void test_head_too_large(void **state)
{
	(void)state;
	begin(&(struct kp_grpc_server_limits){ .http.max_head_bytes = 2000 });
	char value[3000];
	memset(value, 'x', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	H2_HEADERS(&t.p, 1, true, HEAD, "x-long", value);
	H2_HEADERS(&t.p, 3, false, HEAD, "content-length", "99999999999");
	turn();
	assert_true(saw("headers 1 end: :status=200 content-type=application/grpc grpc-status=8 "
			"grpc-message=read request: the request head is too large\n"));
	assert_true(saw("headers 3 end: :status=200 content-type=application/grpc grpc-status=8 "
			"grpc-message=read request: the request body is too large\n"));
	end();
}

static void test_arriving_requests_are_limited(void **state)
{
	(void)state;
	begin(&(struct kp_grpc_server_limits){
		.max_message_bytes = 1000, .max_arriving_bytes = 1800 });
	char bytes[705] = { 0, 0, 0, 3, (char)0xe8, 'n' };
	CALL(1);
	h2_data(&t.p, 1, false, kp_str_n(bytes, sizeof(bytes)));
	CALL(3);
	h2_data(&t.p, 3, false, kp_str_n(bytes, sizeof(bytes)));
	CALL(5);
	h2_data(&t.p, 5, false, kp_str_n(bytes, sizeof(bytes)));
	turn();
	assert_true(
		saw("headers 5 end: :status=200 content-type=application/grpc grpc-status=8 "
		    "grpc-message=read request: more than 1800 bytes of requests are arriving\n"));
	assert_int_equal(kp_grpc_server_calls(t.m.server), 2);
	/* One goes: there is room again. */
	h2_rst(&t.p, 3, NGHTTP2_CANCEL);
	CALL(7);
	h2_data(&t.p, 7, false, kp_str_n(bytes, sizeof(bytes)));
	h2_data(&t.p, 1, false, kp_str_n(bytes + 5, 50));
	char zeros[300] = { 0 };
	h2_data(&t.p, 7, true, kp_str_n(zeros, 300));
	turn();
	assert_int_equal(t.m.n_calls, 1);
	assert_true(saw("headers 7 end: :status=200 content-type=application/grpc grpc-status=5 "));
	end();
}

/* ---- ends ---- */

static void test_cancel(void **state)
{
	(void)state;
	begin(NULL);
	CALL(1);
	message(1, true, KP_S("k"));
	turn();
	kp_grpc_serving_send(t.m.last->c, KP_S("one"));
	h2_rst(&t.p, 1, NGHTTP2_CANCEL);
	turn();
	assert_true(logged("1 closed 1\n"));
	assert_int_equal(kp_grpc_server_calls(t.m.server), 0);
	/* While its request arrives nobody is told. */
	CALL(3);
	h2_data(&t.p, 3, false, KP_S("\0\0\0\0\5hel"));
	turn();
	assert_int_equal(kp_grpc_server_calls(t.m.server), 1);
	h2_rst(&t.p, 3, NGHTTP2_CANCEL);
	turn();
	assert_int_equal(kp_grpc_server_calls(t.m.server), 0);
	assert_int_equal(t.m.n_calls, 1);
	end();
}

static void test_connection_lost(void **state)
{
	(void)state;
	begin(NULL);
	CALL(1);
	message(1, true, KP_S("k"));
	CALL(3);
	message(3, true, KP_S("k"));
	turn();
	kp_conn_memory_eof(t.m.conn);
	assert_true(logged("1 closed 1\n"));
	assert_true(logged("2 closed 1\n"));
	end();
}

static void test_destroyed_in_request(void **state)
{
	(void)state;
	begin(NULL);
	CALL(1);
	message(1, true, KP_S("k"));
	CALL(3);
	message(3, true, KP_S("x"));
	turn();
	assert_true(logged("1 closed 4\n"));
	assert_true(logged("2 closed 4\n"));
	end();
}

static void test_deadline(void **state)
{
	(void)state;
	begin(NULL);
	int64_t from = kp_now_ns();
	H2_HEADERS(&t.p, 1, false, HEAD, "grpc-timeout", "200m");
	message(1, true, KP_S("k"));
	H2_HEADERS(&t.p, 3, false, HEAD, "grpc-timeout", "200m");
	message(3, true, KP_S("k"));
	H2_HEADERS(&t.p, 5, false, HEAD, "grpc-timeout", "200m");
	h2_data(&t.p, 5, false, KP_S("\0\0\0\0\5hel"));
	H2_HEADERS(&t.p, 7, false, HEAD, "grpc-timeout", "0n");
	message(7, true, KP_S("k"));
	H2_HEADERS(&t.p, 9, false, HEAD, "grpc-timeout", "99999999H");
	message(9, true, KP_S("k"));
	turn();
	assert_true(logged("1 request /a.B/C 1 af63e64c8601fd8a deadline\n"));
	assert_true(saw("headers 7 end: :status=200 content-type=application/grpc grpc-status=4 "));
	assert_int_equal(t.m.n_calls, 3);
	kp_buf_reset(&t.p.log);
	for (int i = 0; i < 500 && t.m.n_open > 1; i++) {
		run_ms(10);
	}
	assert_true(kp_now_ns() - from >= 200 * KP_NS_PER_MS);
	assert_true(logged("1 closed 2\n"));
	assert_true(logged("2 closed 2\n"));
	assert_int_equal(t.m.n_open, 1);
	assert_true(saw("headers 1 end: :status=200 content-type=application/grpc grpc-status=4 "
			"grpc-message=call `/a.B/C`: the deadline passed\n"));
	assert_true(saw("headers 5 end: :status=200 content-type=application/grpc grpc-status=4 "));
	end();
}

/* ---- flow ---- */

static void window(int32_t id, uint32_t n)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 4);
	h2_u32(&b, n);
	h2_frame(&t.p, NGHTTP2_WINDOW_UPDATE, 0, id, kp_buf_str(&b));
}

static void test_back_pressure(void **state)
{
	(void)state;
	begin(&(struct kp_grpc_server_limits){ .http.high_water = 20000, .http.low_water = 5000 });
	CALL(1);
	message(1, true, KP_S("k"));
	turn();
	char bytes[995] = { 0 };
	for (int i = 0; i < 100; i++) {
		kp_grpc_serving_send(t.m.last->c, kp_str_n(bytes, sizeof(bytes)));
	}
	turn();
	assert_int_equal(t.p.body.n, 65535); /* the window is full */
	assert_int_equal(kp_grpc_serving_queued(t.m.last->c), 100 * 1000 - 65535);
	assert_false(kp_str_has(kp_buf_str(&t.m.log), KP_S("writable")));
	window(0, 1000000);
	window(1, 29000);
	turn();
	assert_int_equal(kp_grpc_serving_queued(t.m.last->c), 100 * 1000 - 65535 - 29000);
	assert_false(kp_str_has(kp_buf_str(&t.m.log), KP_S("writable")));
	window(1, 1000);
	turn();
	assert_true(logged("1 writable\n"));
	window(1, 100000);
	kp_grpc_serving_end(t.m.last->c, &grpc_memory_fine, NULL, 0);
	turn();
	assert_int_equal(t.p.body.n, 100 * 1000);
	assert_true(saw("headers 1 end: grpc-status=0\n"));
	end();
}

/* At the deadline what a client does not take is dropped, with a reset that says so. */
static void test_deadline_of_a_slow_client(void **state)
{
	(void)state;
	begin(NULL);
	H2_HEADERS(&t.p, 1, false, HEAD, "grpc-timeout", "200m");
	message(1, true, KP_S("k"));
	turn();
	static char bytes[100000];
	kp_grpc_serving_send(t.m.last->c, kp_str_n(bytes, sizeof(bytes)));
	for (int i = 0; i < 500 && t.m.n_open > 0; i++) {
		run_ms(10);
	}
	assert_true(logged("1 closed 2\n"));
	assert_true(saw("rst 1: CANCEL\n"));
	assert_int_equal(kp_grpc_server_calls(t.m.server), 0);
	end();
}

static void test_drain(void **state)
{
	(void)state;
	begin(NULL);
	CALL(1);
	message(1, true, KP_S("k"));
	turn();
	kp_grpc_server_drain(t.m.server);
	turn();
	assert_true(saw("goaway: NO_ERROR\n")); /* soon; what is on the way is still served */
	CALL(3);
	message(3, true, KP_S("n"));
	turn();
	assert_true(saw("headers 3 end: :status=200 content-type=application/grpc grpc-status=5 "));
	run_ms(600);
	kp_grpc_serving_send(t.m.last->c, KP_S("one"));
	turn();
	assert_true(saw("data 1: 8\n"));
	assert_true(grpc_memory_alive(&t.m));
	kp_grpc_serving_end(t.m.last->c, &grpc_memory_fine, NULL, 0);
	turn();
	assert_true(saw("headers 1 end: grpc-status=0\n"));
	assert_false(grpc_memory_alive(&t.m));
	end();
}

/* A peer that asks each second whether we live is no flood, however long it does. */
static void test_pings(void **state)
{
	(void)state;
	begin(NULL);
	for (int i = 0; i < 900; i++) {
		h2_frame(&t.p, NGHTTP2_PING, 0, 0, KP_S("12345678"));
	}
	turn();
	assert_true(grpc_memory_alive(&t.m));
	size_t n = 0;
	kp_str rest = kp_buf_str(&t.p.log), line;
	while (kp_str_split(&rest, '\n', &line)) {
		n += kp_str_eq(line, KP_S("ping ack"));
	}
	assert_int_equal(n, 900);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answer),
		cmocka_unit_test(test_trailers_only),
		cmocka_unit_test(test_together),
		cmocka_unit_test(test_in_turn),
		cmocka_unit_test(test_codes_of_ours),
		cmocka_unit_test(test_http_refusals),
		cmocka_unit_test(test_http1),
		cmocka_unit_test(test_bad_heads),
		cmocka_unit_test(test_bad_messages),
		cmocka_unit_test(test_head_too_large),
		cmocka_unit_test(test_arriving_requests_are_limited),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_connection_lost),
		cmocka_unit_test(test_destroyed_in_request),
		cmocka_unit_test(test_deadline),
		cmocka_unit_test(test_back_pressure),
		cmocka_unit_test(test_deadline_of_a_slow_client),
		cmocka_unit_test(test_drain),
		cmocka_unit_test(test_pings),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

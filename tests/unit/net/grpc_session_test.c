/* One connection's gRPC calls, by bytes: what is sent, what each kind of answer becomes, flow control, and callbacks that end things. */
#include "grpc_session_calls.h"
#include "tests/test.h"

enum { CALLS = 4 };

struct fixture {
	struct kp_grpc_session *s;
	struct h2_peer p;
	struct test_call c[CALLS];
};

/* A session that has greeted, and CALLS calls on streams 1, 3, 5, 7, sent. */
static int setup(void **state)
{
	struct fixture *f = kp_new(struct fixture);
	f->s = test_session();
	h2_peer_init(&f->p);
	h2_settings(&f->p, 0);
	test_send(f->s, &f->p);
	test_recv(f->s, &f->p);
	for (size_t i = 0; i < CALLS; i++) {
		test_call_init(&f->c[i], KP_S("question"));
		test_call_open(f->s, &f->c[i]);
	}
	test_send(f->s, &f->p);
	kp_buf_reset(&f->p.log);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	for (size_t i = 0; i < CALLS; i++) {
		test_call_fini(&f->c[i]);
	}
	kp_grpc_session_destroy(f->s);
	h2_peer_fini(&f->p);
	kp_mem_free(f);
	return 0;
}

/* Both directions; the first call's log must be `want`. */
static void exchange(struct fixture *f)
{
	test_recv(f->s, &f->p);
	test_send(f->s, &f->p);
}

static void expect_at(
	struct fixture *f, const char *want, const char *sent, const char *file, int line)
{
	exchange(f);
	assert_str_at(kp_buf_str(&f->c[0].log), kp_str_c(want), file, line);
	assert_str_at(kp_buf_str(&f->p.log), kp_str_c(sent), file, line);
}
#define expect(f, want, sent) expect_at((f), (want), (sent), __FILE__, __LINE__)

/* --- what is sent --- */

static void the_greeting_and_a_call(void **state)
{
	(void)state;
	struct kp_grpc_session *s = test_session();
	struct h2_peer p;
	h2_peer_init(&p);
	test_send(s, &p);
	assert_str_lit(kp_buf_str(&p.log), "settings: 2=0 3=0 4=65536 6=65536\nwindow 0: 983041\n");
	assert_false(kp_grpc_session_info(s)->is_ready);
	assert_int_equal(kp_grpc_session_room(s), 0);

	h2_settings(&p, 7);
	test_recv(s, &p);
	assert_true(kp_grpc_session_info(s)->is_ready);
	assert_int_equal(kp_grpc_session_room(s), 7);

	struct test_call c;
	struct kp_err err;
	const struct kp_header md[] = { { KP_S("x-id"), KP_S("42") },
		{ KP_S("x-bin"), KP_S("AAE") } };
	test_call_init(&c, KP_S("hello"));
	kp_buf_reset(&p.log);
	assert_int_equal(kp_grpc_stream_open(s, &c.st, KP_S("/a.B/C"), md, 2, 1500000000, &err), 0);
	assert_int_equal(kp_grpc_session_room(s), 6);
	assert_false(c.st.is_sent);
	test_send(s, &p);
	assert_true(c.st.is_sent);
	assert_str_lit(kp_buf_str(&p.log),
		"settings ack:\n"
		"headers 1: :method=POST :scheme=http :path=/a.B/C :authority=server:1 te=trailers content-type=application/grpc "
		"user-agent=test/1 grpc-timeout=1500000u x-id=42 x-bin=AAE\n"
		"data 1 end: 10\n");
	assert_str_lit(kp_buf_str(&p.body), "\0\0\0\0\5hello");
	test_call_fini(&c);
	test_send(s, &p);
	kp_grpc_session_destroy(s);
	h2_peer_fini(&p);
}

static void a_long_request_follows_the_servers_window(void **state)
{
	struct fixture *f = *state;
	struct test_call c;
	size_t n = 200000;
	char *message = kp_xcalloc(n, 1);
	test_call_init(&c, kp_str_n(message, n));
	test_call_open(f->s, &c);
	exchange(f);
	assert_true(c.st.request_sent <
		    65536); /* the connection's window is shared with the other calls' questions */
	assert_true(c.st.request_sent > 65000);
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 4);
	h2_u32(&b, 1 << 20);
	h2_frame(&f->p, NGHTTP2_WINDOW_UPDATE, 0, 0, kp_buf_str(&b));
	h2_frame(&f->p, NGHTTP2_WINDOW_UPDATE, 0, 9, kp_buf_str(&b));
	exchange(f);
	assert_int_equal(c.st.request_sent, n + 5);
	/* Answered: all is well. */
	H2_HEAD(&f->p, 9);
	H2_STATUS(&f->p, 9, "0");
	exchange(f);
	assert_str_lit(kp_buf_str(&c.log), "end OK");
	test_call_fini(&c);
	kp_mem_free(message);
}

static void an_early_answer_stops_the_request(void **state)
{
	struct fixture *f = *state;
	struct test_call c;
	size_t n = 200000;
	char *message = kp_xcalloc(n, 1);
	test_call_init(&c, kp_str_n(message, n));
	test_call_open(f->s, &c);
	test_send(f->s, &f->p);
	kp_buf_reset(&f->p.log);
	H2_HEADERS(&f->p, 9, true, ":status", "200", "content-type", "application/grpc",
		"grpc-status", "12", "grpc-message", "no");
	exchange(f);
	assert_str_lit(kp_buf_str(&c.log), "end UNIMPLEMENTED: no");
	assert_str_lit(kp_buf_str(&f->p.log), "rst 9: NO_ERROR\n");
	test_call_fini(&c);
	kp_mem_free(message);
}

/* --- answers --- */

static void one_answer(void **state)
{
	struct fixture *f = *state;
	H2_HEAD(&f->p, 1);
	h2_send(&f->p, 1, KP_S("answer"));
	H2_HEADERS(&f->p, 1, true, "grpc-status", "0", "x-load", "3", "data-bin",
		"AAEC/w==", "bad-bin", "?");
	exchange(f);
	/* `data-bin` is decoded, what is no base64 is left out. */
	assert_str_lit(kp_buf_str(&f->c[0].log), "answer|end OK x-load=3 data-bin=\0\1\2\xff");
	assert_str_lit(kp_buf_str(&f->p.log), "");
	assert_int_equal(kp_grpc_session_info(f->s)->n_open, CALLS - 1);
	assert_int_equal(kp_grpc_session_info(f->s)->n_streams, CALLS - 1);
}

static void messages_lie_across_frames_and_many_in_one(void **state)
{
	struct fixture *f = *state;
	H2_HEAD(&f->p, 1);
	h2_data(&f->p, 1, false, KP_S("\0\0\0\0\1a\0\0\0\0\2bc\0\0"));
	h2_data(&f->p, 1, false, KP_S(""));
	h2_data(&f->p, 1, false, KP_S("\0\0\3d"));
	h2_data(&f->p, 1, false, KP_S("e"));
	/* Padded: 3 bytes of padding. */
	h2_frame(&f->p, NGHTTP2_DATA, NGHTTP2_FLAG_PADDED, 1, KP_S("\3f\0\0\0\0\0xxx"));
	H2_STATUS(&f->p, 1, "0");
	expect(f, "a|bc|def||end OK", "");
}

static void trailers_only(void **state)
{
	struct fixture *f = *state;
	H2_HEADERS(&f->p, 1, true, ":status", "200", "content-type", "application/grpc",
		"grpc-status", "5", "grpc-message", "no%20caf%C3%A9 here%0a", "x-hint", "try");
	expect(f, "end NOT_FOUND: no caf\xc3\xa9 here? x-hint=try", "");
}

static void a_message_before_the_code(void **state)
{
	struct fixture *f = *state;
	H2_HEAD(&f->p, 1);
	H2_HEADERS(&f->p, 1, true, "grpc-message", "order", "grpc-status", "9", "grpc-status", "0",
		"grpc-message", "second");
	expect(f, "end FAILED_PRECONDITION: order", "");
}

static void an_error_after_messages(void **state)
{
	struct fixture *f = *state;
	H2_HEAD(&f->p, 1);
	h2_send(&f->p, 1, KP_S("x"));
	/* Cut off inside a message: the server's own error says more than that. */
	h2_data(&f->p, 1, false, KP_S("\0\0\0\0\5xy"));
	H2_HEADERS(&f->p, 1, true, "grpc-status", "13", "grpc-message", "oh");
	expect(f, "x|end INTERNAL: oh", "");
}

static void ok_inside_a_message_is_not_ok(void **state)
{
	struct fixture *f = *state;
	H2_HEAD(&f->p, 1);
	h2_data(&f->p, 1, false, KP_S("\0\0\0\0\5xy"));
	H2_STATUS(&f->p, 1, "0");
	expect(f, "end INTERNAL: read message: the answer ended inside it", "");
}

static void no_status_at_all(void **state)
{
	struct fixture *f = *state;
	H2_HEAD(&f->p, 1);
	h2_data(&f->p, 1, true, KP_S("\0\0\0\0\1x"));
	expect(f, "x|end UNKNOWN: read answer: it ended without a gRPC status", "");
}

static void http_errors_map(void **state)
{
	struct fixture *f = *state;
	H2_HEADERS(&f->p, 1, false, ":status", "503", "content-type", "text/html");
	h2_data(&f->p, 1, false, KP_S("<html>busy</html>"));
	H2_HEADERS(&f->p, 3, true, ":status", "404");
	H2_HEADERS(&f->p, 5, false, ":status", "200", "content-type", "text/plain");
	h2_data(&f->p, 5, false, KP_S("hello"));
	/* A proxy that does know gRPC. */
	H2_HEADERS(&f->p, 7, true, ":status", "429", "grpc-status", "8", "grpc-message", "later");
	expect(f, "end UNAVAILABLE: read answer: HTTP status 503 without a gRPC status",
		"rst 1: CANCEL\nrst 5: CANCEL\n");
	assert_str_lit(kp_buf_str(&f->c[1].log),
		"end UNIMPLEMENTED: read answer: HTTP status 404 without a gRPC status");
	assert_str_lit(kp_buf_str(&f->c[2].log),
		"end UNKNOWN: read answer: the content type is not application/grpc");
	assert_str_lit(kp_buf_str(&f->c[3].log), "end RESOURCE_EXHAUSTED: later");
}

static void informational_answers_are_skipped(void **state)
{
	struct fixture *f = *state;
	H2_HEADERS(&f->p, 1, false, ":status", "103", "link", "x");
	H2_HEADERS(&f->p, 1, false, ":status", "100");
	H2_HEAD(&f->p, 1);
	H2_STATUS(&f->p, 1, "0");
	expect(f, "end OK", "");
}

static void what_is_refused(void **state)
{
	struct fixture *f = *state;
	H2_HEAD(&f->p, 1);
	H2_HEAD(&f->p, 3);
	h2_data(&f->p, 1, false, KP_S("\0\0\0\0\1a\1\0\0\0\1b\0\0\0\0\1c"));
	h2_data(&f->p, 3, false, KP_S("\0\0\1\x86\xa1"));
	expect(f, "a|end INTERNAL: read message: it is compressed, and no compression was offered",
		"rst 1: CANCEL\nrst 3: CANCEL\n");
	assert_str_lit(kp_buf_str(&f->c[1].log),
		"end INTERNAL: read message of 100001 bytes: the limit is 100000 bytes");
	/* What still comes for them is dropped, the others go on. */
	h2_send(&f->p, 1, KP_S("late"));
	H2_STATUS(&f->p, 3, "0");
	H2_HEAD(&f->p, 5);
	H2_STATUS(&f->p, 5, "0");
	exchange(f);
	assert_str_lit(kp_buf_str(&f->c[2].log), "end OK");
	assert_int_equal(f->c[0].n_ends + f->c[1].n_ends, 2);
}

static void too_many_header_bytes(void **state)
{
	struct fixture *f = *state;
	static char value[30000];
	memset(value, 'v', sizeof(value) - 1);
	H2_HEAD(&f->p, 1);
	H2_HEADERS(&f->p, 1, true, "a", value, "b", value, "c", value, "grpc-status", "0");
	exchange(f);
	assert_true(kp_str_starts(kp_buf_str(&f->c[0].log),
		KP_S("end INTERNAL: read headers: more than 65536 bytes")));
	H2_HEAD(&f->p, 3);
	H2_STATUS(&f->p, 3, "0");
	exchange(f);
	assert_str_lit(kp_buf_str(&f->c[1].log), "end OK");
}

/* --- resets and goodbyes --- */

static void resets_map(void **state)
{
	struct fixture *f = *state;
	h2_rst(&f->p, 1, NGHTTP2_REFUSED_STREAM);
	h2_rst(&f->p, 3, NGHTTP2_CANCEL);
	H2_HEAD(&f->p, 5);
	h2_send(&f->p, 5, KP_S("m"));
	h2_rst(&f->p, 5, NGHTTP2_INTERNAL_ERROR);
	h2_rst(&f->p, 7, NGHTTP2_NO_ERROR);
	expect(f, "end UNAVAILABLE: read answer: the stream was reset (REFUSED_STREAM) unprocessed",
		"");
	assert_str_lit(kp_buf_str(&f->c[1].log),
		"end CANCELLED: read answer: the stream was reset (CANCEL)");
	assert_str_lit(kp_buf_str(&f->c[2].log),
		"m|end INTERNAL: read answer: the stream was reset (INTERNAL_ERROR)");
	assert_str_lit(kp_buf_str(&f->c[3].log),
		"end INTERNAL: read answer: the stream was reset (NO_ERROR)");
	assert_int_equal(kp_grpc_session_info(f->s)->n_open, 0);
}

static void a_reset_after_the_trailers_changes_nothing(void **state)
{
	struct fixture *f = *state;
	H2_HEAD(&f->p, 1);
	H2_STATUS(&f->p, 1, "0");
	h2_rst(&f->p, 1, NGHTTP2_NO_ERROR);
	expect(f, "end OK", "");
}

static void goaway_splits_the_calls(void **state)
{
	struct fixture *f = *state;
	h2_goaway(&f->p, 3, NGHTTP2_NO_ERROR, KP_S("bye\n"));
	exchange(f);
	assert_str_lit(kp_buf_str(&f->c[0].log), "");
	assert_str_lit(kp_buf_str(&f->c[2].log),
		"end UNAVAILABLE: send call: the server is going away (NO_ERROR: bye?) unprocessed");
	assert_str_lit(kp_buf_str(&f->c[3].log),
		"end UNAVAILABLE: send call: the server is going away (NO_ERROR: bye?) unprocessed");
	assert_true(kp_grpc_session_info(f->s)->is_retired);
	assert_false(kp_grpc_session_info(f->s)->is_over);
	assert_int_equal(kp_grpc_session_room(f->s), 0);
	H2_HEAD(&f->p, 1);
	h2_send(&f->p, 1, KP_S("still"));
	H2_STATUS(&f->p, 1, "0");
	H2_HEAD(&f->p, 3);
	H2_STATUS(&f->p, 3, "0");
	expect(f, "still|end OK", "");
	assert_true(kp_grpc_session_info(f->s)->is_over);
	assert_string_equal(kp_grpc_session_end_reason(f->s), "NO_ERROR");
}

static void a_graceful_goaway_comes_in_two_steps(void **state)
{
	struct fixture *f = *state;
	h2_goaway(&f->p, INT32_MAX, NGHTTP2_NO_ERROR, KP_S(""));
	exchange(f);
	assert_true(kp_grpc_session_info(f->s)->is_retired);
	assert_int_equal(kp_grpc_session_info(f->s)->n_streams, CALLS);
	h2_goaway(&f->p, 5, NGHTTP2_NO_ERROR, KP_S(""));
	exchange(f);
	assert_int_equal(kp_grpc_session_info(f->s)->n_streams, 3);
	assert_str_lit(kp_buf_str(&f->c[3].log),
		"end UNAVAILABLE: send call: the server is going away (NO_ERROR) unprocessed");
}

static void calls_not_sent_yet_when_goaway_comes(void **state)
{
	struct fixture *f = *state;
	struct test_call c;
	test_call_init(&c, KP_S("q"));
	test_call_open(f->s, &c); /* not sent */
	h2_goaway(&f->p, 7, NGHTTP2_ENHANCE_YOUR_CALM, KP_S("too_many_pings"));
	exchange(f);
	assert_int_equal(c.n_ends, 1);
	assert_false(c.st.is_processed);
	assert_int_equal(c.st.status.code, KP_UNAVAILABLE);
	assert_int_equal(kp_grpc_session_info(f->s)->goaway_error, NGHTTP2_ENHANCE_YOUR_CALM);
	assert_string_equal(kp_grpc_session_info(f->s)->goaway_text, "too_many_pings");
	assert_int_equal(kp_grpc_session_info(f->s)->n_open, CALLS);
	test_call_fini(&c);
}

static void the_connection_goes(void **state)
{
	struct fixture *f = *state;
	struct test_call c;
	test_call_init(&c, KP_S("q"));
	test_call_open(f->s, &c); /* not sent */
	H2_HEAD(&f->p, 1);
	h2_data(&f->p, 1, false, KP_S("\0\0\0\0\1a\0\0\0\0\5b"));
	test_recv(f->s, &f->p);
	struct kp_err err;
	kp_err_set(&err, KP_UNAVAILABLE, "gone");
	kp_grpc_session_fail(f->s, &err);
	assert_str_lit(kp_buf_str(&f->c[0].log), "a|end UNAVAILABLE: gone");
	assert_str_lit(kp_buf_str(&f->c[1].log), "end UNAVAILABLE: gone");
	assert_str_lit(kp_buf_str(&c.log), "end UNAVAILABLE: gone unprocessed");
	assert_int_equal(kp_grpc_session_room(f->s), 0);
	test_call_fini(&c);
}

static void not_http2(void **state)
{
	(void)state;
	static const kp_str greetings[] = { { "HTTP/1.1 400 Bad Request\r\n\r\n", 28 },
		{ "SSH-2.0-OpenSSH_9.2\r\n", 21 }, { "\x15\x03\x03\x00\x02\x02\x32\x15\x03", 9 } };
	for (size_t i = 0; i < KP_LEN(greetings); i++) {
		struct kp_grpc_session *s = test_session();
		struct h2_peer p;
		struct kp_err err;
		h2_peer_init(&p);
		test_send(s, &p);
		kp_buf_add(&p.out, greetings[i]);
		int rc = test_recv_in(s, &p, SIZE_MAX, &err);
		test_send(s, &p);
		assert_true(rc < 0 || kp_grpc_session_info(s)->is_over);
		assert_false(kp_grpc_session_info(s)->is_ready);
		kp_grpc_session_destroy(s);
		h2_peer_fini(&p);
	}
}

static void protocol_errors_end_the_session(void **state)
{
	struct fixture *f = *state;
	h2_data(&f->p, 2, false,
		KP_S("nobody asked")); /* a stream of the server's, and no push was allowed */
	exchange(f);
	assert_true(kp_grpc_session_info(f->s)->is_over);
	assert_string_equal(kp_grpc_session_end_reason(f->s), "PROTOCOL_ERROR");
	assert_str_lit(kp_buf_str(&f->p.log), "goaway: PROTOCOL_ERROR\n");
}

static void bad_header_blocks_end_one_call(void **state)
{
	struct fixture *f = *state;
	H2_HEADERS(&f->p, 1, false, "content-type", "application/grpc"); /* no :status */
	exchange(f);
	assert_str_lit(kp_buf_str(&f->c[0].log),
		"end INTERNAL: read answer: the stream was reset (PROTOCOL_ERROR)");
	H2_HEAD(&f->p, 3);
	H2_STATUS(&f->p, 3, "0");
	exchange(f);
	assert_str_lit(kp_buf_str(&f->c[1].log), "end OK");
}

static void pings_both_ways(void **state)
{
	struct fixture *f = *state;
	h2_frame(&f->p, NGHTTP2_PING, 0, 0, KP_S("12345678"));
	exchange(f);
	assert_str_lit(kp_buf_str(&f->p.log), "ping ack\n");
	kp_grpc_session_ping(f->s);
	exchange(f);
	assert_str_lit(kp_buf_str(&f->p.log), "ping ack\nping\n");
	h2_frame(&f->p, NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, KP_S("\0\0\0\0\0\0\0\0"));
	exchange(f);
	assert_str_lit(kp_buf_str(&f->p.log), "ping ack\nping\n");
}

static void the_goodbye(void **state)
{
	struct fixture *f = *state;
	for (size_t i = 0; i < CALLS; i++) {
		kp_grpc_stream_reset(&f->c[i].st);
	}
	kp_grpc_session_goodbye(f->s);
	test_send(f->s, &f->p);
	assert_str_lit(kp_buf_str(&f->p.log),
		"rst 1: CANCEL\nrst 3: CANCEL\nrst 5: CANCEL\nrst 7: CANCEL\ngoaway: NO_ERROR\n");
	assert_true(kp_grpc_session_info(f->s)->is_over);
}

/* --- room --- */

static void streams_are_counted_as_the_server_does(void **state)
{
	struct fixture *f = *state;
	h2_settings(&f->p, CALLS);
	exchange(f);
	assert_int_equal(kp_grpc_session_room(f->s), 0);
	/* Reset: until the RST_STREAM has gone out the server counts it. */
	kp_grpc_stream_reset(&f->c[0].st);
	assert_int_equal(kp_grpc_session_info(f->s)->n_streams, CALLS - 1);
	assert_int_equal(kp_grpc_session_room(f->s), 0);
	test_send(f->s, &f->p);
	assert_int_equal(kp_grpc_session_room(f->s), 1);
	/* The server lowers its limit below what is open. */
	h2_settings(&f->p, 1);
	exchange(f);
	assert_int_equal(kp_grpc_session_room(f->s), 0);
	h2_settings(&f->p, 1000);
	exchange(f);
	assert_int_equal(kp_grpc_session_room(f->s), 1000 - (CALLS - 1));
}

static void reset_before_it_was_sent(void **state)
{
	struct fixture *f = *state;
	struct test_call c;
	test_call_init(&c, KP_S("q"));
	test_call_open(f->s, &c);
	kp_grpc_stream_reset(&c.st);
	exchange(f);
	assert_int_equal(c.n_ends, 0);
	assert_int_equal(kp_grpc_session_info(f->s)->n_open, CALLS);
	assert_str_lit(kp_buf_str(&f->p.log), ""); /* the server never hears of it */
	test_call_fini(&c);
}

/* --- flow control --- */

static void send_much(struct fixture *f, int32_t id, size_t bytes)
{
	static char message[1000];
	for (size_t sent = 0; sent + 1005 <= bytes; sent += 1005) {
		h2_send(&f->p, id, kp_str_n(message, sizeof(message)));
	}
}

static void credit_is_given_in_steps(void **state)
{
	struct fixture *f = *state;
	H2_HEAD(&f->p, 1);
	send_much(f, 1, 30000);
	exchange(f);
	assert_str_lit(kp_buf_str(&f->p.log), "");
	send_much(f, 1, 30000);
	exchange(f);
	/* Beyond half a window, all at once. */
	assert_true(kp_str_starts(kp_buf_str(&f->p.log), KP_S("window 1: ")));
	assert_false(kp_str_has(kp_buf_str(&f->p.log), KP_S("window 0")));
	assert_int_equal(f->c[0].n_messages, 58);
}

static void a_held_call_gets_no_credit_and_others_do(void **state)
{
	struct fixture *f = *state;
	H2_HEAD(&f->p, 1);
	H2_HEAD(&f->p, 3);
	f->c[0].hold_at = 2;
	send_much(f, 1, 65000);
	exchange(f);
	assert_int_equal(f->c[0].n_messages, 2);
	assert_str_lit(kp_buf_str(&f->p.log), "");
	/* The held bytes are credited to the connection: ten times its window passes through the other call. */
	for (int i = 0; i < 200; i++) {
		send_much(f, 3, 60000);
		exchange(f);
	}
	assert_int_equal(f->c[1].n_messages, 200 * 59);
	assert_int_equal(f->c[0].n_messages, 2);
	assert_false(kp_str_has(kp_buf_str(&f->p.log), KP_S("window 1")));
	assert_true(kp_str_has(kp_buf_str(&f->p.log), KP_S("window 3")));
	assert_true(kp_str_has(kp_buf_str(&f->p.log), KP_S("window 0")));
	/* Released, everything comes, and credit for it. */
	kp_buf_reset(&f->p.log);
	kp_grpc_stream_release(&f->c[0].st);
	assert_int_equal(f->c[0].n_messages, 64);
	exchange(f);
	assert_str_lit(kp_buf_str(&f->p.log), "window 1: 64320\n");
	H2_STATUS(&f->p, 1, "0");
	exchange(f);
	assert_int_equal(f->c[0].n_ends, 1);
}

static void a_server_that_ignores_the_window(void **state)
{
	struct fixture *f = *state;
	H2_HEAD(&f->p, 1);
	kp_grpc_stream_hold(&f->c[0].st);
	send_much(f, 1, 70000);
	exchange(f);
	/* nghttp2 hands out the frame that does not fit and then resets the stream. */
	assert_true(f->c[0].st.in.in.n <= TEST_WINDOW + 1005);
	assert_true(kp_str_has(kp_buf_str(&f->p.log), KP_S("FLOW_CONTROL_ERROR")));
}

static void the_end_waits_behind_held_messages(void **state)
{
	struct fixture *f = *state;
	f->c[0].hold_at = 1;
	H2_HEAD(&f->p, 1);
	h2_data(&f->p, 1, false, KP_S("\0\0\0\0\1a\0\0\0\0\1b\0\0\0\0\1c"));
	H2_STATUS(&f->p, 1, "0");
	expect(f, "a|", "");
	f->c[0].hold_at = 2;
	kp_grpc_stream_release(&f->c[0].st);
	assert_str_lit(kp_buf_str(&f->c[0].log), "a|b|");
	kp_grpc_stream_release(&f->c[0].st);
	assert_str_lit(kp_buf_str(&f->c[0].log), "a|b|c|end OK");
}

static void held_with_nothing_to_hand_out(void **state)
{
	struct fixture *f = *state;
	kp_grpc_stream_hold(&f->c[0].st);
	H2_HEAD(&f->p, 1);
	H2_STATUS(&f->p, 1, "0");
	expect(f, "end OK", "");
}

static void a_held_call_outlives_its_connection(void **state)
{
	struct fixture *f = *state;
	kp_grpc_stream_hold(&f->c[0].st);
	H2_HEAD(&f->p, 1);
	h2_send(&f->p, 1, KP_S("kept"));
	test_recv(f->s, &f->p);
	struct kp_err err;
	kp_err_set(&err, KP_UNAVAILABLE, "gone");
	kp_grpc_session_fail(f->s, &err);
	assert_str_lit(kp_buf_str(&f->c[0].log), "");
	kp_grpc_session_destroy(kp_steal(f->s));
	kp_grpc_stream_release(&f->c[0].st);
	assert_str_lit(kp_buf_str(&f->c[0].log), "kept|end UNAVAILABLE: gone");
}

static void refused_among_the_held(void **state)
{
	struct fixture *f = *state;
	kp_grpc_stream_hold(&f->c[0].st);
	H2_HEAD(&f->p, 1);
	h2_data(&f->p, 1, false, KP_S("\0\0\0\0\1a\1\0\0\0\1b"));
	expect(f, "", "");
	kp_grpc_stream_release(&f->c[0].st);
	expect(f, "a|end INTERNAL: read message: it is compressed, and no compression was offered",
		"rst 1: CANCEL\n");
	/* The same when the server has ended the call already. */
	kp_grpc_stream_hold(&f->c[1].st);
	H2_HEAD(&f->p, 3);
	h2_data(&f->p, 3, false, KP_S("\1\0\0\0\1b"));
	H2_STATUS(&f->p, 3, "0");
	exchange(f);
	kp_grpc_stream_release(&f->c[1].st);
	assert_str_lit(kp_buf_str(&f->c[1].log),
		"end INTERNAL: read message: it is compressed, and no compression was offered");
}

/* --- callbacks that end things --- */

static void reset_inside_a_message(void **state)
{
	struct fixture *f = *state;
	f->c[0].reset_at = 2;
	H2_HEAD(&f->p, 1);
	h2_data(&f->p, 1, false, KP_S("\0\0\0\0\1a\0\0\0\0\1b\0\0\0\0\1c"));
	h2_send(&f->p, 1, KP_S("d"));
	H2_STATUS(&f->p, 1, "0");
	expect(f, "a|b|", "rst 1: CANCEL\n");
}

static void reset_of_another_inside_a_message(void **state)
{
	struct fixture *f = *state;
	f->c[0].reset_at = 1;
	f->c[0].reset_other = &f->c[1];
	H2_HEAD(&f->p, 1);
	H2_HEAD(&f->p, 3);
	h2_send(&f->p, 3, KP_S("x"));
	h2_send(&f->p, 1, KP_S("a"));
	h2_send(&f->p, 3, KP_S("y"));
	h2_send(&f->p, 1, KP_S("b"));
	expect(f, "a|b|", "rst 3: CANCEL\n");
	assert_str_lit(kp_buf_str(&f->c[1].log), "x|");
}

static void reset_while_held_messages_come_out(void **state)
{
	struct fixture *f = *state;
	kp_grpc_stream_hold(&f->c[0].st);
	H2_HEAD(&f->p, 1);
	h2_data(&f->p, 1, false, KP_S("\0\0\0\0\1a\0\0\0\0\1b"));
	H2_STATUS(&f->p, 1, "0");
	exchange(f);
	f->c[0].reset_at = 1;
	kp_grpc_stream_release(&f->c[0].st);
	expect(f, "a|", "");
}

static void killed_inside_a_message(void **state)
{
	struct fixture *f = *state;
	f->c[0].kill_at = 1;
	f->c[0].kill = f->s;
	H2_HEAD(&f->p, 1);
	h2_data(&f->p, 1, false, KP_S("\0\0\0\0\1a\0\0\0\0\1b"));
	H2_STATUS(&f->p, 3, "0");
	struct kp_err err;
	assert_int_equal(test_recv_in(f->s, &f->p, SIZE_MAX, &err), -1);
	assert_int_equal(err.code, KP_CANCELLED);
	assert_true(kp_grpc_session_info(f->s)->is_over);
	assert_str_lit(kp_buf_str(&f->c[0].log), "a|");
	assert_str_lit(kp_buf_str(&f->c[1].log), "");
}

int main(void)
{
#define WITH_CALLS(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_greeting_and_a_call),
		WITH_CALLS(a_long_request_follows_the_servers_window),
		WITH_CALLS(an_early_answer_stops_the_request),
		WITH_CALLS(one_answer),
		WITH_CALLS(messages_lie_across_frames_and_many_in_one),
		WITH_CALLS(trailers_only),
		WITH_CALLS(a_message_before_the_code),
		WITH_CALLS(an_error_after_messages),
		WITH_CALLS(ok_inside_a_message_is_not_ok),
		WITH_CALLS(no_status_at_all),
		WITH_CALLS(http_errors_map),
		WITH_CALLS(informational_answers_are_skipped),
		WITH_CALLS(what_is_refused),
		WITH_CALLS(too_many_header_bytes),
		WITH_CALLS(resets_map),
		WITH_CALLS(a_reset_after_the_trailers_changes_nothing),
		WITH_CALLS(goaway_splits_the_calls),
		WITH_CALLS(a_graceful_goaway_comes_in_two_steps),
		WITH_CALLS(calls_not_sent_yet_when_goaway_comes),
		WITH_CALLS(the_connection_goes),
		cmocka_unit_test(not_http2),
		WITH_CALLS(protocol_errors_end_the_session),
		WITH_CALLS(bad_header_blocks_end_one_call),
		WITH_CALLS(pings_both_ways),
		WITH_CALLS(the_goodbye),
		WITH_CALLS(streams_are_counted_as_the_server_does),
		WITH_CALLS(reset_before_it_was_sent),
		WITH_CALLS(credit_is_given_in_steps),
		WITH_CALLS(a_held_call_gets_no_credit_and_others_do),
		WITH_CALLS(a_server_that_ignores_the_window),
		WITH_CALLS(the_end_waits_behind_held_messages),
		WITH_CALLS(held_with_nothing_to_hand_out),
		WITH_CALLS(a_held_call_outlives_its_connection),
		WITH_CALLS(refused_among_the_held),
		WITH_CALLS(reset_inside_a_message),
		WITH_CALLS(reset_of_another_inside_a_message),
		WITH_CALLS(reset_while_held_messages_come_out),
		WITH_CALLS(killed_inside_a_message),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

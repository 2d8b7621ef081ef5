/* What servers send, read: event streams however they are cut, text made clean, results made text. */
#include "mcp/message.h"
#include "mcp/sse.h"
#include "tests/test.h"

static int note(void *ctx, kp_str data, struct kp_err *err)
{
	(void)err;
	kp_buf_add(ctx, data);
	kp_buf_addc(ctx, '|');
	return 0;
}

static void test_streams_are_read_the_same_however_they_are_cut(void **state)
{
	(void)state;
	const kp_str stream = KP_S(
		"\xef\xbb\xbf: c\ndata: a\n\ndata:b\r\ndata:  c\r\n\r\nevent: x\rdata: other\r\r"
		"event: message\ndata\n\nid: 1\n\ndatax: no\ndata: d\n\ndata: cut off\n");
	for (size_t piece = 1; piece <= stream.n; piece++) {
		KP_AUTO(buf) struct kp_buf seen;
		struct kp_sse s;
		struct kp_err err;
		kp_buf_init(&seen, 1000);
		kp_sse_init(&s, 100, note, &seen);
		for (kp_str rest = stream; rest.n; rest = kp_str_skip(rest, piece)) {
			assert_int_equal(kp_sse_feed(&s, kp_str_sub(rest, 0, piece), &err), 0);
		}
		kp_sse_fini(&s);
		assert_str_lit(kp_buf_str(&seen), "a|b\n c||d|");
	}
}

static void test_events_have_a_limit(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf seen;
	struct kp_sse s;
	struct kp_err err;
	kp_buf_init(&seen, 1000);
	kp_sse_init(&s, 10, note, &seen);
	assert_int_equal(kp_sse_feed(&s, KP_S("data: 123456789\ndata: 1\n\n"), &err), -1);
	assert_int_equal(err.code, KP_TOO_LARGE);
	kp_sse_fini(&s);
	kp_sse_init(&s, 10, note, &seen);
	assert_int_equal(
		kp_sse_feed(&s, KP_S(": a comment that is much too long for it"), &err), -1);
	kp_sse_fini(&s);
}

static void test_mc_16_text_is_made_clean(void **state)
{
	(void)state;
	static const char *const cases[][2] = {
		{ "\"a\\ud83d\\ude00b\"", "\"a\\ud83d\\ude00b\"" },
		{ "\"\\ud83d\"", "\"\\ufffd\"" },
		{ "\"\\ud83d\\n\"", "\"\\ufffd\\n\"" },
		{ "\"\\ude00\\ud83d\\ud83d\\ude00\"", "\"\\ufffd\\ufffd\\ud83d\\ude00\"" },
		{ "\"\\\\ud83d\"", "\"\\\\ud83d\"" }, /* a backslash and letters */
		{ "\"\\ud8", "\"\\ud8" },
		{ "\"\xff\xc3\"", "\"\xef\xbf\xbd\xef\xbf\xbd\"" },
	};
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		KP_AUTO(buf) struct kp_buf b;
		kp_buf_init(&b, 1000);
		kp_mcp_clean(kp_str_c(cases[i][0]), &b);
		assert_str(kp_buf_str(&b), kp_str_c(cases[i][1]));
	}
}

static void test_mc_16_results_are_cut_at_a_character(void **state)
{
	(void)state;
	static const struct {
		size_t max;
		const char *json, *want;
	} cases[] = {
		{ 5, "{\"content\":[{\"type\":\"text\",\"text\":\"hello\"}]}", "hello" },
		{ 4, "{\"content\":[{\"type\":\"text\",\"text\":\"hello\"}]}",
			"hell\n[cut: 4 of 5 bytes are shown]" },
		{ 4, "{\"content\":[{\"type\":\"text\",\"text\":\"abc\xc3\xa9\"}]}",
			"abc\n[cut: 3 of 5 bytes are shown]" },
		{ 4, "{\"content\":[{\"type\":\"text\",\"text\":\"a\\u0001b\"}]}",
			"a\xef\xbf\xbd\n[cut: 4 of 5 bytes are shown]" },
		{ 2, "{\"content\":[{\"type\":\"text\",\"text\":\"\\u0001\"}]}",
			"\n[cut: 0 of 3 bytes are shown]" },
		{ 9, "{\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]}",
			"a\nb" },
		{ 99, "{\"content\":[],\"structuredContent\":{\"a\":1.50}}", "{\"a\":1.50}" },
		{ 99, "{\"content\":[{\"type\":\"resource_link\",\"uri\":\"x:y\"}]}",
			"[a resource: x:y]" },
		{ 99, "{\"content\":[{\"type\":\"resource\",\"resource\":{\"text\":\"t\"}}]}",
			"t" },
		{ 99, "{\"content\":[{\"type\":\"audio\",\"data\":\"AAAAAAAA\"}]}",
			"[a sound, about 6 bytes: not shown]" },
		{ 99, "{\"content\":[7]}", "[content of another kind: not shown]" },
	};
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		KP_AUTO(buf) struct kp_buf b;
		KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
		struct kp_jv v;
		struct kp_mcp_text t = { 0 };
		struct kp_err err;
		kp_buf_init(&b, 1000);
		assert_int_equal(kp_jv_parse(kp_str_c(cases[i].json), a, &v, &err), 0);
		assert_int_equal(kp_mcp_result_text(&v, cases[i].max, &b, &t, &err), 0);
		assert_str(kp_buf_str(&b), kp_str_c(cases[i].want));
	}
}

static void test_messages(void **state)
{
	(void)state;
	static const struct {
		const char *json;
		enum kp_mcp_message_kind kind; /* UNSET: refused */
		bool is_of_7;
	} cases[] = {
		{ "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}", KP_MCP_MESSAGE_RESULT, true },
		{ "{\"jsonrpc\":\"2.0\",\"id\":\"7\",\"result\":{}}", KP_MCP_MESSAGE_RESULT, true },
		{ "{\"jsonrpc\":\"2.0\",\"id\":8,\"result\":{}}", KP_MCP_MESSAGE_RESULT, false },
		{ "{\"id\":7,\"error\":{\"code\":-32000,\"message\":\"m\"}}", KP_MCP_MESSAGE_ERROR,
			true },
		{ "{\"id\":null,\"error\":{}}", KP_MCP_MESSAGE_ERROR, false },
		{ "{\"id\":7,\"method\":\"ping\"}", KP_MCP_MESSAGE_REQUEST, false },
		{ "[{\"method\":\"x\"}]", KP_MCP_MESSAGE_NOTIFICATION, false },
		{ "{\"result\":{}}", KP_MCP_MESSAGE_UNSET, false },
		{ "{\"id\":7}", KP_MCP_MESSAGE_UNSET, false },
		{ "{\"id\":7,\"error\":\"x\"}", KP_MCP_MESSAGE_UNSET, false },
		{ "7", KP_MCP_MESSAGE_UNSET, false },
		{ "{", KP_MCP_MESSAGE_UNSET, false },
		{ "{} {}", KP_MCP_MESSAGE_UNSET, false },
	};
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
		const struct kp_mcp_message *m;
		size_t n;
		struct kp_err err;
		int rc = kp_mcp_messages_read(kp_str_c(cases[i].json), a, &m, &n, &err);
		assert_int_equal(rc, cases[i].kind == KP_MCP_MESSAGE_UNSET ? -1 : 0);
		if (rc == 0) {
			assert_int_equal(n, 1);
			assert_int_equal(m->kind, cases[i].kind);
			assert_int_equal(kp_mcp_message_is_of(m, 7), cases[i].is_of_7);
		} else {
			assert_int_equal(err.code, KP_DATA_LOSS);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_streams_are_read_the_same_however_they_are_cut),
		cmocka_unit_test(test_events_have_a_limit),
		cmocka_unit_test(test_mc_16_text_is_made_clean),
		cmocka_unit_test(test_mc_16_results_are_cut_at_a_character),
		cmocka_unit_test(test_messages),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The messages and tools of a request: what is taken, what becomes of what can be said in several ways, where an error is. */
#include "prompt/messages.h"

#include "prompt/tools.h"
#include "tests/test.h"

static int read_messages(struct kp_turn *t, const char *messages, struct kp_err *err)
{
	struct kp_json j;
	kp_json_init(&j, kp_str_c(messages), t->arena);
	return kp_messages_read(&j, t, err);
}

/* What the messages are as JSON afterwards. */
static void becomes(const char *messages, const char *want)
{
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	KP_AUTO(buf) struct kp_buf out;
	struct kp_turn t = { .arena = a };
	struct kp_err err = KP_ERR_INIT;
	kp_buf_init(&out, 1 << 16);
	if (read_messages(&t, messages, &err)) {
		fail_msg("%s: %s", messages, err.msg);
	}
	kp_jv_write(&t.chat.messages, &out);
	assert_str(kp_buf_str(&out), kp_str_c(want));
}

static void test_taken_as_they_are(void **state)
{
	(void)state;
	static const char *const same[] = {
		"[{\"role\":\"developer\",\"content\":\"a\",\"name\":\"n\"},{\"x\":[1],\"content\":\"\",\"role\":\"user\"}]",
		"[{\"role\":\"assistant\",\"reasoning_content\":\"r\",\"thinking\":null,\"content\":[]}]",
		"[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": 1}\"}},"
		"{\"function\":{\"arguments\":{\"a\":[]},\"name\":\"g\"},\"index\":1}]},"
		"{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"r\"},{\"role\":\"tool\",\"name\":\"g\",\"content\":\"\"}]",
	};
	for (size_t i = 0; i < KP_LEN(same); i++) {
		becomes(same[i], same[i]);
	}
}

/* Many templates fail without a content. */
static void test_an_assistant_that_said_nothing(void **state)
{
	(void)state;
	becomes("[{\"role\":\"assistant\",\"content\":null}]",
		"[{\"role\":\"assistant\",\"content\":\"\"}]");
	becomes("[{\"role\":\"assistant\"}]", "[{\"role\":\"assistant\",\"content\":\"\"}]");
	becomes("[{\"role\":\"assistant\",\"tool_calls\":[]}]",
		"[{\"role\":\"assistant\",\"tool_calls\":[],\"content\":\"\"}]");
	becomes("[{\"role\":\"assistant\",\"content\":null,\"refusal\":null,\"audio\":null,\"annotations\":[],"
		"\"function_call\":null,\"tool_calls\":null}]",
		"[{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null,\"audio\":null,\"annotations\":[],"
		"\"function_call\":null,\"tool_calls\":null}]");
}

static void test_parts_have_text_only(void **state)
{
	(void)state;
	becomes("[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},\"b\","
		"{\"text\":\"c\",\"cache_control\":{},\"image_url\":\"x\",\"type\":\"text\"}],\"name\":\"n\"}]",
		"[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"},"
		"{\"type\":\"text\",\"text\":\"c\"}],\"name\":\"n\"}]");
	becomes("[{\"role\":\"assistant\",\"content\":[{\"type\":\"refusal\",\"refusal\":\"no\"}]}]",
		"[{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"no\"}]}]");
}

static void test_missing_arguments(void **state)
{
	(void)state;
	becomes("[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\"}},{\"function\":{\"arguments\":null,\"name\":\"g\"}},"
		"{\"function\":{\"arguments\":\"\",\"name\":\"h\"}}]}]",
		"[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}},"
		"{\"function\":{\"arguments\":\"{}\",\"name\":\"g\"}},{\"function\":{\"arguments\":\"{}\",\"name\":\"h\"}}]}]");
}

static void test_the_older_function_call(void **state)
{
	(void)state;
	becomes("[{\"role\":\"assistant\",\"content\":null,\"function_call\":{\"name\":\"f\",\"arguments\":\"{}\"}},"
		"{\"role\":\"function\",\"name\":\"f\",\"content\":null}]",
		"[{\"role\":\"assistant\",\"content\":null,\"function_call\":null,\"tool_calls\":[{\"id\":\"call00000\",\"type\":\"function\","
		"\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},"
		"{\"role\":\"tool\",\"name\":\"f\",\"content\":\"\",\"tool_call_id\":\"call00000\"}]");
	becomes("[{\"role\":\"function\",\"name\":\"f\",\"content\":\"x\"}]",
		"[{\"role\":\"tool\",\"name\":\"f\",\"content\":\"x\"}]");
}

#define CALL(call) \
	"{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\"}}," call "]}"
static const struct {
	const char *message, *param, *reason, *what;
} refused[] = {
	{ "5", "", NULL, "expected an object" },
	{ "{\"content\":\"x\"}", ".role", NULL, "missing" },
	{ "{\"role\":null}", ".role", NULL, "expected a string" },
	{ "{\"role\":\"user\",\"content\":\"x\",\"name\":1}", ".name", NULL, "expected a string" },
	{ "{\"role\":\"user\"}", ".content", NULL, "missing" },
	{ "{\"role\":\"tool\",\"content\":null}", ".content", NULL, "must not be null" },
	{ "{\"role\":\"user\",\"content\":{}}", ".content", NULL,
		"expected a string or an array of parts" },
	{ "{\"role\":\"user\",\"content\":[5]}", ".content[0]", NULL, "expected an object" },
	{ "{\"role\":\"user\",\"content\":[{}]}", ".content[0].type", "unsupported_parameter",
		"missing" },
	{ "{\"role\":\"user\",\"content\":[\"a\",{\"type\":\"video_url\"}]}", ".content[1].type",
		"unsupported_parameter", "only text and images are supported" },
	{ "{\"role\":\"system\",\"content\":[{\"type\":\"image_url\"}]}", ".content[0].type",
		"unsupported_parameter", "images are for users and tools" },
	{ "{\"role\":\"user\",\"content\":[\"a\",{\"type\":\"image_url\"}]}",
		".content[1].image_url", NULL, "missing" },
	{ "{\"role\":\"user\",\"content\":[{\"type\":\"refusal\",\"refusal\":\"x\"}]}",
		".content[0].type", "unsupported_parameter", "only text and images are supported" },
	{ "{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}", ".content[0].text", NULL,
		"missing" },
	{ "{\"role\":\"tool\",\"content\":\"x\",\"tool_call_id\":5}", ".tool_call_id", NULL,
		"expected a string" },
	{ "{\"role\":\"function\",\"content\":\"x\"}", ".name", NULL, "missing" },
	{ "{\"role\":\"assistant\",\"reasoning\":{}}", ".reasoning", NULL, "expected a string" },
	{ "{\"role\":\"assistant\",\"audio\":{\"id\":\"x\"}}", ".audio", "unsupported_parameter",
		"not supported yet" },
	{ "{\"role\":\"assistant\",\"tool_calls\":{}}", ".tool_calls", NULL, "expected an array" },
	{ CALL("5"), ".tool_calls[1]", NULL, "expected an object" },
	{ CALL("{\"id\":1}"), ".tool_calls[1].id", NULL, "expected a string" },
	{ CALL("{\"type\":\"custom\"}"), ".tool_calls[1].type", "unsupported_parameter",
		"only `function` is supported" },
	{ CALL("{}"), ".tool_calls[1].function", NULL, "missing" },
	{ CALL("{\"function\":[]}"), ".tool_calls[1].function", NULL, "expected an object" },
	{ CALL("{\"function\":{}}"), ".tool_calls[1].function.name", NULL, "missing" },
	{ CALL("{\"function\":{\"name\":\"\"}}"), ".tool_calls[1].function.name", NULL,
		"must not be empty" },
	{ CALL("{\"function\":{\"name\":\"f\",\"arguments\":[]}}"),
		".tool_calls[1].function.arguments", NULL,
		"expected a string of JSON or an object" },
	{ "{\"role\":\"assistant\",\"function_call\":{\"name\":5}}", ".function_call.name", NULL,
		"expected a string" },
	{ "{\"role\":\"assistant\",\"function_call\":{\"name\":\"f\",\"arguments\":\"{\"}}",
		".function_call.arguments", NULL,
		"parse JSON: the text ends, expected a member name in quotes, at byte 1" },
	{ "{\"role\":\"assistant\",\"tool_calls\":[],\"function_call\":{\"name\":\"f\"}}",
		".function_call", NULL, "excludes `tool_calls`" },
};

static void test_refused_with_the_place(void **state)
{
	(void)state;
	for (size_t i = 0; i < KP_LEN(refused); i++) {
		KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
		struct kp_turn t = { .arena = a };
		struct kp_err err = KP_ERR_INIT;
		char body[512], param[96], msg[200];
		snprintf(body, sizeof(body), "[{\"role\":\"user\",\"content\":\"x\"},%s]",
			refused[i].message);
		snprintf(param, sizeof(param), "messages[1]%s", refused[i].param);
		snprintf(msg, sizeof(msg), "`%s`: %s", param, refused[i].what);
		assert_int_equal(read_messages(&t, body, &err), -1);
		assert_string_equal(err.msg, msg);
		assert_string_equal(err.param, param);
		assert_true(refused[i].reason ? err.reason && kp_str_eq(kp_str_c(err.reason),
								      kp_str_c(refused[i].reason))
					      : !err.reason);
		assert_int_equal(err.code, KP_INVALID_ARGUMENT);
	}
}

/* A small arena is an error, wherever it ends. */
static void test_memory_is_bounded(void **state)
{
	(void)state;
	static const char body[] =
		"[{\"role\":\"assistant\",\"content\":[\"a\",\"b\"],\"function_call\":{\"name\":\"f\"}},{\"role\":\"function\",\"name\":\"f\",\"content\":\"x\"},"
		"{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\"}}]}]";
	bool full = false, enough = false;
	for (size_t max = 64; max < 16384; max += 64) {
		KP_AUTO(arena) struct kp_arena *a = kp_arena_create(max);
		struct kp_turn t = { .arena = a };
		struct kp_err err = KP_ERR_INIT;
		if (read_messages(&t, body, &err) == 0) {
			enough = true;
		} else {
			assert_int_equal(err.code, KP_RESOURCE_EXHAUSTED);
			full = true;
		}
	}
	assert_true(full && enough);
}

static const struct {
	const char *tool, *param, *reason, *what;
} bad_tools[] = {
	{ "5", "", NULL, "expected an object" },
	{ "{\"function\":{\"name\":\"f\"}}", ".type", NULL, "missing" },
	{ "{\"type\":1}", ".type", NULL, "expected a string" },
	{ "{\"type\":\"custom\",\"custom\":{}}", ".type", "unsupported_parameter",
		"only `function` is supported" },
	{ "{\"type\":\"function\"}", ".function", NULL, "missing" },
	{ "{\"type\":\"function\",\"function\":\"f\"}", ".function", NULL, "expected an object" },
	{ "{\"type\":\"function\",\"function\":{}}", ".function.name", NULL, "missing" },
	{ "{\"type\":\"function\",\"function\":{\"name\":\"\"}}", ".function.name", NULL,
		"must not be empty" },
	{ "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":1}}",
		".function.description", NULL, "expected a string" },
	{ "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":[]}}",
		".function.parameters", NULL, "expected an object" },
	{ "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":\"x\"}}",
		".function.strict", NULL, "expected a boolean" },
};

static int read_tools(struct kp_turn *t, const char *tools, struct kp_err *err)
{
	struct kp_json j;
	kp_json_init(&j, kp_str_c(tools), t->arena);
	return kp_tools_read(&j, t, err);
}

static void test_tools(void **state)
{
	(void)state;
	static const char fine[] =
		"[{\"function\":{\"strict\":null,\"parameters\":null,\"name\":\"f\",\"x\":1},\"type\":\"function\"},"
		"{\"type\":\"function\",\"function\":{\"name\":\"a.b/c\",\"strict\":true,\"description\":\"\",\"parameters\":{}}}]";
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	KP_AUTO(buf) struct kp_buf out;
	struct kp_turn t = { .arena = a };
	struct kp_err err = KP_ERR_INIT;
	kp_buf_init(&out, 1 << 16);
	assert_int_equal(read_tools(&t, fine, &err), 0);
	kp_jv_write(&t.chat.tools, &out);
	assert_str(kp_buf_str(&out), kp_str_c(fine));
	assert_int_equal(read_tools(&t, "[]", &err), 0);
	assert_int_equal(t.chat.tools.type, KP_JSON_NONE);
	for (size_t i = 0; i < KP_LEN(bad_tools); i++) {
		char body[256], param[64], msg[128];
		snprintf(body, sizeof(body),
			"[{\"type\":\"function\",\"function\":{\"name\":\"f\"}},%s]",
			bad_tools[i].tool);
		snprintf(param, sizeof(param), "tools[1]%s", bad_tools[i].param);
		snprintf(msg, sizeof(msg), "`%s`: %s", param, bad_tools[i].what);
		assert_int_equal(read_tools(&t, body, &err), -1);
		assert_string_equal(err.msg, msg);
		assert_string_equal(err.param, param);
		assert_true(!err.reason == !bad_tools[i].reason);
	}
}

#define ALLOWED(mode, tools) \
	"{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"" mode "\",\"tools\":" tools "}}"
#define FUNCTION(name) "{\"type\":\"function\",\"function\":{\"name\":\"" name "\"}}"

static void test_tool_choice(void **state)
{
	(void)state;
	static const struct {
		const char *json;
		int r, settles;
		enum kp_tool_choice choice;
		const char *allowed; /* each with a blank behind it */
	} cases[] = {
		{ "\"none\"", 0, 0, KP_TOOL_CHOICE_NONE, "" },
		{ "\"auto\"", 0, 0, KP_TOOL_CHOICE_AUTO, "" },
		{ "\"required\"", 0, 0, KP_TOOL_CHOICE_REQUIRED, "" },
		{ FUNCTION("f"), 0, 0, KP_TOOL_CHOICE_NAMED, "f " },
		{ FUNCTION("h"), 0, -1, KP_TOOL_CHOICE_NAMED, "h " },
		{ ALLOWED("auto", "[" FUNCTION("g") "]"), 0, 0, KP_TOOL_CHOICE_AUTO, "g " },
		{ ALLOWED("required", "[" FUNCTION("g") "," FUNCTION("f") "," FUNCTION("g") "]"), 0,
			0, KP_TOOL_CHOICE_REQUIRED, "g f " },
		{ ALLOWED("auto", "[" FUNCTION("h") "]"), 0, -1, KP_TOOL_CHOICE_AUTO, "h " },
		{ ALLOWED("maybe", "[" FUNCTION("g") "]"), -1, 0, 0, "" },
		{ ALLOWED("auto", "[]"), -1, 0, 0, "" },
		{ ALLOWED("auto", "[5]"), -1, 0, 0, "" },
		{ "\"never\"", -1, 0, 0, "" },
		{ "5", -1, 0, 0, "" },
		{ "{}", -1, 0, 0, "" },
		{ "{\"type\":\"auto\"}", -1, 0, 0, "" },
		{ "{\"type\":\"custom\",\"custom\":{\"name\":\"f\"}}", -1, 0, 0, "" },
		{ "{\"type\":\"function\"}", -1, 0, 0, "" },
		{ "{\"type\":\"allowed_tools\"}", -1, 0, 0, "" },
	};
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		struct kp_turn t = { .arena = a };
		struct kp_err err = KP_ERR_INIT;
		struct kp_json j;
		KP_AUTO(buf) struct kp_buf allowed;
		kp_buf_init(&allowed, 256);
		assert_int_equal(read_tools(&t, "[" FUNCTION("f") "," FUNCTION("g") "]", &err), 0);
		t.arena = a;
		kp_json_init(&j, kp_str_c(cases[i].json), a);
		assert_int_equal(kp_tool_choice_read(&j, &t, &err), cases[i].r);
		if (cases[i].r) {
			continue;
		}
		for (size_t k = 0; k < t.chat.n_allowed; k++) {
			kp_buf_add(&allowed, t.chat.allowed[k]);
			kp_buf_addc(&allowed, ' ');
		}
		assert_int_equal(t.chat.tool_choice, cases[i].choice);
		assert_str(kp_buf_str(&allowed), kp_str_c(cases[i].allowed));
		assert_int_equal(kp_tool_choice_settle(&t.chat, &err), cases[i].settles);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_taken_as_they_are),
		cmocka_unit_test(test_an_assistant_that_said_nothing),
		cmocka_unit_test(test_parts_have_text_only),
		cmocka_unit_test(test_missing_arguments),
		cmocka_unit_test(test_the_older_function_call),
		cmocka_unit_test(test_refused_with_the_place),
		cmocka_unit_test(test_memory_is_bounded),
		cmocka_unit_test(test_tools),
		cmocka_unit_test(test_tool_choice),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

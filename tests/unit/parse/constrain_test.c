/* Constraints: what becomes of which request. That engines take the tags, and parsers read back what they admit, is tests/oracle/prompt/test_constrain.py. */
#include "parse/constrain.h"
#include "tests/test.h"

static const char tools_json[] =
	"[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{\"a\":{\"$ref\":\"#/$defs/x\"}},\"$defs\":{\"x\":{}}}}},"
	"{\"type\":\"function\",\"function\":{\"name\":\"g\",\"strict\":true,\"parameters\":{\"type\":\"object\"}}}]";

struct made {
	struct kp_constraint c;
	const struct kp_grammar *reads;
	struct kp_err err;
	int r;
};

static struct made make(struct kp_arena *a, const char *family, struct kp_chat chat,
	struct kp_output_format format, enum kp_parse_start start)
{
	static const kp_str controls[] = { KP_S_INIT("<tool_call>"), KP_S_INIT("</think>") };
	static const kp_id ids[] = { 7, 9 };
	struct kp_tool_offer offer = { .n = 0 };
	struct made m = { .err = KP_ERR_INIT };
	struct kp_jv tools;
	assert_int_equal(kp_jv_parse(kp_str_c(tools_json), a, &tools, &m.err), 0);
	if (chat.tool_choice) {
		assert_int_equal(kp_tool_offer_create(a, &tools, &offer, &m.err), 0);
	}
	const struct kp_constrain_opts o = { .tools = family ? kp_grammar_find(kp_str_c(family))
							     : NULL,
		.thinking = kp_thinking_find(KP_S("qwen3")),
		.start = start,
		.controls = controls,
		.control_ids = ids,
		.n_controls = 2,
		.offer = &offer,
		.chat = &chat,
		.format = &format };
	m.r = kp_constrain(&o, a, &m.c, &m.reads, &m.err);
	return m;
}

#define HAS(m, part)     assert_true(kp_str_has((m).c.text, KP_S(part)))
#define HAS_NOT(m, part) assert_false(kp_str_has((m).c.text, KP_S(part)))

static void test_nothing_asked_for(void **state)
{
	(void)state;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	struct made m = make(a, "hermes", (struct kp_chat){ .tool_choice = KP_TOOL_CHOICE_UNSET },
		(struct kp_output_format){ .kind = 0 }, KP_PARSE_AUTO);
	assert_int_equal(m.r, 0);
	assert_int_equal(m.c.kind, KP_CONSTRAINT_NONE);
}

static void test_tc26_required(void **state)
{
	(void)state;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	struct kp_chat chat = { .tool_choice = KP_TOOL_CHOICE_REQUIRED };
	struct made m = make(
		a, "hermes", chat, (struct kp_output_format){ .kind = 0 }, KP_PARSE_IN_THOUGHT);
	assert_int_equal(m.c.kind, KP_CONSTRAINT_TAG);
	assert_null(m.reads);
	/* SO-04: the whole schema, an object whatever it forgets to say. */
	HAS(m, "{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#/$defs/x\"}},\"$defs\":{\"x\":{}}}");
	/* SO-01: free up to the token that closes the thought; no call before it. */
	HAS(m, "{\"type\":\"any_tokens\",\"exclude_tokens\":[9,7]},{\"type\":\"token\",\"token\":9}");
	HAS(m, "\"stop_after_first\":false");
	/* TC-34 */
	chat.one_call = true;
	m = make(a, "hermes", chat, (struct kp_output_format){ .kind = 0 }, KP_PARSE_IN_TEXT);
	HAS(m, "\"stop_after_first\":true");
	HAS_NOT(m, "any_tokens");
	/* No form: a list, with a reader of its own. */
	m = make(a, "lfm2", chat, (struct kp_output_format){ .kind = 0 }, KP_PARSE_IN_TEXT);
	assert_ptr_equal(m.reads, &kp_grammar_list);
	m = make(a, NULL, chat, (struct kp_output_format){ .kind = 0 }, KP_PARSE_IN_TEXT);
	assert_ptr_equal(m.reads, &kp_grammar_list);
}

static void test_allowed_tools(void **state)
{
	(void)state;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	const kp_str g = KP_S("g");
	struct kp_chat chat = { .tool_choice = KP_TOOL_CHOICE_AUTO, .allowed = &g, .n_allowed = 1 };
	struct made m =
		make(a, "hermes", chat, (struct kp_output_format){ .kind = 0 }, KP_PARSE_IN_TEXT);
	HAS(m, "\\\"g\\\"");
	HAS_NOT(m, "\\\"f\\\"");
	m = make(a, "lfm2", chat, (struct kp_output_format){ .kind = 0 }, KP_PARSE_IN_TEXT);
	assert_int_equal(m.r, -1);
	assert_string_equal(m.err.param, "tool_choice");
}

static void test_formats(void **state)
{
	(void)state;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	struct kp_output_format f = {
		.kind = KP_CONSTRAINT_REGEX, .text = KP_S("a+"), .param = "guided_regex"
	};
	struct made m = make(a, "hermes", (struct kp_chat){ .n_allowed = 0 }, f, KP_PARSE_IN_TEXT);
	assert_int_equal(m.c.kind, KP_CONSTRAINT_REGEX);
	m = make(a, "hermes", (struct kp_chat){ .n_allowed = 0 }, f, KP_PARSE_AUTO);
	assert_int_equal(m.c.kind, KP_CONSTRAINT_TAG);
	HAS(m, "\"optional\"");
	HAS(m, "{\"type\":\"regex\",\"pattern\":\"a+\"}");
	/* SO-02: JSON in a tag, for the white space. */
	struct kp_output_format json = { .kind = KP_CONSTRAINT_JSON_OBJECT };
	m = make(a, "hermes", (struct kp_chat){ .n_allowed = 0 }, json, KP_PARSE_IN_TEXT);
	assert_int_equal(m.c.kind, KP_CONSTRAINT_TAG);
	HAS(m, "\"max_whitespace_cnt\":8");
	/* SO-09: in harmony's final channel. */
	m = make(a, "harmony", (struct kp_chat){ .n_allowed = 0 }, f, KP_PARSE_IN_TEXT);
	HAS(m, "<|channel|>final<|message|>");
	m = make(a, "lfm2", (struct kp_chat){ .tool_choice = KP_TOOL_CHOICE_AUTO }, f,
		KP_PARSE_IN_TEXT);
	assert_int_equal(m.r, -1);
	assert_string_equal(m.err.param, "guided_regex");
}

/* Hy 3: all markers of the vocabulary end in one suffix. */
static void test_an_older_tag_needs_its_markers(void **state)
{
	(void)state;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	struct kp_output_format format = {
		.kind = KP_CONSTRAINT_TAG,
		.param = "structural_tag",
		.text = KP_S(
			"{\"structures\":[{\"begin\":\"<f>\",\"schema\":{}}],\"triggers\":[\"<f>\"]}")
	};
	struct made m = make(a, "hermes", (struct kp_chat){ 0 }, format, KP_PARSE_IN_THOUGHT);
	assert_int_equal(m.r, -1);
	assert_string_equal(
		m.err.msg, "`structural_tag`: `structures[0]` needs the strings `begin` and `end`");
}

static void test_markers_with_a_suffix(void **state)
{
	(void)state;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	static const kp_str controls[] = { KP_S_INIT("<tool_calls:6124c78e>"),
		KP_S_INIT("</think:6124c78e>"), KP_S_INIT("</thinker:6124c78e>") };
	static const kp_id ids[] = { 7, 9, 11 };
	const struct kp_chat chat = { .tool_choice = KP_TOOL_CHOICE_UNSET };
	const struct kp_output_format format = { .kind = KP_CONSTRAINT_JSON_OBJECT };
	struct kp_constrain_opts o = { .tools = kp_grammar_find(KP_S("hunyuan")),
		.thinking = kp_thinking_find(KP_S("hunyuan")),
		.start = KP_PARSE_IN_THOUGHT,
		.controls = controls,
		.control_ids = ids,
		.n_controls = KP_LEN(controls),
		.chat = &chat,
		.format = &format };
	struct made m = { .err = KP_ERR_INIT };
	assert_int_equal(kp_constrain(&o, a, &m.c, &m.reads, &m.err), 0);
	HAS(m, "{\"type\":\"any_tokens\",\"exclude_tokens\":[9,7]},{\"type\":\"token\",\"token\":9}");
	o.tools = kp_grammar_find(
		KP_S("hermes")); /* where there is no suffix, it is another marker */
	o.thinking = kp_thinking_find(KP_S("qwen3"));
	assert_int_equal(kp_constrain(&o, a, &m.c, &m.reads, &m.err), 0);
	HAS_NOT(m, "\"token\"");
}

/* Messages with other markers than harmony's. */
static void test_inkling_is_no_harmony(void **state)
{
	(void)state;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	struct made m =
		make(a, "inkling", (struct kp_chat){ .tool_choice = KP_TOOL_CHOICE_REQUIRED },
			(struct kp_output_format){ .kind = 0 }, KP_PARSE_IN_TEXT);
	assert_int_equal(m.c.kind, KP_CONSTRAINT_TAG);
	assert_ptr_equal(m.reads, &kp_grammar_list);
	HAS_NOT(m, "<|channel|>");
}

/* They stand in markup as they are; a tool that may not be called is no matter. */
static void test_names_that_cannot_be_constrained(void **state)
{
	(void)state;
	static const char *const names[] = { "a\"b", "a\\b", "a</tool_call>", "a b", "a\n" };
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	const kp_str good = KP_S("good");
	for (size_t i = 0; i < KP_LEN(names); i++) {
		const struct kp_offered_tool tools[] = { { .name = good },
			{ .name = kp_str_c(names[i]) } };
		const struct kp_tool_offer offer = { .tools = tools, .n = KP_LEN(tools) };
		struct kp_chat chat = { .tool_choice = KP_TOOL_CHOICE_REQUIRED };
		const struct kp_constrain_opts o = {
			.tools = kp_grammar_find(KP_S("hermes")), .offer = &offer, .chat = &chat
		};
		struct made m = { .err = KP_ERR_INIT };
		assert_int_equal(kp_constrain(&o, a, &m.c, &m.reads, &m.err), -1);
		assert_string_equal(m.err.param, "tool_choice");
		assert_non_null(strstr(m.err.msg, "cannot be constrained"));
		chat.allowed = &good;
		chat.n_allowed = 1;
		assert_int_equal(kp_constrain(&o, a, &m.c, &m.reads, &m.err), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_asked_for),
		cmocka_unit_test(test_tc26_required),
		cmocka_unit_test(test_markers_with_a_suffix),
		cmocka_unit_test(test_inkling_is_no_harmony),
		cmocka_unit_test(test_allowed_tools),
		cmocka_unit_test(test_names_that_cannot_be_constrained),
		cmocka_unit_test(test_formats),
		cmocka_unit_test(test_an_older_tag_needs_its_markers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

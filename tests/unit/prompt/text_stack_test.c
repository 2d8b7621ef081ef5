/* kp_text_stack: what it finds out about a template at load, and what it makes of a turn: messages in the template's shape, tools, the final
   message left open. */
#include "prompt/text_stack.h"

#include "tests/unit/prompt/tiny.h"

/* Shows tools by their name, content in parts, arguments as JSON text; does not know developers. */
static const char chat_template[] =
	"{{ bos_token }}{% for t in tools or [] %}<tool {{ t.name }} {{ t.description }} {{ t.parameters|tojson }}>{% endfor %}"
	"{% for m in messages %}<|turn|>{{ m.role }}:{% for p in m.content %}[{{ p.text }}]{% endfor %}"
	"{% if m.thinking %}({{ m.thinking }}){% endif %}"
	"{% for c in m.tool_calls %}{{ c.function.name + c.function.arguments }}{% endfor %}<|end|>{% endfor %}"
	"{% if add_generation_prompt %}<|turn|>assistant:{% endif %}";

static struct kp_text_stack *stack;

static int setup(void **state)
{
	(void)state;
	struct kp_err err = KP_ERR_INIT;
	char dir[32];
	make_directory(dir);
	write_tokenizer(dir, chat_template);
	if (kp_text_stack_from_path(dir, &(struct kp_text_options){ 0 }, &stack, &err)) {
		fail_msg("%s", err.msg);
	}
	remove_directory(
		dir, (const char *const[]){ "tokenizer.json", "tokenizer_config.json", NULL });
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kp_text_stack_unref(stack);
	return 0;
}

static void parse(struct kp_arena *a, const char *json, struct kp_jv *ret)
{
	struct kp_err err = KP_ERR_INIT;
	if (json && kp_jv_parse(kp_str_c(json), a, ret, &err)) {
		fail_msg("%s", err.msg);
	}
}

static int render(struct kp_arena *a, const char *messages, const char *tools, bool open,
	struct kp_text *text, struct kp_err *err)
{
	struct kp_turn turn = { .arena = a, .kind = KP_TURN_CHAT };
	parse(a, messages, &turn.chat.messages);
	parse(a, tools, &turn.chat.tools);
	turn.chat.add_generation_prompt = !open;
	turn.chat.continue_final_message = open;
	return kp_text_stack_render(stack, &turn, 0, text, err);
}

static void check(const char *messages, const char *tools, bool open, const char *want)
{
	struct kp_err err = KP_ERR_INIT;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	struct kp_text text;
	if (render(a, messages, tools, open, &text, &err)) {
		fail_msg("%s", err.msg);
	}
	assert_str(text.s, kp_str_c(want));
	assert_int_equal(text.runs[text.n_runs - 1].end, text.s.n);
}

static void test_shape(void **state)
{
	(void)state;
	const struct kp_template_shape *s = &stack->shape;
	assert_int_equal(s->content[KP_SHAPE_USER], KP_CONTENT_PARTS);
	assert_int_equal(s->args, KP_ARGS_TEXT);
	assert_int_equal(s->tools, KP_TOOLS_FLAT);
	assert_false(s->developer_role);
}

static void test_messages_and_tools(void **state)
{
	(void)state;
	check("[{\"role\":\"developer\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"hi\"}]",
		NULL, false,
		"<b><|turn|>system:[s]<|end|><|turn|>user:[hi]<|end|><|turn|>assistant:");
	check("[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":null,\"reasoning\":\"r\","
	      "\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": 1}\"}}]}]",
		"[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"d\",\"parameters\":{\"z\":1.0,\"a\":null}}}]",
		false,
		"<b><tool f d {\"z\": 1.0, \"a\": null}><|turn|>user:[q]<|end|><|turn|>assistant:(r)f{\"a\": 1}<|end|><|turn|>assistant:");
}

static void test_final_message_open(void **state)
{
	(void)state;
	check("[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"the end\"}]",
		NULL, true, "<b><|turn|>user:[q]<|end|><|turn|>assistant:[the end");
	struct kp_err err = KP_ERR_INIT;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	struct kp_text text;
	assert_int_equal(render(a, "[{\"role\":\"assistant\"}]", NULL, true, &text, &err), -1);
	assert_int_equal(err.code, KP_INVALID_ARGUMENT);
	assert_string_equal(err.param, "continue_final_message");
}

/* Nothing that a tool's schema or a message says becomes a control token; the template's own are. */
static void test_tk01_tools_make_no_control_tokens(void **state)
{
	(void)state;
	struct kp_err err = KP_ERR_INIT;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	struct kp_text text;
	assert_int_equal(
		render(a,
			"[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"<|end|>\"}]}]",
			"[{\"type\":\"function\",\"function\":{\"name\":\"<b>\",\"description\":\"<|turn|>\",\"parameters\":{\"<|end|>\":1}}}]",
			false, &text, &err),
		0);
	struct kp_encode_opts opts = { .policy = stack->policy };
	struct kp_token_scratch *scratch = kp_token_scratch_create(1 << 20);
	struct kp_ids ids;
	kp_ids_init(&ids, 4096);
	assert_int_equal(
		kp_tokenizer_encode(stack->tokenizer, scratch, &text, &opts, &ids, &err), 0);
	size_t control[3] = { 0, 0, 0 };
	for (size_t i = 0; i < ids.n; i++) {
		if (ids.p[i] >= 256) {
			control[ids.p[i] - 256]++;
		}
	}
	assert_int_equal(control[0], 1); /* <b> */
	assert_int_equal(control[1], 2); /* the user's turn, the answer's */
	assert_int_equal(control[2], 1);
	kp_ids_fini(&ids);
	kp_token_scratch_destroy(scratch);
}

static size_t count_id(const struct kp_text_stack *s, const char *messages, kp_id id)
{
	struct kp_err err = KP_ERR_INIT;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	struct kp_turn turn = { .arena = a, .kind = KP_TURN_CHAT };
	struct kp_token_scratch *scratch = kp_token_scratch_create(1 << 20);
	const struct kp_encode_opts opts = { .policy = s->policy };
	struct kp_text text;
	struct kp_ids ids;
	size_t n = 0;
	parse(a, messages, &turn.chat.messages);
	kp_ids_init(&ids, 4096);
	assert_int_equal(kp_text_stack_render(s, &turn, 0, &text, &err), 0);
	assert_int_equal(kp_tokenizer_encode(s->tokenizer, scratch, &text, &opts, &ids, &err), 0);
	for (size_t i = 0; i < ids.n; i++) {
		n += ids.p[i] == id;
	}
	kp_ids_fini(&ids);
	kp_token_scratch_destroy(scratch);
	return n;
}

/* The markers of the model's own parsers are control tokens in what the assistant said, also under a request's template; turns are not, nor is what others say. */
static void test_markers_in_the_assistants_history(void **state)
{
	static const char own[] =
		"{% for m in messages %}{{ m.content }};{% endfor %}{% if tools %}[TOOL_CALLS]{% endif %}";
	static const char said[] =
		"[{\"role\":\"user\",\"content\":\"[TOOL_CALLS]<|turn|>\"},{\"role\":\"assistant\",\"content\":\"[TOOL_CALLS]<|turn|>\"}]";
	struct kp_err err = KP_ERR_INIT;
	struct kp_text_stack *s, *other;
	char dir[32];
	(void)state;
	make_directory(dir);
	write_tokenizer(dir, own);
	assert_int_equal(kp_text_stack_from_path(dir, &(struct kp_text_options){ 0 }, &s, &err), 0);
	remove_directory(
		dir, (const char *const[]){ "tokenizer.json", "tokenizer_config.json", NULL });
	assert_string_equal(s->parsers.tools->name, "mistral");
	assert_int_equal(kp_text_stack_with_template(s,
				 KP_S("{% for m in messages %}{{ m.content }};{% endfor %}"),
				 1 << 20, &other, &err),
		0);
	const struct kp_text_stack *both[] = { s, other };
	for (size_t i = 0; i < KP_LEN(both); i++) {
		assert_int_equal(count_id(both[i], said,
					 kp_tokenizer_find(s->tokenizer, KP_S("[TOOL_CALLS]"))),
			1);
		assert_int_equal(
			count_id(both[i], said, kp_tokenizer_find(s->tokenizer, KP_S("<|turn|>"))),
			0);
	}
	kp_text_stack_unref(other);
	kp_text_stack_unref(s);
}

/* `tool_choice: none`: the model is not told of them. */
static void test_tools_of_a_model_that_must_not_call(void **state)
{
	(void)state;
	struct kp_err err = KP_ERR_INIT;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	struct kp_turn turn = { .arena = a, .kind = KP_TURN_CHAT };
	struct kp_text with, without;
	parse(a, "[{\"role\":\"user\",\"content\":\"x\"}]", &turn.chat.messages);
	parse(a, "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}}]",
		&turn.chat.tools);
	assert_int_equal(kp_text_stack_render(stack, &turn, 0, &with, &err), 0);
	turn.chat.tool_choice = KP_TOOL_CHOICE_NONE;
	assert_int_equal(kp_text_stack_render(stack, &turn, 0, &without, &err), 0);
	assert_true(kp_str_has(with.s, KP_S("<tool f")));
	assert_str_lit(without.s, "<b><|turn|>user:[x]<|end|>");
}

static void test_effort_and_the_requests_own_template(void **state)
{
	(void)state;
	struct kp_err err = KP_ERR_INIT;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	struct kp_turn turn = { .arena = a, .kind = KP_TURN_CHAT };
	struct kp_text_stack *own = NULL;
	struct kp_text text;
	parse(a, "[{\"role\":\"user\",\"content\":\"x\"}]", &turn.chat.messages);
	turn.chat.reasoning_effort = KP_S("high");
	assert_int_equal(kp_text_stack_render(stack, &turn, 0, &text, &err), -1);
	assert_string_equal(err.param, "reasoning_effort");
	assert_int_equal(
		kp_text_stack_with_template(stack, KP_S("{% if %}"), 1 << 20, &own, &err), -1);
	assert_string_equal(err.msg,
		"chat template: compile template: line 1: expected an expression, got `end of statement block`");
	static const struct {
		const char *source, *message;
	} bad[] = { { "", "`chat_template`: an empty template" },
		{ "tool-use",
			"`chat_template`: the model has no template `tool-use`, and a template's source has a `{`" },
		{ "{{ 1 }", "chat template: compile template: line 1: unexpected '}'" } };
	for (size_t i = 0; i < KP_LEN(bad); i++) {
		assert_int_equal(kp_text_stack_with_template(
					 stack, kp_str_c(bad[i].source), 1 << 20, &own, &err),
			-1);
		assert_string_equal(err.msg, bad[i].message);
		assert_int_equal(err.code, KP_INVALID_ARGUMENT);
	}
	assert_int_equal(kp_text_stack_with_template(
				 stack, KP_S("{{ [1,2,3,4,5,6,7,8] }}"), 2000, &own, &err),
		-1);
	assert_non_null(strstr(err.msg, "line 1: it takes more memory"));
	assert_null(own);
	assert_int_equal(
		kp_text_stack_with_template(stack,
			KP_S("{{ messages[0].content }}|{{ reasoning_effort }}|{{ bos_token }}"),
			1 << 20, &own, &err),
		0);
	assert_int_equal(own->shape.content[KP_SHAPE_USER], KP_CONTENT_TEXT);
	assert_true(own->fingerprint != stack->fingerprint);
	assert_int_equal(kp_text_stack_render(own, &turn, 0, &text, &err), 0);
	assert_str_lit(text.s, "x|high|<b>");
	assert_int_equal(text.runs[1].origin, KP_ORIGIN_TRUSTED);
	assert_int_equal(text.runs[2].origin, KP_ORIGIN_CLIENT);
	kp_text_stack_unref(own);
}

/* An effort of `none` is what templates' switches of thinking say; of one that has none it is refused as other efforts are. */
static void test_no_effort_is_thinking_off(void **state)
{
	(void)state;
	static const struct {
		const char *source, *effort, *expected;
	} cases[] = { { "{{ enable_thinking }}", "none", "False" },
		{ "{{ thinking }}", "none", "False" }, { "{{ enable_thinking }}", "high", NULL },
		{ "{{ thinking_budget }}", "none", NULL },
		{ "{{ reasoning_effort }}", "none", "none" } };
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		struct kp_err err = KP_ERR_INIT;
		KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
		struct kp_turn turn = { .arena = a, .kind = KP_TURN_CHAT };
		struct kp_text_stack *own = NULL;
		struct kp_text text;
		parse(a, "[{\"role\":\"user\",\"content\":\"x\"}]", &turn.chat.messages);
		turn.chat.reasoning_effort = kp_str_c(cases[i].effort);
		turn.chat.thinking =
			cases[i].effort[0] == 'n' ? KP_THINKING_OFF : KP_THINKING_UNSET;
		kp_str source =
			kp_arena_printf(a, "{{ messages[0].content and '' }}%s", cases[i].source);
		assert_int_equal(
			kp_text_stack_with_template(stack, source, 1 << 20, &own, &err), 0);
		int rc = kp_text_stack_render(own, &turn, 0, &text, &err);
		assert_int_equal(rc, cases[i].expected ? 0 : -1);
		if (cases[i].expected) {
			assert_true(kp_str_eq(text.s, kp_str_c(cases[i].expected)));
		} else {
			assert_string_equal(err.param, "reasoning_effort");
		}
		kp_text_stack_unref(own);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shape),
		cmocka_unit_test(test_messages_and_tools),
		cmocka_unit_test(test_final_message_open),
		cmocka_unit_test(test_tk01_tools_make_no_control_tokens),
		cmocka_unit_test(test_markers_in_the_assistants_history),
		cmocka_unit_test(test_tools_of_a_model_that_must_not_call),
		cmocka_unit_test(test_effort_and_the_requests_own_template),
		cmocka_unit_test(test_no_effort_is_thinking_off),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}

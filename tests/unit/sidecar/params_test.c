/* Request parameters: what is read, what is accepted without effect, what is refused and under
 * which name. */
#include "prompt/cache.h"
#include "sidecar/api/params.h"
#include "sidecar/flow/flow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

static struct kp_turn read_turn(
	struct kp_arena *a, enum kp_turn_kind kind, const char *body, int *ret, struct kp_err *err)
{
	struct kp_turn t = { .arena = a, .kind = kind };
	*ret = kp_params_read(kp_str_c(body), &t, err);
	return t;
}

#define CHAT(rest)   "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]" rest "}"
#define TOOL         "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]"
#define NAMED(name)  "{\"type\":\"function\",\"function\":{\"name\":\"" name "\"}}"
#define JSON_OBJECT  "\"response_format\":{\"type\":\"json_object\"}"
#define SCHEMA(rest) "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{" rest "}}"
#define BAD_TYPE \
	"`response_format`: `type` must be `text`, `json_object`, `json_schema` or `structural_tag`"
#define COMP(rest) "{\"model\":\"m\",\"prompt\":\"hi\"" rest "}"

static void test_chat_defaults_and_values(void **state)
{
	(void)state;
	struct kp_arena *a = kp_arena_create(1 << 24);
	struct kp_err err;
	int r;
	struct kp_turn t = read_turn(a, KP_TURN_CHAT, CHAT(""), &r, &err);
	assert_int_equal(r, 0);
	assert_int_equal(t.sampling.set, 0);
	assert_int_equal(t.sampling.n, 1);
	assert_true(t.chat.add_generation_prompt);
	assert_false(t.add_special_tokens);
	assert_true(t.sampling.skip_special_tokens);
	t = read_turn(a, KP_TURN_CHAT,
		CHAT(",\"temperature\":0,\"top_p\":0.5,\"top_k\":0,\"min_p\":0.1,\"seed\":-5,\"max_tokens\":7,\"max_completion_tokens\":9,\"n\":2,\"stop\":\"x\","
		     "\"logprobs\":true,\"top_logprobs\":3,\"stream\":true,\"stream_options\":{\"include_usage\":true},\"logit_bias\":{\"5\":-100},\"stop_token_ids\":[1,2],"
		     "\"ignore_eos\":true,\"chat_template_kwargs\":{\"enable_thinking\":false},\"repetition_penalty\":1.1,\"user\":\"u\",\"metadata\":{\"a\":\"b\"},"
		     "\"response_format\":{\"type\":\"text\"},\"temperature\":null"),
		&r, &err);
	assert_int_equal(r, 0);
	assert_true(t.sampling.set & KP_SET_TEMPERATURE);
	assert_int_equal(t.sampling.top_k, -1);
	assert_int_equal(t.sampling.seed, -5);
	assert_int_equal(t.sampling.max_tokens, 9);
	assert_int_equal(t.sampling.n, 2);
	assert_int_equal(t.sampling.n_stop, 1);
	assert_true(t.want_logprobs);
	assert_int_equal(t.sampling.logprobs, 3);
	assert_true(t.stream && t.include_usage);
	assert_int_equal(t.sampling.logit_bias[0].id, 5);
	assert_int_equal(t.sampling.n_stop_ids, 2);
	assert_true(t.sampling.ignore_eos);
	assert_int_equal(t.chat.kwargs.n, 1);
	assert_int_equal(t.cache_salt.n, 0);
	t = read_turn(a, KP_TURN_CHAT, CHAT(",\"cache_salt\":\"s\u00e9\""), &r, &err);
	assert_int_equal(r, 0);
	assert_true(kp_str_eq(t.cache_salt, KP_S("s\xc3\xa9")));
	/* The newer name wins in either order. */
	t = read_turn(
		a, KP_TURN_CHAT, CHAT(",\"max_completion_tokens\":9,\"max_tokens\":7"), &r, &err);
	assert_int_equal(t.sampling.max_tokens, 9);
	kp_arena_destroy(a);
}

static void test_completion_prompts(void **state)
{
	(void)state;
	struct kp_arena *a = kp_arena_create(1 << 24);
	struct kp_err err;
	int r;
	struct kp_turn t = read_turn(a, KP_TURN_COMPLETION, COMP(""), &r, &err);
	assert_int_equal(r, 0);
	assert_int_equal(t.n_prompts, 1);
	assert_int_equal(t.sampling.max_tokens, 16);
	assert_true(t.add_special_tokens);
	t = read_turn(
		a, KP_TURN_COMPLETION, "{\"model\":\"m\",\"prompt\":[\"a\",\"b\"]}", &r, &err);
	assert_int_equal(t.n_prompts, 2);
	assert_true(kp_str_eq(t.prompts[1].text, KP_S("b")));
	t = read_turn(a, KP_TURN_COMPLETION, "{\"model\":\"m\",\"prompt\":[1,2,3]}", &r, &err);
	assert_int_equal(t.n_prompts, 1);
	assert_int_equal(t.prompts[0].n_ids, 3);
	t = read_turn(a, KP_TURN_COMPLETION,
		"{\"model\":\"m\",\"prompt\":[[1,2],[3]],\"logprobs\":0}", &r, &err);
	assert_int_equal(r, 0);
	assert_int_equal(t.n_prompts, 2);
	assert_int_equal(t.prompts[1].ids[0], 3);
	assert_true(t.want_logprobs);
	kp_arena_destroy(a);
}

static const struct {
	enum kp_turn_kind kind;
	const char *body, *param, *reason, *msg;
} refused[] = {
	{ KP_TURN_CHAT, "[]", "", NULL, "`body`: expected an object, got an array" },
	{ KP_TURN_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", "model", NULL,
		"`model`: missing" },
	{ KP_TURN_CHAT, "{\"model\":\"m\"}", "messages", NULL, "`messages`: missing" },
	{ KP_TURN_CHAT, "{\"model\":\"m\",\"messages\":[]}", "messages", NULL,
		"`messages`: must not be empty" },
	{ KP_TURN_CHAT, "{\"model\":\"m\",\"messages\":[{\"role\":\"god\",\"content\":\"x\"}]}",
		"messages[0].role", NULL,
		"`messages[0].role`: `god` is no role: expected system, developer, user, assistant or tool" },
	{ KP_TURN_CHAT, "{\"model\":\"m\",\"messages\":{}}", "messages", NULL,
		"`messages`: expected an array, got an object" },
	{ KP_TURN_CHAT, CHAT(",\"tools\":5"), "tools", NULL,
		"`tools`: expected an array, got a number" },
	{ KP_TURN_CHAT, CHAT(",\"documents\":\"x\""), "documents", NULL,
		"`documents`: expected an array, got a string" },
	{ KP_TURN_CHAT, CHAT(",\"chat_template_kwargs\":[]"), "chat_template_kwargs", NULL,
		"`chat_template_kwargs`: expected an object, got an array" },
	{ KP_TURN_CHAT, CHAT(",\"tools\":[{}]"), "tools[0].type", NULL,
		"`tools[0].type`: missing" },
	{ KP_TURN_CHAT, CHAT(",\"tool_choice\":\"required\""), "tool_choice", NULL,
		"`tool_choice`: only `none` goes without `tools`" },
	{ KP_TURN_CHAT, CHAT(",\"tool_choice\":" NAMED("g") "," TOOL), "tool_choice", NULL,
		"`tool_choice`: `g` is none of `tools`" },
	{ KP_TURN_CHAT, CHAT(",\"tool_choice\":{\"type\":\"custom\"}," TOOL), "tool_choice",
		"unsupported_parameter", "`tool_choice`: `custom` is not supported" },
	/* SO-08 */
	{ KP_TURN_CHAT, CHAT(",\"tool_choice\":\"required\"," TOOL "," JSON_OBJECT),
		"response_format", NULL,
		"`response_format`: `tool_choice` already asks for a tool call" },
	{ KP_TURN_CHAT, CHAT(",\"tool_choice\":\"auto\""), "tool_choice", NULL,
		"`tool_choice`: only `none` goes without `tools`" },
	{ KP_TURN_CHAT, CHAT(",\"parallel_tool_calls\":0"), "parallel_tool_calls", NULL,
		"`parallel_tool_calls`: expected a boolean, got a number" },
	{ KP_TURN_CHAT, CHAT(",\"functions\":[]"), "functions", "unsupported_parameter",
		"`functions`: deprecated: use `tools`" },
	{ KP_TURN_CHAT, CHAT(",\"documents\":[{},5]"), "documents[1]", NULL,
		"`documents[1]`: expected an object" },
	{ KP_TURN_CHAT, CHAT(",\"chat_template\":5"), "chat_template", NULL,
		"`chat_template`: expected a string, got a number" },
	{ KP_TURN_CHAT, CHAT(",\"response_format\":5"), "response_format", NULL, BAD_TYPE },
	{ KP_TURN_CHAT, CHAT(",\"response_format\":{\"type\":\"xml\"}"), "response_format", NULL,
		BAD_TYPE },
	{ KP_TURN_CHAT, CHAT(",\"response_format\":{\"type\":\"json_schema\"}"), "response_format",
		NULL, "`response_format`: `json_schema` must be an object" },
	{ KP_TURN_CHAT, CHAT("," SCHEMA("\"name\":\"a b\"")), "response_format", NULL,
		"`response_format`: `json_schema.name` must have 1 to 64 letters, digits, `_` and `-`" },
	{ KP_TURN_CHAT, CHAT("," SCHEMA("\"name\":\"a\"")), "response_format", NULL,
		"`response_format`: `json_schema.schema` is missing" },
	{ KP_TURN_CHAT, CHAT("," SCHEMA("\"name\":\"a\",\"schema\":null")), "response_format", NULL,
		"`response_format`: expected a JSON schema, got null" },
	{ KP_TURN_CHAT, CHAT("," SCHEMA("\"name\":\"a\",\"schema\":{},\"strict\":1")),
		"response_format", NULL,
		"`response_format`: `json_schema.strict` must be a boolean" },
	{ KP_TURN_CHAT, CHAT("," JSON_OBJECT ",\"guided_regex\":\"a\""), "guided_regex", NULL,
		"`guided_regex`: `response_format` already says what the output looks like" },
	{ KP_TURN_CHAT, CHAT(",\"guided_json\":\"{\""), "guided_json", NULL,
		"`guided_json`: the text is no JSON: parse JSON: the text ends, expected a member name in quotes, at byte 1" },
	{ KP_TURN_CHAT, CHAT(",\"guided_choice\":[]"), "guided_choice", NULL,
		"`guided_choice`: expected a list of 1 to 1024 strings" },
	{ KP_TURN_CHAT, CHAT(",\"guided_choice\":[\"a\",\"\"]"), "guided_choice", NULL,
		"`guided_choice`: [1] must be a string that is not empty and has no NUL, of 1048576 bytes together" },
	{ KP_TURN_CHAT, CHAT(",\"regex\":\"\""), "regex", NULL,
		"`regex`: must have 1 to 1048576 bytes and no NUL" },
	{ KP_TURN_CHAT, CHAT(",\"structured_outputs\":{\"regex\":\"a\",\"choice\":[\"a\"]}"),
		"structured_outputs", NULL,
		"`structured_outputs`: more than one kind of output is asked for" },
	{ KP_TURN_CHAT, CHAT(",\"structured_outputs\":{\"whitespace_pattern\":\" \"}"),
		"structured_outputs", "unsupported_parameter",
		"`structured_outputs`: only `json`, `regex`, `choice`, `grammar`, `json_object` and `structural_tag` are supported in it" },
	{ KP_TURN_CHAT, CHAT(",\"json_schema\":\"{}\""), "json_schema", "unknown_parameter",
		"`json_schema`: unknown parameter" },
	{ KP_TURN_CHAT, CHAT(",\"frobnicate\":1"), "frobnicate", "unknown_parameter",
		"`frobnicate`: unknown parameter" },
	{ KP_TURN_CHAT, CHAT(",\"prompt\":\"x\""), "prompt", "unknown_parameter",
		"`prompt`: unknown parameter" },
	{ KP_TURN_CHAT, CHAT(",\"temperature\":2.5"), "temperature", NULL,
		"`temperature`: must be between 0 and 2, got 2.5" },
	{ KP_TURN_CHAT, CHAT(",\"temperature\":\"hot\""), "temperature", NULL,
		"`temperature`: expected a number, got a string" },
	{ KP_TURN_CHAT, CHAT(",\"top_p\":0"), "top_p", NULL, "`top_p`: must be greater than 0" },
	{ KP_TURN_CHAT, CHAT(",\"n\":0"), "n", NULL, "`n`: must be between 1 and 128, got 0" },
	{ KP_TURN_CHAT, CHAT(",\"n\":1.5"), "n", NULL, "`n`: expected an integer, got 1.5" },
	{ KP_TURN_CHAT, CHAT(",\"max_tokens\":0"), "max_tokens", NULL,
		"`max_tokens`: must be between 1 and 2147483647, got 0" },
	{ KP_TURN_CHAT, CHAT(",\"top_logprobs\":2"), "top_logprobs", NULL,
		"`top_logprobs`: needs `logprobs`: true" },
	{ KP_TURN_CHAT, CHAT(",\"logprobs\":true,\"top_logprobs\":21"), "top_logprobs", NULL,
		"`top_logprobs`: must be between 0 and 20, got 21" },
	{ KP_TURN_CHAT, CHAT(",\"stream_options\":{\"include_usage\":true}"), "stream_options",
		NULL, "`stream_options`: only with `stream`: true" },
	{ KP_TURN_CHAT, CHAT(",\"stream\":true,\"stream_options\":{\"x\":1}"), "stream_options.x",
		NULL, "`stream_options.x`: unknown parameter" },
	{ KP_TURN_CHAT, CHAT(",\"logit_bias\":{\"a\":1}"), "logit_bias.a", NULL,
		"`logit_bias.a`: the key must be a token id" },
	{ KP_TURN_CHAT, CHAT(",\"continue_final_message\":true,\"add_generation_prompt\":true"),
		"continue_final_message", NULL,
		"`continue_final_message`: excludes `add_generation_prompt`" },
	{ KP_TURN_CHAT, CHAT(",\"chat_template_kwargs\":{\"messages\":1}"), "chat_template_kwargs",
		NULL, "`chat_template_kwargs`: `messages` cannot be set here" },
	{ KP_TURN_CHAT, CHAT(",\"store\":true"), "store", NULL,
		"`store`: only false is supported" },
	{ KP_TURN_CHAT, CHAT(",\"stop\":[1]"), "stop[0]", NULL,
		"`stop[0]`: expected a string, got a number" },
	{ KP_TURN_CHAT, CHAT(",\"min_tokens\":5,\"max_tokens\":4"), "min_tokens", NULL,
		"`min_tokens`: 5 is more than `max_tokens` (4)" },
	{ KP_TURN_CHAT, CHAT("") "x", "", NULL,
		"parse JSON: expected the end, got `x` at byte 57" },
	{ KP_TURN_CHAT,
		"{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"\\ud83d\"}]}",
		"messages[0].content", NULL,
		"parse JSON: lone surrogate escape at byte 51 (in `messages[0].content`)" },
	{ KP_TURN_COMPLETION, "{\"model\":\"m\"}", "prompt", NULL, "`prompt`: missing" },
	{ KP_TURN_COMPLETION, "{\"model\":\"m\",\"prompt\":[]}", "prompt", NULL,
		"`prompt`: must not be empty" },
	{ KP_TURN_COMPLETION, "{\"model\":\"m\",\"prompt\":[[]]}", "prompt[0]", NULL,
		"`prompt[0]`: a prompt of token ids must not be empty" },
	{ KP_TURN_COMPLETION, "{\"model\":\"m\",\"prompt\":[1,\"a\"]}", "prompt[1]", NULL,
		"`prompt[1]`: expected a number, got a string" },
	{ KP_TURN_COMPLETION, "{\"model\":\"m\",\"prompt\":[-1]}", "prompt[0]", NULL,
		"`prompt[0]`: must be between 0 and 2147483647, got -1" },
	{ KP_TURN_COMPLETION, "{\"model\":\"m\",\"prompt\":{}}", "prompt", NULL,
		"`prompt`: expected a string or an array, got an object" },
	{ KP_TURN_COMPLETION, COMP(",\"echo\":true,\"prompt_logprobs\":1"), "prompt_logprobs", NULL,
		"`prompt_logprobs`: excludes `echo`, which shows them with `logprobs`" },
	{ KP_TURN_COMPLETION, COMP(",\"max_tokens\":0"), "max_tokens", NULL,
		"`max_tokens`: 0 needs `echo`" },
	{ KP_TURN_COMPLETION, COMP(",\"suffix\":\"x\""), "suffix", NULL,
		"`suffix`: not supported" },
	{ KP_TURN_COMPLETION, COMP(",\"cache_salt\":\"\""), "cache_salt", NULL,
		"`cache_salt`: must have 1 to 512 bytes, has 0" },
	{ KP_TURN_CHAT, CHAT(",\"cache_salt\":7"), "cache_salt", NULL,
		"`cache_salt`: expected a string, got a number" },
	{ KP_TURN_COMPLETION, COMP(",\"best_of\":3"), "best_of", NULL,
		"`best_of`: only the value of `n` (1) is supported, got 3" },
	{ KP_TURN_COMPLETION, COMP(",\"logprobs\":true"), "logprobs", NULL,
		"`logprobs`: expected a number, got a boolean" },
	{ KP_TURN_COMPLETION, "{\"model\":\"m\",\"prompt\":[\"a\",\"b\"],\"n\":100}", "n", NULL,
		"`n`: 2 prompts times 100 are more than 128 choices" },
};

static void test_refusals(void **state)
{
	(void)state;
	for (size_t i = 0; i < KP_LEN(refused); i++) {
		struct kp_arena *a = kp_arena_create(1 << 24);
		struct kp_err err;
		int r;
		read_turn(a, refused[i].kind, refused[i].body, &r, &err);
		assert_int_equal(r, -1);
		assert_string_equal(err.msg, refused[i].msg);
		assert_string_equal(err.param, refused[i].param);
		assert_int_equal(err.code, KP_INVALID_ARGUMENT);
		if (refused[i].reason) {
			assert_non_null(err.reason);
			assert_string_equal(err.reason, refused[i].reason);
		} else {
			assert_null(err.reason);
		}
		kp_arena_destroy(a);
	}
}

/* What is asked of the output's form, under each of its names. */
static void test_formats(void **state)
{
	(void)state;
	static const struct {
		const char *body;
		enum kp_constraint_kind kind;
		const char *param, *text; /* text: of the schema, when it is one */
	} cases[] = {
		{ JSON_OBJECT, KP_CONSTRAINT_JSON_OBJECT, "response_format", "" },
		{ SCHEMA("\"name\":\"a-1_B\",\"strict\":true,\"schema\":{\"type\":\"object\"}"),
			KP_CONSTRAINT_JSON_SCHEMA, "response_format", "{\"type\":\"object\"}" },
		{ "\"response_format\":{\"type\":\"structural_tag\",\"format\":{\"type\":\"any_text\"}}",
			KP_CONSTRAINT_TAG, "response_format",
			"{\"type\":\"structural_tag\",\"format\":{\"type\":\"any_text\"}}" },
		{ "\"guided_json\":{\"a\":1}", KP_CONSTRAINT_JSON_SCHEMA, "guided_json",
			"{\"a\":1}" },
		{ "\"guided_json\":\"{\\\"a\\\":1}\"", KP_CONSTRAINT_JSON_SCHEMA, "guided_json",
			"{\"a\":1}" },
		{ "\"guided_regex\":\"a+\"", KP_CONSTRAINT_REGEX, "guided_regex", "a+" },
		{ "\"guided_grammar\":\"root ::= x\"", KP_CONSTRAINT_GRAMMAR, "guided_grammar",
			"root ::= x" },
		{ "\"guided_choice\":[\"yes\",\"no\"]", KP_CONSTRAINT_CHOICE, "guided_choice",
			"yes no " },
		{ "\"ebnf\":\"root ::= x\"", KP_CONSTRAINT_GRAMMAR, "ebnf", "root ::= x" },
		{ "\"regex\":\"a\"", KP_CONSTRAINT_REGEX, "regex", "a" },
		{ "\"structured_outputs\":{\"json\":{},\"regex\":null,\"disable_any_whitespace\":false}",
			KP_CONSTRAINT_JSON_SCHEMA, "structured_outputs", "{}" },
		{ "\"structured_outputs\":{\"choice\":[\"a\"]}", KP_CONSTRAINT_CHOICE,
			"structured_outputs", "a " },
		{ "\"structured_outputs\":{\"json_object\":true}", KP_CONSTRAINT_JSON_OBJECT,
			"structured_outputs", "" },
		{ "\"structured_outputs\":{\"structural_tag\":\"{}\"}", KP_CONSTRAINT_TAG,
			"structured_outputs", "{}" },
		{ "\"structured_outputs\":{\"json_object\":false}", 0, NULL, "" },
		{ "\"structured_outputs\":{}", 0, NULL, "" },
		{ "\"response_format\":{\"type\":\"text\"},\"regex\":\"a\"", KP_CONSTRAINT_REGEX,
			"regex", "a" },
	};
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 24);
		KP_AUTO(buf) struct kp_buf text;
		struct kp_err err = KP_ERR_INIT;
		int r;
		char body[512];
		snprintf(body, sizeof(body), CHAT(",%s"), cases[i].body);
		const struct kp_turn t = read_turn(a, KP_TURN_CHAT, body, &r, &err);
		kp_buf_init(&text, 1 << 16);
		if (t.format.kind == KP_CONSTRAINT_JSON_SCHEMA) {
			kp_jv_write(&t.format.schema, &text);
		}
		kp_buf_add(&text, t.format.text);
		for (size_t k = 0; k < t.format.n_choices; k++) {
			kp_buf_add(&text, t.format.choices[k]);
			kp_buf_addc(&text, ' ');
		}
		kp_buf_addc(&text, '\0');
		assert_int_equal(r, 0);
		assert_int_equal(t.format.kind, cases[i].kind);
		assert_string_equal(text.p, cases[i].text);
		if (cases[i].param) {
			assert_string_equal(t.format.param, cases[i].param);
		}
		assert_int_equal(t.format.strict, i == 1);
	}
}

/* null means "not given" for every optional parameter, also for those that are refused otherwise.
 */
static void test_null_is_not_given(void **state)
{
	(void)state;
	static const char *const names[] = { "temperature", "tools", "tool_choice",
		"response_format", "stop", "n", "max_tokens", "logprobs", "stream", "store",
		"seed" };
	for (size_t i = 0; i < KP_LEN(names); i++) {
		char body[200];
		struct kp_arena *a = kp_arena_create(1 << 24);
		struct kp_err err;
		int r;
		snprintf(body, sizeof(body),
			"{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"%s\":null}",
			names[i]);
		read_turn(a, KP_TURN_CHAT, body, &r, &err);
		assert_int_equal(r, 0);
		kp_arena_destroy(a);
	}
}

/* A body whose values take more than half of a request's memory: that it is read twice when something is wrong must not show. */
static void test_many_values_and_an_error(void **state)
{
	enum { VALUES = 900000, MAX = 4 << 20 };
	static const char *const ends[][2] = {
		{ "]}],\"min_tokens\":3}", "`min_tokens`: 3 is more than `max_tokens` (1)" },
		{ "]},{\"role\":\"alien\"}]}",
			"`messages[1].role`: `alien` is no role: expected system, developer, user, assistant or tool" },
	};
	(void)state;
	for (size_t i = 0; i < KP_LEN(ends); i++) {
		struct kp_err err = KP_ERR_INIT;
		struct kp_buf body;
		kp_buf_init(&body, MAX);
		kp_buf_lit(&body,
			"{\"model\":\"m\",\"max_tokens\":1,\"messages\":[{\"role\":\"user\","
			"\"content\":\"x\",\"more\":[0");
		for (size_t k = 1; k < VALUES; k++) {
			kp_buf_lit(&body, ",1");
		}
		kp_buf_addz(&body, ends[i][0]);
		struct kp_prompt_cache *c = kp_prompt_cache_create(MAX);
		struct kp_arena *a =
			kp_arena_create(KP_FLOW_ARENA_BASE + KP_FLOW_ARENA_FACTOR * body.n);
		struct kp_turn t = { .arena = a, .kind = KP_TURN_CHAT, .cache = c };
		assert_int_equal(kp_params_read(kp_buf_str(&body), &t, &err), -1);
		assert_string_equal(err.msg, ends[i][1]);
		kp_arena_destroy(a);
		kp_prompt_cache_destroy(c);
		kp_buf_fini(&body);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chat_defaults_and_values),
		cmocka_unit_test(test_completion_prompts),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_formats),
		cmocka_unit_test(test_null_is_not_given),
		cmocka_unit_test(test_many_values_and_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Faults that parsers of other servers had, by their number in the catalogue: thoughts (rp), tool calls (tc), stop strings around both (st). Each row is fed whole, byte by
   byte and in every division in two; with `cut` it ends there, as at the limit of tokens. */
#include "tests/prop/parse/run.h"

struct row {
	struct parse_case c;
	bool cut;
};

static void check(const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		kp_str text = kp_str_c(rows[i].c.text), want = kp_str_c(rows[i].c.means);
		struct seen s;
		struct run r = begin(&rows[i].c, &s, false);
		feed(&r, text);
		same(&rows[i].c, end(&r, rows[i].cut), want, "whole", 0);
		kp_buf_fini(&s.text);
		per_byte(&rows[i].c, text, rows[i].cut, want);
		for (size_t at = 1; at < text.n; at++) {
			in_two(&rows[i].c, text, at, rows[i].cut, want);
		}
	}
}

#define FAULT(name, ...)                                          \
	static void name(void **state)                            \
	{                                                         \
		static const struct row rows[] = { __VA_ARGS__ }; \
		(void)state;                                      \
		check(rows, KP_LEN(rows));                        \
	}

#define THOUGHT KP_PARSE_IN_THOUGHT
#define PLAIN   KP_PARSE_IN_TEXT
#define HERMES  "hermes", "qwen3"

/* No end of the thought: all of it is one; with thoughts switched off nothing is. */
FAULT(test_rp01_no_end, { { HERMES, THOUGHT, "so I", "R:so I\n" }, true },
	{ { HERMES, 0, "<think>so I", "R:so I\n" }, true },
	{ { HERMES, PLAIN, "so I", "C:so I\n" }, true },
	{ { "kimi_k3", "kimi_k3", THOUGHT, "so I", "R:so I\n" }, true })

static enum kp_parse_start starts(const struct kp_thinking *t, const char *prompt)
{
	struct kp_text text = kp_text_trusted(kp_str_c(prompt));
	return kp_parse_start_of(t, &text);
}

static void test_rp02_begin_is_in_the_prompt(void **state)
{
	(void)state;
	const struct kp_thinking *t = kp_thinking_find(KP_S("qwen3"));
	assert_int_equal(starts(t, "<|im_start|>assistant\n<think>\n"), THOUGHT);
	static const struct row rows[] = {
		{ { HERMES, THOUGHT, "hm\n</think>\n\nHi", "R:hm\nC:Hi\n" }, false }
	};
	check(rows, 1);
}

static void test_rp03_an_empty_block_in_the_prompt(void **state)
{
	(void)state;
	const struct kp_thinking *t = kp_thinking_find(KP_S("qwen3"));
	assert_int_equal(starts(t, "<|im_start|>assistant\n<think>\n\n</think>\n\n"), PLAIN);
	static const struct row rows[] = { { { HERMES, PLAIN, "{\"a\": 1}", "C:{\"a\": 1}\n" },
						   false },
		{ { HERMES, PLAIN, H1, A }, false } };
	check(rows, KP_LEN(rows));
}

static void test_rp04_an_end_in_the_history(void **state)
{
	(void)state;
	const struct kp_thinking *t = kp_thinking_find(KP_S("qwen3_thinking"));
	assert_int_equal(
		starts(t,
			"<think>\na\n</think>\n\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n<think>\n"),
		THOUGHT);
	assert_int_equal(
		starts(t, "<think>a</think>b<|im_end|>\n<|im_start|>assistant\n"), KP_PARSE_AUTO);
}

FAULT(test_rp05_two_phases_in_a_delta,
	{ { HERMES, THOUGHT, "Write.</think>" H1, "R:Write.\n" A }, false },
	{ { HERMES, THOUGHT, "a</think>b" H1, "R:a\nC:b\n" A }, false })

/* Qwen's marker, spelled out in a thought, is rehearsal; MiniMax, Kimi and DeepSeek V4 call from thoughts. */
FAULT(test_rp06_a_call_in_a_thought,
	{ { HERMES, THOUGHT, "I could " H1 ".</think>No.", "R:I could " H1 ".\nC:No.\n" }, false },
	{ { "minimax_m2", "minimax_m2", THOUGHT,
		  "hm<minimax:tool_call><invoke name=\"now\"></invoke></minimax:tool_call>",
		  "R:hm\n" NOW },
		false },
	{ { "kimi_k2", "kimi_k2", THOUGHT,
		  "hm<|tool_calls_section_begin|><|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
		  "R:hm\n" NOW },
		false })

FAULT(test_rp07_thoughts_come_again,
	{ { "glm45", "glm45", 0, "<think>a</think>b<think>c</think>d", "R:a\nC:b\nR:c\nC:d\n" },
		false },
	{ { HERMES, 0, "<think>a</think>b<think>c", "R:a\nC:b<think>c\n" }, false })

FAULT(test_rp08_it_ends_in_a_thought, { { HERMES, THOUGHT, "hm", "R:hm\n" }, false })

FAULT(test_rp09_a_wrong_guess_of_a_marker,
	{ { HERMES, THOUGHT, "a <interface> </thin </think>b", "R:a <interface> </thin \nC:b\n" },
		false })

FAULT(test_rp10_tags_as_text,
	{ { HERMES, PLAIN, "Use <think> and </think>.", "C:Use <think> and </think>.\n" }, false },
	{ { "qwen3_coder", "qwen3_thinking", PLAIN,
		  "<tool_call><function=get_weather><parameter=city></think><think></parameter></function></tool_call>",
		  "T:get_weather {\"city\":\"</think><think>\"}\n" },
		false })

FAULT(test_rp11_channels,
	{ { "harmony", NULL, 0,
		  "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary<|message|>b<|end|><|start|>assistant<|channel|>final<|message|>c<|return|>",
		  "R:a\nC:bc\n" },
		false },
	{ { "harmony", NULL, 0,
		  "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}<|call|>",
		  NOW },
		false })

/* A parser says whether it is in a thought: what is generated there is counted (sidecar/flow/parse.c). */
static void test_rp12_what_is_in_a_thought(void **state)
{
	static const struct parse_case c = { HERMES, THOUGHT, NULL, NULL };
	struct seen s;
	(void)state;
	struct run r = begin(&c, &s, false);
	feed(&r, KP_S("hm"));
	assert_true(kp_parser_in_thought(r.p));
	feed(&r, KP_S("</think>"));
	assert_false(kp_parser_in_thought(r.p));
	feed(&r, KP_S("x"));
	(void)end(&r, false);
	kp_buf_fini(&s.text);
}

FAULT(test_rp14_line_ends,
	{ { HERMES, 0, "<think>\na\n\n</think>\n\n\n    int x;\n", "R:a\n\nC:\n    int x;\n\n" },
		false },
	{ { HERMES, 0, "<think>\n\n</think>\n\n  Hi", "C:  Hi\n" }, false })

FAULT(test_tc01_open_and_close_in_one_delta, { { HERMES, PLAIN, H1 H1 H1, A A A }, false })

FAULT(test_tc02_the_last_bytes,
	{ { HERMES, PLAIN,
		  "<tool_call>{\"name\": \"my-tool.v2\", \"arguments\": {\"x\": {\"id\": 42}}}</tool_call>",
		  "T:my-tool.v2 {\"x\": {\"id\": 42}}\n" },
		false })

FAULT(test_tc03_a_marker_in_pieces, { { "qwen3_coder", NULL, 0, Q1 "\n" Q2, AB_C }, false },
	{ { HERMES, PLAIN, "a <tool_ca b", "C:a <tool_ca b\n" }, false })

FAULT(test_tc04_no_arguments,
	{ { "glm45", NULL, 0,
		  "<tool_call>now</tool_call>"
		  "<tool_call>now\n</tool_call>",
		  NOW NOW },
		false },
	{ { HERMES, PLAIN, "<tool_call>{\"name\": \"now\"}</tool_call>" H1, NOW A }, false },
	{ { "minimax_m2", NULL, 0,
		  "<minimax:tool_call><invoke name=\"now\"></invoke></minimax:tool_call>", NOW },
		false })

#define P(n, v) "<parameter=" n ">" v "</parameter>"
#define V2(ps)  "<tool_call><function=my-tool.v2>" ps "</function></tool_call>"
#define W(ps)   "<tool_call><function=get_weather>" ps "</function></tool_call>"

/* The table of types: string, integer, number, boolean, array, object, anyOf, list of types, $ref with valid, invalid, empty, null and 007. */
FAULT(test_tc05_types,
	{ { "qwen3_coder", NULL, 0, W(P("city", "007") P("days", "7")),
		  "T:get_weather {\"city\":\"007\",\"days\":7}\n" },
		false },
	{ { "qwen3_coder", NULL, 0, W(P("city", "null") P("days", "null")),
		  "T:get_weather {\"city\":\"null\",\"days\":null}\n" },
		false },
	{ { "qwen3_coder", NULL, 0, W(P("city", "true") P("days", "007")),
		  "T:get_weather {\"city\":\"true\",\"days\":\"007\"}\n" },
		false },
	{ { "qwen3_coder", NULL, 0,
		  V2(P("n", "007") P("b", "007") P("l", "007") P("x", "007") P("o", "007")
				  P("i", "007") P("r", "007")),
		  "T:my-tool.v2 {\"n\":\"007\",\"b\":\"007\",\"l\":\"007\",\"x\":\"007\",\"o\":\"007\",\"i\":\"007\",\"r\":\"007\"}\n" },
		false },
	{ { "qwen3_coder", NULL, 0,
		  V2(P("n", "1.5") P("b", "False") P("l", "[1]") P("x", "{}") P("o", "None")
				  P("i", "5") P("r", "2")),
		  "T:my-tool.v2 {\"n\":1.5,\"b\":false,\"l\":[1],\"x\":{},\"o\":null,\"i\":5,\"r\":2}\n" },
		false },
	{ { "qwen3_coder", NULL, 0,
		  V2(P("n", "null") P("b", "null") P("l", "null") P("x", "null") P("o", "null")
				  P("i", "null") P("r", "null")),
		  "T:my-tool.v2 {\"n\":null,\"b\":null,\"l\":null,\"x\":null,\"o\":null,\"i\":\"null\",\"r\":null}\n" },
		false })

FAULT(test_tc06_a_value_of_another_type, { { "qwen3_coder", NULL, 0, W(P("days", "2026-01-15")),
						   "T:get_weather {\"days\":\"2026-01-15\"}\n" },
						 false })

FAULT(test_tc07_an_empty_tag,
	{ { "qwen3_coder", NULL, 0, W(P("city", "") P("days", "")),
		  "T:get_weather {\"city\":\"\"}\n" },
		false },
	{ { "qwen3_coder", NULL, 0, V2(P("n", "") P("b", "") P("l", "") P("x", "") P("r", "")),
		  "T:my-tool.v2 {}\n" },
		false })

FAULT(test_tc08_delimiters_as_data,
	{ { "qwen3_coder", NULL, 0, W(P("city", "a</parameter>b</function>c</tool_call>d")),
		  "T:get_weather {\"city\":\"a</parameter>b</function>c</tool_call>d\"}\n" },
		false },
	{ { "step3", NULL, 0,
		  "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name=\"get_weather\"><steptml:parameter name=\"city\">a < b</steptml:parameter></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>",
		  "T:get_weather {\"city\":\"a < b\"}\n" },
		false })

/* The JSON is closed with what is certain, whatever comes. */
FAULT(test_tc09_a_damaged_element,
	{ { "qwen3_coder", NULL, 0,
		  "<tool_call>\n<function=get_weather>\n<parameter=city>a</parameter>\n<parameter=\nls</parameter>",
		  "T:get_weather {\"city\":\"a\"}\nC:<parameter=\nls</parameter>\n" },
		false })

FAULT(test_tc10_markup_in_a_name,
	{ { "glm45", NULL, 0,
		  "<tool_call>get_weather<arg_key>city</arg_key></arg_key><arg_value>a</arg_value></tool_call>",
		  "T:get_weather {\"city\":\"a\"}\n" },
		false },
	{ { "qwen3_coder", NULL, 0, "<tool_call><function=a<b></function></tool_call>",
		  "C:<tool_call><function=a<b></function></tool_call>\n" },
		false })

FAULT(test_tc11_nothing_is_taken_back,
	{ { HERMES, PLAIN,
		  "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"tee \\\\",
		  "T:get_weather {\"city\": \"tee \\\\\n" },
		true },
	{ { HERMES, PLAIN, "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": 12",
		  "T:get_weather {\"city\": 12\n" },
		true })

FAULT(test_tc12_cut_by_the_limit,
	{ { HERMES, PLAIN, "<tool_call>\n{\"na", "C:<tool_call>\n{\"na\n" }, true },
	{ { HERMES, PLAIN, "<tool_call>\n<", "C:<tool_call>\n<\n" }, true },
	{ { "qwen3_coder", NULL, 0, "<tool_call><function=get_weather><parameter=city>Par",
		  "T:get_weather {\"city\":\"Par\n" },
		true })

FAULT(test_tc13_a_tool_that_was_not_offered,
	{ { HERMES, PLAIN, H1 "<tool_call>{\"name\": \"nobody\", \"arguments\": {}}</tool_call>" H1,
		  A "T:nobody {}\n" A },
		false })

FAULT(test_tc14_json_that_is_no_call,
	{ { HERMES, PLAIN, "Like " JA " here", "C:Like " JA " here\n" }, false },
	{ { "llama3_json", NULL, 0, "{\"name\": \"Alice\", \"parameters\": {}}",
		  "C:{\"name\": \"Alice\", \"parameters\": {}}\n" },
		false },
	{ { "llama3_json", NULL, 0, PA " and so on", A "C:and so on\n" }, false })

FAULT(test_tc15_no_second_look_at_what_was_rejected,
	{ { "llama3_json", NULL, 0,
		  "<|python_tag|>foo.call(payload={\"name\": \"now\", \"parameters\": {}}",
		  "T:foo {\"payload\":{\"name\":\"now\",\"parameters\":{}}}\n" },
		false },
	{ { HERMES, PLAIN, "<tool_call>x " JA "</tool_call>",
		  "C:<tool_call>x " JA "</tool_call>\n" },
		false })

FAULT(test_tc16_nested_values,
	{ { HERMES, PLAIN,
		  "<tool_call>{\"name\": \"my-tool.v2\", \"arguments\": {\"x\": {\"a\": {\"b\": \"}\"}}, \"l\": [{}]}}</tool_call>.",
		  "T:my-tool.v2 {\"x\": {\"a\": {\"b\": \"}\"}}, \"l\": [{}]}\nC:.\n" },
		false })

FAULT(test_tc17_python,
	{ { "olmo3", NULL, 0,
		  "<function_calls>get_weather(city=\"a [b], (c)\", size=(800, 600), x=-74.0046539, from=1, e='it\\'s', w='C:\\\\')</function_calls>",
		  "T:get_weather {\"city\":\"a [b], (c)\",\"size\":[800,600],\"x\":-74.0046539,\"from\":1,\"e\":\"it's\",\"w\":\"C:\\\\\"}\n" },
		false })

/* Brackets in brackets: Python reads 200 of them. */
static void test_tc17_deep_python(void **state)
{
	enum { LEVELS = 500 };
	char open[LEVELS + 1], close[LEVELS + 1], text[2 * LEVELS + 100], means[2 * LEVELS + 100];
	(void)state;
	memset(open, '[', LEVELS);
	memset(close, ']', LEVELS);
	open[LEVELS] = close[LEVELS] = '\0';
	snprintf(text, sizeof(text), "<function_calls>now(x=%s1%s)</function_calls>", open, close);
	snprintf(means, sizeof(means), "T:now {\"x\":%s1%s}\n", open, close);
	const struct row row = { { "olmo3", NULL, 0, text, means }, false };
	check(&row, 1);
}

FAULT(test_tc18_the_same_tool_twice,
	{ { "qwen3_coder", NULL, 0, Q1 W(P("city", "Rome")),
		  A_C "T:get_weather {\"city\":\"Rome\"}\n" },
		false },
	{ { "minimax_m2", NULL, 0,
		  "<minimax:tool_call><invoke name=\"get_weather\"><parameter name=\"city\">a</parameter></invoke><invoke name=\"get_weather\"><parameter name=\"city\">b</parameter></invoke></minimax:tool_call>",
		  "T:get_weather {\"city\":\"a\"}\nT:get_weather {\"city\":\"b\"}\n" },
		false })

/* Two parsers of one lexicon, in turns. */
static void test_tc19_state_is_of_one_choice(void **state)
{
	static const struct parse_case c = { HERMES, PLAIN, NULL, NULL };
	struct seen s1, s2;
	kp_str text = KP_S(H1 "x");
	(void)state;
	struct run a = begin(&c, &s1, false), b = begin(&c, &s2, false);
	for (size_t i = 0; i < text.n; i++) {
		feed(&a, kp_str_sub(text, i, i + 1));
		feed(&b, kp_str_sub(KP_S("<tool_call>no"), i % 13, i % 13 + 1));
	}
	assert_true(kp_str_eq(end(&a, false), KP_S(A "C:x\n")));
	(void)end(&b, false);
	kp_buf_fini(&s1.text);
	kp_buf_fini(&s2.text);
}

FAULT(test_tc20_json_in_a_string,
	{ { HERMES, PLAIN,
		  "<tool_call>{\"name\": \"get_time\", \"arguments\": \"{\\\"tz\\\": \\\"CET\\\"}\"}</tool_call>",
		  "T:get_time {\"tz\": \"CET\"}\n" },
		false })

FAULT(test_tc21_text_around_calls,
	{ { HERMES, PLAIN, "I look.\n" H1 "\n" H1 "\nDone.", "C:I look.\n" A A "C:\nDone.\n" },
		false },
	{ { HERMES, PLAIN, H1 "\n \n", A }, false })

/* 1 MiB of arguments: nothing is held, and each feed gives what it got. */
static void test_tc22_long_arguments(void **state)
{
	static const struct parse_case c = { HERMES, PLAIN, NULL, NULL };
	struct seen s;
	size_t n = 1 << 20;
	(void)state;
	struct run r = begin(&c, &s, false);
	kp_buf_fini(&s.text);
	kp_buf_init(&s.text, 4 << 20);
	feed(&r, KP_S("<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \""));
	size_t before = s.text.n;
	for (size_t i = 0; i < n; i += 8) {
		feed(&r, KP_S("abcdefgh"));
		assert_int_equal(s.text.n, before + i + 8);
	}
	feed(&r, KP_S("\"}}</tool_call>"));
	assert_true(end(&r, false).n > n);
	kp_buf_fini(&s.text);
}

/* A string of a tag leaves as it comes. */
static void test_tc23_arguments_come_early(void **state)
{
	static const struct parse_case c = { "qwen3_coder", NULL, 0, NULL, NULL };
	struct seen s;
	(void)state;
	struct run r = begin(&c, &s, false);
	feed(&r, KP_S("<tool_call><function=get_weather>"));
	assert_true(kp_str_eq(kp_buf_str(&s.text), KP_S("T:get_weather ")));
	feed(&r, KP_S("<parameter=city>Par"));
	assert_true(kp_str_eq(kp_buf_str(&s.text), KP_S("T:get_weather {\"city\":\"Par")));
	(void)end(&r, true);
	kp_buf_fini(&s.text);
}

static void see_id(void *ctx, const struct kp_event *ev)
{
	if (ev->kind == KP_EV_TOOL_START) {
		kp_buf_add(ctx, ev->tool.id);
		kp_buf_addc(ctx, ' ');
	}
}

static void test_tc24_identifiers(void **state)
{
	static const struct {
		const char *tools, *text, *shape;
	} rows[] = { { "mistral", "[TOOL_CALLS]now[ARGS]{}", "%%%%%%%%% " },
		{ "mistral", "[TOOL_CALLS]now[CALL_ID]abcdefghi[ARGS]{}", "abcdefghi " },
		{ "hermes", "<tool_call>{\"name\": \"now\"}</tool_call>",
			"call_%%%%%%%%%%%%%%%%%%%%%%%% " },
		{ "kimi_k2",
			"<|tool_call_begin|>functions.now:7<|tool_call_argument_begin|>{}<|tool_call_end|>",
			"functions.now:7 " } };
	(void)state;
	for (size_t i = 0; i < KP_LEN(rows); i++) {
		const struct parse_case c = { rows[i].tools, NULL, PLAIN, NULL, NULL };
		KP_AUTO(buf) struct kp_buf ids;
		kp_buf_init(&ids, 1000);
		struct kp_err err;
		const struct kp_parse_opts o = { .lexicon = lexicon_of(&c, false),
			.offer = &offer,
			.rng = &rng,
			.emit = see_id,
			.ctx = &ids };
		KP_AUTO(parser) struct kp_parser *p = kp_parser_create(&o);
		assert_int_equal(kp_parser_feed(p, kp_str_c(rows[i].text), &err), 0);
		assert_int_equal(kp_parser_finish(p, false, &err), 0);
		assert_int_equal(ids.n, strlen(rows[i].shape));
		for (size_t k = 0; k < ids.n; k++) {
			char want = rows[i].shape[k];
			assert_true(want == '%' ? ids.p[k] != ' ' && ids.p[k] != '_'
						: ids.p[k] == want);
		}
	}
}

FAULT(test_tc28_no_tools_offered, { { NULL, "qwen3", PLAIN, H1, "C:" H1 "\n" }, false })

/* Each step takes a byte: any short text of the bytes that matter comes to an end. */
static void test_tc29_hostile_text(void **state)
{
	static const char bytes[] = "[]{}()<>|\"'\\:,=/a\n";
	(void)state;
	for (size_t g = 0; g < kp_n_grammars; g++) {
		const struct parse_case c = { kp_grammars[g].name, NULL, PLAIN, NULL, NULL };
		const char *open = kp_grammars[g].open[0] ? kp_grammars[g].open[0] : "<|channel|>";
		for (uint64_t seed = 0; seed < 300; seed++) {
			struct seen s;
			struct run r = begin(&c, &s, false);
			kp_rng_seed(&rng, seed);
			feed(&r, kp_str_c(open));
			for (size_t i = 0; i < 40; i++) {
				feed(&r,
					kp_str_n(&bytes[kp_rng_below(&rng, sizeof(bytes) - 1)], 1));
			}
			(void)end(&r, seed & 1);
			kp_buf_fini(&s.text);
		}
	}
}

FAULT(test_tc30_drifted_markup,
	{ { "kimi_k2", NULL, 0,
		  "<|tool_call_section_begin|><|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_call_section_end|>",
		  NOW },
		false },
	{ { "gemma4", NULL, 0, "<|tool_call>nonsense<tool_call|>",
		  "C:<|tool_call>nonsense<tool_call|>\n" },
		false })

FAULT(test_tc31_half_a_delimiter_in_a_value,
	{ { "deepseek_v4", NULL, 0,
		  "<｜DSML｜tool_calls><｜DSML｜invoke name=\"get_weather\"><｜DSML｜parameter name=\"city\" string=\"true\">2>&1</｜DSML</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜tool_calls>",
		  "T:get_weather {\"city\":\"2>&1</｜DSML\"}\n" },
		false },
	{ { "gemma4", NULL, 0, "<|tool_call>call:get_weather{city:<|\"|>a<|\"<|\"|>}<tool_call|>",
		  "T:get_weather {\"city\":\"a<|\\\"\"}\n" },
		false })

FAULT(test_tc32_two_objects,
	{ { HERMES, PLAIN, "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>", NOW },
		false },
	{ { "mistral", NULL, 0, "[TOOL_CALLS]now[ARGS]{\"a\": 1}{\"b\": 2}",
		  "T:now {\"a\": 1}{\"b\": 2}\n" },
		false })

FAULT(test_tc33_nothing_vanishes,
	{ { HERMES, PLAIN, "<tool_call>oh</tool_call>", "C:<tool_call>oh</tool_call>\n" }, false },
	{ { "gemma4", NULL, 0, "<|tool_call>:{}", "C:<|tool_call>:{}\n" }, false })

static void test_tc34_only_one_call(void **state)
{
	static const struct parse_case c = { HERMES, PLAIN, NULL, NULL };
	struct seen s = { .last = KP_EV_NONE };
	struct kp_err err;
	(void)state;
	kp_buf_init(&s.text, 1000);
	const struct kp_parse_opts o = { .lexicon = lexicon_of(&c, false),
		.offer = &offer,
		.rng = &rng,
		.emit = see,
		.ctx = &s,
		.one_call = true };
	KP_AUTO(parser) struct kp_parser *p = kp_parser_create(&o);
	assert_int_equal(kp_parser_feed(p, KP_S(H1 H1 "x"), &err), 0);
	assert_int_equal(kp_parser_finish(p, false, &err), 0);
	assert_int_equal(kp_parser_n_calls(p), 1);
	kp_buf_addc(&s.text, '\n');
	assert_true(kp_str_eq(kp_buf_str(&s.text), KP_S(A)));
	kp_buf_fini(&s.text);
}

/* Elements in elements beyond the most are text of the last. */
static void test_tc29_elements_in_elements(void **state)
{
	enum { MOST = 24 };
	(void)state;
#define MARK "]<]minimax[>["
	KP_AUTO(buf) struct kp_buf text = { 0 }, means = { 0 };
	kp_buf_init(&text, 1 << 16);
	kp_buf_init(&means, 1 << 16);
	kp_buf_lit(&text, MARK "<tool_call>" MARK "<invoke name=\"now\">");
	kp_buf_lit(&means, "T:now ");
	for (size_t i = 0; i < MOST; i++) {
		kp_buf_lit(&text, MARK "<a>");
		kp_buf_lit(&means, "{\"a\":");
	}
	kp_buf_lit(&text, MARK "<a>x");
	kp_buf_lit(&means, "\"" MARK "<a>x\"");
	for (size_t i = 0; i < MOST; i++) {
		kp_buf_lit(&text, MARK "</a>");
		kp_buf_addc(&means, '}');
	}
	kp_buf_lit(&text, MARK "</invoke>" MARK "</tool_call>");
	kp_buf_addc(&means, '\n');
#undef MARK
	const struct row row = { { "minimax_m3", NULL, 0, kp_buf_cstr(&text), kp_buf_cstr(&means) },
		false };
	check(&row, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rp01_no_end),
		cmocka_unit_test(test_rp02_begin_is_in_the_prompt),
		cmocka_unit_test(test_rp03_an_empty_block_in_the_prompt),
		cmocka_unit_test(test_rp04_an_end_in_the_history),
		cmocka_unit_test(test_rp05_two_phases_in_a_delta),
		cmocka_unit_test(test_rp06_a_call_in_a_thought),
		cmocka_unit_test(test_rp07_thoughts_come_again),
		cmocka_unit_test(test_rp08_it_ends_in_a_thought),
		cmocka_unit_test(test_rp09_a_wrong_guess_of_a_marker),
		cmocka_unit_test(test_rp10_tags_as_text),
		cmocka_unit_test(test_rp11_channels),
		cmocka_unit_test(test_rp12_what_is_in_a_thought),
		cmocka_unit_test(test_rp14_line_ends),
		cmocka_unit_test(test_tc01_open_and_close_in_one_delta),
		cmocka_unit_test(test_tc02_the_last_bytes),
		cmocka_unit_test(test_tc03_a_marker_in_pieces),
		cmocka_unit_test(test_tc04_no_arguments),
		cmocka_unit_test(test_tc05_types),
		cmocka_unit_test(test_tc06_a_value_of_another_type),
		cmocka_unit_test(test_tc07_an_empty_tag),
		cmocka_unit_test(test_tc08_delimiters_as_data),
		cmocka_unit_test(test_tc09_a_damaged_element),
		cmocka_unit_test(test_tc10_markup_in_a_name),
		cmocka_unit_test(test_tc11_nothing_is_taken_back),
		cmocka_unit_test(test_tc12_cut_by_the_limit),
		cmocka_unit_test(test_tc13_a_tool_that_was_not_offered),
		cmocka_unit_test(test_tc14_json_that_is_no_call),
		cmocka_unit_test(test_tc15_no_second_look_at_what_was_rejected),
		cmocka_unit_test(test_tc16_nested_values),
		cmocka_unit_test(test_tc17_python),
		cmocka_unit_test(test_tc17_deep_python),
		cmocka_unit_test(test_tc18_the_same_tool_twice),
		cmocka_unit_test(test_tc19_state_is_of_one_choice),
		cmocka_unit_test(test_tc20_json_in_a_string),
		cmocka_unit_test(test_tc21_text_around_calls),
		cmocka_unit_test(test_tc22_long_arguments),
		cmocka_unit_test(test_tc23_arguments_come_early),
		cmocka_unit_test(test_tc24_identifiers),
		cmocka_unit_test(test_tc28_no_tools_offered),
		cmocka_unit_test(test_tc29_hostile_text),
		cmocka_unit_test(test_tc29_elements_in_elements),
		cmocka_unit_test(test_tc30_drifted_markup),
		cmocka_unit_test(test_tc31_half_a_delimiter_in_a_value),
		cmocka_unit_test(test_tc32_two_objects),
		cmocka_unit_test(test_tc33_nothing_vanishes),
		cmocka_unit_test(test_tc34_only_one_call),
	};
	return cmocka_run_group_tests(tests, setup, NULL);
}

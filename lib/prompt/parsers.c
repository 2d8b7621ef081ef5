/* DESIGN: a table of what templates write, the more telling first. The literal text of the template is searched, not its source, so that a comment or a
   variable's name says nothing. */
#include "prompt/parsers.h"

#include "template/template.h"

#include <stdio.h>

static const struct {
	const char *native, *tools, *thinking;
} by_native[] = {
	{ "harmony", "harmony", NULL },
	{ "deepseek_v32", "deepseek_v32", "deepseek_v3" },
	{ "deepseek_v4", "deepseek_v4", "deepseek_v3" },
	{ "mistral_v7", "mistral", "mistral" },
	{ "mistral_v11", "mistral", "mistral" },
	{ "mistral_v13", "mistral", "mistral" },
	{ "mistral_v15", "mistral", "mistral" },
};

/* All texts must be there. */
static const struct rule {
	const char *texts[3], *name;
} tool_rules[] = {
	{ { "｜DSML｜", "function_calls" }, "deepseek_v32" },
	{ { "｜DSML｜" }, "deepseek_v4" },
	{ { "<｜tool▁calls▁begin｜>", "```json" }, "deepseek_v3" },
	{ { "<｜tool▁calls▁begin｜>" }, "deepseek_v31" },
	{ { "<|channel|>", "<|message|>", "<|start|>" }, "harmony" },
	{ { "]<]minimax[>[" }, "minimax_m3" },
	{ { "<|content_invoke_tool_json|>" }, "inkling" },
	{ { "｜GCML｜" }, "gigachat35" },
	{ { "<dots_function_call>" }, "dots" },
	{ { "<iquest_tool_call>" }, "iquest_q1" },
	{ { "<ifm|tool_call" }, "k2_horizon" },
	{ { "<|tool_call:begin|>", "<|tool_call:args|>" }, "solar_open" },
	{ { "<tool_calls{}>", "<arg_key{}>" }, "hunyuan" },
	{ { "<minimax:tool_call>" }, "minimax_m2" },
	{ { "<seed:tool_call>" }, "seed_oss" },
	{ { "<|tool_calls_section_begin|>" }, "kimi_k2" },
	{ { "<|open|>", "<|sep|>" }, "kimi_k3" },
	{ { "<longcat_tool_call>" }, "longcat" },
	{ { "steptml:invoke" }, "step3" },
	{ { "atem:invoke" }, "muse_glimmer" },
	{ { "<tool_call>", "<arg_key>" }, "glm45" },
	{ { "<tool_call>", "<function=" }, "qwen3_coder" },
	{ { "<TOOLCALL>" }, "nemotron" },
	{ { "<|START_ACTION|>" }, "cohere" },
	{ { "<start_function_call>" }, "functiongemma" },
	{ { "<|tool_call>" }, "gemma4" },
	{ { "<|tool_call_start|>" }, "lfm2" },
	{ { "<|tool_list_start|>" }, "lfm2" },
	{ { "<|tools_prefix|>" }, "apertus" },
	{ { "<function_calls>" }, "olmo3" },
	{ { "[TOOL_CALLS]" }, "mistral" },
	{ { "<|action_start|>" }, "internlm" },
	{ { "<tool_calls" }, "hunyuan" },
	{ { "<|function_call|>", "<|message_sep|>" }, "gigachat3" },
	{ { "<function name=", "<param name=" }, "minicpm5" },
	{ { "<|python_start|>" }, "llama4_pythonic" },
	{ { "functools" }, "phi4_mini" },
	{ { "<|tool_call|>" }, "granite" },
	{ { "<tool_call>" }, "hermes" },
	{ { "<|start_header_id|>", "<function=" }, "functionary_v31" },
	{ { "<|start_header_id|>", "\"parameters\":" }, "llama3_json" },
	{ { "<|python_tag|>" }, "llama3_json" },
};
static const struct rule thinking_rules[] = {
	{ { "<|open|>", "<|sep|>" }, "kimi_k3" },
	{ { "<seed:think>" }, "seed_oss" },
	{ { "[THINK]" }, "mistral" },
	{ { "<|START_THINKING|>" }, "cohere" },
	{ { "<mm:think>" }, "minimax_m3" },
	{ { "to=self", "<|message|>" }, "muse_glimmer" },
	{ { "<ifm|think" }, "k2_horizon" },
	{ { "<|begin|>assistant<|think|>" }, "solar_open" },
	{ { "<think{}>" }, "hunyuan" },
	{ { "hy_Assistant", "<think" }, "hunyuan" },
	{ { "<|inner_prefix|>" }, "apertus" },
	{ { "<|channel>" }, "gemma4" },
	{ { "<think>", "<|assistant|>" }, "glm45" },
	{ { "<think>", "<|im_assistant|>" }, "kimi_k2" },
	{ { "<think>", "]~b]" }, "minimax_m2" },
	{ { "<think>", "<answer>" }, "hunyuan" },
	{ { "</think>", "<｜Assistant｜>" }, "deepseek_v3" },
	{ { "<think>", "<response>" }, "ernie45" },
	{ { "Here is my thought process:" }, "granite" },
	{ { "<think>" }, "qwen3" },
	{ { "</think>" }, "qwen3" },
};

static void gather(void *ctx, kp_str literal)
{
	kp_buf_add(ctx, literal);
	kp_buf_addc(ctx, '\0'); /* keeps pieces apart */
}

static const struct rule *match(const struct rule *rules, size_t n, kp_str literals)
{
	for (size_t i = 0; i < n; i++) {
		bool all = true;
		for (size_t k = 0; all && k < KP_LEN(rules[i].texts) && rules[i].texts[k]; k++) {
			all = kp_str_has(literals, kp_str_c(rules[i].texts[k]));
		}
		if (all) {
			return &rules[i];
		}
	}
	return NULL;
}

void kp_parsers_choose(struct kp_parsers *p, const char *native, const struct kp_template *chat)
{
	*p = (struct kp_parsers){ .tools = NULL };
	for (size_t i = 0; native && i < KP_LEN(by_native); i++) {
		if (strcmp(native, by_native[i].native) == 0) {
			p->tools = kp_grammar_find(kp_str_c(by_native[i].tools));
			p->thinking = by_native[i].thinking
					      ? kp_thinking_find(kp_str_c(by_native[i].thinking))
					      : NULL;
			snprintf(p->why, sizeof(p->why), "template `%s`", native);
			return;
		}
	}
	if (!chat) {
		return;
	}
	KP_AUTO(buf) struct kp_buf literals;
	kp_buf_init(&literals, 2 << 20);
	kp_template_each_literal(chat, gather, &literals);
	const struct rule *r = match(tool_rules, KP_LEN(tool_rules), kp_buf_str(&literals));
	if (r && r->name) {
		p->tools = kp_grammar_find(kp_str_c(r->name));
		snprintf(p->why, sizeof(p->why), "the template writes `%s`", r->texts[0]);
	}
	r = match(thinking_rules, KP_LEN(thinking_rules), kp_buf_str(&literals));
	p->thinking = r ? kp_thinking_find(kp_str_c(r->name)) : NULL;
}

static int named(kp_str name, const char *what, bool found, struct kp_err *err)
{
	return found || kp_str_eq(name, KP_S("none"))
		       ? 0
		       : kp_err_param(err, what, "`%s`: there is none named `%" KP_FMT "`", what,
				 KP_ARG(kp_str_sub(name, 0, 80)));
}

int kp_parsers_named(struct kp_parsers *p, kp_str tools, kp_str reasoning,
	const char *const what[2], struct kp_err *err)
{
	const struct kp_grammar *g = kp_grammar_find(tools), *same = kp_grammar_find(reasoning);
	const struct kp_thinking *t = kp_thinking_find(reasoning);
	bool channels = same && same->body == KP_BODY_CHANNELS;
	if ((tools.n && named(tools, what[0], g, err)) ||
		(reasoning.n && named(reasoning, what[1], t || channels, err))) {
		return -1;
	}
	if (tools.n) {
		p->tools = g;
		snprintf(p->why, sizeof(p->why), "named by `%s`", what[0]);
	} else if (channels) { /* one reads both */
		p->tools = same;
		snprintf(p->why, sizeof(p->why), "named by `%s`", what[1]);
	}
	if (reasoning.n) {
		p->thinking = channels ? NULL : t;
	}
	return 0;
}

/* --- controls ----------------------------------------------------------------------------------- */

enum { SUFFIXED_MAX = 64 };

/* Without what stands behind the colon of <tool_calls:6124c78e>. */
static kp_str without_suffix(bool suffixed, kp_str token, char buf[SUFFIXED_MAX])
{
	ptrdiff_t colon = kp_str_find_char(token, ':');
	if (!suffixed || colon < 1 || token.n > SUFFIXED_MAX || !kp_str_ends(token, KP_S(">"))) {
		return token;
	}
	memcpy(buf, token.p, (size_t)colon);
	buf[colon] = '>';
	return kp_str_n(buf, (size_t)colon + 1);
}

static bool stands_in(const char *const *list, kp_str token)
{
	for (size_t i = 0; i < KP_MARKS && list[i]; i++) {
		if (kp_str_has(kp_str_c(list[i]), token)) {
			return true;
		}
	}
	return false;
}

static bool is_one_of(const char *const *list, kp_str token)
{
	for (size_t i = 0; i < KP_MARKS && list[i]; i++) {
		if (kp_str_eq(kp_str_c(list[i]), token)) {
			return true;
		}
	}
	return false;
}

bool kp_parsers_is_marker(const struct kp_parsers *p, kp_str token)
{
	const struct kp_grammar *g = p->tools;
	const struct kp_thinking *t = p->thinking;
	char plain[SUFFIXED_MAX];
	token = without_suffix((g && g->suffixed) || (t && t->suffixed), token, plain);
	return (t && (is_one_of(t->open, token) || is_one_of(t->close, token))) ||
	       (g && (is_one_of(g->open, token) || is_one_of(g->close, token) ||
			     is_one_of(g->call_open, token) || is_one_of(g->call_close, token)));
}

static bool is_control(const struct kp_parsers *p, kp_str token)
{
	static const char *const harmony[] = { "<|start|><|end|><|call|><|return|>",
		"<|channel|><|message|><|constrain|>", NULL };
	const struct kp_grammar *g = p->tools;
	const struct kp_thinking *t = p->thinking;
	char plain[SUFFIXED_MAX];
	token = without_suffix((g && g->suffixed) || (t && t->suffixed), token, plain);
	if (token.n < 4 || kp_str_trim(token).n == 0) { /* shorter ones stand in ordinary text */
		return false;
	}
	if (t && (stands_in(t->open, token) || stands_in(t->close, token) ||
			 stands_in(t->drop, token))) {
		return true;
	}
	if (!g) {
		return false;
	}
	const char *const more[] = { g->value_open ? g->value_open : "", g->quote ? g->quote : "",
		g->id_mark ? g->id_mark : "", g->element ? g->element : "",
		g->message ? g->message : "", NULL };
	const char *const types[] = { g->type_open, g->type_close, NULL };
	return stands_in(g->open, token) || stands_in(g->close, token) ||
	       stands_in(g->call_open, token) || stands_in(g->call_close, token) ||
	       stands_in(g->drop, token) || stands_in(g->name_end, token) ||
	       stands_in(g->key_open, token) || stands_in(g->key_end, token) ||
	       stands_in(g->value_close, token) || stands_in(more, token) ||
	       stands_in(types, token) || stands_in(g->kinds, token) || stands_in(g->end, token) ||
	       (g->body == KP_BODY_CHANNELS && !g->message && stands_in(harmony, token));
}

static int find_controls(
	struct kp_parsers *p, const struct kp_tokenizer *t, struct kp_arena *a, struct kp_err *err)
{
	size_t n = 0;
	kp_id id;
	kp_str text;
	bool special;
	for (size_t i = 0; kp_tokenizer_added(t, i, &id, &text, &special); i++) {
		n += is_control(p, text);
	}
	kp_str *texts = kp_arena_calloc(a, n + 1, sizeof(*texts));
	kp_id *ids = kp_arena_calloc(a, n + 1, sizeof(*ids));
	if (!texts || !ids) {
		return kp_arena_full(err, "markers");
	}
	p->n_controls = 0;
	for (size_t i = 0; kp_tokenizer_added(t, i, &id, &text, &special); i++) {
		if (is_control(p, text)) {
			texts[p->n_controls] = text;
			ids[p->n_controls++] = id;
		}
	}
	p->controls = texts;
	p->control_ids = ids;
	return 0;
}

int kp_parsers_compile(
	struct kp_parsers *p, const struct kp_tokenizer *t, struct kp_arena *a, struct kp_err *err)
{
	p->n_controls = 0;
	if (t && find_controls(p, t, a, err)) {
		return -1;
	}
	return kp_lexicon_create(
		a, p->tools, p->thinking, p->controls, p->n_controls, &p->lexicon, err);
}

/* --- tokens ------------------------------------------------------------------------------------- */

static ptrdiff_t control_of(const struct kp_parsers *p, kp_id id)
{
	size_t low = 0, high = p->n_controls;
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (p->control_ids[mid] < id) {
			low = mid + 1;
		} else {
			high = mid;
		}
	}
	return low < p->n_controls && p->control_ids[low] == id ? (ptrdiff_t)low : -1;
}

int kp_parsers_feed(const struct kp_parsers *p, struct kp_detok *d, struct kp_parser *parser,
	kp_id id, struct kp_buf *text, struct kp_err *err)
{
	struct kp_err ignored;
	if (!parser) {
		if (kp_detok_feed(d, id, text, &ignored)) {
			/* A row that pads the model's vocabulary: no text, as in the reference. */
		}
		return 0;
	}
	ptrdiff_t at = control_of(p, id);
	KP_AUTO(buf) struct kp_buf raw;
	kp_buf_init(&raw, 1 << 20);
	if (kp_detok_feed(d, id, &raw, &ignored)) {
		return 0;
	}
	kp_str out = kp_buf_str(&raw);
	if (at < 0) {
		return kp_parser_feed(parser, out, err);
	}
	/* The token's own text, if the detokenizer shows it, comes last: what is before it was held back. */
	kp_str control = p->controls[at];
	bool hidden = !kp_str_ends(out, control);
	kp_str before = kp_str_sub(out, 0, out.n - (hidden ? 0 : control.n));
	return kp_parser_feed(parser, before, err) ||
			       kp_parser_feed_control(parser, control, hidden, err)
		       ? -1
		       : 0;
}

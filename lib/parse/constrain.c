/* DESIGN: JSON is written as it is thought out, one element behind the other: sequence, or, literals. The whole is

     [thoughts] then one of: the format · calls · text and calls

   Thoughts are free up to the marker that closes them, and there are none where the prompt closed them. Everything is bounded by KP_MAX_CONSTRAINT; schemas are
   written whole for each tool, so that each `$ref` finds its root. What of xgrammar's format is used: any_text, any_tokens, const_string, token, regex, grammar,
   json_schema (with a style), sequence, or, optional, star, tag, tags_with_separator. */
#include "parse/constrain.h"

#include "json/write.h"
#include "parse/machine.h"

/* White space in a row inside of JSON: a model that is free to write more may never stop. */
#define WHITE_SPACE ",\"max_whitespace_cnt\":8"

struct builder {
	const struct kp_constrain_opts *o;
	struct kp_buf *out;
	bool first; /* nothing in the list yet */
	/* some control begins with this byte; a vocabulary may have a thousand of them */
	bool may_control[256];
};

/* --- elements ------------------------------------------------------------------------------------- */

static void item(struct builder *b)
{
	if (!b->first) {
		kp_buf_addc(b->out, ',');
	}
	b->first = false;
}

static void list_begin(struct builder *b, const char *type, const char *member)
{
	item(b);
	kp_buf_printf(b->out, "{\"type\":\"%s\",\"%s\":[", type, member);
	b->first = true;
}

static void list_end(struct builder *b, const char *more)
{
	kp_buf_printf(b->out, "]%s}", more);
	b->first = false;
}

static void seq_begin(struct builder *b)
{
	list_begin(b, "sequence", "elements");
}

static void or_begin(struct builder *b)
{
	list_begin(b, "or", "elements");
}

/* Around one element. */
static void wrap_begin(struct builder *b, const char *type)
{
	item(b);
	kp_buf_printf(b->out, "{\"type\":\"%s\",\"content\":", type);
	b->first = true;
}

static void wrap_end(struct builder *b)
{
	kp_buf_addc(b->out, '}');
	b->first = false;
}

static void put_const(struct builder *b, kp_str text)
{
	if (text.n) {
		item(b);
		kp_buf_lit(b->out, "{\"type\":\"const_string\",\"value\":");
		kp_json_w_str(b->out, text);
		kp_buf_addc(b->out, '}');
	}
}

static void put_token(struct builder *b, kp_id id)
{
	item(b);
	kp_buf_printf(b->out, "{\"type\":\"token\",\"token\":%u}", id);
}

static void put_regex(struct builder *b, const char *pattern)
{
	item(b);
	kp_buf_lit(b->out, "{\"type\":\"regex\",\"pattern\":");
	kp_json_w_str(b->out, kp_str_c(pattern));
	kp_buf_addc(b->out, '}');
}

/* How much of the text the control stands for: all markers of a vocabulary may have a suffix (<think:6124c78e>). 0: it is another. */
static size_t stands_for(const struct kp_constrain_opts *o, kp_str control, kp_str text)
{
	bool suffixed = (o->tools && o->tools->suffixed) || (o->thinking && o->thinking->suffixed);
	ptrdiff_t colon = suffixed ? kp_str_find_char(control, ':') : -1;
	if (kp_str_starts(text, control)) {
		return control.n;
	}
	return colon > 0 && kp_str_starts(text, kp_str_sub(control, 0, (size_t)colon)) &&
			       kp_str_starts(kp_str_skip(text, (size_t)colon), KP_S(">"))
		       ? (size_t)colon + 1
		       : 0;
}

/* The control that most of the text's begin is, *ret_n bytes; NULL: none. */
static const kp_str *control_at(const struct builder *b, kp_str text, size_t *ret_n)
{
	const struct kp_constrain_opts *o = b->o;
	const kp_str *best = NULL;
	bool may = text.n && b->may_control[(uint8_t)text.p[0]];
	*ret_n = 0;
	for (size_t i = 0; may && i < o->n_controls; i++) {
		size_t n = stands_for(o, o->controls[i], text);
		if (n > *ret_n) {
			best = &o->controls[i];
			*ret_n = n;
		}
	}
	return best;
}

/* As one or more elements: tokens where the vocabulary has them, text between. */
static void put_literal(struct builder *b, kp_str text)
{
	size_t from = 0, n;
	for (size_t i = 0; i < text.n;) {
		const kp_str *control = control_at(b, kp_str_skip(text, i), &n);
		if (!control) {
			i++;
			continue;
		}
		put_const(b, kp_str_sub(text, from, i));
		put_token(b, b->o->control_ids[control - b->o->controls]);
		from = i += n;
	}
	put_const(b, kp_str_skip(text, from));
}

/* A form's text, with the name of a tool. */
static void put_form(struct builder *b, const char *form, kp_str name)
{
	KP_AUTO(buf) struct kp_buf text;
	kp_buf_init(&text, 4 * KP_NAME_MAX);
	static const char *const patterns[] = {
		[2] = "[0-9]{1,4}", [3] = "[a-zA-Z0-9]{9}", [4] = "\\n?"
	};
	for (; form && *form; form++) {
		if (*form == '\1') {
			kp_buf_add(&text, name);
		} else if (*form > '\1' && *form <= '\4') {
			put_literal(b, kp_buf_str(&text));
			kp_buf_reset(&text);
			put_regex(b, patterns[(int)*form]);
		} else {
			kp_buf_addc(&text, *form);
		}
	}
	b->out->failed |= text.failed;
	put_literal(b, kp_buf_str(&text));
}

/* Text up to one of the markers, which is not taken. Where the first begins with a token it is tokens that end it, else their text. */
static void put_free(struct builder *b, const char *const *marks, size_t n)
{
	size_t ignored;
	bool tokens = n && control_at(b, kp_str_c(marks[0]), &ignored);
	item(b);
	kp_buf_addz(b->out, tokens ? "{\"type\":\"any_tokens\",\"exclude_tokens\":["
				   : "{\"type\":\"any_text\",\"excludes\":[");
	b->first = true;
	for (size_t i = 0; i < n; i++) {
		kp_str mark = kp_str_c(marks[i]);
		const kp_str *control = control_at(b, mark, &ignored);
		if (tokens && control) {
			item(b);
			kp_buf_u64(b->out, b->o->control_ids[control - b->o->controls]);
		} else if (!tokens) {
			item(b);
			kp_json_w_str(b->out, mark);
		}
	}
	kp_buf_lit(b->out, "]}");
	b->first = false;
}

/* Inkling's messages are channels, too, with markers of its own. */
static bool is_harmony(const struct kp_grammar *g)
{
	return g && g->body == KP_BODY_CHANNELS && !g->message;
}

/* --- thoughts ------------------------------------------------------------------------------------- */

/* Where calls begin: *n of them in marks. */
static void openers(const struct kp_grammar *g, const char **marks, size_t *n)
{
	for (size_t i = 0; g && i < KP_MARKS && g->open[i]; i++) {
		marks[(*n)++] = g->open[i];
	}
	for (size_t i = 0; g && g->loose && i < KP_MARKS && g->call_open[i]; i++) {
		marks[(*n)++] = g->call_open[i];
	}
}

/* Up to the end of the thought, and the line ends that belong to it. Calls are not made in it. */
static void put_thought(struct builder *b, const struct kp_thinking *t)
{
	const char *close = t->close[0], *marks[2 * KP_MARKS + 1];
	size_t n = 1, ignored;
	for (size_t i = 0; i < KP_MARKS && t->close[i]; i++) {
		if (control_at(b, kp_str_c(t->close[i]), &ignored)) {
			close = t->close[i];
			break;
		}
	}
	marks[0] = close;
	openers(b->o->tools, marks, &n);
	put_free(b, marks, n);
	put_literal(b, kp_str_c(close));
	put_regex(b, "\\n{0,2}"); /* as many as the parser takes for markup */
}

/* What may, or must, come before the answer. */
static void put_thoughts(struct builder *b)
{
	static const char *const marks[] = { "<|end|>", "<|start|>", "<|channel|>", "<|message|>",
		"<|constrain|>", "<|call|>", "<|return|>" };
	const struct kp_thinking *t = b->o->thinking;
	if (is_harmony(b->o->tools)) {
		wrap_begin(b, "optional");
		seq_begin(b);
		put_literal(b, KP_S("<|channel|>analysis<|message|>"));
		put_free(b, marks, KP_LEN(marks));
		put_literal(b, KP_S("<|end|><|start|>assistant"));
		list_end(b, "");
		wrap_end(b);
	} else if (kp_parse_begins_in_thought(t, b->o->start)) {
		put_thought(b, t);
	} else if (t && b->o->start == KP_PARSE_AUTO) {
		wrap_begin(b, "optional");
		seq_begin(b);
		put_regex(b, "\\n?"); /* where the prompt ends in front of it */
		put_literal(b, kp_str_c(t->open[0]));
		put_thought(b, t);
		list_end(b, "");
		wrap_end(b);
	}
}

static bool has_thoughts(const struct kp_constrain_opts *o)
{
	return is_harmony(o->tools) || (o->thinking && o->start != KP_PARSE_IN_TEXT);
}

/* --- calls ---------------------------------------------------------------------------------------- */

const struct kp_call_form *kp_form_of(const struct kp_grammar *g, const kp_str *controls, size_t n)
{
	for (size_t i = 0; g && i < KP_FORMS && g->forms[i].head; i++) {
		bool met = !g->forms[i].needs;
		for (size_t k = 0; !met && k < n; k++) {
			met = kp_str_eq(controls[k], kp_str_c(g->forms[i].needs));
		}
		if (met) {
			return &g->forms[i];
		}
	}
	return NULL;
}

static bool may_call(const struct kp_chat *c, kp_str name)
{
	for (size_t i = 0; i < c->n_allowed; i++) {
		if (kp_str_eq(c->allowed[i], name)) {
			return true;
		}
	}
	return !c->allowed;
}

/* Arguments are an object whatever the schema forgets to say. */
static void put_schema(struct builder *b, const struct kp_offered_tool *tool, bool forced)
{
	static const char *const says[] = { "type", "$ref", "anyOf", "oneOf", "allOf", "enum",
		"const" };
	const struct kp_jv *s = forced || tool->strict ? tool->parameters : NULL;
	bool typed = false;
	for (size_t i = 0; i < KP_LEN(says); i++) {
		typed |= kp_jv_get(s, kp_str_c(says[i])) != NULL;
	}
	if (typed) {
		kp_jv_write(s, b->out);
	} else if (!s || s->n == 0) {
		kp_buf_lit(b->out, "{\"type\":\"object\"}");
	} else {
		KP_AUTO(buf) struct kp_buf text;
		kp_buf_init(&text, KP_MAX_CONSTRAINT);
		kp_jv_write(s, &text);
		kp_buf_lit(b->out, "{\"type\":\"object\",");
		kp_buf_add(b->out, kp_str_skip(kp_buf_str(&text), 1));
		b->out->failed |= text.failed;
	}
}

static void put_call(struct builder *b, const struct kp_call_form *form,
	const struct kp_offered_tool *tool, bool forced)
{
	bool json = strcmp(form->style, "json") == 0;
	seq_begin(b);
	put_form(b, form->head, tool->name);
	item(b);
	kp_buf_lit(b->out, "{\"type\":\"json_schema\",\"json_schema\":");
	put_schema(b, tool, forced);
	kp_buf_printf(b->out, ",\"style\":\"%s\"%s}", form->style, json ? WHITE_SPACE : "");
	put_form(b, form->tail, tool->name);
	list_end(b, "");
}

/* One or more calls of tools that may be called, with what stands around them. */
static void put_calls(struct builder *b, const struct kp_call_form *form)
{
	const struct kp_chat *c = b->o->chat;
	bool one = c->one_call || c->tool_choice == KP_TOOL_CHOICE_NAMED || !form->between;
	bool forced = c->tool_choice >= KP_TOOL_CHOICE_REQUIRED;
	seq_begin(b);
	put_form(b, form->begin, KP_STR_NULL);
	list_begin(b, "tags_with_separator", "tags");
	for (size_t i = 0; i < b->o->offer->n; i++) {
		const struct kp_offered_tool *tool = &b->o->offer->tools[i];
		if (may_call(c, tool->name)) {
			item(b);
			kp_buf_lit(b->out, "{\"type\":\"tag\",\"begin\":\"\",\"content\":");
			b->first = true;
			put_call(b, form, tool, forced);
			kp_buf_lit(b->out, ",\"end\":\"\"}");
		}
	}
	kp_buf_lit(b->out, "],\"separator\":");
	kp_json_w_str(b->out, kp_str_c(one ? "" : form->between));
	kp_buf_printf(
		b->out, ",\"at_least_one\":true,\"stop_after_first\":%s}", one ? "true" : "false");
	b->first = false;
	put_form(b, form->end, KP_STR_NULL);
	list_end(b, "");
}

/* Text, in which calls may stand. */
static void put_text_and_calls(struct builder *b, const struct kp_call_form *form)
{
	static const char *const channels[] = { "<|start|>", "<|channel|>", "<|message|>" };
	const struct kp_grammar *g = b->o->tools;
	const char *marks[2 * KP_MARKS];
	size_t n = 0;
	openers(g, marks, &n);
	if (is_harmony(g)) {
		or_begin(b);
		put_calls(b, form);
		seq_begin(b);
		put_literal(b, KP_S("<|channel|>final<|message|>"));
		put_free(b, channels, KP_LEN(channels));
		list_end(b, "");
		list_end(b, "");
		return;
	}
	put_free(b, marks, n);
	wrap_begin(b, b->o->chat->one_call ? "optional" : "star");
	seq_begin(b);
	put_calls(b, form);
	if (!b->o->chat->one_call) {
		put_free(b, marks, n);
	}
	list_end(b, "");
	wrap_end(b);
}

/* --- formats -------------------------------------------------------------------------------------- */

/* vLLM's and xgrammar's older way to write a structural tag: {"structures": [{begin, schema, end}], "triggers": [...]}. */
static int put_old_tag(
	struct builder *b, const struct kp_jv *tag, const char *param, struct kp_err *err)
{
	const struct kp_jv *structures = kp_jv_get(tag, KP_S("structures")),
			   *triggers = kp_jv_get(tag, KP_S("triggers"));
	if (!kp_jv_is(structures, KP_JSON_ARRAY) || !kp_jv_is(triggers, KP_JSON_ARRAY)) {
		return kp_err_param(err, param, "`%s`: a structural tag needs `format`", param);
	}
	item(b);
	kp_buf_lit(b->out, "{\"type\":\"triggered_tags\",\"triggers\":");
	kp_jv_write(triggers, b->out);
	kp_buf_lit(b->out, ",\"tags\":[");
	for (uint32_t i = 0; i < structures->n; i++) {
		const struct kp_jv *s = &structures->items[i],
				   *schema = kp_jv_get(s, KP_S("schema"));
		kp_str begin = kp_jv_str(s, KP_S("begin")), end = kp_jv_str(s, KP_S("end"));
		if (!begin.p || !end.p) {
			return kp_err_param(err, param,
				"`%s`: `structures[%u]` needs the strings `begin` and `end`", param,
				i);
		}
		kp_buf_addz(b->out, i ? "," : "");
		kp_buf_lit(b->out, "{\"type\":\"tag\",\"begin\":");
		kp_json_w_str(b->out, begin);
		kp_buf_lit(b->out, ",\"content\":{\"type\":\"json_schema\",\"json_schema\":");
		if (schema) {
			kp_jv_write(schema, b->out);
		} else {
			kp_buf_lit(b->out, "true");
		}
		kp_buf_lit(b->out, "},\"end\":");
		kp_json_w_str(b->out, end);
		kp_buf_addc(b->out, '}');
	}
	kp_buf_lit(b->out, "]}");
	return 0;
}

static int put_tag(struct builder *b, struct kp_arena *a, struct kp_err *err)
{
	const struct kp_output_format *f = b->o->format;
	struct kp_jv tag;
	if (kp_jv_parse(f->text, a, &tag, err)) {
		return -1;
	}
	const struct kp_jv *inner = kp_jv_get(&tag, KP_S("format"));
	if (!inner) {
		return put_old_tag(b, &tag, f->param, err);
	}
	item(b);
	kp_jv_write(inner, b->out);
	return 0;
}

static int put_format(struct builder *b, struct kp_arena *a, struct kp_err *err)
{
	const struct kp_output_format *f = b->o->format;
	switch (f->kind) {
	case KP_CONSTRAINT_NONE:
		break;
	case KP_CONSTRAINT_TAG:
		return put_tag(b, a, err);
	case KP_CONSTRAINT_CHOICE:
		or_begin(b);
		for (size_t i = 0; i < f->n_choices; i++) {
			put_const(b, f->choices[i]);
		}
		list_end(b, "");
		break;
	case KP_CONSTRAINT_REGEX:
	case KP_CONSTRAINT_GRAMMAR:
		item(b);
		kp_buf_addz(b->out, f->kind == KP_CONSTRAINT_REGEX
					    ? "{\"type\":\"regex\",\"pattern\":"
					    : "{\"type\":\"grammar\",\"grammar\":");
		kp_json_w_str(b->out, f->text);
		kp_buf_addc(b->out, '}');
		break;
	case KP_CONSTRAINT_JSON_OBJECT:
	case KP_CONSTRAINT_JSON_SCHEMA:
		item(b);
		kp_buf_lit(b->out, "{\"type\":\"json_schema\",\"json_schema\":");
		if (f->kind == KP_CONSTRAINT_JSON_SCHEMA) {
			kp_jv_write(&f->schema, b->out);
		} else {
			kp_buf_lit(b->out, "{\"type\":\"object\"}");
		}
		kp_buf_lit(b->out, WHITE_SPACE "}");
		break;
	}
	return 0;
}

/* The format by itself is the engine's whole constraint. Not JSON: engines let as much white space in it as a model likes, and some models never end. */
static bool is_plain(const struct kp_output_format *f)
{
	return f->kind != KP_CONSTRAINT_JSON_OBJECT && f->kind != KP_CONSTRAINT_JSON_SCHEMA;
}

/* --- the whole ------------------------------------------------------------------------------------ */

enum want { WANT_NOTHING = 0, WANT_FORMAT, WANT_CALLS, WANT_FORMAT_OR_CALLS, WANT_TEXT_AND_CALLS };

static bool has_strict(const struct kp_constrain_opts *o)
{
	for (size_t i = 0; i < o->offer->n; i++) {
		if (o->offer->tools[i].strict) {
			return true;
		}
	}
	return false;
}

/* Names go into markup as they are. */
static int check_names(const struct kp_constrain_opts *o, struct kp_err *err)
{
	for (size_t i = 0; i < o->offer->n; i++) {
		kp_str name = o->offer->tools[i].name;
		if (may_call(o->chat, name) &&
			!(kp_name_is_good(name) && !kp_str_has(name, KP_S("\\")))) {
			return kp_err_param(err, "tool_choice",
				"`tool_choice`: calls of a tool named `%" KP_FMT
				"` cannot be constrained",
				KP_ARG(name));
		}
	}
	return 0;
}

/* Without tools there is nothing of them; with them, whatever is not plain `auto` says something. */
static int wants(const struct kp_constrain_opts *o, const struct kp_call_form *form, enum want *ret,
	struct kp_err *err)
{
	const struct kp_chat *c = o->chat;
	bool format = o->format && o->format->kind;
	/* Where calls need no marker, free text cannot be told from them. */
	bool in_text = form && !o->tools->start;
	*ret = format ? WANT_FORMAT : WANT_NOTHING;
	if (!c || !o->offer || o->offer->n == 0) {
		return 0;
	}
	if (c->tool_choice >= KP_TOOL_CHOICE_REQUIRED) {
		*ret = WANT_CALLS;
	} else if (format) {
		*ret = WANT_FORMAT_OR_CALLS;
		if (!form) {
			return kp_err_param(err, o->format->param,
				"`%s`: with `tools`, this model's calls cannot be put into a constraint; leave out one of them",
				o->format->param);
		}
	} else if (c->allowed && !in_text) {
		return kp_err_param(err, "tool_choice",
			"`tool_choice`: which tools this model calls by itself cannot be limited; use mode `required`, or offer fewer tools");
	} else if (in_text && (c->allowed || has_strict(o))) {
		*ret = WANT_TEXT_AND_CALLS;
	}
	return *ret > WANT_FORMAT ? check_names(o, err) : 0;
}

static int put_answer(struct builder *b, enum want want, const struct kp_call_form *form,
	struct kp_arena *a, struct kp_err *err)
{
	bool channels = is_harmony(b->o->tools);
	if (want == WANT_TEXT_AND_CALLS) {
		put_text_and_calls(b, form);
		return 0;
	}
	if (want == WANT_CALLS) {
		if (!channels) { /* which templates may write before it */
			put_regex(b, "[ \\n]{0,4}");
		}
		put_calls(b, form);
		return 0;
	}
	if (want == WANT_FORMAT_OR_CALLS) {
		or_begin(b);
		put_calls(b, form);
		seq_begin(b);
	}
	if (channels) {
		put_literal(b, KP_S("<|channel|>final<|message|>"));
	}
	if (put_format(b, a, err)) {
		return -1;
	}
	if (want == WANT_FORMAT_OR_CALLS) {
		list_end(b, "");
		list_end(b, "");
	}
	return 0;
}

int kp_constrain(const struct kp_constrain_opts *o, struct kp_arena *a, struct kp_constraint *ret,
	const struct kp_grammar **ret_reads, struct kp_err *err)
{
	const struct kp_call_form *form = kp_form_of(o->tools, o->controls, o->n_controls);
	enum want want;
	KP_AUTO(buf) struct kp_buf text;
	struct builder b = { .o = o, .out = &text, .first = true };
	for (size_t i = 0; i < o->n_controls; i++) {
		b.may_control[(uint8_t)(o->controls[i].n ? o->controls[i].p[0] : 0)] = true;
	}
	kp_buf_init(&text, KP_MAX_CONSTRAINT);
	*ret = (struct kp_constraint){ .kind = KP_CONSTRAINT_NONE };
	*ret_reads = NULL;
	if (wants(o, form, &want, err)) {
		return -1;
	}
	if (want == WANT_NOTHING) {
		return 0;
	}
	if (want == WANT_FORMAT && !has_thoughts(o) && is_plain(o->format)) {
		const struct kp_output_format *f = o->format;
		*ret = (struct kp_constraint){ .kind = f->kind,
			.text = f->text,
			.choices = f->choices,
			.n_choices = f->n_choices };
		return 0;
	}
	if (want == WANT_CALLS && !form) {
		form = &kp_grammar_list.forms[0];
		*ret_reads = &kp_grammar_list;
	}
	kp_buf_lit(&text, "{\"type\":\"structural_tag\",\"format\":");
	seq_begin(&b);
	put_thoughts(&b);
	if (put_answer(&b, want, form, a, err)) {
		return -1;
	}
	list_end(&b, "");
	kp_buf_addc(&text, '}');
	if (kp_buf_finish(&text, "constraint", err)) {
		return -1;
	}
	ret->kind = KP_CONSTRAINT_TAG;
	return kp_arena_dup(a, kp_buf_str(&text), &ret->text, err) < 0 ? -1 : 0;
}

/* DESIGN: calls as Python writes them, [f(a=1), g()], or one to a line, and Gemma's f{a:1}: literal.h makes JSON of the values. */
#include "parse/machine.h"

void kp_python_begin(struct kp_parser *p)
{
	p->mode = KP_M_PYTHON;
	p->python = KP_PY_WAIT;
	p->in_list = false;
	kp_buf_reset(&p->word);
}

static bool is_word(char c)
{
	return kp_is_digit(c) || c == '_' || (kp_lower(c) >= 'a' && kp_lower(c) <= 'z') ||
	       (c & 0x80);
}

/* No call, or a call that is damaged: it ends as it is, and what follows is text, as is a key or a bare word that was not given out yet. */
static void bad(struct kp_parser *p)
{
	if (p->confirmed) {
		kp_call_end(p);
		kp_buf_add(&p->raw, kp_buf_str(&p->word));
		if (p->mode == KP_M_BRACES || p->python == KP_PY_VALUE) {
			kp_buf_add(&p->raw, kp_str_n(p->literal.word, p->literal.n_word));
		}
	}
	kp_calls_reject(p);
}

static void call_done(struct kp_parser *p)
{
	kp_object_end(p);
	kp_call_end(p);
	p->python = KP_PY_WAIT;
	kp_buf_reset(&p->word);
}

static void wait_data(struct kp_parser *p, char c)
{
	bool any = p->n_calls > p->n_calls_before;
	if (kp_is_space(c) || (any && (c == ',' || c == ';'))) {
		return;
	}
	if (c == '[' && !p->in_list && !any) {
		p->in_list = true;
	} else if (c == ']' && p->in_list && any) {
		p->in_list = false;
		if (!p->in_section || !p->g->close[0]) {
			kp_calls_close(p);
		}
	} else if (is_word(c) && !kp_is_digit(c) && (p->in_list || !p->is_bare)) {
		kp_buf_addc(&p->word, c);
		p->python = KP_PY_NAME;
	} else {
		bad(p);
	}
}

static void name_done(struct kp_parser *p)
{
	kp_str name = kp_buf_str(&p->word);
	if (p->g->builtins && kp_str_ends(name, KP_S(".call"))) {
		name = kp_str_sub(name, 0, name.n - 5);
	}
	if (kp_call_start(p, name)) {
		p->is_open = false;
		p->python = KP_PY_KEY;
		kp_buf_reset(&p->word);
	}
}

static void name_data(struct kp_parser *p, char c)
{
	if (c == '(') {
		name_done(p);
	} else if (p->python == KP_PY_NAME && kp_is_space(c)) {
		p->python = KP_PY_OPEN;
	} else if (p->python == KP_PY_NAME && (is_word(c) || c == '.' || c == '-' || c == ':') &&
		   p->word.n < KP_NAME_MAX) {
		kp_buf_addc(&p->word, c);
	} else if (!kp_is_space(c)) {
		bad(p);
	}
}

static void key_data(struct kp_parser *p, char c)
{
	if (p->python == KP_PY_KEY && (is_word(c) || (p->word.n && c == '-')) &&
		p->word.n < KP_LOOK_AHEAD) {
		kp_buf_addc(&p->word, c);
	} else if (kp_is_space(c)) {
		p->python = p->word.n ? KP_PY_EQUALS : p->python;
	} else if (c == ')' && p->word.n == 0) {
		call_done(p);
	} else if (c == '=' && p->word.n) {
		kp_object_key(p, kp_buf_str(&p->word));
		kp_buf_reset(&p->word);
		kp_literal_init(&p->literal, false);
		p->python = KP_PY_VALUE;
	} else {
		bad(p);
	}
}

/* A byte to the literal, its JSON to the call. */
static enum kp_literal_result literal_byte(struct kp_parser *p, char c)
{
	char text[8 * KP_LITERAL_WORD]; /* the most that one byte can end: a word, escaped */
	struct kp_buf json = { .p = text, .cap = sizeof(text) - 1, .max = sizeof(text) - 1 };
	enum kp_literal_result r = kp_literal_byte(&p->literal, c, &json);
	kp_call_args(p, kp_buf_str(&json));
	return r;
}

static size_t value_data(struct kp_parser *p, char c)
{
	switch (literal_byte(p, c)) {
	case KP_LITERAL_MORE:
		break;
	case KP_LITERAL_END:
		p->python = KP_PY_NEXT;
		break;
	case KP_LITERAL_PAST:
		p->python = KP_PY_NEXT;
		return 0;
	case KP_LITERAL_BAD:
		bad(p);
		return 0;
	}
	return 1;
}

size_t kp_python_data(struct kp_parser *p, kp_str run)
{
	char c = run.p[0];
	if (p->python == KP_PY_VALUE) {
		return value_data(p, c) ? 1 : p->mode == KP_M_PYTHON ? kp_python_data(p, run) : 0;
	}
	bool confirmed = p->confirmed;
	if (!p->confirmed) {
		kp_buf_addc(&p->raw, c);
	}
	switch (p->python) {
	case KP_PY_WAIT:
		wait_data(p, c);
		break;
	case KP_PY_NAME:
	case KP_PY_OPEN:
		name_data(p, c);
		break;
	case KP_PY_KEY:
	case KP_PY_EQUALS:
		key_data(p, c);
		break;
	default: /* NEXT */
		if (c == ')') {
			call_done(p);
		} else if (c == ',') {
			p->python = KP_PY_KEY;
		} else if (!kp_is_space(c)) {
			bad(p);
		}
	}
	/* A damaged call ends before the byte that says so: it may be the first of a character's. */
	return !(confirmed && p->mode == KP_M_TEXT);
}

void kp_python_finish(struct kp_parser *p, bool truncated)
{
	bool between = p->python == KP_PY_NEXT || (p->python == KP_PY_KEY && p->word.n == 0);
	if (!truncated && between) { /* only the parenthesis lacks */
		kp_object_end(p);
	}
}

/* --- Gemma ------------------------------------------------------------------------------------- */

void kp_braces_begin(struct kp_parser *p)
{
	kp_literal_init(&p->literal, true);
	p->mode = KP_M_BRACES;
}

static size_t after_literal(struct kp_parser *p, enum kp_literal_result r)
{
	if (r == KP_LITERAL_END) {
		p->mode = KP_M_AFTER;
		kp_buf_reset(&p->tail);
	} else if (r == KP_LITERAL_BAD) {
		bad(p);
		return 0;
	}
	return 1;
}

size_t kp_braces_data(struct kp_parser *p, kp_str run)
{
	return after_literal(p, literal_byte(p, run.p[0]));
}

void kp_braces_mark(struct kp_parser *p)
{
	KP_AUTO(buf) struct kp_buf json;
	kp_buf_init(&json, 64);
	enum kp_literal_result r = kp_literal_mark(&p->literal, &json);
	kp_call_args(p, kp_buf_str(&json));
	after_literal(p, r);
}

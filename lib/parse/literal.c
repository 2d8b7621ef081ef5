/* DESIGN: a state, a stack of the containers' brackets, the word (number, name) that is being read. Commas are written when the next value begins, so a
   trailing one disappears. */
#include "parse/literal.h"

#include "base/utf8.h"
#include "parse/jscan.h"

enum {
	VALUE = 0, /* a value or the container's end */
	COLON,     /* behind a key */
	NEXT,      /* behind a value */
	WORD,
	QUOTED_1, /* behind the first quote */
	QUOTED_2, /* behind a second one at once: "" or """ */
	STRING,
	ENDING,    /* quotes in a triple-quoted string */
	QUOTE_END, /* behind a quote that ends a string, if a delimiter follows */
	ESCAPE,
	CODE,  /* digits of an escape */
	MARKED /* between Gemma's marks */
};

void kp_literal_init(struct kp_literal *l, bool marks)
{
	*l = (struct kp_literal){ .marks = marks };
}

bool kp_literal_in_string(const struct kp_literal *l)
{
	return l->state >= QUOTED_1;
}

void kp_literal_escape(kp_str text, struct kp_buf *out)
{
	static const char hex[] = "0123456789abcdef";
	size_t from = 0;
	for (size_t i = 0; i < text.n; i++) {
		unsigned char c = (unsigned char)text.p[i];
		if (c >= 0x20 && c != '"' && c != '\\') {
			continue;
		}
		kp_buf_add(out, kp_str_sub(text, from, i));
		from = i + 1;
		static const char names[] = "btnvfr";
		if (c == '"' || c == '\\') {
			kp_buf_addc(out, '\\');
			kp_buf_addc(out, (char)c);
		} else if (c >= 8 && c <= 13 && c != 11) {
			kp_buf_addc(out, '\\');
			kp_buf_addc(out, names[c - 8]);
		} else {
			kp_buf_lit(out, "\\u00");
			kp_buf_addc(out, hex[c >> 4]);
			kp_buf_addc(out, hex[c & 15]);
		}
	}
	kp_buf_add(out, kp_str_skip(text, from));
}

static void put_byte(struct kp_buf *out, char c)
{
	kp_literal_escape(kp_str_n(&c, 1), out);
}

static bool is_space(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static bool in_dict(const struct kp_literal *l)
{
	return l->depth && l->open[l->depth - 1] == '{';
}

/* Before anything of a value (or key) is written. */
static void begin(struct kp_literal *l, struct kp_buf *out)
{
	if (l->comma) {
		kp_buf_addc(out, ',');
		l->comma = false;
	}
}

static enum kp_literal_result ended(struct kp_literal *l)
{
	if (l->is_key) {
		l->is_key = false;
		l->state = COLON;
		return KP_LITERAL_MORE;
	}
	l->state = NEXT;
	l->comma = true;
	return l->depth ? KP_LITERAL_MORE : KP_LITERAL_END;
}

static enum kp_literal_result close_container(struct kp_literal *l, char c, struct kp_buf *out)
{
	char open = l->depth ? l->open[l->depth - 1] : 0;
	if (open != (c == '}' ? '{' : c == ']' ? '[' : '(')) {
		return KP_LITERAL_BAD;
	}
	kp_buf_addc(out, c == '}' ? '}' : ']');
	l->depth--;
	l->is_key = false;
	return ended(l);
}

static bool is_json(kp_str text)
{
	struct kp_jscan s;
	kp_jscan_init(&s);
	for (size_t i = 0; i < text.n; i++) {
		if (kp_jscan_byte(&s, text.p[i]) != KP_JSCAN_MORE) {
			return false;
		}
	}
	return kp_jscan_finish(&s);
}

/* Python's ways to write a number that JSON lacks: 1_000, +5, .5, 5. */
static bool put_number(kp_str word, struct kp_buf *out)
{
	char text[KP_LITERAL_WORD + 4];
	size_t n = 0;
	bool minus = word.n && word.p[0] == '-';
	if (word.n && (minus || word.p[0] == '+')) {
		word = kp_str_skip(word, 1);
	}
	if (minus) {
		text[n++] = '-';
	}
	if (word.n == 0 || (!kp_is_digit(word.p[0]) && word.p[0] != '.')) {
		return false;
	}
	if (word.p[0] == '.') {
		text[n++] = '0';
	}
	for (size_t i = 0; i < word.n; i++) {
		bool point = word.p[i] == '.' && (i + 1 == word.n || !kp_is_digit(word.p[i + 1]));
		if (word.p[i] != '_') {
			text[n++] = word.p[i];
		}
		if (point) {
			text[n++] = '0';
		}
		if (n > KP_LITERAL_WORD) {
			return false;
		}
	}
	if (!is_json(kp_str_n(text, n))) {
		return false;
	}
	kp_buf_add(out, kp_str_n(text, n));
	return true;
}

static enum kp_literal_result end_word(struct kp_literal *l, struct kp_buf *out)
{
	static const struct {
		const char *word, *json;
	} words[] = { { "True", "true" }, { "False", "false" }, { "None", "null" },
		{ "true", "true" }, { "false", "false" }, { "null", "null" } };
	kp_str word = kp_str_trim(kp_str_n(l->word, l->n_word));
	l->n_word = 0;
	begin(l, out);
	for (size_t i = 0; !l->is_key && i < KP_LEN(words); i++) {
		if (kp_str_eq(word, kp_str_c(words[i].word))) {
			kp_buf_addz(out, words[i].json);
			return ended(l);
		}
	}
	if (l->is_key || !put_number(word, out)) {
		kp_buf_addc(out, '"');
		kp_literal_escape(word, out);
		kp_buf_addc(out, '"');
	}
	return ended(l);
}

static enum kp_literal_result end_string(struct kp_literal *l, struct kp_buf *out)
{
	if (l->high) { /* a first half without its second */
		kp_buf_lit(out, "\\ufffd");
		l->high = 0;
	}
	kp_buf_addc(out, '"');
	return ended(l);
}

static enum kp_literal_result begin_value(struct kp_literal *l, char c, struct kp_buf *out)
{
	l->is_key = in_dict(l) && l->state == VALUE && !l->left;
	if (c == '[' || c == '{' || (c == '(' && !l->marks)) {
		if (l->is_key || l->depth == KP_LITERAL_DEPTH) {
			return KP_LITERAL_BAD;
		}
		begin(l, out);
		kp_buf_addc(out, c == '{' ? '{' : '[');
		l->open[l->depth++] = c;
		l->left = 0;
		l->state = VALUE;
		return KP_LITERAL_MORE;
	}
	l->left = 0;
	if ((c == '"' || c == '\'') && !l->marks) {
		begin(l, out);
		kp_buf_addc(out, '"');
		l->quote = c;
		l->triple = false;
		l->state = QUOTED_1;
		return KP_LITERAL_MORE;
	}
	if (strchr(",:=", c) ||
		(!l->marks && !(kp_is_digit(c) || strchr("+-.", c) || c == '_' ||
				      (kp_lower(c) >= 'a' && kp_lower(c) <= 'z')))) {
		return KP_LITERAL_BAD;
	}
	l->word[0] = c;
	l->n_word = 1;
	l->state = WORD;
	return KP_LITERAL_MORE;
}

static void put_code(struct kp_literal *l, struct kp_buf *out)
{
	char utf8[4];
	uint32_t c = l->code;
	if (l->high && c >= 0xdc00 && c < 0xe000) {
		c = 0x10000 + ((l->high - 0xd800) << 10) + (c - 0xdc00);
		l->high = 0;
	} else if (l->high) {
		kp_buf_lit(out, "\\ufffd");
		l->high = 0;
	}
	if (c >= 0xd800 && c < 0xdc00) {
		l->high = c;
		return;
	}
	if (c > 0x10ffff || (c >= 0xdc00 && c < 0xe000)) {
		c = 0xfffd;
	}
	kp_literal_escape(kp_str_n(utf8, kp_utf8_encode(c, utf8)), out);
}

static enum kp_literal_result escape(struct kp_literal *l, char c, struct kp_buf *out)
{
	static const char from[] = "abtnvfr\\'\"", to[] = "\a\b\t\n\v\f\r\\'\"";
	const char *at = c ? strchr(from, c) : NULL;
	l->state = STRING;
	l->code = 0;
	if (l->high && c != 'u' && c != 'U') {
		kp_buf_lit(out, "\\ufffd");
		l->high = 0;
	}
	if (c == 'x' || c == 'u' || c == 'U') {
		l->digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
		l->state = CODE;
	} else if (at) {
		put_byte(out, to[at - from]);
	} else if (c == '/') {
		put_byte(out, c); /* JSON's */
	} else if (c != '\n') {   /* which continues the line */
		put_byte(out, '\\');
		put_byte(out, c);
	}
	return KP_LITERAL_MORE;
}

static enum kp_literal_result code(struct kp_literal *l, char c, struct kp_buf *out)
{
	char lower = kp_lower(c);
	if (!kp_is_digit(c) && !(lower >= 'a' && lower <= 'f')) {
		return KP_LITERAL_BAD;
	}
	l->code = l->code << 4 | (uint32_t)(kp_is_digit(c) ? c - '0' : lower - 'a' + 10);
	if (--l->digits == 0) {
		put_code(l, out);
		l->state = STRING;
	}
	return KP_LITERAL_MORE;
}

static enum kp_literal_result structure(struct kp_literal *l, char c, struct kp_buf *out)
{
	if (is_space(c)) {
		return KP_LITERAL_MORE;
	}
	switch (l->state) {
	case VALUE:
		return l->depth && !l->left && strchr("]})", c) ? close_container(l, c, out)
								: begin_value(l, c, out);
	case COLON:
		if (c != ':' && !(l->marks && c == '=')) {
			return KP_LITERAL_BAD;
		}
		kp_buf_addc(out, ':');
		l->state = VALUE;
		l->left = 1; /* a value, not a key */
		return KP_LITERAL_MORE;
	default:
		if (l->depth == 0) {
			return KP_LITERAL_PAST;
		}
		if (c == ',') {
			l->state = VALUE;
			return KP_LITERAL_MORE;
		}
		return close_container(l, c, out);
	}
}

static enum kp_literal_result in_word(struct kp_literal *l, char c, struct kp_buf *out)
{
	bool delimiter = strchr(l->marks ? ",]}" : ",]}):=", c) || (l->is_key && c == ':') ||
			 (!l->marks && is_space(c));
	if (!delimiter) {
		if (l->n_word == KP_LITERAL_WORD) {
			return KP_LITERAL_BAD;
		}
		l->word[l->n_word++] = c;
		return KP_LITERAL_MORE;
	}
	return end_word(l, out) == KP_LITERAL_END ? KP_LITERAL_PAST : structure(l, c, out);
}

static enum kp_literal_result in_string(struct kp_literal *l, char c, struct kp_buf *out)
{
	switch (l->state) {
	case QUOTED_1:
		l->state = c == l->quote ? QUOTED_2 : STRING;
		return l->state == QUOTED_2 ? KP_LITERAL_MORE : in_string(l, c, out);
	case QUOTED_2:
		if (c != l->quote) {
			return end_string(l, out) == KP_LITERAL_END ? KP_LITERAL_PAST
								    : structure(l, c, out);
		}
		l->triple = true;
		l->state = STRING;
		return KP_LITERAL_MORE;
	case ENDING:
		if (c == l->quote) {
			return ++l->n_quotes == 3 ? end_string(l, out) : KP_LITERAL_MORE;
		}
		while (l->n_quotes) {
			put_byte(out, l->quote);
			l->n_quotes--;
		}
		l->state = STRING;
		return in_string(l, c, out);
	case QUOTE_END: /* 'it's': models, and templates, forget to escape */
		if (c == ',' || c == ':' || c == ']' || c == '}' || c == ')' || is_space(c)) {
			return end_string(l, out) == KP_LITERAL_END ? KP_LITERAL_PAST
								    : structure(l, c, out);
		}
		put_byte(out, l->quote);
		l->state = STRING;
		return in_string(l, c, out);
	case ESCAPE:
		return escape(l, c, out);
	case CODE:
		return code(l, c, out);
	default:
		break;
	}
	if (l->state == STRING && c == '\\') {
		l->state = ESCAPE;
		return KP_LITERAL_MORE;
	}
	if (l->high) {
		kp_buf_lit(out, "\\ufffd");
		l->high = 0;
	}
	if (l->state == STRING && c == l->quote) {
		if (!l->triple) {
			l->state = QUOTE_END;
			return KP_LITERAL_MORE;
		}
		l->n_quotes = 1;
		l->state = ENDING;
		return KP_LITERAL_MORE;
	}
	put_byte(out, c);
	return KP_LITERAL_MORE;
}

enum kp_literal_result kp_literal_byte(struct kp_literal *l, char c, struct kp_buf *out)
{
	if (c == '\0' && l->state < QUOTED_1) {
		return KP_LITERAL_BAD;
	}
	return l->state < WORD    ? structure(l, c, out)
	       : l->state == WORD ? in_word(l, c, out)
				  : in_string(l, c, out);
}

enum kp_literal_result kp_literal_mark(struct kp_literal *l, struct kp_buf *out)
{
	if (l->state == MARKED) {
		return end_string(l, out);
	}
	if (l->state != VALUE) {
		return KP_LITERAL_BAD;
	}
	l->is_key = in_dict(l) && !l->left;
	l->left = 0;
	begin(l, out);
	kp_buf_addc(out, '"');
	l->state = MARKED;
	return KP_LITERAL_MORE;
}

bool kp_literal_convert(kp_str text, struct kp_buf *out)
{
	size_t before = out->n;
	struct kp_literal l;
	kp_literal_init(&l, false);
	for (size_t i = 0; i < text.n; i++) {
		enum kp_literal_result r = kp_literal_byte(&l, text.p[i], out);
		if (r == KP_LITERAL_END && i + 1 == text.n) {
			return true;
		}
		if (r != KP_LITERAL_MORE) {
			break;
		}
	}
	out->n = before;
	return false;
}

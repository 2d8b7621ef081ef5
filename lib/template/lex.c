/* DESIGN: source to tokens, as jinja2's lexer does it with trim_blocks and lstrip_blocks on and line statements off. Outside of tags
   it looks for the next "{%", "{{" or "{#"; inside it reads Python-like tokens until the matching end, which only counts while no
   bracket is open. The source is normalized (one "\n" per line end, one trailing newline dropped) before; tokens borrow from it,
   unescaped strings lie in the arena. All tokens of a template are made at once: at most one per source byte, into the caller's
   scratch arena. Errors name the line. */
#include "template/parse.h"
#include "template/ucd.h"

#include "base/utf8.h"

#include <stdarg.h>

struct lexer {
	struct kp_arena *a;
	kp_str s;
	size_t pos;
	uint32_t line;
	bool line_starting; /* the last match ended with a newline */
	struct kp_token *out;
	uint32_t n, cap;
	char brackets[KP_TPL_MAX_NESTING];
	uint32_t n_brackets;
	struct kp_err *err;
};

int kp_tpl_compile_fail(struct kp_err *err, uint32_t line, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	kp_err_setv(err, KP_INVALID_ARGUMENT, fmt, ap);
	va_end(ap);
	return kp_err_wrap(err, "compile template: line %u", line);
}

int kp_tpl_compile_full(struct kp_err *err, uint32_t line)
{
	return kp_tpl_compile_fail(
		err, line, "it takes more memory to compile than it may (docs/templates.md)");
}

const char *kp_tok_name(enum kp_tok t)
{
	static const char *const names[] = { "end of template", "text", "begin of print statement",
		"end of print statement", "begin of statement block", "end of statement block",
		"name", "string", "integer", "float", "+", "-", "/", "//", "*", "%", "**", "~", "[",
		"]", "(", ")", "{", "}", "==", "!=", ">", ">=", "<", "<=", "=", ".", ":", "|", ",",
		";" };
	return names[t];
}

static int emit(struct lexer *x, enum kp_tok type, uint32_t line, kp_str s)
{
	if (x->n == x->cap) {
		uint32_t cap = x->cap ? x->cap * 2 : 256;
		struct kp_token *p =
			kp_arena_grow(x->a, x->out, x->cap * sizeof(*p), cap * sizeof(*p));
		if (!p) {
			return kp_tpl_compile_full(x->err, line);
		}
		x->out = p;
		x->cap = cap;
	}
	x->out[x->n++] = (struct kp_token){ .type = type, .line = line, .s = s };
	return 0;
}

static uint32_t count_lines(kp_str s)
{
	uint32_t n = 0;
	for (const char *p = s.p; s.n && (p = memchr(p, '\n', (size_t)(s.p + s.n - p))) != NULL;
		p++) {
		n++;
	}
	return n;
}

/* End of the white space that starts at pos, as Python's \s. */
static size_t skip_space(kp_str s, size_t pos)
{
	uint32_t cp;
	size_t len;
	while (pos < s.n && (len = kp_utf8_decode(s.p + pos, s.n - pos, &cp)) && kp_ucd_space(cp)) {
		pos += len;
	}
	return pos;
}

static kp_str rstrip(kp_str s)
{
	uint32_t cp;
	size_t len;
	while (s.n && (len = kp_utf8_decode_last(s.p, s.n, &cp)) && kp_ucd_space(cp)) {
		s.n -= len;
	}
	return s;
}

static bool at(const struct lexer *x, size_t pos, const char *z)
{
	size_t n = strlen(z);
	return pos + n <= x->s.n && memcmp(x->s.p + pos, z, n) == 0;
}

/* Moves to `to` over matched text. */
static void advance(struct lexer *x, size_t to)
{
	x->line += count_lines(kp_str_sub(x->s, x->pos, to));
	x->line_starting = to > x->pos ? x->s.p[to - 1] == '\n' : x->line_starting;
	x->pos = to;
}

/* Length of an end tag at pos ("%}" with its sign, white space and the newline that trim_blocks eats), 0 when there is none.
   close: '%', '}' or '#'. */
static size_t end_tag(const struct lexer *x, size_t pos, char close)
{
	char tag[3] = { close, '}', 0 };
	if (at(x, pos, tag)) {
		size_t end = pos + 2;
		return end + (close != '}' && at(x, end, "\n") ? 1 : 0) - pos;
	}
	if (at(x, pos, "-") && at(x, pos + 1, tag)) {
		return skip_space(x->s, pos + 3) - pos;
	}
	if (close != '}' && at(x, pos, "+") && at(x, pos + 1, tag)) {
		return 3;
	}
	return 0;
}

/* Text in front of a tag: strips what the tag's sign or lstrip_blocks says, emits the rest. */
static int emit_data(struct lexer *x, kp_str text, char sign, bool variable)
{
	kp_str keep = text;
	if (sign == '-') {
		keep = rstrip(text);
	} else if (sign != '+' && !variable) {
		size_t line = (size_t)(kp_str_rfind_char(text, '\n') + 1);
		if ((line > 0 || x->line_starting) && line < text.n &&
			skip_space(text, line) == text.n) {
			keep.n = line;
		}
	}
	return keep.n ? emit(x, KP_TOK_DATA, x->line, keep) : 0;
}

/* "{% raw %}" at pos: the position behind it, or 0. */
static size_t raw_begin(const struct lexer *x, size_t pos)
{
	pos += 2;
	pos += at(x, pos, "-") || at(x, pos, "+");
	pos = skip_space(x->s, pos);
	if (!at(x, pos, "raw")) {
		return 0;
	}
	pos = skip_space(x->s, pos + 3);
	if (at(x, pos, "%}")) {
		return pos + 2;
	}
	return at(x, pos, "-%}") ? skip_space(x->s, pos + 3) : 0;
}

static int lex_raw(struct lexer *x)
{
	for (size_t i = x->pos; i + 1 < x->s.n; i++) {
		if (!at(x, i, "{%")) {
			continue;
		}
		size_t p = i + 2;
		char sign = at(x, p, "-") || at(x, p, "+") ? x->s.p[p++] : 0;
		p = skip_space(x->s, p);
		if (!at(x, p, "endraw")) {
			continue;
		}
		p = skip_space(x->s, p + 6);
		size_t end = end_tag(x, p, '%');
		if (end) {
			if (emit_data(x, kp_str_sub(x->s, x->pos, i), sign, false)) {
				return -1;
			}
			advance(x, p + end);
			return 0;
		}
	}
	/* jinja2 misses the end only where something is left to read. */
	return x->pos == x->s.n ? 0
				: kp_tpl_compile_fail(x->err, x->line, "raw block without an end");
}

static int lex_comment(struct lexer *x)
{
	for (size_t i = x->pos; i + 1 < x->s.n; i++) {
		/* The sign belongs to the end tag, so it is found one byte earlier. */
		size_t n = x->s.p[i] == '#' || x->s.p[i] == '-' || x->s.p[i] == '+'
				   ? end_tag(x, i, '#')
				   : 0;
		if (n) {
			advance(x, i + n);
			return 0;
		}
	}
	return x->pos == x->s.n ? 0
				: kp_tpl_compile_fail(x->err, x->line, "comment without an end");
}

/* --- string literals ------------------------------------------------------------------------------------------------------ */

static int escape_number(struct lexer *x, kp_str s, size_t *pos, unsigned digits, unsigned base,
	bool exact, struct kp_buf *out)
{
	uint32_t v = 0;
	unsigned n = 0;
	while (n < digits && *pos < s.n) {
		char c = kp_lower(s.p[*pos]);
		unsigned d = kp_is_digit(c)         ? (unsigned)(c - '0')
			     : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
						    : 99;
		if (d >= base) {
			break;
		}
		v = v * base + d;
		n++;
		++*pos;
	}
	if (exact && n != digits) {
		return kp_tpl_compile_fail(
			x->err, x->line, "truncated \\x or \\u escape in a string");
	}
	if (v > 0x10ffff || (v >= 0xd800 && v < 0xe000)) {
		return kp_tpl_compile_fail(
			x->err, x->line, "escape of no character (U+%04X) in a string", v);
	}
	kp_utf8_add(out, v);
	return 0;
}

/* One escape; *pos stands behind the backslash. */
static int unescape_one(struct lexer *x, kp_str s, size_t *pos, struct kp_buf *out)
{
	static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
	char c = s.p[*pos];
	const char *hit = c ? strchr(from, c) : NULL;
	if (hit) {
		kp_buf_addc(out, to[hit - from]);
		++*pos;
		return 0;
	}
	if (c == '\n') { /* a line continued */
		++*pos;
		return 0;
	}
	if (c >= '0' && c <= '7') {
		return escape_number(x, s, pos, 3, 8, false, out);
	}
	if (c == 'x' || c == 'u' || c == 'U') {
		++*pos;
		return escape_number(x, s, pos, c == 'x' ? 2 : c == 'u' ? 4 : 8, 16, true, out);
	}
	if (c == 'N') {
		return kp_tpl_compile_fail(x->err, x->line, "\\N{...} escapes are not supported");
	}
	kp_buf_addc(out, '\\');
	if ((unsigned char)c < 0x80) {
		kp_buf_addc(out, c);
		++*pos;
		return 0;
	}
	/* jinja2 spells such a character as an escape first, whose own backslash the one before it then takes. */
	uint32_t cp = 0;
	*pos += kp_utf8_decode(s.p + *pos, s.n - *pos, &cp);
	kp_buf_printf(out, cp < 0x100 ? "x%02x" : cp < 0x10000 ? "u%04x" : "U%08x", cp);
	return 0;
}

static int lex_string(struct lexer *x)
{
	char quote = x->s.p[x->pos];
	size_t end = x->pos + 1;
	bool escapes = false;
	while (end < x->s.n && x->s.p[end] != quote) {
		escapes |= x->s.p[end] == '\\';
		end += x->s.p[end] == '\\' ? 2 : 1;
	}
	if (end >= x->s.n) {
		return kp_tpl_compile_fail(x->err, x->line, "string without an end");
	}
	kp_str raw = kp_str_sub(x->s, x->pos + 1, end), s = raw;
	if (escapes) {
		KP_AUTO(buf) struct kp_buf b;
		kp_buf_init(&b, raw.n * 5 + 16);
		for (size_t i = 0; i < raw.n;) {
			if (raw.p[i] != '\\') {
				kp_buf_addc(&b, raw.p[i++]);
				continue;
			}
			i++;
			if (unescape_one(x, raw, &i, &b)) {
				return -1;
			}
		}
		if (kp_buf_finish(&b, "string", x->err) ||
			kp_arena_dup(x->a, kp_buf_str(&b), &s, x->err)) {
			return kp_tpl_compile_full(x->err, x->line);
		}
	}
	if (emit(x, KP_TOK_STRING, x->line, s)) {
		return -1;
	}
	advance(x, end + 1);
	return 0;
}

/* --- numbers, names, operators -------------------------------------------------------------------------------------------- */

static bool digit_of(char c, unsigned base)
{
	c = kp_lower(c);
	return base == 16 ? kp_is_digit(c) || (c >= 'a' && c <= 'f')
			  : c >= '0' && c < (char)('0' + base);
}

/* End of digits with single underscores between them, from pos; pos when there are none. lead: an underscore may come first. */
static size_t digits(const struct lexer *x, size_t pos, unsigned base, bool lead)
{
	size_t end = pos;
	for (;;) {
		size_t p = end + ((end > pos || lead) && at(x, end, "_"));
		if (p >= x->s.n || !digit_of(x->s.p[p], base)) {
			return end;
		}
		end = p + 1;
	}
}

/* End of a float at pos, 0 when there is none. */
static size_t float_end(const struct lexer *x, size_t pos)
{
	if (pos > 0 && x->s.p[pos - 1] == '.') {
		return 0;
	}
	size_t end = digits(x, pos, 10, false), mark = 0;
	if (end == pos) {
		return 0;
	}
	if (at(x, end, ".") && digits(x, end + 1, 10, false) > end + 1) {
		mark = end = digits(x, end + 1, 10, false);
	}
	if (at(x, end, "e") || at(x, end, "E")) {
		size_t e = end + 1;
		e += at(x, e, "+") || at(x, e, "-");
		if (digits(x, e, 10, false) > e) {
			return digits(x, e, 10, false);
		}
	}
	return mark;
}

static size_t int_end(const struct lexer *x, size_t pos)
{
	if (x->s.p[pos] != '0') {
		return digits(x, pos, 10, false);
	}
	char c = pos + 1 < x->s.n ? kp_lower(x->s.p[pos + 1]) : 0;
	unsigned base = c == 'b' ? 2 : c == 'o' ? 8 : c == 'x' ? 16 : 0;
	if (base && digits(x, pos + 2, base, true) > pos + 2) {
		return digits(x, pos + 2, base, true);
	}
	size_t end = pos + 1;
	while (at(x, end, "0") || at(x, end, "_0")) {
		end += at(x, end, "_") ? 2 : 1;
	}
	return end;
}

static int lex_number(struct lexer *x)
{
	size_t end = float_end(x, x->pos);
	enum kp_tok type = end ? KP_TOK_FLOAT : KP_TOK_INT;
	end = end ? end : int_end(x, x->pos);
	kp_str s = kp_str_sub(x->s, x->pos, end);
	if (kp_str_find_char(s, '_') >= 0) {
		char *p = kp_arena_alloc(x->a, s.n);
		if (!p) {
			return kp_tpl_compile_full(x->err, x->line);
		}
		size_t n = 0;
		for (size_t i = 0; i < s.n; i++) {
			if (s.p[i] != '_') {
				p[n++] = s.p[i];
			}
		}
		s = kp_str_n(p, n);
	}
	x->line_starting = false;
	x->pos = end;
	return emit(x, type, x->line, s);
}

static bool name_char(uint32_t cp, bool first)
{
	if (cp < 0x80) {
		return cp == '_' || (kp_lower((char)cp) >= 'a' && kp_lower((char)cp) <= 'z') ||
		       (!first && cp >= '0' && cp <= '9');
	}
	return kp_ucd_is(cp, first ? KP_UCD_XID_START : KP_UCD_XID_CONTINUE);
}

static int lex_name(struct lexer *x)
{
	size_t end = x->pos, len;
	uint32_t cp;
	while (end < x->s.n && (len = kp_utf8_decode(x->s.p + end, x->s.n - end, &cp)) &&
		name_char(cp, end == x->pos)) {
		end += len;
	}
	if (end == x->pos) {
		len = kp_utf8_decode(x->s.p + end, x->s.n - end, &cp);
		return kp_tpl_compile_fail(
			x->err, x->line, "unexpected character `%.*s`", (int)len, x->s.p + end);
	}
	kp_str s = kp_str_sub(x->s, x->pos, end);
	x->line_starting = false;
	x->pos = end;
	return emit(x, KP_TOK_NAME, x->line, s);
}

static int bracket(struct lexer *x, char c)
{
	if (c == '(' || c == '[' || c == '{') {
		if (x->n_brackets == KP_TPL_MAX_NESTING) {
			return kp_tpl_compile_fail(
				x->err, x->line, "nesting deeper than %d", KP_TPL_MAX_NESTING);
		}
		x->brackets[x->n_brackets++] = c == '(' ? ')' : c == '[' ? ']' : '}';
	} else if (c == ')' || c == ']' || c == '}') {
		if (!x->n_brackets) {
			return kp_tpl_compile_fail(x->err, x->line, "unexpected '%c'", c);
		}
		char want = x->brackets[--x->n_brackets];
		if (want != c) {
			return kp_tpl_compile_fail(
				x->err, x->line, "unexpected '%c', expected '%c'", c, want);
		}
	}
	return 0;
}

/* 1 an operator, 0 none here, -1 error. */
static int lex_operator(struct lexer *x)
{
	enum kp_tok best = KP_TOK_EOF;
	size_t n = 0;
	for (enum kp_tok t = KP_TOK_ADD; t <= KP_TOK_SEMICOLON; t++) {
		const char *z = kp_tok_name(t);
		if (strlen(z) > n && at(x, x->pos, z)) {
			best = t;
			n = strlen(z);
		}
	}
	if (!n) {
		return 0;
	}
	if (n == 1 && bracket(x, x->s.p[x->pos])) {
		return -1;
	}
	x->pos += n;
	x->line_starting = false;
	return emit(x, best, x->line, KP_STR_NULL) ? -1 : 1;
}

/* The inside of "{{ }}" (close '}') or "{% %}" (close '%'). */
static int lex_tag(struct lexer *x, char close)
{
	for (;;) {
		size_t n = x->n_brackets ? 0 : end_tag(x, x->pos, close);
		if (n) {
			if (emit(x, close == '}' ? KP_TOK_VAR_END : KP_TOK_BLOCK_END, x->line,
				    KP_STR_NULL)) {
				return -1;
			}
			advance(x, x->pos + n);
			return 0;
		}
		size_t space = skip_space(x->s, x->pos);
		if (space > x->pos) {
			advance(x, space);
			continue;
		}
		if (x->pos >= x->s.n) {
			return 0; /* the parser says what is missing */
		}
		char c = x->s.p[x->pos];
		int r = kp_is_digit(c)          ? lex_number(x)
			: c == '\'' || c == '"' ? lex_string(x)
						: lex_operator(x);
		if (r < 0 || (r == 0 && !kp_is_digit(c) && c != '\'' && c != '"' && lex_name(x))) {
			return -1;
		}
	}
}

/* Text up to the next tag, and the tag. */
static int lex_root(struct lexer *x)
{
	size_t i = x->pos;
	const char *p = NULL;
	while (i + 1 < x->s.n && (p = memchr(x->s.p + i, '{', x->s.n - 1 - i)) != NULL) {
		i = (size_t)(p - x->s.p);
		if (p[1] == '%' || p[1] == '{' || p[1] == '#') {
			break;
		}
		p = NULL;
		i++;
	}
	if (!p || i + 1 >= x->s.n) {
		kp_str rest = kp_str_skip(x->s, x->pos);
		x->pos = x->s.n;
		return emit(x, KP_TOK_DATA, x->line, rest);
	}
	char kind = p[1];
	size_t raw = kind == '%' ? raw_begin(x, i) : 0;
	char sign = at(x, i + 2, "-") || at(x, i + 2, "+") ? p[2] : 0;
	if (emit_data(x, kp_str_sub(x->s, x->pos, i), sign, kind == '{')) {
		return -1;
	}
	advance(x, raw ? raw : i + (sign ? 3 : 2));
	if (raw) {
		return lex_raw(x);
	}
	if (kind == '#') {
		return lex_comment(x);
	}
	if (emit(x, kind == '{' ? KP_TOK_VAR_BEGIN : KP_TOK_BLOCK_BEGIN, x->line, KP_STR_NULL)) {
		return -1;
	}
	return lex_tag(x, kind == '{' ? '}' : '%');
}

int kp_tpl_lex(struct kp_arena *a, kp_str source, struct kp_token **ret, uint32_t *ret_n,
	struct kp_err *err)
{
	struct lexer x = { .a = a, .s = source, .line = 1, .line_starting = true, .err = err };
	while (x.pos < x.s.n) {
		if (lex_root(&x)) {
			return -1;
		}
	}
	if (emit(&x, KP_TOK_EOF, x.line, KP_STR_NULL)) {
		return -1;
	}
	*ret = x.out;
	*ret_n = x.n;
	return 0;
}

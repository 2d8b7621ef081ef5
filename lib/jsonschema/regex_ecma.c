/* DESIGN: one pass over the pattern, each construct written anew for PCRE2; nothing of the pattern is passed on but ASCII letters and digits, and constructs that
   mean the same in both. Groups are only counted: PCRE2 checks that they pair. ECMA-262, "Patterns"; its annex B where that is unambiguous. */
#include "base/utf8.h"
#include "jsonschema/regex.h"

#define JS_SPACE \
	"\\x{9}-\\x{D}\\x{20}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}\\x{FEFF}"
/* the rest */
#define JS_NO_SPACE                                                                                                            \
	"\\x{0}-\\x{8}\\x{E}-\\x{1F}\\x{21}-\\x{9F}\\x{A1}-\\x{167F}\\x{1681}-\\x{1FFF}\\x{200B}-\\x{2027}\\x{202A}-\\x{202E}" \
	"\\x{2030}-\\x{205E}\\x{2060}-\\x{2FFF}\\x{3001}-\\x{D7FF}\\x{E000}-\\x{FEFE}\\x{FF00}-\\x{10FFFF}"

struct ecma {
	kp_str s;
	size_t at;
	struct kp_buf *out;
	struct kp_err *err;
	bool quantifiable; /* what was written last may be repeated */
};

static int refuse(struct ecma *e, const char *what)
{
	return kp_err_set(e->err, KP_INVALID_ARGUMENT,
		"compile pattern `%" KP_FMT "`: %s at byte %zu", KP_ARG(kp_str_sub(e->s, 0, 120)),
		what, e->at);
}

static char peek(const struct ecma *e, size_t k)
{
	return e->at + k < e->s.n ? e->s.p[e->at + k] : '\0';
}

static void put(struct ecma *e, uint32_t cp)
{
	bool plain = cp < 0x80 && (kp_is_digit((char)cp) ||
					  (kp_lower((char)cp) >= 'a' && kp_lower((char)cp) <= 'z'));
	if (plain) {
		kp_buf_addc(e->out, (char)cp);
	} else {
		kp_buf_printf(e->out, "\\x{%X}", cp);
	}
}

/* n hexadecimal digits at `at`. */
static bool hex_at(const struct ecma *e, size_t at, size_t n, uint32_t *ret)
{
	uint64_t v;
	if (at + n > e->s.n || !kp_str_hex64(kp_str_sub(e->s, at, at + n), &v)) {
		return false;
	}
	*ret = (uint32_t)v;
	return true;
}

/* \uHHHH, a pair of them, \u{H...}; e->at behind the u. */
static int unicode_escape(struct ecma *e, uint32_t *ret)
{
	uint32_t cp, low;
	if (peek(e, 0) == '{') {
		size_t n = 1;
		while (n < 10 && peek(e, n) && peek(e, n) != '}') {
			n++;
		}
		if (peek(e, n) != '}' || n < 2 || !hex_at(e, e->at + 1, n - 1, &cp) ||
			cp > 0x10ffff) {
			return refuse(e, "an invalid \\u{} escape");
		}
		e->at += n + 1;
	} else if (hex_at(e, e->at, 4, &cp)) {
		e->at += 4;
		if (cp >= 0xd800 && cp < 0xdc00 && peek(e, 0) == '\\' && peek(e, 1) == 'u' &&
			hex_at(e, e->at + 2, 4, &low) && low >= 0xdc00 && low < 0xe000) {
			cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
			e->at += 6;
		}
	} else {
		return refuse(e, "an invalid \\u escape");
	}
	if (cp >= 0xd800 && cp < 0xe000) {
		return refuse(e, "half of a surrogate pair");
	}
	*ret = cp;
	return 0;
}

/* The character that an escape stands for; e->at at the character behind the backslash. */
static int character_escape(struct ecma *e, bool in_class, uint32_t *ret)
{
	static const char letters[] = "tnvfr", values[] = "\t\n\v\f\r";
	char c = peek(e, 0);
	const char *known = c ? strchr(letters, c) : NULL;
	if (known) {
		*ret = (uint8_t)values[known - letters];
	} else if (c == 'b' && in_class) {
		*ret = '\b';
	} else if (c == '0' && !kp_is_digit(peek(e, 1))) {
		*ret = 0;
	} else if (c == 'c' && kp_lower(peek(e, 1)) >= 'a' && kp_lower(peek(e, 1)) <= 'z') {
		e->at++;
		*ret = (uint8_t)peek(e, 0) % 32;
	} else if (c == 'x') {
		if (!hex_at(e, e->at + 1, 2, ret)) {
			return refuse(e, "an invalid \\x escape");
		}
		e->at += 2;
	} else if (c == 'u') {
		e->at++;
		return unicode_escape(e, ret);
	} else if (c && (strchr("^$\\.*+?()[]{}|/", c) || strchr("-\"'!#%&,:;<=>@`~ _", c))) {
		*ret = (uint8_t)c;
	} else {
		return refuse(e, "an escape that ECMA-262 does not have");
	}
	e->at++;
	return 0;
}

/* A property's name as PCRE2 writes it, into buf; false: none of ours. */
static bool property_name(kp_str name, char buf[64])
{
	static const char *const long_names[][2] = { { "Letter", "L" }, { "Cased_Letter", "L&" },
		{ "LC", "L&" }, { "Uppercase_Letter", "Lu" }, { "Lowercase_Letter", "Ll" },
		{ "Titlecase_Letter", "Lt" }, { "Modifier_Letter", "Lm" }, { "Other_Letter", "Lo" },
		{ "Mark", "M" }, { "Combining_Mark", "M" }, { "Nonspacing_Mark", "Mn" },
		{ "Spacing_Mark", "Mc" }, { "Enclosing_Mark", "Me" }, { "Number", "N" },
		{ "Decimal_Number", "Nd" }, { "digit", "Nd" }, { "Letter_Number", "Nl" },
		{ "Other_Number", "No" }, { "Punctuation", "P" }, { "punct", "P" },
		{ "Connector_Punctuation", "Pc" }, { "Dash_Punctuation", "Pd" },
		{ "Open_Punctuation", "Ps" }, { "Close_Punctuation", "Pe" },
		{ "Initial_Punctuation", "Pi" }, { "Final_Punctuation", "Pf" },
		{ "Other_Punctuation", "Po" }, { "Symbol", "S" }, { "Math_Symbol", "Sm" },
		{ "Currency_Symbol", "Sc" }, { "Modifier_Symbol", "Sk" }, { "Other_Symbol", "So" },
		{ "Separator", "Z" }, { "Space_Separator", "Zs" }, { "Line_Separator", "Zl" },
		{ "Paragraph_Separator", "Zp" }, { "Other", "C" }, { "Control", "Cc" },
		{ "cntrl", "Cc" }, { "Format", "Cf" }, { "Private_Use", "Co" },
		{ "Unassigned", "Cn" } };
	static const char *const before[] = {
		"General_Category=", "gc=", "Script=", "sc=", "Script_Extensions=", "scx="
	};
	static const char *const instead[] = { "", "", "sc:", "sc:", "scx:", "scx:" };
	const char *prefix = "";
	for (size_t i = 0; i < KP_LEN(before); i++) {
		if (kp_str_starts(name, kp_str_c(before[i]))) {
			name = kp_str_skip(name, strlen(before[i]));
			prefix = instead[i];
			break;
		}
	}
	for (size_t i = 0; i < KP_LEN(long_names) && !*prefix; i++) {
		if (kp_str_eq(name, kp_str_c(long_names[i][0]))) {
			name = kp_str_c(long_names[i][1]);
			break;
		}
	}
	for (size_t i = 0; i < name.n; i++) {
		char c = name.p[i];
		if (!(kp_lower(c) >= 'a' && kp_lower(c) <= 'z') && !kp_is_digit(c) && c != '_' &&
			c != '&') {
			return false;
		}
	}
	size_t k = strlen(prefix);
	if (name.n == 0 || k + name.n >= 64) {
		return false;
	}
	memcpy(buf, prefix, k);
	memcpy(buf + k, name.p, name.n);
	buf[k + name.n] = '\0';
	return true;
}

/* A class of characters, written for inside or outside of brackets: 1 done, 0 not one, -1. e->at behind the backslash. */
static int class_escape(struct ecma *e, bool in_class)
{
	char c = peek(e, 0), name[64];
	if (c == 's' || c == 'S') {
		e->at++;
		kp_buf_printf(e->out, in_class ? "%s" : "[%s]", c == 's' ? JS_SPACE : JS_NO_SPACE);
		return 1;
	}
	if (c && strchr("dDwW", c)) {
		e->at++;
		kp_buf_printf(e->out, "\\%c", c);
		return 1;
	}
	if (c != 'p' && c != 'P') {
		return 0;
	}
	ptrdiff_t end = kp_str_find_char(kp_str_skip(e->s, e->at), '}');
	if (peek(e, 1) != '{' || end < 0 ||
		!property_name(kp_str_sub(e->s, e->at + 2, e->at + (size_t)end), name)) {
		return refuse(e, "an unknown property");
	}
	e->at += (size_t)end + 1;
	kp_buf_printf(e->out, "\\%c{%s}", c, name);
	return 1;
}

/* One member of [...] that is not a range: 1 a character in *ret, 0 a class that was written, -1. */
static int class_atom(struct ecma *e, uint32_t *ret)
{
	if (peek(e, 0) != '\\') {
		size_t n = kp_utf8_decode(e->s.p + e->at, e->s.n - e->at, ret);
		if (n == 0) {
			return refuse(e, "invalid UTF-8");
		}
		e->at += n;
		return 1;
	}
	e->at++;
	int r = class_escape(e, true);
	if (r) {
		return r > 0 ? 0 : -1;
	}
	return character_escape(e, true, ret) ? -1 : 1;
}

static int bracket(struct ecma *e)
{
	e->at++;
	kp_buf_addc(e->out, '[');
	if (peek(e, 0) == '^') {
		kp_buf_addc(e->out, '^');
		e->at++;
	}
	while (e->at < e->s.n && peek(e, 0) != ']') {
		uint32_t from = 0, to = 0;
		int r = class_atom(e, &from);
		if (r < 0) {
			return -1;
		}
		if (r == 0) {
			continue;
		}
		put(e, from);
		if (peek(e, 0) == '-' && peek(e, 1) && peek(e, 1) != ']') {
			e->at++;
			if (class_atom(e, &to) != 1 || to < from) {
				return e->err->code ? -1 : refuse(e, "an invalid range");
			}
			kp_buf_addc(e->out, '-');
			put(e, to);
		}
	}
	if (e->at >= e->s.n) {
		return refuse(e, "`[` without `]`");
	}
	e->at++;
	kp_buf_addc(e->out, ']');
	e->quantifiable = true;
	return 0;
}

/* (?<name> and \k<name>: copies the name and the > behind it. */
static int group_name(struct ecma *e)
{
	size_t n = 0;
	for (char c = peek(e, 0);
		c == '_' || kp_is_digit(c) || (kp_lower(c) >= 'a' && kp_lower(c) <= 'z');
		c = peek(e, n)) {
		kp_buf_addc(e->out, c);
		n++;
	}
	if (n == 0 || n > 32 || peek(e, n) != '>') {
		return refuse(e, "an invalid name of a group");
	}
	kp_buf_addc(e->out, '>');
	e->at += n + 1;
	return 0;
}

static int open_group(struct ecma *e)
{
	static const char *const same[] = { "(?:", "(?=", "(?!", "(?<=", "(?<!" };
	e->quantifiable = false;
	for (size_t i = 0; i < KP_LEN(same); i++) {
		if (kp_str_starts(kp_str_skip(e->s, e->at), kp_str_c(same[i]))) {
			kp_buf_addz(e->out, same[i]);
			e->at += strlen(same[i]);
			return 0;
		}
	}
	if (peek(e, 1) != '?') {
		e->at++;
		if (peek(e, 0) == '*') {
			return refuse(e, "nothing to repeat");
		}
		kp_buf_addc(e->out, '(');
		return 0;
	}
	if (peek(e, 2) != '<') {
		return refuse(e, "a group that ECMA-262 does not have");
	}
	e->at += 3;
	kp_buf_lit(e->out, "(?<");
	return group_name(e);
}

static int escape(struct ecma *e)
{
	uint32_t cp;
	e->at++;
	char c = peek(e, 0);
	e->quantifiable = true;
	if (c == 'b' || c == 'B') {
		e->at++;
		e->quantifiable = false;
		kp_buf_printf(e->out, "\\%c", c);
		return 0;
	}
	if (c == 'k') {
		if (peek(e, 1) != '<') {
			return refuse(e, "an invalid reference");
		}
		e->at += 2;
		kp_buf_lit(e->out, "\\k<");
		return group_name(e);
	}
	if (c >= '1' && c <= '9') {
		size_t n = 1;
		while (n < 4 && kp_is_digit(peek(e, n))) {
			n++;
		}
		kp_buf_printf(
			e->out, "\\g{%" KP_FMT "}", KP_ARG(kp_str_sub(e->s, e->at, e->at + n)));
		e->at += n;
		return 0;
	}
	int r = class_escape(e, false);
	if (r) {
		return r > 0 ? 0 : -1;
	}
	if (character_escape(e, false, &cp)) {
		return -1;
	}
	put(e, cp);
	return 0;
}

/* {n}, {n,}, {n,m}: its length; 0: the brace stands for itself. */
static size_t braces(const struct ecma *e)
{
	size_t n = 1, first;
	while (kp_is_digit(peek(e, n))) {
		n++;
	}
	first = n;
	if (first > 1 && peek(e, n) == ',') {
		n++;
		while (kp_is_digit(peek(e, n))) {
			n++;
		}
	}
	return first > 1 && peek(e, n) == '}' ? n + 1 : 0;
}

/* 1: a quantifier was written, 0: there is none. */
static int quantifier(struct ecma *e)
{
	char c = peek(e, 0);
	size_t n = c == '{' ? braces(e) : c == '*' || c == '+' || c == '?';
	if (n == 0) {
		return 0;
	}
	if (!e->quantifiable) {
		return refuse(e, "nothing to repeat");
	}
	kp_buf_add(e->out, kp_str_sub(e->s, e->at, e->at + n));
	e->at += n;
	if (peek(e, 0) == '?') {
		kp_buf_addc(e->out, '?');
		e->at++;
	}
	e->quantifiable = false;
	return 1;
}

static int term(struct ecma *e)
{
	uint32_t cp;
	char c = peek(e, 0);
	if (c == '(') {
		return open_group(e);
	}
	if (c == '[') {
		return bracket(e);
	}
	if (c == '\\') {
		return escape(e);
	}
	if (c == ')' || c == '|' || c == '^' || c == '$') {
		e->at++;
		kp_buf_addc(e->out, c);
		e->quantifiable = c == ')';
		return 0;
	}
	e->quantifiable = true;
	if (c == '.') {
		e->at++;
		kp_buf_lit(e->out, "[^\\x{A}\\x{D}\\x{2028}\\x{2029}]");
		return 0;
	}
	size_t n = kp_utf8_decode(e->s.p + e->at, e->s.n - e->at, &cp);
	if (n == 0) {
		return refuse(e, "invalid UTF-8");
	}
	e->at += n;
	put(e, cp);
	return 0;
}

int kp_js_regex_translate(kp_str pattern, struct kp_buf *out, struct kp_err *err)
{
	struct ecma e = { .s = pattern, .out = out, .err = err };
	err->code = KP_OK;
	while (e.at < pattern.n) {
		int r = quantifier(&e);
		if (r < 0 || (r == 0 && term(&e))) {
			return -1;
		}
	}
	return 0;
}

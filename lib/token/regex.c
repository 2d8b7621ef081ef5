/* DESIGN: Oniguruma's syntax (Ruby) to PCRE2's, one pass, recursive descent over groups and classes. A class becomes a sorted list of code point
   ranges computed from our tables (16 bytes of text per range), so `\p{L}`, `\s`, `\w` and `\d` mean Unicode 16 whatever PCRE2 knows. What is
   read the same way on both sides is copied; everything else is refused:
   - `^`, `$` match at line ends in Ruby: written as look-arounds; `.` is any character but `\n`;
   - quantifiers behind quantifiers mean other things (`a{2}+` is greedy in Ruby): refused but for `?`, `+` behind `?`, `*`, `+`;
   - ignoring case: ASCII only (and what folds to it), and no two letters beside each other that a single character folds to. */
#include "token/find.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "base/vec.h"
#include "token/unicode.h"

#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 64, CP_MAX = 0x10ffff };

struct range {
	uint32_t from, to;
};
struct set {
	KP_VEC(struct range)
	r;
};

struct translator {
	kp_str s;
	size_t at;
	struct kp_buf *out;
	struct kp_err *err;
	unsigned depth;
	enum kp_classes classes;
	bool fold;       /* ignoring case */
	uint32_t letter; /* the literal letter before, while ignoring case; 0: none */
};

static int translate_group(struct translator *t);

static int refuse(struct translator *t, const char *why)
{
	return kp_err_set(t->err, KP_UNIMPLEMENTED, "compile regex `%" KP_FMT "`: %s at byte %zu",
		KP_ARG(kp_str_sub(t->s, 0, 120)), why, t->at);
}

static bool more(const struct translator *t)
{
	return t->at < t->s.n;
}

static char peek(const struct translator *t, size_t ahead)
{
	return t->at + ahead < t->s.n ? t->s.p[t->at + ahead] : 0;
}

static uint32_t next_cp(struct translator *t)
{
	size_t len;
	uint32_t cp = kp_uc_get((const uint8_t *)t->s.p + t->at, &len);
	t->at += len;
	return cp;
}

/* --- sets of characters ------------------------------------------------------------------------------------------- */

static void set_add(struct set *s, uint32_t from, uint32_t to)
{
	kp_vec_push(&s->r, ((struct range){ from, to }));
}

static int by_from(const void *a, const void *b)
{
	const struct range *x = a, *y = b;
	return (x->from > y->from) - (x->from < y->from);
}

/* Sorts and joins. */
static void set_tidy(struct set *s)
{
	if (s->r.n == 0) {
		return;
	}
	qsort(s->r.p, s->r.n, sizeof(*s->r.p), by_from);
	size_t n = 1;
	for (size_t i = 1; i < s->r.n; i++) {
		struct range *last = &s->r.p[n - 1];
		if (s->r.p[i].from <= last->to + 1) {
			last->to = KP_MAX(last->to, s->r.p[i].to);
		} else {
			s->r.p[n++] = s->r.p[i];
		}
	}
	s->r.n = n;
}

static void set_invert(struct set *s)
{
	struct set out = { { 0 } };
	uint32_t next = 0;
	set_tidy(s);
	for (size_t i = 0; i < s->r.n; i++) {
		if (s->r.p[i].from > next) {
			set_add(&out, next, s->r.p[i].from - 1);
		}
		next = s->r.p[i].to + 1;
	}
	if (next <= CP_MAX) {
		set_add(&out, next, CP_MAX);
	}
	kp_vec_fini(&s->r);
	*s = out;
}

static void set_join(struct set *s, const struct set *with)
{
	for (size_t i = 0; i < with->r.n; i++) {
		set_add(s, with->r.p[i].from, with->r.p[i].to);
	}
}

static void set_intersect(struct set *s, struct set *with)
{
	struct set out = { { 0 } };
	set_tidy(s);
	set_tidy(with);
	for (size_t i = 0, k = 0; i < s->r.n && k < with->r.n;) {
		struct range a = s->r.p[i], b = with->r.p[k];
		if (KP_MAX(a.from, b.from) <= KP_MIN(a.to, b.to)) {
			set_add(&out, KP_MAX(a.from, b.from), KP_MIN(a.to, b.to));
		}
		if (a.to < b.to) {
			i++;
		} else {
			k++;
		}
	}
	kp_vec_fini(&s->r);
	*s = out;
}

static void set_extend(struct set *s, uint32_t from, uint32_t to)
{
	struct range *last = s->r.n ? kp_vec_last(&s->r) : NULL;
	if (last && last->to + 1 == from) {
		last->to = to;
	} else {
		set_add(s, from, to);
	}
}

/* The characters whose kp_uc_more has a category of the mask, or one of the bits. Most blocks of 128 are one of a few that are all the same. */
static void set_add_more(struct set *s, uint32_t categories, uint32_t bits)
{
	enum { BLOCK = 128 };
	int same = -1; /* index of the last block, if it is all the same */
	bool all = false;
	for (uint32_t at = 0; at <= CP_MAX; at += BLOCK) {
		if (kp_uc_more_index[at / BLOCK] == same) {
			if (all) {
				set_extend(s, at, at + BLOCK - 1);
			}
			continue;
		}
		uint32_t first = kp_uc_more(at);
		same = kp_uc_more_index[at / BLOCK];
		for (uint32_t cp = at; cp < at + BLOCK; cp++) {
			uint32_t m = kp_uc_more(cp);
			all = (categories >> kp_uc_category(m) & 1) || (m & bits);
			same = m == first ? same : -1;
			if (all) {
				set_extend(s, cp, cp);
			}
		}
	}
}

/* Takes out what llama.cpp's tables do not have. */
static void set_remove_new(struct set *s)
{
	enum { BLOCK = 128 };
	struct set old = { { 0 } };
	int same = -1; /* the block looked at last; most are one of a few */
	bool some = false;
	for (uint32_t at = 0; at <= CP_MAX; at += BLOCK) {
		if (kp_uc_class_index[at / BLOCK] != same) {
			same = kp_uc_class_index[at / BLOCK];
			some = false;
			for (uint32_t cp = at; cp < at + BLOCK && !some; cp++) {
				some = kp_uc_class(cp) & KP_UC_NEW;
			}
		}
		for (uint32_t cp = at; some && cp < at + BLOCK; cp++) {
			if (!(kp_uc_class(cp) & KP_UC_NEW)) {
				set_extend(&old, cp, cp);
			}
		}
		if (!some) {
			set_extend(&old, at, at + BLOCK - 1);
		}
	}
	set_intersect(s, &old);
	kp_vec_fini(&old.r);
}

/* Index into KP_UC_CATEGORIES of one category that has the class. Of others with it the patterns of tokenizers 1.0 that are known never
   tell it apart. */
static unsigned category_of(uint16_t class)
{
	enum { LU = 0, LL = 1, LO = 4, MN = 5, NO = 10, PO = 17, CN = 27 };
	if (class & KP_UC_L) {
		return class & KP_UC_UPPER ? LU : class & KP_UC_LOWER ? LL : LO;
	}
	return class & KP_UC_M ? MN : class & KP_UC_N ? NO : class & KP_UC_PS ? PO : CN;
}

/* What tokenizers 1.0 has in other categories. */
static void set_make_young(struct set *s, uint32_t categories)
{
	struct set other = { { 0 } };
	for (size_t i = 0; i < kp_uc_young_class_n; i++) {
		set_add(&other, kp_uc_young_class[i].from, kp_uc_young_class[i].to);
	}
	set_invert(&other);
	set_intersect(s, &other);
	kp_vec_fini(&other.r);
	for (size_t i = 0; i < kp_uc_young_class_n; i++) {
		const struct kp_uc_young *y = &kp_uc_young_class[i];
		if (categories >> category_of(y->value) & 1) {
			set_add(s, y->from, y->to);
		}
	}
}

static void set_add_space(struct set *s)
{
	for (uint32_t cp = 0; cp <= 0x3000; cp++) {
		if (kp_uc_class(cp) & KP_UC_SPACE) {
			set_add(s, cp, cp);
		}
	}
}

static int add_property(struct translator *t, struct set *s, kp_str name)
{
	kp_str all = KP_S(KP_UC_CATEGORIES);
	uint32_t mask = 0;
	for (size_t i = 0; i < all.n; i += 3) {
		bool same = name.n == 2 && memcmp(all.p + i, name.p, 2) == 0;
		bool major = name.n == 1 && all.p[i] == name.p[0];
		mask |= (uint32_t)(same || major) << i / 3;
	}
	if (kp_str_eq(name, KP_S("C"))) { /* surrogates never occur */
		mask &= ~(uint32_t)0 >> 3;
	}
	if (mask) {
		set_add_more(s, mask, 0);
		if (t->classes == KP_CLASSES_LLAMA) {
			set_remove_new(s);
		} else if (t->classes == KP_CLASSES_HF_1) {
			set_make_young(s, mask);
		}
		return 0;
	}
	for (size_t i = 0; i < kp_uc_scripts_n; i++) {
		if (kp_str_eq(name, kp_str_c(kp_uc_scripts[i].name))) {
			for (uint32_t k = 0; k < kp_uc_scripts[i].n; k++) {
				const uint32_t *r = kp_uc_script_ranges[kp_uc_scripts[i].at + k];
				set_add(s, r[0], r[1]);
			}
			return 0;
		}
	}
	return refuse(t, "unknown property");
}

/* \p{Name}, \p{^Name}, \P{Name}; t->at behind the p. */
static int property(struct translator *t, struct set *s, bool invert)
{
	ptrdiff_t end = kp_str_find_char(kp_str_skip(t->s, t->at), '}');
	if (peek(t, 0) != '{' || end < 2) {
		return refuse(t, "a property without braces");
	}
	kp_str name = kp_str_sub(t->s, t->at + 1, t->at + (size_t)end);
	if (name.p[0] == '^') {
		invert = !invert;
		name = kp_str_skip(name, 1);
	}
	struct set one = { { 0 } };
	int r = add_property(t, &one, name);
	if (r == 0) {
		t->at += (size_t)end + 1;
		if (invert) {
			set_invert(&one);
		}
		set_join(s, &one);
	}
	kp_vec_fini(&one.r);
	return r;
}

/* \s \S \w \W \d \D \h \H, t->at behind the letter; 1: it was one. Outside of brackets \w takes the six numbers of Latin-1 too. */
static int shorthand(struct set *s, char c, bool in_class)
{
	struct set one = { { 0 } };
	char lower = kp_lower(c);
	if (lower == 's') {
		set_add_space(&one);
	} else if (lower == 'w') {
		static const uint8_t latin1[] = { 0xb2, 0xb3, 0xb9, 0xbc, 0xbd, 0xbe };
		set_add_more(&one, 0, KP_UC_REGEX_WORD);
		for (size_t i = 0; !in_class && i < sizeof(latin1); i++) {
			set_add(&one, latin1[i], latin1[i]);
		}
	} else if (lower == 'd') {
		set_add_more(&one, 1U << 8, 0); /* Nd */
	} else if (lower == 'h') {
		set_add(&one, '0', '9');
		set_add(&one, 'A', 'F');
		set_add(&one, 'a', 'f');
	} else {
		return 0;
	}
	if (c != lower) {
		set_invert(&one);
	}
	set_join(s, &one);
	kp_vec_fini(&one.r);
	return 1;
}

/* The digits of \xHH, \x{H..}, \uHHHH; t->at behind the letter. */
static int hex(struct translator *t, char letter, uint32_t *ret)
{
	size_t n = 0, skip = 0;
	if (letter == 'x' && peek(t, 0) == '{') {
		t->at++;
		skip = 1;
		while (n < 8 && peek(t, n) && peek(t, n) != '}') {
			n++;
		}
	} else {
		n = letter == 'x' ? 2 : 4;
	}
	uint64_t v;
	if (t->at + n + skip > t->s.n || n == 0 || (skip && peek(t, n) != '}') ||
		!kp_str_hex64(kp_str_sub(t->s, t->at, t->at + n), &v) || v > CP_MAX ||
		(v >= 0xd800 && v < 0xe000) || (letter == 'x' && !skip && v > 0x7f)) {
		return refuse(t, "an escape");
	}
	t->at += n + skip;
	*ret = (uint32_t)v;
	return 0;
}

/* One escaped character; t->at behind the backslash. */
static int escaped(struct translator *t, bool in_class, uint32_t *ret)
{
	static const char letters[] = "ntrfvae", values[] = "\n\t\r\f\v\a\x1b";
	if (!more(t)) {
		return refuse(t, "a backslash at the end");
	}
	uint32_t c = next_cp(t);
	const char *known = c && c < 0x80 ? strchr(letters, (int)c) : NULL;
	if (known) {
		*ret = (uint8_t)values[known - letters];
		return 0;
	}
	if (c == 'b' && in_class) {
		*ret = '\b';
		return 0;
	}
	if (c == 'x' || c == 'u') {
		return hex(t, (char)c, ret);
	}
	bool alnum = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
	if (c < 0x80 && alnum) {
		return refuse(t, "an escape");
	}
	*ret = c;
	return 0;
}

static int parse_class(struct translator *t, struct set *ret);

/* One item of a class that is no range: a set, or (ret_cp) one character. 1: a character, 0: a set, -1. */
static int class_item(struct translator *t, struct set *s, uint32_t *ret_cp)
{
	if (peek(t, 0) == '[' && peek(t, 1) == ':') {
		return refuse(t, "a POSIX bracket");
	}
	if (peek(t, 0) == '[') {
		struct set inner = { { 0 } };
		int r = parse_class(t, &inner);
		set_join(s, &inner);
		kp_vec_fini(&inner.r);
		return r;
	}
	if (peek(t, 0) != '\\') {
		*ret_cp = next_cp(t);
		return 1;
	}
	t->at++;
	char c = peek(t, 0);
	if (c == 'p' || c == 'P') {
		t->at++;
		return property(t, s, c == 'P');
	}
	if (shorthand(s, c, true)) {
		t->at++;
		return 0;
	}
	return escaped(t, true, ret_cp) ? -1 : 1;
}

static int class_items(struct translator *t, struct set *s)
{
	for (bool first = true; more(t); first = false) {
		if (peek(t, 0) == ']' && !first) {
			return 0;
		}
		if (peek(t, 0) == '&' && peek(t, 1) == '&') {
			return 0;
		}
		uint32_t from, to;
		int r = class_item(t, s, &from);
		if (r < 0) {
			return -1;
		}
		bool range = peek(t, 0) == '-' && peek(t, 1) && peek(t, 1) != ']';
		if (r == 0) {
			if (range) {
				return refuse(t, "a range that begins with a set");
			}
			continue;
		}
		to = from;
		if (range) {
			t->at++;
			if (class_item(t, s, &to) != 1 || to < from) {
				return t->err->code ? -1 : refuse(t, "a range");
			}
		}
		set_add(s, from, to);
	}
	return refuse(t, "a class without end");
}

/* [...] with ^, ranges, nested classes and &&. */
static int parse_class(struct translator *t, struct set *ret)
{
	if (++t->depth > DEPTH_MAX) {
		return refuse(t, "too many levels");
	}
	t->at++;
	bool invert = peek(t, 0) == '^', first = true;
	t->at += invert;
	int r;
	for (;;) {
		struct set part = { { 0 } };
		r = class_items(t, &part);
		if (r == 0 && !first) {
			set_intersect(ret, &part);
		} else {
			set_join(ret, &part);
		}
		kp_vec_fini(&part.r);
		first = false;
		if (r || peek(t, 0) == ']') {
			break;
		}
		t->at += 2;
	}
	t->depth--;
	if (r == 0) {
		t->at++;
		if (invert) {
			set_invert(ret);
		}
	}
	return r;
}

static void put_cp(struct kp_buf *out, uint32_t cp)
{
	kp_buf_printf(out, "\\x{%X}", cp);
}

static void put_range(struct kp_buf *out, uint32_t from, uint32_t to)
{
	put_cp(out, from);
	if (to != from) {
		kp_buf_addc(out, '-');
		put_cp(out, to);
	}
}

static int put_set(struct translator *t, struct set *s)
{
	set_tidy(s);
	if (t->fold) {
		for (size_t i = 0; i < s->r.n; i++) {
			/* Letters in a class ignore case too; only whole alphabets are the same either way. */
			if (s->r.p[i].from <= 'z' && s->r.p[i].to >= 'A') {
				return refuse(t, "a class while ignoring case");
			}
		}
	}
	if (s->r.n == 0) {
		kp_buf_lit(t->out, "(?!)");
		return 0;
	}
	kp_buf_addc(t->out, '[');
	for (size_t i = 0; i < s->r.n; i++) {
		/* Surrogates never occur, and PCRE2 takes them for an error. */
		uint32_t from = s->r.p[i].from, to = s->r.p[i].to;
		if (from < 0xd800) {
			put_range(t->out, from, KP_MIN(to, 0xd7ffU));
		}
		if (to > 0xdfff) {
			put_range(t->out, KP_MAX(from, 0xe000U), to);
		}
	}
	kp_buf_addc(t->out, ']');
	return 0;
}

/* --- the rest ---------------------------------------------------------------------------------------------------- */

static bool folds_together(uint32_t a, uint32_t b)
{
	static const char pairs[] = "ss ff fi fl st ";
	for (size_t i = 0; i + 2 < sizeof(pairs); i += 3) {
		if ((a | 32) == (uint8_t)pairs[i] && (b | 32) == (uint8_t)pairs[i + 1]) {
			return true;
		}
	}
	return false;
}

static int literal(struct translator *t, uint32_t cp)
{
	if (t->fold) {
		if (cp >= 0x80 || folds_together(t->letter, cp)) {
			return refuse(t, "these letters while ignoring case");
		}
		t->letter = cp;
	}
	if (cp < 0x80 && ((cp >= '0' && cp <= '9') || ((cp | 32) >= 'a' && (cp | 32) <= 'z'))) {
		kp_buf_addc(t->out, (char)cp);
	} else {
		put_cp(t->out, cp);
	}
	return 0;
}

static int escape(struct translator *t)
{
	t->at++;
	char c = peek(t, 0);
	struct set s = { { 0 } };
	int r = 0;
	if (c == 'p' || c == 'P') {
		t->at++;
		r = property(t, &s, c == 'P') || put_set(t, &s) ? -1 : 0;
	} else if (shorthand(&s, c, false)) {
		t->at++;
		r = put_set(t, &s);
	} else if (c == 'A' || c == 'z' || c == 'Z') {
		t->at++;
		kp_buf_printf(t->out, "\\%c", c);
	} else {
		uint32_t cp;
		r = escaped(t, false, &cp) || literal(t, cp) ? -1 : 0;
	}
	kp_vec_fini(&s.r);
	return r;
}

/* What stands behind `(`: writes the group's opening, moves on to its content. */
static int open_group(struct translator *t)
{
	static const char *const same[] = { "?:", "?=", "?!", "?<=", "?<!", "?>" };
	for (size_t i = 0; i < KP_LEN(same); i++) {
		if (kp_str_starts(kp_str_skip(t->s, t->at), kp_str_c(same[i]))) {
			kp_buf_addc(t->out, '(');
			kp_buf_addz(t->out, same[i]);
			t->at += strlen(same[i]);
			return 0;
		}
	}
	if (peek(t, 0) != '?') {
		kp_buf_lit(t->out, "(?:");
		return 0;
	}
	if (kp_str_starts(kp_str_skip(t->s, t->at), KP_S("?i:"))) {
		kp_buf_lit(t->out, "(?i:");
		t->at += 3;
		t->fold = true;
		t->letter = 0;
		return 0;
	}
	return refuse(t, "a group of this kind");
}

static int group(struct translator *t)
{
	bool fold = t->fold;
	t->at++;
	if (++t->depth > DEPTH_MAX) {
		return refuse(t, "too many levels");
	}
	if (open_group(t) || translate_group(t)) {
		return -1;
	}
	if (peek(t, 0) != ')') {
		return refuse(t, "a group without end");
	}
	t->at++;
	t->depth--;
	t->fold = fold;
	t->letter = 0;
	kp_buf_addc(t->out, ')');
	return 0;
}

/* {n}, {n,}, {,m}, {n,m}; 0 when there is none, so that the brace stands for itself. */
static size_t braces(const struct translator *t)
{
	size_t i = 1, digits = 0;
	for (; kp_is_digit(peek(t, i)); i++) {
		digits++;
	}
	if (peek(t, i) == ',') {
		for (i++; kp_is_digit(peek(t, i)); i++) {
			digits++;
		}
	}
	return digits && digits <= 8 && peek(t, i) == '}' ? i + 1 : 0;
}

static int quantifier(struct translator *t)
{
	char c = peek(t, 0);
	if (c == '{') {
		size_t n = braces(t);
		if (n == 0) {
			return 0;
		}
		kp_str q = kp_str_sub(t->s, t->at, t->at + n);
		if (q.p[1] == ',') {
			kp_buf_lit(t->out, "{0");
			q = kp_str_skip(q, 1);
		}
		kp_buf_add(t->out, q);
		t->at += n;
		if (peek(t, 0) == '?' && q.p[q.n - 2] != ',' && kp_str_find_char(q, ',') < 0) {
			return refuse(t, "a quantifier behind a quantifier");
		}
		if (peek(t, 0) == '?') {
			kp_buf_addc(t->out, '?');
			t->at++;
		}
	} else if (c == '*' || c == '+' || c == '?') {
		kp_buf_addc(t->out, c);
		t->at++;
		if (peek(t, 0) == '?' || peek(t, 0) == '+') {
			kp_buf_addc(t->out, peek(t, 0));
			t->at++;
		}
	} else {
		return 0;
	}
	t->letter = 0;
	c = peek(t, 0);
	bool again = c == '*' || c == '+' || c == '?' || (c == '{' && braces(t));
	return again ? refuse(t, "a quantifier behind a quantifier") : 0;
}

static int atom(struct translator *t)
{
	char c = peek(t, 0);
	struct set s = { { 0 } };
	int r = 0;
	switch (c) {
	case '(':
		return group(t);
	case '[':
		r = parse_class(t, &s) || put_set(t, &s) ? -1 : 0;
		kp_vec_fini(&s.r);
		t->letter = 0;
		return r;
	case '\\':
		return escape(t);
	case '.':
		kp_buf_lit(t->out, "[^\\x{A}]");
		break;
	case '^':
		kp_buf_lit(t->out, "(?:\\A|(?<=\\x{A})(?!\\z))");
		break;
	case '$':
		kp_buf_lit(t->out, "(?=\\x{A}|\\z)");
		break;
	case '*':
	case '+':
	case '?':
		return refuse(t, "a quantifier behind nothing");
	default:
		return literal(t, next_cp(t));
	}
	t->at++;
	t->letter = 0;
	return 0;
}

/* Alternatives up to `)` or the end. */
static int translate_group(struct translator *t)
{
	while (more(t) && peek(t, 0) != ')') {
		if (peek(t, 0) == '|') {
			kp_buf_addc(t->out, '|');
			t->letter = 0;
			t->at++;
		} else if (atom(t) || quantifier(t)) {
			return -1;
		}
	}
	return 0;
}

int kp_regex_translate(
	kp_str pattern, enum kp_classes classes, struct kp_buf *out, struct kp_err *err)
{
	struct translator t = { .s = pattern, .out = out, .err = err, .classes = classes };
	if (translate_group(&t)) {
		return -1;
	}
	return more(&t) ? refuse(&t, "a parenthesis that closes nothing") : 0;
}

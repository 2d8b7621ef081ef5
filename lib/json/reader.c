/* DESIGN: a cursor over the text, and a stack with one entry per open container that says whether a
   value was read in it and at which key or index the cursor is; the stack is the error path. A
   string is scanned once; without escapes it is returned as a slice of the input, with escapes it
   is written into the arena (unescape.h). UTF-8 is checked only in strings that have a byte above
   0x7f. Recursion: kp_json_skip only, bounded by KP_JSON_MAX_DEPTH. */
#include "json/reader.h"
#include "base/utf8.h"
#include "json/scan.h"
#include "json/unescape.h"

#include <math.h>
#include <stdio.h>

const char *kp_json_type_name(enum kp_json_type t)
{
	switch (t) {
	case KP_JSON_NULL:
		return "null";
	case KP_JSON_FALSE:
	case KP_JSON_TRUE:
		return "a boolean";
	case KP_JSON_NUMBER:
		return "a number";
	case KP_JSON_STRING:
		return "a string";
	case KP_JSON_ARRAY:
		return "an array";
	case KP_JSON_OBJECT:
		return "an object";
	case KP_JSON_NONE:
		break;
	}
	return "nothing";
}

void kp_json_init(struct kp_json *j, kp_str text, struct kp_arena *arena)
{
	j->p = j->start = text.p ? text.p : "";
	j->end = j->start + text.n;
	j->arena = arena;
	j->depth =
		0; /* the stack is written before it is read: no need to clear 4 KiB per request */
}

void kp_json_where(const struct kp_json *j, char *buf, size_t n)
{
	size_t at = 0;
	buf[0] = '\0';
	for (uint32_t i = 0; i < j->depth && at + 1 < n; i++) {
		int k;
		if (!j->is_object[i]) {
			k = j->first[i] ? 0 : snprintf(buf + at, n - at, "[%u]", j->path[i].index);
		} else if (!j->path[i].key.p) {
			k = 0;
		} else {
			k = snprintf(buf + at, n - at, "%s%" KP_FMT, at ? "." : "",
				KP_ARG(j->path[i].key));
		}
		at += k < 0 ? 0 : (size_t)k;
	}
}

static int fail_at(struct kp_json *j, struct kp_err *err, const char *at, const char *what)
{
	char where[KP_ERR_PARAM * 2];
	kp_json_where(j, where, sizeof(where));
	if (where[0]) {
		return kp_err_param(err, where, "parse JSON: %s at byte %zu (in `%s`)", what,
			(size_t)(at - j->start), where);
	}
	return kp_err_set(err, KP_INVALID_ARGUMENT, "parse JSON: %s at byte %zu", what,
		(size_t)(at - j->start));
}

static int syntax(struct kp_json *j, struct kp_err *err, const char *expected)
{
	char what[96];
	if (j->p >= j->end) {
		snprintf(what, sizeof(what), "the text ends, expected %s,", expected);
	} else if ((unsigned char)*j->p < 0x20 || (unsigned char)*j->p >= 0x7f) {
		snprintf(what, sizeof(what), "expected %s, got byte 0x%02x", expected,
			(unsigned char)*j->p);
	} else {
		snprintf(what, sizeof(what), "expected %s, got `%c`", expected, *j->p);
	}
	return fail_at(j, err, j->p, what);
}

int kp_json_fail(struct kp_json *j, struct kp_err *err, const char *fmt, ...)
{
	char where[KP_ERR_PARAM * 2];
	va_list ap;
	va_start(ap, fmt);
	kp_err_setv(err, KP_INVALID_ARGUMENT, fmt, ap);
	va_end(ap);
	kp_json_where(j, where, sizeof(where));
	if (where[0]) {
		char msg[KP_ERR_MSG];
		memcpy(msg, err->msg, sizeof(msg));
		return kp_err_param(err, where, "`%s`: %s", where, msg);
	}
	return -1;
}

void kp_json_reopen_array(struct kp_json *j, const char *at, uint32_t depth, bool is_first)
{
	KP_BUG_ON(depth == 0 || depth > KP_JSON_MAX_DEPTH);
	for (uint32_t i = 0; i < depth; i++) {
		j->first[i] = is_first && i == depth - 1;
		j->is_object[i] = i < depth - 1;
		j->path[i] = (struct kp_json_path){ .key = KP_STR_NULL, .index = 0 };
	}
	j->depth = depth;
	j->p = at;
}

static void skip_space(struct kp_json *j)
{
	while (j->p < j->end && (*j->p == ' ' || *j->p == '\n' || *j->p == '\t' || *j->p == '\r')) {
		j->p++;
	}
}

enum kp_json_type kp_json_peek(struct kp_json *j)
{
	skip_space(j);
	if (j->p >= j->end) {
		return KP_JSON_NONE;
	}
	switch (*j->p) {
	case '{':
		return KP_JSON_OBJECT;
	case '[':
		return KP_JSON_ARRAY;
	case '"':
		return KP_JSON_STRING;
	case 't':
		return KP_JSON_TRUE;
	case 'f':
		return KP_JSON_FALSE;
	case 'n':
		return KP_JSON_NULL;
	default:
		return *j->p == '-' || kp_is_digit(*j->p) ? KP_JSON_NUMBER : KP_JSON_NONE;
	}
}

static int wrong_type(struct kp_json *j, struct kp_err *err, const char *expected)
{
	enum kp_json_type t = kp_json_peek(j);
	if (t == KP_JSON_NONE) {
		return syntax(j, err, "a value");
	}
	return kp_json_fail(j, err, "expected %s, got %s", expected, kp_json_type_name(t));
}

static int open_container(struct kp_json *j, bool is_object, struct kp_err *err)
{
	if (j->depth == KP_JSON_MAX_DEPTH) {
		return fail_at(j, err, j->p, "nested more than 128 deep");
	}
	j->p++;
	j->first[j->depth] = true;
	j->is_object[j->depth] = is_object;
	j->path[j->depth] = (struct kp_json_path){ .key = KP_STR_NULL, .index = 0 };
	j->depth++;
	return 0;
}

int kp_json_object(struct kp_json *j, struct kp_err *err)
{
	if (kp_json_peek(j) != KP_JSON_OBJECT) {
		return wrong_type(j, err, "an object");
	}
	return open_container(j, true, err);
}

int kp_json_body(struct kp_json *j, struct kp_err *err)
{
	enum kp_json_type t = kp_json_peek(j);
	return t == KP_JSON_OBJECT || t == KP_JSON_NONE
		       ? kp_json_object(j, err)
		       : kp_err_set(err, KP_INVALID_ARGUMENT, "`body`: expected an object, got %s",
				 kp_json_type_name(t));
}

int kp_json_array(struct kp_json *j, struct kp_err *err)
{
	if (kp_json_peek(j) != KP_JSON_ARRAY) {
		return wrong_type(j, err, "an array");
	}
	return open_container(j, false, err);
}

/* After the opening or after a value: 1 something follows (the comma is read), 0 the container is
 * closed (and popped). */
static int next_in(struct kp_json *j, char close, struct kp_err *err)
{
	uint32_t top = j->depth - 1;
	skip_space(j);
	if (j->p < j->end && *j->p == close) {
		j->p++;
		j->depth--;
		return 0;
	}
	if (j->first[top]) {
		j->first[top] = false;
		return 1;
	}
	if (j->p >= j->end || *j->p != ',') {
		return syntax(j, err, close == '}' ? "`,` or `}`" : "`,` or `]`");
	}
	j->p++;
	skip_space(j);
	return 1;
}

static int check_utf8(struct kp_json *j, kp_str s, struct kp_err *err)
{
	size_t ok = kp_utf8_valid_prefix(s);
	return ok == s.n ? 0 : fail_at(j, err, s.p + ok, "invalid UTF-8");
}

/* The closing quote of a string whose first escape is at p: a quote behind an even number of
 * backslashes. NULL: there is none. */
static const char *find_quote(const char *p, const char *end)
{
	for (const char *q = p; (q = memchr(q, '"', (size_t)(end - q))); q++) {
		const char *back = q;
		while (back > p && back[-1] == '\\') {
			back--;
		}
		if ((q - back) % 2 == 0) {
			return q;
		}
	}
	return NULL;
}

/* Checks a literal's text from its first escape at p on, up to its closing quote at q; NULL: nothing is wrong, else the place of what is. */
static const char *skip_escaped(const char *p, const char *q, bool *non_ascii, const char **why)
{
	while (p < q) {
		char out[4];
		size_t n;
		if (*p != '\\') {
			*why = "control character in a string";
			return p;
		}
		const char *next = kp_json_escape(p + 1, q, out, &n, why);
		if (!next) {
			return p;
		}
		p = kp_json_scan(next, q, non_ascii);
	}
	return NULL;
}

static int text_ends(struct kp_json *j, struct kp_err *err)
{
	return fail_at(j, err, j->end, "the text ends inside a string");
}

/* Writes what the literal from `from` on stands for to `out`; j->p is its first escape. */
static enum kp_json_unescaped unescape_to(const struct kp_json *j, const char *from, char *out,
	size_t room, struct kp_json_unescape *u)
{
	size_t plain = (size_t)(j->p - from);
	if (room < plain + KP_JSON_UNESCAPE_SLACK) {
		return KP_JSON_NO_ROOM;
	}
	memcpy(out, from, plain);
	u->p = j->p;
	u->at = out + plain;
	u->limit = out + room;
	return kp_json_unescape_some(u);
}

/* The rest of a string literal whose first escape is at j->p; `from` is its first byte. What is free of the arena's chunk is mostly enough for it; so
   its end need not be looked for before. */
static int write_escaped(
	struct kp_json *j, const char *from, bool non_ascii, kp_str *ret, struct kp_err *err)
{
	struct kp_json_unescape u = { .end = j->end, .non_ascii = non_ascii };
	size_t room;
	char *out = kp_arena_room(j->arena, &room);
	enum kp_json_unescaped r = unescape_to(j, from, out, room, &u);
	const char *q = r == KP_JSON_AT_QUOTE ? u.p : find_quote(j->p, j->end);
	if (!q) {
		return text_ends(j, err);
	}
	if (r == KP_JSON_NO_ROOM) {
		room = (size_t)(q - from) + KP_JSON_UNESCAPE_SLACK;
		out = kp_arena_alloc(j->arena, room);
		if (!out) {
			return kp_arena_full(err, "JSON string");
		}
		r = unescape_to(j, from, out, room, &u);
	} else if (r == KP_JSON_AT_QUOTE) {
		kp_arena_take(j->arena, (size_t)(u.at - out));
	}
	if (r != KP_JSON_AT_QUOTE) {
		return fail_at(j, err, u.p, u.why);
	}
	if (u.non_ascii && check_utf8(j, kp_str_n(from, (size_t)(q - from)), err)) {
		return -1;
	}
	j->p = q + 1;
	*ret = kp_str_n(out, (size_t)(u.at - out));
	return 0;
}

/* The same, only checked. */
static int check_escaped(struct kp_json *j, const char *from, bool non_ascii, struct kp_err *err)
{
	const char *q = find_quote(j->p, j->end), *why = NULL;
	if (!q) {
		return text_ends(j, err);
	}
	const char *wrong = skip_escaped(j->p, q, &non_ascii, &why);
	if (wrong) {
		return fail_at(j, err, wrong, why);
	}
	if (non_ascii && check_utf8(j, kp_str_n(from, (size_t)(q - from)), err)) {
		return -1;
	}
	j->p = q + 1;
	return 0;
}

/* A string literal; ret NULL: only checked. */
static int read_string(struct kp_json *j, kp_str *ret, struct kp_err *err)
{
	const char *from = j->p + 1;
	bool non_ascii = false;
	j->p = kp_json_scan(from, j->end, &non_ascii);
	if (j->p >= j->end) {
		return text_ends(j, err);
	}
	if (*j->p == '\\') {
		return ret ? write_escaped(j, from, non_ascii, ret, err)
			   : check_escaped(j, from, non_ascii, err);
	}
	if (*j->p != '"') {
		return fail_at(j, err, j->p, "control character in a string");
	}
	kp_str s = { from, (size_t)(j->p - from) };
	if (non_ascii && check_utf8(j, s, err)) {
		return -1;
	}
	j->p++;
	if (ret) {
		*ret = s;
	}
	return 0;
}

static int next_member(struct kp_json *j, kp_str *ret_key, bool decode, struct kp_err *err)
{
	KP_BUG_ON(j->depth == 0 || !j->is_object[j->depth - 1]);
	int r = next_in(j, '}', err);
	if (r <= 0) {
		return r;
	}
	struct kp_json_path *at = &j->path[j->depth - 1];
	at->key = KP_STR_NULL;
	if (j->p >= j->end || *j->p != '"') {
		return syntax(j, err, "a member name in quotes");
	}
	const char *raw = j->p + 1;
	kp_str key = KP_STR_NULL;
	if (read_string(j, decode ? &key : NULL, err)) {
		return -1;
	}
	at->key = kp_str_n(raw, (size_t)(j->p - 1 - raw));
	skip_space(j);
	if (j->p >= j->end || *j->p != ':') {
		return syntax(j, err, "`:`");
	}
	j->p++;
	if (decode) {
		*ret_key = key;
	}
	return 1;
}

int kp_json_member(struct kp_json *j, kp_str *ret_key, struct kp_err *err)
{
	return next_member(j, ret_key, true, err);
}

int kp_json_element(struct kp_json *j, struct kp_err *err)
{
	KP_BUG_ON(j->depth == 0 || j->is_object[j->depth - 1]);
	bool was_first = j->first[j->depth - 1];
	int r = next_in(j, ']', err);
	if (r > 0 && !was_first) {
		j->path[j->depth - 1].index++;
	}
	return r;
}

int kp_json_string(struct kp_json *j, kp_str *ret, struct kp_err *err)
{
	if (kp_json_peek(j) != KP_JSON_STRING) {
		return wrong_type(j, err, "a string");
	}
	return read_string(j, ret, err);
}

static int literal(struct kp_json *j, kp_str word, struct kp_err *err)
{
	if (!kp_str_starts(kp_str_n(j->p, (size_t)(j->end - j->p)), word)) {
		return syntax(j, err, "a value");
	}
	j->p += word.n;
	return 0;
}

int kp_json_bool(struct kp_json *j, bool *ret, struct kp_err *err)
{
	enum kp_json_type t = kp_json_peek(j);
	if (t != KP_JSON_TRUE && t != KP_JSON_FALSE) {
		return wrong_type(j, err, "a boolean");
	}
	if (literal(j, t == KP_JSON_TRUE ? KP_S("true") : KP_S("false"), err)) {
		return -1;
	}
	*ret = t == KP_JSON_TRUE;
	return 0;
}

int kp_json_null(struct kp_json *j, struct kp_err *err)
{
	return kp_json_peek(j) == KP_JSON_NULL ? literal(j, KP_S("null"), err)
					       : wrong_type(j, err, "null");
}

int kp_json_try_null(struct kp_json *j, struct kp_err *err)
{
	if (kp_json_peek(j) != KP_JSON_NULL) {
		return 0;
	}
	return literal(j, KP_S("null"), err) ? -1 : 1;
}

static const char *skip_digits(const char *p, const char *end)
{
	while (p < end && kp_is_digit(*p)) {
		p++;
	}
	return p;
}

int kp_json_number(struct kp_json *j, kp_str *ret_text, struct kp_err *err)
{
	if (kp_json_peek(j) != KP_JSON_NUMBER) {
		return wrong_type(j, err, "a number");
	}
	const char *p = j->p, *from = p, *end = j->end, *d;
	p += *p == '-';
	d = skip_digits(p, end);
	if (d == p || (*p == '0' && d - p > 1)) {
		return fail_at(j, err, from, "malformed number");
	}
	p = d;
	if (p < end && *p == '.') {
		d = skip_digits(++p, end);
		if (d == p) {
			return fail_at(j, err, from, "malformed number");
		}
		p = d;
	}
	if (p < end && (*p == 'e' || *p == 'E')) {
		p++;
		p += p < end && (*p == '+' || *p == '-');
		d = skip_digits(p, end);
		if (d == p) {
			return fail_at(j, err, from, "malformed number");
		}
		p = d;
	}
	*ret_text = kp_str_n(from, (size_t)(p - from));
	j->p = p;
	return 0;
}

int kp_json_f64(struct kp_json *j, double min, double max, double *ret, struct kp_err *err)
{
	kp_str text;
	double v;
	if (kp_json_number(j, &text, err)) {
		return -1;
	}
	if (!kp_str_f64(text, &v)) {
		return kp_json_fail(j, err, "the number is too large");
	}
	if (!(v >= min && v <= max)) {
		return kp_json_fail(j, err, "must be between %g and %g, got %g", min, max, v);
	}
	*ret = v;
	return 0;
}

int kp_json_i64(struct kp_json *j, int64_t min, int64_t max, int64_t *ret, struct kp_err *err)
{
	kp_str text;
	int64_t v;
	if (kp_json_number(j, &text, err)) {
		return -1;
	}
	if (!kp_str_i64(text, INT64_MIN, INT64_MAX, &v)) {
		double f;
		if (!kp_str_f64(text, &f) || !(fabs(f) < 0x1p63)) {
			return kp_json_fail(j, err, "must be between %lld and %lld", (long long)min,
				(long long)max);
		}
		v = (int64_t)f;
		if ((double)v < f || (double)v > f) {
			return kp_json_fail(j, err, "expected an integer, got %" KP_FMT,
				KP_ARG(kp_str_sub(text, 0, 40)));
		}
	}
	if (v < min || v > max) {
		return kp_json_fail(j, err, "must be between %lld and %lld, got %lld",
			(long long)min, (long long)max, (long long)v);
	}
	*ret = v;
	return 0;
}

static int skip_value(struct kp_json *j, struct kp_err *err)
{
	int r;
	kp_str text;
	switch (kp_json_peek(j)) {
	case KP_JSON_OBJECT:
		if (open_container(j, true, err)) {
			return -1;
		}
		while ((r = next_member(j, NULL, false, err)) > 0) {
			if (skip_value(j, err)) {
				return -1;
			}
		}
		return r;
	case KP_JSON_ARRAY:
		if (open_container(j, false, err)) {
			return -1;
		}
		while ((r = kp_json_element(j, err)) > 0) {
			if (skip_value(j, err)) {
				return -1;
			}
		}
		return r;
	case KP_JSON_STRING:
		return read_string(j, NULL, err);
	case KP_JSON_NUMBER:
		return kp_json_number(j, &text, err);
	case KP_JSON_TRUE:
		return literal(j, KP_S("true"), err);
	case KP_JSON_FALSE:
		return literal(j, KP_S("false"), err);
	case KP_JSON_NULL:
		return literal(j, KP_S("null"), err);
	case KP_JSON_NONE:
		break;
	}
	return syntax(j, err, "a value");
}

int kp_json_skip(struct kp_json *j, kp_str *ret_raw, struct kp_err *err)
{
	skip_space(j);
	const char *from = j->p;
	if (skip_value(j, err)) {
		return -1;
	}
	if (ret_raw) {
		*ret_raw = kp_str_n(from, (size_t)(j->p - from));
	}
	return 0;
}

int kp_json_end(struct kp_json *j, struct kp_err *err)
{
	skip_space(j);
	return j->p == j->end ? 0 : syntax(j, err, "the end");
}

int kp_json_check(kp_str text, struct kp_arena *a, enum kp_json_type *ret, struct kp_err *err)
{
	struct kp_json j;
	kp_json_init(&j, text, a);
	enum kp_json_type type = kp_json_peek(&j);
	if (kp_json_skip(&j, NULL, err) || kp_json_end(&j, err)) {
		return -1;
	}
	if (ret) {
		*ret = type;
	}
	return 0;
}

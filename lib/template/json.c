/* DESIGN: the tojson filter as transformers defines it: Python's json.dumps(x, ensure_ascii=False, indent, separators, sort_keys), no HTML
   escaping. A string's quotes and escapes have the origin of the string, punctuation and indentation have the container's. JSON that came in is written
   from where it lies, numbers as Python would print what it read. Recursion stops at KP_TPL_MAX_VALUE_DEPTH. */
#include "template/funcs.h"
#include "template/interp.h"
#include "template/pynum.h"

#include "base/utf8.h"
#include "json/value.h"

#include <math.h>
#include <stdio.h>

enum { LINES = 256 };
struct dumper {
	struct kp_interp *I;
	struct kp_tpl_buf *b;
	bool ascii, sort, pretty;
	struct kp_tv indent; /* STR */
	struct kp_tv item_sep, key_sep;
	char lines[LINES]; /* a newline and the indentation of the deepest level that fits */
	size_t n_lines;
};

static int add(struct dumper *d, kp_str s, uint8_t origin)
{
	return kp_tpl_buf_add(d->I, d->b, s, origin);
}

/* Length of the escape of the character at p[0..n), 0 when it stays; *ret_len: its bytes. */
static int escape(const struct dumper *d, const char *p, size_t n, char out[16], size_t *ret_len)
{
	static const char from[] = "\"\\\n\r\t\b\f", to[] = "\"\\nrtbf";
	unsigned char c = (unsigned char)*p;
	*ret_len = 1;
	const char *hit = c ? strchr(from, c) : NULL;
	if (hit) {
		return snprintf(out, 16, "\\%c", to[hit - from]);
	}
	if (c < 0x20 || (d->ascii && c == 0x7f)) {
		return snprintf(out, 16, "\\u%04x", c);
	}
	if (c < 0x80 || !d->ascii) {
		return 0;
	}
	uint32_t cp = 0;
	*ret_len = kp_utf8_decode(p, n, &cp);
	if (cp < 0x10000) {
		return snprintf(out, 16, "\\u%04x", cp);
	}
	cp -= 0x10000;
	return snprintf(out, 16, "\\u%04x\\u%04x", 0xd800 + (cp >> 10), 0xdc00 + (cp & 0x3ff));
}

/* Bytes up to the next that needs a look: a quote, a backslash, a control character, or a byte that is not ASCII. */
static size_t plain(kp_str s, size_t i, bool ascii)
{
	const uint64_t ones = UINT64_C(0x0101010101010101), high = UINT64_C(0x8080808080808080);
	for (; !ascii && i + 8 <= s.n; i += 8) {
		uint64_t w;
		memcpy(&w, s.p + i, 8);
		uint64_t quote = w ^ ones * '"', back = w ^ ones * '\\';
		/* A byte is zero in x where (x - ones) & ~x has its top bit; below 0x20 where (w - 0x20..) has and w has not. */
		if (((((quote - ones) & ~quote) | ((back - ones) & ~back) |
			     ((w - ones * 0x20) & ~w)) |
			    w) &
			high) {
			break;
		}
	}
	while (i < s.n && s.p[i] != '"' && s.p[i] != '\\' && (unsigned char)s.p[i] >= 0x20 &&
		(unsigned char)s.p[i] < 0x7f) {
		i++;
	}
	return i;
}

/* A string of which nothing is escaped, with its quotes. */
static int dump_plain(struct dumper *d, const struct kp_tv *v)
{
	struct kp_tpl_buf *b = d->b;
	size_t n = (size_t)v->n + 2;
	if (KP_UNLIKELY(b->cap - b->n < n) && kp_tpl_buf_grow(d->I, b, n)) {
		return -1;
	}
	char *p = b->p + b->n;
	p[0] = '"';
	if (v->n) {
		memcpy(p + 1, v->s, v->n);
	}
	p[n - 1] = '"';
	return kp_tpl_buf_mark(d->I, b, n, v->origin);
}

static int dump_str(struct dumper *d, const struct kp_tv *v)
{
	kp_str s = kp_tv_bytes(v);
	size_t i = plain(s, 0, d->ascii);
	uint32_t done = 0, cursor = 0;
	char out[16];
	if (kp_tpl_charge(d->I, s.n / 32)) {
		return -1;
	}
	if (i == s.n && !(v->flags & KP_TVF_MIXED)) {
		return dump_plain(d, v);
	}
	if (add(d, KP_S("\""), v->origin)) {
		return -1;
	}
	for (; i < s.n; i = plain(s, i, d->ascii)) {
		size_t len;
		int n = escape(d, s.p + i, s.n - i, out, &len);
		if (n && (kp_tpl_buf_add_sub(d->I, d->b, v, done, (uint32_t)i) ||
				 kp_tpl_buf_add(d->I, d->b, kp_str_n(out, (size_t)n),
					 kp_tpl_str_origin(v, (uint32_t)i, &cursor)))) {
			return -1;
		}
		i += len;
		done = n ? (uint32_t)i : done;
	}
	return kp_tpl_buf_add_sub(d->I, d->b, v, done, v->n) || add(d, KP_S("\""), v->origin) ? -1
											      : 0;
}

static int dump_number(struct dumper *d, const struct kp_tv *v)
{
	char text[KP_PYNUM_TEXT];
	if (v->type != KP_TV_FLOAT) {
		return kp_tpl_buf_add(d->I, d->b, kp_pynum_digits(v, text), v->origin);
	}
	if (isnan(v->f) || isinf(v->f)) {
		return add(d,
			isnan(v->f) ? KP_S("NaN")
			: v->f < 0  ? KP_S("-Infinity")
				    : KP_S("Infinity"),
			v->origin);
	}
	return kp_tpl_buf_add(d->I, d->b, kp_str_n(text, kp_pynum_repr(v->f, text)), v->origin);
}

/* The separator has the container's origin unless it was given as an argument of its own. */
static int separator(struct dumper *d, const struct kp_tv *sep, uint8_t origin)
{
	struct kp_tv s = *sep;
	if (!(s.flags & KP_TVF_MIXED)) {
		s.origin = kp_origin_mix(s.origin, origin);
	}
	return kp_tpl_buf_add_str(d->I, d->b, &s);
}

/* The indentation, too, has the container's origin unless it was given as a text of several. */
static int newline(struct dumper *d, uint32_t level, uint8_t origin)
{
	if (!d->pretty) {
		return 0;
	}
	size_t n = 1 + (size_t)level * d->indent.n;
	origin = kp_origin_mix(d->indent.origin, origin);
	if (KP_LIKELY(n <= d->n_lines)) {
		return add(d, kp_str_n(d->lines, n), origin);
	}
	if (add(d, KP_S("\n"), origin)) {
		return -1;
	}
	for (uint32_t i = 0; i < level; i++) {
		if (separator(d, &d->indent, origin)) {
			return -1;
		}
	}
	return 0;
}

/* What newline takes its lines from; none when the indentation has origins of its own. */
static void write_lines(struct dumper *d)
{
	kp_str s = kp_tv_bytes(&d->indent);
	if (d->indent.flags & KP_TVF_MIXED && d->indent.buf->n_runs > 1) {
		return;
	}
	d->lines[0] = '\n';
	for (d->n_lines = 1; s.n && d->n_lines + s.n <= LINES; d->n_lines += s.n) {
		memcpy(d->lines + d->n_lines, s.p, s.n);
	}
}

static int dump(struct dumper *d, const struct kp_tv *v, uint32_t level);

static int dump_list(struct dumper *d, const struct kp_tv *v, uint32_t level)
{
	if (!v->n) {
		return add(d, KP_S("[]"), v->origin);
	}
	if (add(d, KP_S("["), v->origin)) {
		return -1;
	}
	for (uint32_t i = 0; i < v->n; i++) {
		struct kp_tv x = kp_tv_item(v, i);
		if ((i && separator(d, &d->item_sep, v->origin)) ||
			newline(d, level + 1, v->origin) || dump(d, &x, level + 1)) {
			return -1;
		}
	}
	return newline(d, level, v->origin) || add(d, KP_S("]"), v->origin) ? -1 : 0;
}

/* Keys that are no strings are written as JSON would write them, in quotes. */
static int dump_key(struct dumper *d, const struct kp_tv *k)
{
	switch (k->type) {
	case KP_TV_STR:
		return dump_str(d, k);
	case KP_TV_NONE:
	case KP_TV_BOOL:
	case KP_TV_INT:
	case KP_TV_BIG:
	case KP_TV_FLOAT:
		return add(d, KP_S("\""), k->origin) || dump(d, k, 0) ||
				       add(d, KP_S("\""), k->origin)
			       ? -1
			       : 0;
	default:
		return kp_tpl_fail(d->I, "keys must be str, int, float, bool or None, not %s",
			kp_tv_type_name(k));
	}
}

static int dump_dict(struct dumper *d, const struct kp_tv *v, uint32_t level)
{
	uint32_t n = kp_tv_dict_n(v);
	if (!n) {
		return add(d, KP_S("{}"), v->origin);
	}
	struct kp_tv *keys = NULL, *values = NULL, k, x;
	if (d->sort) {
		keys = kp_tpl_alloc(d->I, (size_t)n * 2, sizeof(*keys));
		if (!keys) {
			return -1;
		}
		values = keys + n;
		for (uint32_t i = 0; i < n; i++) {
			kp_tv_dict_at(v, i, &keys[i], &values[i]);
		}
		if (kp_tv_sort(d->I, keys, values, n, false)) {
			return -1;
		}
	}
	if (add(d, KP_S("{"), v->origin)) {
		return -1;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (keys) {
			k = keys[i];
			x = values[i];
		} else {
			kp_tv_dict_at(v, i, &k, &x);
		}
		if ((i && separator(d, &d->item_sep, v->origin)) ||
			newline(d, level + 1, v->origin) || dump_key(d, &k) ||
			separator(d, &d->key_sep, v->origin) || dump(d, &x, level + 1)) {
			return -1;
		}
	}
	return newline(d, level, v->origin) || add(d, KP_S("}"), v->origin) ? -1 : 0;
}

static int dump(struct dumper *d, const struct kp_tv *v, uint32_t level)
{
	if (level > KP_TPL_MAX_VALUE_DEPTH) {
		return kp_tpl_fail(
			d->I, "values nested deeper than %d in tojson", KP_TPL_MAX_VALUE_DEPTH);
	}
	if (kp_tpl_charge(d->I, 1)) {
		return -1;
	}
	switch (v->type) {
	case KP_TV_NONE:
		return add(d, KP_S("null"), v->origin);
	case KP_TV_BOOL:
		return add(d, v->i ? KP_S("true") : KP_S("false"), v->origin);
	case KP_TV_INT:
	case KP_TV_BIG:
	case KP_TV_FLOAT:
		return dump_number(d, v);
	case KP_TV_STR:
		return dump_str(d, v);
	case KP_TV_LIST:
	case KP_TV_TUPLE:
		return dump_list(d, v, level);
	case KP_TV_DICT:
		return dump_dict(d, v, level);
	default:
		return kp_tpl_fail(d->I, "Object of type %s is not JSON serializable",
			v->type == KP_TV_GEN ? v->gen->type_name : kp_tv_type_name(v));
	}
}

static int set_indent(struct dumper *d, const struct kp_tv *v)
{
	if (v->type == KP_TV_MISSING || v->type == KP_TV_NONE) {
		return 0;
	}
	d->pretty = true;
	if (v->type == KP_TV_STR) {
		d->indent = *v;
		write_lines(d);
		return 0;
	}
	if (!kp_tv_is_int(v)) {
		return kp_tpl_fail(d->I, "can't multiply sequence by non-int of type '%s'",
			kp_tv_type_name(v));
	}
	struct kp_tpl_buf *b;
	if (v->i > 1000) {
		return kp_tpl_fail(d->I, "indent of more than 1000");
	}
	if (kp_tpl_buf_new(d->I, 0, &b) ||
		(v->i > 0 && kp_tpl_buf_fill(d->I, b, ' ', (size_t)v->i, v->origin))) {
		return -1;
	}
	d->indent = kp_tpl_buf_value(b);
	write_lines(d);
	return 0;
}

static int set_separators(struct dumper *d, const struct kp_tv *v)
{
	d->item_sep = kp_tv_str(d->pretty ? KP_S(",") : KP_S(", "), KP_ORIGIN_TRUSTED);
	d->key_sep = kp_tv_str(KP_S(": "), KP_ORIGIN_TRUSTED);
	if (v->type == KP_TV_MISSING || v->type == KP_TV_NONE) {
		return 0;
	}
	struct kp_tv *pair;
	uint32_t n;
	if (kp_tpl_collect(d->I, v, &pair, &n)) {
		return -1;
	}
	if (n != 2 || pair[0].type != KP_TV_STR || pair[1].type != KP_TV_STR) {
		return kp_tpl_fail(d->I, "separators must be two strings");
	}
	d->item_sep = pair[0];
	d->key_sep = pair[1];
	return 0;
}

/* tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False) */
int kp_tpl_filter_tojson(
	struct kp_interp *I, const struct kp_tv *x, const struct kp_tv *arg, struct kp_tv *ret)
{
	enum { FIRST = 512 };
	struct dumper d = { .I = I,
		.ascii = kp_tv_truth(&arg[0]),
		.sort = kp_tv_truth(&arg[3]),
		.indent = kp_tv_str(KP_S(""), 0) };
	if (kp_tpl_buf_new(I, FIRST, &d.b) || set_indent(&d, &arg[1]) ||
		set_separators(&d, &arg[2]) || dump(&d, x, 0)) {
		return -1;
	}
	*ret = kp_tpl_buf_value(d.b);
	return 0;
}

int kp_tpl_filter_from_json(
	struct kp_interp *I, const struct kp_tv *x, const struct kp_tv *arg, struct kp_tv *ret)
{
	(void)arg;
	*ret = *x;
	if (x->type != KP_TV_STR) {
		return 0;
	}
	struct kp_jv *v = kp_tpl_alloc(I, 1, sizeof(*v));
	struct kp_err err = KP_ERR_INIT;
	if (!v || kp_tpl_charge(I, x->n / 8)) {
		return -1;
	}
	if (kp_jv_parse(kp_tv_bytes(x), I->a, v, &err) == 0) {
		*ret = kp_tv_from_jv(v, x->origin);
	} else if (err.code == KP_RESOURCE_EXHAUSTED) {
		*I->err = err;
		return -1;
	}
	return 0;
}

/* DESIGN: Python's printf-style formatting, `fmt % args`. Literal text keeps the format's origin, each conversion has its argument's. */
#include "template/format.h"
#include "template/pynum.h"
#include "template/ucd.h"

#include "base/utf8.h"

#include <math.h>
#include <stdio.h>

struct percent {
	struct kp_interp *I;
	const struct kp_tv *fmt, *args;
	struct kp_tpl_buf *b;
	kp_str s;
	uint32_t pos, used; /* used: positional arguments taken */
	bool named;         /* a mapping was given: unused arguments are fine */
};
struct directive {
	bool left, plus, space, alt, zero;
	int64_t width, precision; /* precision -1: none */
	char type;
	struct kp_tv key; /* MISSING: none */
};

static int next_arg(struct percent *p, struct kp_tv *ret)
{
	uint32_t n = p->args->type == KP_TV_TUPLE ? p->args->n : 1;
	if (p->used >= n) {
		return kp_tpl_fail(p->I, "not enough arguments for format string");
	}
	*ret = p->args->type == KP_TV_TUPLE ? p->args->items[p->used] : *p->args;
	p->used++;
	return 0;
}

static char peek(const struct percent *p)
{
	return p->pos < p->s.n ? p->s.p[p->pos] : '\0';
}

/* digits, or * for an argument */
static int number(struct percent *p, int64_t *ret)
{
	*ret = 0;
	if (peek(p) == '*') {
		struct kp_tv v;
		p->pos++;
		if (next_arg(p, &v)) {
			return -1;
		}
		if (!kp_tv_is_int(&v)) {
			return kp_tpl_fail(p->I, "* wants int");
		}
		*ret = v.i;
		return 0;
	}
	while (kp_is_digit(peek(p))) {
		*ret = *ret * 10 + (p->s.p[p->pos++] - '0');
		if (*ret > INT32_MAX) {
			return kp_tpl_fail(p->I, "width or precision too big");
		}
	}
	return 0;
}

static int key(struct percent *p, struct directive *d)
{
	uint32_t start = ++p->pos;
	for (int depth = 1; depth; p->pos++) {
		if (p->pos >= p->s.n) {
			return kp_tpl_fail(p->I, "incomplete format key");
		}
		depth += (peek(p) == '(') - (peek(p) == ')');
	}
	if (p->args->type == KP_TV_TUPLE || p->args->type == KP_TV_STR || !(p->named)) {
		return kp_tpl_fail(p->I, "format requires a mapping");
	}
	struct kp_tv name;
	if (kp_tpl_str_sub(p->I, p->fmt, start, p->pos - 1, &name)) {
		return -1;
	}
	if (p->args->type != KP_TV_DICT) {
		return kp_tpl_fail(p->I, "%s indices must be integers or slices, not str",
			kp_tv_type_name(p->args));
	}
	int r = kp_tv_dict_get(p->I, p->args, &name, &d->key);
	return r > 0   ? 0
	       : r < 0 ? -1
		       : kp_tpl_fail(p->I, "KeyError: '%" KP_FMT "'", KP_ARG(kp_tv_bytes(&name)));
}

static int parse(struct percent *p, struct directive *d)
{
	*d = (struct directive){ .precision = -1 };
	if (peek(p) == '(' && key(p, d)) {
		return -1;
	}
	for (;; p->pos++) {
		char c = peek(p);
		if (c == '-') {
			d->left = true;
		} else if (c == '+') {
			d->plus = true;
		} else if (c == ' ') {
			d->space = true;
		} else if (c == '#') {
			d->alt = true;
		} else if (c == '0') {
			d->zero = true;
		} else {
			break;
		}
	}
	if (number(p, &d->width)) {
		return -1;
	}
	if (d->width < 0) {
		d->left = true;
		d->width = -KP_MAX(d->width, -(int64_t)INT32_MAX);
	}
	if (peek(p) == '.') {
		p->pos++;
		if (number(p, &d->precision)) {
			return -1;
		}
		d->precision = KP_MAX(d->precision, (int64_t)0);
	}
	if (peek(p) == 'h' || peek(p) == 'l' || peek(p) == 'L') {
		p->pos++;
	}
	if (p->pos >= p->s.n) {
		return kp_tpl_fail(p->I, "incomplete format");
	}
	d->type = p->s.p[p->pos++];
	return 0;
}

static int pad_text(struct percent *p, const struct directive *d, const struct kp_tv *text)
{
	struct kp_tv t = *text;
	if (d->precision >= 0 && (uint64_t)d->precision < t.n) {
		if (kp_tpl_str_sub(p->I, &t, 0,
			    kp_tpl_cp_offset(kp_tv_bytes(&t), (size_t)d->precision), &t)) {
			return -1;
		}
	}
	int64_t n = d->width ? (int64_t)kp_tpl_cp_count(kp_tv_bytes(&t)) : 0;
	size_t pad = d->width > n ? (size_t)(d->width - n) : 0;
	if (kp_tpl_charge(p->I, pad / 16)) {
		return -1;
	}
	return (!d->left && kp_tpl_buf_fill(p->I, p->b, ' ', pad, text->origin)) ||
			       kp_tpl_buf_add_str(p->I, p->b, &t) ||
			       (d->left && kp_tpl_buf_fill(p->I, p->b, ' ', pad, text->origin))
		       ? -1
		       : 0;
}

/* repr with everything outside ASCII escaped. */
int kp_tpl_ascii(struct kp_interp *I, const struct kp_tv *v, struct kp_tv *ret)
{
	struct kp_tpl_buf *b, *out;
	if (kp_tpl_buf_new(I, 0, &b) || kp_tpl_repr(I, b, v, 0) || kp_tpl_buf_new(I, b->n, &out)) {
		return -1;
	}
	struct kp_tv r = kp_tpl_buf_value(b);
	kp_str s = kp_tv_bytes(&r);
	uint32_t cursor = 0;
	for (uint32_t i = 0; i < s.n;) {
		uint32_t cp;
		char text[16];
		uint32_t len = (uint32_t)kp_utf8_decode(s.p + i, s.n - i, &cp);
		uint8_t origin = kp_tpl_str_origin(&r, i, &cursor);
		int n = cp < 0x80 ? 0
				  : snprintf(text, sizeof(text),
					    cp < 0x100     ? "\\x%02x"
					    : cp < 0x10000 ? "\\u%04x"
							   : "\\U%08x",
					    cp);
		if (kp_tpl_buf_add(I, out,
			    n ? kp_str_n(text, (size_t)n) : kp_str_sub(s, i, i + len), origin)) {
			return -1;
		}
		i += len;
	}
	*ret = kp_tpl_buf_value(out);
	return 0;
}

static int text(struct percent *p, const struct directive *d, const struct kp_tv *v)
{
	struct kp_tv t;
	if (d->type == 's') {
		if (kp_tpl_to_str(p->I, v, &t)) {
			return -1;
		}
		t.flags |= v->type == KP_TV_STR ? v->flags & KP_TVF_MARKUP : 0;
	} else if (d->type == 'a') {
		if (kp_tpl_ascii(p->I, v, &t)) {
			return -1;
		}
	} else {
		struct kp_tpl_buf *b;
		if (kp_tpl_buf_new(p->I, 0, &b) || kp_tpl_repr(p->I, b, v, 0)) {
			return -1;
		}
		t = kp_tpl_buf_value(b);
	}
	if ((p->fmt->flags & KP_TVF_MARKUP) && kp_tpl_escape(p->I, &t, &t)) {
		return -1;
	}
	return pad_text(p, d, &t);
}

static int character(struct percent *p, const struct directive *d, const struct kp_tv *v)
{
	struct kp_tv t = *v;
	if (kp_tv_is_int(v)) {
		if (v->i < 0 || v->i > 0x10ffff || (v->i >= 0xd800 && v->i < 0xe000)) {
			return kp_tpl_fail(p->I, "%%c arg not in range(0x110000)");
		}
		char out[4];
		if (kp_tpl_str_dup(p->I, kp_str_n(out, kp_utf8_encode((uint32_t)v->i, out)),
			    v->origin, &t)) {
			return -1;
		}
	} else if (v->type != KP_TV_STR || kp_tpl_cp_count(kp_tv_bytes(v)) != 1) {
		return kp_tpl_fail(p->I, "%%c requires int or char");
	}
	return pad_text(p, d, &t);
}

static struct kp_numspec numspec(const struct directive *d)
{
	bool zero = d->zero && !d->left;
	return (struct kp_numspec){ .sign = d->plus    ? '+'
					    : d->space ? ' '
						       : 0,
		.align = d->left ? '<'
			 : zero  ? '='
				 : '>',
		.fill = zero ? KP_S("0") : KP_STR_NULL,
		.alt = d->alt,
		.width = d->width,
		.precision = d->precision,
		.type = d->type };
}

/* d i u o x X, with a precision that means "at least so many digits". */
static int integer(struct percent *p, const struct directive *d, const struct kp_tv *v)
{
	bool decimal = d->type == 'd' || d->type == 'i' || d->type == 'u';
	struct kp_tv n = *v;
	struct kp_numspec spec = numspec(d);
	if (decimal && v->type == KP_TV_FLOAT) {
		if (isnan(v->f) || isinf(v->f)) {
			return kp_tpl_fail(p->I, "cannot convert float %s to integer",
				isnan(v->f) ? "NaN" : "infinity");
		}
		if (kp_pynum_from_double(p->I, v->f, v->origin, &n)) {
			return -1;
		}
	}
	if (!kp_tv_is_int(&n) && n.type != KP_TV_BIG) {
		return kp_tpl_fail(p->I, "%%%c format: %s is required, not %s", d->type,
			decimal ? "a real number" : "an integer", kp_tv_type_name(v));
	}
	spec.type = decimal ? 'd' : d->type;
	if (d->precision <= 0) {
		return kp_pynum_format_int(p->I, p->b, &n, &spec);
	}
	/* The digits first, zero-filled to the precision, then sign and width around them. */
	struct kp_numspec digits = { .type = spec.type,
		.align = '=',
		.fill = KP_S("0"),
		.width = d->precision,
		.precision = -1 };
	struct kp_tpl_buf *b;
	bool negative = n.type == KP_TV_BIG ? n.s[0] == '-' : n.i < 0;
	if (d->precision > 100000) {
		return kp_tpl_fail(p->I, "precision too large");
	}
	if ((negative && kp_tpl_unary(p->I, 0, &n, &n)) || kp_tpl_buf_new(p->I, 0, &b)) {
		return -1;
	}
	digits.width += negative;
	if (kp_pynum_format_int(p->I, b, &n, &digits)) {
		return -1;
	}
	kp_str body = kp_str_n(b->p + negative, b->n - negative), sign = negative   ? KP_S("-")
									 : d->plus  ? KP_S("+")
									 : d->space ? KP_S(" ")
										    : KP_STR_NULL;
	char prefix[4] = { 0 };
	size_t k = sign.n;
	memcpy(prefix, sign.n ? sign.p : "", sign.n);
	if (d->alt && !decimal) {
		prefix[k++] = '0';
		prefix[k++] = d->type;
	}
	return kp_pynum_pad(p->I, p->b, kp_str_n(prefix, k), body, KP_STR_NULL, n.origin, &spec);
}

static int real(struct percent *p, const struct directive *d, const struct kp_tv *v)
{
	double f;
	struct kp_numspec spec = numspec(d);
	spec.precision = spec.precision < 0 ? 6 : spec.precision;
	if (!kp_tv_is_num(v) && v->type != KP_TV_BIG) {
		return v->type == KP_TV_UNDEF ? kp_tpl_fail_undef(p->I, v)
					      : kp_tpl_fail(p->I, "must be real number, not %s",
							kp_tv_type_name(v));
	}
	if (!kp_pynum_to_double(v, &f)) {
		return kp_tpl_fail(p->I, "int too large to convert to float");
	}
	return kp_pynum_format_float(p->I, p->b, f, v->origin, &spec);
}

static int convert(struct percent *p)
{
	struct directive d;
	struct kp_tv v;
	if (parse(p, &d)) {
		return -1;
	}
	if (d.type == '%') {
		return kp_tpl_buf_add_sub(p->I, p->b, p->fmt, p->pos - 1, p->pos);
	}
	v = d.key;
	if (v.type == KP_TV_MISSING && next_arg(p, &v)) {
		return -1;
	}
	switch (d.type) {
	case 's':
	case 'r':
	case 'a':
		return text(p, &d, &v);
	case 'c':
		return character(p, &d, &v);
	case 'd':
	case 'i':
	case 'u':
	case 'o':
	case 'x':
	case 'X':
		return integer(p, &d, &v);
	case 'e':
	case 'E':
	case 'f':
	case 'F':
	case 'g':
	case 'G':
		return real(p, &d, &v);
	default:
		return kp_tpl_fail(p->I, "unsupported format character '%c'",
			d.type >= 0x20 && d.type < 0x7f ? d.type : '?');
	}
}

int kp_tpl_percent(
	struct kp_interp *I, const struct kp_tv *fmt, const struct kp_tv *args, struct kp_tv *ret)
{
	struct percent p = { .I = I, .fmt = fmt, .args = args, .s = kp_tv_bytes(fmt) };
	p.named = args->type == KP_TV_DICT || args->type == KP_TV_LIST ||
		  args->type == KP_TV_RANGE || args->type == KP_TV_UNDEF;
	if (kp_tpl_charge(I, p.s.n / 16) || kp_tpl_buf_new(I, p.s.n, &p.b)) {
		return -1;
	}
	while (p.pos < p.s.n) {
		ptrdiff_t hit = kp_str_find_char(kp_str_skip(p.s, p.pos), '%');
		uint32_t to = hit < 0 ? (uint32_t)p.s.n : p.pos + (uint32_t)hit;
		if (kp_tpl_buf_add_sub(I, p.b, fmt, p.pos, to)) {
			return -1;
		}
		p.pos = to + 1;
		if (hit >= 0 && convert(&p)) {
			return -1;
		}
	}
	if (!p.named && p.used < (args->type == KP_TV_TUPLE ? args->n : 1)) {
		return kp_tpl_fail(I, "not all arguments converted during string formatting");
	}
	*ret = kp_tpl_buf_value(p.b);
	ret->flags |= fmt->flags & KP_TVF_MARKUP;
	return 0;
}

/* DESIGN: Python's numbers as text. Doubles go through printf's exact, correctly rounded conversions (the program never sets a locale) and
   lib/base's correctly rounded reader. repr is the shortest text that reads back: 15 digits always survive the round trip of a normal
   double, so at most 15, 16 and 17 are tried; at a power of two the nearest 16-digit text may fail where its neighbour reads back.
   Integers beyond 64 bits stay decimal text. Precisions and widths are limited by MAX_PRECISION and the render's output budget. */
#include "template/pynum.h"
#include "template/ucd.h"

#include "base/utf8.h"

#include <math.h>
#include <stdio.h>

enum { MAX_PRECISION = 10000 };

static bool reads_back(const char *text, double f)
{
	double g;
	return kp_str_f64(kp_str_c(text), &g) && !(g < f) && !(g > f);
}

/* One more or less in the last of the digits "d.ddd...e+XX"; false when that carries out. */
static bool nudge(char *text, int by)
{
	char *e = strchr(text, 'e');
	for (char *p = e - 1; p >= text; p--) {
		if (*p == '.') {
			continue;
		}
		*p = (char)(*p + by);
		if (*p >= '0' && *p <= '9') {
			return true;
		}
		*p = by > 0 ? '0' : '9';
	}
	return false;
}

/* The shortest "d.ddde+XX" of a positive finite double. */
static void shortest(double f, char text[KP_PYNUM_TEXT])
{
	for (int digits = isnormal(f) ? 15 : 1; digits <= 17; digits++) {
		snprintf(text, KP_PYNUM_TEXT, "%.*e", digits - 1, f);
		if (digits == 17 || reads_back(text, f)) {
			return;
		}
		for (int by = 1; digits == 16 && by >= -1; by -= 2) {
			char other[KP_PYNUM_TEXT];
			memcpy(other, text, sizeof(other));
			if (nudge(other, by) && reads_back(other, f)) {
				memcpy(text, other, sizeof(other));
				return;
			}
		}
	}
}

size_t kp_pynum_repr(double f, char out[KP_PYNUM_TEXT])
{
	char sci[KP_PYNUM_TEXT], digits[KP_PYNUM_TEXT];
	if (isnan(f) || isinf(f)) {
		return (size_t)snprintf(out, KP_PYNUM_TEXT, "%s",
			isnan(f) ? "nan"
			: f < 0  ? "-inf"
				 : "inf");
	}
	const char *sign = signbit(f) ? "-" : "";
	f = fabs(f);
	if (fpclassify(f) == FP_ZERO) {
		return (size_t)snprintf(out, KP_PYNUM_TEXT, "%s0.0", sign);
	}
	shortest(f, sci);
	int n = 0, exp = 0;
	const char *p = sci;
	for (; *p != 'e'; p++) {
		if (*p != '.') {
			digits[n++] = *p;
		}
	}
	bool negative = p[1] == '-';
	for (p += 2; *p; p++) {
		exp = exp * 10 + (*p - '0');
	}
	exp = negative ? -exp : exp;
	while (n > 1 && digits[n - 1] == '0') {
		n--;
	}
	if (exp < -4 || exp >= 16) {
		return (size_t)snprintf(out, KP_PYNUM_TEXT, "%s%c%s%.*se%c%02d", sign, digits[0],
			n > 1 ? "." : "", n - 1, digits + 1, exp < 0 ? '-' : '+',
			exp < 0 ? -exp : exp);
	}
	if (exp < 0) {
		return (size_t)snprintf(
			out, KP_PYNUM_TEXT, "%s0.%.*s%.*s", sign, -exp - 1, "000", n, digits);
	}
	if (n <= exp + 1) {
		return (size_t)snprintf(out, KP_PYNUM_TEXT, "%s%.*s%.*s.0", sign, n, digits,
			exp + 1 - n, "0000000000000000");
	}
	return (size_t)snprintf(out, KP_PYNUM_TEXT, "%s%.*s.%.*s", sign, exp + 1, digits,
		n - exp - 1, digits + exp + 1);
}

size_t kp_pynum_int(int64_t i, char out[KP_PYNUM_TEXT])
{
	char rev[KP_PYNUM_TEXT];
	uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
	size_t n = 0, k = 0;
	do {
		rev[n++] = (char)('0' + u % 10);
		u /= 10;
	} while (u);
	if (i < 0) {
		out[k++] = '-';
	}
	while (n) {
		out[k++] = rev[--n];
	}
	return k;
}

kp_str kp_pynum_digits(const struct kp_tv *v, char out[KP_PYNUM_TEXT])
{
	return v->type == KP_TV_BIG ? kp_tv_bytes(v) : kp_str_n(out, kp_pynum_int(v->i, out));
}

/* Decimal texts without leading zeros. */
static int cmp_text(kp_str a, kp_str b)
{
	bool na = a.n && a.p[0] == '-', nb = b.n && b.p[0] == '-';
	if (na != nb) {
		return na ? -1 : 1;
	}
	int r = a.n != b.n ? (a.n < b.n ? -1 : 1) : kp_str_cmp(a, b);
	r = r < 0 ? -1 : r > 0;
	return na ? -r : r;
}

int kp_pynum_cmp_big(const struct kp_tv *a, const struct kp_tv *b)
{
	char big[400], small[2][KP_PYNUM_TEXT];
	kp_str t[2];
	for (int i = 0; i < 2; i++) {
		const struct kp_tv *v = i ? b : a;
		if (v->type ==
			KP_TV_FLOAT) { /* the other one is BIG, so the fraction does not matter */
			if (isinf(v->f)) {
				return (v->f > 0) == (i == 0) ? 1 : -1;
			}
			t[i] = kp_str_n(big, (size_t)snprintf(big, sizeof(big), "%.0f", v->f));
		} else {
			t[i] = kp_pynum_digits(v, small[i]);
		}
	}
	return cmp_text(t[0], t[1]);
}

bool kp_pynum_to_double(const struct kp_tv *v, double *ret)
{
	if (v->type == KP_TV_FLOAT) {
		*ret = v->f;
	} else if (v->type == KP_TV_BIG) {
		return kp_str_f64(kp_tv_bytes(v), ret);
	} else {
		*ret = (double)v->i;
	}
	return true;
}

int kp_pynum_from_double(struct kp_interp *I, double f, uint8_t origin, struct kp_tv *ret)
{
	if (f > -9.2e18 && f < 9.2e18) {
		*ret = kp_tv_int((int64_t)f, origin);
		return 0;
	}
	char text[400];
	kp_str s = kp_str_n(text, (size_t)snprintf(text, sizeof(text), "%.0f", f));
	if (kp_str_i64(s, INT64_MIN, INT64_MAX, &ret->i)) {
		*ret = kp_tv_int(ret->i, origin);
		return 0;
	}
	if (kp_tpl_str_dup(I, s, origin, ret)) {
		return -1;
	}
	ret->type = KP_TV_BIG;
	return 0;
}

double kp_pynum_round(double f, int64_t digits)
{
	if (!isfinite(f) || digits > 323) {
		return f;
	}
	if (digits >= 0) {
		char text[700];
		double r;
		snprintf(text, sizeof(text), "%.*f", (int)digits, f);
		return kp_str_f64(kp_str_c(text), &r) ? r : f;
	}
	if (digits < -308) {
		return copysign(0.0, f);
	}
	long double unit = powl(10.0L, (long double)-digits);
	return (double)(rintl((long double)f / unit) * unit);
}

/* --- reading ---------------------------------------------------------------------------------------------------------------------- */

/* Strips white space and turns other scripts' digits into ASCII; *ret is NULL-free text in the arena, or empty when something in it can
   be in no number. */
static int ascii_number(struct kp_interp *I, const struct kp_tv *s, kp_str *ret)
{
	kp_str t = kp_tv_bytes(s);
	char *out = kp_tpl_alloc(I, t.n + 1, 1);
	size_t n = 0, first = t.n, last = 0;
	if (!out || kp_tpl_charge(I, t.n / 16)) {
		return -1;
	}
	for (size_t i = 0; i < t.n;) {
		uint32_t cp;
		size_t len = kp_utf8_decode(t.p + i, t.n - i, &cp);
		const struct kp_ucd_record *u = kp_ucd(cp);
		char c = cp < 0x80                     ? (char)cp
			 : (u->flags & KP_UCD_DECIMAL) ? (char)('0' + u->decimal)
			 : kp_ucd_space(cp)            ? ' '
						       : '?';
		if (!kp_ucd_space(cp)) {
			first = KP_MIN(first, n);
			last = n + 1;
		}
		out[n++] = kp_lower(c);
		i += len;
	}
	*ret = first < last ? kp_str_n(out + first, last - first) : KP_STR_NULL;
	return 0;
}

static int digit_value(char c)
{
	return kp_is_digit(c) ? c - '0' : c >= 'a' && c <= 'z' ? c - 'a' + 10 : 99;
}

/* Digits with single underscores between them into out; -1: malformed. */
static int64_t plain_digits(kp_str s, int base, bool lead, char *out)
{
	int64_t n = 0;
	bool under = !lead; /* an underscore may not come now */
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '_') {
			if (under) {
				return -1;
			}
			under = true;
		} else if (digit_value(s.p[i]) < base) {
			out[n++] = s.p[i];
			under = false;
		} else {
			return -1;
		}
	}
	return n && !under ? n : -1;
}

static int from_digits(
	struct kp_interp *I, kp_str d, bool negative, int base, uint8_t origin, struct kp_tv *ret)
{
	while (d.n > 1 && d.p[0] == '0') {
		d = kp_str_skip(d, 1);
	}
	int64_t v = 0;
	bool big = false;
	for (size_t i = 0; i < d.n && !big; i++) {
		big = __builtin_mul_overflow(v, base, &v) ||
		      __builtin_sub_overflow(v, digit_value(d.p[i]), &v);
	}
	big = big || (!negative && v == INT64_MIN);
	if (!big) {
		*ret = kp_tv_int(negative ? v : -v, origin);
		return 1;
	}
	if (base != 10 || d.n > 4300) { /* Python's own limit for decimal text */
		return base != 10 ? kp_tpl_fail(I, "integers have 64 bits here") : 0;
	}
	char *p = kp_tpl_alloc(I, d.n + 1, 1);
	if (!p) {
		return -1;
	}
	p[0] = '-';
	memcpy(p + 1, d.p, d.n);
	*ret = kp_tv_str(kp_str_n(negative ? p : p + 1, d.n + negative), origin);
	ret->type = KP_TV_BIG;
	return 1;
}

int kp_pynum_parse_int(struct kp_interp *I, const struct kp_tv *s, int64_t base, struct kp_tv *ret)
{
	kp_str t;
	if (ascii_number(I, s, &t)) {
		return -1;
	}
	if (!t.n || base == 1 || base < 0 || base > 36) {
		return 0;
	}
	bool negative = t.p[0] == '-', prefixed = false;
	t = kp_str_skip(t, t.p[0] == '-' || t.p[0] == '+');
	if (t.n > 2 && t.p[0] == '0') {
		int b = t.p[1] == 'x' ? 16 : t.p[1] == 'o' ? 8 : t.p[1] == 'b' ? 2 : 0;
		if (b && (base == 0 || base == b)) {
			base = b;
			t = kp_str_skip(t, 2);
			prefixed = true;
		}
	}
	bool strict = base == 0; /* "010" is no number then */
	base = base ? base : 10;
	char *digits = kp_tpl_alloc(I, t.n + 1, 1);
	if (!digits) {
		return -1;
	}
	int64_t n = plain_digits(t, (int)base, prefixed, digits);
	if (n < 0) {
		return 0;
	}
	kp_str d = kp_str_n(digits, (size_t)n);
	if (strict && d.n > 1 && d.p[0] == '0') {
		for (size_t i = 0; i < d.n; i++) {
			if (d.p[i] != '0') {
				return 0;
			}
		}
	}
	return from_digits(I, d, negative, (int)base, s->origin, ret);
}

/* The digits at *rest up to something else; -1: malformed underscores. */
static int64_t take_digits(kp_str *rest, char *out)
{
	size_t n = 0;
	while (n < rest->n && (kp_is_digit(rest->p[n]) || rest->p[n] == '_')) {
		n++;
	}
	int64_t k = n ? plain_digits(kp_str_sub(*rest, 0, n), 10, false, out) : 0;
	*rest = kp_str_skip(*rest, n);
	return k;
}

/* Rewrites [digits][.digits][e[sign]digits] as JSON text in out; 0 when it is none. */
static size_t json_number(kp_str t, char *out)
{
	size_t n = 0;
	int64_t whole = take_digits(&t, out), frac = 0;
	if (whole < 0) {
		return 0;
	}
	size_t zeros = 0;
	while (zeros + 1 < (size_t)whole && out[zeros] == '0') {
		zeros++;
	}
	n = (size_t)whole - zeros;
	memmove(out, out + zeros, n);
	if (whole == 0) {
		out[n++] = '0';
	}
	if (t.n && t.p[0] == '.') {
		t = kp_str_skip(t, 1);
		frac = take_digits(&t, out + n + 1);
		if (frac > 0) {
			out[n] = '.';
			n += (size_t)frac + 1;
		}
	}
	if (frac < 0 || whole + frac == 0) {
		return 0;
	}
	if (t.n && t.p[0] == 'e') {
		out[n++] = 'e';
		t = kp_str_skip(t, 1);
		if (t.n && (t.p[0] == '-' || t.p[0] == '+')) {
			out[n++] = t.p[0];
			t = kp_str_skip(t, 1);
		}
		int64_t exp = take_digits(&t, out + n);
		if (exp <= 0) {
			return 0;
		}
		n += (size_t)exp;
	}
	return t.n ? 0 : n;
}

int kp_pynum_parse_float(struct kp_interp *I, const struct kp_tv *s, double *ret)
{
	kp_str t;
	if (ascii_number(I, s, &t)) {
		return -1;
	}
	bool negative = t.n && t.p[0] == '-';
	t = kp_str_skip(t, t.n && (t.p[0] == '-' || t.p[0] == '+'));
	double v;
	if (kp_str_eq(t, KP_S("inf")) || kp_str_eq(t, KP_S("infinity"))) {
		v = (double)INFINITY;
	} else if (kp_str_eq(t, KP_S("nan"))) {
		v = (double)NAN;
	} else {
		char *out = kp_tpl_alloc(I, t.n + 4, 1);
		if (!out) {
			return -1;
		}
		size_t n = json_number(t, out);
		if (!n) {
			return 0;
		}
		if (!kp_str_f64(kp_str_n(out, n), &v)) {
			v = (double)INFINITY;
		}
	}
	*ret = negative ? -v : v;
	return 1;
}

/* --- formatting ------------------------------------------------------------------------------------------------------------------- */

/* digits with a separator every `every`, at least `want` characters when zeros fill. */
static int add_grouped(struct kp_interp *I, struct kp_tpl_buf *b, kp_str digits, char sep,
	size_t every, size_t want, uint8_t origin)
{
	size_t n = digits.n;
	while (n + (sep ? (n - 1) / every : 0) < want) {
		n++;
	}
	for (size_t i = 0; i < n; i++) {
		size_t left = n - i;
		char c = left > digits.n ? '0' : digits.p[digits.n - left];
		if (kp_tpl_buf_add(I, b, kp_str_n(&c, 1), origin) ||
			(sep && left > 1 && (left - 1) % every == 0 &&
				kp_tpl_buf_add(I, b, kp_str_n(&sep, 1), origin))) {
			return -1;
		}
	}
	return 0;
}

int kp_pynum_pad(struct kp_interp *I, struct kp_tpl_buf *b, kp_str sign, kp_str digits, kp_str rest,
	uint8_t origin, const struct kp_numspec *spec)
{
	size_t every = spec->group == '_' && spec->type && strchr("boxX", spec->type) ? 4 : 3;
	bool group = spec->group && digits.n && kp_is_digit(digits.p[0]);
	size_t len = sign.n + digits.n + (group ? (digits.n - 1) / every : 0) + rest.n;
	size_t width = (size_t)KP_MAX(spec->width, (int64_t)0), pad = width > len ? width - len : 0;
	char align = spec->align ? spec->align : '>';
	kp_str fill = spec->fill.n ? spec->fill : KP_S(" ");
	bool zeros = align == '=' && kp_str_eq(fill, KP_S("0"));
	if (kp_tpl_charge(I, width / 16)) {
		return -1;
	}
	size_t before = align == '>'   ? pad
			: align == '^' ? pad / 2
				       : 0,
	       inside = align == '=' && !zeros ? pad : 0;
	size_t after = align == '<' || align == '^' ? pad - before : 0;
	int r = 0;
	for (; !r && before; before--) {
		r = kp_tpl_buf_add(I, b, fill, origin);
	}
	r = r ? r : kp_tpl_buf_add(I, b, sign, origin);
	for (; !r && inside; inside--) {
		r = kp_tpl_buf_add(I, b, fill, origin);
	}
	size_t want = zeros && width > sign.n + rest.n ? width - sign.n - rest.n : 0;
	r = r          ? r
	    : digits.n ? add_grouped(I, b, digits, group ? spec->group : 0, every, want, origin)
		       : 0;
	r = r ? r : kp_tpl_buf_add(I, b, rest, origin);
	for (; !r && after; after--) {
		r = kp_tpl_buf_add(I, b, fill, origin);
	}
	return r;
}

static kp_str sign_text(bool negative, char sign)
{
	return negative      ? KP_S("-")
	       : sign == '+' ? KP_S("+")
	       : sign == ' ' ? KP_S(" ")
			     : KP_STR_NULL;
}

int kp_pynum_format_int(struct kp_interp *I, struct kp_tpl_buf *b, const struct kp_tv *v,
	const struct kp_numspec *spec)
{
	char text[72], prefix[8];
	kp_str digits;
	unsigned shift = spec->type == 'b'                        ? 1
			 : spec->type == 'o'                      ? 3
			 : spec->type == 'x' || spec->type == 'X' ? 4
								  : 0;
	bool negative;
	if (!shift) {
		digits = kp_pynum_digits(v, text);
		negative = digits.p[0] == '-';
		digits = kp_str_skip(digits, negative);
	} else if (v->type == KP_TV_BIG) {
		return kp_tpl_fail(I, "beyond 64 bits there is no format '%c'", spec->type);
	} else {
		size_t at = sizeof(text);
		negative = v->i < 0;
		uint64_t u = negative ? 0 - (uint64_t)v->i : (uint64_t)v->i;
		do {
			text[--at] =
				(spec->type == 'X' ? "0123456789ABCDEF"
						   : "0123456789abcdef")[u & ((1U << shift) - 1)];
			u >>= shift;
		} while (u);
		digits = kp_str_n(text + at, sizeof(text) - at);
	}
	kp_str sign = sign_text(negative, spec->sign);
	int n = snprintf(prefix, sizeof(prefix), "%.*s", (int)sign.n, sign.n ? sign.p : "");
	if (shift && spec->alt) {
		n += snprintf(prefix + n, sizeof(prefix) - (size_t)n, "0%c", spec->type);
	}
	return kp_pynum_pad(
		I, b, kp_str_n(prefix, (size_t)n), digits, KP_STR_NULL, v->origin, spec);
}

/* printf with a conversion that is only known now. */
static size_t print_float(char *text, size_t cap, char type, bool alt, int precision, double f)
{
	int n;
	switch (type) {
	case 'e':
		n = alt ? snprintf(text, cap, "%#.*e", precision, f)
			: snprintf(text, cap, "%.*e", precision, f);
		break;
	case 'E':
		n = alt ? snprintf(text, cap, "%#.*E", precision, f)
			: snprintf(text, cap, "%.*E", precision, f);
		break;
	case 'G':
		n = alt ? snprintf(text, cap, "%#.*G", precision, f)
			: snprintf(text, cap, "%.*G", precision, f);
		break;
	case 'g':
		n = alt ? snprintf(text, cap, "%#.*g", precision, f)
			: snprintf(text, cap, "%.*g", precision, f);
		break;
	default:
		n = alt ? snprintf(text, cap, "%#.*f", precision, f)
			: snprintf(text, cap, "%.*f", precision, f);
		break;
	}
	return (size_t)n;
}

/* No type but a precision: as g, but with a fraction, so the exponent starts one digit earlier. */
static size_t float_untyped(double f, bool alt, int precision, char *text, size_t cap)
{
	char sci[KP_PYNUM_TEXT];
	precision = precision ? precision : 1;
	size_t n = print_float(text, cap, 'g', alt, precision, f);
	snprintf(sci, sizeof(sci), "%.*e", KP_MIN(precision, 17) - 1, f);
	const char *e = strchr(sci, 'e');
	bool use_exp = strchr(text, 'e') != NULL;
	if (!use_exp && e && e[1] == '+' && (e[2] - '0') * 10 + (e[3] - '0') + 1 > precision - 1 &&
		!e[4]) {
		print_float(text, cap, 'e', alt, precision - 1, f);
		char *mark = strchr(text, 'e'), *end = mark, *dot = strchr(text, '.');
		while (dot && end > dot && (end[-1] == '0' || end[-1] == '.')) {
			end--;
		}
		memmove(end, mark, strlen(mark) + 1);
		return strlen(text);
	}
	if (!use_exp && !strchr(text, '.')) {
		n += (size_t)snprintf(text + n, cap - n, ".0");
	}
	return n;
}

/* The digits of f >= 0 into text. */
static size_t float_text(double f, const struct kp_numspec *spec, char *text, size_t cap)
{
	if (!spec->type) {
		return spec->precision < 0
			       ? kp_pynum_repr(f, text)
			       : float_untyped(f, spec->alt, (int)spec->precision, text, cap);
	}
	char type = spec->type == 'n'                        ? 'g'
		    : spec->type == '%' || spec->type == 'F' ? 'f'
							     : spec->type;
	return print_float(
		text, cap, type, spec->alt, spec->precision < 0 ? 6 : (int)spec->precision, f);
}

int kp_pynum_format_float(struct kp_interp *I, struct kp_tpl_buf *b, double f, uint8_t origin,
	const struct kp_numspec *spec)
{
	if (spec->precision > MAX_PRECISION) {
		return kp_tpl_fail(I, "precision of more than %d", MAX_PRECISION);
	}
	f = spec->type == '%' ? f * 100 : f;
	bool negative = signbit(f) && !isnan(f),
	     upper = spec->type == 'E' || spec->type == 'F' || spec->type == 'G';
	size_t cap = 400 + (size_t)KP_MAX(spec->precision, (int64_t)0), n;
	char *text = kp_tpl_alloc(I, cap, 1);
	if (!text) {
		return -1;
	}
	if (isnan(f) || isinf(f)) {
		n = (size_t)snprintf(text, cap,
			isnan(f) ? upper ? "NAN" : "nan"
			: upper  ? "INF"
				 : "inf");
	} else {
		n = float_text(fabs(f), spec, text, cap - 2);
	}
	if (spec->no_neg_zero && negative && !text[strspn(text, "0.")]) {
		negative = false;
	}
	if (spec->type == '%') {
		text[n++] = '%';
	}
	size_t whole = 0;
	while (whole < n && kp_is_digit(text[whole])) {
		whole++;
	}
	return kp_pynum_pad(I, b, sign_text(negative, spec->sign),
		kp_str_n(text, whole ? whole : n),
		kp_str_n(text + (whole ? whole : n), whole ? n - whole : 0), origin, spec);
}

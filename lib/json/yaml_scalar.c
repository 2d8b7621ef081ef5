/* DESIGN: what a plain YAML scalar means to Kubernetes. kubectl and the API server read YAML with
   sigs.k8s.io/yaml (go.yaml.in/yaml/v2 below it) into untyped values and go on with JSON, so the
   rules are those of that library, not YAML 1.1's or 1.2's:

     null   empty, ~, null, Null, NULL
     bool   y yes on true / n no off false, each lower case, Capitalized and UPPER CASE (so a label
   `yes` must be quoted) int    decimal; 0x 0o 0b and a leading 0 (octal), signs, `_` anywhere after
   the first character; up to 64 bits float  1.5 .5 5. 1e3; -.inf and .nan exist but have no JSON
   form; an integer of more than 64 bits; `089`, which is no octal else   a string: also dates,
   1:30, 1,000 and hexadecimal beyond 64 bits

   A float with an integral value becomes an integer, since Go writes 1e3 as `1000` into the JSON in
   between. Pure functions, no allocation; a number of more than 500 digits is KP_YAML_TOO_LONG. The
   oracle is that library itself (tests/oracle/json). */
#include "json/doc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_NUMBER = 500 };

static bool is_word(kp_str s, const char *const *words)
{
	for (; *words; words++) {
		if (kp_str_eq(s, kp_str_c(*words))) {
			return true;
		}
	}
	return false;
}

/* The words of the library's table; false: not one of them. */
static bool resolve_word(kp_str s, enum kp_yaml_type *type, struct kp_yaml_scalar *ret)
{
	static const char *const nulls[] = { "~", "null", "Null", "NULL", NULL };
	static const char *const trues[] = { "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE",
		"on", "On", "ON", NULL };
	static const char *const falses[] = { "n", "N", "no", "No", "NO", "false", "False", "FALSE",
		"off", "Off", "OFF", NULL };
	static const char *const nans[] = { ".nan", ".NaN", ".NAN", NULL };
	static const char *const infs[] = { ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF",
		NULL };
	static const char *const minus_infs[] = { "-.inf", "-.Inf", "-.INF", NULL };
	if (s.n == 0 || is_word(s, nulls)) {
		*type = KP_YAML_NULL;
	} else if (is_word(s, trues) || is_word(s, falses)) {
		*type = KP_YAML_BOOL;
		ret->b = is_word(s, trues);
	} else if (is_word(s, nans) || is_word(s, infs) || is_word(s, minus_infs)) {
		*type = KP_YAML_REAL;
		ret->d = is_word(s, nans)   ? (double)NAN
			 : is_word(s, infs) ? (double)INFINITY
					    : -(double)INFINITY;
	} else {
		return false;
	}
	return true;
}

static bool parse_digits(kp_str s, unsigned base, uint64_t *ret)
{
	uint64_t v = 0;
	if (s.n == 0) {
		return false;
	}
	for (size_t i = 0; i < s.n; i++) {
		char c = kp_lower(s.p[i]);
		unsigned d = kp_is_digit(c)         ? (unsigned)(c - '0')
			     : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
						    : 99;
		if (d >= base || __builtin_mul_overflow(v, base, &v) ||
			__builtin_add_overflow(v, d, &v)) {
			return false;
		}
	}
	*ret = v;
	return true;
}

/* strconv.ParseUint(s, 0, 64) */
static bool parse_unsigned(kp_str s, uint64_t *ret)
{
	if (s.n == 0 || s.p[0] != '0') {
		return parse_digits(s, 10, ret);
	}
	char prefix = s.n >= 3 ? kp_lower(s.p[1]) : '\0';
	if (prefix == 'x' || prefix == 'o' || prefix == 'b') {
		return parse_digits(kp_str_skip(s, 2),
			prefix == 'x'   ? 16
			: prefix == 'o' ? 8
					: 2,
			ret);
	}
	*ret = 0;
	return s.n == 1 || parse_digits(kp_str_skip(s, 1), 8, ret);
}

/* A number of the magnitude v; false when it does not fit either type. */
static bool signed_number(
	bool negative, uint64_t v, enum kp_yaml_type *type, struct kp_yaml_scalar *ret)
{
	if (v <= (uint64_t)INT64_MAX + (negative ? 1 : 0)) {
		*type = KP_YAML_INT;
		ret->i = negative ? (int64_t)(0 - v) : (int64_t)v;
		return true;
	}
	if (negative) {
		return false;
	}
	*type = KP_YAML_UINT;
	ret->d = (double)v;
	return true;
}

/* [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)? brought into the form of a JSON number;
 * false: it is none. */
static bool to_json_number(kp_str s, char out[MAX_NUMBER + 4], kp_str *ret)
{
	size_t i = 0, n = 0;
	if (i < s.n && (s.p[i] == '-' || s.p[i] == '+')) {
		if (s.p[i] == '-') {
			out[n++] = '-';
		}
		i++;
	}
	size_t int_from = i;
	while (i < s.n && kp_is_digit(s.p[i])) {
		i++;
	}
	size_t int_end = i, frac_from = i, frac_end = i;
	if (i < s.n && s.p[i] == '.') {
		frac_from = ++i;
		while (i < s.n && kp_is_digit(s.p[i])) {
			i++;
		}
		frac_end = i;
	}
	if (int_end == int_from && frac_end == frac_from) {
		return false;
	}
	while (int_from + 1 < int_end && s.p[int_from] == '0') {
		int_from++;
	}
	if (int_from == int_end) {
		out[n++] = '0';
	}
	memcpy(out + n, s.p + int_from, int_end - int_from);
	n += int_end - int_from;
	if (frac_end > frac_from) {
		out[n++] = '.';
		memcpy(out + n, s.p + frac_from, frac_end - frac_from);
		n += frac_end - frac_from;
	}
	memcpy(out + n, s.p + i, s.n - i); /* the exponent, checked by who reads the number */
	*ret = kp_str_n(out, n + (s.n - i));
	return i == s.n || kp_lower(s.p[i]) == 'e';
}

static bool parse_float(kp_str s, enum kp_yaml_type *type, struct kp_yaml_scalar *ret)
{
	char buf[MAX_NUMBER + 4];
	kp_str number;
	if (!to_json_number(s, buf, &number) || !kp_str_f64(number, &ret->d)) {
		return false;
	}
	*type = KP_YAML_REAL;
	return true;
}

/* Go's ParseFloat takes `_` only between digits; the other numbers lose all of theirs first. */
static bool copy_without_underscores(
	kp_str s, bool between_digits, char out[MAX_NUMBER], kp_str *ret)
{
	size_t n = 0;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] != '_') {
			out[n++] = s.p[i];
		} else if (between_digits && (i == 0 || i + 1 == s.n || !kp_is_digit(s.p[i - 1]) ||
						     !kp_is_digit(s.p[i + 1]))) {
			return false;
		}
	}
	*ret = kp_str_n(out, n);
	return true;
}

static bool resolve_number(kp_str plain, enum kp_yaml_type *type, struct kp_yaml_scalar *ret)
{
	bool negative = plain.n && plain.p[0] == '-';
	bool sign = plain.n && (plain.p[0] == '-' || plain.p[0] == '+');
	uint64_t v;
	if (parse_unsigned(sign ? kp_str_skip(plain, 1) : plain, &v) &&
		(!sign || v <= (uint64_t)INT64_MAX + negative) &&
		signed_number(negative, v, type, ret)) {
		return true;
	}
	if (parse_float(plain, type, ret)) {
		return true;
	}
	/* The library's second try at binary takes a sign behind the prefix: 0b-1. */
	if (kp_str_starts(plain, KP_S("0b-")) || kp_str_starts(plain, KP_S("0b+"))) {
		negative = plain.p[2] == '-';
		return parse_digits(kp_str_skip(plain, 3), 2, &v) &&
		       v <= (uint64_t)INT64_MAX + negative && signed_number(negative, v, type, ret);
	}
	return false;
}

enum kp_yaml_type kp_yaml_resolve(kp_str s, struct kp_yaml_scalar *ret)
{
	enum kp_yaml_type type = KP_YAML_STR;
	if (resolve_word(s, &type, ret)) {
		return type;
	}
	bool dot = s.p[0] == '.';
	if (!dot && !kp_is_digit(s.p[0]) && s.p[0] != '-' && s.p[0] != '+') {
		return KP_YAML_STR;
	}
	if (s.n > MAX_NUMBER) {
		for (size_t i = 1; i < s.n; i++) {
			if (!kp_is_digit(s.p[i]) && !memchr("_.eE+-", s.p[i], 6)) {
				return KP_YAML_STR;
			}
		}
		return KP_YAML_TOO_LONG;
	}
	char buf[MAX_NUMBER];
	kp_str plain;
	if (!copy_without_underscores(s, dot, buf, &plain)) {
		return KP_YAML_STR;
	}
	if (!(dot ? parse_float(plain, &type, ret) : resolve_number(plain, &type, ret))) {
		return KP_YAML_STR;
	}
	return type;
}

void kp_yaml_float_key(double v, char buf[48])
{
	float f = (float)v;
	if (isnan(f) || isinf(f)) {
		snprintf(buf, 48, "%s", isnan(f) ? ".nan" : f > 0 ? ".inf" : "-.inf");
		return;
	}
	char digits[32];
	int precision = 0;
	do { /* the shortest that reads back as the same float */
		snprintf(digits, sizeof(digits), "%.*e", precision, (double)f);
	} while (strtof(digits, NULL) != f && ++precision < 9);
	int exponent = 0;
	const char *e = strchr(digits, 'e');
	for (const char *p = e + 2; *p; p++) {
		exponent = exponent * 10 + (*p - '0');
	}
	if (e[1] == '-') {
		exponent = -exponent;
	}
	if (exponent < -4 || exponent >= 6) {
		snprintf(buf, 48, "%s",
			digits); /* C and Go both write at least two digits of exponent */
	} else {
		snprintf(buf, 48, "%.*f", KP_MAX(precision - exponent, 0), (double)f);
	}
}

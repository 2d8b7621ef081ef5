/* DESIGN: filters on numbers. Conversions follow Python's int() and float() with jinja2's fall-backs; what Python would not catch is an error
   here too. */
#include "template/ast.h"
#include "template/funcs.h"
#include "template/pynum.h"

#include <math.h>
#include <stdio.h>

#define FILTER(name)                                                                             \
	static int f_##name(struct kp_interp *I, const struct kp_tv *x, const struct kp_tv *arg, \
		struct kp_tv *ret)

FILTER(abs)
{
	(void)arg;
	struct kp_tv zero = kp_tv_int(0, x->origin);
	if (!kp_tv_is_num(x) && x->type != KP_TV_BIG) {
		return kp_tpl_fail(I, "bad operand type for abs(): '%s'", kp_tv_type_name(x));
	}
	if (x->type == KP_TV_FLOAT) {
		*ret = kp_tv_float(fabs(x->f), x->origin);
		return 0;
	}
	int r = kp_tv_lt(I, x, &zero);
	return r < 0 ? -1 : kp_tpl_unary(I, r ? KP_OP_NEG : KP_OP_POS, x, ret);
}

/* float(x): 1 ok, 0 TypeError or ValueError, -1. */
static int to_float(struct kp_interp *I, const struct kp_tv *x, double *ret)
{
	if (x->type == KP_TV_UNDEF) {
		return kp_tpl_fail_undef(I, x);
	}
	if (x->type == KP_TV_STR) {
		return kp_pynum_parse_float(I, x, ret);
	}
	if (!kp_tv_is_num(x) && x->type != KP_TV_BIG) {
		return 0;
	}
	return kp_pynum_to_double(x, ret) ? 1 : kp_tpl_fail(I, "int too large to convert to float");
}

/* int(default=0, base=10) */
FILTER(int)
{
	double f;
	int r = 0;
	if (x->type == KP_TV_STR && (arg[1].type == KP_TV_MISSING || kp_tv_is_int(&arg[1]))) {
		r = kp_pynum_parse_int(I, x, arg[1].type == KP_TV_MISSING ? 10 : arg[1].i, ret);
	} else if (kp_tv_is_int(x) || x->type == KP_TV_BIG) {
		*ret = *x;
		ret->type = x->type == KP_TV_BIG ? KP_TV_BIG : KP_TV_INT;
		return 0;
	} else if (x->type == KP_TV_FLOAT && isinf(x->f)) {
		return kp_tpl_fail(I, "cannot convert float infinity to integer");
	}
	if (r) {
		return r < 0 ? -1 : 0;
	}
	r = to_float(I, x, &f);
	if (r < 0) {
		return -1;
	}
	if (r > 0 && isfinite(f)) {
		return kp_pynum_from_double(I, trunc(f), x->origin, ret);
	}
	*ret = arg[0].type == KP_TV_MISSING ? kp_tv_int(0, KP_ORIGIN_TRUSTED) : arg[0];
	return 0;
}

/* float(default=0.0) */
FILTER(float)
{
	double f;
	int r = to_float(I, x, &f);
	*ret = r > 0                          ? kp_tv_float(f, x->origin)
	       : arg[0].type == KP_TV_MISSING ? kp_tv_float(0, KP_ORIGIN_TRUSTED)
					      : arg[0];
	return r < 0 ? -1 : 0;
}

/* round() of an integer to a negative number of digits, half to even. */
static int round_int(struct kp_interp *I, const struct kp_tv *x, int64_t digits, struct kp_tv *ret)
{
	int64_t unit = 1;
	*ret = *x;
	ret->type = x->type == KP_TV_BIG ? KP_TV_BIG : KP_TV_INT;
	for (int64_t i = digits; i < 0; i++) {
		if (x->type == KP_TV_BIG || __builtin_mul_overflow(unit, 10, &unit)) {
			return kp_tpl_fail(I, "integer overflow in round");
		}
	}
	if (unit > 1) {
		int64_t rest = x->i % unit, half = unit / 2, base = x->i - rest;
		int64_t away = rest < 0 ? -unit : unit, size = rest < 0 ? -rest : rest;
		bool up = size > half || (size == half && (base / unit) % 2 != 0);
		if (up && __builtin_add_overflow(base, away, &base)) {
			return kp_tpl_fail(I, "integer overflow in round");
		}
		ret->i = base;
	}
	return 0;
}

/* round(precision=0, method='common') */
FILTER(round)
{
	int64_t digits;
	kp_str method = arg[1].type == KP_TV_STR ? kp_tv_bytes(&arg[1]) : KP_STR_NULL;
	bool common = arg[1].type == KP_TV_MISSING || kp_str_eq(method, KP_S("common")),
	     ceiling = kp_str_eq(method, KP_S("ceil"));
	if (!common && !ceiling && !kp_str_eq(method, KP_S("floor"))) {
		return kp_tpl_fail(I, "method must be common, ceil or floor");
	}
	if (!kp_tv_is_num(x) && x->type != KP_TV_BIG) {
		return x->type == KP_TV_UNDEF && !common
			       ? kp_tpl_fail_undef(I, x)
			       : kp_tpl_fail(I, "type %s doesn't define __round__ method",
					 kp_tv_type_name(x));
	}
	if (kp_tpl_arg_int(I, &arg[0], 0, &digits)) {
		return -1;
	}
	if (common) {
		if (x->type != KP_TV_FLOAT) {
			return round_int(I, x, digits, ret);
		}
		*ret = kp_tv_float(kp_pynum_round(x->f, digits), x->origin);
		return 0;
	}
	double f, scale = pow(10.0, (double)digits);
	if (!kp_pynum_to_double(x, &f) || !isfinite(f * scale) || digits < -300 || digits > 300) {
		return kp_tpl_fail(I, "round: result out of range");
	}
	*ret = kp_tv_float((ceiling ? ceil(f * scale) : floor(f * scale)) / scale + 0.0, x->origin);
	return 0;
}

/* sum(attribute=None, start=0) */
FILTER(sum)
{
	struct kp_tpl_iter it;
	struct kp_tv v,
		missing = { 0 },
		acc = arg[1].type == KP_TV_MISSING ? kp_tv_int(0, KP_ORIGIN_TRUSTED) : arg[1];
	int r;
	if (acc.type == KP_TV_STR) {
		return kp_tpl_fail(I, "sum() can't sum strings [use ''.join(seq) instead]");
	}
	if (kp_tpl_iter_init(I, x, &it)) {
		return -1;
	}
	while ((r = kp_tpl_iter_next(I, &it, &v)) > 0) {
		if (kp_tpl_attr_path(I, &v, &arg[0], &missing, &v) ||
			kp_tpl_binary(I, KP_OP_ADD, &acc, &v, &acc)) {
			return -1;
		}
	}
	*ret = acc;
	return r;
}

/* filesizeformat(binary=False) */
FILTER(filesizeformat)
{
	static const char units[] = "kMGTPEZY";
	double bytes, base = kp_tv_truth(&arg[0]) ? 1024 : 1000, unit = base;
	char text[400]; /* a double has up to 309 digits in front of the point */
	int r = to_float(I, x, &bytes);
	if (r <= 0) {
		return r < 0 ? -1
			     : kp_tpl_fail(
				       I, "could not convert to float: '%s'", kp_tv_type_name(x));
	}
	if (bytes < base) {
		if (!isfinite(bytes)) {
			return kp_tpl_fail(I, "cannot convert float to integer");
		}
		snprintf(text, sizeof(text), bytes >= 1.0 && bytes <= 1.0 ? "1 Byte" : "%.0f Bytes",
			trunc(bytes) + 0.0); /* no -0 */
		return kp_tpl_str_dup(I, kp_str_c(text), x->origin, ret);
	}
	size_t i = 0;
	for (unit = base * base; i < 7 && !(bytes < unit); i++) {
		unit *= base;
	}
	char prefix = units[i];
	snprintf(text, sizeof(text), "%.1f %c%sB", base * bytes / unit,
		base > 1000 && prefix == 'k' ? 'K' : prefix, base > 1000 ? "i" : "");
	return kp_tpl_str_dup(I, kp_str_c(text), x->origin, ret);
}

const struct kp_tpl_def kp_tpl_filters_num[] = {
	{ .name = "int", .fn = f_int, .params = { "default", "base" } },
	{ .name = "float", .fn = f_float, .params = { "default" } },
	{ .name = "round", .fn = f_round, .params = { "precision", "method" } },
	{ .name = "abs", .fn = f_abs },
	{ .name = "sum", .fn = f_sum, .params = { "attribute", "start" } },
	{ .name = "filesizeformat", .fn = f_filesizeformat, .params = { "binary" } },
};
const size_t kp_tpl_n_filters_num = KP_LEN(kp_tpl_filters_num);

/* DESIGN: Python's arithmetic on template values. Integers are 64 bits wide: what would pass that is an error ("integer overflow"), never a
   wrong number; larger ones from JSON print and compare but do not compute. The result of a computation with client data is the
   client's, as far as it can be printed. Repetition and concatenation are bounded by the output budget, lists by the step budget. */
#include "template/ast.h"
#include "template/format.h"
#include "template/pynum.h"

#include <math.h>

static const char *op_text(int op)
{
	switch (op) {
	case KP_OP_ADD:
		return "+";
	case KP_OP_SUB:
		return "-";
	case KP_OP_MUL:
		return "*";
	case KP_OP_DIV:
		return "/";
	case KP_OP_FLOORDIV:
		return "//";
	case KP_OP_MOD:
		return "%";
	default:
		return "** or pow()";
	}
}

static int type_error(struct kp_interp *I, int op, const struct kp_tv *a, const struct kp_tv *b)
{
	if (a->type == KP_TV_UNDEF || b->type == KP_TV_UNDEF) {
		return kp_tpl_fail_undef(I, a->type == KP_TV_UNDEF ? a : b);
	}
	if (a->type == KP_TV_BIG || b->type == KP_TV_BIG) {
		return kp_tpl_fail(I, "integer overflow: no arithmetic beyond 64 bits");
	}
	if (op == KP_OP_ADD && a->type == KP_TV_STR) {
		return kp_tpl_fail(
			I, "can only concatenate str (not \"%s\") to str", kp_tv_type_name(b));
	}
	return kp_tpl_fail(I, "unsupported operand type(s) for %s: '%s' and '%s'", op_text(op),
		kp_tv_type_name(a), kp_tv_type_name(b));
}

static int overflow(struct kp_interp *I, int op)
{
	return kp_tpl_fail(I, "integer overflow: the result of %s is beyond 64 bits", op_text(op));
}

static int zero_division(struct kp_interp *I)
{
	return kp_tpl_fail(I, "division by zero");
}

static bool power(int64_t base, int64_t exp, int64_t *ret)
{
	int64_t r = 1;
	while (exp) {
		if ((exp & 1) && __builtin_mul_overflow(r, base, &r)) {
			return false;
		}
		exp >>= 1;
		if (exp && __builtin_mul_overflow(base, base, &base)) {
			return false;
		}
	}
	*ret = r;
	return true;
}

static int float_op(
	struct kp_interp *I, int op, double a, double b, uint8_t origin, struct kp_tv *ret);

/* a / b rounded once, as Python does it; b is not 0. */
static double quotient(int64_t a, int64_t b)
{
	__extension__ typedef unsigned __int128 wide;
	const int64_t exact = INT64_C(1) << 53; /* up to this a double holds them */
	if (a >= -exact && a <= exact && b >= -exact && b <= exact) {
		return (double)a / (double)b;
	}
	uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a,
		 y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
	int up = 64 + (x ? __builtin_clzll(x) : 0), down = 0;
	wide n = (wide)x << (up - 64) << 64, q = n / y;
	bool rest = n % y != 0;
	for (; q >> 64;
		q >>= 1, down++) { /* to 64 bits, the last one set when anything is cut off */
		rest = rest || (q & 1);
	}
	double r = ldexp((double)((uint64_t)q | rest), down - up);
	return (a < 0) != (b < 0) ? -r : r;
}

static int int_op(
	struct kp_interp *I, int op, int64_t a, int64_t b, uint8_t origin, struct kp_tv *ret)
{
	int64_t r = 0;
	bool over = false;
	switch (op) {
	case KP_OP_ADD:
		over = __builtin_add_overflow(a, b, &r);
		break;
	case KP_OP_SUB:
		over = __builtin_sub_overflow(a, b, &r);
		break;
	case KP_OP_MUL:
		over = __builtin_mul_overflow(a, b, &r);
		break;
	case KP_OP_DIV:
		if (!b) {
			return zero_division(I);
		}
		*ret = kp_tv_float(quotient(a, b), origin);
		return 0;
	case KP_OP_FLOORDIV:
	case KP_OP_MOD:
		if (!b) {
			return zero_division(I);
		}
		if (b == -1) { /* INT64_MIN / -1 traps */
			over = op == KP_OP_FLOORDIV && __builtin_sub_overflow((int64_t)0, a, &r);
			break;
		}
		r = op == KP_OP_MOD ? a % b : a / b;
		if (a % b && (a % b < 0) != (b < 0)) {
			r += op == KP_OP_MOD ? b : -1;
		}
		break;
	case KP_OP_POW:
		if (b < 0) {
			return float_op(I, op, (double)a, (double)b, origin, ret);
		}
		over = !power(a, b, &r);
		break;
	default:
		break;
	}
	if (over) {
		return overflow(I, op);
	}
	*ret = kp_tv_int(r, origin);
	return 0;
}

/* Python's float divmod. */
static void float_divmod(double a, double b, double *ret_div, double *ret_mod)
{
	double mod = fmod(a, b), div = (a - mod) / b;
	if (fpclassify(mod) != FP_ZERO) {
		if ((b < 0) != (mod < 0)) {
			mod += b;
			div -= 1.0;
		}
	} else {
		mod = copysign(0.0, b);
	}
	double whole = 0;
	if (fpclassify(div) != FP_ZERO) {
		whole = floor(div);
		whole += div - whole > 0.5 ? 1.0 : 0.0;
	} else {
		whole = copysign(0.0, a / b);
	}
	*ret_div = whole;
	*ret_mod = mod;
}

static int float_pow(struct kp_interp *I, double a, double b, double *ret)
{
	if (fpclassify(a) == FP_ZERO && b < 0) {
		return kp_tpl_fail(I, "0.0 cannot be raised to a negative power");
	}
	if (a < 0 && isfinite(a) && isfinite(b) && floor(b) < b) {
		return kp_tpl_fail(I, "complex numbers are not supported");
	}
	*ret = pow(a, b);
	if (isinf(*ret) && isfinite(a) && isfinite(b)) {
		return kp_tpl_fail(I, "numerical result out of range");
	}
	return 0;
}

static int float_op(
	struct kp_interp *I, int op, double a, double b, uint8_t origin, struct kp_tv *ret)
{
	double r = 0, other;
	switch (op) {
	case KP_OP_ADD:
		r = a + b;
		break;
	case KP_OP_SUB:
		r = a - b;
		break;
	case KP_OP_MUL:
		r = a * b;
		break;
	case KP_OP_POW:
		if (float_pow(I, a, b, &r)) {
			return -1;
		}
		break;
	default:
		if (fpclassify(b) == FP_ZERO) {
			return zero_division(I);
		}
		if (op == KP_OP_DIV) {
			r = a / b;
		} else {
			float_divmod(a, b, op == KP_OP_FLOORDIV ? &r : &other,
				op == KP_OP_MOD ? &r : &other);
		}
		break;
	}
	*ret = kp_tv_float(r, origin);
	return 0;
}

static int concat_lists(
	struct kp_interp *I, const struct kp_tv *a, const struct kp_tv *b, struct kp_tv *ret)
{
	size_t n = (size_t)a->n + b->n;
	struct kp_tv *items = kp_tpl_alloc(I, n, sizeof(*items));
	if (!items || n > UINT32_MAX || kp_tpl_charge(I, n / 8)) {
		return items && n <= UINT32_MAX ? -1 : kp_tpl_fail_memory(I);
	}
	for (uint32_t i = 0; i < a->n; i++) {
		items[i] = kp_tv_item(a, i);
	}
	for (uint32_t i = 0; i < b->n; i++) {
		items[a->n + i] = kp_tv_item(b, i);
	}
	*ret = (struct kp_tv){ .type = a->type,
		.origin = kp_origin_mix(a->origin, b->origin),
		.n = (uint32_t)n,
		.items = items };
	return 0;
}

/* markupsafe: the side that is no Markup is escaped. */
static int concat_markup(
	struct kp_interp *I, const struct kp_tv *a, const struct kp_tv *b, struct kp_tv *ret)
{
	struct kp_tv x, y;
	if (kp_tpl_escape(I, a, &x) || kp_tpl_escape(I, b, &y) ||
		kp_tpl_str_concat(I, &x, &y, ret)) {
		return -1;
	}
	ret->flags |= KP_TVF_MARKUP;
	return 0;
}

static int repeat(struct kp_interp *I, const struct kp_tv *seq, int64_t times, struct kp_tv *ret)
{
	times = seq->n ? KP_MAX(times, (int64_t)0) : 0;
	if (seq->type == KP_TV_STR) {
		struct kp_tpl_buf *b;
		if (times > (int64_t)I->max_output) {
			return kp_err_set(I->err, KP_RESOURCE_EXHAUSTED,
				"render template: line %u: text of more than %zu bytes", I->line,
				I->max_output);
		}
		if (kp_tpl_charge(I, (uint64_t)times) || kp_tpl_buf_new(I, 0, &b)) {
			return -1;
		}
		for (int64_t i = 0; i < times; i++) {
			if (kp_tpl_buf_add_str(I, b, seq)) {
				return -1;
			}
		}
		*ret = kp_tpl_buf_value(b);
		ret->flags |= seq->flags & KP_TVF_MARKUP;
		return 0;
	}
	size_t n;
	if (times > UINT32_MAX || !kp_size_mul(seq->n, (size_t)times, &n) || n > UINT32_MAX / 2) {
		return kp_tpl_fail_steps(I);
	}
	if (kp_tpl_charge(I, n)) {
		return -1;
	}
	struct kp_tv *items = kp_tpl_alloc(I, n, sizeof(*items));
	if (!items) {
		return -1;
	}
	for (size_t i = 0; i < n; i++) {
		items[i] = kp_tv_item(seq, (uint32_t)(i % seq->n));
	}
	*ret = (struct kp_tv){
		.type = seq->type, .origin = seq->origin, .n = (uint32_t)n, .items = items
	};
	return 0;
}

static bool is_sequence(const struct kp_tv *v)
{
	return v->type == KP_TV_STR || v->type == KP_TV_LIST || v->type == KP_TV_TUPLE;
}

/* float op BIG and BIG op float compute as floats do. */
static int big_op(struct kp_interp *I, int op, const struct kp_tv *a, const struct kp_tv *b,
	uint8_t origin, struct kp_tv *ret)
{
	double x, y;
	if ((a->type != KP_TV_FLOAT && b->type != KP_TV_FLOAT) || !kp_pynum_to_double(a, &x) ||
		!kp_pynum_to_double(b, &y)) {
		return type_error(I, op, a, b);
	}
	return float_op(I, op, x, y, origin, ret);
}

static bool numeric(const struct kp_tv *v)
{
	return kp_tv_is_num(v) || v->type == KP_TV_BIG;
}

int kp_tpl_binary(struct kp_interp *I, int op, const struct kp_tv *a, const struct kp_tv *b,
	struct kp_tv *ret)
{
	uint8_t origin = kp_origin_mix(a->origin, b->origin);
	if (kp_tv_is_int(a) && kp_tv_is_int(b)) {
		return int_op(I, op, a->i, b->i, origin, ret);
	}
	if (kp_tv_is_num(a) && kp_tv_is_num(b)) {
		return float_op(I, op, a->type == KP_TV_FLOAT ? a->f : (double)a->i,
			b->type == KP_TV_FLOAT ? b->f : (double)b->i, origin, ret);
	}
	if (numeric(a) && numeric(b)) {
		return big_op(I, op, a, b, origin, ret);
	}
	if (op == KP_OP_ADD && a->type == b->type) {
		if (a->type == KP_TV_STR) {
			return (a->flags | b->flags) & KP_TVF_MARKUP
				       ? concat_markup(I, a, b, ret)
				       : kp_tpl_str_concat(I, a, b, ret);
		}
		if (a->type == KP_TV_LIST || a->type == KP_TV_TUPLE) {
			return concat_lists(I, a, b, ret);
		}
	}
	if (op == KP_OP_MUL && is_sequence(a) && kp_tv_is_int(b)) {
		return repeat(I, a, b->i, ret);
	}
	if (op == KP_OP_MUL && is_sequence(b) && kp_tv_is_int(a)) {
		return repeat(I, b, a->i, ret);
	}
	if (op == KP_OP_MOD && a->type == KP_TV_STR) {
		return kp_tpl_percent(I, a, b, ret);
	}
	return type_error(I, op, a, b);
}

static int negate_big(struct kp_interp *I, const struct kp_tv *a, struct kp_tv *ret)
{
	kp_str s = kp_tv_bytes(a);
	if (s.p[0] == '-') {
		*ret = *a;
		ret->s++;
		ret->n--;
		return 0;
	}
	char *p = kp_tpl_alloc(I, s.n + 1, 1);
	if (!p) {
		return -1;
	}
	p[0] = '-';
	memcpy(p + 1, s.p, s.n);
	int64_t v;
	if (kp_str_i64(kp_str_n(p, s.n + 1), INT64_MIN, INT64_MAX, &v)) {
		*ret = kp_tv_int(v, a->origin);
		return 0;
	}
	*ret = *a;
	ret->s = p;
	ret->n++;
	return 0;
}

int kp_tpl_unary(struct kp_interp *I, int op, const struct kp_tv *a, struct kp_tv *ret)
{
	if (a->type == KP_TV_FLOAT) {
		*ret = kp_tv_float(op == KP_OP_NEG ? -a->f : a->f, a->origin);
		return 0;
	}
	if (a->type == KP_TV_BIG) {
		*ret = *a;
		return op == KP_OP_NEG ? negate_big(I, a, ret) : 0;
	}
	if (kp_tv_is_int(a)) {
		*ret = kp_tv_int(a->i, a->origin);
		return op == KP_OP_NEG && __builtin_sub_overflow((int64_t)0, a->i, &ret->i)
			       ? overflow(I, KP_OP_SUB)
			       : 0;
	}
	if (a->type == KP_TV_UNDEF) {
		return kp_tpl_fail_undef(I, a);
	}
	return kp_tpl_fail(I, "bad operand type for unary %s: '%s'", op == KP_OP_NEG ? "-" : "+",
		kp_tv_type_name(a));
}

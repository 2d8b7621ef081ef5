/* DESIGN: jinja2's tests (`x is name`), all of them. Those that compare use the operators' own rules; sequence and iterable ask what Python's
   protocols would answer. */
#include "template/ast.h"
#include "template/funcs.h"

#include <math.h>

#define TEST(name)                                                                               \
	static int t_##name(struct kp_interp *I, const struct kp_tv *x, const struct kp_tv *arg, \
		struct kp_tv *ret)

/* The tests that only look at the value. */
#define TYPE_TEST(name, condition)            \
	TEST(name)                            \
	{                                     \
		(void)I;                      \
		(void)arg;                    \
		*ret = kp_tv_bool(condition); \
		return 0;                     \
	}
TYPE_TEST(defined, x->type != KP_TV_UNDEF)
TYPE_TEST(undefined, x->type == KP_TV_UNDEF)
TYPE_TEST(none, x->type == KP_TV_NONE)
TYPE_TEST(boolean, x->type == KP_TV_BOOL)
TYPE_TEST(is_false, x->type == KP_TV_BOOL && !x->i)
TYPE_TEST(is_true, x->type == KP_TV_BOOL && x->i)
TYPE_TEST(integer, x->type == KP_TV_INT || x->type == KP_TV_BIG)
TYPE_TEST(float, x->type == KP_TV_FLOAT)
TYPE_TEST(string, x->type == KP_TV_STR)
TYPE_TEST(mapping, x->type == KP_TV_DICT)
TYPE_TEST(number, kp_tv_is_num(x) || x->type == KP_TV_BIG)
TYPE_TEST(iterable, kp_tv_iterable(x) || x->type == KP_TV_LOOP)
TYPE_TEST(sequence, x->type == KP_TV_UNDEF || x->type == KP_TV_STR || x->type == KP_TV_LIST ||
			    x->type == KP_TV_TUPLE || x->type == KP_TV_DICT ||
			    x->type == KP_TV_RANGE)
TYPE_TEST(escaped, x->type == KP_TV_STR && (x->flags & KP_TVF_MARKUP))
TYPE_TEST(callable, x->type == KP_TV_MACRO || x->type == KP_TV_FUNC || x->type == KP_TV_METHOD ||
			    x->type == KP_TV_JOINER || x->type == KP_TV_LOOP ||
			    x->type == KP_TV_UNDEF)
TYPE_TEST(filter, x->type == KP_TV_STR && kp_tpl_filter(kp_tv_bytes(x)))
TYPE_TEST(test, x->type == KP_TV_STR && kp_tpl_test(kp_tv_bytes(x)))

static int result(int r, struct kp_tv *ret)
{
	*ret = kp_tv_bool(r > 0);
	return r < 0 ? -1 : 0;
}

static int remainder_is(struct kp_interp *I, const struct kp_tv *x, const struct kp_tv *by,
	int64_t want, struct kp_tv *ret)
{
	struct kp_tv rest, w = kp_tv_int(want, KP_ORIGIN_TRUSTED);
	return kp_tpl_binary(I, KP_OP_MOD, x, by, &rest) ? -1 : result(kp_tv_eq(I, &rest, &w), ret);
}

TEST(odd)
{
	(void)arg;
	struct kp_tv two = kp_tv_int(2, KP_ORIGIN_TRUSTED);
	return remainder_is(I, x, &two, 1, ret);
}

TEST(even)
{
	(void)arg;
	struct kp_tv two = kp_tv_int(2, KP_ORIGIN_TRUSTED);
	return remainder_is(I, x, &two, 0, ret);
}

TEST(divisibleby)
{
	return remainder_is(I, x, &arg[0], 0, ret);
}

static int case_test(struct kp_interp *I, const struct kp_tv *x, unsigned want, unsigned other,
	struct kp_tv *ret)
{
	struct kp_tv s;
	if (kp_tpl_to_str(I, x, &s) || kp_tpl_charge(I, s.n / 8)) {
		return -1;
	}
	*ret = kp_tv_bool(kp_tpl_str_all_case(kp_tv_bytes(&s), want, other));
	return 0;
}

TEST(lower)
{
	(void)arg;
	return case_test(I, x, KP_UCD_LOWER, KP_UCD_UPPER, ret);
}

TEST(upper)
{
	(void)arg;
	return case_test(I, x, KP_UCD_UPPER, KP_UCD_LOWER, ret);
}

TEST(sameas)
{
	(void)I;
	*ret = kp_tv_bool(kp_tv_same(x, &arg[0]));
	return 0;
}

TEST(in)
{
	return result(kp_tv_in(I, x, &arg[0]), ret);
}

TEST(eq)
{
	return result(kp_tv_eq(I, x, &arg[0]), ret);
}

TEST(ne)
{
	int r = kp_tv_eq(I, x, &arg[0]);
	return result(r < 0 ? r : !r, ret);
}

TEST(lt)
{
	return result(kp_tv_lt(I, x, &arg[0]), ret);
}

TEST(gt)
{
	return result(kp_tv_lt(I, &arg[0], x), ret);
}

TEST(le)
{
	int r = kp_tv_lt(I, x, &arg[0]);
	return result(r ? r : kp_tv_eq(I, x, &arg[0]), ret);
}

TEST(ge)
{
	int r = kp_tv_lt(I, &arg[0], x);
	return result(r ? r : kp_tv_eq(I, x, &arg[0]), ret);
}

#define T0(n)                           \
	{                               \
		.name = #n, .fn = t_##n \
	}
#define T1(n, f)                                                                                  \
	{                                                                                         \
		.name = n, .fn = t_##f, .n_required = 1, .n_positional = 1, .params = { "other" } \
	}
const struct kp_tpl_def kp_tpl_tests[] = {
	T0(defined),
	T0(string),
	T0(none),
	T0(mapping),
	T0(iterable),
	T1("equalto", eq),
	T1("==", eq),
	T1("eq", eq),
	T0(undefined),
	T0(sequence),
	T0(boolean),
	{ .name = "false", .fn = t_is_false },
	{ .name = "true", .fn = t_is_true },
	T0(number),
	T0(integer),
	T0(float),
	T0(odd),
	T0(even),
	T0(lower),
	T0(upper),
	T0(callable),
	T0(escaped),
	T0(filter),
	T0(test),
	{ .name = "divisibleby", .fn = t_divisibleby, .n_required = 1, .params = { "num" } },
	{ .name = "sameas", .fn = t_sameas, .n_required = 1, .params = { "other" } },
	{ .name = "in", .fn = t_in, .n_required = 1, .params = { "seq" } },
	T1("ne", ne),
	T1("!=", ne),
	T1("gt", gt),
	T1(">", gt),
	T1("greaterthan", gt),
	T1("ge", ge),
	T1(">=", ge),
	T1("lt", lt),
	T1("<", lt),
	T1("lessthan", lt),
	T1("le", le),
	T1("<=", le),
};
const size_t kp_tpl_n_tests = KP_LEN(kp_tpl_tests);

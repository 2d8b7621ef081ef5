/* Who was refused a certificate: by pod, by address, for a while, and only so many. */
#include "operator/refusals.h"
#include "tests/test.h"

static void test_find(void **state)
{
	struct kp_refusals r = { 0 };
	(void)state;
	assert_str(kp_refusals_find(&r, KP_S("u1"), KP_S("10.0.0.1"), 0), KP_S(""));
	kp_refusals_note(&r, KP_S(""), KP_S("10.0.0.1"), KP_S("whose?"), 1);
	assert_str(kp_refusals_find(&r, KP_S("u1"), KP_S("10.0.0.1"), 2), KP_S("whose?"));
	assert_str(kp_refusals_find(&r, KP_S("u1"), KP_S("10.0.0.2"), 2), KP_S(""));
	kp_refusals_note(&r, KP_S("u1"), KP_S("10.0.0.1"), KP_S("not you"), 3);
	assert_str(kp_refusals_find(&r, KP_S("u1"), KP_S(""), 4), KP_S("not you"));
	assert_str(kp_refusals_find(&r, KP_S(""), KP_S("10.0.0.1"), 4), KP_S(""));
	assert_str(kp_refusals_find(&r, KP_S("u1"), KP_S(""), 3 + KP_REFUSAL_NS), KP_S(""));
	kp_refusals_note(&r, KP_S("u1"), KP_S("10.0.0.1"), KP_S(""), 5);
	assert_str(kp_refusals_find(&r, KP_S("u1"), KP_S(""), 6), KP_S(""));
	kp_refusals_fini(&r);
}

static void test_limit(void **state)
{
	struct kp_refusals r = { 0 };
	char who[32];
	(void)state;
	for (int i = 0; i <= KP_REFUSALS_MAX; i++) {
		snprintf(who, sizeof(who), "u%d", i);
		kp_refusals_note(&r, kp_str_c(who), KP_S(""), KP_S("no"), i);
	}
	assert_int_equal(r.by_who.n, KP_REFUSALS_MAX);
	assert_str(kp_refusals_find(&r, KP_S("u0"), KP_S(""), KP_REFUSALS_MAX), KP_S(""));
	assert_str(kp_refusals_find(&r, KP_S("u1"), KP_S(""), KP_REFUSALS_MAX), KP_S("no"));
	kp_refusals_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_find),
		cmocka_unit_test(test_limit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

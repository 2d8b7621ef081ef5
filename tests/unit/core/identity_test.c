/* Whose certificates are of a namespace. */
#include "core/identity.h"
#include "tests/test.h"

#define NAMES(...) \
	(const kp_str[]){ __VA_ARGS__ }, sizeof((kp_str[]){ __VA_ARGS__ }) / sizeof(kp_str)

static bool is_of(const char *ns, const kp_str *names, size_t n)
{
	struct kp_err err = KP_ERR_INIT;
	int r = kp_identity_check_namespace(names, n, kp_str_c(ns), &err);
	assert_int_equal(err.code, r ? KP_PERMISSION_DENIED : KP_OK);
	return r == 0;
}

static void test_spiffe(void **state)
{
	(void)state;
	assert_true(is_of("a", NAMES(KP_S("gw"), KP_S("spiffe://cluster.local/ns/a/sa/gateway"))));
	assert_true(is_of("a", NAMES(KP_S("spiffe://x/ns/a"))));
	assert_true(is_of("a", NAMES(KP_S("spiffe://x/ns/a/"))));
	assert_true(is_of("b", NAMES(KP_S("spiffe://x/ns/a"), KP_S("spiffe://x/ns/b"))));
	assert_false(is_of("b", NAMES(KP_S("spiffe://x/ns/a"))));
	assert_false(is_of("default", NAMES(KP_S("default"), KP_S("spiffe://x/ns/a"))));
}

/* One that is of no namespace is not of `default` either. */
static void test_other_forms(void **state)
{
	(void)state;
	static const char *const others[] = { "spiffe://", "spiffe://x", "spiffe://x/",
		"spiffe://x/ns", "spiffe://x/ns/", "spiffe:///ns", "spiffe://x/sa/default",
		"spiffe://x/y/ns/default", "spiffe://x/NS/default", "spiffe://x/ns/Default",
		"spiffe://x/ns//default", "spiffe://ns/default" };
	for (size_t i = 0; i < KP_LEN(others); i++) {
		if (is_of("default", NAMES(kp_str_c(others[i])))) {
			fail_msg("%s", others[i]);
		}
		assert_false(is_of("", NAMES(kp_str_c(others[i]))));
	}
}

static void test_without(void **state)
{
	(void)state;
	assert_true(is_of("default", NAMES(KP_S("gw"), KP_S("https://x/ns/a"))));
	assert_true(is_of("default", NULL, 0));
	assert_false(is_of("a", NAMES(KP_S("gw"), KP_S("https://x/ns/a"))));
	assert_false(is_of("", NULL, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spiffe),
		cmocka_unit_test(test_other_forms),
		cmocka_unit_test(test_without),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

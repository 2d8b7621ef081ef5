/* Names of tools, and whether somebody is asked. */
#include "mcp/tools.h"
#include "tests/test.h"

static void test_mc_05_names_do_not_collide(void **state)
{
	(void)state;
	static const struct {
		const char *label, *tool, *want; /* want NULL: it ends with a hash */
	} cases[] = {
		{ "github", "search", "github__search" },
		{ "a-b", "c_d", "a-b__c_d" },
		{ "a", "b.c", NULL },
		{ "a", "b/c", NULL },
		{ "a", "b c", NULL },
		{ "a", "b\xc3\xa9", NULL },
		{ "a", "b_c", "a__b_c" },
		{ "a", "123456789012345678901234567890123456789012345678901234567890", NULL },
		{ "a", "12345678901234567890123456789012345678901234567890123456789012", NULL },
		{ "a", "1234567890123456789012345678901234567890123456789012345678901",
			"a__1234567890123456789012345678901234567890123456789012345678901" },
	};
	char got[KP_LEN(cases)][KP_MCP_EXPOSED_MAX + 1];
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		kp_mcp_expose(kp_str_c(cases[i].label), kp_str_c(cases[i].tool), got[i]);
		size_t n = strlen(got[i]);
		assert_true(n <= KP_MCP_EXPOSED_MAX);
		if (cases[i].want) {
			assert_string_equal(got[i], cases[i].want);
		} else if (i != 7) {
			assert_int_equal(got[i][n - 9], '_');
		}
		for (size_t k = 0; k < i; k++) {
			assert_string_not_equal(got[i], got[k]);
		}
	}
	/* Fixed for ever: it stands in stored conversations. */
	kp_mcp_expose(KP_S("a"), KP_S("b.c"), got[0]);
	assert_string_equal(got[0], "a__b_c_65740307");
}

static void test_labels(void **state)
{
	(void)state;
	static const char *const good[] = { "a", "A-1_b", "12345678901234567890123456789012" },
				 *const bad[] = { "", "a__b", "a_", "a b", "a.b", "\xc3\xa9",
					 "123456789012345678901234567890123" };
	struct kp_err err;
	for (size_t i = 0; i < KP_LEN(good); i++) {
		assert_int_equal(kp_mcp_label_check(kp_str_c(good[i]), &err), 0);
	}
	for (size_t i = 0; i < KP_LEN(bad); i++) {
		assert_int_equal(kp_mcp_label_check(kp_str_c(bad[i]), &err), -1);
		assert_int_equal(err.code, KP_INVALID_ARGUMENT);
	}
}

static void test_mc_07_and_mc_08_who_is_asked(void **state)
{
	(void)state;
	const kp_str names[] = { KP_S("get"), KP_S("drop") };
	const struct kp_mcp_tool get = { .name = KP_S("get"), .is_read_only = true },
				 drop = { .name = KP_S("drop") },
				 look = { .name = KP_S("look"), .is_read_only = true };
	const struct kp_mcp_filter none = { 0 },
				   named = { .names = names, .n_names = 2, .has_names = true },
				   empty = { .has_names = true },
				   readers = { .has_read_only = true, .read_only = true },
				   writers = { .has_read_only = true },
				   both = { .names = names,
					   .n_names = 2,
					   .has_names = true,
					   .has_read_only = true,
					   .read_only = true };
	struct kp_mcp_approval a = { 0 };
	assert_true(kp_mcp_needs_approval(&a, &get)); /* nothing said: always */
	a.rule = KP_MCP_APPROVAL_ALWAYS;
	assert_true(kp_mcp_needs_approval(&a, &get));
	a.rule = KP_MCP_APPROVAL_NEVER;
	assert_false(kp_mcp_needs_approval(&a, &drop));
	a.always = named; /* the exceptions */
	assert_true(kp_mcp_needs_approval(&a, &drop));
	assert_false(kp_mcp_needs_approval(&a, &look));
	a = (struct kp_mcp_approval){ .rule = KP_MCP_APPROVAL_BY_TOOL, .never = named };
	assert_false(kp_mcp_needs_approval(&a, &drop));
	assert_true(kp_mcp_needs_approval(&a, &look));
	a.never = readers;
	assert_true(kp_mcp_needs_approval(&a, &drop));
	assert_false(kp_mcp_needs_approval(&a, &look));
	a.never = both;
	assert_false(kp_mcp_needs_approval(&a, &get));
	assert_true(kp_mcp_needs_approval(&a, &drop));
	assert_true(kp_mcp_needs_approval(&a, &look));
	a.always = named; /* it wins */
	assert_true(kp_mcp_needs_approval(&a, &get));
	a = (struct kp_mcp_approval){ .rule = KP_MCP_APPROVAL_BY_TOOL, .always = named };
	assert_true(kp_mcp_needs_approval(&a, &look)); /* what nobody spoke of is asked */
	assert_false(kp_mcp_filter_has(&none, &get));
	assert_false(kp_mcp_filter_has(&empty, &get));
	assert_true(kp_mcp_filter_has(&writers, &drop));
	assert_false(kp_mcp_filter_has(&writers, &get));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mc_05_names_do_not_collide),
		cmocka_unit_test(test_labels),
		cmocka_unit_test(test_mc_07_and_mc_08_who_is_asked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

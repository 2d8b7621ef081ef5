/* Quantities as Kubernetes writes them, in thousandths. */
#include "inject/internal.h"
#include "tests/test.h"

static void quantities(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int64_t milli;
	} table[] = { { "0", 0 }, { "1", 1000 }, { "500m", 500 }, { "0.5", 500 }, { ".5", 500 },
		{ "5.", 5000 }, { "1.5", 1500 }, { "100u", 1 }, { "1n", 1 }, { "1001u", 2 },
		{ "0.0001", 1 }, { "1k", 1000000 }, { "1Ki", 1024000 }, { "1.5Ki", 1536000 },
		{ "512Mi", INT64_C(512) * 1024 * 1024 * 1000 }, { "20G", INT64_C(20000000000000) },
		{ "2Gi", INT64_C(2) * 1024 * 1024 * 1024 * 1000 },
		{ "1Ti", INT64_C(1024) * 1024 * 1024 * 1024 * 1000 }, { "1e3", 1000000 },
		{ "1E3", 1000000 }, { "1e+2", 100000 }, { "5e-1", 500 }, { "000001", 1000 },
		{ "0.000001E", INT64_C(1000000000000000) },
		{ "0.000001Ei", INT64_C(1152921504606847) } };
	for (size_t i = 0; i < KP_LEN(table); i++) {
		int64_t got = -1;
		if (!kp_quantity_milli(kp_str_c(table[i].text), &got) || got != table[i].milli) {
			print_error("%s: %lld\n", table[i].text, (long long)got);
			fail();
		}
	}
	static const char *const bad[] = { "", "m", ".", "Ki", "-1", "+1", " 1", "1 ", "1.2.3",
		"1ki", "1KI", "1e", "1e13", "1e-", "1ex", "0x1", "1,5", "1Gi ", "9999999999999999",
		"1Pi1", "16Pi", "NaN", "inf", "\xd9\xa1" };
	for (size_t i = 0; i < KP_LEN(bad); i++) {
		int64_t got;
		if (kp_quantity_milli(kp_str_c(bad[i]), &got)) {
			print_error("`%s` was taken: %lld\n", bad[i], (long long)got);
			fail();
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(quantities) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}

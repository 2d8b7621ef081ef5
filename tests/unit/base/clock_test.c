/* Times as text, and back. */
#include "base/clock.h"
#include "tests/test.h"

static void test_ages_as_kubectl_prints_them(void **state)
{
	static const struct {
		int64_t s;
		const char *text;
	} cases[] = { { -5, "0s" }, { 0, "0s" }, { 119, "119s" }, { 120, "2m" }, { 125, "2m5s" },
		{ 599, "9m59s" }, { 600, "10m" }, { 659, "10m" }, { 10799, "179m" },
		{ 10800, "3h" }, { 11520, "3h12m" }, { 28799, "7h59m" }, { 28800, "8h" },
		{ 172799, "47h" }, { 172800, "2d" }, { 176400, "2d1h" }, { 691199, "7d23h" },
		{ 691200, "8d" }, { 63071999, "729d" }, { 63072000, "2y" }, { 63158400, "2y1d" },
		{ 252287999, "7y364d" }, { 252288000, "8y" }, { 9000000000, "285y" } };
	char buf[KP_AGE_TEXT_MAX];
	(void)state;
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		kp_age_text(cases[i].s * KP_NS_PER_S + KP_NS_PER_S / 2 * (cases[i].s >= 0), buf);
		assert_string_equal(buf, cases[i].text);
	}
}

static void test_times_there_and_back(void **state)
{
	static const int64_t times[] = { 0, 1, 951782400, 1795968726, 4102444799, 253402300799 };
	(void)state;
	for (size_t i = 0; i < KP_LEN(times); i++) {
		char text[25];
		int64_t ns = KP_MIN(times[i], INT64_MAX / KP_NS_PER_S - 1) * KP_NS_PER_S +
			     123 * KP_NS_PER_MS,
			got = -1;
		kp_time_rfc3339(ns, text);
		assert_true(kp_time_parse(kp_str_c(text), &got));
		assert_int_equal(got, ns);
	}
	int64_t got;
	assert_true(kp_time_parse(KP_S("2024-02-29T23:59:59Z"), &got));
	assert_int_equal(got, INT64_C(1709251199) * KP_NS_PER_S);
	assert_true(kp_time_parse(KP_S("1970-01-01T00:00:00.123456789Z"), &got));
	assert_int_equal(got, 123456789);
	static const char *const bad[] = { "", "2024-02-29", "2023-02-29T00:00:00Z",
		"2024-13-01T00:00:00Z", "2024-00-01T00:00:00Z", "2024-01-00T00:00:00Z",
		"2024-04-31T00:00:00Z", "2024-01-01T24:00:00Z", "2024-01-01T00:60:00Z",
		"2024-01-01T00:00:60Z", "2024-01-01T00:00:00", "2024-01-01T00:00:00.Z",
		"2024-01-01T00:00:00.1", "2024-01-01T00:00:00.1234567890Z",
		"2024-01-01T00:00:00+01:00", "2024-01-01T00:00:00Zx", "2024-01-01 00:00:00Z",
		"+024-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59Z" };
	for (size_t i = 0; i < KP_LEN(bad); i++) {
		if (kp_time_parse(kp_str_c(bad[i]), &got)) {
			print_error("%s was taken\n", bad[i]);
			fail();
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ages_as_kubectl_prints_them),
		cmocka_unit_test(test_times_there_and_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Numbers against libc: kp_str_f64 gives what strtod gives, for texts printed from random doubles and for random number-like
   texts; the integer readers and writers are inverse. */
#include "base/buf.h"
#include "base/str.h"
#include "tests/test.h"

#include <math.h>
#include <regex.h>

static void printed_doubles_come_back(void **state)
{
	(void)state;
	struct kp_rng rng;
	kp_rng_seed(&rng, test_seed());
	for (int i = 0; i < 200000; i++) {
		uint64_t bits = kp_rng_next(&rng);
		double want, got;
		memcpy(&want, &bits, sizeof(want));
		if (!isfinite(want)) {
			continue;
		}
		char text[64];
		int n = snprintf(text, sizeof(text), "%.*e", (int)kp_rng_below(&rng, 25), want);
		char *end;
		want = strtod(text, &end);
		assert_ptr_equal(end, text + n);
		if (!isfinite(want)) { /* rounded up when printed short */
			assert_false(kp_str_f64(kp_str_c(text), &got));
			continue;
		}
		assert_true(kp_str_f64(kp_str_c(text), &got));
		assert_memory_equal(&got, &want, sizeof(got));
	}
}

static void the_grammar_is_json_s(void **state)
{
	(void)state;
	static const char set[] = "-0123456789.eE+ x";
	regex_t number; /* RFC 8259, section 6 */
	assert_int_equal(regcomp(&number, "^-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][+-]?[0-9]+)?$",
				 REG_EXTENDED | REG_NOSUB),
		0);
	struct kp_rng rng;
	kp_rng_seed(&rng, test_seed());
	int yes = 0;
	for (int i = 0; i < 300000; i++) {
		char text[12];
		size_t n = kp_rng_below(&rng, 10);
		for (size_t k = 0; k < n; k++) {
			text[k] = set[kp_rng_below(&rng, sizeof(set) - 1)];
		}
		text[n] = '\0';
		double v = 0, want = strtod(text, NULL);
		bool want_ok = regexec(&number, text, 0, NULL, 0) == 0 && isfinite(want);
		if (kp_str_f64(kp_str_n(text, n), &v) != want_ok) {
			fail_msg("`%s` should %s", text,
				want_ok ? "be a number" : "not be a number");
		}
		if (want_ok) {
			assert_memory_equal(&v, &want, sizeof(v));
			yes++;
		}
	}
	regfree(&number);
	assert_in_range(yes, 1000, 300000);
}

static void integers_come_back(void **state)
{
	(void)state;
	struct kp_rng rng;
	kp_rng_seed(&rng, test_seed());
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 100);
	for (int i = 0; i < 200000; i++) {
		uint64_t u = kp_rng_next(&rng) >> kp_rng_below(&rng, 64), gu = 0;
		int64_t s = (int64_t)u, gs = 0;
		char text[32];
		snprintf(text, sizeof(text), "%llu", (unsigned long long)u);
		kp_buf_reset(&b);
		kp_buf_u64(&b, u);
		assert_str(kp_buf_str(&b), kp_str_c(text));
		assert_true(kp_str_u64(kp_buf_str(&b), u, &gu));
		assert_int_equal(gu, u);
		assert_true(u == 0 || !kp_str_u64(kp_buf_str(&b), u - 1, &gu));
		snprintf(text, sizeof(text), "%lld", (long long)s);
		kp_buf_reset(&b);
		kp_buf_i64(&b, s);
		assert_str(kp_buf_str(&b), kp_str_c(text));
		assert_true(kp_str_i64(kp_buf_str(&b), s, s, &gs));
		assert_int_equal(gs, s);
		snprintf(text, sizeof(text), "%llx", (unsigned long long)u);
		assert_true(kp_str_hex64(kp_str_c(text), &gu));
		assert_int_equal(gu, u);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(printed_doubles_come_back),
		cmocka_unit_test(the_grammar_is_json_s),
		cmocka_unit_test(integers_come_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

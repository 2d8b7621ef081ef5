/* Slices and numbers by example; tests/prop/base/number_test.c has the numbers against libc's. */
#include "base/rand.h"
#include "base/str.h"
#include "tests/test.h"

#include <math.h>

static void literals_keep_their_nul_bytes(void **state)
{
	(void)state;
	assert_int_equal(KP_S("a\0b").n, 3);
	assert_int_equal(KP_S("").n, 0);
	assert_int_equal(kp_str_c(NULL).n, 0);
	char out[16];
	snprintf(out, sizeof(out), "[%" KP_FMT "|%" KP_FMT "]", KP_ARG(KP_S("ab")),
		KP_ARG(KP_STR_NULL));
	assert_string_equal(out, "[ab|]");
}

static void comparisons(void **state)
{
	(void)state;
	assert_true(kp_str_eq(KP_STR_NULL, KP_S("")));
	assert_true(kp_str_eq(KP_S("a\0b"), KP_S("a\0b")));
	assert_false(kp_str_eq(KP_S("a\0b"), KP_S("a\0c")));
	assert_false(kp_str_eq(KP_S("a"), KP_S("ab")));
	assert_true(kp_str_ieq(KP_S("Content-LENGTH"), KP_S("content-length")));
	assert_false(kp_str_ieq(KP_S("\xc3\x84"), KP_S("\xc3\xa4"))); /* ASCII only */
	assert_false(kp_str_ieq(KP_S("@"), KP_S("`")));
	assert_false(kp_str_ieq(KP_S("["), KP_S("{")));
	assert_true(kp_str_cmp(KP_S("a"), KP_S("b")) < 0);
	assert_true(kp_str_cmp(KP_S("a"), KP_S("ab")) < 0);
	assert_true(kp_str_cmp(KP_S("\xff"), KP_S("a")) > 0); /* bytes are unsigned */
	assert_int_equal(kp_str_cmp(KP_STR_NULL, KP_S("")), 0);
	assert_true(
		kp_str_starts(KP_S("abc"), KP_S("ab")) && kp_str_starts(KP_S("abc"), KP_STR_NULL));
	assert_false(kp_str_starts(KP_S("ab"), KP_S("abc")));
	assert_true(kp_str_ends(KP_S("abc"), KP_S("bc")) && kp_str_ends(KP_STR_NULL, KP_STR_NULL));
	assert_false(kp_str_ends(KP_S("bc"), KP_S("abc")));
}

static void slices_clamp(void **state)
{
	(void)state;
	kp_str s = KP_S("abcdef");
	assert_str_lit(kp_str_sub(s, 1, 3), "bc");
	assert_str_lit(kp_str_sub(s, 4, 100), "ef");
	assert_str_lit(kp_str_sub(s, 3, 1), "");
	assert_str_lit(kp_str_sub(s, SIZE_MAX, SIZE_MAX), "");
	assert_str_lit(kp_str_skip(s, 2), "cdef");
	assert_str_lit(kp_str_skip(s, 99), "");
	assert_null(kp_str_sub(KP_STR_NULL, 1, 2).p);
}

static void searches(void **state)
{
	(void)state;
	kp_str s = KP_S("abcabc\0x");
	assert_int_equal(kp_str_find(s, KP_S("ca")), 2);
	assert_int_equal(kp_str_find(s, KP_S("cb")), -1);
	assert_int_equal(kp_str_find(s, KP_S("")), 0);
	assert_int_equal(kp_str_find(KP_STR_NULL, KP_STR_NULL), 0);
	assert_int_equal(kp_str_find(KP_STR_NULL, KP_S("a")), -1);
	assert_int_equal(kp_str_find(s, KP_S("\0x")), 6);
	assert_int_equal(kp_str_find_char(s, 'c'), 2);
	assert_int_equal(kp_str_rfind_char(s, 'c'), 5);
	assert_int_equal(kp_str_rfind_char(KP_STR_NULL, 'c'), -1);
	assert_int_equal(kp_str_find_char(KP_STR_NULL, 0), -1);
	assert_true(kp_str_has(s, KP_S("bca")));
	assert_false(kp_str_has(s, KP_S("bcd")));
}

static void trim_cuts_ascii_white_space_only(void **state)
{
	(void)state;
	assert_str_lit(kp_str_trim(KP_S(" \t\n\v\f\r a b \r\n")), "a b");
	assert_str_lit(kp_str_trim(KP_S(" \t ")), "");
	assert_str_lit(kp_str_trim(KP_STR_NULL), "");
	assert_str_lit(kp_str_trim(KP_S("\0a\0")), "\0a\0");
	assert_str_lit(kp_str_trim(KP_S("\xc2\xa0x")), "\xc2\xa0x");
}

static void split_gives_every_part(void **state)
{
	(void)state;
	static const struct {
		kp_str text;
		const char *parts; /* joined with '|', closed with '|' */
	} table[] = {
		{ KP_S_INIT("a,,b"), "a||b|" },
		{ KP_S_INIT("a"), "a|" },
		{ KP_S_INIT(""), "|" },
		{ KP_S_INIT(","), "||" },
		{ KP_S_INIT("a,b,"), "a|b||" },
		{ { NULL, 0 }, "" },
	};
	for (size_t i = 0; i < KP_LEN(table); i++) {
		kp_str rest = table[i].text, part = KP_S("unset");
		char got[64] = "";
		size_t n = 0;
		while (kp_str_split(&rest, ',', &part)) {
			n += (size_t)snprintf(
				got + n, sizeof(got) - n, "%" KP_FMT "|", KP_ARG(part));
		}
		assert_string_equal(got, table[i].parts);
		assert_null(rest.p);
	}
}

static void unsigned_numbers(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		uint64_t max, want;
		bool ok;
	} table[] = {
		{ "0", UINT64_MAX, 0, true },
		{ "007", UINT64_MAX, 7, true },
		{ "18446744073709551615", UINT64_MAX, UINT64_MAX, true },
		{ "18446744073709551616", UINT64_MAX, 0, false },
		{ "99999999999999999999999", UINT64_MAX, 0, false },
		{ "00000000000000000000000000000000012", UINT64_MAX, 12, true },
		{ "65535", 65535, 65535, true },
		{ "65536", 65535, 0, false },
		{ "1", 0, 0, false },
		{ "", 9, 0, false },
		{ "-1", UINT64_MAX, 0, false },
		{ "+1", 9, 0, false },
		{ " 1", 9, 0, false },
		{ "1 ", 9, 0, false },
		{ "1.0", 9, 0, false },
		{ "0x1", 9, 0, false },
		{ "1e1", 99, 0, false },
		{ "\xd9\xa1", 9, 0, false }, /* an Arabic-Indic digit */
		{ "/", 99, 0, false },
		{ ":", 99, 0, false },
	};
	for (size_t i = 0; i < KP_LEN(table); i++) {
		uint64_t v = 4711;
		assert_int_equal(
			kp_str_u64(kp_str_c(table[i].text), table[i].max, &v), table[i].ok);
		assert_int_equal(v, table[i].ok ? table[i].want : 4711); /* untouched on failure */
	}
	uint64_t v = 1;
	assert_false(kp_str_u64(KP_STR_NULL, 9, &v));
	assert_false(kp_str_u64(KP_S("1\0"), 9, &v));
}

static void signed_numbers(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int64_t min, max, want;
		bool ok;
	} table[] = {
		{ "-9223372036854775808", INT64_MIN, INT64_MAX, INT64_MIN, true },
		{ "-9223372036854775809", INT64_MIN, INT64_MAX, 0, false },
		{ "9223372036854775807", INT64_MIN, INT64_MAX, INT64_MAX, true },
		{ "9223372036854775808", INT64_MIN, INT64_MAX, 0, false },
		{ "-0", -5, 5, 0, true },
		{ "-5", -5, 5, -5, true },
		{ "-6", -5, 5, 0, false },
		{ "6", -5, 5, 0, false },
		{ "3", 4, 5, 0, false },
		{ "-", -5, 5, 0, false },
		{ "--1", -5, 5, 0, false },
		{ "-+1", -5, 5, 0, false },
		{ "- 1", -5, 5, 0, false },
		{ "", -5, 5, 0, false },
	};
	for (size_t i = 0; i < KP_LEN(table); i++) {
		int64_t v = 4711;
		assert_int_equal(
			kp_str_i64(kp_str_c(table[i].text), table[i].min, table[i].max, &v),
			table[i].ok);
		assert_int_equal(v, table[i].ok ? table[i].want : 4711);
	}
}

static void hex_numbers(void **state)
{
	(void)state;
	uint64_t v = 1;
	assert_true(kp_str_hex64(KP_S("0"), &v) && v == 0);
	assert_true(kp_str_hex64(KP_S("ffffFFFFffffFFFF"), &v) && v == UINT64_MAX);
	assert_true(
		kp_str_hex64(KP_S("0123456789abcdef"), &v) && v == UINT64_C(0x0123456789abcdef));
	v = 5;
	static const char *const bad[] = { "", "0x1", "-1", "10000000000000000",
		"00000000000000001", "g", " 1", "1 ", "@", "`" };
	for (size_t i = 0; i < KP_LEN(bad); i++) {
		assert_false(kp_str_hex64(kp_str_c(bad[i]), &v));
		assert_int_equal(v, 5);
	}
}

static void json_numbers(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		double want;
	} good[] = { { "0", 0 }, { "-0", -0.0 }, { "-0.0", -0.0 }, { "1", 1 },
		{ "-12.5e-1", -1.25 }, { "1E+2", 100 }, { "0.1", 0.1 }, { "1e308", 1e308 },
		{ "1.7976931348623157e308", 1.7976931348623157e308 }, { "5e-324", 5e-324 },
		{ "2e-324", 0 }, { "1e-999", 0 }, { "9007199254740993", 9007199254740992.0 },
		{ "9007199254740993.0000000000000001", 9007199254740994.0 },
		{ "2.2250738585072011e-308", 2.2250738585072011e-308 },
		{ "123456789012345678901234567890", 123456789012345678901234567890.0 } };
	for (size_t i = 0; i < KP_LEN(good); i++) {
		double v = 1;
		assert_true(kp_str_f64(kp_str_c(good[i].text), &v));
		assert_memory_equal(
			&v, &good[i].want, sizeof(v)); /* to the bit, the sign of zero too */
	}
	static const char *const bad[] = { "", "-", "+1", "01", "-01", "00", ".5", "1.", "1.e1",
		"1e", "1e+", "1e1.5", "0x10", "inf", "nan", "Infinity", "-Infinity", "NaN", " 1",
		"1 ", "1,5", "1e999", "-1e999", "1.8e308", "1_000", "1f", "--1" };
	for (size_t i = 0; i < KP_LEN(bad); i++) {
		double v = 4711;
		assert_false(kp_str_f64(kp_str_c(bad[i]), &v));
		assert_true(v == 4711);
	}
	double v = 4711;
	assert_false(kp_str_f64(KP_STR_NULL, &v));
	assert_false(kp_str_f64(KP_S("1\0"), &v));
}

static void very_long_numbers_are_refused(void **state)
{
	(void)state;
	char text[600];
	memset(text, '1', sizeof(text));
	text[1] = '.';
	double v = 0;
	assert_true(kp_str_f64(kp_str_n(text, 511), &v));
	assert_true(v > 1.11 && v < 1.12);
	assert_false(kp_str_f64(kp_str_n(text, 512), &v));
}

static void ascii_helpers(void **state)
{
	(void)state;
	for (int c = 0; c < 256; c++) {
		char got = kp_lower((char)c);
		assert_int_equal((unsigned char)got, c >= 'A' && c <= 'Z' ? c + 32 : c);
		assert_int_equal(kp_is_digit((char)c), c >= '0' && c <= '9');
	}
}

/* Both as the obvious way: few letters, so that ends agree often and the middle does not. */
static void find_and_eq_are_the_obvious_way(void **state)
{
	(void)state;
	struct kp_rng r;
	char hay[300], needle[24];
	kp_rng_seed(&r, test_seed());
	for (int k = 0; k < 200000; k++) {
		size_t n = kp_rng_below(&r, sizeof(hay)), m = kp_rng_below(&r, sizeof(needle));
		uint32_t rare = k % 2 ? 8 : 60;
		for (size_t i = 0; i < n; i++) {
			hay[i] = (char)('a' + (kp_rng_below(&r, rare) == 0));
		}
		for (size_t i = 0; i < m; i++) {
			needle[i] = (char)('a' + (kp_rng_below(&r, rare) == 0));
		}
		if (n > m && kp_rng_below(&r, 2)) {
			memcpy(needle, hay + kp_rng_below(&r, n - m), m);
		}
		ptrdiff_t want = -1;
		for (size_t i = 0; want < 0 && i + m <= n; i++) {
			want = memcmp(hay + i, needle, m) == 0 ? (ptrdiff_t)i : -1;
		}
		kp_str h = kp_str_n(hay, n), s = kp_str_n(needle, m);
		assert_int_equal(kp_str_find(h, s), want);
		h.n = kp_rng_below(&r, 4) ? KP_MIN(n, m) : n;
		assert_int_equal(kp_str_eq_name(h, s), h.n == m && memcmp(hay, needle, m) == 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(find_and_eq_are_the_obvious_way),
		cmocka_unit_test(literals_keep_their_nul_bytes),
		cmocka_unit_test(comparisons),
		cmocka_unit_test(slices_clamp),
		cmocka_unit_test(searches),
		cmocka_unit_test(trim_cuts_ascii_white_space_only),
		cmocka_unit_test(split_gives_every_part),
		cmocka_unit_test(unsigned_numbers),
		cmocka_unit_test(signed_numbers),
		cmocka_unit_test(hex_numbers),
		cmocka_unit_test(json_numbers),
		cmocka_unit_test(very_long_numbers_are_refused),
		cmocka_unit_test(ascii_helpers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

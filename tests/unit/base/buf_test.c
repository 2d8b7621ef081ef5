/* Buffers: the maximum, the sticky failure, formatting, the NUL behind a full buffer. The failing allocation is in torture_test.c. */
#include "base/buf.h"
#include "tests/test.h"

static void an_empty_one_has_a_pointer(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 10);
	assert_non_null(b.p);
	assert_string_equal(kp_buf_cstr(&b), "");
	assert_int_equal(b.n, 0);
	assert_true(kp_buf_ok(&b));
	kp_buf_add(&b, KP_STR_NULL);
	kp_buf_printf(&b, "%s", "");
	assert_int_equal(b.cap, 0);
}

static void appends_of_all_kinds(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 1000);
	kp_buf_lit(&b, "a\0b");
	kp_buf_addc(&b, '|');
	kp_buf_addz(&b, "zz");
	kp_buf_addz(&b, NULL);
	kp_buf_printf(&b, "|%d %s|", -5, "x");
	kp_buf_u64(&b, 0);
	kp_buf_addc(&b, ' ');
	kp_buf_u64(&b, UINT64_MAX);
	kp_buf_addc(&b, ' ');
	kp_buf_i64(&b, INT64_MIN);
	kp_buf_addc(&b, ' ');
	kp_buf_i64(&b, INT64_MAX);
	assert_str_lit(kp_buf_str(&b),
		"a\0b|zz|-5 x|0 18446744073709551615 -9223372036854775808 9223372036854775807");
	assert_true(kp_buf_ok(&b));
}

static void the_maximum_is_exact(void **state)
{
	(void)state;
	for (size_t max = 0; max < 300; max++) {
		KP_AUTO(buf) struct kp_buf b;
		kp_buf_init(&b, max);
		for (size_t i = 0; i < max; i++) {
			kp_buf_addc(&b, (char)('a' + i % 26));
			assert_true(kp_buf_ok(&b));
		}
		/* Full, and still a C string. */
		assert_int_equal(strlen(kp_buf_cstr(&b)), max);
		assert_true(b.cap <= max);
		kp_buf_addc(&b, 'x');
		assert_false(kp_buf_ok(&b));
		assert_int_equal(b.n, max);
		assert_null(kp_buf_cstr(&b));
	}
}

static void printf_fills_to_the_last_byte(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 5);
	kp_buf_printf(&b, "%d", 12345);
	assert_str_lit(kp_buf_str(&b), "12345");
	assert_true(kp_buf_ok(&b));
	kp_buf_printf(&b, "%s", "");
	assert_true(kp_buf_ok(&b));
	kp_buf_printf(&b, "%d", 6);
	assert_false(kp_buf_ok(&b));
	assert_str_lit(kp_buf_str(&b), "12345");
}

static void a_failure_sticks_until_reset(void **state)
{
	(void)state;
	struct kp_err err = KP_ERR_INIT;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 4);
	kp_buf_lit(&b, "abc");
	assert_int_equal(kp_buf_finish(&b, "answer", &err), 0);
	assert_int_equal(err.code, KP_OK);
	kp_buf_lit(&b, "de"); /* does not fit: nothing of it is there */
	kp_buf_lit(&b, "f");  /* would fit, but comes after a failure */
	assert_str_lit(kp_buf_str(&b), "abc");
	assert_int_equal(kp_buf_finish(&b, "answer", &err), -1);
	assert_int_equal(err.code, KP_RESOURCE_EXHAUSTED);
	assert_string_equal(err.msg, "build `answer`: more than 4 bytes");
	kp_buf_reset(&b);
	kp_buf_lit(&b, "wxyz");
	assert_str_lit(kp_buf_str(&b), "wxyz");
	assert_int_equal(kp_buf_finish(&b, "answer", &err), 0);
}

static void sizes_that_would_overflow_fail(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, SIZE_MAX);
	kp_buf_lit(&b, "x");
	assert_false(kp_buf_reserve(&b, SIZE_MAX));
	assert_false(kp_buf_ok(&b));
	kp_buf_reset(&b);
	assert_false(kp_buf_reserve(&b, SIZE_MAX - 1)); /* no memory for that */
	kp_buf_reset(&b);
	kp_buf_lit(&b, "still works");
	assert_str_lit(kp_buf_str(&b), "still works");
}

static void reset_gives_large_memory_back(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, SIZE_MAX);
	assert_true(kp_buf_reserve(&b, 1000));
	size_t small = b.cap;
	kp_buf_reset(&b);
	assert_int_equal(b.cap, small);
	assert_true(kp_buf_reserve(&b, KP_BUF_KEEP + 1));
	kp_buf_reset(&b);
	assert_int_equal(b.cap, 0);
	assert_int_equal(b.max, SIZE_MAX);
}

static void consume_moves_the_rest(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 100);
	kp_buf_lit(&b, "0123456789");
	kp_buf_consume(&b, 0);
	kp_buf_consume(&b, 3);
	assert_str_lit(kp_buf_str(&b), "3456789");
	kp_buf_consume(&b, 7);
	assert_int_equal(b.n, 0);
}

static void consume_too_much(void *arg)
{
	struct kp_buf b;
	kp_buf_init(&b, 100);
	kp_buf_add(&b, *(kp_str *)arg);
	kp_buf_consume(&b, b.n + 1);
}
static void consuming_more_than_there_is_is_a_bug(void **state)
{
	(void)state;
	kp_str s = KP_S("abc");
	assert_dies(consume_too_much, &s);
}

static void fini_takes_a_zeroed_one_and_twice(void **state)
{
	(void)state;
	struct kp_buf b;
	memset(&b, 0, sizeof(b));
	kp_buf_fini(&b);
	kp_buf_init(&b, 10);
	kp_buf_lit(&b, "x");
	kp_buf_fini(&b);
	kp_buf_fini(&b);
	kp_buf_lit(&b, "usable again");
	assert_false(kp_buf_ok(&b)); /* the maximum is still 10 */
	kp_buf_reset(&b);
	kp_buf_lit(&b, "again");
	assert_str_lit(kp_buf_str(&b), "again");
	kp_buf_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_one_has_a_pointer),
		cmocka_unit_test(appends_of_all_kinds),
		cmocka_unit_test(the_maximum_is_exact),
		cmocka_unit_test(printf_fills_to_the_last_byte),
		cmocka_unit_test(a_failure_sticks_until_reset),
		cmocka_unit_test(sizes_that_would_overflow_fail),
		cmocka_unit_test(reset_gives_large_memory_back),
		cmocka_unit_test(consume_moves_the_rest),
		cmocka_unit_test(consuming_more_than_there_is_is_a_bug),
		cmocka_unit_test(fini_takes_a_zeroed_one_and_twice),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

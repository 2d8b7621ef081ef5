/* Large memory: whole, aligned, and refused where it cannot be. */
#include "base/mem.h"
#include "tests/test.h"

static void test_large_memory(void **state)
{
	(void)state;
	const size_t sizes[] = { 0, 1, (32 << 20) - 1, 32 << 20, (33 << 20) + 1 };
	for (size_t i = 0; i < KP_LEN(sizes); i++) {
		uint8_t *p = kp_try_malloc_large(sizes[i]);
		assert_non_null(p);
		if (sizes[i]) {
			p[0] = 1;
			p[sizes[i] / 2] = 2;
			p[sizes[i] - 1] = 3;
		}
		assert_true(sizes[i] < 32 << 20 || (uintptr_t)p % (2 << 20) == 0);
		kp_free(&p);
		assert_null(p);
	}
}

static void test_too_much_is_refused(void **state)
{
	(void)state;
	assert_null(kp_try_malloc_large(SIZE_MAX));
	assert_null(kp_try_malloc_large(PTRDIFF_MAX));
	assert_null(kp_try_malloc_large((size_t)PTRDIFF_MAX + 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_large_memory),
		cmocka_unit_test(test_too_much_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

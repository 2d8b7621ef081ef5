/* Text with provenance: runs merge, cover the text exactly, and the limits hold. */
#include "core/ids.h"
#include "core/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

static void test_runs_merge_and_cover(void **state)
{
	(void)state;
	struct kp_arena *a = kp_arena_create(1 << 20);
	struct kp_text_builder b;
	struct kp_text t;
	struct kp_err err;
	kp_text_builder_init(&b, 1000);
	kp_text_builder_add(&b, KP_S("ab"), KP_ORIGIN_TRUSTED);
	kp_text_builder_add(&b, KP_S(""), KP_ORIGIN_CLIENT);
	kp_text_builder_add(&b, KP_S("c"), KP_ORIGIN_TRUSTED);
	kp_text_builder_add(&b, KP_S("def"), KP_ORIGIN_CLIENT);
	kp_text_builder_add(&b, KP_S("g"), KP_ORIGIN_ASSISTANT);
	assert_int_equal(kp_text_builder_finish(&b, a, &t, &err), 0);
	kp_text_builder_fini(&b);
	assert_true(kp_str_eq(t.s, KP_S("abcdefg")));
	assert_int_equal(t.n_runs, 3);
	assert_int_equal(t.runs[0].end, 3);
	assert_int_equal(t.runs[1].end, 6);
	assert_int_equal(t.runs[1].origin, KP_ORIGIN_CLIENT);
	assert_int_equal(t.runs[2].end, 7);
	kp_arena_destroy(a);
}

static void test_maximum(void **state)
{
	(void)state;
	struct kp_arena *a = kp_arena_create(1 << 20);
	struct kp_text_builder b;
	struct kp_text t;
	struct kp_err err;
	kp_text_builder_init(&b, 4);
	kp_text_builder_add(&b, KP_S("abcde"), KP_ORIGIN_CLIENT);
	assert_int_equal(kp_text_builder_finish(&b, a, &t, &err), -1);
	assert_string_equal(err.msg, "build `prompt text`: more than 4 bytes");
	kp_text_builder_fini(&b);
	kp_arena_destroy(a);
}

static void test_ids(void **state)
{
	(void)state;
	struct kp_ids v;
	kp_ids_init(&v, 100);
	for (kp_id i = 0; i < 100; i++) {
		kp_ids_add(&v, i);
	}
	assert_false(v.failed);
	kp_ids_add(&v, 100);
	assert_true(v.failed);
	assert_int_equal(v.n, 100);
	assert_int_equal(v.p[99], 99);
	kp_ids_reset(&v);
	assert_false(v.failed);
	kp_ids_fini(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_runs_merge_and_cover),
		cmocka_unit_test(test_maximum),
		cmocka_unit_test(test_ids),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

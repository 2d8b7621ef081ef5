/* Stop strings against a naive definition, and the same visible text however the text is cut. */
#include "parse/stop.h"
#include "base/rand.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

enum { ROUNDS = 20000 };

/* The definition: the first end at which any string ends there; the longest of these. */
static bool naive(
	kp_str text, const kp_str *stops, size_t n, size_t *ret_visible, size_t *ret_which)
{
	for (size_t end = 1; end <= text.n; end++) {
		size_t best = SIZE_MAX;
		for (size_t i = 0; i < n; i++) {
			if (kp_str_ends(kp_str_sub(text, 0, end), stops[i]) &&
				(best == SIZE_MAX || stops[i].n > stops[best].n)) {
				best = i;
			}
		}
		if (best != SIZE_MAX) {
			*ret_visible = end - stops[best].n;
			*ret_which = best;
			return true;
		}
	}
	*ret_visible = text.n;
	return false;
}

static void random_text(struct kp_rng *r, char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		p[i] = (char)('a' + kp_rng_below(r, 2));
	}
}

static void test_st01_st03_st08_equals_definition_at_every_cut(void **state)
{
	(void)state;
	struct kp_rng r;
	kp_rng_seed(&r, 7);
	for (int round = 0; round < ROUNDS; round++) {
		char text[40], words[3][6];
		kp_str stops[3];
		size_t n_text = kp_rng_below(&r, sizeof(text)), n = 1 + kp_rng_below(&r, 3);
		random_text(&r, text, n_text);
		for (size_t i = 0; i < n; i++) {
			stops[i] = kp_str_n(words[i], 1 + kp_rng_below(&r, 6));
			random_text(&r, words[i], stops[i].n);
		}
		struct kp_arena *a = kp_arena_create(1 << 20);
		const struct kp_stop_set *set = NULL;
		struct kp_err err;
		assert_int_equal(kp_stop_set_create(a, stops, n, &set, &err), 0);
		size_t visible, which = 0;
		bool hit = naive(kp_str_n(text, n_text), stops, n, &visible, &which);

		struct kp_stop s;
		struct kp_buf out;
		kp_buf_init(&out, 1000);
		kp_stop_init(&s, set);
		bool got = false;
		for (size_t at = 0; at < n_text && !got;) {
			size_t k = KP_MIN(1 + kp_rng_below(&r, 5), n_text - at);
			got = kp_stop_feed(&s, kp_str_n(text + at, k), false, &out);
			at += k;
		}
		if (!got) {
			kp_stop_finish(&s, &out);
		}
		assert_int_equal(got, hit);
		assert_int_equal(out.n, visible);
		assert_memory_equal(out.p, text, visible);
		if (hit) {
			assert_true(kp_str_eq(kp_stop_text(set, s.matched), stops[which]));
		}
		kp_stop_fini(&s);
		kp_buf_fini(&out);
		kp_arena_destroy(a);
	}
}

static void test_st01_st02_holds_only_what_may_match(void **state)
{
	(void)state;
	struct kp_arena *a = kp_arena_create(1 << 20);
	const kp_str stop = KP_S("own fox");
	const struct kp_stop_set *set = NULL;
	struct kp_err err;
	assert_int_equal(kp_stop_set_create(a, &stop, 1, &set, &err), 0);
	struct kp_stop s;
	struct kp_buf out;
	kp_buf_init(&out, 1000);
	kp_stop_init(&s, set);
	assert_false(kp_stop_feed(&s, KP_S("The quick brown"), false, &out));
	assert_true(kp_str_eq(kp_buf_str(&out), KP_S("The quick br")));
	assert_true(kp_stop_feed(&s, KP_S(" fox jumps"), false, &out));
	assert_true(kp_str_eq(kp_buf_str(&out), KP_S("The quick br")));
	kp_stop_fini(&s);
	kp_buf_fini(&out);
	kp_arena_destroy(a);
}

static void test_st06_st08_include_shows_it_once(void **state)
{
	(void)state;
	struct kp_arena *a = kp_arena_create(1 << 20);
	const kp_str stops[] = { KP_S("\xe2\x82\xac"), KP_S("END") };
	const struct kp_stop_set *set = NULL;
	struct kp_err err;
	assert_int_equal(kp_stop_set_create(a, stops, 2, &set, &err), 0);
	struct kp_stop s;
	struct kp_buf out;
	kp_buf_init(&out, 1000);
	kp_stop_init(&s, set);
	assert_false(kp_stop_feed(&s, KP_S("x\xe2\x82"), true, &out));
	assert_true(kp_str_eq(kp_buf_str(&out), KP_S("x")));
	assert_true(kp_stop_feed(&s, KP_S("\xac tail"), true, &out));
	assert_true(kp_str_eq(kp_buf_str(&out), KP_S("x\xe2\x82\xac")));
	kp_stop_fini(&s);
	kp_buf_fini(&out);
	kp_arena_destroy(a);
}

static void test_st09_refuses_empty_and_too_many(void **state)
{
	(void)state;
	struct kp_arena *a = kp_arena_create(1 << 20);
	kp_str stops[KP_STOP_MAX + 1] = { { "", 0 } };
	const struct kp_stop_set *set = NULL;
	struct kp_err err;
	assert_int_equal(kp_stop_set_create(a, stops, 1, &set, &err), -1);
	assert_string_equal(err.param, "stop");
	assert_string_equal(err.msg, "`stop`: a stop string must not be empty");
	assert_int_equal(kp_stop_set_create(a, stops, KP_STOP_MAX + 1, &set, &err), -1);
	assert_string_equal(err.msg, "`stop`: at most 16 strings, got 17");
	kp_arena_destroy(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_st01_st03_st08_equals_definition_at_every_cut),
		cmocka_unit_test(test_st01_st02_holds_only_what_may_match),
		cmocka_unit_test(test_st06_st08_include_shows_it_once),
		cmocka_unit_test(test_st09_refuses_empty_and_too_many),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

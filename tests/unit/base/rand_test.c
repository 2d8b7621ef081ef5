/* Random numbers: the published values of the generator, uniformity, identifiers that do not repeat. */
#include "base/map.h"
#include "base/rand.h"
#include "tests/test.h"

#include <pthread.h>

static void xoshiro256starstar_as_published(void **state)
{
	(void)state;
	/* The authors' C code (prng.di.unimi.it/xoshiro256starstar.c) from state 1, 2, 3, 4. */
	static const uint64_t want[] = { UINT64_C(11520), 0, UINT64_C(1509978240),
		UINT64_C(1215971899390074240), UINT64_C(1216172134540287360),
		UINT64_C(607988272756665600), UINT64_C(16172922978634559625),
		UINT64_C(8476171486693032832), UINT64_C(10595114339597558777),
		UINT64_C(2904607092377533576) };
	struct kp_rng rng = { { 1, 2, 3, 4 } };
	for (size_t i = 0; i < KP_LEN(want); i++) {
		assert_true(kp_rng_next(&rng) == want[i]);
	}
}

static void seeds_are_spread_by_splitmix64(void **state)
{
	(void)state;
	/* splitmix64 from 0, first four (prng.di.unimi.it/splitmix64.c). */
	static const uint64_t want[] = { UINT64_C(0xe220a8397b1dcdaf), UINT64_C(0x6e789e6aa1b965f4),
		UINT64_C(0x06c45d188009454f), UINT64_C(0xf88bb8a8724c81ec) };
	struct kp_rng rng;
	kp_rng_seed(&rng, 0);
	assert_memory_equal(rng.s, want, sizeof(want));
}

static void below_is_uniform(void **state)
{
	(void)state;
	struct kp_rng rng;
	kp_rng_seed(&rng, test_seed());
	static const uint64_t bounds[] = { 1, 2, 3, 7, 10, 62, 100 };
	for (size_t b = 0; b < KP_LEN(bounds); b++) {
		uint64_t bound = bounds[b], seen[100] = { 0 };
		enum { N = 200000 };
		for (int i = 0; i < N; i++) {
			uint64_t v = kp_rng_below(&rng, bound);
			assert_true(v < bound);
			seen[v]++;
		}
		/* Each count is within seven standard deviations of N/bound: fails once in 10^10 runs. */
		for (uint64_t i = 0; i < bound; i++) {
			int64_t off = (int64_t)seen[i] - (int64_t)(N / bound);
			assert_true(off * off <= (int64_t)(50 * N / bound));
		}
	}
	/* Huge bounds: nothing at or past them, and both halves come. */
	uint64_t huge = (UINT64_C(1) << 63) + 1;
	int high = 0;
	for (int i = 0; i < 1000; i++) {
		uint64_t v = kp_rng_below(&rng, huge);
		assert_true(v < huge);
		high += v > huge / 2;
	}
	assert_in_range(high, 300, 700);
}

static void the_kernel_fills_every_byte(void **state)
{
	(void)state;
	unsigned char seen[3000] = { 0 }, now[3000];
	for (int i = 0; i < 10; i++) {
		memset(now, 0, sizeof(now));
		kp_random_bytes(now, sizeof(now));
		for (size_t k = 0; k < sizeof(now); k++) {
			seen[k] |= now[k];
		}
	}
	for (size_t k = 0; k < sizeof(seen); k++) {
		assert_int_not_equal(seen[k], 0);
	}
	kp_random_bytes(NULL, 0);
}

enum { THREADS = 4, IDS = 20000, ID_LEN = 16 };
static char ids[THREADS][IDS][ID_LEN + 1];
static void *make_ids(void *arg)
{
	char(*mine)[ID_LEN + 1] = arg;
	for (size_t i = 0; i < IDS; i++) {
		kp_random_id(mine[i], ID_LEN);
	}
	return NULL;
}
static void identifiers_do_not_repeat(void **state)
{
	(void)state;
	pthread_t threads[THREADS];
	for (size_t i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_create(&threads[i], NULL, make_ids, ids[i]), 0);
	}
	struct kp_map seen;
	kp_map_init(&seen);
	for (size_t t = 0; t < THREADS; t++) {
		pthread_join(threads[t], NULL);
		for (size_t i = 0; i < IDS; i++) {
			kp_str id = kp_str_c(ids[t][i]);
			assert_int_equal(id.n, ID_LEN);
			for (size_t k = 0; k < id.n; k++) {
				char c = kp_lower(id.p[k]);
				assert_true(kp_is_digit(c) || (c >= 'a' && c <= 'z'));
			}
			assert_null(kp_map_set(&seen, id, ids));
		}
	}
	kp_map_fini(&seen, NULL);
	char none[1] = "x";
	kp_random_id(none, 0);
	assert_int_equal(none[0], '\0');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(xoshiro256starstar_as_published),
		cmocka_unit_test(seeds_are_spread_by_splitmix64),
		cmocka_unit_test(below_is_uniform),
		cmocka_unit_test(the_kernel_fills_every_byte),
		cmocka_unit_test(identifiers_do_not_repeat),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What has a half for this machine and one for any machine: both give the same. */
#include "tests/test.h"
#include "base/rand.h"
#include "token/ascii.h"
#include "token/bpe.h"

static void same_classes(const uint8_t *block)
{
	struct kp_ascii here, any;
	for (unsigned extra = 0; extra < 8; extra++) {
		kp_ascii_load(block, &here, extra);
		kp_ascii_load_portable(block, &any, extra);
		assert_int_equal(here.high, any.high);
		/* The other bits say nothing where a byte is not ASCII. */
		assert_int_equal(here.letter & ~any.high, any.letter & ~any.high);
		assert_int_equal(here.digit & ~any.high, any.digit & ~any.high);
		assert_int_equal(here.space & ~any.high, any.space & ~any.high);
		assert_int_equal(here.newline & ~any.high, any.newline & ~any.high);
		assert_int_equal(here.blank & ~any.high, any.blank & ~any.high);
		assert_int_equal(here.quote & ~any.high, any.quote & ~any.high);
		assert_int_equal(here.upper & ~any.high, any.upper & ~any.high);
		assert_int_equal(here.slash & ~any.high, any.slash & ~any.high);
		assert_int_equal(here.control & ~any.high, any.control & ~any.high);
	}
}

/* Some of the bytes of a block, and one that is perhaps none. */
static void same_places(struct kp_rng *r, const uint8_t *block)
{
	uint8_t any[8][16];
	const uint8_t(*bytes)[16] = (const uint8_t(*)[16])any;
	size_t n = kp_rng_below(r, 9);
	for (size_t k = 0; k < n; k++) {
		memset(any[k], block[kp_rng_below(r, 64)] ^ (k == 7), sizeof(any[k]));
	}
	assert_int_equal(kp_ascii_any(block, bytes, n), kp_ascii_any_portable(block, bytes, n));
}

static void every_byte_at_every_place(void **state)
{
	(void)state;
	struct kp_rng r;
	uint8_t block[64];
	kp_rng_seed(&r, test_seed());
	for (unsigned c = 0; c < 256; c++) {
		memset(block, (int)c, sizeof(block));
		same_classes(block);
	}
	for (int k = 0; k < 3000; k++) {
		uint32_t below = k % 2 ? 128 : 256;
		for (size_t i = 0; i < sizeof(block); i++) {
			block[i] = (uint8_t)kp_rng_below(&r, below);
		}
		same_classes(block);
		same_places(&r, block);
	}
}

static void pairs_of_a_line(void **state)
{
	(void)state;
	struct kp_rng r;
	_Alignas(64) struct kp_pair_line line;
	kp_rng_seed(&r, test_seed());
	for (int k = 0; k < 5000; k++) {
		for (size_t i = 0; i < 8; i++) {
			line.tag[i] = (uint32_t)kp_rng_below(&r, 4) * UINT32_C(0x55555557);
			line.rank[i] = 0;
		}
		for (uint32_t t = 0; t < 4; t++) {
			uint32_t tag = t * UINT32_C(0x55555557);
			assert_int_equal(
				kp_pair_match(&line, tag), kp_pair_match_portable(&line, tag));
		}
	}
}

static void least_of_keys(void **state)
{
	(void)state;
	struct kp_rng r;
	_Alignas(16) uint32_t key[64];
	kp_rng_seed(&r, test_seed());
	for (int k = 0; k < 20000; k++) {
		for (size_t i = 0; i < KP_LEN(key); i++) {
			key[i] = (1U << 23) + (uint32_t)kp_rng_below(&r, k % 2 ? 20 : 1U << 30);
		}
		assert_int_equal(kp_least(key, 5), kp_least_portable(key, 5));
		assert_int_equal(kp_least(key, 16), kp_least_portable(key, 16));
	}
}

static void at_once_of_pairs(void **state)
{
	(void)state;
	struct kp_rng r;
	uint32_t pair[1 + 64 + 1];
	kp_rng_seed(&r, test_seed());
	for (int k = 0; k < 5000; k++) {
		for (size_t i = 0; i < KP_LEN(pair); i++) {
			pair[i] = (uint32_t)kp_rng_below(&r, UINT64_C(1) << 32);
			pair[i] &= k % 2 ? UINT32_MAX : 7 * UINT32_C(0x100401);
		}
		assert_true(kp_at_once(pair + 1) == kp_at_once_portable(pair + 1));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_byte_at_every_place),
		cmocka_unit_test(pairs_of_a_line),
		cmocka_unit_test(least_of_keys),
		cmocka_unit_test(at_once_of_pairs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

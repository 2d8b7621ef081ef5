/* One cache line of bpe.h's table of pairs, and how it is searched. */
#ifndef KP_TOKEN_PAIR_H
#define KP_TOKEN_PAIR_H

#include "base/macros.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* One cache line of the pair table. A pair is 40 bits; multiplied by an odd number (which loses nothing) its upper bits are the
   line and the other ones stand here, so line and tag together are the pair itself: no look-up is ever wrong. The lowest bits of a
   tag say how many full lines it was moved on, plus one. */
struct kp_pair_line {
	uint32_t tag[8]; /* 0: free, and all behind it */
	uint32_t rank[8];
};

/* Its upper bits, as many as lines have, are the line, the 32 below them the tag (its lowest bits zero). */
static inline uint64_t kp_pair_place(uint32_t left, uint32_t right)
{
	return ((uint64_t)left << 44 | (uint64_t)right << 24) * UINT64_C(0x9e3779b97f4a7c15);
}

/* Bit i: the line's i-th pair has this tag. The first one for any machine. */
static inline unsigned kp_pair_match_portable(const struct kp_pair_line *l, uint32_t tag)
{
	unsigned m = 0;
	for (unsigned i = 0; i < 8; i++) {
		m |= (unsigned)(l->tag[i] == tag) << i;
	}
	return m;
}
static inline unsigned kp_pair_match(const struct kp_pair_line *l, uint32_t tag)
{
#if defined(__SSE2__)
	const __m128i *v = (const __m128i *)(const void *)l->tag;
	__m128i t = _mm_set1_epi32((int)tag);
	__m128i m = _mm_packs_epi32(
		_mm_cmpeq_epi32(_mm_load_si128(v), t), _mm_cmpeq_epi32(_mm_load_si128(v + 1), t));
	return (unsigned)_mm_movemask_epi8(_mm_packs_epi16(m, _mm_setzero_si128()));
#else
	return kp_pair_match_portable(l, tag);
#endif
}

/* The least of 4 * n keys, 16-byte aligned. Each is the bits of a positive number as floating point has it, whose order is that of the bits. */
static inline uint32_t kp_least_portable(const uint32_t *key, size_t n)
{
	uint32_t m = key[0];
	for (size_t i = 1; i < 4 * n; i++) {
		m = KP_MIN(m, key[i]);
	}
	return m;
}
static inline __attribute__((always_inline)) uint32_t kp_least(const uint32_t *key, size_t n)
{
#if defined(__SSE2__)
	const float *k = (const float *)(const void *)key;
	__m128 a = _mm_load_ps(k), c = _mm_load_ps(k + 4 * (n - 1));
#pragma GCC unroll 8
	for (size_t i = 1; i + 1 < n; i += 2) {
		a = _mm_min_ps(a, _mm_load_ps(k + 4 * i));
		c = _mm_min_ps(c, _mm_load_ps(k + 4 * KP_MIN(i + 1, n - 1)));
	}
	a = _mm_min_ps(a, c);
	a = _mm_min_ps(a, _mm_movehl_ps(a, a));
	a = _mm_min_ss(a, _mm_shuffle_ps(a, a, 1));
	return (uint32_t)_mm_cvtsi128_si32(_mm_castps_si128(a));
#else
	return kp_least_portable(key, n);
#endif
}

/* Of 64 entries of bpe.h's `ascii`, from pair[0] on, those whose rank is less than the second one's beside it on the left and the third one's on the right. */
enum { KP_ASCII_NEVER = 1023 };
static inline uint64_t kp_at_once_portable(const uint32_t *pair)
{
	uint64_t m = 0;
	for (unsigned i = 0; i < 64; i++) {
		uint32_t rank = pair[i] & KP_ASCII_NEVER,
			 left = pair[(int)i - 1] >> 20 & KP_ASCII_NEVER,
			 right = pair[i + 1] >> 10 & KP_ASCII_NEVER;
		m |= (uint64_t)(rank < left && rank < right) << i;
	}
	return m;
}
#if defined(__SSE2__)
static inline __m128i kp_at_once_four(const uint32_t *pair)
{
	__m128i mask = _mm_set1_epi32(KP_ASCII_NEVER);
	__m128i before = _mm_loadu_si128((const __m128i *)(const void *)(pair - 1)),
		here = _mm_loadu_si128((const __m128i *)(const void *)pair),
		behind = _mm_loadu_si128((const __m128i *)(const void *)(pair + 1));
	__m128i rank = _mm_and_si128(here, mask);
	return _mm_and_si128(_mm_cmplt_epi32(rank, _mm_and_si128(_mm_srli_epi32(before, 20), mask)),
		_mm_cmplt_epi32(rank, _mm_and_si128(_mm_srli_epi32(behind, 10), mask)));
}
#endif
static inline uint64_t kp_at_once(const uint32_t *pair)
{
#if defined(__SSE2__)
	uint64_t m = 0;
	for (unsigned i = 0; i < 64; i += 16) {
		__m128i a =
			_mm_packs_epi32(kp_at_once_four(pair + i), kp_at_once_four(pair + i + 4));
		__m128i b = _mm_packs_epi32(
			kp_at_once_four(pair + i + 8), kp_at_once_four(pair + i + 12));
		m |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_packs_epi16(a, b)) << i;
	}
	return m;
#else
	return kp_at_once_portable(pair);
#endif
}

#endif

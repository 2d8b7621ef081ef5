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

#endif

/* The block half of the pre-tokenizers: what they share about 64 bytes of ASCII. Bit i says something about byte i; nothing before bit 0
   matters, since a block begins where a piece begins. */
#ifndef KP_TOKEN_BLOCK_H
#define KP_TOKEN_BLOCK_H

#include "token/ascii.h"

/* A block's classes, cut at the end of the text and at the first non-ASCII byte; `other`: everything else in ASCII. */
struct kp_block {
	struct kp_ascii a;
	uint64_t other, valid;
	unsigned n; /* bytes that are looked at */
	bool all;   /* they end where the text ends */
};
static inline __attribute__((always_inline)) void kp_block_load(
	struct kp_block *b, const uint8_t *p, const uint8_t *end, unsigned extra)
{
	kp_ascii_load(p, &b->a, extra);
	if (extra & KP_ASCII_CONTROL) {
		b->a.high |= b->a.control & ~b->a.space;
	}
	size_t left = (size_t)(end - p);
	unsigned n = b->a.high ? (unsigned)__builtin_ctzll(b->a.high) : 64;
	b->all = left <= n;
	b->n = b->all ? (unsigned)left : n;
	b->valid = b->n == 64 ? UINT64_MAX : (UINT64_C(1) << b->n) - 1;
	b->a.letter &= b->valid;
	b->a.digit &= b->valid;
	b->a.space &= b->valid;
	b->a.newline &= b->valid;
	b->a.blank &= b->valid;
	b->a.quote &= b->valid;
	b->a.upper &= b->valid;
	b->a.slash &= b->valid;
	b->other = b->valid & ~(b->a.letter | b->a.digit | b->a.space);
}
/* Run of bits that ends at the last byte looked at: the bits up to and with its first one are certain, the ones behind it depend on what
   follows. All ones when the text ends there. */
static inline uint64_t kp_block_certain(const struct kp_block *b, uint64_t run)
{
	if (b->all || run == 0 || !(run >> (b->n - 1))) {
		return UINT64_MAX;
	}
	uint64_t gaps = b->valid & ~run; /* bytes outside of any run */
	unsigned first =
		gaps ? 64 - (unsigned)__builtin_clzll(gaps) : 0; /* where the last run begins */
	return (UINT64_C(2) << first) - 1;
}

/* Behind a line end, white space up to the next word is a piece of its own, but not when another line end follows it. line: line ends
   that belong to no other piece; gap: white space other than line ends. */
static inline uint64_t kp_block_indents(uint64_t line, uint64_t gap)
{
	uint64_t begin = gap & (line << 1);
	uint64_t behind = (gap + begin) & ~gap;
	if (KP_LIKELY(!(behind & line))) {
		return begin;
	}
	for (uint64_t q = begin; q; q &= q - 1) {
		uint64_t first = q & -q;
		if ((gap + first) & ~gap & line) {
			begin &= ~first;
		}
	}
	return begin;
}
/* Begins of the groups of three digits, from the first of each run. */
static inline uint64_t kp_block_threes(uint64_t digit)
{
	uint64_t m = 0, first = digit & ~(digit << 1);
	do {
		m |= first;
		first = (first << 3) & digit & (digit << 1) & (digit << 2);
	} while (KP_UNLIKELY(first));
	return m;
}

#endif

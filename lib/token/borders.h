/* Places in a text over which no merge can reach, whatever else the text holds: pieces between them are short, come again, and are cached. A token that covers
   the border between two characters has them side by side; so where no token has the two, or no token is the two alone and none has them with the
   character before or with the one behind, nothing ever joins. The sets are by hash: one that says yes by mistake only leaves a
   border uncut. Immutable after creation. */
#ifndef KP_TOKEN_BORDERS_H
#define KP_TOKEN_BORDERS_H

#include "token/bpe.h"
#include "token/unicode.h"

enum {
	KP_BORDER_PAIR_BITS = 21,
	KP_BORDER_TRIPLE_BITS = 22,
	/* Where the sets are, in words of 64 bits: pairs of ASCII characters (bit b of row a, two words a row), all pairs, pairs that are a token,
	   triples. */
	KP_BORDER_PAIR = 256,
	KP_BORDER_WHOLE = KP_BORDER_PAIR + (1 << (KP_BORDER_PAIR_BITS - 6)),
	KP_BORDER_TRIPLE = KP_BORDER_WHOLE + (1 << (KP_BORDER_PAIR_BITS - 6)),
	KP_BORDER_WORDS = KP_BORDER_TRIPLE + (1 << (KP_BORDER_TRIPLE_BITS - 6)),
};
#define KP_BORDER_NONE  0x1fffffU /* no character */
#define KP_BORDER_BLANK 0x2581U   /* "▁", which a blank may stand for */

struct kp_borders {
	uint64_t *set;   /* KP_BORDER_WORDS; NULL: nothing is ever cut */
	bool blank;      /* a blank is "▁" */
	unsigned blanks; /* Behind 2 to so many blanks in a row a text can be cut; 0: it cannot */
};
enum { KP_BORDER_BLANKS = 62, KP_BORDER_LETTERS = 257 };

/* Over the words of v with one of these flags. */
int kp_borders_create(struct kp_borders *c, const struct kp_vocab *v, uint8_t flags, bool blank,
	struct kp_err *err) KP_MUST_USE;
void kp_borders_fini(struct kp_borders *c);
/* How many letters at p < end are one long piece, which merges as a whole faster than its many parts; 0: there are fewer than KP_BORDER_LETTERS. *ret_end: where they end. */
size_t kp_borders_letters(
	const struct kp_borders *c, const uint8_t *p, const uint8_t *end, const uint8_t **ret_end);
/* Finds `blanks`, from all merges that ever happen in rank order. */
void kp_borders_find_blanks(
	struct kp_borders *c, const struct kp_bpe *b, const struct kp_merge *m, size_t n);

static inline size_t kp_border_pair(uint32_t a, uint32_t b)
{
	uint64_t h = ((uint64_t)a << 32 | b) * UINT64_C(0x9e3779b97f4a7c15);
	return (size_t)(h >> (64 - KP_BORDER_PAIR_BITS));
}
static inline size_t kp_border_triple(uint32_t a, uint32_t b, uint32_t c)
{
	uint64_t h = ((uint64_t)a << 42 ^ (uint64_t)b << 21 ^ c) * UINT64_C(0x9e3779b97f4a7c15);
	return (size_t)(h >> (64 - KP_BORDER_TRIPLE_BITS));
}
static inline bool kp_border_has(const uint64_t *set, size_t bit)
{
	return set[bit >> 6] >> (bit & 63) & 1;
}

/* Do two ASCII characters stand side by side in a token? */
static inline bool kp_borders_ascii(const struct kp_borders *c, uint32_t a, uint32_t b)
{
	return c->set[2 * a + (b >> 6)] >> (b & 63) & 1;
}

/* May something join a and b, between x and y (KP_BORDER_NONE: an end or a cut)? Blanks are "▁" already where they are to be. */
static inline bool kp_borders_joined(
	const struct kp_borders *c, uint32_t x, uint32_t a, uint32_t b, uint32_t y)
{
	const uint64_t *pair = c->set + KP_BORDER_PAIR, *whole = c->set + KP_BORDER_WHOLE,
		       *triple = c->set + KP_BORDER_TRIPLE;
	if (a < 128 && b < 128 ? !kp_borders_ascii(c, a, b)
			       : !kp_border_has(pair, kp_border_pair(a, b))) {
		return false;
	}
	return kp_border_has(whole, kp_border_pair(a, b)) ||
	       (x != KP_BORDER_NONE && kp_border_has(triple, kp_border_triple(x, a, b))) ||
	       (y != KP_BORDER_NONE && kp_border_has(triple, kp_border_triple(a, b, y)));
}

/* How many bytes at p < end can be encoded apart from what follows. */
size_t kp_borders_next(const struct kp_borders *c, const uint8_t *p, const uint8_t *end);

#endif

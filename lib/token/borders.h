/* Places in a text over which no merge can reach, whatever else the text holds: pieces between them are short, come again, and are cached. A token that covers
   the border between two characters has them side by side; so where no token has the two, or no token is the two alone and none has them with the
   character before or with the one behind, nothing ever joins. Pairs of alphabets have tables (a language's letters are in one or two cache lines), the others and all triples
   are in a set by hash: one that says yes by mistake only leaves a border uncut. Immutable after creation. */
#ifndef KP_TOKEN_BORDERS_H
#define KP_TOKEN_BORDERS_H

#include "token/bpe.h"
#include "token/unicode.h"

enum {
	KP_BORDER_DIRECT =
		0x4000, /* characters that have tables of their pairs, by groups of 128: all alphabets, and kana */
	KP_BORDER_INDEX = (KP_BORDER_DIRECT >> 7) * (KP_BORDER_DIRECT >> 7),
	KP_BORDER_BLOCKS = 256, /* tables at most; the first ones: */
	KP_BORDER_EMPTY = 0,
	KP_BORDER_IN_SET =
		1, /* as empty; of groups that found no room, whose pairs are in the set */
	KP_BORDER_ASCII = 2,
	KP_BORDER_PAIR_BITS = 19,
	KP_BORDER_TRIPLE_BITS = 22,
	/* The set, in words of 64 bits: two bits for each pair, then triples. */
	KP_BORDER_TRIPLE = 1 << (KP_BORDER_PAIR_BITS - 5),
	KP_BORDER_WORDS = KP_BORDER_TRIPLE + (1 << (KP_BORDER_TRIPLE_BITS - 6)),
};
#define KP_BORDER_NONE  0x1fffffU /* no character */
#define KP_BORDER_BLANK 0x2581U   /* "▁", which a blank may stand for */

/* What is known of two characters side by side. */
enum {
	KP_PAIR_APART = 0, /* in no token */
	KP_PAIR_INSIDE = 1,
	KP_PAIR_TOKEN = 3, /* they are one, and nothing else is to be asked */
};

/* A character's row of a table: the 128 that may stand behind it. */
struct kp_border_row {
	uint64_t token[2], inside[2];
};

struct kp_borders {
	uint64_t *set;             /* KP_BORDER_WORDS; NULL: nothing is ever cut */
	uint8_t *index;            /* KP_BORDER_INDEX, by the two characters' groups: which table */
	struct kp_border_row *row; /* 128 for each table */
	size_t n_blocks;
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

/* The first of its two bits. */
static inline size_t kp_border_pair(uint32_t a, uint32_t b)
{
	uint64_t h = ((uint64_t)a << 32 | b) * UINT64_C(0x9e3779b97f4a7c15);
	return (size_t)(h >> (64 - KP_BORDER_PAIR_BITS)) << 1;
}
static inline size_t kp_border_triple(uint32_t a, uint32_t b, uint32_t c)
{
	uint64_t h = ((uint64_t)a << 42 ^ (uint64_t)b << 21 ^ c) * UINT64_C(0x9e3779b97f4a7c15);
	return (size_t)(h >> (64 - KP_BORDER_TRIPLE_BITS));
}

static inline bool kp_border_in(const uint64_t set[2], uint32_t b)
{
	return set[b >> 6 & 1] >> (b & 63) & 1;
}

/* KP_PAIR_*. Blanks that are "▁" may stand as either. */
static inline unsigned kp_borders_pair(const struct kp_borders *c, uint32_t a, uint32_t b)
{
	if (KP_LIKELY((a | b) < KP_BORDER_DIRECT)) {
		size_t block = c->index[a >> 7 << 7 | b >> 7];
		const struct kp_border_row *r = &c->row[block << 7 | (a & 127)];
		if (KP_LIKELY(kp_border_in(r->token, b))) {
			return KP_PAIR_TOKEN;
		}
		if (KP_LIKELY(block != KP_BORDER_IN_SET)) {
			return kp_border_in(r->inside, b);
		}
	}
	size_t bit = kp_border_pair(a, b);
	return c->set[bit >> 6] >> (bit & 63) & 3;
}

/* The same of two ASCII characters. */
static inline unsigned kp_borders_ascii(const struct kp_borders *c, uint32_t a, uint32_t b)
{
	const struct kp_border_row *r = &c->row[KP_BORDER_ASCII << 7 | a];
	return kp_border_in(r->inside, b) | (unsigned)kp_border_in(r->token, b) << 1;
}

/* Are three characters side by side in a token? KP_BORDER_NONE: an end or a cut. */
static inline bool kp_borders_triple(const struct kp_borders *c, uint32_t x, uint32_t y, uint32_t z)
{
	size_t bit = kp_border_triple(x, y, z);
	return x != KP_BORDER_NONE && z != KP_BORDER_NONE &&
	       (c->set[KP_BORDER_TRIPLE + (bit >> 6)] >> (bit & 63) & 1);
}

/* May something join a and b, of which `pair` is known, between x and y? */
static inline bool kp_borders_joined(
	const struct kp_borders *c, unsigned pair, uint32_t x, uint32_t a, uint32_t b, uint32_t y)
{
	return pair == KP_PAIR_TOKEN ||
	       (pair && (kp_borders_triple(c, x, a, b) || kp_borders_triple(c, a, b, y)));
}

/* How many bytes at p < end can be encoded apart from what follows. */
size_t kp_borders_next(const struct kp_borders *c, const uint8_t *p, const uint8_t *end);

#endif

/* The tokens that a short whole piece may be: pieces of up to 12 bytes that encode to one id, 16 bytes each, four to a cache line. One look-up
   touches one line, where the vocabulary's own table (kp_vocab_find) touches three; it is asked whenever a thread's cache does not know
   a piece. Immutable after creation. */
#ifndef KP_TOKEN_WORDS_H
#define KP_TOKEN_WORDS_H

#include "token/bpe.h"
#include "token/hash.h"

enum {
	KP_WORD_MAX = 12,
	KP_WORD_SPILL = 64, /* lines behind the last, for its overflow */
	KP_LONGER_BITS = 18,
	KP_LONGER_WORDS = 1 << (KP_LONGER_BITS - 6), /* of 64 bits */
};

struct kp_word {
	uint64_t lo;   /* bytes 0..7 */
	uint32_t hi;   /* bytes 8..11 */
	uint32_t info; /* length << 20 | id; 0: free, and all behind it in the line */
};
struct kp_words {
	struct kp_word *word;
	void *block;
	uint32_t n_lines;
	uint64_t *
		longer; /* the longer ones, by hash of their bytes: says no to nearly all pieces that are none */
};

/* All tokens of v with one of these flags. blank: with blanks for "▁". */
int kp_words_create(struct kp_words *w, const struct kp_vocab *v, uint8_t flags, bool blank,
	struct kp_err *err) KP_MUST_USE;
void kp_words_fini(struct kp_words *w);

static inline uint64_t kp_words_hash(uint64_t lo, uint32_t hi, size_t n)
{
	return kp_hash_fold(lo, (uint64_t)n << 32 | hi);
}
static inline const struct kp_word *kp_words_line(const struct kp_words *w, uint64_t hash)
{
	return w->word + ((hash >> 32) * w->n_lines >> 32) * 4;
}

/* The id of the piece whose bytes are lo, hi (zeros behind its end); KP_BPE_NO_ID: none. n is 1..12. */
static inline kp_id kp_words_find(const struct kp_words *w, uint64_t lo, uint32_t hi, size_t n)
{
	for (const struct kp_word *line = kp_words_line(w, kp_words_hash(lo, hi, n));; line += 4) {
		for (size_t i = 0; i < 4; i++) {
			if (line[i].lo == lo && line[i].hi == hi && line[i].info >> 20 == n) {
				return line[i].info & 0xfffff;
			}
		}
		if (line[3].info == 0) {
			return KP_BPE_NO_ID;
		}
	}
}

/* May the piece of more than KP_WORD_MAX bytes with this kp_hash_bytes be one? */
static inline bool kp_words_may(const struct kp_words *w, uint64_t hash)
{
	uint64_t bit = hash >> (64 - KP_LONGER_BITS);
	return w->longer[bit >> 6] >> (bit & 63) & 1;
}

#endif

/* Byte-pair merges: the pair table and the exact merge of one piece (lowest rank first, then leftmost), as Hugging Face's
   `BPE` model and llama.cpp do it. Immutable after kp_bpe_finish; working memory belongs to the caller. */
#ifndef KP_TOKEN_BPE_H
#define KP_TOKEN_BPE_H

#include "base/err.h"
#include "base/str.h"
#include "core/ids.h"
#include "token/pair.h"
#include "token/vocab.h"

enum {
	KP_BPE_MAX_TOKENS =
		1 << 20, /* ids are below it: a pair and its rank fit one word of the table */
	KP_BPE_MAX_MERGES = (1 << 23) - 2,
	KP_BPE_SMALL = 256, /* symbols that the quadratic merge takes */
};
#define KP_BPE_NO_ID (KP_BPE_MAX_TOKENS - 2) /* no token */
#define KP_BPE_NONE  UINT32_MAX              /* no rank */

struct kp_merge {
	kp_id left, right, product;
};

/* Which tokens merge with this one, on either side: bit id mod 64. Says no to most pairs that never merge, and the entries of
   common tokens stay in the cache, which the table of all pairs does not. */
struct kp_partners {
	uint64_t right, left;
};

/* A whole character of two or three bytes that a merge may start from, and the bytes around it that forbid it (bpe_chars.c). */
struct kp_char {
	uint64_t before,
		behind; /* bit: the last byte of the character before, the first of the one behind, mod 64 */
	kp_id id;
	bool not_behind_ascii, not_before_ascii;
};

struct kp_bpe {
	const struct kp_vocab *vocab;
	struct kp_pair_line *
		line; /* an empty one, 2^line_bits, and some for the last ones to be moved on into */
	void *line_block;
	unsigned line_bits;
	uint32_t n_merges;
	struct kp_partners *partners; /* by id */
	kp_id *product; /* by rank; NULL: ranks are the ids of what the merges give (by_product) */
	bool by_product; /* set before kp_bpe_create: all merges that give one token have its id as their rank */
	uint32_t *byte_pair; /* rank by two bytes, 256 * 256 */
	kp_id gap; /* stands for a byte that is no token: merges with nothing, gives no id. One past the last id */
	kp_id byte_id[256];
	bool drop_gaps; /* an unknown byte vanishes before merging (Hugging Face), else its neighbours stay apart (llama.cpp) */
	uint32_t *
		ascii; /* KP_ASCII_WORDS: what is known of two letters side by side, and of borders (bpe_ascii.c); NULL: nothing */
	uint16_t *char_index;  /* into chars, by code point below U+10000; 0: none */
	struct kp_char *chars; /* n_chars of them */
	size_t n_chars;
};
enum { KP_PAIR_SPILL = 14 }; /* lines that a pair is moved on at most, less than 2^4 - 1 */
/* How many lines the pair table has. */
static inline size_t kp_pair_lines(unsigned line_bits)
{
	return ((size_t)1 << line_bits) + 1 + KP_PAIR_SPILL;
}

/* Builds the tables over merges in rank order. Of equal pairs the last wins (keep_last: Hugging Face) or the first (llama.cpp).
   vocab must be complete and outlive b. Memory: 14 bytes per merge, 16 per token, 0.5 MiB. */
int kp_bpe_create(struct kp_bpe *b, struct kp_vocab *vocab, const struct kp_merge *merges, size_t n,
	bool keep_last, bool drop_gaps, struct kp_err *err) KP_MUST_USE;
/* What kp_bpe_symbols needs, for tokens that are text. */
int kp_bpe_create_text(struct kp_bpe *b, struct kp_vocab *vocab, const struct kp_merge *merges,
	size_t n, struct kp_err *err) KP_MUST_USE;
void kp_bpe_fini(struct kp_bpe *b);
/* bpe_live.c: drops the merges that never happen and marks the tokens that their own text encodes to (KP_TOK_SELF). char_id: of vocabularies of text, the tokens
   of characters below U+10000; NULL: symbols are bytes. ret: the merges that are left, in rank order, to be freed; or NULL. */
int kp_bpe_drop_dead(struct kp_bpe *b, struct kp_vocab *v, const kp_id *char_id,
	struct kp_merge **ret, struct kp_err *err) KP_MUST_USE;
/* Makes the tables of pairs anew, over n merges in rank order. */
int kp_bpe_rebuild(struct kp_bpe *b, const struct kp_merge *merges, size_t n, bool by_product,
	struct kp_err *err) KP_MUST_USE;
/* bpe_chars.c: fills char_index and chars; part of kp_bpe_create. */
int kp_bpe_find_chars(
	struct kp_bpe *b, const struct kp_merge *merges, struct kp_err *err) KP_MUST_USE;

/* The rank of merge i of those that the tables were made of. */
static inline uint32_t kp_bpe_merge_rank(
	const struct kp_bpe *b, const struct kp_merge *merges, uint32_t i)
{
	return b->by_product ? merges[i].product : i;
}

/* Where the rank of a pair stands. One that never merges is sent to the empty line in front: no branch to guess wrong, so look-ups wait for memory side by side. */
struct kp_pair_at {
	const struct kp_pair_line *line;
	uint32_t tag;
};
static inline struct kp_pair_at kp_bpe_pair(const struct kp_bpe *b, kp_id left, kp_id right)
{
	uint64_t may = b->partners[left].right >> (right & 63) &
		       b->partners[right].left >> (left & 63) & 1;
	uint64_t place = kp_pair_place(left, right);
	return (struct kp_pair_at){ &b->line[-may & ((place >> (64 - b->line_bits)) + 1)],
		(uint32_t)(place << b->line_bits >> 32) + 1 };
}
/* Its rank, KP_BPE_NONE when it never merges. */
static inline uint32_t kp_bpe_rank_at(struct kp_pair_at at)
{
	for (;; at.line++, at.tag++) {
		unsigned m = kp_pair_match(at.line, at.tag);
		uint32_t rank = at.line->rank[__builtin_ctz(m | 0x80)];
		/* Asked first, since whether a pair is found is anybody's guess. */
		if (KP_LIKELY(at.line->tag[7] == 0) || m) {
			return m ? rank : KP_BPE_NONE;
		}
	}
}
/* Rank of a pair of ids (or gaps). */
static inline uint32_t kp_bpe_rank(const struct kp_bpe *b, kp_id left, kp_id right)
{
	return kp_bpe_rank_at(kp_bpe_pair(b, left, right));
}
static inline kp_id kp_bpe_product(const struct kp_bpe *b, uint32_t rank)
{
	return KP_LIKELY(!b->product) ? rank : b->product[rank];
}

/* At most KP_BPE_SMALL bytes; out has room for n ids. Returns how many. */
size_t kp_bpe_small(const struct kp_bpe *b, const uint8_t *p, size_t n, kp_id *out);

/* The same for many short pieces at once. */
enum { KP_BPE_FEW = 17, KP_BPE_SOME = 30, KP_BPE_MANY = 62 }; /* symbols */
struct kp_bpe_job {
	const uint8_t *p; /* bytes; or NULL: */
	const kp_id *sym; /* symbols, no gaps */
	const uint32_t *
		rank; /* NULL, or the rank of each of them and the one before, 24 bits; 3 more are read */
	size_t n;             /* how many of them; then how many ids came out */
	kp_id *ids;           /* room for n */
	uint16_t *len;        /* NULL, or room for n: how many symbols each id stands for */
	struct kp_merge last; /* the last merge, and its rank: KP_BPE_NONE when there was none */
	uint32_t last_rank;
};
void kp_bpe_merge_all(
	const struct kp_bpe *b, struct kp_bpe_job *job, size_t n); /* of at most KP_BPE_FEW */
void kp_bpe_merge_some(
	const struct kp_bpe *b, struct kp_bpe_job *job, size_t n); /* of at most KP_BPE_SOME */
void kp_bpe_merge_windows(
	const struct kp_bpe *b, struct kp_bpe_job *job, size_t n); /* of at most KP_BPE_MANY */

/* The symbols that merging n bytes starts from; sym has room for n. Returns how many. */
size_t kp_bpe_start(const struct kp_bpe *b, const uint8_t *p, size_t n, kp_id *sym);
/* The same from at most KP_BPE_SMALL symbols; and also how many of them each id stands for; and whether one token is left, with the last merge. */
size_t kp_bpe_small_symbols(const struct kp_bpe *b, const kp_id *sym, size_t n, kp_id *out);
size_t kp_bpe_small_lengths(
	const struct kp_bpe *b, const kp_id *sym, size_t n, kp_id *out, uint16_t *len);
bool kp_bpe_small_last(const struct kp_bpe *b, const kp_id *sym, size_t n, struct kp_merge *ret);
/* bpe_long.c: any number of symbols, or bytes. work is appended to; it holds working memory too. RESOURCE_EXHAUSTED when its maximum is reached or
   memory is gone. Linear where merges look a bounded way ahead, O(n log n) always. */
int kp_bpe_symbols(const struct kp_bpe *b, const kp_id *sym, size_t n, struct kp_ids *work,
	struct kp_err *err) KP_MUST_USE;
int kp_bpe_long(const struct kp_bpe *b, const uint8_t *p, size_t n, struct kp_ids *work,
	struct kp_err *err) KP_MUST_USE;
/* The O(n log n) way alone; the others fall back to it, tests compare them. */
int kp_bpe_heap(const struct kp_bpe *b, const uint8_t *p, size_t n, struct kp_ids *work,
	struct kp_err *err) KP_MUST_USE;
/* Merges n symbols; true when one token is left, *ret the last merge. */
bool kp_bpe_last_merge(
	const struct kp_bpe *b, const kp_id *sym, size_t n, struct kp_merge *ret) KP_MUST_USE;

#endif

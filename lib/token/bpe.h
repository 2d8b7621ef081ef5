/* Byte-pair merges: the pair table and the exact merge of one piece (lowest rank first, then leftmost), as Hugging Face's
   `BPE` model and llama.cpp do it. Immutable after kp_bpe_finish; working memory belongs to the caller. */
#ifndef KP_TOKEN_BPE_H
#define KP_TOKEN_BPE_H

#include "base/err.h"
#include "base/str.h"
#include "core/ids.h"

enum {
	KP_BPE_MAX_TOKENS =
		1 << 20, /* ids are below it: a pair and its rank fit one word of the table */
	KP_BPE_MAX_MERGES = (1 << 23) - 1,
	KP_BPE_SMALL = 256, /* bytes that the quadratic merge takes */
};
#define KP_BPE_GAP \
	(KP_BPE_MAX_TOKENS - 2) /* a byte that is no token: merges with nothing, gives no id */

struct kp_tok {      /* one id; 8 bytes, since decoding reads nothing else */
	uint32_t at; /* its bytes in the blob */
	uint16_t n;
	uint8_t flags;
	uint8_t unused;
};
enum {
	KP_TOK_KNOWN = 1,
	KP_TOK_SPECIAL = 2, /* skipped by skip_special */
	KP_TOK_ADDED = 4,
	KP_TOK_WORD = 8,  /* part of the byte-level vocabulary: merges may give it */
	KP_TOK_SELF = 16, /* its bytes encode to just this id: looking a whole piece up is exact */
};

struct kp_vocab { /* ids to bytes and back */
	const char *blob;
	struct kp_tok *tok; /* n of them, by id */
	size_t n;
	uint32_t *
		slot; /* hash table of the KP_TOK_WORD ids: 12 bits of hash, 20 bits of id + 1; 0 empty */
	size_t slot_mask;
};
static inline kp_str kp_vocab_bytes(const struct kp_vocab *v, kp_id id)
{
	return kp_str_n(v->blob + v->tok[id].at, v->tok[id].n);
}
/* Fills the hash table from tok. INVALID_ARGUMENT when two words have the same bytes. */
int kp_vocab_index(struct kp_vocab *v, struct kp_err *err) KP_MUST_USE;
/* KP_BPE_GAP when no word has these bytes. */
kp_id kp_vocab_find(const struct kp_vocab *v, kp_str bytes);

struct kp_bpe {
	const struct kp_vocab *vocab;
	uint64_t *pair; /* open addressing: left << 44 | right << 24 | rank; all ones: empty */
	unsigned shift;
	size_t mask, n_merges;
	kp_id *product;     /* by rank */
	kp_id byte_id[256]; /* KP_BPE_GAP: not in the vocabulary */
	bool drop_gaps; /* an unknown byte vanishes before merging (Hugging Face), else its neighbours stay apart (llama.cpp) */
	kp_id *char2,
		*char3; /* whole characters of 2 and 3 bytes that no merge around them can break up; KP_BPE_GAP: start from bytes */
};

struct kp_merge {
	kp_id left, right, product;
};
/* Builds the tables over merges in rank order. Of equal pairs the last wins (keep_last: Hugging Face) or the first (llama.cpp).
   vocab must be complete and outlive b. Memory: 8 bytes per slot, at most 2.7 slots per merge. */
int kp_bpe_create(struct kp_bpe *b, struct kp_vocab *vocab, const struct kp_merge *merges, size_t n,
	bool keep_last, bool drop_gaps, struct kp_err *err) KP_MUST_USE;
void kp_bpe_fini(struct kp_bpe *b);

/* Rank of a pair, UINT32_MAX when it never merges. */
static inline uint32_t kp_bpe_rank(const struct kp_bpe *b, kp_id left, kp_id right)
{
	uint64_t key = (uint64_t)left << 20 | right;
	for (size_t i = (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> b->shift);;
		i = (i + 1) & b->mask) {
		uint64_t e = b->pair[i];
		if (KP_LIKELY(e >> 24 == key)) {
			return (uint32_t)(e & 0xffffff);
		}
		if (e == UINT64_MAX) {
			return UINT32_MAX;
		}
	}
}

/* At most KP_BPE_SMALL bytes; out has room for n ids. Returns how many. */
size_t kp_bpe_small(const struct kp_bpe *b, const uint8_t *p, size_t n, kp_id *out);

/* Any length. work is appended to (working memory and result: ids [work->n before, work->n after)). RESOURCE_EXHAUSTED when
   work's maximum is reached or memory is gone. Linear for text whose merges look a bounded way ahead, O(n log n) always. */
int kp_bpe_long(const struct kp_bpe *b, const uint8_t *p, size_t n, struct kp_ids *work,
	struct kp_err *err) KP_MUST_USE;
/* The O(n log n) way alone; kp_bpe_long falls back to it, tests compare the three. */
int kp_bpe_heap(const struct kp_bpe *b, const uint8_t *p, size_t n, struct kp_ids *work,
	struct kp_err *err) KP_MUST_USE;

#endif

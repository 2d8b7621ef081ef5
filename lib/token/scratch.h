/* The working memory of one thread's encodes (contract: tokenizer.h).

   Two caches of pieces, both lossy and verified byte by byte, so a collision costs time and never a wrong id:
   - short pieces (up to 15 bytes, at most 4 ids): pairs of 32-byte entries, key and ids inline; one cache line per look-up;
   - everything else up to KP_CACHE_LONG bytes: an index into a log of records that starts anew when it is full.
   Keys carry the tokenizer's slot; slots are given to the tokenizers that the scratch has met, and when there are no more the caches
   start anew. */
#ifndef KP_TOKEN_SCRATCH_H
#define KP_TOKEN_SCRATCH_H

#include "base/buf.h"
#include "core/ids.h"
#include "token/effort.h"
#include "token/hash.h"
#include "token/model.h"
#include "token/norm.h"
#include "token/split.h"

enum {
	KP_CACHE_KEY = 15,    /* bytes of a short piece */
	KP_CACHE_SLOTS = 15,  /* tokenizers at once */
	KP_CACHE_LONG = 1024, /* bytes of a long piece */
	KP_CACHE_FAR = 255,   /* a count: more than four ids, kept with the long pieces */
};

struct kp_cache_key {
	uint64_t lo, hi; /* the bytes, then in the last byte: slot << 4 | length. Never all zero */
};
struct kp_cache_entry {
	struct kp_cache_key key;
	kp_id id[4]; /* id[0] has the count in its upper 8 bits */
};

struct kp_token_scratch {
	size_t max_bytes;
	void *table_block;
	struct kp_cache_entry *table; /* two entries per bucket, 64-byte aligned */
	size_t n_buckets;
	uint32_t *index; /* offset / 8 + 1 into log; 0 empty */
	size_t index_mask;
	uint8_t *log;
	size_t log_n, log_cap;
	uint32_t serial[KP_CACHE_SLOTS + 1]; /* tokenizer in slot 1..; 0: free */
	struct kp_norm_work norm;
	struct kp_split_work split;
	struct kp_model_work model;
	struct kp_ids work;      /* of one long piece */
	struct kp_effort effort; /* of the encode under way */
	struct kp_span *span;
};

/* The slot of a tokenizer. */
unsigned kp_scratch_slot(struct kp_token_scratch *s, uint32_t serial);
/* Gives memory beyond the budget back. */
void kp_scratch_trim(struct kp_token_scratch *s);

/* A long piece's hash, 0 when it is too long for the log; where it may be is sent for. */
static inline uint64_t kp_cache_long(
	const struct kp_token_scratch *s, unsigned slot, const uint8_t *p, size_t n)
{
	uint64_t hash = n <= KP_CACHE_LONG ? kp_hash_bytes(p, n) + slot : 0;
	__builtin_prefetch(&s->index[hash & s->index_mask]);
	return hash;
}
/* A long piece's ids, NULL when it is not there. Valid until the next kp_cache_put_long. */
const kp_id *kp_cache_get_long(const struct kp_token_scratch *s, unsigned slot, const uint8_t *p,
	size_t n, uint64_t hash, size_t *ret_n);
void kp_cache_put_long(struct kp_token_scratch *s, unsigned slot, const uint8_t *p, size_t n,
	uint64_t hash, const kp_id *ids, size_t n_ids);

#endif

/* The hot loop of encoding: pieces to ids through the scratch's cache, and the frame that every pre-tokenizer runs in. Included by
   encode.c and pretok_*.c only; everything is inlined so that each pattern gets its own loop. */
#ifndef KP_TOKEN_SPAN_H
#define KP_TOKEN_SPAN_H

#include "token/hash.h"
#include "token/internal.h"
#include "token/scratch.h"

enum {
	KP_BLOCK = 64,          /* bytes that one look at ASCII text covers */
	KP_PAD = KP_BLOCK + 16, /* bytes readable behind the begin of a block */
	KP_OUT = 2048,          /* ids collected before they go to the caller's array */
	KP_OUT_ROOM = KP_BLOCK * 4 + 16,
};

struct kp_span {
	const struct kp_tokenizer *t;
	struct kp_token_scratch *s;
	struct kp_cache_entry *table; /* s->table */
	uint64_t bucket_mask;
	uint64_t tag; /* slot of this tokenizer in the cache, as it stands in a key's last byte */
	struct kp_ids *ids;
	struct kp_err *err;
	bool failed;
	size_t n; /* in out */
	kp_id out[KP_OUT + KP_OUT_ROOM];
	uint8_t tail[2 * KP_PAD];
};

void kp_span_flush(struct kp_span *e); /* sets failed and err when the caller's array is full */
void kp_span_miss(struct kp_span *e, const uint8_t *p, size_t n, struct kp_cache_key key);
void kp_span_long(struct kp_span *e, const uint8_t *p, size_t n);

static inline struct kp_cache_key kp_span_key(const struct kp_span *e, const uint8_t *p, size_t n)
{
	/* Masks by arithmetic: n is 1..15. */
	uint64_t lo = kp_load64(p), hi = kp_load64(p + 8);
	uint64_t mlo = n >= 8 ? UINT64_MAX : (UINT64_C(1) << 8 * n) - 1;
	uint64_t mhi = n > 8 ? (UINT64_C(1) << 8 * (n - 8)) - 1 : 0;
	return (struct kp_cache_key){ lo & mlo, (hi & mhi) | e->tag | (uint64_t)n << 56 };
}

static inline struct kp_cache_entry *kp_span_bucket(const struct kp_span *e, struct kp_cache_key k)
{
	return e->table + (kp_hash_fold(k.lo, k.hi) & e->bucket_mask) * 2;
}

/* The ids of the piece at p; at least 16 bytes are readable there. */
static inline void kp_span_piece(struct kp_span *e, const uint8_t *p, size_t n)
{
	if (KP_UNLIKELY(n > KP_CACHE_KEY)) {
		kp_span_long(e, p, n);
		return;
	}
	struct kp_cache_key k = kp_span_key(e, p, n);
	const struct kp_cache_entry *c = kp_span_bucket(e, k);
	if (KP_UNLIKELY(c->key.lo != k.lo || c->key.hi != k.hi)) {
		c++;
		if (KP_UNLIKELY(c->key.lo != k.lo || c->key.hi != k.hi)) {
			kp_span_miss(e, p, n, k);
			return;
		}
	}
	kp_id id[4];
	memcpy(id, c->id, sizeof(id));
	size_t count = id[0] >> 24;
	id[0] &= 0xffffff;
	memcpy(e->out + e->n, id, sizeof(id));
	e->n += count;
}

/* Length of the piece that begins at p < end; the text is valid UTF-8. */
typedef size_t kp_piece_fn(const uint8_t *p, const uint8_t *end);
/* Begins of pieces in the ASCII text that starts at p, bit 0 among them: only those that are certain, however the text goes on behind
   the 64 bytes or the first non-ASCII byte. *ret_all: all of the text up to `end` was seen. */
typedef uint64_t kp_starts_fn(const uint8_t *p, const uint8_t *end, bool *ret_all);

static inline __attribute__((always_inline)) void kp_span_run(struct kp_span *e, const uint8_t *p,
	const uint8_t *end, const uint8_t *readable, kp_starts_fn *starts, kp_piece_fn *piece)
{
	while (p < end && !e->failed) {
		if (KP_UNLIKELY(readable - p < KP_PAD)) {
			size_t n = (size_t)(end - p); /* < KP_PAD */
			memmove(e->tail, p, n);
			memset(e->tail + n, 0, sizeof(e->tail) - n);
			p = e->tail;
			end = p + n;
			readable = e->tail + sizeof(e->tail);
		}
		if (KP_UNLIKELY(e->n > KP_OUT)) {
			kp_span_flush(e);
		}
		if (KP_LIKELY(*p < 0x80)) {
			bool all;
			uint64_t m = starts(p, end, &all) & ~UINT64_C(1);
			if (KP_LIKELY(m || all)) {
				const uint8_t *from = p, *to;
				for (; m; m &= m - 1, from = to) {
					to = p + __builtin_ctzll(m);
					kp_span_piece(e, from, (size_t)(to - from));
				}
				if (all) {
					kp_span_piece(e, from, (size_t)(end - from));
					return;
				}
				p = from;
				continue;
			}
		}
		size_t n = piece(p, end);
		kp_span_piece(e, p, n);
		p += n;
	}
}

#endif

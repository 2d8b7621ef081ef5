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
void kp_span_far(struct kp_span *e, const uint8_t *p, size_t n, struct kp_cache_key key);
void kp_span_long(struct kp_span *e, const uint8_t *p, size_t n);

extern const uint64_t kp_key_masks[16][2]; /* the first n bytes of 16 */
static inline struct kp_cache_key kp_span_key(const struct kp_span *e, const uint8_t *p, size_t n)
{
	const uint64_t *mask = kp_key_masks[n];
	return (struct kp_cache_key){ kp_load64(p) & mask[0],
		(kp_load64(p + 8) & mask[1]) | e->tag | (uint64_t)n << 56 };
}

static inline struct kp_cache_entry *kp_span_bucket(const struct kp_span *e, struct kp_cache_key k)
{
	return e->table + (kp_hash_fold(k.lo, k.hi) & e->bucket_mask) * 2;
}

/* Takes the ids of a short piece out of its bucket. */
static inline void kp_span_take(struct kp_span *e, const struct kp_cache_entry *c,
	struct kp_cache_key k, const uint8_t *p, size_t n)
{
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
	if (KP_UNLIKELY(count == KP_CACHE_FAR)) {
		kp_span_far(e, p, n, k);
		return;
	}
	id[0] &= 0xffffff;
	memcpy(e->out + e->n, id, sizeof(id));
	e->n += count;
}

/* The ids of the piece at p; at least 16 bytes are readable there. */
static inline void kp_span_piece(struct kp_span *e, const uint8_t *p, size_t n)
{
	if (KP_UNLIKELY(n > KP_CACHE_KEY)) {
		kp_span_long(e, p, n);
		return;
	}
	struct kp_cache_key k = kp_span_key(e, p, n);
	kp_span_take(e, kp_span_bucket(e, k), k, p, n);
}

/* The pieces that begin at p and at each bit of m; the last one ends at `end` when that is not NULL and is left out otherwise. Returns
   where the text that was not taken begins. First all keys, so that the look-ups wait for memory side by side. */
static inline const uint8_t *kp_span_block(
	struct kp_span *e, const uint8_t *p, uint64_t m, const uint8_t *end)
{
	struct {
		struct kp_cache_key key;
		const struct kp_cache_entry *bucket;
		size_t len;
	} q[KP_BLOCK + 1];
	size_t n = 0;
	const uint8_t *from = p;
	for (bool last = false; !last; n++) {
		last = m == 0;
		if (last && !end) {
			break;
		}
		const uint8_t *to = last ? end : p + __builtin_ctzll(m);
		m &= m - 1;
		q[n].len = (size_t)(to - from);
		q[n].key = kp_span_key(e, from, KP_MIN(q[n].len, (size_t)KP_CACHE_KEY));
		q[n].bucket = kp_span_bucket(e, q[n].key);
		__builtin_prefetch(q[n].bucket);
		from = to;
	}
	for (size_t i = 0; i < n; i++) {
		if (KP_UNLIKELY(q[i].len > KP_CACHE_KEY)) {
			kp_span_long(e, p, q[i].len);
		} else {
			kp_span_take(e, q[i].bucket, q[i].key, p, q[i].len);
		}
		p += q[i].len;
	}
	return p;
}

/* Length of the piece that begins at p < end; the text is valid UTF-8. */
typedef size_t kp_piece_fn(const uint8_t *p, const uint8_t *end);
/* Begins of pieces in the ASCII text that starts at p, bit 0 among them: only those that are certain, however the text goes on behind
   the 64 bytes or the first non-ASCII byte. *ret_all: all of the text up to `end` was seen. */
typedef uint64_t kp_starts_fn(const uint8_t *p, const uint8_t *end, bool *ret_all);

/* Where less than a block's memory is left behind p, the rest goes on in memory that has enough. */
static inline void kp_span_room(
	struct kp_span *e, const uint8_t **p, const uint8_t **end, const uint8_t **readable)
{
	if (KP_UNLIKELY(*readable - *p < KP_PAD)) {
		size_t n = (size_t)(*end - *p); /* < KP_PAD */
		memmove(e->tail, *p, n);
		memset(e->tail + n, 0, sizeof(e->tail) - n);
		*p = e->tail;
		*end = *p + n;
		*readable = e->tail + sizeof(e->tail);
	}
}

static inline __attribute__((always_inline)) void kp_span_run(struct kp_span *e, const uint8_t *p,
	const uint8_t *end, const uint8_t *readable, kp_starts_fn *starts, kp_piece_fn *piece)
{
	while (p < end && !e->failed) {
		kp_span_room(e, &p, &end, &readable);
		if (KP_UNLIKELY(e->n > KP_OUT)) {
			kp_span_flush(e);
		}
		/* Eight bytes of ASCII: fewer are not worth a block. */
		if (KP_LIKELY(!(kp_load64(p) & UINT64_C(0x8080808080808080)))) {
			bool all;
			uint64_t m = starts(p, end, &all) & ~UINT64_C(1);
			if (KP_LIKELY(m || all)) {
				p = kp_span_block(e, p, m, all ? end : NULL);
				continue;
			}
		}
		size_t n = piece(p, end);
		kp_span_piece(e, p, n);
		p += n;
	}
}

#endif

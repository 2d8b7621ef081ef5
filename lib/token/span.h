/* The hot loop of encoding: the frame that every pre-tokenizer runs in, and the queue of the pieces that it finds, which are looked up together so
   that they wait for memory side by side. Included by encode.c, span.c and pretok_*.c only; the frame is inlined so that each pattern gets its own
   loop. */
#ifndef KP_TOKEN_SPAN_H
#define KP_TOKEN_SPAN_H

#include "token/ascii.h"
#include "token/hash.h"
#include "token/internal.h"
#include "token/scratch.h"

enum {
	KP_BLOCK = 64,          /* bytes that one look at ASCII text covers */
	KP_PAD = KP_BLOCK + 16, /* bytes readable behind the begin of a block */
	KP_OUT = 2048,          /* ids collected before they go to the caller's array */
	KP_OUT_ROOM = 32,
	KP_QUEUE = 256, /* pieces that are worked off side by side, at least */
	/* As long as the cache knows them all, fewer: these stay in the first-level cache. */
	KP_QUEUE_STEP = 64,
	KP_QUEUE_ROOM = KP_QUEUE + KP_BLOCK + 1,
	KP_LONGS = 32,
};

/* A piece whose place in the cache is on its way from memory; or, n == 0, an added token between pieces, whose id is key.lo. */
struct kp_queued {
	struct kp_cache_key key; /* of a longer piece, lo: kp_cache_long */
	struct kp_cache_entry *bucket;
	const uint8_t *p;
	size_t n;
};

/* One that the cache does not know. */
struct kp_missed {
	uint32_t count; /* of its ids */
	kp_id ids[KP_CACHE_KEY];
	kp_id sym[KP_CACHE_KEY]; /* what its merges start from, where that is not bytes */
};

/* A longer piece that nobody knows, merged with others. */
struct kp_long {
	const struct kp_queued *q;
	uint32_t count;
	kp_id ids[KP_BPE_MANY], sym[KP_BPE_MANY];
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
	size_t queued, taken; /* the ids of the first `taken` were taken already */
	size_t full;          /* KP_QUEUE_STEP, or KP_QUEUE once a piece is not known */
	struct kp_queued queue[KP_QUEUE_ROOM];
	struct kp_cache_entry apart;       /* stands for pieces whose ids are no cache entry's */
	uint32_t missed_at[KP_QUEUE_ROOM]; /* in the queue */
	struct kp_missed missed[KP_QUEUE_ROOM];
	uint32_t long_at[KP_QUEUE_ROOM]; /* the longer pieces of the queue */
	struct kp_long longs[KP_LONGS];  /* some of them */
};

void kp_span_flush(struct kp_span *e); /* sets failed and err when the caller's array is full */
void kp_span_add(struct kp_span *e, const kp_id *ids, size_t n);
void kp_span_token(struct kp_span *e, kp_id id); /* one id, behind the queued pieces' */
/* Those of queued pieces: when there are `full`, so that the next block's have room; all; of one piece, past the queue. */
void kp_span_step(struct kp_span *e);
void kp_span_drain(struct kp_span *e);
void kp_span_one(struct kp_span *e, const uint8_t *p, size_t n);
/* Those of text whose ids depend on more than its bytes, by the model and nothing else. */
void kp_span_uncached(struct kp_span *e, kp_str s);

extern const uint64_t kp_key_masks[16][2]; /* the first n bytes of 16 */
static inline struct kp_cache_key kp_span_key(uint64_t tag, const uint8_t *p, size_t n)
{
	const uint64_t *mask = kp_key_masks[n];
	return (struct kp_cache_key){ kp_load64(p) & mask[0],
		(kp_load64(p + 8) & mask[1]) | tag | (uint64_t)n << 56 };
}
static inline struct kp_cache_entry *kp_bucket(
	struct kp_cache_entry *table, uint64_t mask, struct kp_cache_key k)
{
	return table + (kp_hash_fold(k.lo, k.hi) & mask) * 2;
}

/* Where pieces are put. Apart from the span, of which the compiler cannot tell what a piece that is put there overwrites. */
struct kp_pusher {
	struct kp_queued *q;
	struct kp_cache_entry *table;
	uint64_t bucket_mask, tag;
	const struct kp_token_scratch *s;
};
static inline struct kp_pusher kp_span_pusher(struct kp_span *e)
{
	return (struct kp_pusher){ &e->queue[e->queued], e->table, e->bucket_mask, e->tag, e->s };
}
static inline void kp_push(struct kp_pusher *u, const uint8_t *p, size_t n)
{
	struct kp_cache_key k = kp_span_key(u->tag, p, KP_MIN(n, (size_t)KP_CACHE_KEY));
	struct kp_cache_entry *bucket = kp_bucket(u->table, u->bucket_mask, k);
	__builtin_prefetch(bucket);
	if (KP_UNLIKELY(n > KP_CACHE_KEY)) {
		k.lo = kp_cache_long(u->s, (unsigned)(u->tag >> 60), p, n);
	}
	*u->q++ = (struct kp_queued){ .key = k, .bucket = bucket, .p = p, .n = n };
}

/* Puts the piece at p into the queue; at least 16 bytes are readable there until the queue is drained. */
static inline void kp_span_push(struct kp_span *e, const uint8_t *p, size_t n)
{
	struct kp_pusher u = kp_span_pusher(e);
	kp_push(&u, p, n);
	e->queued++;
}

/* The pieces that begin at p and at each bit of m; the last one ends at `end` when that is not NULL and is left out otherwise. Returns
   where the text that was not taken begins. */
static inline const uint8_t *kp_span_block(
	struct kp_span *e, const uint8_t *p, uint64_t m, const uint8_t *end)
{
	struct kp_pusher u = kp_span_pusher(e);
	const uint8_t *to = p;
	for (; m; m &= m - 1) {
		const uint8_t *from = to;
		to = p + __builtin_ctzll(m);
		kp_push(&u, from, (size_t)(to - from));
	}
	if (end) {
		kp_push(&u, to, (size_t)(end - to));
		to = end;
	}
	e->queued = (size_t)(u.q - e->queue);
	return to;
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
		kp_span_drain(e);
		memmove(e->tail, *p, n);
		memset(e->tail + n, 0, sizeof(e->tail) - n);
		*p = e->tail;
		*end = *p + n;
		*readable = e->tail + sizeof(e->tail);
	}
}

/* How many bytes of a word that begins with many small ASCII letters can be passed over: from any of these letters on it ends at the same place, in every pattern. */
static inline size_t kp_span_letters(const uint8_t *p, const uint8_t *end)
{
	const uint8_t *q = p;
	while (end - q >= 8 && kp_small_letters(kp_load64(q))) {
		q += 8;
	}
	return q > p ? (size_t)(q - p) - 1 : 0;
}

static inline __attribute__((always_inline)) void kp_span_run(struct kp_span *e, const uint8_t *p,
	const uint8_t *end, const uint8_t *readable, kp_starts_fn *starts, kp_piece_fn *piece)
{
	while (p < end && !e->failed) {
		kp_span_room(e, &p, &end, &readable);
		if (e->queued >= e->full) {
			kp_span_step(e);
		}
		size_t skip = 0;
		/* Eight bytes of ASCII: fewer are not worth a block. */
		if (KP_LIKELY(!(kp_load64(p) & UINT64_C(0x8080808080808080)))) {
			bool all;
			uint64_t m = starts(p, end, &all) & ~UINT64_C(1);
			if (KP_LIKELY(m || all)) {
				p = kp_span_block(e, p, m, all ? end : NULL);
				continue;
			}
			skip = kp_span_letters(p, end);
		}
		size_t n = skip + piece(p + skip, end);
		kp_span_push(e, p, n);
		p += n;
	}
}

#endif

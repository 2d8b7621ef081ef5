/* A growable byte buffer with a maximum. Appends return nothing: a failed one (maximum or memory)
   sets `failed` and empties the rest of the appends; check once with kp_buf_ok or kp_buf_finish.
   `p` is never NULL. Not for sharing between threads. */
#ifndef KP_BASE_BUF_H
#define KP_BASE_BUF_H

#include "base/err.h"
#include "base/str.h"

struct kp_buf {
	char *p;
	size_t n;   /* bytes in use */
	size_t cap; /* room for n to grow into; one byte more is allocated, for a NUL. 0 while p is
		       the static "" */
	size_t max; /* n never exceeds it */
	bool failed;
};

enum { KP_BUF_KEEP = 64 << 10 }; /* kp_buf_reset keeps at most this much memory */

void kp_buf_init(struct kp_buf *b, size_t max_bytes);
void kp_buf_fini(struct kp_buf *b);  /* zeroed or finished buffers are fine */
void kp_buf_reset(struct kp_buf *b); /* empty again, failed cleared */
static inline void kp_auto_buf(struct kp_buf *b)
{
	kp_buf_fini(b);
}
/* KP_AUTO(buf) struct kp_buf b; kp_buf_init(&b, max); */

/* Room for n more bytes; false (and failed) when that would pass the maximum. */
bool kp_buf_reserve_slow(struct kp_buf *b, size_t n);
static inline bool kp_buf_reserve(struct kp_buf *b, size_t n)
{
	return KP_LIKELY(!b->failed && b->cap - b->n >= n && b->cap != 0) ||
	       kp_buf_reserve_slow(b, n);
}
static inline void kp_buf_add(struct kp_buf *b, kp_str s)
{
	if (s.n && kp_buf_reserve(b, s.n)) {
		memcpy(b->p + b->n, s.p, s.n);
		b->n += s.n;
	}
}
static inline void kp_buf_addc(struct kp_buf *b, char c)
{
	if (kp_buf_reserve(b, 1)) {
		b->p[b->n++] = c;
	}
}
#define kp_buf_lit(b, literal) kp_buf_add((b), KP_S(literal))
void kp_buf_addz(struct kp_buf *b, const char *z);
void kp_buf_printf(struct kp_buf *b, const char *fmt, ...) KP_PRINTF(2, 3);
void kp_buf_u64(struct kp_buf *b, uint64_t v);
void kp_buf_i64(struct kp_buf *b, int64_t v);
/* Removes the first n bytes (moves the rest). */
void kp_buf_consume(struct kp_buf *b, size_t n);
static inline kp_str kp_buf_str(const struct kp_buf *b)
{
	return (kp_str){ b->p, b->n };
}
/* The content with a NUL behind it (not counted, not held against max); NULL when an append failed
 * before. */
const char *kp_buf_cstr(struct kp_buf *b);
static inline bool kp_buf_ok(const struct kp_buf *b)
{
	return !b->failed;
}
/* RESOURCE_EXHAUSTED "build `what`: more than N bytes" when an append failed. */
int kp_buf_finish(const struct kp_buf *b, const char *what, struct kp_err *err) KP_MUST_USE;

#endif

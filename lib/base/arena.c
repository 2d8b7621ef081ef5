/* DESIGN: a list of chunks, newest first; a bump pointer in the newest. Chunks double from 4 KiB to
   256 KiB; an allocation larger than a quarter of the next chunk gets a chunk of its own behind the
   current one, so that the bump space is not wasted. Under ASan every allocation is its own malloc,
   so that overruns and use after reset are seen. `used` counts rounded allocation sizes and is what
   the limit holds against. */
#include "base/arena.h"
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ALIGN = 16, CHUNK_MIN = 4 << 10, CHUNK_MAX = 256 << 10 };

struct chunk {
	struct chunk *next;
	size_t size; /* of data */
	_Alignas(ALIGN) char data[];
};
struct deferred {
	struct deferred *next;
	void (*fn)(void *);
	void *p;
};
struct kp_arena {
	size_t max, used;
	char *at, *end;       /* bump space in `chunks` */
	struct chunk *chunks; /* the current one first */
	struct chunk *large;  /* allocations with a chunk of their own */
	struct deferred *deferred;
	size_t next_size;
	char *last; /* start of the newest bump allocation, for kp_arena_grow */
};

struct kp_arena *kp_arena_create(size_t max_bytes)
{
	struct kp_arena *a = kp_new(struct kp_arena);
	a->max = max_bytes;
	a->next_size = CHUNK_MIN;
	return a;
}

/* Those in front of `to`. */
static void free_chunks(struct chunk **list, const struct chunk *to)
{
	while (*list != to) {
		struct chunk *c = *list;
		*list = c->next;
		kp_mem_free(c);
	}
}

static void run_deferred(struct kp_arena *a, const struct deferred *to)
{
	while (a->deferred != to) {
		struct deferred *d = a->deferred;
		a->deferred = d->next;
		d->fn(d->p); /* d itself lies in the arena */
	}
}

void kp_arena_reset(struct kp_arena *a)
{
	run_deferred(a, NULL);
	free_chunks(&a->large, NULL);
	if (a->chunks) {
		struct chunk *keep = a->chunks;
		free_chunks(&keep->next, NULL);
		a->at = keep->data;
		a->end = keep->data + keep->size;
	}
	a->last = NULL;
	a->used = 0;
}

struct kp_arena_mark kp_arena_mark(const struct kp_arena *a)
{
	return (struct kp_arena_mark){ a->chunks, a->large, a->deferred, a->at, a->end, a->used };
}

void kp_arena_rewind(struct kp_arena *a, const struct kp_arena_mark *to)
{
	run_deferred(a, to->deferred);
	free_chunks(&a->large, to->large);
	free_chunks(&a->chunks, to->chunks);
	a->at = to->at;
	a->end = to->end;
	a->last = NULL;
	a->used = to->used;
}

void kp_arena_destroy(struct kp_arena *a)
{
	if (!a) {
		return;
	}
	kp_arena_reset(a);
	free_chunks(&a->chunks, NULL);
	kp_mem_free(a);
}

static struct chunk *chunk_new(struct chunk **list, size_t size)
{
	size_t bytes;
	struct chunk *c =
		kp_size_add(sizeof(struct chunk), size, &bytes) ? kp_try_malloc(bytes) : NULL;
	if (c) {
		c->size = size;
		c->next = *list;
		*list = c;
	}
	return c;
}

static void *alloc_slow(struct kp_arena *a, size_t n)
{
#ifndef KP_ASAN
	if (n <= a->next_size / 4) {
		struct chunk *c = chunk_new(&a->chunks, a->next_size);
		if (!c) {
			return NULL;
		}
		a->next_size = KP_MIN(a->next_size * 2, (size_t)CHUNK_MAX);
		a->last = c->data;
		a->at = c->data + n;
		a->end = c->data + c->size;
		return c->data;
	}
#endif
	struct chunk *c = chunk_new(&a->large, n);
	return c ? c->data : NULL;
}

static void *alloc_within(struct kp_arena *a, size_t n, size_t max)
{
	size_t size, used;
	if (!kp_size_add(n ? n : 1, ALIGN - 1, &size)) {
		return NULL;
	}
	size &= ~(size_t)(ALIGN - 1);
	if (!kp_size_add(a->used, size, &used) || used > max) {
		return NULL;
	}
	void *p;
	if (KP_LIKELY((size_t)(a->end - a->at) >= size)) {
		p = a->last = a->at;
		a->at += size;
	} else {
#ifdef KP_ASAN
		size = n ? n : 1; /* exact, so that one byte too far is seen */
#endif
		p = alloc_slow(a, size);
	}
	if (p) {
		a->used = used;
	}
	return p;
}

void *kp_arena_alloc(struct kp_arena *a, size_t n)
{
	return alloc_within(a, n, a->max);
}

void *kp_arena_xalloc(struct kp_arena *a, size_t n)
{
	void *p = alloc_within(
		a, n, a->max > SIZE_MAX - KP_ARENA_SLACK ? SIZE_MAX : a->max + KP_ARENA_SLACK);
	if (!p) {
		kp_bug(__FILE__, __LINE__, "arena limit passed by the program itself");
	}
	return memset(p, 0, n);
}

void *kp_arena_calloc(struct kp_arena *a, size_t count, size_t size)
{
	size_t n;
	void *p = kp_size_mul(count, size, &n) ? kp_arena_alloc(a, n) : NULL;
	return p ? memset(p, 0, n) : NULL;
}

void *kp_arena_grow(struct kp_arena *a, void *p, size_t old_n, size_t new_n)
{
	if (p && (char *)p == a->last) {
		size_t had = (size_t)(a->at - a->last), size, used;
		if (kp_size_add(new_n ? new_n : 1, ALIGN - 1, &size) &&
			(size &= ~(size_t)(ALIGN - 1)) <= (size_t)(a->end - a->last) &&
			kp_size_add(a->used - had, size, &used) && used <= a->max) {
			a->at = a->last + size;
			a->used = used;
			return p;
		}
	}
	void *q = kp_arena_alloc(a, new_n);
	if (q && old_n) {
		memcpy(q, p, KP_MIN(old_n, new_n));
	}
	return q;
}

char *kp_arena_room(struct kp_arena *a, size_t *ret_n)
{
	*ret_n = KP_MIN((size_t)(a->end - a->at), a->max - KP_MIN(a->used, a->max));
	return a->at;
}

void kp_arena_take(struct kp_arena *a, size_t n)
{
	KP_BUG_ON(n > (size_t)(a->end - a->at));
	(void)alloc_within(a, n, SIZE_MAX);
}

int kp_arena_dup(struct kp_arena *a, kp_str s, kp_str *ret, struct kp_err *err)
{
	size_t n;
	char *p = kp_size_add(s.n, 1, &n) ? kp_arena_alloc(a, n) : NULL;
	if (!p) {
		return kp_arena_full(err, "string");
	}
	if (s.n) {
		memcpy(p, s.p, s.n);
	}
	p[s.n] = '\0';
	*ret = (kp_str){ p, s.n };
	return 0;
}

char *kp_arena_strz(struct kp_arena *a, kp_str s)
{
	char *p = kp_arena_xalloc(a, s.n + 1);
	if (s.n) {
		memcpy(p, s.p, s.n);
	}
	return p;
}

kp_str kp_arena_printf(struct kp_arena *a, const char *fmt, ...)
{
	va_list ap, again;
	va_start(ap, fmt);
	va_copy(again, ap);
	int n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	KP_BUG_ON(n < 0);
	char *p = kp_arena_xalloc(a, (size_t)n + 1);
	vsnprintf(p, (size_t)n + 1, fmt, again);
	va_end(again);
	return (kp_str){ p, (size_t)n };
}

void kp_arena_defer(struct kp_arena *a, void (*fn)(void *), void *p)
{
	struct deferred *d = kp_arena_xalloc(a, sizeof(*d));
	*d = (struct deferred){ .next = a->deferred, .fn = fn, .p = p };
	a->deferred = d;
}

size_t kp_arena_used(const struct kp_arena *a)
{
	return a->used;
}

int kp_arena_full(struct kp_err *err, const char *what)
{
	return kp_err_set(err, KP_RESOURCE_EXHAUSTED,
		"allocate `%s`: the request's memory limit is reached", what);
}

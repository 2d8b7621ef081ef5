/* Arena: everything of one request (or one load) in one place, freed at once. One owner, one thread
   at a time. It has a hard limit in bytes: kp_arena_alloc gives NULL beyond it, kp_arena_xalloc is
   for small fixed things and may pass the limit by at most KP_ARENA_SLACK before it aborts. Under
   ASan each allocation is a malloc of its own. */
#ifndef KP_BASE_ARENA_H
#define KP_BASE_ARENA_H

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

enum { KP_ARENA_SLACK = 1 << 20 };

struct kp_arena;

struct kp_arena *kp_arena_create(size_t max_bytes);
void kp_arena_destroy(struct kp_arena
		*a); /* runs the deferred calls (last first), frees everything; NULL is fine */
void kp_arena_reset(
	struct kp_arena *a); /* as destroy, but the arena (and its first chunk) stays usable */
KP_AUTO_DEFINE(struct kp_arena, arena, kp_arena_destroy);

/* A place to come back to: what was allocated and deferred behind it is undone, as by kp_arena_reset. Not after a reset of the arena. */
struct kp_arena_mark {
	void *chunks, *large, *deferred;
	char *at, *end;
	size_t used;
};
struct kp_arena_mark kp_arena_mark(const struct kp_arena *a);
void kp_arena_rewind(struct kp_arena *a, const struct kp_arena_mark *to);

/* 16-byte aligned, not zeroed; NULL when the limit is reached or memory is gone. */
void *kp_arena_alloc(struct kp_arena *a, size_t n) KP_MUST_USE;
/* As above, zeroed, never NULL: only for sizes the program itself chooses. */
void *kp_arena_xalloc(struct kp_arena *a, size_t n) __attribute__((returns_nonnull));
#define kp_arena_new(a, type) ((type *)kp_arena_xalloc((a), sizeof(type)))
/* count*size from outside, zeroed; NULL on overflow or limit. */
void *kp_arena_calloc(struct kp_arena *a, size_t count, size_t size) KP_MUST_USE;
/* Grows the last allocation in place if it can, else copies. NULL: limit reached, `p` stays valid.
 */
void *kp_arena_grow(struct kp_arena *a, void *p, size_t old_n, size_t new_n) KP_MUST_USE;
/* What can be had at once and is written before it is known how much is needed: *ret_n bytes (none under ASan; a few or none where a chunk ends),
   not allocated until kp_arena_take says how many of them are. No other call may come between the two. */
char *kp_arena_room(struct kp_arena *a, size_t *ret_n) KP_MUST_USE;
void kp_arena_take(struct kp_arena *a, size_t n);
/* Copies with a terminating NUL that is not counted. RESOURCE_EXHAUSTED at the limit. */
int kp_arena_dup(struct kp_arena *a, kp_str s, kp_str *ret, struct kp_err *err) KP_MUST_USE;
/* Copy of a short string as C string, never NULL. */
char *kp_arena_strz(struct kp_arena *a, kp_str s) __attribute__((returns_nonnull));
kp_str kp_arena_printf(struct kp_arena *a, const char *fmt, ...) KP_PRINTF(2, 3);
/* fn(p) at reset or destroy, last registered first. */
void kp_arena_defer(struct kp_arena *a, void (*fn)(void *), void *p);
size_t kp_arena_used(const struct kp_arena *a);
/* RESOURCE_EXHAUSTED "allocate `what`: ...": for the callers of the NULL-returning functions. */
int kp_arena_full(struct kp_err *err, const char *what);

#endif

/* Allocation. Small fixed sizes: kp_xmalloc aborts when memory is gone. Sizes that come from
   outside (a body, a file, an engine's message): kp_try_*, under a stated limit, NULL on failure.
   Only lib/base calls malloc and free. KP_FAIL_ALLOC=n in the environment makes the n-th kp_try_*
   call of the process fail (tests). */
#ifndef KP_BASE_MEM_H
#define KP_BASE_MEM_H

#include "base/macros.h"

void *kp_xmalloc(size_t n) __attribute__((malloc, returns_nonnull));
void *kp_xcalloc(size_t count, size_t size) __attribute__((malloc, returns_nonnull));
void *kp_xrealloc(void *p, size_t n) __attribute__((returns_nonnull));
char *kp_xstrdup(const char *z) __attribute__((malloc, returns_nonnull));
void *kp_try_malloc(size_t n) KP_MUST_USE;
void *kp_try_realloc(void *p, size_t n) KP_MUST_USE;
/* The same for much that is written once. From 32 MiB on, which malloc maps anew each time: rounded up to huge pages, if the kernel gives such; their first
   touch costs a tenth. */
void *kp_try_malloc_large(size_t n) KP_MUST_USE;
/* Before the first thread, of a program with threads that must answer at once: what was freed is kept for the next, 16 MiB a thread, instead of
 * being given back and asked for again page by page; blocks of 8 MiB and more go back at once. */
void kp_mem_keep(void);
/* On a thread of its own: it has 4 MiB of that now. */
void kp_mem_keep_here(void);
void kp_mem_free(void *p);
/* Frees what `p` points to and leaves NULL in it. */
#define kp_free(p) (kp_mem_free(*(p)), *(p) = NULL, (void)0)

#define kp_new(type) ((type *)kp_xcalloc(1, sizeof(type)))

/* Asks for n bytes before they are read. For what lies in many places: one alone is waited for, several come at once. */
static inline void kp_prefetch(const void *p, size_t n)
{
	enum { LINE = 64 };
	for (size_t at = 0; p && at < n; at += LINE) {
		__builtin_prefetch((const char *)p + at);
	}
}

#endif

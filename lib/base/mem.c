/* DESIGN: the only place that calls malloc and free. The n-th kp_try_* call fails when
   KP_FAIL_ALLOC=n is set; the counter is process-wide, so tests that use it run one thread. */
#include "base/mem.h"
#include "base/str.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static KP_NORETURN void out_of_memory(void)
{
	kp_bug(__FILE__, __LINE__, "out of memory");
}

void *kp_xmalloc(size_t n)
{
	void *p = malloc(n ? n : 1);
	if (!p) {
		out_of_memory();
	}
	return p;
}

void *kp_xcalloc(size_t count, size_t size)
{
	void *p = calloc(count ? count : 1, size ? size : 1);
	if (!p) {
		out_of_memory();
	}
	return p;
}

void *kp_xrealloc(void *p, size_t n)
{
	void *q = realloc(p, n ? n : 1);
	if (!q) {
		out_of_memory();
	}
	return q;
}

char *kp_xstrdup(const char *z)
{
	size_t n = strlen(z) + 1;
	return memcpy(kp_xmalloc(n), z, n);
}

static uint64_t fail_at;
static atomic_uint_fast64_t tries;

static void read_fail_at(void)
{
	const char *z = getenv("KP_FAIL_ALLOC");
	if (z && !kp_str_u64(kp_str_c(z), UINT64_MAX, &fail_at)) {
		fail_at = 0;
	}
}

/* A size past PTRDIFF_MAX is never granted; said here, since sanitizers take it for a bug of ours.
 */
static bool must_fail(size_t n)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, read_fail_at);
	return n > PTRDIFF_MAX ||
	       (KP_UNLIKELY(fail_at != 0) &&
		       atomic_fetch_add_explicit(&tries, 1, memory_order_relaxed) + 1 == fail_at);
}

void *kp_try_malloc(size_t n)
{
	return must_fail(n) ? NULL : malloc(n ? n : 1);
}

enum { HUGE_PAGE = 2 << 20, LARGE = 32 << 20 /* glibc's DEFAULT_MMAP_THRESHOLD_MAX */ };

void *kp_try_malloc_large(size_t n)
{
	if (n < LARGE || must_fail(n)) {
		return n < LARGE ? kp_try_malloc(n) : NULL;
	}
	n = (n + HUGE_PAGE - 1) & ~(size_t)(HUGE_PAGE - 1);
	void *p = n > PTRDIFF_MAX ? NULL : aligned_alloc(HUGE_PAGE, n);
	if (p) {
		(void)madvise(p, n, MADV_HUGEPAGE); /* a wish; small pages do as well */
	}
	return p;
}

void *kp_try_realloc(void *p, size_t n)
{
	return must_fail(n) ? NULL : realloc(p, n ? n : 1);
}

enum { KEEP = 16 << 20, KEEP_LARGE = 8 << 20, KEEP_HERE = 4 << 20, PIECE = 512 << 10 };

/* glibc grows a thread's heap by mprotect, as much as is asked for, and that waits for whoever maps or unmaps anything in the process: a thread
   of low priority may do so and not be running. */
void kp_mem_keep(void)
{
	(void)mallopt(M_MMAP_THRESHOLD, KEEP_LARGE);
	(void)mallopt(M_TRIM_THRESHOLD, KEEP);
}

void kp_mem_keep_here(void)
{
	enum { PIECES = KEEP_HERE / PIECE };
	void *pieces[PIECES];
	for (size_t i = 0; i < PIECES; i++) {
		pieces[i] = kp_xmalloc(PIECE);
	}
	for (size_t i = PIECES; i > 0; i--) {
		free(pieces[i - 1]);
	}
}

void kp_mem_free(void *p)
{
	free(p);
}

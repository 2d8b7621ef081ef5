/* DESIGN: doubling growth from 32 bytes, n never past max. One byte behind cap is always allocated,
   so that a NUL fits behind a full buffer. The empty buffer points at a static byte so that p is
   never NULL; it is never written to. */
#include "base/buf.h"
#include "base/mem.h"

#include <stdio.h>

static char empty[1];

void kp_buf_init(struct kp_buf *b, size_t max_bytes)
{
	*b = (struct kp_buf){ .p = empty, .max = max_bytes };
}

void kp_buf_fini(struct kp_buf *b)
{
	if (b->cap) {
		kp_mem_free(b->p);
	}
	*b = (struct kp_buf){ .p = empty, .max = b->max };
}

void kp_buf_reset(struct kp_buf *b)
{
	if (b->cap > KP_BUF_KEEP) {
		kp_buf_fini(b);
	}
	b->n = 0;
	b->failed = false;
}

bool kp_buf_reserve_slow(struct kp_buf *b, size_t n)
{
	size_t need;
	if (b->failed) {
		return false;
	}
	if (!kp_size_add(b->n, n, &need) || need > b->max) {
		b->failed = true;
		return false;
	}
	if (need <= b->cap) {
		return true;
	}
	size_t bytes = KP_MAX(b->cap + 1, (size_t)32); /* to allocate: the new cap and one */
	while (bytes <= need && bytes <= SIZE_MAX / 2) {
		bytes *= 2;
	}
	if (bytes > b->max) {
		bytes = b->max < SIZE_MAX ? b->max + 1 : SIZE_MAX;
	}
	char *p = kp_try_realloc(b->cap ? b->p : NULL, bytes);
	if (!p) {
		b->failed = true;
		return false;
	}
	b->p = p;
	b->cap = bytes - 1;
	return true;
}

void kp_buf_addz(struct kp_buf *b, const char *z)
{
	kp_buf_add(b, kp_str_c(z));
}

void kp_buf_printf(struct kp_buf *b, const char *fmt, ...)
{
	va_list ap, again;
	va_start(ap, fmt);
	va_copy(again, ap);
	int n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0) {
		b->failed = true;
	} else if (n > 0 && kp_buf_reserve(b, (size_t)n)) {
		vsnprintf(b->p + b->n, (size_t)n + 1, fmt, again);
		b->n += (size_t)n;
	}
	va_end(again);
}

void kp_buf_u64(struct kp_buf *b, uint64_t v)
{
	char tmp[20];
	size_t i = sizeof(tmp);
	do {
		tmp[--i] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	kp_buf_add(b, kp_str_n(tmp + i, sizeof(tmp) - i));
}

void kp_buf_i64(struct kp_buf *b, int64_t v)
{
	if (v < 0) {
		kp_buf_addc(b, '-');
	}
	kp_buf_u64(b, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

void kp_buf_consume(struct kp_buf *b, size_t n)
{
	KP_BUG_ON(n > b->n);
	b->n -= n;
	if (b->n) {
		memmove(b->p, b->p + n, b->n);
	}
}

const char *kp_buf_cstr(struct kp_buf *b)
{
	if (b->failed) {
		return NULL;
	}
	if (b->cap) {
		b->p[b->n] = '\0';
	}
	return b->p;
}

int kp_buf_finish(const struct kp_buf *b, const char *what, struct kp_err *err)
{
	if (b->failed) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "build `%s`: more than %zu bytes",
			what, b->max);
	}
	return 0;
}

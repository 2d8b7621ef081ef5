/* Attributes, scope cleanup, checked arithmetic, bugs. Included by every other header of lib/base.
 */
#ifndef KP_BASE_MACROS_H
#define KP_BASE_MACROS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KP_MUST_USE     __attribute__((warn_unused_result))
#define KP_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define KP_NORETURN     __attribute__((noreturn))
#define KP_UNUSED       __attribute__((unused))
#define KP_LIKELY(x)    __builtin_expect(!!(x), 1)
#define KP_UNLIKELY(x)  __builtin_expect(!!(x), 0)
#define KP_LEN(array)   (sizeof(array) / sizeof((array)[0]))
/* Each argument is evaluated once; the counter keeps the names of nested uses apart. */
#define KP_CHOOSE(op, a, b, va, vb)     \
	__extension__({                 \
		__typeof__(a) va = (a); \
		__typeof__(b) vb = (b); \
		va op vb ? va : vb;     \
	})
#define KP_GLUE2(a, b)                  a##b
#define KP_GLUE(a, b)                   KP_GLUE2(a, b)
#define KP_MIN(a, b)                    KP_CHOOSE(<, a, b, KP_GLUE(kp_a_, __COUNTER__), KP_GLUE(kp_b_, __COUNTER__))
#define KP_MAX(a, b)                    KP_CHOOSE(>, a, b, KP_GLUE(kp_a_, __COUNTER__), KP_GLUE(kp_b_, __COUNTER__))
#define KP_CONTAINER(ptr, type, member) ((type *)((uintptr_t)(ptr)-offsetof(type, member)))

/* Scope cleanup: KP_AUTO_DEFINE(struct kp_x, x, kp_x_destroy) in the type's header, then
   `KP_AUTO(x) struct kp_x *p = NULL;`. The destructor takes NULL. Hand the object on with
   kp_steal(p). */
#define KP_AUTO_DEFINE(type, name, destroy)         \
	static inline void kp_auto_##name(type **p) \
	{                                           \
		destroy(*p);                        \
	}                                           \
	struct kp_auto_semicolon_##name
#define KP_AUTO(name) __attribute__((cleanup(kp_auto_##name)))
/* Returns the pointer and leaves NULL behind. */
#define kp_steal(p)                             \
	__extension__({                         \
		__typeof__(p) kp_stolen_ = (p); \
		(p) = NULL;                     \
		kp_stolen_;                     \
	})

/* Drops const, for memory this module itself owns behind a borrowed view. */
static inline void *kp_unconst(const void *p)
{
	return (void *)(uintptr_t)p;
}

/* A programmer's error, never bad input: prints file:line and aborts in every build. */
KP_NORETURN void kp_bug(const char *file, int line, const char *what);
#define KP_BUG_ON(cond) ((cond) ? kp_bug(__FILE__, __LINE__, #cond) : (void)0)

/* Checked size arithmetic: false on overflow, *ret written only on success. */
KP_MUST_USE static inline bool kp_size_add(size_t a, size_t b, size_t *ret)
{
	size_t r;
	if (__builtin_add_overflow(a, b, &r)) {
		return false;
	}
	*ret = r;
	return true;
}
KP_MUST_USE static inline bool kp_size_mul(size_t a, size_t b, size_t *ret)
{
	size_t r;
	if (__builtin_mul_overflow(a, b, &r)) {
		return false;
	}
	*ret = r;
	return true;
}

#endif

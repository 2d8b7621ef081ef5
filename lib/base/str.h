/* kp_str: a borrowed slice of bytes, passed by value. It owns nothing and has no terminating NUL;
   never keep one beyond the life of what it points into (copy it with kp_arena_dup). `p` may be
   NULL only when n is 0. */
#ifndef KP_BASE_STR_H
#define KP_BASE_STR_H

#include "base/macros.h"

#include <string.h>

typedef struct kp_str {
	const char *p;
	size_t n;
} kp_str;

#define KP_S(literal) ((kp_str){ "" literal, sizeof(literal) - 1 })
#define KP_S_INIT(literal)                      \
	{                                       \
		"" literal, sizeof(literal) - 1 \
	} /* in static initializers */
#define KP_STR_NULL ((kp_str){ NULL, 0 })
/* printf("%" KP_FMT, KP_ARG(s)): at most INT_MAX bytes. */
#define KP_FMT    ".*s"
#define KP_ARG(s) (int)((s).n > 0x7fffffff ? 0x7fffffff : (s).n), ((s).n ? (s).p : "")

static inline kp_str kp_str_c(const char *z)
{
	return (kp_str){ z, z ? strlen(z) : 0 };
}
/* A C string of it, the caller's (kp_mem_free); cut at a NUL inside by whoever reads it. */
char *kp_str_z(kp_str s) __attribute__((malloc, returns_nonnull));
static inline kp_str kp_str_n(const void *p, size_t n)
{
	return (kp_str){ (const char *)p, n };
}
/* Where b is a literal, the compiler compares in place. */
static inline bool kp_str_eq(kp_str a, kp_str b)
{
	return a.n == b.n && (b.n == 0 || memcmp(a.p, b.p, b.n) == 0);
}
/* The same for names, which are mostly short: without a call. */
static inline bool kp_str_eq_name(kp_str a, kp_str b)
{
	size_t n = b.n;
	if (a.n != n) {
		return false;
	}
	if (n - 8 <= 8) { /* two words, which may overlap */
		uint64_t w[4];
		memcpy(&w[0], a.p, 8);
		memcpy(&w[1], b.p, 8);
		memcpy(&w[2], a.p + n - 8, 8);
		memcpy(&w[3], b.p + n - 8, 8);
		return ((w[0] ^ w[1]) | (w[2] ^ w[3])) == 0;
	}
	if (n - 4 < 4) {
		uint32_t w[4];
		memcpy(&w[0], a.p, 4);
		memcpy(&w[1], b.p, 4);
		memcpy(&w[2], a.p + n - 4, 4);
		memcpy(&w[3], b.p + n - 4, 4);
		return ((w[0] ^ w[1]) | (w[2] ^ w[3])) == 0;
	}
	return kp_str_eq(a, b);
}
static inline bool kp_str_starts(kp_str s, kp_str prefix)
{
	return s.n >= prefix.n && (prefix.n == 0 || memcmp(s.p, prefix.p, prefix.n) == 0);
}
static inline bool kp_str_ends(kp_str s, kp_str suffix)
{
	return s.n >= suffix.n &&
	       (suffix.n == 0 || memcmp(s.p + (s.n - suffix.n), suffix.p, suffix.n) == 0);
}
/* s[from, to), both clamped to the slice. */
static inline kp_str kp_str_sub(kp_str s, size_t from, size_t to)
{
	to = KP_MIN(to, s.n);
	from = KP_MIN(from, to);
	return (kp_str){ s.n ? s.p + from : s.p, to - from };
}
static inline kp_str kp_str_skip(kp_str s, size_t n)
{
	return kp_str_sub(s, n, s.n);
}
/* ASCII only, no locale. */
static inline char kp_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}
static inline bool kp_is_digit(char c)
{
	return c >= '0' && c <= '9';
}
bool kp_str_ieq(kp_str a, kp_str b);
/* <0, 0, >0 by bytes, shorter first. */
int kp_str_cmp(kp_str a, kp_str b);
/* Offset of the first occurrence, or -1. An empty needle is found at 0. */
ptrdiff_t kp_str_find(kp_str hay, kp_str needle);
ptrdiff_t kp_str_find_char(kp_str hay, char c);
ptrdiff_t kp_str_rfind_char(kp_str hay, char c);
static inline bool kp_str_has(kp_str hay, kp_str needle)
{
	return kp_str_find(hay, needle) >= 0;
}
/* Cuts ASCII white space (space \t \n \v \f \r) off both ends. */
kp_str kp_str_trim(kp_str s);
/* Takes what stands before the first `sep` off the front of *rest; the whole rest (then empty) when
   there is none. false when *rest is exhausted (its p is NULL). "a,,b" gives "a", "", "b". */
bool kp_str_split(kp_str *rest, char sep, kp_str *ret_part);

/* Numbers. The whole slice must be the number: no sign (u64), no space, no leading '+', no leading
 * zeros needed. */
bool kp_str_u64(kp_str s, uint64_t max, uint64_t *ret);
bool kp_str_i64(kp_str s, int64_t min, int64_t max, int64_t *ret);
bool kp_str_hex64(kp_str s, uint64_t *ret);
/* A JSON number's text; false when it is not one or not finite. Correctly rounded, no locale. */
bool kp_str_f64(kp_str s, double *ret);

#endif

/* DESIGN: pure functions on slices. Numbers are parsed by hand where the grammar is small; doubles
   go through strtod_l in the C locale after the text was checked against JSON's grammar, so the
   result is correctly rounded whatever the process locale is. */
#include "base/str.h"

#include "base/mem.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

bool kp_str_ieq(kp_str a, kp_str b)
{
	if (a.n != b.n) {
		return false;
	}
	for (size_t i = 0; i < a.n; i++) {
		if (kp_lower(a.p[i]) != kp_lower(b.p[i])) {
			return false;
		}
	}
	return true;
}

int kp_str_cmp(kp_str a, kp_str b)
{
	size_t n = KP_MIN(a.n, b.n);
	int r = n ? memcmp(a.p, b.p, n) : 0;
	return r ? r : (a.n > b.n) - (a.n < b.n);
}

#if defined(__SSE2__)

/* Of the 16 places from p on, those where the needle's first and last byte are. */
static inline unsigned ends16(const char *p, size_t last, __m128i a, __m128i b)
{
	__m128i x = _mm_loadu_si128((const __m128i *)(const void *)p),
		y = _mm_loadu_si128((const __m128i *)(const void *)(p + last));
	return (unsigned)_mm_movemask_epi8(
		_mm_and_si128(_mm_cmpeq_epi8(x, a), _mm_cmpeq_epi8(y, b)));
}

/* From `at` on to the first of blocks of 64 places that has one, or to where there are less. */
__attribute__((target("avx2"))) static size_t skip64(kp_str hay, kp_str needle, size_t at)
{
	size_t last = needle.n - 1;
	const __m256i a = _mm256_set1_epi8(needle.p[0]), b = _mm256_set1_epi8(needle.p[last]);
	for (; hay.n - at >= last + 64; at += 64) {
		const __m256i *p = (const __m256i *)(const void *)(hay.p + at),
			      *q = (const __m256i *)(const void *)(hay.p + at + last);
		__m256i x = _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_loadu_si256(p), a),
				_mm256_cmpeq_epi8(_mm256_loadu_si256(q), b)),
			y = _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_loadu_si256(p + 1), a),
				_mm256_cmpeq_epi8(_mm256_loadu_si256(q + 1), b));
		if (_mm256_movemask_epi8(_mm256_or_si256(x, y))) {
			break;
		}
	}
	return at;
}

#endif

/* Looks at the needle's first and last byte, for 16 places at a time or 64. *ret: up to there nothing was found. It is not the end where there are few places, or where too many
   had both bytes and were none: then the rest is searched in linear time. */
static ptrdiff_t find_ends(kp_str hay, kp_str needle, size_t *ret)
{
	size_t at = 0;
#if defined(__SSE2__)
	enum { MAX_WRONG = 64, WIDE = 64 };
	size_t last = needle.n - 1, wrong = 0, places = hay.n - last;
	const __m128i a = _mm_set1_epi8(needle.p[0]), b = _mm_set1_epi8(needle.p[last]);
	bool is_wide = places >= WIDE && __builtin_cpu_supports("avx2");
	while (places >= 16 && at < places) {
		at = is_wide && places - at >= WIDE ? skip64(hay, needle, at) : at;
		at = KP_MIN(at, places - 16); /* the last 16 overlap */
		unsigned mask = ends16(hay.p + at, last, a, b);
		for (; mask; mask &= mask - 1) {
			unsigned i = (unsigned)__builtin_ctz(mask);
			if (memcmp(hay.p + at + i, needle.p, needle.n) == 0) {
				return (ptrdiff_t)(at + i);
			}
			if (++wrong == MAX_WRONG) {
				*ret = at + i + 1;
				return -1;
			}
		}
		at += 16;
	}
#endif
	*ret = at;
	return -1;
}

ptrdiff_t kp_str_find(kp_str hay, kp_str needle)
{
	size_t from = 0;
	if (needle.n == 0) {
		return 0;
	}
	if (hay.n < needle.n) {
		return -1;
	}
	ptrdiff_t at = find_ends(hay, needle, &from);
	if (at >= 0) {
		return at;
	}
	if (hay.n - from < needle.n) {
		return -1;
	}
	const char *hit = memmem(hay.p + from, hay.n - from, needle.p, needle.n);
	return hit ? hit - hay.p : -1;
}

ptrdiff_t kp_str_find_char(kp_str hay, char c)
{
	const char *hit = hay.n ? memchr(hay.p, c, hay.n) : NULL;
	return hit ? hit - hay.p : -1;
}

ptrdiff_t kp_str_rfind_char(kp_str hay, char c)
{
	const char *hit = hay.n ? memrchr(hay.p, c, hay.n) : NULL;
	return hit ? hit - hay.p : -1;
}

static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

kp_str kp_str_trim(kp_str s)
{
	while (s.n && is_space(s.p[0])) {
		s.p++;
		s.n--;
	}
	while (s.n && is_space(s.p[s.n - 1])) {
		s.n--;
	}
	return s;
}

bool kp_str_split(kp_str *rest, char sep, kp_str *ret_part)
{
	if (!rest->p) {
		return false;
	}
	ptrdiff_t at = kp_str_find_char(*rest, sep);
	if (at < 0) {
		*ret_part = *rest;
		*rest = KP_STR_NULL;
	} else {
		*ret_part = kp_str_sub(*rest, 0, (size_t)at);
		*rest = (kp_str){ rest->p + at + 1, rest->n - (size_t)at - 1 };
	}
	return true;
}

bool kp_str_u64(kp_str s, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;
	if (s.n == 0) {
		return false;
	}
	for (size_t i = 0; i < s.n; i++) {
		if (!kp_is_digit(s.p[i]) || __builtin_mul_overflow(v, 10, &v) ||
			__builtin_add_overflow(v, (uint64_t)(s.p[i] - '0'), &v)) {
			return false;
		}
	}
	if (v > max) {
		return false;
	}
	*ret = v;
	return true;
}

bool kp_str_i64(kp_str s, int64_t min, int64_t max, int64_t *ret)
{
	bool neg = s.n && s.p[0] == '-';
	uint64_t v;
	if (!kp_str_u64(neg ? kp_str_skip(s, 1) : s, neg ? UINT64_C(1) << 63 : INT64_MAX, &v)) {
		return false;
	}
	int64_t r = neg ? (int64_t)(0 - v) : (int64_t)v;
	if (r < min || r > max) {
		return false;
	}
	*ret = r;
	return true;
}

bool kp_str_hex64(kp_str s, uint64_t *ret)
{
	uint64_t v = 0;
	if (s.n == 0 || s.n > 16) {
		return false;
	}
	for (size_t i = 0; i < s.n; i++) {
		char c = kp_lower(s.p[i]);
		if (kp_is_digit(c)) {
			v = v << 4 | (uint64_t)(c - '0');
		} else if (c >= 'a' && c <= 'f') {
			v = v << 4 | (uint64_t)(c - 'a' + 10);
		} else {
			return false;
		}
	}
	*ret = v;
	return true;
}

static size_t digits(kp_str s, size_t i)
{
	size_t from = i;
	while (i < s.n && kp_is_digit(s.p[i])) {
		i++;
	}
	return i - from;
}

/* RFC 8259 §6: [-] int [frac] [exp] */
static bool is_json_number(kp_str s)
{
	size_t i = s.n && s.p[0] == '-' ? 1 : 0;
	size_t d = digits(s, i);
	if (d == 0 || (d > 1 && s.p[i] == '0')) {
		return false;
	}
	i += d;
	if (i < s.n && s.p[i] == '.') {
		d = digits(s, ++i);
		if (d == 0) {
			return false;
		}
		i += d;
	}
	if (i < s.n && (s.p[i] == 'e' || s.p[i] == 'E')) {
		i++;
		if (i < s.n && (s.p[i] == '+' || s.p[i] == '-')) {
			i++;
		}
		d = digits(s, i);
		if (d == 0) {
			return false;
		}
		i += d;
	}
	return i == s.n;
}

static locale_t c_locale;
static void make_c_locale(void)
{
	c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

bool kp_str_f64(kp_str s, double *ret)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	char buf[512];
	/* Longer texts are legal but no client writes them; digits past 17 cannot matter unless
	 * they tip a rounding. */
	if (!is_json_number(s) || s.n >= sizeof(buf)) {
		return false;
	}
	pthread_once(&once, make_c_locale);
	memcpy(buf, s.p, s.n);
	buf[s.n] = '\0';
	double v = strtod_l(buf, NULL, c_locale);
	if (!isfinite(v)) {
		return false;
	}
	*ret = v;
	return true;
}

char *kp_str_z(kp_str s)
{
	char *z = kp_xmalloc(s.n + 1);
	memcpy(z, s.n ? s.p : "", s.n);
	z[s.n] = '\0';
	return z;
}

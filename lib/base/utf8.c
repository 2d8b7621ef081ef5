/* DESIGN: a scalar decoder that accepts exactly RFC 3629, and an ASCII skip of 32 bytes a step. Where the processor has AVX2 (asked for at run time) 32
   bytes of any script are checked a step, by John Keiser's and Daniel Lemire's look-ups ("Validating UTF-8 in less than one instruction per byte", 2021):
   each wrong pair of bytes has a bit that is set in all of three tables, one for each half of the first byte and one for the second's upper half; what
   is found wrong, and the end, is left to the scalar decoder, which says where.
   The lossy copy replaces one maximal subpart at a time (Unicode 16, section 3.9, "U+FFFD
   Substitution of Maximal Subparts"), which is what Python and the WHATWG decoder do. */
#include "base/utf8.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* How many leading bytes of p[0..n) are ASCII (rounded down to whole steps, then byte by byte). */
static size_t ascii_prefix(const char *p, size_t n)
{
	size_t i = 0;
	for (; i + 32 <= n; i += 32) {
		uint64_t w[4];
		memcpy(w, p + i, 32);
		if ((w[0] | w[1] | w[2] | w[3]) & UINT64_C(0x8080808080808080)) {
			break;
		}
	}
	while (i < n && (unsigned char)p[i] < 0x80) {
		i++;
	}
	return i;
}

/* Length of the character at p, or 0; *ret_bad: length of the maximal invalid subpart then (>= 1).
 */
static size_t scan(const char *s, size_t n, uint32_t *ret_cp, size_t *ret_bad)
{
	const unsigned char *p = (const unsigned char *)s;
	unsigned char c = p[0], lo = 0x80, hi = 0xbf;
	size_t len;
	uint32_t cp;
	*ret_bad = 1;
	if (c < 0x80) {
		*ret_cp = c;
		return 1;
	}
	if (c >= 0xc2 && c <= 0xdf) {
		len = 2;
		cp = c & 0x1f;
	} else if (c >= 0xe0 && c <= 0xef) {
		len = 3;
		cp = c & 0x0f;
		lo = c == 0xe0 ? 0xa0 : 0x80;
		hi = c == 0xed ? 0x9f : 0xbf;
	} else if (c >= 0xf0 && c <= 0xf4) {
		len = 4;
		cp = c & 0x07;
		lo = c == 0xf0 ? 0x90 : 0x80;
		hi = c == 0xf4 ? 0x8f : 0xbf;
	} else {
		return 0;
	}
	for (size_t i = 1; i < len; i++) {
		if (i >= n || p[i] < lo || p[i] > hi) {
			*ret_bad = i;
			return 0;
		}
		cp = cp << 6 | (p[i] & 0x3f);
		lo = 0x80;
		hi = 0xbf;
	}
	*ret_cp = cp;
	return len;
}

size_t kp_utf8_decode(const char *p, size_t n, uint32_t *ret_cp)
{
	size_t bad;
	uint32_t cp;
	size_t len = n ? scan(p, n, &cp, &bad) : 0;
	if (len) {
		*ret_cp = cp;
	}
	return len;
}

size_t kp_utf8_decode_last(const char *p, size_t n, uint32_t *ret_cp)
{
	for (size_t k = 1; k <= 4 && k <= n; k++) {
		if (((unsigned char)p[n - k] & 0xc0) != 0x80) {
			return kp_utf8_decode(p + n - k, k, ret_cp) == k ? k : 0;
		}
	}
	return 0;
}

/* Skips whole characters of two and three bytes; four bytes are looked at a time. */
static size_t common_prefix(const char *p, size_t n)
{
	size_t i = 0;
	while (n - i >= 4) {
		uint32_t x;
		memcpy(&x, p + i, 4);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
		x = __builtin_bswap32(x);
#endif
		if ((x & 0xc0e0) == 0x80c0 && (x & 0x1e)) { /* not C0, C1 */
			i += 2;
		} else if ((x & 0xc0c0f0) == 0x8080e0 && (x & 0x200f) && (x & 0x200f) != 0x200d) {
			i += 3; /* neither E0 and below A0 nor ED and above 9F */
		} else {
			break;
		}
	}
	return i;
}

#if defined(__x86_64__)

#define AVX2 __attribute__((target("avx2")))

/* What is wrong with two bytes, one behind the other. */
enum {
	TOO_SHORT = 1 << 0,    /* a lead and no continuation */
	TOO_LONG = 1 << 1,     /* ASCII and a continuation */
	OVERLONG_3 = 1 << 2,   /* e0 80..9f */
	TOO_LARGE = 1 << 3,    /* f4 90..bf, f5..ff 90..bf */
	SURROGATE = 1 << 4,    /* ed a0..bf */
	OVERLONG_2 = 1 << 5,   /* c0, c1 */
	TOO_LARGE_80 = 1 << 6, /* f5..ff 80..8f */
	OVERLONG_4 = 1 << 6,   /* f0 80..8f */
	TWO_CONTS = 1 << 7,    /* two continuations: right where a longer character has them */
	ANY_LOW = TOO_SHORT | TOO_LONG | TWO_CONTS,
	LARGE = TOO_LARGE | TOO_LARGE_80,
};

/* The same 16 bytes in both halves. */
#define TABLE(...) _mm256_broadcastsi128_si256(_mm_setr_epi8(__VA_ARGS__))

/* The bytes of v, each n places further on; `before` stands before v. */
#define SHIFTED(before, v, n) \
	_mm256_alignr_epi8(v, _mm256_permute2x128_si256(before, v, 0x21), 16 - (n))

/* Not zero where a byte of v is not what those before it ask for. */
AVX2 static inline __m256i wrong_bytes(__m256i before, __m256i v)
{
	const __m256i first_high = TABLE(TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG,
			      TOO_LONG, TOO_LONG, (char)TWO_CONTS, (char)TWO_CONTS, (char)TWO_CONTS,
			      (char)TWO_CONTS, TOO_SHORT | OVERLONG_2, TOO_SHORT,
			      TOO_SHORT | OVERLONG_3 | SURROGATE, TOO_SHORT | LARGE | OVERLONG_4),
		      first_low = TABLE((char)(ANY_LOW | OVERLONG_3 | OVERLONG_2 | OVERLONG_4),
			      (char)(ANY_LOW | OVERLONG_2), (char)ANY_LOW, (char)ANY_LOW,
			      (char)(ANY_LOW | TOO_LARGE), (char)(ANY_LOW | LARGE),
			      (char)(ANY_LOW | LARGE), (char)(ANY_LOW | LARGE),
			      (char)(ANY_LOW | LARGE), (char)(ANY_LOW | LARGE),
			      (char)(ANY_LOW | LARGE), (char)(ANY_LOW | LARGE),
			      (char)(ANY_LOW | LARGE), (char)(ANY_LOW | LARGE | SURROGATE),
			      (char)(ANY_LOW | LARGE), (char)(ANY_LOW | LARGE)),
		      second_high = TABLE(TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT,
			      TOO_SHORT, TOO_SHORT, TOO_SHORT,
			      (char)(TOO_LONG | OVERLONG_2 | TWO_CONTS | OVERLONG_3 | TOO_LARGE_80 |
				      OVERLONG_4),
			      (char)(TOO_LONG | OVERLONG_2 | TWO_CONTS | OVERLONG_3 | TOO_LARGE),
			      (char)(TOO_LONG | OVERLONG_2 | TWO_CONTS | SURROGATE | TOO_LARGE),
			      (char)(TOO_LONG | OVERLONG_2 | TWO_CONTS | SURROGATE | TOO_LARGE),
			      TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT),
		      nibble = _mm256_set1_epi8(0x0f);
	__m256i one = SHIFTED(before, v, 1), two = SHIFTED(before, v, 2),
		three = SHIFTED(before, v, 3);
	__m256i pair = _mm256_and_si256(
		_mm256_and_si256(_mm256_shuffle_epi8(first_high,
					 _mm256_and_si256(_mm256_srli_epi16(one, 4), nibble)),
			_mm256_shuffle_epi8(first_low, _mm256_and_si256(one, nibble))),
		_mm256_shuffle_epi8(
			second_high, _mm256_and_si256(_mm256_srli_epi16(v, 4), nibble)));
	/* The third byte of three or four, and the fourth: two continuations have to be there. */
	__m256i third = _mm256_subs_epu8(two, _mm256_set1_epi8(0xe0 - 0x80)),
		fourth = _mm256_subs_epu8(three, _mm256_set1_epi8(0xf0 - 0x80));
	__m256i must =
		_mm256_and_si256(_mm256_or_si256(third, fourth), _mm256_set1_epi8((char)TWO_CONTS));
	return _mm256_xor_si256(must, pair);
}

/* Bytes at the begin that are whole valid characters, as far as steps of 32 go. */
AVX2 static size_t wide_prefix(const char *p, size_t n)
{
	__m256i before = _mm256_setzero_si256();
	size_t i = 0;
	for (; n - i >= 32; i += 32) {
		__m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(p + i)),
			wrong = wrong_bytes(before, v);
		if (!_mm256_testz_si256(wrong, wrong)) {
			break;
		}
		before = v;
	}
	for (size_t k = 1; k <= 3 && k <= i; k++) { /* the last character may not be whole */
		unsigned char c = (unsigned char)p[i - k];
		if ((c & 0xc0) != 0x80) {
			size_t len = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
			return len > k ? i - k : i;
		}
	}
	return i;
}

#else

static size_t wide_prefix(const char *p, size_t n)
{
	(void)p;
	(void)n;
	return 0;
}

#endif

static bool is_wide(void)
{
#if defined(__x86_64__)
	return __builtin_cpu_supports("avx2");
#else
	return false;
#endif
}

/* ASCII and characters of two bytes at the begin of a few bytes, as the words of a vocabulary are. */
static size_t short_prefix(kp_str s)
{
	const unsigned char *p = (const unsigned char *)s.p;
	size_t i = 0;
	while (i < s.n) {
		if (p[i] < 0x80) {
			i++;
		} else if (p[i] >= 0xc2 && p[i] < 0xe0 && i + 1 < s.n &&
			   (p[i + 1] & 0xc0) == 0x80) {
			i += 2;
		} else {
			break;
		}
	}
	return i;
}

size_t kp_utf8_valid_prefix(kp_str s)
{
	enum { SHORT = 32, WORTH_IT = 64 };
	size_t i = s.n < SHORT ? short_prefix(s) : ascii_prefix(s.p, s.n);
	if (s.n - i >= WORTH_IT && is_wide()) {
		i += wide_prefix(s.p + i, s.n - i);
	}
	while (i < s.n) {
		i += ascii_prefix(s.p + i, s.n - i);
		i += common_prefix(s.p + i, s.n - i);
		/* Stay in the scalar loop while text is not ASCII: scripts come in runs. */
		while (i < s.n && (unsigned char)s.p[i] >= 0x80) {
			uint32_t cp;
			size_t bad, len = scan(s.p + i, s.n - i, &cp, &bad);
			if (len == 0) {
				return i;
			}
			i += len;
		}
	}
	return i;
}

size_t kp_utf8_encode(uint32_t cp, char out[4])
{
	if (cp < 0x80) {
		out[0] = (char)cp;
		return 1;
	}
	if (cp < 0x800) {
		out[0] = (char)(0xc0 | cp >> 6);
		out[1] = (char)(0x80 | (cp & 0x3f));
		return 2;
	}
	if (cp < 0x10000) {
		out[0] = (char)(0xe0 | cp >> 12);
		out[1] = (char)(0x80 | (cp >> 6 & 0x3f));
		out[2] = (char)(0x80 | (cp & 0x3f));
		return 3;
	}
	KP_BUG_ON(cp > 0x10ffff);
	out[0] = (char)(0xf0 | cp >> 18);
	out[1] = (char)(0x80 | (cp >> 12 & 0x3f));
	out[2] = (char)(0x80 | (cp >> 6 & 0x3f));
	out[3] = (char)(0x80 | (cp & 0x3f));
	return 4;
}

void kp_utf8_add(struct kp_buf *b, uint32_t cp)
{
	char tmp[4];
	kp_buf_add(b, kp_str_n(tmp, kp_utf8_encode(cp, tmp)));
}

size_t kp_utf8_incomplete_tail(kp_str s)
{
	for (size_t k = 1; k <= 3 && k <= s.n; k++) {
		unsigned char c = (unsigned char)s.p[s.n - k];
		if ((c & 0xc0) == 0x80) {
			continue;
		}
		uint32_t cp;
		size_t bad;
		/* Incomplete: invalid only because the bytes ran out. */
		return c >= 0xc2 && c <= 0xf4 && scan(s.p + s.n - k, k, &cp, &bad) == 0 && bad == k
			       ? k
			       : 0;
	}
	return 0;
}

void kp_utf8_add_lossy(struct kp_buf *b, kp_str s)
{
	for (size_t i = 0; i < s.n;) {
		size_t ok = kp_utf8_valid_prefix(kp_str_skip(s, i));
		kp_buf_add(b, kp_str_sub(s, i, i + ok));
		i += ok;
		if (i < s.n) {
			uint32_t cp;
			size_t bad;
			scan(s.p + i, s.n - i, &cp, &bad);
			kp_buf_lit(b, "\xef\xbf\xbd");
			i += bad;
		}
	}
}

size_t kp_utf8_count(kp_str s)
{
	size_t n = 0;
	for (size_t i = 0; i < s.n; i++) {
		n += ((unsigned char)s.p[i] & 0xc0) != 0x80;
	}
	return n;
}

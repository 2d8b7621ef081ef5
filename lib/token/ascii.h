/* Which of 64 bytes are letters, digits, ...: one bit per byte, for the block half of the pre-tokenizers. SSE2 on x86-64, NEON
   on arm64, byte by byte elsewhere. */
#ifndef KP_TOKEN_ASCII_H
#define KP_TOKEN_ASCII_H

#include "base/macros.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
#endif

/* Are eight bytes small ASCII letters? */
static inline bool kp_small_letters(uint64_t x)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);
	uint64_t beyond = x + (0x80 - 'z' - 1) * ones, from = x + (0x80 - 'a') * ones;
	return !((x | beyond | ~from) & 0x80 * ones);
}

enum {
	KP_ASCII_UPPER = 1,
	KP_ASCII_SLASH = 2,
	KP_ASCII_CONTROL = 4
}; /* what not every pattern asks for */

struct kp_ascii {
	uint64_t letter, digit, space; /* \s: tab, \n, \v, \f, \r, space */
	uint64_t newline;              /* \n, \r */
	uint64_t blank;                /* the space character */
	uint64_t quote;                /* ' */
	uint64_t upper;                /* A-Z */
	uint64_t slash;
	uint64_t control; /* below 0x20, and 0x7f; white space among them */
	uint64_t high;    /* not ASCII; the other bits say nothing there */
};

/* Which of 64 bytes at p are one of n, of each of which there are 16 in a row. For any machine. */
static inline uint64_t kp_ascii_any_portable(const uint8_t *p, const uint8_t (*any)[16], size_t n)
{
	uint64_t m = 0;
	for (unsigned i = 0; i < 64; i++) {
		for (size_t k = 0; k < n; k++) {
			m |= (uint64_t)(p[i] == any[k][0]) << i;
		}
	}
	return m;
}

/* For any machine; the tests compare the other halves with it. */
static inline void kp_ascii_load_portable(const uint8_t *p, struct kp_ascii *r, unsigned extra)
{
	*r = (struct kp_ascii){ 0 };
	for (unsigned i = 0; i < 64; i++) {
		uint8_t c = p[i], lower = c | 0x20;
		r->letter |= (uint64_t)(lower >= 'a' && lower <= 'z') << i;
		r->digit |= (uint64_t)(c >= '0' && c <= '9') << i;
		r->space |= (uint64_t)(c == ' ' || (c >= 9 && c <= 13)) << i;
		r->newline |= (uint64_t)(c == '\n' || c == '\r') << i;
		r->blank |= (uint64_t)(c == ' ') << i;
		r->quote |= (uint64_t)(c == '\'') << i;
		r->high |= (uint64_t)(c >= 0x80) << i;
		r->upper |= (uint64_t)((extra & KP_ASCII_UPPER) && c >= 'A' && c <= 'Z') << i;
		r->slash |= (uint64_t)((extra & KP_ASCII_SLASH) && c == '/') << i;
		r->control |= (uint64_t)((extra & KP_ASCII_CONTROL) && (c < 32 || c == 127)) << i;
	}
}

#if defined(__SSE2__)

static inline uint64_t kp_ascii_bits(__m128i v, unsigned shift)
{
	return (uint64_t)(uint32_t)_mm_movemask_epi8(v) << shift;
}
/* Bytes in [from, from + n), n <= 128. */
static inline __m128i kp_ascii_range(__m128i v, char from, char n)
{
	__m128i x = _mm_sub_epi8(
		v, _mm_set1_epi8((char)(from ^ (char)0x80))); /* [from, ..) becomes [-128, ..) */
	return _mm_cmplt_epi8(x, _mm_set1_epi8((char)(-128 + n)));
}

static inline __attribute__((always_inline)) void kp_ascii_load(
	const uint8_t *p, struct kp_ascii *r, unsigned extra)
{
	*r = (struct kp_ascii){ 0 };
	for (unsigned i = 0; i < 64; i += 16) {
		__m128i v = _mm_loadu_si128((const __m128i *)(const void *)(p + i));
		__m128i blank = _mm_cmpeq_epi8(v, _mm_set1_epi8(' '));
		r->letter |= kp_ascii_bits(
			kp_ascii_range(_mm_or_si128(v, _mm_set1_epi8(0x20)), 'a', 26), i);
		r->digit |= kp_ascii_bits(kp_ascii_range(v, '0', 10), i);
		r->space |= kp_ascii_bits(_mm_or_si128(blank, kp_ascii_range(v, 9, 5)), i);
		r->newline |= kp_ascii_bits(_mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('\n')),
						    _mm_cmpeq_epi8(v, _mm_set1_epi8('\r'))),
			i);
		r->blank |= kp_ascii_bits(blank, i);
		r->quote |= kp_ascii_bits(_mm_cmpeq_epi8(v, _mm_set1_epi8('\'')), i);
		r->high |= kp_ascii_bits(v, i);
		if (extra & KP_ASCII_UPPER) {
			r->upper |= kp_ascii_bits(kp_ascii_range(v, 'A', 26), i);
		}
		if (extra & KP_ASCII_SLASH) {
			r->slash |= kp_ascii_bits(_mm_cmpeq_epi8(v, _mm_set1_epi8('/')), i);
		}
		if (extra & KP_ASCII_CONTROL) {
			r->control |= kp_ascii_bits(_mm_or_si128(kp_ascii_range(v, 0, 32),
							    _mm_cmpeq_epi8(v, _mm_set1_epi8(127))),
				i);
		}
	}
}

static inline uint64_t kp_ascii_any(const uint8_t *p, const uint8_t (*any)[16], size_t n)
{
	uint64_t m = 0;
	for (unsigned i = 0; i < 64; i += 16) {
		__m128i v = _mm_loadu_si128((const __m128i *)(const void *)(p + i)),
			x = _mm_setzero_si128();
		for (size_t k = 0; k < n; k++) {
			__m128i c = _mm_loadu_si128((const __m128i *)(const void *)any[k]);
			x = _mm_or_si128(x, _mm_cmpeq_epi8(v, c));
		}
		m |= kp_ascii_bits(x, i);
	}
	return m;
}

#elif defined(__ARM_NEON) && defined(__aarch64__)

static inline uint64_t kp_ascii_bits(const uint8x16_t v[4])
{
	const uint8x16_t weight = { 1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128 };
	uint8x16_t a = vpaddq_u8(vandq_u8(v[0], weight), vandq_u8(v[1], weight));
	uint8x16_t b = vpaddq_u8(vandq_u8(v[2], weight), vandq_u8(v[3], weight));
	a = vpaddq_u8(a, b);
	a = vpaddq_u8(a, a);
	return vgetq_lane_u64(vreinterpretq_u64_u8(a), 0);
}
static inline uint8x16_t kp_ascii_range(uint8x16_t v, uint8_t from, uint8_t n)
{
	return vcltq_u8(vsubq_u8(v, vdupq_n_u8(from)), vdupq_n_u8(n));
}

static inline __attribute__((always_inline)) void kp_ascii_load(
	const uint8_t *p, struct kp_ascii *r, unsigned extra)
{
	uint8x16_t l[4], d[4], s[4], n[4], b[4], q[4], h[4], u[4], f[4], c[4];
	for (unsigned i = 0; i < 4; i++) {
		uint8x16_t v = vld1q_u8(p + 16 * i);
		l[i] = kp_ascii_range(vorrq_u8(v, vdupq_n_u8(0x20)), 'a', 26);
		d[i] = kp_ascii_range(v, '0', 10);
		b[i] = vceqq_u8(v, vdupq_n_u8(' '));
		s[i] = vorrq_u8(b[i], kp_ascii_range(v, 9, 5));
		n[i] = vorrq_u8(vceqq_u8(v, vdupq_n_u8('\n')), vceqq_u8(v, vdupq_n_u8('\r')));
		q[i] = vceqq_u8(v, vdupq_n_u8('\''));
		h[i] = vcgeq_u8(v, vdupq_n_u8(0x80));
		u[i] = kp_ascii_range(v, 'A', 26);
		f[i] = vceqq_u8(v, vdupq_n_u8('/'));
		c[i] = vorrq_u8(kp_ascii_range(v, 0, 32), vceqq_u8(v, vdupq_n_u8(127)));
	}
	*r = (struct kp_ascii){ .letter = kp_ascii_bits(l),
		.digit = kp_ascii_bits(d),
		.space = kp_ascii_bits(s),
		.newline = kp_ascii_bits(n),
		.blank = kp_ascii_bits(b),
		.quote = kp_ascii_bits(q),
		.high = kp_ascii_bits(h),
		.upper = extra & KP_ASCII_UPPER ? kp_ascii_bits(u) : 0,
		.slash = extra & KP_ASCII_SLASH ? kp_ascii_bits(f) : 0,
		.control = extra & KP_ASCII_CONTROL ? kp_ascii_bits(c) : 0 };
}

static inline uint64_t kp_ascii_any(const uint8_t *p, const uint8_t (*any)[16], size_t n)
{
	uint8x16_t x[4] = { vdupq_n_u8(0), vdupq_n_u8(0), vdupq_n_u8(0), vdupq_n_u8(0) };
	for (size_t k = 0; k < n; k++) {
		uint8x16_t c = vld1q_u8(any[k]);
		for (unsigned i = 0; i < 4; i++) {
			x[i] = vorrq_u8(x[i], vceqq_u8(vld1q_u8(p + 16 * i), c));
		}
	}
	return kp_ascii_bits(x);
}

#else

static inline void kp_ascii_load(const uint8_t *p, struct kp_ascii *r, unsigned extra)
{
	kp_ascii_load_portable(p, r, extra);
}
static inline uint64_t kp_ascii_any(const uint8_t *p, const uint8_t (*any)[16], size_t n)
{
	return kp_ascii_any_portable(p, any, n);
}

#endif

#endif

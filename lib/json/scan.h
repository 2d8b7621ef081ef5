/* Where a JSON string stops being plain: the one loop that request bodies and answers spend their
   time in. 16 bytes a step with SSE2 or NEON, 8 with the portable path (a byte is special if it is
   `"`, `\` or below 0x20). */
#ifndef KP_JSON_SCAN_H
#define KP_JSON_SCAN_H

#include "base/macros.h"

#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

static inline bool kp_json_is_special(unsigned char c)
{
	return c == '"' || c == '\\' || c < 0x20;
}

/* What a letter behind a backslash stands for; 0: nothing, or `u`. */
static const char kp_json_simple_escape[128] = { ['"'] = '"',
	['\\'] = '\\',
	['/'] = '/',
	['b'] = '\b',
	['f'] = '\f',
	['n'] = '\n',
	['r'] = '\r',
	['t'] = '\t' };

#define KP_SWAR_ONES  UINT64_C(0x0101010101010101)
#define KP_SWAR_HIGHS UINT64_C(0x8080808080808080)
/* A high bit set for each byte of w that is below n (n <= 0x80); exact for the lowest set one,
 * which is what callers use. */
static inline uint64_t kp_swar_below(uint64_t w, unsigned n)
{
	return (w - KP_SWAR_ONES * n) & ~w & KP_SWAR_HIGHS;
}
static inline uint64_t kp_swar_special(uint64_t w)
{
	return kp_swar_below(w, 0x20) | kp_swar_below(w ^ KP_SWAR_ONES * '"', 1) |
	       kp_swar_below(w ^ KP_SWAR_ONES * '\\', 1);
}

/* First special byte in [p, end), or end. *non_ascii is set to true when a byte >= 0x80 may have
 * been passed (never missed). */
static inline const char *kp_json_scan(const char *p, const char *end, bool *non_ascii)
{
#if defined(__SSE2__)
	const __m128i quote = _mm_set1_epi8('"'), back = _mm_set1_epi8('\\'),
		      ctl = _mm_set1_epi8(0x1f);
	while (end - p >= 16) {
		__m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
		__m128i hit = _mm_or_si128(
			_mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, back)),
			_mm_cmpeq_epi8(_mm_max_epu8(v, ctl), ctl));
		unsigned mask = (unsigned)_mm_movemask_epi8(hit);
		*non_ascii |= _mm_movemask_epi8(v) != 0;
		if (mask) {
			return p + __builtin_ctz(mask);
		}
		p += 16;
	}
#else
	while (end - p >= 8) {
		uint64_t w;
		memcpy(&w, p, 8);
		*non_ascii |= (w & KP_SWAR_HIGHS) != 0;
		if (kp_swar_special(w)) {
			break; /* the tail loop finds it, whatever the byte order */
		}
		p += 8;
	}
#endif
	while (p < end && !kp_json_is_special((unsigned char)*p)) {
		*non_ascii |= (unsigned char)*p >= 0x80;
		p++;
	}
	return p;
}

#endif

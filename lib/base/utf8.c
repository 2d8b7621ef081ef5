/* DESIGN: a scalar decoder that accepts exactly RFC 3629, and an ASCII skip of 32 bytes a step.
   The lossy copy replaces one maximal subpart at a time (Unicode 16, section 3.9, "U+FFFD
   Substitution of Maximal Subparts"), which is what Python and the WHATWG decoder do. */
#include "base/utf8.h"

#include <string.h>

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

size_t kp_utf8_valid_prefix(kp_str s)
{
	size_t i = 0;
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

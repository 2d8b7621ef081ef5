/* UTF-8, strictly: no overlong forms, no surrogates, nothing above U+10FFFF (RFC 3629). */
#ifndef KP_BASE_UTF8_H
#define KP_BASE_UTF8_H

#include "base/buf.h"

/* Offset of the first byte that is not part of a valid character, or s.n when all is valid. SIMD
 * over ASCII. */
size_t kp_utf8_valid_prefix(kp_str s);
static inline bool kp_utf8_ok(kp_str s)
{
	return kp_utf8_valid_prefix(s) == s.n;
}
/* One code point at p (n > 0 bytes left): its length 1..4, *ret_cp set; 0 when the bytes are
 * invalid or cut short. */
size_t kp_utf8_decode(const char *p, size_t n, uint32_t *ret_cp);
/* Length of the code point that ends before p[n], 0 when those bytes are not a whole valid one. */
size_t kp_utf8_decode_last(const char *p, size_t n, uint32_t *ret_cp);
/* Writes cp (a scalar value) into out, returns 1..4. */
size_t kp_utf8_encode(uint32_t cp, char out[4]);
void kp_utf8_add(struct kp_buf *b, uint32_t cp);
/* How many bytes at the end of s begin a character that is not complete yet (0..3) but may become
 * valid. */
size_t kp_utf8_incomplete_tail(kp_str s);
/* Copies s with each maximal invalid part replaced by U+FFFD, as Python's bytes.decode("utf-8",
 * "replace") does. */
void kp_utf8_add_lossy(struct kp_buf *b, kp_str s);
/* Number of code points in valid UTF-8. */
size_t kp_utf8_count(kp_str s);

#endif

/* Base64 as RFC 4648 section 4 has it: its alphabet, padded, nothing in between. */
#ifndef KP_BASE_BASE64_H
#define KP_BASE_BASE64_H

#include "base/str.h"

/* Bytes that a text of n characters gives at most. */
static inline size_t kp_base64_max(size_t n)
{
	return n / 4 * 3;
}
/* Into `ret`, which has room for kp_base64_max; how many bytes it were, or -1: no base64. */
ptrdiff_t kp_base64_decode(kp_str text, uint8_t *ret);

#endif

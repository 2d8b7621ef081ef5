/* A fast hash for tables of this module's own making (vocabulary, caches): folded 64x64 multiplication, 16 bytes a step. Keys may
   come from outside, so every table that uses it bounds its probes or is verified and lossy; nothing depends on its quality but
   speed. The same on every machine: fingerprints are made of it. */
#ifndef KP_TOKEN_HASH_H
#define KP_TOKEN_HASH_H

#include "base/macros.h"

#include <string.h>

static inline uint64_t kp_hash_fold(uint64_t a, uint64_t b)
{
	__extension__ typedef unsigned __int128 wide;
	wide m = (wide)(a ^ UINT64_C(0x9e3779b97f4a7c15)) * (b ^ UINT64_C(0xd1b54a32d192ed03));
	return (uint64_t)m ^ (uint64_t)(m >> 64);
}
static inline uint64_t kp_load64(const void *p)
{
	uint64_t x;
	memcpy(&x, p, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	x = __builtin_bswap64(x);
#endif
	return x;
}
static inline uint64_t kp_hash_bytes(const void *data, size_t n)
{
	const unsigned char *p = data;
	uint64_t h = n * UINT64_C(0xff51afd7ed558ccd);
	for (; n >= 16; n -= 16, p += 16) {
		h = kp_hash_fold(kp_load64(p) ^ h, kp_load64(p + 8) + h);
	}
	unsigned char rest[16] = { 0 };
	for (size_t i = 0; i < n; i++) {
		rest[i] = p[i];
	}
	return kp_hash_fold(kp_load64(rest) ^ h, kp_load64(rest + 8) + h);
}

#endif

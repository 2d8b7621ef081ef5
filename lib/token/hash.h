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
static inline uint32_t kp_load32(const void *p)
{
	uint32_t x;
	memcpy(&x, p, 4);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	x = __builtin_bswap32(x);
#endif
	return x;
}
/* Up to 8 bytes, zeros behind them, by loads that overlap: bytes written one by one and then read as a word would wait for one another. */
static inline uint64_t kp_load_short(const unsigned char *p, size_t n)
{
	if (n >= 4) {
		return kp_load32(p) | (uint64_t)kp_load32(p + n - 4) << 8 * (n - 4);
	}
	return n ? p[0] | (uint64_t)p[n / 2] << 8 * (n / 2) | (uint64_t)p[n - 1] << 8 * (n - 1) : 0;
}
static inline uint64_t kp_hash_bytes(const void *data, size_t n)
{
	const unsigned char *p = data;
	uint64_t h = n * UINT64_C(0xff51afd7ed558ccd);
	for (; n >= 16; n -= 16, p += 16) {
		h = kp_hash_fold(kp_load64(p) ^ h, kp_load64(p + 8) + h);
	}
	uint64_t lo = kp_load_short(p, n < 8 ? n : 8), hi = n > 8 ? kp_load_short(p + 8, n - 8) : 0;
	return kp_hash_fold(lo ^ h, hi + h);
}

#endif

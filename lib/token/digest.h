/* A keyed 128-bit digest that runs at the speed of memory: names and checksums of images. Four lanes of the folded multiplication of
   hash.h; who does not know the key cannot make two inputs collide on purpose other than by trying, but it is no signature.
   The same on every machine of one byte order. */
#ifndef KP_TOKEN_DIGEST_H
#define KP_TOKEN_DIGEST_H

#include "base/str.h"

struct kp_digest {
	uint64_t lo, hi;
};
struct kp_digest_key {
	uint64_t word[8];
};
struct kp_digest kp_digest(const struct kp_digest_key *key, kp_str bytes);
static inline bool kp_digest_eq(struct kp_digest a, struct kp_digest b)
{
	return a.lo == b.lo && a.hi == b.hi;
}

#endif

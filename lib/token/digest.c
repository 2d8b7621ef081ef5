/* DESIGN: see digest.h. 64 bytes a step; the rest is padded with zeros, the length goes in at the end. */
#include "token/digest.h"
#include "token/hash.h"

struct lanes {
	uint64_t v[4];
};

static inline void step(struct lanes *l, const struct kp_digest_key *key, const unsigned char *p)
{
	for (size_t i = 0; i < 4; i++) {
		l->v[i] = kp_hash_fold(kp_load64(p + 16 * i) ^ l->v[i] ^ key->word[2 * i],
			kp_load64(p + 16 * i + 8) ^ key->word[2 * i + 1]);
	}
}

struct kp_digest kp_digest(const struct kp_digest_key *key, kp_str bytes)
{
	const unsigned char *p = (const unsigned char *)bytes.p;
	size_t n = bytes.n;
	struct lanes l;
	memcpy(l.v, key->word, sizeof(l.v));
	for (; n >= 64; n -= 64, p += 64) {
		step(&l, key, p);
	}
	unsigned char rest[64] = { 0 };
	if (n) {
		memcpy(rest, p, n);
	}
	step(&l, key, rest);
	uint64_t a = kp_hash_fold(l.v[0] ^ key->word[4], l.v[1] ^ bytes.n),
		 b = kp_hash_fold(l.v[2] ^ key->word[5], l.v[3] ^ key->word[6]);
	return (struct kp_digest){ kp_hash_fold(a ^ key->word[7], b),
		kp_hash_fold(b ^ key->word[0], a ^ key->word[1]) };
}

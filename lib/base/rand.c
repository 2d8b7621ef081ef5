/* DESIGN: see rand.h. The kernel's generator never fails once it is initialised; an error there is
 * a bug of the platform. */
#include "base/rand.h"

#include <errno.h>
#include <sys/random.h>

static uint64_t rotl(uint64_t x, int k)
{
	return x << k | x >> (64 - k);
}

void kp_rng_seed(struct kp_rng *r, uint64_t seed)
{
	for (int i = 0; i < 4; i++) { /* splitmix64, as the authors advise */
		uint64_t z = (seed += UINT64_C(0x9e3779b97f4a7c15));
		z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
		z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
		r->s[i] = z ^ z >> 31;
	}
}

uint64_t kp_rng_next(struct kp_rng *r)
{
	uint64_t *s = r->s, result = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;
	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return result;
}

uint64_t kp_rng_below(struct kp_rng *r, uint64_t bound)
{
	uint64_t limit = UINT64_MAX - UINT64_MAX % bound, v;
	do {
		v = kp_rng_next(r);
	} while (v >= limit);
	return v % bound;
}

void kp_random_bytes(void *p, size_t n)
{
	char *at = p;
	while (n) {
		ssize_t k = getrandom(at, n, 0);
		if (k < 0) {
			KP_BUG_ON(errno != EINTR);
			continue;
		}
		at += k;
		n -= (size_t)k;
	}
}

void kp_random_id(char *buf, size_t n)
{
	static const char set[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	static _Thread_local struct kp_rng rng;
	static _Thread_local unsigned left;
	if (left == 0) { /* identifiers need to be unique, not secret: reseed now and then instead
			    of a system call each */
		uint64_t seed;
		kp_random_bytes(&seed, sizeof(seed));
		kp_rng_seed(&rng, seed);
		left = 4096;
	}
	left--;
	for (size_t i = 0; i < n; i++) {
		buf[i] = set[kp_rng_below(&rng, sizeof(set) - 1)];
	}
	buf[n] = '\0';
}

/* Random numbers: kp_rng is a small seedable generator (xoshiro256**, Blackman and Vigna 2018) for
   routing and tests; kp_random_bytes is the kernel's, for keys and identifiers. */
#ifndef KP_BASE_RAND_H
#define KP_BASE_RAND_H

#include "base/macros.h"

struct kp_rng {
	uint64_t s[4];
};

void kp_rng_seed(
	struct kp_rng *r, uint64_t seed); /* the same numbers for the same seed, for ever */
uint64_t kp_rng_next(struct kp_rng *r);
uint64_t kp_rng_below(struct kp_rng *r, uint64_t bound); /* uniform in [0, bound), bound > 0 */
void kp_random_bytes(void *p, size_t n);
/* n characters of [a-zA-Z0-9], NUL behind them: identifiers ("chatcmpl-..."). Buffer of n+1. */
void kp_random_id(char *buf, size_t n);

#endif

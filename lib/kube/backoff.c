/* DESIGN: see the header. */
#include "kube/backoff.h"

int64_t kp_kube_backoff_next(struct kp_kube_backoff *b, struct kp_rng *rng)
{
	int64_t wait = b->first_ns;
	for (uint32_t i = 0; i < b->n && wait < b->most_ns; i++) {
		wait = wait > b->most_ns / 2 ? b->most_ns : wait * 2;
	}
	b->n += b->n < UINT32_MAX;
	int64_t half = wait / 2;
	return half + (int64_t)kp_rng_below(rng, (uint64_t)(wait - half) + 1);
}

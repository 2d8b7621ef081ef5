/* How long to wait after the n-th failure in a row: `first` doubled each time up to `most`, of which a random
   part, half to all, is taken so that many clients do not come back at once. Pure. */
#ifndef KP_KUBE_BACKOFF_H
#define KP_KUBE_BACKOFF_H

#include "base/rand.h"

struct kp_kube_backoff {
	int64_t first_ns, most_ns;
	uint32_t n; /* failures in a row */
};
/* Counts one more failure and says how long to wait for it. */
int64_t kp_kube_backoff_next(struct kp_kube_backoff *b, struct kp_rng *rng);
static inline void kp_kube_backoff_reset(struct kp_kube_backoff *b)
{
	b->n = 0;
}

#endif

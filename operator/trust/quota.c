/* DESIGN: the "generic cell rate algorithm": a place holds one number, the time when its budget is whole again. */
#include "operator/trust/quota.h"

#include "base/map.h"

void kp_quota_init(struct kp_quota *q, uint32_t burst, int64_t every_ns)
{
	*q = (struct kp_quota){ .burst = burst, .every_ns = every_ns };
}

bool kp_quota_take(struct kp_quota *q, kp_str name, int64_t now_ns, int64_t *ret_wait_ns)
{
	int64_t *until = &q->used_until_ns[kp_hash(name) % KP_QUOTA_PLACES];
	int64_t from = KP_MAX(*until, now_ns);
	int64_t most = now_ns + (int64_t)q->burst * q->every_ns;
	if (from + q->every_ns > most) {
		*ret_wait_ns = from + q->every_ns - most;
		return false;
	}
	*until = from + q->every_ns;
	*ret_wait_ns = 0;
	return true;
}

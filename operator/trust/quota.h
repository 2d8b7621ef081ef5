/* How often somebody may ask: a budget of `burst`, refilled by one each `every_ns`, for each of many names. A fixed number
   of places, so names that nobody sees coming cost no memory; two that share a place share its budget. Pure. */
#ifndef OPERATOR_TRUST_QUOTA_H
#define OPERATOR_TRUST_QUOTA_H

#include "base/str.h"

enum { KP_QUOTA_PLACES = 4096 };
struct kp_quota {
	uint32_t burst;
	int64_t every_ns;
	int64_t used_until_ns[KP_QUOTA_PLACES]; /* when all that was taken is refilled again */
};
void kp_quota_init(struct kp_quota *q, uint32_t burst, int64_t every_ns);
/* false: beyond it; *ret_wait_ns says when to come back. now_ns: monotonic. */
bool kp_quota_take(struct kp_quota *q, kp_str name, int64_t now_ns, int64_t *ret_wait_ns);

#endif

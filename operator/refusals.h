/* Gateways that were refused a certificate last time they asked: by the pod's UID where the request said whose it is, else by the address
   that it came from. Without one a gateway cannot connect, so this is all that is heard of it. At most KP_REFUSALS_MAX, each for
   KP_REFUSAL_NS, the oldest go first. Owner's thread. */
#ifndef OPERATOR_REFUSALS_H
#define OPERATOR_REFUSALS_H

#include "base/clock.h"
#include "base/map.h"

enum { KP_REFUSALS_MAX = 1024 };
#define KP_REFUSAL_NS (5 * 60 * KP_NS_PER_S) /* a gateway asks again within a minute */

struct kp_refusals {
	struct kp_map by_who; /* zeroed is empty */
};
void kp_refusals_fini(struct kp_refusals *r);
/* why "": it was given one. Either of uid and address may be "". */
void kp_refusals_note(
	struct kp_refusals *r, kp_str uid, kp_str address, kp_str why, int64_t now_ns);
/* Of the gateway with this UID, or at this address without a port; "": nothing. Until the next call of kp_refusals_note. */
kp_str kp_refusals_find(const struct kp_refusals *r, kp_str uid, kp_str address, int64_t now_ns);

#endif

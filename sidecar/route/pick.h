/* Which endpoint takes a generation: a pure function of a revision's endpoints, their counters and
 * a random number. */
#ifndef SIDECAR_ROUTE_PICK_H
#define SIDECAR_ROUTE_PICK_H

#include "base/rand.h"
#include "sidecar/control/snapshot.h"

enum kp_routing_policy { KP_ROUTE_LEAST_LOAD = 0, KP_ROUTE_ROUND_ROBIN };
extern const char *const kp_routing_policy_names[]; /* by value, NULL behind the last */

/* Which revision of the model a new turn belongs to: by chance, in proportion to their routable
 * endpoints; one with its text stack loaded when none has any. NULL: none is loaded. */
struct kp_revision *kp_pick_revision(const struct kp_model *m, struct kp_rng *rng);

/* NULL: none is routable. `avoid`: an endpoint that just failed this request, chosen only when it
   is the only one (may be NULL). least_load counts what runs through this gateway, ties are broken
   by chance. */
struct kp_endpoint *kp_pick(struct kp_revision *r, enum kp_routing_policy policy,
	const struct kp_endpoint *avoid, struct kp_rng *rng);

/* Is another endpoint than `e` routable? */
bool kp_has_other(const struct kp_revision *r, const struct kp_endpoint *e);

#endif

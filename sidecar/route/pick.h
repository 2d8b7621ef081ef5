/* Which endpoint takes a generation: a pure function of a revision's endpoints, their counters, the
 * time and a random number. */
#ifndef SIDECAR_ROUTE_PICK_H
#define SIDECAR_ROUTE_PICK_H

#include "base/rand.h"
#include "sidecar/control/snapshot.h"

enum kp_routing_policy { KP_ROUTE_LEAST_LOAD = 0, KP_ROUTE_ROUND_ROBIN };
extern const char *const kp_routing_policy_names[]; /* by value, NULL behind the last */

/* Which revision of the model a new turn belongs to: by chance, in proportion to their routable
 * endpoints; one with its text stack loaded when none has any. NULL: none is loaded. */
struct kp_model_revision *kp_pick_revision(const struct kp_model *m, struct kp_rng *rng);

struct kp_pick {
	enum kp_routing_policy policy;
	unsigned margin; /* least_load: so many requests more may run on an engine one step nearer
			    (enum kp_distance) before a farther one is chosen */
	bool leave_own;  /* this gateway drains: its own engines only when there is no other */
	int64_t now_ns;  /* monotonic */
	/* Could it have this request at all? NULL: each could. */
	bool (*takes)(const void *user, const struct kp_endpoint *e);
	const void *user;
};
/* NULL: none that takes it is routable. `avoid`: an endpoint that just failed this request, chosen only when it
   is the only one (may be NULL). least_load takes the lowest kp_pick_score, ties by chance. */
struct kp_endpoint *kp_pick(struct kp_model_revision *r, const struct kp_pick *how,
	const struct kp_endpoint *avoid, struct kp_rng *rng);
bool kp_pick_takes(const struct kp_pick *how, const struct kp_endpoint *e);
/* kp_endpoint_load and the margin for its distance. */
int kp_pick_score(const struct kp_pick *how, const struct kp_endpoint *e);
/* Is another endpoint than `e` routable? */
bool kp_has_other(const struct kp_model_revision *r, const struct kp_endpoint *e);

#endif

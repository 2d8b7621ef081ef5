/* Endpoints that are pods: of each engine of a program that runs in pods, those that the world has. Pure. */
#ifndef OPERATOR_PLAN_DISCOVER_H
#define OPERATOR_PLAN_DISCOVER_H

#include "control/program.h"
#include "operator/plan/world.h"

/* *ret: as `from`, of which it borrows, with what it needs more in the arena. An endpoint is there from when the pod has an
   address until the pod ends: whether it answers is for its gateway to say. */
int kp_discover(const struct kp_world *w, kp_str ns, const struct kp_program *from,
	struct kp_arena *a, struct kp_program *ret, struct kp_err *err) KP_MUST_USE;
/* The gateway that owns the endpoint of a pod: its own, or its node's; "": there is none. */
kp_str kp_discover_owner(
	const struct kp_world *w, const struct kp_world_engine *e, const struct kp_world_pod *pod);
/* "10.0.0.7:50051" */
kp_str kp_discover_address(
	const struct kp_world_engine *e, const struct kp_world_pod *pod, struct kp_arena *a);
static inline bool kp_discover_is_endpoint(const struct kp_world_pod *pod)
{
	return pod->ip.n && pod->uid.n && !pod->is_ending;
}

#endif

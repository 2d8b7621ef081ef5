/* Who owns which endpoint: a pure function of a program and of what its gateways say they own. */
#ifndef KP_CONTROL_OWNERSHIP_H
#define KP_CONTROL_OWNERSHIP_H

#include "control/program.h"

/* What is wrong with a gateway's claim; the rest of it holds. */
struct kp_claim_problem {
	enum kp_claim_why {
		KP_CLAIM_CONFLICT = 1, /* another gateway has an endpoint by an equal claim */
		KP_CLAIM_NOTHING,      /* no such engine, or endpoint */
		KP_CLAIM_MALFORMED,    /* not "namespace/engine" or "namespace/engine/index" */
		KP_CLAIM_ADDRESS, /* `claim`, an endpoint, is the same engine as another gateway's */
	} why;
	kp_str gateway, claim;
	kp_str winner,
		endpoint; /* CONFLICT: who has it; the first that was lost, "default/demo/127.0.0.1:50051".
			     ADDRESS: who has the other one */
};
enum { KP_CLAIM_PROBLEMS_MAX = 1000 }; /* kept */

/* *ret: a copy of `p` with these gateways, and owners for its endpoints. A claim on one endpoint is
   stronger than one on its whole engine; of equal ones that of the lowest id holds. Those of gateways that
   yield are weaker than all others, and give way without a problem. An endpoint in a pod belongs to the gateway it wants, and
   claims do not reach it. One address in several engines is one engine process
   (on loopback: if the owners are on one machine), so it has one owner. The problems, by
   gateway, lie in the arena of *ret. Each id must be there once: INVALID_ARGUMENT names it. */
int kp_program_with_owners(const struct kp_program *p, const struct kp_program_gateway *gateways,
	size_t n, struct kp_program **ret, const struct kp_claim_problem **ret_problems,
	size_t *ret_n_problems, struct kp_err *err) KP_MUST_USE;
/* "gateway `b`: its claim on `default/demo`: gateway `a` has ...", for logs and conditions. */
void kp_claim_problem_write(const struct kp_claim_problem *p, struct kp_buf *out);

#endif

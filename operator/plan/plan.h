/* What shall be: from what the objects ask for and the gateways that are known, one program for each
   namespace, the same for all its gateways. Pure: the time is given, the same input gives the same
   plan, in whatever order the gateways are listed.

   A gateway that is silent, after KP_PLAN_SILENT_NS, or drains stays owner of what nobody else claims,
   since its engines may be serving. After KP_PLAN_GONE_NS it is gone: in no program, owner of nothing. */
#ifndef OPERATOR_PLAN_PLAN_H
#define OPERATOR_PLAN_PLAN_H

#include "base/clock.h"
#include "control/items.h"
#include "control/ownership.h"
#include "operator/plan/intent.h"
#include "operator/plan/world.h"

#define KP_PLAN_SILENT_NS (10 * KP_NS_PER_S)
#define KP_PLAN_GONE_NS   (60 * KP_NS_PER_S)

/* A gateway that is known, from itself or from another's hello. Its texts were checked: what stands here
 * goes into programs as it is. */
struct kp_plan_gateway {
	struct kp_program_gateway is; /* `yields` is the plan's business */
	kp_str ns;
	int64_t heard_ns; /* when it was heard of last */
	bool is_draining; /* it says so */
};
struct kp_plan_namespace {
	kp_str name;                             /* the intent's */
	uint8_t made_of[KP_HASH_BYTES];          /* SHA-256 of its pods and gateways, as planned */
	struct kp_program *program;              /* with owners and gateways */
	struct kp_items *items;                  /* the same */
	const struct kp_claim_problem *problems; /* by gateway */
	size_t n_problems;
};
struct kp_plan {
	struct kp_plan_namespace *namespaces; /* by name */
	size_t n;
	int64_t due_ns; /* when to plan again, though nothing happens; INT64_MAX: never */
	size_t n_made;  /* namespaces that were made anew; the others are as they were */
};

/* before: the last plan of the same intent, or NULL; of a namespace whose pods and gateways are as they were then, its program is
 * moved over, and `before` is good for kp_plan_destroy alone, unless the call fails.
 * world: NULL, there is no cluster. A namespace with engines in pods has no program while its pods are not known. Borrows from
 * `intent`, `world` and `gateways` (no id twice) only during the call. RESOURCE_EXHAUSTED: a program is beyond the limits of
 * control/items.h. */
int kp_plan_make(const struct kp_intent *intent, const struct kp_world *world,
	const struct kp_plan_gateway *gateways, size_t n, int64_t now_ns, struct kp_plan *before,
	struct kp_plan **ret, struct kp_err *err) KP_MUST_USE;
void kp_plan_destroy(struct kp_plan *p); /* NULL is fine */
/* NULL: not there. */
const struct kp_plan_namespace *kp_plan_find(const struct kp_plan *p, kp_str ns);

#endif

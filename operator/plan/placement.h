/* Whether a node of the cluster could hold a pod of an engine at all, by what must be so whatever else runs: the labels that its
   template selects nodes by, and the extended resources (accelerators) that a node has. What is in use, taints, affinities and claims are
   Kubernetes' scheduler's business, which places pods; so False is sure, and True is no promise. Pure. */
#ifndef OPERATOR_PLAN_PLACEMENT_H
#define OPERATOR_PLAN_PLACEMENT_H

#include "operator/plan/engine.h"

/* p: its accelerators as they were counted. Sets the condition NodeFits, and returns whether there is anything to say: it asks for
   extended resources, and nodes are known. */
bool kp_placement_look(const struct kp_world *w, const struct kp_world_engine *e,
	const struct kp_engine_pods *p, struct kp_condition *ret);
/* Extended resources are counted in whole numbers; they come as numbers or as quantities, a thousand of them as "1k". What is
   neither is 0. */
int64_t kp_placement_amount(const json_t *v);

#endif

/* What a gateway tells others of an endpoint that it owns: made by the control thread, part of a
   snapshot, immutable. */
#ifndef SIDECAR_CONTROL_FACTS_H
#define SIDECAR_CONTROL_FACTS_H

#include "core/engine.h"

struct kp_endpoint_facts {
	struct kp_engine_info info; /* as the engine said, all zero before; its strings are ours */
	kp_str why;                 /* it is not routable, "" when it is */
	bool has_own_tokenizer;     /* the engine's; else it comes from a path */
	char text[];
};

/* info NULL: not known yet. A copy of all that is given. */
struct kp_endpoint_facts *kp_endpoint_facts_create(
	const struct kp_engine_info *info, const char *why, bool has_own_tokenizer);
void kp_endpoint_facts_destroy(struct kp_endpoint_facts *f);

#endif

/* What the objects ask for, checked as a whole: for each namespace one program, without gateways.
   Immutable. */
#ifndef OPERATOR_PLAN_INTENT_H
#define OPERATOR_PLAN_INTENT_H

#include "control/program.h"

struct kp_intent_namespace {
	kp_str name;
	struct kp_program *program;
};
struct kp_intent {
	struct kp_arena *arena;
	struct kp_intent_namespace *namespaces; /* by name; each has a pool */
	size_t n;
};

/* Pure. Every error found is appended to `problems`. Of no object an intent without namespaces is made. */
int kp_intent_build(const struct kp_object_set *set, struct kp_problems *problems,
	struct kp_intent **ret, struct kp_err *err) KP_MUST_USE;
void kp_intent_destroy(struct kp_intent *i); /* NULL is fine */
/* NULL: not there. */
const struct kp_intent_namespace *kp_intent_find(const struct kp_intent *i, kp_str ns);

#endif

/* What an API server shall have of ours, made from a world: Deployments of engines with a template, the Service of each
   pool, the DaemonSet of node gateways; and what is not wanted any more. Pure: the same world gives the same actions, in
   the same order. What is there already is no concern of the plan: apply/ compares. */
#ifndef OPERATOR_PLAN_ACTIONS_H
#define OPERATOR_PLAN_ACTIONS_H

#include "operator/plan/kinds.h"
#include "operator/plan/world.h"

#define KP_ANNOTATION_APPLIED "kelpie.dev/applied"

enum { KP_DIGEST_MAX = 17 };

struct kp_action {
	const struct kp_kube_kind *kind;
	kp_str ns, name;
	json_t *intent;              /* what is applied, whole; NULL: it is to be deleted */
	const struct kp_err *cannot; /* why it cannot be made; NULL: it can. What is there stays */
	kp_str uid;                  /* of what is to be deleted */
	char digest[KP_DIGEST_MAX];  /* of the intent, which has it as an annotation */
	kp_str owner_uid;            /* of the object that controls it, "": none does */
	bool is_late; /* where it is not there yet, it is made a moment after it was wanted first */
};
struct kp_actions {
	struct kp_arena *arena; /* of the texts */
	struct kp_action *p;    /* by kind, namespace, name */
	size_t n;
};

#define KP_NODE_GATEWAYS "kelpie-gateway" /* the DaemonSet of a namespace, and its Service */

/* gateway: of the node gateways. */
struct kp_actions *kp_actions_make(
	const struct kp_world *w, const struct kp_inject_settings *gateway);
void kp_actions_destroy(struct kp_actions *a); /* NULL is fine */

/* The revision of an engine's template: 10 hexadecimal digits, the same for the same template; "" where there is none. */
kp_str kp_actions_revision(const struct kp_world_engine *e, struct kp_arena *a);
/* 16 digits of the SHA-256 of a value, members in the order of their names. */
void kp_actions_digest(const json_t *v, char ret[KP_DIGEST_MAX]);

#endif

/* How an engine or a pool stands, as Kubernetes' conditions say it (kstatus: Ready; else Reconciling, while
   it gets there by itself; else Stalled, when a person has to do something). Pure. */
#ifndef OPERATOR_PLAN_CONDITIONS_H
#define OPERATOR_PLAN_CONDITIONS_H

#include "base/str.h"

/* Accepted, Ready, Reconciling, Stalled; an engine's TokenizerReady comes last. */
enum { KP_POOL_CONDITIONS = 4, KP_CONDITIONS = 5 };

struct kp_condition {
	const char *type;
	bool is_true;
	const char *reason; /* one CamelCase word */
	char message[400];
};

struct kp_engine_facts {
	/* Of an engine in pods. */
	bool in_pods, has_cluster, is_template;
	size_t n_pods, n_wanted, n_updated;
	kp_str not_made;   /* why pods of a template cannot be made, or "" */
	kp_str stuck;      /* the first pod that does not run, and why, or "" */
	size_t n_attached; /* endpoints whose owner is connected and runs a program */
	const char
		*broken_link; /* the reason of what keeps it from serving at all; NULL: nothing */
	kp_str broken_why;
	size_t n_endpoints, n_owned, n_routable;
	/* Gateways of the namespace that are heard of, and those of them that acknowledged its program. */
	size_t n_gateways, n_acked;
	size_t n_loaded; /* endpoints whose owner has loaded tokenizer and chat template */
	kp_str broken;   /* why one of them cannot be loaded, or "": its files are wrong */
	kp_str refused_by, refused_why; /* a gateway that refused it, or "" */
	kp_str held_by;                 /* who keeps it, though it was deleted; "": it was not */
	kp_str no_owner;                /* why nobody claims an endpoint, or "" */
	kp_str taken;       /* why an endpoint has no owner though it is claimed, or "" */
	kp_str waiting;     /* the first endpoint that is not routable, or "" */
	kp_str waiting_why; /* its state, and the reason if there is one */
};
void kp_engine_conditions(const struct kp_engine_facts *f, struct kp_condition ret[KP_CONDITIONS]);
/* No pod is wanted and none is there: nothing is missing. */
bool kp_engine_is_at_zero(const struct kp_engine_facts *f);

struct kp_pool_facts {
	size_t n_engines, n_serving; /* those of them with a routable endpoint */
};
void kp_pool_conditions(const struct kp_pool_facts *f, struct kp_condition ret[KP_POOL_CONDITIONS]);

#endif

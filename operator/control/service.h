/* The control service: the streams of the gateways (proto/kelpie/control/v1), each greeted, programmed and
   listened to by itself: one that is slow, silent or wrong holds back no other. Everything on the
   loop's thread. */
#ifndef OPERATOR_CONTROL_SERVICE_H
#define OPERATOR_CONTROL_SERVICE_H

#include "obs/metrics.h"
#include "operator/control/gateways.h"
#include "operator/control/programs.h"

struct kp_service;
struct kp_rpc_keys;

struct kp_service_opts {
	const char *address;
	const char *tls_dir; /* certificate, key and CA in files */
	struct kp_rpc_keys
		*tls_keys;     /* or in memory; neither: cleartext, and only loopback addresses */
	const char *state_dir; /* for the epoch; may be NULL */
	const char *id;        /* the operator's */
	uint64_t epoch;        /* 0: it is a standby until kp_service_lead */
	/* The epoch was raised; may be NULL. */
	void (*raised)(void *ctx, uint64_t epoch);
	struct kp_metrics *metrics;
	/* Who is there, or what they claim, may be different: plan again, then kp_service_publish. */
	void (*changed)(void *ctx);
	/* Something that people are shown is different. */
	void (*shown)(void *ctx);
	void *ctx;
};
/* Listens. */
int kp_service_create(struct kp_loop *loop, const struct kp_service_opts *opts,
	struct kp_service **ret, struct kp_err *err) KP_MUST_USE;
int kp_service_port(const struct kp_service *s);
/* It programs gateways from now on, with this epoch or the next above those that it had: what it knew of gateways when
   it led before is forgotten. */
void kp_service_lead(struct kp_service *s, uint64_t epoch);
kp_str kp_service_leader(const struct kp_service *s); /* as a standby was told last; "" */
/* It does not: streams end, and are refused, with UNAVAILABLE and where the leader is ("", not known). */
void kp_service_stand_by(struct kp_service *s, kp_str leader);
/* Tells the gateways that the operator goes, and calls done when they are gone, a second later at most. */
void kp_service_end(struct kp_service *s, void (*done)(void *ctx));
void kp_service_destroy(struct kp_service *s); /* not in a callback; NULL is fine */

/* Programs of a new plan (NULL: those there are) go to the gateways that do not run them. */
void kp_service_publish(struct kp_service *s, const struct kp_plan *plan);

/* To read; settled for `now`. Valid until the next turn of the loop. */
const struct kp_gateways *kp_service_gateways(struct kp_service *s, int64_t now_ns);
/* With what control/counts.h counts, for `now`. */
const struct kp_programs *kp_service_programs(struct kp_service *s, int64_t now_ns);

#endif

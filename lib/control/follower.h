/* A gateway's side of the programs it is sent: which it takes, which it refuses, and why. Pure: the time
   is given, nothing is read or written. One owner.

   An offer is checked here; the caller then applies its program, and commits the offer when that worked.
   Until then, and when it does not, the follower stands where it stood.

   Epochs: a program of a lower epoch than the highest seen, in a Welcome or a program, is stale, unless
   the operator of that epoch has been silent for KP_FOLLOWER_SILENCE_NS. Silence is counted from the end
   of the stream to it: the caller says when one begins (its Welcome) and ends. */
#ifndef KP_CONTROL_FOLLOWER_H
#define KP_CONTROL_FOLLOWER_H

#include "control/message.h"
#include "base/clock.h"

#define KP_FOLLOWER_SILENCE_NS (30 * KP_NS_PER_S)

struct kp_follower {
	kp_str ns;              /* borrowed */
	struct kp_items *items; /* of the program it runs; NULL: none */
	struct kp_revision revision;
	uint64_t epoch_seen; /* 0: none */
	int64_t heard_ns;    /* of that operator, last; not used while is_connected to it */
	bool is_connected;   /* to an operator, of epoch_connected */
	uint64_t epoch_connected;
};

void kp_follower_init(struct kp_follower *f, kp_str ns);
void kp_follower_fini(struct kp_follower *f);
/* What the last good program's file said (control/last_good.h). Its operator counts as heard of now, so
   that an older one cannot take over a gateway that was only restarted. Takes the items. */
void kp_follower_restore(struct kp_follower *f, const struct kp_revision *revision,
	struct kp_items *items, int64_t now_ns);

void kp_follower_connected(struct kp_follower *f, uint64_t epoch, int64_t now_ns);
void kp_follower_disconnected(struct kp_follower *f, int64_t now_ns);
/* For the Hello: since when the operator of epoch_seen is silent. 0 while connected, or if none. */
uint64_t kp_follower_age_ms(const struct kp_follower *f, int64_t now_ns);

struct kp_offer {
	struct kp_revision revision;
	bool is_unchanged;          /* the content is the one that runs: nothing to apply */
	struct kp_items *items;     /* owned by the offer, NULL when unchanged */
	struct kp_program *program; /* the same; to be taken with kp_steal */
};
/* -1: refused, err->reason is one of KP_NACK_*. */
int kp_follower_check(const struct kp_follower *f, const struct kp_program_message *m,
	int64_t now_ns, struct kp_offer *ret, struct kp_err *err) KP_MUST_USE;
void kp_follower_commit(struct kp_follower *f, struct kp_offer *o);
void kp_offer_fini(struct kp_offer *o); /* also after commit; zeroed is fine */

#endif

/* One of several becomes the leader: a Lease (coordination.k8s.io/v1), by client-go's rules. A candidate takes it when
   it has no holder, or when it saw no change of it for the lease's duration by its own clock, so clocks may differ. The
   holder renews every retry_ns; one that could not for renew_ns is the leader no more, before anybody else can be.
   Every term has its own number, `term`: leaseTransitions, counted up at each taking, also by the one who held it before
   (client-go would not), so a term never has the number of an older one as long as the Lease is not deleted. A number of
   the owner's own may be kept beside it, in an annotation that is written with the taking itself. Owner's thread. */
#ifndef KP_KUBE_LEASE_H
#define KP_KUBE_LEASE_H

#include "kube/client.h"

struct kp_kube_lease;

struct kp_kube_lease_opts {
	kp_str ns, name;      /* copied */
	const char *identity; /* of this run of this process; copied */
	/* 0: 15 s, 10 s, 2 s. Each must be larger than the next. */
	int64_t duration_ns, renew_ns, retry_ns;
	/* The annotation, NULL: none; and the number of a new term, `before` being the last that was kept, 0: none. Asked
	   at each taking, of which some come to nothing. */
	const char *annotation; /* static */
	uint64_t (*next_number)(void *ctx, uint64_t before);
	void (*acquired)(void *ctx, uint64_t term);
	void (*lost)(void *ctx, const struct kp_err *why); /* it goes on as a candidate */
	void (*seen)(
		void *ctx, kp_str holder); /* another holder than before, itself too; "": nobody */
	void *ctx;
};
struct kp_kube_lease *kp_kube_lease_create(
	struct kp_kube *k, const struct kp_kube_lease_opts *opts);
/* Without giving the Lease up: the next must wait for its end. Not inside its callbacks. NULL is fine. */
void kp_kube_lease_destroy(struct kp_kube_lease *l);
/* Ends the candidacy; a holder gives the Lease up, so that the next can take it at once. `done` comes when that was
   written, or could not be within 2 s; then it is to be destroyed. `lost` is not called. */
void kp_kube_lease_release(struct kp_kube_lease *l, void (*done)(void *ctx), void *ctx);
/* Whether it is surely still the leader: to be asked before anything that only the leader may do. */
bool kp_kube_lease_is_held(const struct kp_kube_lease *l);
uint64_t kp_kube_lease_term(const struct kp_kube_lease *l);   /* of the last term of its own */
uint64_t kp_kube_lease_number(const struct kp_kube_lease *l); /* likewise */
/* The holder's number is another, higher one; kept when the Lease is renewed next. */
void kp_kube_lease_raise(struct kp_kube_lease *l, uint64_t number);
kp_str kp_kube_lease_holder(
	const struct kp_kube_lease *l); /* as seen last; "": nobody, or not known */
const struct kp_err *kp_kube_lease_error(
	const struct kp_kube_lease *l); /* of the last try; code OK: none */

#endif

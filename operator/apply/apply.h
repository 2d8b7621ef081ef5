/* Writes to the API server: what a plan wants to be there, and statuses. Level-based: what is wanted is said anew whenever it
   may be another, and only what the server does not have is written, by server-side apply under one name of a field
   manager. Each object has its own pause after failures, up to five minutes; nothing is written that another leader
   may write now. Owner's thread.

   An object of ours has the digest of what was applied last as an annotation. It is written when the digest is another, when
   it is missing, or when somebody changed the object since (its generation, or version, is not the one that our write left). One
   of the same name that somebody else made is left alone: ALREADY_EXISTS. */
#ifndef OPERATOR_APPLY_APPLY_H
#define OPERATOR_APPLY_APPLY_H

#include "kube/client.h"
#include "kube/store.h"
#include "operator/plan/actions.h"

struct kp_apply;

struct kp_apply_opts {
	struct kp_kube *kube;
	bool (*may_write)(void *ctx); /* it leads, surely */
	/* Where the objects of a kind are followed; NULL: nowhere. */
	const struct kp_kube_store *(*store)(void *ctx, const struct kp_kube_kind *kind, kp_str ns);
	void (*changed)(void *ctx); /* kp_apply_problem may say something else */
	void *ctx;
};
struct kp_apply *kp_apply_create(const struct kp_apply_opts *opts);
void kp_apply_destroy(struct kp_apply *a); /* NULL is fine */

/* All objects that shall be there; those of before that are not among them are forgotten. Takes the actions. */
void kp_apply_objects(struct kp_apply *a, struct kp_actions *actions);

/* A status that the server does not have yet. */
struct kp_apply_status {
	const struct kp_kube_kind *kind;
	kp_str ns, name;
	char digest[KP_DIGEST_MAX]; /* of what is said in it, without times */
	json_t *intent; /* with metadata.uid, so that it is not another object of the name; taken */
};
/* All that are to be written now; those of before that are not among them are forgotten. One that was written a moment ago
   is not written again: the watch has not brought it yet. Returns when such a one is to be handed in again if it still differs, since
   then it is somebody else's; INT64_MAX: there is none. */
int64_t kp_apply_statuses(struct kp_apply *a, const struct kp_apply_status *list, size_t n);

/* Why an object is not as it shall be; code OK: it is, or nothing was tried. Until the next turn of the loop. */
const struct kp_err *kp_apply_problem(
	const struct kp_apply *a, const char *kind, kp_str ns, kp_str name);

#endif

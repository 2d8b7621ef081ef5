/* Writing to an API server. Each answers through `done` as kp_kube_send does, with the object as the server has it
   now; the call may be cancelled. Nothing here blocks, nothing is kept. */
#ifndef KP_KUBE_WRITE_H
#define KP_KUBE_WRITE_H

#include "kube/client.h"
#include "kube/kind.h"

#define KP_KUBE_FIELD_MANAGER "kelpie-operator"

typedef void kp_kube_done(void *ctx, const struct kp_kube_answer *answer);

struct kp_kube_write {
	struct kp_kube_ref ref; /* ref.subresource "status" for the status */
	int64_t timeout_ns;     /* 0: 30 s */
	bool is_dry_run;
	bool once; /* is not tried again by itself */
	kp_kube_done *done;
	void *ctx;
};

struct kp_kube_call *kp_kube_get(struct kp_kube *k, const struct kp_kube_write *w);
/* Server-side apply by KP_KUBE_FIELD_MANAGER. `intent` is everything that Kelpie wants of the object, complete each
   time: what is left out and was Kelpie's alone is removed. is_forced: fields that others own are taken over; else
   409 Conflict names them. */
struct kp_kube_call *kp_kube_apply(
	struct kp_kube *k, const struct kp_kube_write *w, const json_t *intent, bool is_forced);
struct kp_kube_call *kp_kube_create_object(
	struct kp_kube *k, const struct kp_kube_write *w, const json_t *object);
/* With its resourceVersion: 409 Conflict when the server has a newer one. */
struct kp_kube_call *kp_kube_replace(
	struct kp_kube *k, const struct kp_kube_write *w, const json_t *object);
struct kp_kube_call *kp_kube_json_patch(
	struct kp_kube *k, const struct kp_kube_write *w, const json_t *operations);
struct kp_kube_call *kp_kube_merge_patch(
	struct kp_kube *k, const struct kp_kube_write *w, const json_t *patch);
/* Only spec.replicas, through the subresource. */
struct kp_kube_call *kp_kube_scale(
	struct kp_kube *k, const struct kp_kube_write *w, uint32_t replicas);
struct kp_kube_delete {
	kp_str uid, version; /* only if it is this one still, else 409; "": any */
	const char
		*propagation; /* "Background", "Foreground", "Orphan"; NULL: the kind's default */
	int64_t grace_s;      /* -1: the object's own */
};
struct kp_kube_call *kp_kube_delete(
	struct kp_kube *k, const struct kp_kube_write *w, const struct kp_kube_delete *how);
/* Asks whose a token is. The answer's status says; kp_kube_token_user reads it. */
struct kp_kube_call *kp_kube_review_token(struct kp_kube *k, kp_str token,
	const char *const *audiences, size_t n_audiences, kp_kube_done *done, void *ctx);
/* "system:serviceaccount:ns:name", borrowed from the answered review; KP_STR_NULL: the token is nobody's (err
   UNAUTHENTICATED says why). It counts only if one of the audiences asked for is in it. */
kp_str kp_kube_token_user(const json_t *review, struct kp_err *err);

/* A JSON value as YAML readers take it too, which is how the server reads an apply: what YAML does not print, or
   breaks lines at, is escaped; everything else is UTF-8, since YAML does not join escaped surrogates. */
int kp_kube_write_yaml_safe(const json_t *v, struct kp_buf *b, struct kp_err *err) KP_MUST_USE;

#endif

/* Which resource of an API server is of a kind whose objects have namespaces: the plural in its paths. Asked by the server's
   discovery documents, again after growing pauses, up to a minute, while it does not know the kind; once found it stays found.
   Owner's thread. */
#ifndef KP_KUBE_LOOKUP_H
#define KP_KUBE_LOOKUP_H

#include "kube/client.h"
#include "kube/kind.h"

struct kp_kube_lookup;

/* api_version: "apps/v1"; copied, like the kind. changed: found, or the error is another; not before this returns. */
struct kp_kube_lookup *kp_kube_lookup_create(
	struct kp_kube *k, kp_str api_version, kp_str kind, void (*changed)(void *ctx), void *ctx);
void kp_kube_lookup_destroy(struct kp_kube_lookup *l); /* NULL is fine */
/* NULL: not found yet. As long as the look-up. */
const struct kp_kube_kind *kp_kube_lookup_kind(const struct kp_kube_lookup *l);
/* Why not: NOT_FOUND, the server has no such kind; INVALID_ARGUMENT: it cannot be one; others: it could not be asked. Code OK: it
   is found, or was not asked yet. */
const struct kp_err *kp_kube_lookup_error(const struct kp_kube_lookup *l);

/* The resource of a kind in the answer to GET /apis/GROUP/VERSION, an APIResourceList of any shape; "": there is none. Pure. */
kp_str kp_kube_lookup_read(const json_t *list, kp_str kind);

#endif

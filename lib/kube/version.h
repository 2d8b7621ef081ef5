/* Which Kubernetes a server is: asked at once, again soon while there is no answer, and every ten minutes, since servers are updated
   under their clients. Owner's thread. */
#ifndef KP_KUBE_VERSION_H
#define KP_KUBE_VERSION_H

#include "kube/client.h"

struct kp_kube_version;

/* changed: another minor version than before, never 0. */
struct kp_kube_version *kp_kube_version_create(
	struct kp_kube *k, void (*changed)(void *ctx, unsigned minor), void *ctx);
void kp_kube_version_destroy(struct kp_kube_version *v); /* NULL is fine */

/* Of what /version says: 34 of {"major": "1", "minor": "34+"}; 0: it is no such thing. */
unsigned kp_kube_minor(const json_t *version);

#endif

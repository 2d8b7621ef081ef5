/* Endpoints of this gateway's own, of pods in mode Node, that its program does not name any more: what ran there when they went
   still runs, and the end of the pod waits for it. No thread of its own: the caller guards it. */
#ifndef SIDECAR_CONTROL_DEPARTED_H
#define SIDECAR_CONTROL_DEPARTED_H

#include "sidecar/control/snapshot.h"

#include "base/vec.h"

struct kp_departed_one {
	struct kp_endpoint *endpoint; /* a reference */
	int64_t since_ns;
};
struct kp_departed {
	KP_VEC(struct kp_departed_one)
	list;
};

/* The snapshot changes: takes up what only `before` names (NULL: nothing), lets go what is over. */
void kp_departed_note(struct kp_departed *d, const struct kp_snapshot *before,
	const struct kp_snapshot *now, int64_t now_ns);
/* Does one with that key run something, or may a loop still send something there? */
bool kp_departed_is_busy(const struct kp_departed *d, kp_str key, int64_t now_ns);
/* Does the snapshot name an endpoint of ours with that key, that is not down with nothing running there? */
bool kp_departed_is_named(const struct kp_snapshot *s, kp_str key);
void kp_departed_fini(struct kp_departed *d);

#endif

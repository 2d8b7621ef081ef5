/* From an endpoint to the kp_engine that reaches it: the engine itself when it is our own, its owner's
   peer port when it is another gateway's. */
#ifndef SIDECAR_CONTROL_DIAL_H
#define SIDECAR_CONTROL_DIAL_H

#include "core/engine.h"
#include "sidecar/control/endpoint.h"
#include "sidecar/control/peer_tls.h"

/* On the loop's thread; connects with the first call. `e` must live as long as the engine.
   connected: each new connection to an engine of our own waits for kp_dial_serves (engine/remote.h);
   another gateway's knows itself what its engine serves. NULL: for questions only. */
struct kp_engine *kp_dial(struct kp_loop *loop, struct kp_endpoint *e,
	const struct kp_peer_tls *tls, void (*connected)(void *user), void *user);
void kp_dial_serves(struct kp_engine *engine, const struct kp_endpoint *e,
	uint64_t text_fingerprint, int64_t asked_ns);
/* New certificates, for its next connection. */
void kp_dial_set_tls(
	struct kp_engine *engine, const struct kp_endpoint *e, const struct kp_peer_tls *tls);

#endif

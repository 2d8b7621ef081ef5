/* From an endpoint to the kp_engine that reaches it: the engine itself when it is our own, its owner's
   peer port when it is another gateway's. */
#ifndef SIDECAR_CONTROL_DIAL_H
#define SIDECAR_CONTROL_DIAL_H

#include "core/engine.h"
#include "sidecar/control/endpoint.h"
#include "sidecar/control/peer_tls.h"

/* On the loop's thread; connects with the first call. `e` must live as long as the engine. */
struct kp_engine *kp_dial(
	struct kp_loop *loop, struct kp_endpoint *e, const struct kp_peer_tls *tls);
/* New certificates, for its next connection. */
void kp_dial_set_tls(
	struct kp_engine *engine, const struct kp_endpoint *e, const struct kp_peer_tls *tls);

#endif

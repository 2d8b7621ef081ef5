/* What the gateway's admin listener (admin/admin.h) answers: GET /livez, /readyz[?verbose],
   /metrics, /version. */
#ifndef SIDECAR_ADMIN_ADMIN_H
#define SIDECAR_ADMIN_ADMIN_H

#include "admin/admin.h"
#include "sidecar/gateway.h"

/* At the address of g's configuration. */
int kp_gateway_admin_start(
	struct kp_gateway *g, struct kp_admin **ret, struct kp_err *err) KP_MUST_USE;

/* The same for kubelet and scrapers, at the pod's address (--probe-listen): nothing there changes anything. GET /livez, /readyz, /metrics, and /drained[?min=SECONDS],
   which an engine's preStop hook waits for: it answers when the gateway drains and nothing is in flight any more, or --drain-timeout is over, but not before
   `min`; and when no drain begins within KP_DRAIN_PATIENCE_S, for then it is the engine's container alone that ends. */
enum { KP_DRAIN_PATIENCE_S = 5 };
int kp_gateway_probes_start(
	struct kp_gateway *g, struct kp_admin **ret, struct kp_err *err) KP_MUST_USE;

#endif

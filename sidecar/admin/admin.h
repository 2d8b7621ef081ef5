/* What the gateway's admin listener (admin/admin.h) answers: GET /livez, /readyz[?verbose],
   /metrics, /version. */
#ifndef SIDECAR_ADMIN_ADMIN_H
#define SIDECAR_ADMIN_ADMIN_H

#include "admin/admin.h"
#include "sidecar/gateway.h"

/* At the address of g's configuration. */
int kp_gateway_admin_start(
	struct kp_gateway *g, struct kp_admin **ret, struct kp_err *err) KP_MUST_USE;

#endif

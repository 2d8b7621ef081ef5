/* The admin listener: health and metrics, on libwebsockets, in a thread of its own, so that probes
   are answered while every loop is busy. Plain HTTP/1.1; keep it off the public network.

   GET /livez, /readyz[?verbose], /metrics, /version. */
#ifndef SIDECAR_ADMIN_ADMIN_H
#define SIDECAR_ADMIN_ADMIN_H

#include "sidecar/gateway.h"

struct kp_admin;

/* Listens and starts the thread. address: "127.0.0.1:9090", port 0 gives a free one. */
int kp_admin_start(struct kp_gateway *g, const char *address, struct kp_admin **ret,
	struct kp_err *err) KP_MUST_USE;
int kp_admin_port(const struct kp_admin *a);
void kp_admin_stop(struct kp_admin *a); /* joins the thread; NULL is fine */

#endif

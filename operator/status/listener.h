/* The operator's admin listener: GET / (the page), /status (JSON), /status/feed (a WebSocket that says
   that the status changed), /livez, /readyz[?verbose], /metrics, /version. */
#ifndef OPERATOR_STATUS_LISTENER_H
#define OPERATOR_STATUS_LISTENER_H

#include "obs/metrics.h"
#include "operator/status/status.h"

struct kp_status_listener;

/* Listens on address ("127.0.0.1:9091") and starts its thread. Until the first status is published it
   is not ready. */
int kp_status_listener_start(const char *address, struct kp_metrics *metrics,
	struct kp_status_listener **ret, struct kp_err *err) KP_MUST_USE;
int kp_status_listener_port(const struct kp_status_listener *l);
/* Takes s over; replaces the one before. Any thread. Followers are told each time, so publish when
   something changed, and not more often than a person can read: twice a second. */
void kp_status_listener_publish(struct kp_status_listener *l, struct kp_status *s);
void kp_status_listener_stop(struct kp_status_listener *l); /* joins the thread; NULL is fine */

#endif

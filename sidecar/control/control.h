/* The control thread: reads and watches the manifests, asks the engines how they are and what they
   serve, loads tokenizers and templates, and hands the loops a snapshot whenever something of that
   changed. It may block; the loops never wait for it. */
#ifndef SIDECAR_CONTROL_CONTROL_H
#define SIDECAR_CONTROL_CONTROL_H

#include "sidecar/control/snapshot.h"
#include "sidecar/gateway.h"

struct kp_control;

/* Reads the manifests once (a failure here is fatal) and finds the target ports; does not start the
 * thread. */
int kp_control_create(
	struct kp_gateway *g, struct kp_control **ret, struct kp_err *err) KP_MUST_USE;
/* Ports of the first pool of the manifests: where the gateway listens when no --listen is given.
 * Returns how many, at most max. */
size_t kp_control_target_ports(const struct kp_control *c, uint16_t *ports, size_t max);
void kp_control_start(struct kp_control *c);
/* Joins the thread. What the loops still send means nothing; NULL is fine. */
void kp_control_stop(struct kp_control *c);
/* Only when the loops have ended; NULL is fine. */
void kp_control_destroy(struct kp_control *c);

/* Any thread: is the gateway ready (not draining, a program accepted, an engine routable)? Appends
 * "ok\n" or one line per check. */
bool kp_control_ready(struct kp_control *c, bool verbose, struct kp_buf *out);
/* Any thread: the gateway drains from now on; the operator is told at once. */
void kp_control_drains(struct kp_control *c);
/* Any thread: what the loops serve from now; the caller's reference. NULL: nothing yet. */
struct kp_snapshot *kp_control_snapshot(struct kp_control *c);
/* Any thread: may the engine in the pod with that key (KP_INJECT_KEY) not end yet? While the program names it, while something runs
   there, and while there is no program. */
bool kp_control_holds(struct kp_control *c, kp_str key);
/* Any thread: a call to this endpoint failed as if it were gone. It is asked for its health now,
   and marked down only if that fails too: one call's failure must not turn other requests away. */
void kp_control_suspect(struct kp_control *c, struct kp_endpoint *e);
/* Any thread: there is a new connection to this endpoint of ours. It is asked now whether it is still who
   it was, and the loops are told what it serves (kp_gwloop_engine_serves); nothing, while it is not
   routable, and when it is gone: the next snapshot says so. */
void kp_control_identify(struct kp_control *c, struct kp_endpoint *e);

#endif

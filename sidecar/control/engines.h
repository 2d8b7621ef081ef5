/* The control thread's view of the engines: for each engine of the program its endpoints, how they
   are, and the text stack that serves it. Everything here is for the control thread.

   An endpoint's life: discovered -> (health OK) answering -> (model known, text stack loaded)
   routable <-> down. It is asked for its health every 2 s, every 500 ms while it does not answer;
   what it serves is asked again each time it comes back, since it may have been restarted with
   another model. */
#ifndef SIDECAR_CONTROL_ENGINES_H
#define SIDECAR_CONTROL_ENGINES_H

#include "core/engine.h"
#include "control/message.h"
#include "sidecar/control/peer_tls.h"
#include "sidecar/control/snapshot.h"
#include "sidecar/gateway.h"

struct kp_engines;

/* changed: something that a snapshot shows is different now. */
struct kp_engines *kp_engines_create(
	struct kp_gateway *g, struct kp_loop *loop, void (*changed)(void *), void *arg);
void kp_engines_destroy(struct kp_engines *e);
/* Takes over what the program asks for; engines and endpoints it keeps go on undisturbed. Loads
 * tokenizers with source Path (blocking). */
void kp_engines_apply(struct kp_engines *e, const struct kp_program *p);
/* A snapshot of now. */
struct kp_snapshot *kp_engines_snapshot(
	const struct kp_engines *e, uint64_t version, int64_t created_wall_s);
/* One line per endpoint, "[+]engine default/demo 127.0.0.1:50051: routable"; returns whether one is
 * routable. */
bool kp_engines_report(const struct kp_engines *e, struct kp_buf *out);
/* The endpoints this gateway owns, for the operator. What *ret points at lies in the arena; a full
 * arena leaves the rest out. */
void kp_engines_fill(const struct kp_engines *e, struct kp_arena *a, struct kp_report *ret);
/* New certificates for questions to other gateways; what is given is copied. */
void kp_engines_set_peer_tls(struct kp_engines *e, const struct kp_peer_tls *tls);
/* Ask that endpoint now. */
void kp_engines_suspect(struct kp_engines *e, const struct kp_endpoint *endpoint);
/* The same, and tell the loops what it serves. */
void kp_engines_identify(struct kp_engines *e, const struct kp_endpoint *endpoint);

#endif

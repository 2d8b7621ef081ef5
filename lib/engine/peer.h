/* kp_engine for an endpoint that another gateway owns: the generation goes, tokenized, over its peer port
   (proto/kelpie/peer/v1, docs/peer.md), one channel of lib/net's gRPC client on one loop. The owner
   applies the model's sampling defaults; `text` and `stream` are not sent (answers are streamed), and
   `n` is 1.

   Errors name the gateway and the endpoint. What the owner turned away before its engine saw it is
   retryable, and err.reason says why: "draining", "not_owner", "down", "stale_tokenizer",
   "overloaded", "unsupported", "refused" (a word of a newer owner's). Everything else is the
   engine's, mapped as in engine/remote.h. A connection that is silent for half a second while calls
   are open is asked whether it lives (PING) and given up a second later, so that an owner that hangs
   holds nothing back for long.

   Questions: health is UNAVAILABLE, or `draining`, unless the owner calls the endpoint routable; loads
   are what it says at the end of that call; the tokenizer is FAILED_PRECONDITION where it comes from
   a path, which each gateway has to have itself.

   Trust: with TLS the owner's certificate must name `id` and be of the engine's namespace (core/identity.h). What it sends is checked like an engine's:
   wrong bytes, ids beyond the vocabulary, more tokens than asked for, more after the end are its
   fault. */
#ifndef KP_ENGINE_PEER_H
#define KP_ENGINE_PEER_H

#include "core/engine.h"

struct kp_tls_context;

struct kp_engine_peer_opts {
	const char *peer;             /* "10.0.0.7:8443" */
	const char *id;               /* of the gateway behind it */
	const char *engine, *address; /* the endpoint, as in the program */
	struct kp_tls_context *tls;   /* NULL: cleartext */
	uint32_t vocab_size;          /* 0: what `info` finds out */
	/* The endpoint's load, at the end of each call that said it, before the call's own end; may be
	   NULL. Must not call the engine. */
	void (*load)(void *user, const struct kp_engine_loads *loads);
	void *user;
};
struct kp_engine *kp_engine_peer_create(struct kp_loop *loop, const struct kp_engine_peer_opts *o);
/* New certificates, for its next connection. Only for one that was made with some. */
void kp_engine_peer_set_tls(struct kp_engine *e, struct kp_tls_context *tls);

#endif

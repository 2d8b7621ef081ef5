/* One endpoint: where a generation can run. Shared by all loops and snapshots that name it, counted by
   references; who owns it and where it is never change (a new owner makes a new object), what is
   known of it are atomics. docs/ARCHITECTURE.md has the table of states. */
#ifndef SIDECAR_CONTROL_ENDPOINT_H
#define SIDECAR_CONTROL_ENDPOINT_H

#include "base/ref.h"
#include "control/program.h"
#include "core/engine.h"

#include <stdatomic.h>

enum kp_endpoint_state {
	KP_ENDPOINT_DISCOVERED = 0, /* named by the program, not heard of yet */
	KP_ENDPOINT_ANSWERING,      /* healthy, its model or tokenizer is not known yet */
	KP_ENDPOINT_ROUTABLE,
	KP_ENDPOINT_DRAINING, /* its owner takes nothing new */
	KP_ENDPOINT_DOWN,     /* was heard of, does not answer or is not healthy now */
};
const char *kp_endpoint_state_name(enum kp_endpoint_state s);

/* How far the engine is: this gateway's own, another's on the same node, another's of the pool. */
enum kp_distance { KP_DISTANCE_OWN = 0, KP_DISTANCE_NODE, KP_DISTANCE_POOL };
const char *kp_distance_name(enum kp_distance d); /* "own" */

struct kp_endpoint {
	struct kp_refcount ref;
	char *key;      /* "default/demo/127.0.0.1:50051" */
	char *engine;   /* "default/demo" */
	char *address;  /* "127.0.0.1:50051" */
	char *dial;     /* where its owner reaches it */
	char *instance; /* "UID/0", "UID/0/KEY" of one in a pod, "" */
	char *owner,
		*peer; /* the gateway to ask when it is not our own: id, peer address; "" none is known */
	bool is_own; /* distance OWN */
	enum kp_distance distance;
	enum kp_engine_protocol protocol;
	atomic_int state; /* enum kp_endpoint_state; the control thread writes it, a loop only
				  ROUTABLE to DRAINING (kp_endpoint_turned_away) */
	atomic_bool
		suspected;    /* a call failed as if it were gone; the control thread will ask it */
	atomic_int in_flight; /* generations running there through this gateway */
	atomic_int penalty;   /* load that least_load adds for recent failures */
	atomic_bool no_shm;   /* it cannot read what we leave in /dev/shm, whatever it says */
	atomic_uint vocab_size; /* as the engine said, 0: not known */
	atomic_bool normalizes; /* as the engine said: it takes pixels as bytes (core/media.h) */
	atomic_uint running, waiting, kv_permille; /* our own: as it last said */
	/* What its owner last said that others run there, and when (monotonic; 0: never). */
	atomic_int others;
	atomic_llong others_ns;
};

/* is_ours: this gateway speaks to the engine itself; node: of this gateway, "" not known. */
struct kp_endpoint *kp_endpoint_create(const struct kp_program_engine *engine,
	const struct kp_program_endpoint *e, bool is_ours, kp_str node);
struct kp_endpoint *kp_endpoint_ref(struct kp_endpoint *e);
void kp_endpoint_unref(struct kp_endpoint *e);
/* Would kp_endpoint_create give an equal one? */
bool kp_endpoint_is(const struct kp_endpoint *e, const struct kp_program_engine *engine,
	const struct kp_program_endpoint *want, bool is_ours, kp_str node);

static inline enum kp_endpoint_state kp_endpoint_state(const struct kp_endpoint *e)
{
	return (enum kp_endpoint_state)atomic_load_explicit(&e->state, memory_order_relaxed);
}
/* The key of its pod's end, "" */
kp_str kp_endpoint_key(const struct kp_endpoint *e);
/* What runs there, as far as we know, and what recent failures add. */
int kp_endpoint_load(const struct kp_endpoint *e, int64_t now_ns);
/* The owner said, at the end of a call of ours, how many run there altogether. */
void kp_endpoint_reported(struct kp_endpoint *e, uint32_t in_flight, int64_t now_ns);
/* Our own said of itself. */
void kp_endpoint_loads(struct kp_endpoint *e, const struct kp_engine_loads *l);
/* The owner takes nothing new: no more is sent there until it was asked again. */
void kp_endpoint_turned_away(struct kp_endpoint *e);
/* A call failed through the engine's fault; a health check passed; it was restarted. */
void kp_endpoint_blame(struct kp_endpoint *e);
void kp_endpoint_forgive(struct kp_endpoint *e);
void kp_endpoint_trust(struct kp_endpoint *e);
/* Is the status an engine's fault, or its being full: not the client's? */
bool kp_is_engine_fault(const struct kp_err *status);
/* Blame or trust by how a call ended. */
void kp_endpoint_learn(struct kp_endpoint *e, const struct kp_err *status);

#endif

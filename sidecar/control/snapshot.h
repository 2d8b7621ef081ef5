/* What the loops serve from: an immutable snapshot of models and their endpoints, made by the
   control thread, handed to each loop by message, counted by references. Only the atomics inside
   kp_endpoint change while it is in use. */
#ifndef SIDECAR_CONTROL_SNAPSHOT_H
#define SIDECAR_CONTROL_SNAPSHOT_H

#include "sidecar/models/text_stack.h"

#include <stdatomic.h>

/* docs/ARCHITECTURE.md has the table of states. */
enum kp_endpoint_state {
	KP_ENDPOINT_DISCOVERED = 0, /* named by a manifest, not heard of yet */
	KP_ENDPOINT_ANSWERING,      /* healthy, its model or tokenizer is not known yet */
	KP_ENDPOINT_ROUTABLE,
	KP_ENDPOINT_DOWN, /* was heard of, does not answer or is not healthy now */
};
const char *kp_endpoint_state_name(enum kp_endpoint_state s);

/* One endpoint of an engine: namespace, engine, index, address. Shared by all loops and snapshots
 * that name it. */
struct kp_endpoint {
	struct kp_refcount ref;
	char *key;        /* "default/demo/0/127.0.0.1:50051" */
	char *address;    /* "127.0.0.1:50051" */
	atomic_int state; /* enum kp_endpoint_state; the control thread writes it */
	atomic_bool
		suspected;    /* a call failed as if it were gone; the control thread will ask it */
	atomic_int in_flight; /* generations running there through this gateway */
	atomic_int penalty;   /* load that least_load adds for recent failures */
	atomic_uint vocab_size; /* as the engine said, 0: not known */
};
struct kp_endpoint *kp_endpoint_create(const char *key, const char *address);
struct kp_endpoint *kp_endpoint_ref(struct kp_endpoint *e);
void kp_endpoint_unref(struct kp_endpoint *e);
/* A call failed through the engine's fault; a health check passed; a call went well. */
void kp_endpoint_blame(struct kp_endpoint *e);
void kp_endpoint_forgive(struct kp_endpoint *e);
void kp_endpoint_trust(struct kp_endpoint *e);
static inline enum kp_endpoint_state kp_endpoint_state(const struct kp_endpoint *e)
{
	return (enum kp_endpoint_state)atomic_load_explicit(&e->state, memory_order_relaxed);
}

/* Engines of one pool that serve one model with one text stack: any of their endpoints may take a
 * prompt. */
struct kp_revision {
	struct kp_text_stack *text; /* NULL: not loaded yet */
	char *engine;               /* "default/demo", the first of them */
	char *why_not; /* while text is NULL: what is being waited for, or what failed */
	uint32_t max_context, vocab_size; /* 0: not known */
	struct kp_endpoint **endpoints;
	size_t n_endpoints;
	atomic_uint turn_counter; /* round robin */
};

/* A public name. Usually one revision; engines of the pool whose text stacks differ (an upgrade
 * under way) are revisions of their own. */
struct kp_model {
	char *name, *pool;
	bool is_alias;
	struct kp_revision **revisions; /* borrowed from the snapshot */
	size_t n_revisions;
};

struct kp_snapshot {
	struct kp_refcount ref;
	uint64_t version;
	int64_t created_wall_s;
	struct kp_model *
		models; /* sorted by name; aliases are models of their own with the same revision */
	size_t n_models;
	struct kp_revision **revisions;
	size_t n_revisions;
};
/* Building one (control thread): revisions first, then names; seal ends it. */
struct kp_snapshot *kp_snapshot_create(uint64_t version, int64_t created_wall_s);
struct kp_revision *kp_snapshot_revision(struct kp_snapshot *s, const char *engine);
/* Adds the revision to the name, made when there is none yet. */
void kp_snapshot_add(struct kp_snapshot *s, const char *name, const char *pool, bool is_alias,
	struct kp_revision *r);
void kp_revision_add_endpoint(struct kp_revision *r, struct kp_endpoint *e);
void kp_snapshot_seal(struct kp_snapshot *s); /* sorts; const from here on */
struct kp_snapshot *kp_snapshot_ref(struct kp_snapshot *s);
void kp_snapshot_unref(struct kp_snapshot *s);
const struct kp_model *kp_snapshot_find(const struct kp_snapshot *s, kp_str name);

/* The first revision of the model whose text stack is loaded, or NULL. */
struct kp_revision *kp_model_text_revision(const struct kp_model *m);

#endif

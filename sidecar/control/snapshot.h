/* What the loops serve from: an immutable snapshot of models and their endpoints, made by the
   control thread, handed to each loop by message, counted by references. Only the atomics inside
   kp_endpoint change while it is in use. */
#ifndef SIDECAR_CONTROL_SNAPSHOT_H
#define SIDECAR_CONTROL_SNAPSHOT_H

#include "sidecar/control/catalog.h"
#include "sidecar/control/endpoint.h"
#include "sidecar/control/facts.h"
#include "prompt/text_stack.h"

/* Engines of one pool that serve one model with one text stack and the same settings: any of their endpoints may take a
 * prompt. */
struct kp_model_revision {
	struct kp_text_stack *text; /* NULL: not loaded yet */
	char *engine;               /* "default/demo", the first of them */
	enum kp_output_validation validation;
	enum kp_strict_schemas strict_schemas;
	char *why_not; /* while text is NULL: what is being waited for, or what failed */
	uint32_t max_context, vocab_size; /* 0: not known */
	struct kp_endpoint **endpoints;
	struct kp_endpoint_facts **facts; /* of each of them, NULL: it is another gateway's */
	size_t n_endpoints;
	atomic_uint turn_counter; /* round robin */
};

/* A public name. Usually one revision; engines of the pool whose text stacks differ (an upgrade
 * under way) are revisions of their own. */
struct kp_model {
	char *name, *pool;
	bool is_alias;
	struct kp_model_revision **revisions; /* borrowed from the snapshot */
	size_t n_revisions;
};

struct kp_snapshot {
	struct kp_refcount ref;
	uint64_t version;
	int64_t created_wall_s;
	bool has_program; /* else: waiting for the operator's first */
	struct kp_model *
		models; /* sorted by name; aliases are models of their own with the same revision */
	size_t n_models;
	struct kp_model_revision **revisions;
	size_t n_revisions;
	struct kp_tool_catalog *tools; /* a reference; NULL: none are known */
};
/* Building one (control thread): revisions first, then names; seal ends it. */
struct kp_snapshot *kp_snapshot_create(uint64_t version, int64_t created_wall_s);
struct kp_model_revision *kp_snapshot_revision(struct kp_snapshot *s, const char *engine);
/* Adds the revision to the name, made when there is none yet. */
void kp_snapshot_add(struct kp_snapshot *s, const char *name, const char *pool, bool is_alias,
	struct kp_model_revision *r);
/* Takes over the facts (may be NULL). */
void kp_revision_add_endpoint(
	struct kp_model_revision *r, struct kp_endpoint *e, struct kp_endpoint_facts *facts);
/* What its own engine says, NULL when the endpoint is another gateway's, or of another revision. */
const struct kp_endpoint_facts *kp_revision_facts(
	const struct kp_model_revision *r, const struct kp_endpoint *e);
void kp_snapshot_seal(struct kp_snapshot *s); /* sorts; const from here on */
struct kp_snapshot *kp_snapshot_ref(struct kp_snapshot *s);
void kp_snapshot_unref(struct kp_snapshot *s);
const struct kp_model *kp_snapshot_find(const struct kp_snapshot *s, kp_str name);

/* The first revision of the model whose text stack is loaded, or NULL. */
struct kp_model_revision *kp_model_text_revision(const struct kp_model *m);

#endif

/* Our resources as C objects: one JSON value in, a checked and decoded object or its field errors out. The same for objects from files
   and from an API server. Immutable once made; everything is in the arena given. */
#ifndef KP_API_OBJECT_H
#define KP_API_OBJECT_H

#include "api/types_gen.h"

struct kp_object_meta {
	kp_str name, namespace_;
	const struct kp_kv *labels, *annotations;
	size_t n_labels, n_annotations;
};
struct kp_object_place {
	const char *path; /* below spec: "endpoints[0].port" */
	uint32_t line, column;
};
struct kp_object {
	enum kp_kind kind;
	struct kp_object_meta meta;
	const char *file; /* where it was written; "" when it comes from an API server */
	uint32_t line, column;
	const struct kp_object_place
		*places; /* of the values in its spec, for messages; none from a server */
	size_t n_places;
	union {
		const struct kp_inference_pool_spec *pool;
		const struct kp_inference_engine_spec *engine;
		const struct kp_tool_server_spec *tool_server;
		const void *any;
	} spec; /* by kind */
};

/* KP_KIND_NONE: not one of ours. */
enum kp_kind kp_kind_find(kp_str api_version, kp_str kind);

/* Unknown fields, defaults, metadata, schema and rules, as a create request with fieldValidation=Strict would be treated. What is wrong
   goes to errs; *ret is complete when errs->n is 0 afterwards. v is changed (nulls, defaults, its status goes: files and
   create requests cannot set it). ownerReferences, finalizers and managedFields are taken as they are, they mean nothing here.
   RESOURCE_EXHAUSTED when the arena is full. */
int kp_object_load(enum kp_kind kind, json_t *v, kp_str default_namespace, struct kp_arena *a,
	struct kp_object *ret, struct kp_field_errors *errs, struct kp_err *err) KP_MUST_USE;

#endif

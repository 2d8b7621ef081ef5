/* One compilation: compile.c runs it, resolve.c knows which schema is where and what a reference leads to, keywords.c reads one schema. */
#ifndef KP_JSONSCHEMA_COMPILE_H
#define KP_JSONSCHEMA_COMPILE_H

#include "base/map.h"
#include "jsonschema/internal.h"

struct kp_js_dialect {
	bool draft7;
	bool no_validation; /* of a metaschema whose $vocabulary lacks it */
	bool assert_formats;
};
struct kp_js_resource { /* a document, or a part of one with an $id */
	kp_str uri;
	const struct kp_jv *root;
	struct kp_js_dialect dialect;
};
struct kp_js_place { /* a schema in a document */
	struct kp_js_node node;
	const struct kp_jv *v;
	bool queued;
};
struct kp_js_compiler {
	const struct kp_jsonschema_options *options;
	struct kp_jsonschema *schema;
	struct kp_arena *arena, *scratch; /* what lasts, and what does not */
	struct kp_err *err;
	uint32_t n_places, max_places, max_values;
	size_t max_code;       /* of patterns, what is left of it */
	struct kp_map places;  /* address of a kp_jv -> place */
	struct kp_map uris;    /* URI -> resource + 1 */
	struct kp_map anchors; /* resource number in decimal, '#', name -> place */
	KP_VEC(struct kp_js_resource)
	resources;
	KP_VEC(struct kp_js_place *)
	queue;
	KP_VEC(struct kp_js_dynamic)
	dynamic;
};

/* A place, indexed with all schemas below it when it is new. */
struct kp_js_place *kp_js_index(
	struct kp_js_compiler *c, const struct kp_jv *v, uint32_t resource, kp_str where);
/* The resource of a whole document, indexed. */
int kp_js_index_document(
	struct kp_js_compiler *c, const struct kp_jv *v, kp_str uri, uint32_t *ret);
/* The place that ref means, seen from a resource; NULL with err set. *ret_dynamic: its name when it has that `$dynamicAnchor` (else p NULL). */
struct kp_js_place *kp_js_resolve(
	struct kp_js_compiler *c, uint32_t resource, kp_str ref, kp_str *ret_dynamic);
/* The node of a schema, which will be compiled. */
struct kp_js_node *kp_js_want(struct kp_js_compiler *c, struct kp_js_place *p);
int kp_js_read_schema(struct kp_js_compiler *c, struct kp_js_place *p);

/* INVALID_ARGUMENT at where (and keyword, if not NULL). */
int kp_js_fail(struct kp_js_compiler *c, kp_str where, const char *keyword, const char *fmt, ...)
	KP_PRINTF(4, 5);
/* RESOURCE_EXHAUSTED: memory. */
int kp_js_full(struct kp_js_compiler *c);
/* Zeroed; NULL with err set. */
void *kp_js_alloc(struct kp_js_compiler *c, size_t count, size_t size);
/* where/token, escaped; p NULL with err set. */
kp_str kp_js_child(struct kp_js_compiler *c, kp_str where, kp_str keyword, kp_str token);

#endif

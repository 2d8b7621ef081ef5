/* jansson and libyaml behind limits: manifests, configuration, Kubernetes objects. Not for request
   bodies (json/reader.h). A loaded json_t is owned by the caller (one reference); deep-freeze by
   convention: only who built it may call setters. */
#ifndef KP_JSON_JANSSON_H
#define KP_JSON_JANSSON_H

#include "base/arena.h"
#include "base/buf.h"

#include <jansson.h>

enum { KP_DOC_MAX_DEPTH = 100 };

struct kp_doc_limits {
	size_t max_bytes; /* of text; aliases may expand scalars to four times that */
	size_t max_nodes; /* scalars, sequences and mappings, aliases counted as what they expand to
			   */
	unsigned max_depth; /* <= KP_DOC_MAX_DEPTH */
	size_t max_docs;    /* YAML documents in one text */
};
extern const struct kp_doc_limits
	kp_doc_limits_manifest; /* 1 MiB, 100,000 nodes, depth 64, 1,000 documents */

/* JSON text, one value; duplicate keys and keys with a NUL refused (strings may hold one). Integers
   that fit 64 bits are json_integer, every other number is a json_real. INVALID_ARGUMENT "parse
   `name`: line L column C: ...", TOO_LARGE and RESOURCE_EXHAUSTED at a limit. */
int kp_doc_json(kp_str text, const char *name, const struct kp_doc_limits *lim, json_t **ret,
	struct kp_err *err) KP_MUST_USE;

/* Where a value stood in the text. */
struct kp_doc_pos {
	uint32_t line, column; /* from 1, columns in characters; 0: unknown */
};
struct kp_yaml_marks; /* json/doc.h */
struct kp_yaml_doc {
	json_t *value;                     /* owned by the stream */
	struct kp_doc_pos pos;             /* where its value starts */
	const struct kp_yaml_marks *marks; /* positions of all its values */
};
/* A YAML stream: one or more documents, or JSON values one after the other. Scalars resolve as
   kubectl and the API server resolve them (sigs.k8s.io/yaml; the rules are at the top of
   yaml_scalar.c). Empty documents are skipped. Refused, with line and column: duplicate keys (as
   `fieldValidation: Strict` does), tags but those of YAML's core schema, keys that are no scalars,
   infinities and NaN, merges (`<<`) of anything but mappings, an alias inside its own anchor. */
struct kp_yaml_stream {
	struct kp_yaml_doc *docs;
	size_t n;
	struct kp_arena *arena; /* holds docs and marks */
};
int kp_doc_yaml(kp_str text, const char *name, const struct kp_doc_limits *lim,
	struct kp_yaml_stream *ret, struct kp_err *err) KP_MUST_USE;
/* The same for a caller that reports places itself: the message has no "parse `name`: line L column
   C: " in front, the place is in *ret_where when -1 comes back (line 0: none, as for a text that is
   too long). */
int kp_doc_yaml_where(kp_str text, const char *name, const struct kp_doc_limits *lim,
	struct kp_yaml_stream *ret, struct kp_doc_pos *ret_where, struct kp_err *err) KP_MUST_USE;
void kp_yaml_stream_fini(struct kp_yaml_stream *s); /* zeroed is fine */
static inline void kp_auto_yaml_stream(struct kp_yaml_stream *s)
{
	kp_yaml_stream_fini(s);
}

/* Position of the value at a path such as "spec.endpoints[1].port" (of its nearest existing parent
   when absent). A member may also be written "[key]"; keys may contain dots (the longest key that
   fits wins). */
struct kp_doc_pos kp_yaml_pos(const struct kp_yaml_doc *doc, const char *path);
struct kp_doc_pos kp_yaml_key_pos(const struct kp_yaml_doc *doc, const char *path);
/* A part of a document as a document of its own, for its positions; value NULL when absent. Borrowed from the stream. */
struct kp_yaml_doc kp_yaml_member(const struct kp_yaml_doc *object, const char *key);
struct kp_yaml_doc kp_yaml_element(const struct kp_yaml_doc *list, size_t index);
/* Every value below the document (not itself) with its path, in document order. */
void kp_yaml_each(const struct kp_yaml_doc *doc,
	void (*fn)(void *ctx, const char *path, struct kp_doc_pos pos), void *ctx);

/* Borrowed views, NULL when absent or of another type. */
const json_t *kp_doc_at(
	const json_t *v, const char *path);               /* "spec.template.metadata" (dots only) */
kp_str kp_doc_str(const json_t *object, const char *key); /* KP_STR_NULL when absent */

#endif

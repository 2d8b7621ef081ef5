/* jansson and libyaml behind limits: manifests, configuration, Kubernetes objects. Not for request bodies (json/reader.h).
   A loaded json_t is owned by the caller (one reference); deep-freeze by convention: only who built it may call setters. */
#ifndef KP_JSON_JANSSON_H
#define KP_JSON_JANSSON_H

#include "base/arena.h"
#include "base/buf.h"

#include <jansson.h>

struct kp_doc_limits {
	size_t max_bytes;   /* of text */
	size_t max_nodes;   /* scalars, sequences and mappings, aliases counted as what they expand to */
	unsigned max_depth; /* <= 100 */
	size_t max_docs;    /* YAML documents in one text */
};
extern const struct kp_doc_limits kp_doc_limits_manifest; /* 1 MiB, 100,000 nodes, depth 64, 1,000 documents */

/* JSON text, duplicates refused. INVALID_ARGUMENT "parse `name`: line L column C: ...". */
int kp_doc_json(kp_str text, const char *name, const struct kp_doc_limits *lim, json_t **ret, struct kp_err *err) KP_MUST_USE;

/* Where a value stood in the text. */
struct kp_doc_pos {
	uint32_t line, column; /* from 1; 0: unknown */
};
struct kp_yaml_doc {
	json_t *value;		 /* owned by the stream */
	struct kp_doc_pos pos;	 /* where the document starts */
	struct kp_yaml_marks *marks; /* positions of all its values */
};
/* A YAML stream (one or more documents; JSON is YAML), with Kubernetes' scalar rules (sigs.k8s.io/yaml: YAML 1.1 booleans
   true/false/yes/no/on/off resolve as go-yaml v2 does for untyped targets; see the .c file), duplicate keys refused, anchors and aliases within the node budget, no tags but the
   core ones, no merge of non-mappings. Empty documents are skipped. */
struct kp_yaml_stream {
	struct kp_yaml_doc *docs;
	size_t n;
};
int kp_doc_yaml(kp_str text, const char *name, const struct kp_doc_limits *lim, struct kp_yaml_stream *ret, struct kp_err *err) KP_MUST_USE;
void kp_yaml_stream_fini(struct kp_yaml_stream *s);
/* Position of the value at a path such as "spec.endpoints[1].port" (of its nearest existing parent when absent). */
struct kp_doc_pos kp_yaml_pos(const struct kp_yaml_doc *doc, const char *path);

/* Borrowed views, NULL when absent or of another type. */
const json_t *kp_doc_at(const json_t *v, const char *path); /* "spec.template.metadata" (dots only) */
kp_str kp_doc_str(const json_t *object, const char *key);   /* KP_STR_NULL when absent */

#endif

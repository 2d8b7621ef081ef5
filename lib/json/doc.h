/* Inside lib/json: what the JSON and the YAML loader share. A builder makes json_t values and,
   beside them, marks (where each value stood), under one budget. */
#ifndef KP_JSON_DOC_H
#define KP_JSON_DOC_H

#include "base/map.h"
#include "json/jansson.h"

/* One value's place. The tree mirrors the document; an alias has a node of its own whose children
 * are those of its anchor. */
struct kp_yaml_marks {
	struct kp_yaml_marks *first, *last, *next; /* members or elements, as written */
	kp_str key;    /* of a member; p NULL in elements and the root */
	json_t *value; /* borrowed, valid while the document is built */
	struct kp_doc_pos pos, key_pos;
	uint32_t nodes, height; /* of the subtree, this one included */
	size_t bytes;           /* of its scalars and keys */
	bool alias;             /* written as *anchor */
	bool object, array;     /* what the value is */
};

struct kp_doc_frame {
	struct kp_yaml_marks *marks; /* of the container that is open */
	kp_str key;                  /* of the value that comes next, if has_key */
	struct kp_doc_pos key_pos;
	bool has_key, merge; /* merge: the key is `<<` */
	struct kp_map *
		merged; /* key -> mark of what merges brought and no own key replaced; NULL: none */
};
struct kp_doc_builder {
	struct kp_arena *arena;
	const struct kp_doc_limits *lim;
	struct kp_doc_pos where; /* of the error */
	size_t nodes, bytes;     /* over all documents */
	json_t *scratch;         /* array: owns the values of `<<` */
	unsigned depth;          /* open containers */
	struct kp_doc_frame stack[KP_DOC_MAX_DEPTH];
	json_t *root; /* owned until kp_doc_take */
	struct kp_yaml_marks *root_marks;
};

/* lim must outlive the builder; marks and keys live in the arena. */
int kp_doc_builder_init(struct kp_doc_builder *b, struct kp_arena *arena,
	const struct kp_doc_limits *lim, struct kp_err *err) KP_MUST_USE;
void kp_doc_builder_fini(struct kp_doc_builder *b);
size_t kp_doc_arena_bytes(const struct kp_doc_limits *lim);

/* Sets err and b->where. Returns -1. */
int kp_doc_fail(struct kp_doc_builder *b, struct kp_doc_pos at, struct kp_err *err,
	enum kp_code code, const char *fmt, ...) KP_PRINTF(5, 6);
/* Takes v (also on failure; NULL: memory is gone) as the next value. *ret_marks may be NULL. */
int kp_doc_scalar(struct kp_doc_builder *b, json_t *v, struct kp_doc_pos at,
	struct kp_yaml_marks **ret_marks, struct kp_err *err) KP_MUST_USE;
int kp_doc_open(struct kp_doc_builder *b, bool object, struct kp_doc_pos at,
	struct kp_yaml_marks **ret_marks, struct kp_err *err) KP_MUST_USE;
int kp_doc_close(struct kp_doc_builder *b, struct kp_err *err) KP_MUST_USE;
/* In an object, before each value. merge: the key is YAML's `<<`. */
int kp_doc_key(struct kp_doc_builder *b, kp_str key, struct kp_doc_pos at, bool merge,
	struct kp_err *err) KP_MUST_USE;
/* true: the open container is an object and waits for a key. */
bool kp_doc_wants_key(const struct kp_doc_builder *b);
int kp_doc_alias(struct kp_doc_builder *b, const struct kp_yaml_marks *anchor, struct kp_doc_pos at,
	struct kp_err *err) KP_MUST_USE;
/* The finished document; resets the builder for the next one. */
json_t *kp_doc_take(struct kp_doc_builder *b, struct kp_yaml_marks **ret_marks);

/* JSON values one after the other until the end of the text; each is handed to `each`. */
int kp_doc_json_stream(struct kp_doc_builder *b, kp_str text, bool only_one,
	int (*each)(void *ctx, json_t *v, struct kp_yaml_marks *marks, struct kp_err *err),
	void *ctx, struct kp_err *err) KP_MUST_USE;

/* A plain YAML scalar (yaml_scalar.c). */
enum kp_yaml_type {
	KP_YAML_STR,
	KP_YAML_NULL,
	KP_YAML_BOOL,
	KP_YAML_INT,
	KP_YAML_UINT, /* an integer beyond int64, in d */
	KP_YAML_REAL,
	KP_YAML_TOO_LONG
};
struct kp_yaml_scalar {
	bool b;
	int64_t i;
	double d; /* may be infinite or NaN */
};
enum kp_yaml_type kp_yaml_resolve(kp_str s, struct kp_yaml_scalar *ret);
/* Go's strconv.FormatFloat(v, 'g', -1, 32), which is how a number becomes a key. NUL-terminated. */
void kp_yaml_float_key(double v, char buf[48]);

#endif

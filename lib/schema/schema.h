/* Kubernetes' structural schemas (the part of OpenAPI v3 a CustomResourceDefinition may use) as constant tables, and what an API
   server does with an object by them: find unknown fields, drop nulls, fill in defaults, validate, then run the rules (CEL there,
   C twins here). Also the way from a valid object into C structs. Tables come from hack/gen-crd; values are jansson's.

   Verdicts and error texts are those of kube-apiserver (tests/oracle/api runs its packages beside this), but for what
   errors.h says. Recursion is bounded by the depth of the schema. Pure functions; a json_t that is checked must not be shared. */
#ifndef KP_SCHEMA_SCHEMA_H
#define KP_SCHEMA_SCHEMA_H

#include "schema/errors.h"

#include <jansson.h>

enum kp_schema_type {
	KP_SCHEMA_OBJECT = 1,
	KP_SCHEMA_ARRAY,
	KP_SCHEMA_STRING,
	KP_SCHEMA_INTEGER,
	KP_SCHEMA_BOOLEAN,
	KP_SCHEMA_ANY, /* of no type: whatever it is, it is left as it is */
};
enum kp_schema_list { KP_SCHEMA_ATOMIC, KP_SCHEMA_SET, KP_SCHEMA_MAP };

/* Which C member a value is decoded into; sizes and offsets stand beside it. */
enum kp_schema_c {
	KP_C_NONE,    /* not decoded (the status) */
	KP_C_STR,     /* kp_str; p NULL: absent */
	KP_C_ENUM,    /* an enum as int, 1 + the index in `enums`; 0: absent */
	KP_C_I32,     /* int32_t, and a bool at has_offset when it may be absent */
	KP_C_I64,     /* int64_t, likewise */
	KP_C_BOOL,    /* bool, likewise */
	KP_C_STRUCT,  /* a struct; a pointer to one when it may be absent */
	KP_C_LIST,    /* const pointer, and a size_t at n_offset */
	KP_C_MAP,     /* const struct kp_kv *, likewise */
	KP_C_PRESENT, /* bool: it is there; what is in it is not decoded */
};
struct kp_kv {
	kp_str key, value;
};

/* A CEL rule and its twin: true when `self` (valid by type, defaults filled in) keeps it. */
struct kp_schema_rule {
	const char *name; /* in lib/api/rules.def */
	bool (*holds)(const json_t *self);
	const char *message;
	const char *field_path;     /* ".path" behind the place of self, or "" */
	enum kp_field_error reason; /* INVALID, REQUIRED, FORBIDDEN */
};

struct kp_schema;
struct kp_schema_prop {
	const char *name;
	const struct kp_schema *schema;
	const char *default_json; /* NULL: none */
	bool required;
	bool pointer;    /* STRUCT: a pointer, NULL when absent */
	uint32_t offset; /* of the member in the parent's struct */
	uint32_t
		n_offset; /* LIST, MAP: of the count; I32, I64, BOOL: of has_x, 0 when it cannot be absent */
};
struct kp_schema {
	enum kp_schema_type type;
	enum kp_schema_c c;
	uint32_t c_size; /* STRUCT: sizeof; LIST: sizeof one element */
	const struct kp_schema_prop *props;
	uint32_t n_props;
	const struct kp_schema *items;      /* ARRAY */
	const struct kp_schema *additional; /* OBJECT: schema of every other member */
	const char *const *enums;           /* STRING, NULL-terminated */
	const struct kp_schema_pattern *pattern;
	const struct kp_schema_rule *rules;
	uint32_t n_rules;
	enum kp_schema_list list;
	const char *const *map_keys; /* list MAP, NULL-terminated */
	bool nullable;
	bool preserve; /* OBJECT: members that are not known, which are left as they are */
	bool has_minimum, has_maximum;
	int64_t minimum, maximum;
	int64_t min_length,
		max_length; /* code points; items of an array; members of an object; max -1: none */
};

/* A pattern by name, with a matcher written for it (patterns.def). */
struct kp_schema_pattern {
	const char *text;
	bool (*matches)(kp_str s);
};
#define KP_PATTERN(name, text) extern const struct kp_schema_pattern kp_pattern_##name;
#include "schema/patterns.def"
#undef KP_PATTERN

/* Members that the schema does not know, anywhere below v: one error each ("unknown field"). The members named in `skip`
   (NULL-terminated, NULL: none) of v itself are left alone. */
void kp_schema_unknown(const struct kp_schema *s, json_t *v, const char *const *skip,
	struct kp_field_errors *errs);
/* Removes nulls that are neither nullable nor have a default, then fills in defaults. Must be what the API server does before
   it validates. RESOURCE_EXHAUSTED only. */
int kp_schema_default(const struct kp_schema *s, json_t *v, struct kp_err *err) KP_MUST_USE;
/* Structure, constraints, list types; then the rules, unless an error forbids (as in the API server: wrong types, missing, too
   long or unsupported values). */
void kp_schema_validate(const struct kp_schema *s, json_t *v, struct kp_field_errors *errs);
/* A valid object into the C struct `ret` (zeroed, of s->c_size); strings are copied into the arena. */
int kp_schema_decode(const struct kp_schema *s, const json_t *v, struct kp_arena *a, void *ret,
	struct kp_err *err) KP_MUST_USE;

#endif

/* What compile.c makes and run.c walks. Everything of a compiled schema lies in its arena but for PCRE2's code. */
#ifndef KP_JSONSCHEMA_INTERNAL_H
#define KP_JSONSCHEMA_INTERNAL_H

#include "base/vec.h"
#include "jsonschema/decimal.h"
#include "jsonschema/jsonschema.h"
#include "jsonschema/regex.h"

/* Types an instance may have; a number that is an integer fits either of two. */
enum {
	JS_NULL = 1,
	JS_BOOL = 2,
	JS_NUMBER = 4,
	JS_INTEGER = 8,
	JS_STRING = 16,
	JS_ARRAY = 32,
	JS_OBJECT = 64,
	JS_ANY = 127
};

#define JS_NONE UINT32_MAX
enum { JS_CHAIN_MAX = 100 /* $ref, allOf, anyOf ... one in the other on one value */ };

struct kp_js_hash {
	uint64_t a, b;
};
struct kp_js_node;
struct kp_js_list {
	uint32_t n;
	struct kp_js_node **p;
};
struct kp_js_values { /* enum, const: hashes, sorted */
	uint32_t n;
	uint8_t types;
	struct kp_js_hash *p;
};
struct kp_js_number {
	struct kp_decimal *minimum, *maximum, *above, *below, *multiple;
};
struct kp_js_string {
	uint64_t min, max;
	struct kp_js_regex *pattern;
	uint8_t format;
};
struct kp_js_array {
	uint64_t min, max, min_contains, max_contains;
	struct kp_js_list prefix;
	struct kp_js_node *rest, *contains, *unevaluated;
	bool unique;
};
struct kp_js_name { /* a member name that the schema speaks of */
	kp_str name;
	struct kp_js_node *property, *dependent; /* may be NULL */
	bool required;
	uint32_t n_needs; /* names that must be there with it: indices */
	uint32_t *needs;
};
struct kp_js_pattern {
	struct kp_js_regex *regex;
	struct kp_js_node *node;
};
struct kp_js_object {
	uint64_t min, max;
	uint32_t n_names, n_slots, n_patterns, n_dependent;
	struct kp_js_name *names;
	uint32_t *slots; /* open addressing: index + 1 */
	struct kp_js_pattern *patterns;
	struct kp_js_node *additional, *names_schema, *unevaluated;
};
struct kp_js_inplace {
	struct kp_js_node *ref, *dynamic; /* dynamic: where $dynamicRef leads at first */
	kp_str dynamic_name; /* and the name looked for in the dynamic scope; p NULL: none */
	struct kp_js_list all_of, any_of, one_of;
	struct kp_js_node *not_, *if_, *then_, *else_;
};
struct kp_js_node {
	kp_str where; /* "#/properties/a", with the document's URI in front where it is another */
	uint32_t resource;
	uint8_t types;
	uint8_t height;    /* compile's check of loops: 0 unknown, 255 under way */
	bool always_false; /* the schema `false` */
	const struct kp_js_values *enum_, *const_;
	struct kp_js_number *number;
	struct kp_js_string *string;
	struct kp_js_array *array;
	struct kp_js_object *object;
	struct kp_js_inplace *inplace;
};
struct kp_js_dynamic { /* $dynamicAnchor */
	uint32_t resource;
	kp_str name;
	struct kp_js_node *node;
};
struct kp_jsonschema {
	struct kp_arena *arena;
	struct kp_js_node *root;
	KP_VEC(struct kp_js_regex *)
	regexes;
	uint32_t n_dynamic;
	struct kp_js_dynamic *dynamic;
};

struct kp_js_name *kp_js_object_find(const struct kp_js_object *o, kp_str name);

/* hash.c: equal values have equal hashes. */
struct kp_js_hash kp_js_hash_string(kp_str s);
struct kp_js_hash kp_js_hash_number(const struct kp_decimal *d);
struct kp_js_hash kp_js_hash_empty(
	enum kp_json_type t); /* true, false, null; an array or object without members */
struct kp_js_hash kp_js_hash_item(struct kp_js_hash array, struct kp_js_hash item);
struct kp_js_hash kp_js_hash_member(struct kp_js_hash object, kp_str name, struct kp_js_hash value);
/* false: a number in it is too long. */
bool kp_js_hash_value(const struct kp_jv *v, struct kp_js_hash *ret);
int kp_js_hash_cmp(const void *a, const void *b);

/* format.c: 0 for a name that is not checked. */
uint8_t kp_js_format_find(kp_str name);
bool kp_js_format_ok(uint8_t format, kp_str s);

/* uri.c: RFC 3986, section 5.2. */
void kp_js_uri_resolve(kp_str base, kp_str ref, struct kp_buf *out);

/* metaschemas.c: the text of one, by its URI without fragment; p NULL: none. */
kp_str kp_js_metaschema(kp_str uri);

/* The types that a value of t has: a number may be an integer. */
static inline uint8_t kp_js_types_of(enum kp_json_type t)
{
	static const uint8_t bits[] = { [KP_JSON_NULL] = JS_NULL,
		[KP_JSON_TRUE] = JS_BOOL,
		[KP_JSON_FALSE] = JS_BOOL,
		[KP_JSON_NUMBER] = JS_NUMBER | JS_INTEGER,
		[KP_JSON_STRING] = JS_STRING,
		[KP_JSON_ARRAY] = JS_ARRAY,
		[KP_JSON_OBJECT] = JS_OBJECT };
	return bits[t];
}

#endif

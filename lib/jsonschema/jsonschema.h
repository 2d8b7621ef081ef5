/* JSON Schema: a schema, compiled once, and instances checked while their bytes arrive. Drafts 2020-12 (json-schema.org/draft/2020-12) and 7,
   by `$schema`; 2020-12 without one. (lib/schema is another thing: the structural schemas of Kubernetes' manifests.)

   What is found when:
   - at the first byte of a value: a wrong type, the schema `false`, too many items or members
   - at the end of a member's name: `additionalProperties: false` and its like, `propertyNames`, `maxProperties`
   - while a string comes: `maxLength`
   - at a value's end: everything else (`required`, `enum`, `pattern`, numbers' bounds, `not`, more than one of `oneOf`, `contains`, `unevaluated*`)
   - and through `allOf`, `anyOf`, `oneOf`, `if`, `$ref` as soon as no alternative is left.
   The verdict, its places and its offsets are the same however the bytes are cut. Memory is that of the open values, not of the text: strings are
   kept only where a keyword wants them whole, values are compared by 128-bit hashes. The time is linear in the text for each schema.

   Numbers are decimals of any size, compared exactly; 1.0 is an integer. Lengths count code points. `pattern` is ECMA-262's with the flag u, translated for PCRE2:
   what PCRE2 lacks (lookbehind of varying length) is refused. `format` is an annotation unless asked for. `$ref` reaches the document itself, the
   metaschemas, and the documents that the caller gives; nothing is ever fetched. A member that comes twice in an object is an error: readers differ in which
   they take.

   Ownership: a compiled schema copies what it needs, is immutable, and may be shared by threads; a run belongs to one thread and borrows its schema. */
#ifndef KP_JSONSCHEMA_JSONSCHEMA_H
#define KP_JSONSCHEMA_JSONSCHEMA_H

#include "json/value.h"

struct kp_jsonschema;
struct kp_jsonschema_run;

struct kp_jsonschema_document {
	kp_str uri;
	const struct kp_jv *value;
};
struct kp_jsonschema_options {
	kp_str uri;          /* of the schema itself, for relative `$ref`s; may be empty */
	bool assert_formats; /* date-time, date, time, duration, email, hostname, ipv4, ipv6, uri, uri-reference, uuid, json-pointer,
				relative-json-pointer, regex; others are annotations always */
	bool default_draft7; /* without `$schema` */
	const struct kp_jsonschema_document
		*documents; /* others that it may refer to; read during compile only */
	size_t n_documents;
	size_t max_bytes; /* of the compiled schema, and as much of its patterns' code; 0: 8 MiB */
	uint32_t max_nodes;  /* subschemas in all documents together; 0: 20,000 */
	uint32_t max_values; /* members of `enum` in one place; 0: 20,000 */
};

/* INVALID_ARGUMENT names the place as a JSON pointer (`#/properties/a/type`), in param too; RESOURCE_EXHAUSTED a budget. options may be NULL. A `$ref` that
   leads back to itself without going into the instance is refused. */
int kp_jsonschema_compile(const struct kp_jv *schema, const struct kp_jsonschema_options *options,
	struct kp_jsonschema **ret, struct kp_err *err) KP_MUST_USE;
void kp_jsonschema_destroy(struct kp_jsonschema *s);
KP_AUTO_DEFINE(struct kp_jsonschema, jsonschema, kp_jsonschema_destroy);

/* Is it of the subset that OpenAI takes with `strict: true` (Structured Outputs, "Supported schemas")? The root is an object; every object has
   `additionalProperties: false` and requires all of its properties; no allOf, oneOf, not, if, dependent*, patternProperties and their like; 5,000 properties, 10 levels of
   objects, 1,000 values of enums, 15,000 characters in an enum of more than 250 strings, 120,000 in names and values together. INVALID_ARGUMENT names the place and what is wrong with
   it. */
int kp_jsonschema_check_strict(const struct kp_jv *schema, struct kp_err *err) KP_MUST_USE;

enum { KP_JSONSCHEMA_MESSAGE = 240, KP_JSONSCHEMA_POINTER = 240 };

struct kp_jsonschema_error {
	uint64_t at; /* bytes of the text up to where it was certain */
	char pointer
		[KP_JSONSCHEMA_POINTER]; /* of the value, RFC 6901, "" for the root; cut with "..." in the middle when longer */
	char keyword
		[KP_JSONSCHEMA_POINTER]; /* of the schema that says no, `#/properties/a/type`; "" where JSON itself is broken */
	char message[KP_JSONSCHEMA_MESSAGE]; /* "expected a string, got a number" */
};
struct kp_jsonschema_limits { /* 0: the default */
	uint32_t max_depth;   /* of the text; 128, which is also the most */
	uint32_t max_errors;  /* told; the run ends with the last. 1 */
	uint64_t max_steps;   /* of work; 1,000,000, and 64 more for each byte. About 50 ns each */
	size_t max_bytes;     /* of memory; 16 MiB */
};

enum kp_jsonschema_verdict {
	KP_JSONSCHEMA_OPEN = 0, /* may still become valid */
	KP_JSONSCHEMA_VALID,    /* finished, valid */
	KP_JSONSCHEMA_INVALID,  /* whatever comes */
};

struct kp_jsonschema_run *kp_jsonschema_run_create(
	const struct kp_jsonschema *s, const struct kp_jsonschema_limits *limits /* may be NULL */);
void kp_jsonschema_run_destroy(struct kp_jsonschema_run *r);
KP_AUTO_DEFINE(struct kp_jsonschema_run, jsonschema_run, kp_jsonschema_run_destroy);
/* -1: a budget is used up (RESOURCE_EXHAUSTED names which one: depth, steps, memory, backtracking, number); nothing can be said of the text, now or later. Text that
   is no JSON is INVALID. After INVALID more errors may be found, up to max_errors. */
int kp_jsonschema_run_feed(struct kp_jsonschema_run *r, kp_str bytes,
	enum kp_jsonschema_verdict *ret, struct kp_err *err) KP_MUST_USE;
/* The text is over: VALID or INVALID. */
int kp_jsonschema_run_finish(struct kp_jsonschema_run *r, enum kp_jsonschema_verdict *ret,
	struct kp_err *err) KP_MUST_USE;
/* Feeds and finishes with a value that was read already. Offsets count its values. */
int kp_jsonschema_run_value(struct kp_jsonschema_run *r, const struct kp_jv *v,
	enum kp_jsonschema_verdict *ret, struct kp_err *err) KP_MUST_USE;
/* In the order they were found. */
const struct kp_jsonschema_error *kp_jsonschema_run_errors(
	const struct kp_jsonschema_run *r, size_t *ret_n);

#endif

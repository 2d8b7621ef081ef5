/* Values that a model writes as plain text (XML-like parameters) become JSON by the tool's schema: "007" stays a string where a string is wanted. */
#ifndef KP_PARSE_TYPING_H
#define KP_PARSE_TYPING_H

#include "json/value.h"

enum {
	KP_TYPE_STRING = 1,
	KP_TYPE_INTEGER = 2,
	KP_TYPE_NUMBER = 4,
	KP_TYPE_BOOLEAN = 8,
	KP_TYPE_NULL = 16,
	KP_TYPE_ARRAY = 32,
	KP_TYPE_OBJECT = 64,
	KP_TYPE_ALL = 127
};

/* Which types schema (a property's) allows; root: where its $ref point into. 0: it does not say. Looks at no more than some hundred schemas. */
unsigned kp_typing_of(const struct kp_jv *root, const struct kp_jv *schema);

/* The schema of a property of schema's objects, of the items of its arrays; NULL: it says nothing of them. root and schema may be NULL. */
const struct kp_jv *kp_typing_property(
	const struct kp_jv *root, const struct kp_jv *schema, kp_str name);
const struct kp_jv *kp_typing_items(const struct kp_jv *root, const struct kp_jv *schema);

/* Appends the JSON of the whole text of a value. types 0: a string. A text that none of the types wanted fits stays a string: who called for it checks.
   Where strings are allowed too, another type wins when the text is valid for it. */
void kp_typing_write(unsigned types, kp_str text, struct kp_buf *out);
/* Must the whole text be seen before the first byte of JSON is known? */
static inline bool kp_typing_waits(unsigned types)
{
	return (types & ~(unsigned)KP_TYPE_STRING) != 0;
}
/* As a string, whatever it looks like. */
void kp_typing_write_string(kp_str text, struct kp_buf *out);
/* text is the beginning of a value of these types: can it only be a string by now? */
bool kp_typing_is_string(unsigned types, kp_str text);

#endif

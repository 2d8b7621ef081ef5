/* kp_jv: a JSON value kept whole, in an arena, in the order it was written. What templates iterate
   over and what is passed through (messages, tools, chat_template_kwargs). Immutable once built;
   valid as long as the arena and, for strings without escapes and for numbers, the text it was read
   from.

   Objects keep insertion order; a repeated key keeps its first position and takes the last value
   (Python's dict rule). */
#ifndef KP_JSON_VALUE_H
#define KP_JSON_VALUE_H

#include "base/buf.h"
#include "json/reader.h"

struct kp_jmember;

struct kp_jv {
	enum kp_json_type type;
	uint32_t n; /* elements or members */
	union {
		kp_str s; /* STRING: unescaped UTF-8. NUMBER: its text as written */
		const struct kp_jv *items;        /* ARRAY */
		const struct kp_jmember *members; /* OBJECT */
	};
};
struct kp_jmember {
	kp_str key;
	struct kp_jv value;
};

/* Reads one value from the reader, whole. max_nodes bounds values built (RESOURCE_EXHAUSTED
 * beyond). */
int kp_jv_read(
	struct kp_json *j, uint32_t max_nodes, struct kp_jv *ret, struct kp_err *err) KP_MUST_USE;
/* The same of one type, ARRAY or OBJECT; another one is an error that names both. */
int kp_jv_read_as(struct kp_json *j, enum kp_json_type type, uint32_t max_nodes, struct kp_jv *ret,
	struct kp_err *err) KP_MUST_USE;
/* What is left of the array that the cursor is in, to its end; each element with its text as it stands there as key. max_nodes as above. */
int kp_jv_read_elements(struct kp_json *j, uint32_t max_nodes, const struct kp_jmember **ret,
	uint32_t *ret_n, struct kp_err *err) KP_MUST_USE;
/* One value that is the whole text. */
int kp_jv_parse(kp_str text, struct kp_arena *a, struct kp_jv *ret, struct kp_err *err) KP_MUST_USE;
/* Member by key, NULL when absent or v is no object (or NULL). */
const struct kp_jv *kp_jv_get(const struct kp_jv *v, kp_str key);
static inline bool kp_jv_is(const struct kp_jv *v, enum kp_json_type t)
{
	return v && v->type == t;
}
/* The string of a STRING member, or KP_STR_NULL. */
kp_str kp_jv_str(const struct kp_jv *object, kp_str key);
bool kp_jv_eq(const struct kp_jv *a, const struct kp_jv *b);
/* A copy of what n values refer to, in one block: strings within `was` become those at the same places of `is`, which holds the same bytes; all else lies in the block. Size: bytes
   that it needs, a multiple of 8. Copy: items and block may be uninitialised; returns the end of what was written. Recursion: as deep as the values. */
size_t kp_jv_pack_size(const struct kp_jv *v, uint32_t n, kp_str was);
char *kp_jv_pack(const struct kp_jv *v, uint32_t n, kp_str was, const char *is, struct kp_jv *items,
	char *block);
/* Compact JSON text (numbers as written). */
void kp_jv_write(const struct kp_jv *v, struct kp_buf *out);

#endif

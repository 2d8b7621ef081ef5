/* Pull reader for JSON text (RFC 8259), strict, over one contiguous slice, no copies: strings
   without escapes and all numbers come back as slices of the input. For request bodies; whoever
   reads says what it expects, so nothing is built that nobody asked for, and every error names the
   place (`messages[2].content`) and the byte offset.

   Limits: depth, total input (the caller's slice). UTF-8 is checked; a lone surrogate escape, a NUL
   byte and `\u0000` are handled as stated at kp_json_string. Not thread-safe; no allocation except
   unescaping into the arena given. */
#ifndef KP_JSON_READER_H
#define KP_JSON_READER_H

#include "base/arena.h"

enum { KP_JSON_MAX_DEPTH = 128 };

enum kp_json_type {
	KP_JSON_NONE = 0,
	KP_JSON_NULL,
	KP_JSON_FALSE,
	KP_JSON_TRUE,
	KP_JSON_NUMBER,
	KP_JSON_STRING,
	KP_JSON_ARRAY,
	KP_JSON_OBJECT
};
const char *kp_json_type_name(enum kp_json_type t); /* "a string", "an object", ... for messages */

struct kp_json_path { /* one step of the place being read; kept as a stack for error messages */
	kp_str key;   /* raw key, p NULL in arrays */
	uint32_t index;
};

struct kp_json {
	const char *p, *end, *start;
	struct kp_arena *arena; /* unescaped strings */
	uint32_t depth;
	bool first[KP_JSON_MAX_DEPTH]; /* nothing read yet in this container */
	bool is_object[KP_JSON_MAX_DEPTH];
	struct kp_json_path path[KP_JSON_MAX_DEPTH];
};

void kp_json_init(struct kp_json *j, kp_str text, struct kp_arena *arena);

/* Type of the value that comes next, by its first byte; NONE at a syntax error or the end (the next
 * read says which). */
enum kp_json_type kp_json_peek(struct kp_json *j);

/* Containers: `if (kp_json_object(&j, err)) return -1; while ((r = kp_json_member(&j, &key, err)) >
   0) { read one value }`. r: 1 a member (its value must be read or skipped next), 0 the container
   ended, -1 error. Keys are unescaped. */
int kp_json_object(struct kp_json *j, struct kp_err *err) KP_MUST_USE;
/* The same at the begin of a request's body: what is no object is called `body`. */
int kp_json_body(struct kp_json *j, struct kp_err *err) KP_MUST_USE;
int kp_json_member(struct kp_json *j, kp_str *ret_key, struct kp_err *err) KP_MUST_USE;
int kp_json_array(struct kp_json *j, struct kp_err *err) KP_MUST_USE;
int kp_json_element(struct kp_json *j, struct kp_err *err) KP_MUST_USE;

/* Puts the cursor into an array that stands `depth` - 1 objects deep, at a place of the text behind its bracket (is_first) or behind one of its elements: for who knows
   what stands before. Places in errors know nothing of it. */
void kp_json_reopen_array(struct kp_json *j, const char *at, uint32_t depth, bool is_first);

/* Scalars. A wrong type is INVALID_ARGUMENT with param = the place ("expected a string, got a
   number"). kp_json_string: a lone surrogate escape or invalid UTF-8 is an error with the offset;
   `\u0000` is accepted (the slice holds the NUL). */
int kp_json_string(struct kp_json *j, kp_str *ret, struct kp_err *err) KP_MUST_USE;
int kp_json_bool(struct kp_json *j, bool *ret, struct kp_err *err) KP_MUST_USE;
int kp_json_i64(struct kp_json *j, int64_t min, int64_t max, int64_t *ret,
	struct kp_err *err) KP_MUST_USE; /* 3.0 is an integer, 3.5 is not */
int kp_json_f64(
	struct kp_json *j, double min, double max, double *ret, struct kp_err *err) KP_MUST_USE;
int kp_json_number(struct kp_json *j, kp_str *ret_text, struct kp_err *err) KP_MUST_USE;
int kp_json_null(struct kp_json *j, struct kp_err *err) KP_MUST_USE;
/* Reads a null if one comes next: 1 yes, 0 no (nothing read), -1 error. */
int kp_json_try_null(struct kp_json *j, struct kp_err *err) KP_MUST_USE;

/* Skips one whole value, checking it; *ret_raw (may be NULL) is its text. */
int kp_json_skip(struct kp_json *j, kp_str *ret_raw, struct kp_err *err) KP_MUST_USE;
/* After the last value: nothing but white space may follow. */
int kp_json_end(struct kp_json *j, struct kp_err *err) KP_MUST_USE;
/* Is the text one value, as kp_jv_parse takes it? Nothing of it is kept; *ret (may be NULL) is its type. */
int kp_json_check(
	kp_str text, struct kp_arena *a, enum kp_json_type *ret, struct kp_err *err) KP_MUST_USE;

/* INVALID_ARGUMENT about the current place: param = path. Returns -1. */
int kp_json_fail(struct kp_json *j, struct kp_err *err, const char *fmt, ...) KP_PRINTF(3, 4);
/* "messages[2].content" of the place being read, cut to n bytes. */
void kp_json_where(const struct kp_json *j, char *buf, size_t n);

#endif

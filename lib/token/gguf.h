/* A reader of GGUF metadata (versions 2 and 3, little-endian; format: ggml-org/ggml, docs/gguf.md). Goes over the key-value pairs once,
   checks every length against the input, never looks at tensors. Borrowed slices of the input. */
#ifndef KP_TOKEN_GGUF_H
#define KP_TOKEN_GGUF_H

#include "base/err.h"
#include "base/str.h"

enum kp_gguf_type {
	KP_GGUF_U8 = 0,
	KP_GGUF_I8,
	KP_GGUF_U16,
	KP_GGUF_I16,
	KP_GGUF_U32,
	KP_GGUF_I32,
	KP_GGUF_F32,
	KP_GGUF_BOOL,
	KP_GGUF_STRING,
	KP_GGUF_ARRAY,
	KP_GGUF_U64,
	KP_GGUF_I64,
	KP_GGUF_F64,
};

struct kp_gguf_array {
	uint32_t type; /* of its elements */
	uint64_t n;
	kp_str bytes; /* the elements as they lie in the file */
};
struct kp_gguf_value {
	kp_str key;
	uint32_t type;
	union {
		uint64_t u; /* unsigned integers, bool */
		int64_t i;
		kp_str s;
		struct kp_gguf_array a;
	};
};
struct kp_gguf {
	kp_str in;
	size_t at;
	uint64_t left; /* pairs not read yet */
};

bool kp_gguf_is(kp_str bytes); /* by its first four bytes */
/* The metadata must lie in the first max_bytes. */
int kp_gguf_open(struct kp_gguf *g, kp_str bytes, size_t max_bytes, struct kp_err *err) KP_MUST_USE;
/* 1: a pair, 0: the end, -1: error. Floats are skipped over (u is 0). */
int kp_gguf_next(struct kp_gguf *g, struct kp_gguf_value *ret, struct kp_err *err) KP_MUST_USE;
/* Takes the first string off an array of strings; false at its end. The array was checked by kp_gguf_next. */
bool kp_gguf_string(struct kp_gguf_array *a, kp_str *ret);
/* The same for 32-bit integers. */
bool kp_gguf_i32(struct kp_gguf_array *a, int32_t *ret);

#endif

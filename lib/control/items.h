/* The content of a program as the control protocol carries it (proto/kelpie/control/v1): items of a
   kind, a key and the bytes of a protobuf value. A set of them is immutable, sorted by kind and key,
   counted, and may be read by any thread. What a set may contain is checked when it is turned into a
   program, but for sizes and repeated keys, which no set has; so an item of a kind that is not known
   here, and fields that are not, stay in it and in its hash.

   The hash (docs/control.md): SHA-256 over, for each item in order, kind, length of the key, the key,
   length of the value, the value, where numbers are 32 bits, big-endian. */
#ifndef KP_CONTROL_ITEMS_H
#define KP_CONTROL_ITEMS_H

#include "control/program.h"
#include "base/ref.h"

enum kp_item_kind {
	KP_ITEM_NONE = 0,
	KP_ITEM_POOL = 1,        /* key "default/demo" */
	KP_ITEM_ENGINE = 2,      /* "default/demo" */
	KP_ITEM_ENDPOINT = 3,    /* "default/demo/127.0.0.1:50051" */
	KP_ITEM_GATEWAY = 4,     /* its id */
	KP_ITEM_TOOL_SERVER = 5, /* "default/weather" */
};

enum {
	KP_ITEMS_MAX = 100000,
	KP_ITEMS_BYTES_MAX = 48 << 20, /* of all keys and values */
	KP_ITEM_KEY_MAX = 1024,
	KP_ITEM_VALUE_MAX = 64 << 10,
	KP_HASH_BYTES = 32,
	KP_HASH_TEXT_MAX = 2 * KP_HASH_BYTES + 1,
};

struct kp_item {
	uint32_t kind;
	kp_str key, value;
};
struct kp_items {
	struct kp_refcount refs;
	const struct kp_item *p; /* sorted */
	size_t n, bytes;         /* of all keys and values */
	uint8_t hash[KP_HASH_BYTES];
};

/* "endpoint"; "kind 9" in buf for one that is not known. */
const char *kp_item_kind_name(uint32_t kind, char buf[16]);
/* The first 12 digits of a hash, for people, or all 64. */
const char *kp_hash_text(
	const uint8_t hash[KP_HASH_BYTES], size_t digits, char buf[KP_HASH_TEXT_MAX]);

/* Copies. In any order; INVALID_ARGUMENT names a key that is there twice or too long, RESOURCE_EXHAUSTED
   what is too much. */
int kp_items_create(const struct kp_item *items, size_t n, struct kp_items **ret,
	struct kp_err *err) KP_MUST_USE;
struct kp_items *kp_items_ref(struct kp_items *s);
void kp_items_unref(struct kp_items *s); /* NULL is fine */
KP_AUTO_DEFINE(struct kp_items, items, kp_items_unref);
bool kp_items_same(const struct kp_items *a, const struct kp_items *b);
/* NULL: not there. */
const struct kp_item *kp_items_find(const struct kp_items *s, uint32_t kind, kp_str key);

/* What leads from one set to another. Borrows from the sets, or from the message it came in. */
struct kp_items_delta {
	const struct kp_item *upserts;
	size_t n_upserts;
	const struct kp_item *removes; /* without values */
	size_t n_removes;
};
/* The arrays are the arena's, what they point at the sets'. RESOURCE_EXHAUSTED: the arena is full. */
int kp_items_diff(const struct kp_items *from, const struct kp_items *to, struct kp_arena *arena,
	struct kp_items_delta *ret, struct kp_err *err) KP_MUST_USE;
/* INVALID_ARGUMENT names a key that the delta has twice, or removes though it is not there. */
int kp_items_apply(const struct kp_items *base, const struct kp_items_delta *delta,
	struct kp_items **ret, struct kp_err *err) KP_MUST_USE;

/* The operator's side: a program, with its gateways and owners (control/ownership.h). */
int kp_items_from_program(
	const struct kp_program *p, struct kp_items **ret, struct kp_err *err) KP_MUST_USE;
/* The gateway's side: everything is checked, and the error names kind and key: UNIMPLEMENTED for a kind
   or a value that a newer operator may know, else INVALID_ARGUMENT. All names must be of namespace
   `ns`, unless it is "". */
int kp_items_to_program(const struct kp_items *s, kp_str ns, struct kp_program **ret,
	struct kp_err *err) KP_MUST_USE;

#endif

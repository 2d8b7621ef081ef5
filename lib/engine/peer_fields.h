/* Inside lib/engine/peer_codec: the single values of a message, as one table for both directions. A
   value that is zero is not written, as in proto3. */
#ifndef KP_ENGINE_PEER_FIELDS_H
#define KP_ENGINE_PEER_FIELDS_H

#include "core/constraint.h"
#include "core/ids.h"
#include "wire/list.h"

enum kp_peer_kind {
	KP_PEER_NONE = 0, /* no single value, or no field of that number */
	KP_PEER_STR,      /* kp_str */
	KP_PEER_U32,
	KP_PEER_I32,
	KP_PEER_I64,
	KP_PEER_BOOL,
	KP_PEER_DOUBLE, /* finite */
	KP_PEER_FIXED64,
};
/* table[n] is the field of number n. */
struct kp_peer_field {
	const char *name; /* "sampling.top_k", for errors */
	enum kp_peer_kind kind;
	size_t offset; /* in our struct */
};

void kp_peer_add_fields(
	struct kp_buf *b, const struct kp_peer_field *table, size_t n, const void *from);
/* A field that is not in the table is skipped. */
int kp_peer_read_field(const struct kp_peer_field *table, size_t n, const struct kp_wire_field *f,
	void *to, struct kp_err *err) KP_MUST_USE;

/* Appends a repeated uint32's values. */
int kp_peer_read_ids(const struct kp_wire_field *f, struct kp_ids *ids, const char *name,
	struct kp_err *err) KP_MUST_USE;

/* A constraint: its kind is field `number`, the two behind it are its text and its choices. A later field of a choice is the next one, in `choices`, which has room
   for KP_MAX_CONSTRAINT_CHOICES (NULL: none is kept). What is read borrows from the bytes. */
void kp_peer_add_constraint(struct kp_buf *b, uint32_t number, const struct kp_constraint *c);
int kp_peer_read_constraint(const struct kp_wire_field *f, uint32_t number, kp_str *choices,
	struct kp_constraint *ret, struct kp_err *err) KP_MUST_USE;

/* INTERNAL "read `name`: not valid protobuf"; RESOURCE_EXHAUSTED. */
int kp_peer_bad(struct kp_err *err, const char *name);
int kp_peer_too_many(struct kp_err *err, const char *name, size_t max);

#endif

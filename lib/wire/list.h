/* A repeated scalar of a message, in either encoding: packed into one field, or one field for each
   element. protobuf readers must take both, and mixed, whatever the writer's version is. */
#ifndef KP_WIRE_LIST_H
#define KP_WIRE_LIST_H

#include "wire/wire.h"

/* The elements that one field has. */
struct kp_wire_list {
	struct kp_wire w;
	enum kp_wire_type type; /* of the elements: VARINT, 32 or 64 */
	bool is_single;
	uint64_t value;
};

/* false: the field is neither. */
KP_MUST_USE static inline bool kp_wire_list_of(
	const struct kp_wire_field *f, enum kp_wire_type type, struct kp_wire_list *ret)
{
	*ret = (struct kp_wire_list){ .w = f->bytes,
		.type = type,
		.is_single = f->type != KP_WIRE_BYTES,
		.value = f->value };
	ptrdiff_t size = type == KP_WIRE_32 ? 4 : type == KP_WIRE_64 ? 8 : 1;
	return f->type == type ||
	       (f->type == KP_WIRE_BYTES && (f->bytes.end - f->bytes.p) % size == 0);
}

/* 1: a value's bits, 0: no more, -1: malformed. */
KP_MUST_USE static inline int kp_wire_list_next(struct kp_wire_list *l, uint64_t *ret)
{
	if (l->is_single) {
		l->is_single = false;
		l->w = (struct kp_wire){ NULL, NULL };
		*ret = l->value;
		return 1;
	}
	if (!kp_wire_more(&l->w)) {
		return 0;
	}
	if (l->type == KP_WIRE_VARINT) {
		return kp_wire_varint(&l->w, ret) ? 1 : -1;
	}
	*ret = kp_wire_le32(l->w.p);
	l->w.p += 4;
	if (l->type == KP_WIRE_64) {
		*ret |= (uint64_t)kp_wire_le32(l->w.p) << 32;
		l->w.p += 4;
	}
	return 1;
}

/* repeated fixed32, packed; nothing when there are none. */
void kp_wire_add_fixed32s(struct kp_buf *b, uint32_t number, const uint32_t *v, size_t n);

/* What is in a packed field of uint32 (kp_wire_add_packed), without the field. */
void kp_wire_add_varints(struct kp_buf *b, const uint32_t *v, size_t n);
/* How many of its bytes the first k numbers take; it has that many. */
size_t kp_wire_varints_size(kp_str packed, size_t k);

#endif

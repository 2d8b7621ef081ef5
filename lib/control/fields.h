/* Fields of the control protocol's messages, as proto3 writes those without presence: one that is not set is left out. */
#ifndef KP_CONTROL_FIELDS_H
#define KP_CONTROL_FIELDS_H

#include "wire/wire.h"

static inline void kp_field_str(struct kp_buf *b, uint32_t number, kp_str s)
{
	if (s.n) {
		kp_wire_add_str(b, number, s);
	}
}
static inline void kp_field_strs(struct kp_buf *b, uint32_t number, const kp_str *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		kp_wire_add_str(b, number, s[i]);
	}
}
static inline void kp_field_u64(struct kp_buf *b, uint32_t number, uint64_t v)
{
	if (v) {
		kp_wire_add_u64(b, number, v);
	}
}

#endif

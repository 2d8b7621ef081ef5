/* DESIGN: what of wire.h is more than a few instructions. Long prompts have tens of thousands of
   ids: a list is written without a branch per number, and moving the finished list by a byte or
   two costs less than counting its bytes first. */
#include "wire/list.h"

static inline uint8_t *put(uint8_t *out, uint32_t v)
{
	if (KP_UNLIKELY(v >= 1u << 21)) {
		return out + kp_wire_put_varint(out, v);
	}
	unsigned two = v >= 1u << 7, three = v >= 1u << 14;
	out[0] = (uint8_t)((v & 0x7f) | two << 7);
	out[1] = (uint8_t)((v >> 7 & 0x7f) | three << 7);
	out[2] = (uint8_t)(v >> 14);
	return out + 1 + two + three;
}

void kp_wire_add_packed(struct kp_buf *b, uint32_t number, const uint32_t *v, size_t n)
{
	size_t room;
	if (n == 0) {
		return;
	}
	size_t at = kp_wire_begin(b, number);
	if (!kp_size_mul(n, 5, &room) || !kp_buf_reserve(b, room)) {
		b->failed = true;
		return;
	}
	uint8_t *out = (uint8_t *)b->p + b->n;
	for (size_t i = 0; i < n; i++) {
		out = put(out, v[i]);
	}
	b->n = (size_t)(out - (uint8_t *)b->p);
	kp_wire_end(b, at);
}

void kp_wire_add_fixed32s(struct kp_buf *b, uint32_t number, const uint32_t *v, size_t n)
{
	size_t bytes;
	if (n == 0) {
		return;
	}
	if (!kp_size_mul(n, 4, &bytes)) {
		b->failed = true;
		return;
	}
	kp_wire_add_key(b, number, KP_WIRE_BYTES);
	kp_wire_add_varint(b, bytes);
	if (!kp_buf_reserve(b, bytes)) {
		return;
	}
	uint8_t *out = (uint8_t *)b->p + b->n;
	for (size_t i = 0; i < n; i++, out += 4) {
		out[0] = (uint8_t)v[i];
		out[1] = (uint8_t)(v[i] >> 8);
		out[2] = (uint8_t)(v[i] >> 16);
		out[3] = (uint8_t)(v[i] >> 24);
	}
	b->n += bytes;
}

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

void kp_wire_add_varints(struct kp_buf *b, const uint32_t *v, size_t n)
{
	size_t room;
	if (n == 0) {
		return;
	}
	if (!kp_size_mul(n, 5, &room) || !kp_buf_reserve(b, room)) {
		b->failed = true;
		return;
	}
	uint8_t *out = (uint8_t *)b->p + b->n;
	for (size_t i = 0; i < n; i++) {
		out = put(out, v[i]);
	}
	b->n = (size_t)(out - (uint8_t *)b->p);
}

void kp_wire_add_packed(struct kp_buf *b, uint32_t number, const uint32_t *v, size_t n)
{
	if (n) {
		size_t at = kp_wire_begin(b, number);
		kp_wire_add_varints(b, v, n);
		kp_wire_end(b, at);
	}
}

size_t kp_wire_varints_size(kp_str packed, size_t k)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);
	size_t at = 0;
	while (packed.n - at >= 8) { /* each number has one byte without the high bit, its last */
		uint64_t w;
		memcpy(&w, packed.p + at, sizeof(w));
		size_t ends = (size_t)(((~w >> 7 & ones) * ones) >> 56);
		if (ends >= k) {
			break;
		}
		k -= ends;
		at += 8;
	}
	while (k && at < packed.n) {
		k -= (unsigned char)packed.p[at++] < 0x80;
	}
	return at;
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

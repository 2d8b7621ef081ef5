/* The protobuf wire format by hand, as far as hot messages need it (encoding: protobuf.dev,
   "Encoding"): readers over a borrowed slice, writers into a kp_buf. Nearly all inline, without
   allocation; numbers of fields are the caller's business.

   Readers return false on input that no protobuf writer makes: cut short, a varint of more than ten
   bytes, field number 0, a group (unused since proto2, and protobuf-c refuses them too). */
#ifndef KP_WIRE_WIRE_H
#define KP_WIRE_WIRE_H

#include "base/buf.h"

enum kp_wire_type { KP_WIRE_VARINT = 0, KP_WIRE_64 = 1, KP_WIRE_BYTES = 2, KP_WIRE_32 = 5 };

struct kp_wire {
	const uint8_t *p, *end;
};
struct kp_wire_field {
	uint32_t number;
	enum kp_wire_type type;
	uint64_t value;       /* VARINT, 32, 64: its bits */
	struct kp_wire bytes; /* BYTES */
};

static inline struct kp_wire kp_wire_of(kp_str s)
{
	const uint8_t *p = (const uint8_t *)s.p;
	return (struct kp_wire){ p, p ? p + s.n : p };
}
static inline kp_str kp_wire_str(struct kp_wire w)
{
	return (kp_str){ (const char *)w.p, (size_t)(w.end - w.p) };
}
static inline bool kp_wire_more(const struct kp_wire *w)
{
	return w->p < w->end;
}

KP_MUST_USE static inline bool kp_wire_varint(struct kp_wire *w, uint64_t *ret)
{
	const uint8_t *p = w->p;
	if (KP_LIKELY(p < w->end && *p < 0x80)) {
		*ret = *p;
		w->p = p + 1;
		return true;
	}
	uint64_t v = 0;
	for (unsigned shift = 0; p < w->end && shift < 70; shift += 7) {
		uint8_t b = *p++;
		v |= shift < 64 ? (uint64_t)(b & 0x7f) << shift : 0;
		if (b < 0x80) {
			*ret = v;
			w->p = p;
			return true;
		}
	}
	return false;
}

static inline uint32_t kp_wire_le32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
static inline float kp_wire_float(uint32_t bits)
{
	float f;
	memcpy(&f, &bits, sizeof(f));
	return f;
}

/* The next field; call while kp_wire_more. */
KP_MUST_USE static inline bool kp_wire_next(struct kp_wire *w, struct kp_wire_field *ret)
{
	uint64_t key, n;
	if (!kp_wire_varint(w, &key) || key > UINT32_MAX || key >> 3 == 0) {
		return false;
	}
	ret->number = (uint32_t)key >> 3;
	switch (key & 7) {
	case KP_WIRE_VARINT:
		ret->type = KP_WIRE_VARINT;
		return kp_wire_varint(w, &ret->value);
	case KP_WIRE_BYTES:
		ret->type = KP_WIRE_BYTES;
		if (!kp_wire_varint(w, &n) || n > (uint64_t)(w->end - w->p)) {
			return false;
		}
		ret->bytes = (struct kp_wire){ w->p, w->p + n };
		w->p += n;
		return true;
	case KP_WIRE_32:
		ret->type = KP_WIRE_32;
		if (w->end - w->p < 4) {
			return false;
		}
		ret->value = kp_wire_le32(w->p);
		w->p += 4;
		return true;
	case KP_WIRE_64:
		ret->type = KP_WIRE_64;
		if (w->end - w->p < 8) {
			return false;
		}
		ret->value = kp_wire_le32(w->p) | (uint64_t)kp_wire_le32(w->p + 4) << 32;
		w->p += 8;
		return true;
	default:
		return false;
	}
}

/* --- writing: `number` is below 2048 (keys of one or two bytes), as in every engine protocol
 * ---------------------- */

static inline size_t kp_wire_varint_size(uint64_t v)
{
	return v < 0x80 ? 1 : (70 - (size_t)__builtin_clzll(v)) / 7;
}
static inline size_t kp_wire_put_varint(uint8_t *out, uint64_t v)
{
	size_t n = 0;
	while (v >= 0x80) {
		out[n++] = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	out[n++] = (uint8_t)v;
	return n;
}
static inline void kp_wire_add_varint(struct kp_buf *b, uint64_t v)
{
	if (kp_buf_reserve(b, 10)) {
		b->n += kp_wire_put_varint((uint8_t *)b->p + b->n, v);
	}
}
static inline void kp_wire_add_key(struct kp_buf *b, uint32_t number, enum kp_wire_type type)
{
	kp_wire_add_varint(b, number << 3 | (uint32_t)type);
}
static inline void kp_wire_add_u64(struct kp_buf *b, uint32_t number, uint64_t v)
{
	kp_wire_add_key(b, number, KP_WIRE_VARINT);
	kp_wire_add_varint(b, v);
}
/* int32 and int64: negative numbers take ten bytes. */
static inline void kp_wire_add_i64(struct kp_buf *b, uint32_t number, int64_t v)
{
	kp_wire_add_u64(b, number, (uint64_t)v);
}
/* A field of 32 or 64 bits as they are, low byte first. */
static inline void kp_wire_add_bits(
	struct kp_buf *b, uint32_t number, enum kp_wire_type type, uint64_t bits)
{
	size_t n = type == KP_WIRE_32 ? 4 : 8;
	kp_wire_add_key(b, number, type);
	if (kp_buf_reserve(b, n)) {
		for (; n; n--, bits >>= 8) {
			b->p[b->n++] = (char)bits;
		}
	}
}
static inline void kp_wire_add_float(struct kp_buf *b, uint32_t number, float v)
{
	uint32_t bits;
	memcpy(&bits, &v, sizeof(bits));
	kp_wire_add_bits(b, number, KP_WIRE_32, bits);
}
static inline void kp_wire_add_str(struct kp_buf *b, uint32_t number, kp_str s)
{
	kp_wire_add_key(b, number, KP_WIRE_BYTES);
	kp_wire_add_varint(b, s.n);
	kp_buf_add(b, s);
}
/* repeated uint32, packed; nothing when there are none. Numbers below 2^21 without a branch. */
void kp_wire_add_packed(struct kp_buf *b, uint32_t number, const uint32_t *v, size_t n);
/* A message or list inside: `size_t at = kp_wire_begin(b, 4); ...; kp_wire_end(b, at);`. One byte
   is kept for the length; a body of 128 bytes or more is moved by the few bytes more that its
   length needs. */
static inline size_t kp_wire_begin(struct kp_buf *b, uint32_t number)
{
	kp_wire_add_key(b, number, KP_WIRE_BYTES);
	kp_buf_addc(b, 0);
	return b->n;
}
static inline void kp_wire_end(struct kp_buf *b, size_t at)
{
	if (b->failed) {
		return;
	}
	size_t n = b->n - at, more = kp_wire_varint_size(n) - 1;
	if (more) {
		if (!kp_buf_reserve(b, more)) {
			return;
		}
		memmove(b->p + at + more, b->p + at, n);
		b->n += more;
	}
	(void)kp_wire_put_varint((uint8_t *)b->p + at - 1, n);
}

#endif

/* The same message in another legal shape: fields in any order, lists cut into pieces (packed, single
   or both), values that a later one replaces, unknown fields of every type in between, in all levels.
   Knows any message from protobuf-c's descriptor. */
#ifndef KP_TESTS_SCRAMBLE_H
#define KP_TESTS_SCRAMBLE_H

#include "wire/list.h"
#include "tests/test.h"

#include <protobuf-c/protobuf-c.h>

struct scramble_piece {
	uint32_t number;
	size_t at, n; /* in `bytes` */
	bool is_out;
};
struct scramble {
	struct kp_rng *rng;
	struct kp_buf bytes;
	struct scramble_piece *pieces;
	size_t n, cap;
};

static uint32_t scramble_below(struct scramble *s, uint32_t n)
{
	return (uint32_t)kp_rng_below(s->rng, n);
}

static void scramble_unknown(struct scramble *s, struct kp_buf *b)
{
	uint32_t number = 100 + scramble_below(s, 1900);
	switch (scramble_below(s, 4)) {
	case 0:
		kp_wire_add_u64(b, number, kp_rng_next(s->rng) >> scramble_below(s, 64));
		break;
	case 1:
		kp_wire_add_bits(b, number, KP_WIRE_32, 7);
		break;
	case 2:
		kp_wire_add_bits(b, number, KP_WIRE_64, 7);
		break;
	default:
		kp_wire_add_str(b, number,
			kp_str_sub(KP_S("\x08\xff\xff some bytes"), 0, scramble_below(s, 14)));
		break;
	}
}

/* A piece is what is written between begin and end. */
static size_t scramble_begin(const struct scramble *s)
{
	return s->bytes.n;
}
static void scramble_end(struct scramble *s, uint32_t number, size_t at)
{
	assert_true(s->n < s->cap);
	s->pieces[s->n++] =
		(struct scramble_piece){ .number = number, .at = at, .n = s->bytes.n - at };
}

static void scramble_value(struct kp_buf *b, uint32_t number, enum kp_wire_type type, uint64_t v)
{
	if (type == KP_WIRE_VARINT) {
		kp_wire_add_u64(b, number, v);
	} else {
		kp_wire_add_bits(b, number, type, v);
	}
}

/* One packed list in pieces. */
static void scramble_list(struct scramble *s, const struct kp_wire_field *f, enum kp_wire_type type)
{
	struct kp_wire_list l;
	uint64_t v;
	assert_true(kp_wire_list_of(f, type, &l));
	int more = kp_wire_list_next(&l, &v);
	while (more > 0) {
		size_t at = scramble_begin(s);
		if (scramble_below(s, 3) == 0) {
			scramble_value(&s->bytes, f->number, type, v);
			more = kp_wire_list_next(&l, &v);
		} else {
			size_t list = kp_wire_begin(&s->bytes, f->number);
			do {
				if (type == KP_WIRE_VARINT) {
					kp_wire_add_varint(&s->bytes, v);
				} else {
					char le[4] = { (char)v, (char)(v >> 8), (char)(v >> 16),
						(char)(v >> 24) };
					kp_buf_add(&s->bytes, kp_str_n(le, 4));
				}
				more = kp_wire_list_next(&l, &v);
			} while (more > 0 && scramble_below(s, 20));
			kp_wire_end(&s->bytes, list);
		}
		scramble_end(s, f->number, at);
	}
	assert_int_equal(more, 0);
}

static void scramble_into(struct kp_rng *rng, const ProtobufCMessageDescriptor *d, kp_str message,
	struct kp_buf *out);

static void scramble_field(
	struct scramble *s, const ProtobufCMessageDescriptor *d, const struct kp_wire_field *f)
{
	const ProtobufCFieldDescriptor *fd = protobuf_c_message_descriptor_get_field(d, f->number);
	bool is_text = fd->type == PROTOBUF_C_TYPE_STRING || fd->type == PROTOBUF_C_TYPE_BYTES;
	assert_non_null(fd);
	if (f->type == KP_WIRE_BYTES && !is_text && fd->type != PROTOBUF_C_TYPE_MESSAGE) {
		bool is_32 =
			fd->type == PROTOBUF_C_TYPE_FLOAT || fd->type == PROTOBUF_C_TYPE_FIXED32;
		scramble_list(s, f, is_32 ? KP_WIRE_32 : KP_WIRE_VARINT);
		return;
	}
	bool is_single = fd->label != PROTOBUF_C_LABEL_REPEATED;
	if (is_single && f->type != KP_WIRE_BYTES && scramble_below(s, 4) == 0) {
		size_t at = scramble_begin(s); /* replaced by the one below */
		scramble_value(&s->bytes, f->number, f->type, 1);
		scramble_end(s, f->number, at);
	}
	size_t at = scramble_begin(s);
	if (fd->type == PROTOBUF_C_TYPE_MESSAGE) {
		size_t inner = kp_wire_begin(&s->bytes, f->number);
		scramble_into(s->rng, fd->descriptor, kp_wire_str(f->bytes), &s->bytes);
		kp_wire_end(&s->bytes, inner);
	} else if (is_text) {
		kp_wire_add_str(&s->bytes, f->number, kp_wire_str(f->bytes));
	} else {
		scramble_value(&s->bytes, f->number, f->type, f->value);
	}
	scramble_end(s, f->number, at);
}

/* Appends `message` (as a protobuf writer makes it) in another shape. */
static void scramble_into(
	struct kp_rng *rng, const ProtobufCMessageDescriptor *d, kp_str message, struct kp_buf *out)
{
	struct scramble s = { .rng = rng, .cap = 2 * message.n }; /* a byte is two at most */
	struct kp_wire w = kp_wire_of(message);
	struct kp_wire_field f;
	kp_buf_init(&s.bytes, 16 << 20);
	s.pieces = calloc(s.cap + 1, sizeof(*s.pieces));
	while (kp_wire_more(&w)) {
		assert_true(kp_wire_next(&w, &f));
		scramble_field(&s, d, &f);
	}
	/* Any order, but pieces of the same field keep theirs. */
	for (size_t left = s.n; left; left--) {
		size_t pick = scramble_below(&s, (uint32_t)s.n);
		while (s.pieces[pick].is_out) {
			pick = (pick + 1) % s.n;
		}
		uint32_t number = s.pieces[pick].number;
		for (size_t i = 0; i < s.n; i++) {
			struct scramble_piece *p = &s.pieces[i];
			if (!p->is_out && p->number == number) {
				p->is_out = true;
				kp_buf_add(
					out, kp_str_sub(kp_buf_str(&s.bytes), p->at, p->at + p->n));
				break;
			}
		}
		if (scramble_below(&s, 8) == 0) {
			scramble_unknown(&s, out);
		}
	}
	assert_true(kp_buf_ok(out) && kp_buf_ok(&s.bytes));
	free(s.pieces);
	kp_buf_fini(&s.bytes);
}

#endif

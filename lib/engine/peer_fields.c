/* DESIGN: a value is copied between the message and our struct by its offset; what is checked here is
   what every field of its kind has to be. */
#include "engine/peer_fields.h"
#include "base/utf8.h"
#include "engine/peer_codec.h"

#include <math.h>

int kp_peer_bad(struct kp_err *err, const char *name)
{
	return kp_err_set(err, KP_INTERNAL, "read `%s`: not valid protobuf", name);
}

int kp_peer_too_many(struct kp_err *err, const char *name, size_t max)
{
	return kp_err_set(err, KP_RESOURCE_EXHAUSTED,
		"read `%s`: more than %zu entries, or no memory for them", name, max);
}

/* A model's name may come from an engine with any length. */
static kp_str cut(kp_str s)
{
	if (s.n > KP_PEER_MAX_STRING) {
		s.n = KP_PEER_MAX_STRING;
		s.n -= kp_utf8_incomplete_tail(s);
	}
	return s;
}

static void add_varint(struct kp_buf *b, uint32_t number, uint64_t v)
{
	if (v) {
		kp_wire_add_u64(b, number, v);
	}
}
static void add_bits(struct kp_buf *b, uint32_t number, const void *at)
{
	uint64_t bits;
	memcpy(&bits, at, sizeof(bits));
	if (bits) {
		kp_wire_add_bits(b, number, KP_WIRE_64, bits);
	}
}

void kp_peer_add_fields(
	struct kp_buf *b, const struct kp_peer_field *table, size_t n, const void *from)
{
	for (uint32_t i = 1; i < n; i++) {
		const char *at = (const char *)from + table[i].offset;
		kp_str s;
		uint32_t u32;
		int64_t i64;
		int32_t i32;
		switch (table[i].kind) {
		case KP_PEER_NONE:
			break;
		case KP_PEER_STR:
			memcpy(&s, at, sizeof(s));
			if (s.n) {
				kp_wire_add_str(b, i, cut(s));
			}
			break;
		case KP_PEER_U32:
			memcpy(&u32, at, sizeof(u32));
			add_varint(b, i, u32);
			break;
		case KP_PEER_I32:
			memcpy(&i32, at, sizeof(i32));
			add_varint(b, i, (uint64_t)(int64_t)i32);
			break;
		case KP_PEER_I64:
			memcpy(&i64, at, sizeof(i64));
			add_varint(b, i, (uint64_t)i64);
			break;
		case KP_PEER_BOOL:
			add_varint(b, i, *(const bool *)at);
			break;
		case KP_PEER_DOUBLE:
		case KP_PEER_FIXED64:
			add_bits(b, i, at);
			break;
		}
	}
}

static enum kp_wire_type type_of(enum kp_peer_kind kind)
{
	return kind == KP_PEER_STR                                 ? KP_WIRE_BYTES
	       : kind == KP_PEER_DOUBLE || kind == KP_PEER_FIXED64 ? KP_WIRE_64
								   : KP_WIRE_VARINT;
}

static int check_text(kp_str s, size_t max, const char *name, struct kp_err *err)
{
	if (s.n > max) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED,
			"read `%s`: %zu bytes, at most %zu allowed", name, s.n, max);
	}
	if (!kp_utf8_ok(s) || (s.n && memchr(s.p, 0, s.n))) {
		return kp_err_set(err, KP_INTERNAL, "read `%s`: not UTF-8 without NUL", name);
	}
	return 0;
}

static int check_string(kp_str s, const char *name, struct kp_err *err)
{
	return check_text(s, KP_PEER_MAX_STRING, name, err);
}

int kp_peer_read_field(const struct kp_peer_field *table, size_t n, const struct kp_wire_field *f,
	void *to, struct kp_err *err)
{
	if (f->number >= n || table[f->number].kind == KP_PEER_NONE) {
		return 0;
	}
	const struct kp_peer_field *known = &table[f->number];
	char *at = (char *)to + known->offset;
	if (f->type != type_of(known->kind)) {
		return kp_peer_bad(err, known->name);
	}
	kp_str s;
	uint32_t u32 = (uint32_t)f->value; /* protobuf: the low bits of what is too wide */
	double d;
	switch (known->kind) {
	case KP_PEER_NONE:
		break;
	case KP_PEER_STR:
		s = kp_wire_str(f->bytes);
		if (check_string(s, known->name, err) < 0) {
			return -1;
		}
		memcpy(at, &s, sizeof(s));
		break;
	case KP_PEER_U32:
	case KP_PEER_I32:
		memcpy(at, &u32, sizeof(u32));
		break;
	case KP_PEER_BOOL:
		*(bool *)at = f->value != 0;
		break;
	case KP_PEER_DOUBLE:
		memcpy(&d, &f->value, sizeof(d));
		if (!isfinite(d)) {
			return kp_err_set(
				err, KP_INTERNAL, "read `%s`: not a finite number", known->name);
		}
		memcpy(at, &d, sizeof(d));
		break;
	case KP_PEER_I64:
	case KP_PEER_FIXED64:
		memcpy(at, &f->value, sizeof(f->value));
		break;
	}
	return 0;
}

int kp_peer_read_ids(
	const struct kp_wire_field *f, struct kp_ids *ids, const char *name, struct kp_err *err)
{
	struct kp_wire_list l;
	uint64_t v;
	int more;
	if (!kp_wire_list_of(f, KP_WIRE_VARINT, &l)) {
		return kp_peer_bad(err, name);
	}
	while ((more = kp_wire_list_next(&l, &v)) > 0) {
		kp_ids_add(ids, (kp_id)v);
	}
	return more < 0      ? kp_peer_bad(err, name)
	       : ids->failed ? kp_peer_too_many(err, name, ids->max)
			     : 0;
}

void kp_peer_add_constraint(struct kp_buf *b, uint32_t number, const struct kp_constraint *c)
{
	add_varint(b, number, c->kind);
	if (c->text.n) {
		kp_wire_add_str(b, number + 1, c->text);
	}
	for (size_t i = 0; i < c->n_choices; i++) {
		kp_wire_add_str(b, number + 2, c->choices[i]);
	}
}

int kp_peer_read_constraint(const struct kp_wire_field *f, uint32_t number, kp_str *choices,
	struct kp_constraint *ret, struct kp_err *err)
{
	if (f->type != (f->number == number ? KP_WIRE_VARINT : KP_WIRE_BYTES)) {
		return kp_peer_bad(err, "sampling.constraint");
	}
	if (f->number == number) {
		uint32_t kind = (uint32_t)f->value; /* one beyond the last: not known */
		ret->kind = (enum kp_constraint_kind)KP_MIN(kind, (uint32_t)KP_CONSTRAINT_TAG + 1);
		return 0;
	}
	kp_str text = kp_wire_str(f->bytes);
	if (check_text(text, KP_MAX_CONSTRAINT, "sampling.constraint", err) < 0) {
		return -1;
	}
	if (f->number == number + 1) {
		ret->text = text;
		return 0;
	}
	if (!choices) {
		return 0;
	}
	if (ret->n_choices == KP_MAX_CONSTRAINT_CHOICES) {
		return kp_peer_too_many(err, "sampling.choices", KP_MAX_CONSTRAINT_CHOICES);
	}
	choices[ret->n_choices++] = text;
	return 0;
}

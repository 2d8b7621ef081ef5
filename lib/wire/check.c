/* DESIGN: a walk over the bytes beside protobuf-c's descriptor. It recurses one frame per level of
   known messages, at most max_depth; packed arrays are counted element by element, because one byte
   of them becomes up to eight in memory. */
#include "wire/check.h"
#include "wire/wire.h"
#include "base/utf8.h"

#include <protobuf-c/protobuf-c.h>

struct scan {
	const struct kp_wire_limits *limits;
	size_t fields;
	struct kp_err *err;
};

static int over(struct scan *s, const ProtobufCMessageDescriptor *d, const char *what)
{
	return kp_err_set(s->err, KP_RESOURCE_EXHAUSTED, "read `%s`: %s", d->name, what);
}
static int bad(struct scan *s, const ProtobufCMessageDescriptor *d, const char *what)
{
	return kp_err_set(s->err, KP_INTERNAL, "read `%s`: %s", d->name, what);
}

/* How an element of this type is written outside of a packed array. */
static enum kp_wire_type wire_type_of(ProtobufCType t)
{
	switch (t) {
	case PROTOBUF_C_TYPE_SFIXED32:
	case PROTOBUF_C_TYPE_FIXED32:
	case PROTOBUF_C_TYPE_FLOAT:
		return KP_WIRE_32;
	case PROTOBUF_C_TYPE_SFIXED64:
	case PROTOBUF_C_TYPE_FIXED64:
	case PROTOBUF_C_TYPE_DOUBLE:
		return KP_WIRE_64;
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_BYTES:
	case PROTOBUF_C_TYPE_MESSAGE:
		return KP_WIRE_BYTES;
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_SINT32:
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_BOOL:
	case PROTOBUF_C_TYPE_ENUM:
		break;
	}
	return KP_WIRE_VARINT;
}

static bool packed_ok(struct scan *s, enum kp_wire_type type, struct kp_wire w)
{
	size_t n = (size_t)(w.end - w.p);
	if (type != KP_WIRE_VARINT) {
		size_t size = type == KP_WIRE_32 ? 4 : 8;
		s->fields += n / size;
		return n % size == 0;
	}
	uint64_t v;
	while (kp_wire_more(&w)) {
		if (!kp_wire_varint(&w, &v)) {
			return false;
		}
		s->fields++;
	}
	return true;
}

static int check_message(
	struct scan *s, const ProtobufCMessageDescriptor *d, struct kp_wire w, unsigned depth);

static int check_field(struct scan *s, const ProtobufCMessageDescriptor *d,
	const ProtobufCFieldDescriptor *fd, const struct kp_wire_field *f, unsigned depth)
{
	enum kp_wire_type type = wire_type_of(fd->type);
	bool packed = fd->label == PROTOBUF_C_LABEL_REPEATED && type != KP_WIRE_BYTES &&
		      f->type == KP_WIRE_BYTES;
	if (packed) {
		return packed_ok(s, type, f->bytes) ? 0 : bad(s, d, "not valid protobuf");
	}
	if (f->type != type) {
		return bad(s, d, "a field has the wrong type");
	}
	if (fd->type == PROTOBUF_C_TYPE_STRING) {
		kp_str text = kp_wire_str(f->bytes);
		if (!kp_utf8_ok(text)) {
			return bad(s, d, "a string is not valid UTF-8");
		}
		if (text.n && memchr(text.p, 0, text.n)) {
			return bad(s, d, "a string contains NUL");
		}
	}
	if (fd->type == PROTOBUF_C_TYPE_MESSAGE) {
		return check_message(s, fd->descriptor, f->bytes, depth + 1);
	}
	return 0;
}

static int check_message(
	struct scan *s, const ProtobufCMessageDescriptor *d, struct kp_wire w, unsigned depth)
{
	if (depth > s->limits->max_depth) {
		return over(s, d, "messages are nested too deep");
	}
	while (kp_wire_more(&w)) {
		struct kp_wire_field f;
		if (!kp_wire_next(&w, &f)) {
			return bad(s, d, "not valid protobuf");
		}
		const ProtobufCFieldDescriptor *fd =
			protobuf_c_message_descriptor_get_field(d, f.number);
		s->fields++;
		if (fd && check_field(s, d, fd, &f, depth) < 0) {
			return -1;
		}
		if (s->fields > s->limits->max_fields) {
			return over(s, d, "too many fields");
		}
	}
	return 0;
}

int kp_wire_check(const struct ProtobufCMessageDescriptor *d, kp_str bytes,
	const struct kp_wire_limits *limits, struct kp_err *err)
{
	struct scan s = { .limits = limits, .err = err };
	if (bytes.n > limits->max_bytes) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED,
			"read `%s`: %zu bytes, at most %zu allowed", d->name, bytes.n,
			limits->max_bytes);
	}
	return check_message(&s, d, kp_wire_of(bytes), 1);
}

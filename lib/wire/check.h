/* Pre-scan of protobuf bytes before protobuf-c unpacks them. protobuf-c 1.4.1 recurses without
   limit, accepts invalid UTF-8 in `string`, and hands strings out as C strings, so that a NUL
   inside cuts them silently; this refuses all three, knowing the message from its descriptor. */
#ifndef KP_WIRE_CHECK_H
#define KP_WIRE_CHECK_H

#include "base/err.h"
#include "base/str.h"

struct ProtobufCMessageDescriptor;

struct kp_wire_limits {
	size_t max_bytes;  /* of the whole message */
	size_t max_fields; /* elements of all levels together, unknown ones and packed ones too */
	unsigned max_depth;
};
#define KP_WIRE_LIMITS \
	((struct kp_wire_limits){ .max_bytes = 1 << 20, .max_fields = 1 << 16, .max_depth = 64 })

/* RESOURCE_EXHAUSTED over a limit, INTERNAL for bytes that are not this message. Unknown fields are
   allowed and not looked into, as protobuf-c skips them. */
int kp_wire_check(const struct ProtobufCMessageDescriptor *d, kp_str bytes,
	const struct kp_wire_limits *limits, struct kp_err *err) KP_MUST_USE;

#endif

/* protobuf-c's unpacking for bytes from outside: behind kp_wire_check, and into an arena, so that there
   is nothing to free and no way to leak. */
#ifndef KP_WIRE_UNPACK_H
#define KP_WIRE_UNPACK_H

#include "base/arena.h"
#include "wire/check.h"

/* The message lives as long as the arena, and points into nothing else. NULL: err is set, as
   kp_wire_check does, or RESOURCE_EXHAUSTED when the arena is full. */
void *kp_wire_unpack(const struct ProtobufCMessageDescriptor *d, kp_str bytes,
	const struct kp_wire_limits *limits, struct kp_arena *arena,
	struct kp_err *err) KP_MUST_USE;

#endif

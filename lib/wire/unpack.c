/* DESIGN: an allocator that takes from the arena and frees nothing. */
#include "wire/unpack.h"

#include <protobuf-c/protobuf-c.h>

struct place {
	struct kp_arena *arena;
	bool full;
};

static void *take(void *ctx, size_t n)
{
	struct place *place = ctx;
	void *p = kp_arena_alloc(place->arena, n);
	place->full |= !p;
	return p;
}
static void keep(void *ctx, void *p)
{
	(void)ctx;
	(void)p;
}

void *kp_wire_unpack(const struct ProtobufCMessageDescriptor *d, kp_str bytes,
	const struct kp_wire_limits *limits, struct kp_arena *arena, struct kp_err *err)
{
	if (kp_wire_check(d, bytes, limits, err) < 0) {
		return NULL;
	}
	struct place place = { .arena = arena };
	ProtobufCAllocator allocator = { take, keep, &place };
	void *m = protobuf_c_message_unpack(d, &allocator, bytes.n, (const uint8_t *)bytes.p);
	if (!m && place.full) {
		kp_arena_full(err, d->name);
	} else if (!m) {
		kp_err_set(err, KP_INTERNAL, "read `%s`: not valid protobuf", d->name);
	}
	return m;
}

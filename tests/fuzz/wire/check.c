/* Fuzz target: any bytes as any of our messages. The first byte says which. What the check takes, protobuf-c
   must unpack without harm, its strings must be text, and what it packs of it must be taken again. */
#include "base/utf8.h"
#include "wire/unpack.h"
#include "kelpie/control/v1/control.pb-c.h"
#include "kelpie/peer/v1/peer.pb-c.h"
#include "sglang/sglang_scheduler.pb-c.h"
#include "vllm/vllm_engine.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const ProtobufCMessageDescriptor *const messages[] = {
	&kelpie__control__v1__gateway_message__descriptor,
	&kelpie__control__v1__operator_message__descriptor,
	&kelpie__peer__v1__generate_request__descriptor,
	&kelpie__peer__v1__generate_response__descriptor,
	&sglang__grpc__scheduler__generate_request__descriptor,
	&sglang__grpc__scheduler__generate_response__descriptor,
	&vllm__grpc__engine__generate_request__descriptor,
	&vllm__grpc__engine__generate_response__descriptor,
};

/* The strings of the first level. */
static void read_strings(const ProtobufCMessage *m)
{
	for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
		bool is_one = f->type == PROTOBUF_C_TYPE_STRING &&
			      f->label != PROTOBUF_C_LABEL_REPEATED &&
			      !(f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF);
		const char *z = NULL;
		if (is_one) {
			memcpy(&z, (const char *)m + f->offset, sizeof(z));
		}
		KP_BUG_ON(z && !kp_utf8_ok(kp_str_c(z)));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct kp_wire_limits limits = KP_WIRE_LIMITS, again = {
		.max_bytes = 64 << 20, .max_fields = 1 << 20, .max_depth = limits.max_depth
	};
	struct kp_err err = KP_ERR_INIT;
	if (size == 0) {
		return 0;
	}
	const ProtobufCMessageDescriptor *d = messages[data[0] % KP_LEN(messages)];
	kp_str bytes = kp_str_n((const char *)data + 1, size - 1);
	KP_AUTO(arena) struct kp_arena *arena = kp_arena_create(64 << 20);
	ProtobufCMessage *m = kp_wire_unpack(d, bytes, &limits, arena, &err);
	if (!m) {
		KP_BUG_ON(err.code != KP_INTERNAL && err.code != KP_RESOURCE_EXHAUSTED);
		return 0;
	}
	read_strings(m);
	uint8_t *out = kp_xmalloc(protobuf_c_message_get_packed_size(m) + 1);
	size_t n = protobuf_c_message_pack(m, out);
	KP_BUG_ON(kp_wire_check(d, kp_str_n((char *)out, n), &again, &err) < 0);
	kp_mem_free(out);
	return 0;
}

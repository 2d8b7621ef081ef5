/* Answers that an engine gives once or now and then, as far as the engines' protocols share them:
   protobuf-c behind kp_wire_check, then our structs. Numbers are taken as the engine says them;
   negative ones, which make no sense, count as 0. */
#ifndef KP_ENGINE_COLD_H
#define KP_ENGINE_COLD_H

#include "core/engine.h"

struct ProtobufCMessageDescriptor;

enum {
	KP_COLD_MAX = 1 << 20,     /* bytes of an answer that is no generation's nor tokenizer's */
	KP_COLD_SCRATCH = 32 << 20 /* of the arena to read it in */
};

/* The message lives as long as `scratch`. NULL: err says why. */
void *kp_cold_unpack(const struct ProtobufCMessageDescriptor *d, kp_str bytes,
	struct kp_arena *scratch, struct kp_err *err);

int kp_cold_health(bool is_healthy, const char *words, struct kp_err *err) KP_MUST_USE;

/* A GetModelInfoResponse as protobuf-c has it. */
struct kp_cold_model {
	const char *path, *served_name, *type;
	char *const *architectures;
	size_t n_architectures;
	int64_t max_context, vocab_size;
	const int32_t *eos;
	size_t n_eos;
	int32_t bos; /* absent and 0 are one on these wires */
	const char *defaults_json;
};
/* Strings are copied to `a`; `scratch` for the JSON. */
int kp_cold_model_info(const struct kp_cold_model *m, struct kp_arena *a, struct kp_arena *scratch,
	struct kp_engine_info *ret, struct kp_err *err) KP_MUST_USE;

/* The load of one data-parallel rank, added to the sum of those before; when all are in, the mean
   of their usage. */
struct kp_cold_loads {
	struct kp_engine_loads sum;
	double usage;
	size_t n;
};
void kp_cold_load(
	struct kp_cold_loads *l, int32_t running, int32_t waiting, int32_t tokens, double usage);
void kp_cold_loads(const struct kp_cold_loads *l, struct kp_engine_loads *ret); /* not at_ns */

/* smg.grpc.common.GetTokenizerChunk, by hand: a piece of the archive; `sha256` (64 lower-case hex
   digits) only in the last one, else empty. Borrowed from the bytes. */
int kp_cold_tokenizer(
	kp_str bytes, kp_str *ret_data, kp_str *ret_sha256, struct kp_err *err) KP_MUST_USE;

#endif

/* Inside lib/engine/vllm: the engine object that vllm.c (generations) and vllm_ask.c (questions)
 * share. */
#ifndef KP_ENGINE_VLLM_ASK_H
#define KP_ENGINE_VLLM_ASK_H

#include "engine/vllm_codec.h"
#include "net/grpc.h"

struct kp_vllm {
	struct kp_engine base;
	struct kp_grpc_channel *channel;
	char *address;
	uint32_t vocab_size; /* 0 unknown */
	struct kp_sampling defaults;
	struct kp_vllm_decoder decoder;
	struct kp_buf scratch; /* requests */
	size_t n_open;         /* calls and questions under way, and the owner */
	bool is_destroyed;
};
/* One of n_open has ended; frees the engine after the last. */
void kp_vllm_put(struct kp_vllm *e);
/* Puts "engine `address`: " in front. */
void kp_vllm_blame(const struct kp_vllm *e, struct kp_err *err);
/* An engine's status as ours (engine/vllm.h, "Errors"). */
void kp_vllm_map_status(const struct kp_vllm *e, struct kp_err *status);

void kp_vllm_health(struct kp_engine *e, int64_t deadline_ns,
	void (*done)(void *user, const struct kp_err *status), void *user);
void kp_vllm_info(struct kp_engine *e, int64_t deadline_ns,
	void (*done)(void *user, const struct kp_err *status, const struct kp_engine_info *info),
	void *user);
void kp_vllm_loads(struct kp_engine *e, int64_t deadline_ns,
	void (*done)(void *user, const struct kp_err *status, const struct kp_engine_loads *loads),
	void *user);
void kp_vllm_tokenizer(struct kp_engine *e, int64_t deadline_ns,
	void (*done)(void *user, const struct kp_err *status, kp_str zip), void *user);

#endif

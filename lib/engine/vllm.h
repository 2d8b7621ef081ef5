/* kp_engine for engines that speak vllm.grpc.engine (vLLM's `--grpc`, proto/vllm/): see
   engine/remote.h. */
#ifndef KP_ENGINE_VLLM_H
#define KP_ENGINE_VLLM_H

#include "engine/remote.h"

/* address as in kp_grpc_opts; o may be NULL. Connects with the first call. Destroying it ends what
   runs (status CANCELLED). */
struct kp_engine *kp_engine_vllm_create(
	struct kp_loop *loop, const char *address, const struct kp_engine_opts *o);

#endif

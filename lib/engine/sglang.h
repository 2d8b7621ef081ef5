/* kp_engine for engines that speak sglang.grpc.scheduler (SGLang's gRPC mode, proto/sglang/): see
   engine/remote.h. Its protocol has no seed, so a request with one is INVALID_ARGUMENT, unless its
   temperature is 0, where a seed changes nothing. Log-probabilities are those after temperature. */
#ifndef KP_ENGINE_SGLANG_H
#define KP_ENGINE_SGLANG_H

#include "engine/remote.h"

/* address as in kp_grpc_opts; o may be NULL. Connects with the first call. Destroying it ends what
   runs (status CANCELLED). */
struct kp_engine *kp_engine_sglang_create(
	struct kp_loop *loop, const char *address, const struct kp_engine_opts *o);

/* INVALID_ARGUMENT: images without a grid, of other models than Qwen's. */
int kp_sglang_check_media(bool has_grid, struct kp_err *err) KP_MUST_USE;

#endif

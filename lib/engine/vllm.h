/* kp_engine for engines that speak vllm.grpc.engine (vLLM's `--grpc`, proto/vllm/): one endpoint,
   one channel of lib/net's gRPC client, on one loop.

   Errors. What the client did wrong (INVALID_ARGUMENT, OUT_OF_RANGE, NOT_FOUND,
   FAILED_PRECONDITION) and what asks for patience (RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED,
   UNAVAILABLE) keep their code; a message larger than the engine takes is TOO_LARGE. Everything
   else an engine says, and everything it does against the protocol, is the engine's fault and names
   its address: INTERNAL (bytes that are no protobuf, a choice or an id that does not exist, more
   after the end), DATA_LOSS (the stream ended before every choice did), UNAVAILABLE (it gave the
   call up itself). Retryable is only what the engine certainly never took.

   Cancelling ends the gRPC call, which is what makes vLLM's servicer abort the request; no Abort is
   sent.

   Limits: 64 MiB a message in either direction, 256 MiB a tokenizer archive, KP_VLLM_MAX_CHOICES
   choices. */
#ifndef KP_ENGINE_VLLM_H
#define KP_ENGINE_VLLM_H

#include "core/engine.h"

struct kp_tls_context;

enum { KP_VLLM_MAX_CHOICES = 1024, KP_VLLM_MAX_TOKENIZER = 256 << 20 };

struct kp_engine_vllm_opts {
	struct kp_tls_context *tls; /* NULL: cleartext */
	uint32_t vocab_size;        /* 0: what `info` finds out; ids are not checked before */
};

/* address as in kp_grpc_opts. Connects with the first call. Destroying it ends what runs (status
 * CANCELLED). */
struct kp_engine *kp_engine_vllm_create(
	struct kp_loop *loop, const char *address, const struct kp_engine_vllm_opts *o);

#endif

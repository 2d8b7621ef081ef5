/* kp_engine for an engine behind gRPC, whatever its protocol: one endpoint, one channel of lib/net's
   gRPC client, on one loop. engine/vllm.h and engine/sglang.h make one.

   Errors. What the client did wrong (INVALID_ARGUMENT, OUT_OF_RANGE, NOT_FOUND,
   FAILED_PRECONDITION) and what asks for patience (RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED,
   UNAVAILABLE) keep their code; a message larger than the engine takes is TOO_LARGE; an engine that
   calls itself unavailable because its queue is full is RESOURCE_EXHAUSTED. Everything else an
   engine says, and everything it does against the protocol, is the engine's fault and names its
   address: INTERNAL (bytes that are no protobuf, a choice or an id that does not exist, more after
   the end, an end that the engine calls an error), DATA_LOSS (the stream ended before every choice
   did), UNAVAILABLE (it gave the call up itself). Retryable is only what the engine certainly never
   took.

   Cancelling ends the gRPC call, which makes vLLM's servicer abort the request. SGLang's often does
   not notice, so there an Abort follows.

   Who listens. Another process, with another tokenizer, may have come to the address since somebody
   looked. With `connected` each new connection is held back, generations wait, until kp_engine_serves
   says what is served there; from then on it is for ids of that tokenizer only. A generation with
   others ends UNAVAILABLE with reason KP_ENGINE_STALE, retryable.

   Limits: 64 MiB a message in either direction, pixels besides, 256 MiB a tokenizer archive,
   KP_ENGINE_MAX_CHOICES choices. */
#ifndef KP_ENGINE_REMOTE_H
#define KP_ENGINE_REMOTE_H

#include "core/engine.h"

struct kp_tls_context;

enum { KP_ENGINE_MAX_CHOICES = 1024, KP_ENGINE_MAX_TOKENIZER = 256 << 20 };

/* All zero is a fine default. */
struct kp_engine_opts {
	struct kp_tls_context *tls; /* NULL: cleartext */
	uint32_t vocab_size;        /* 0: what `info` finds out; ids are not checked before */
	/* A new connection is ready and waits. Must not call the engine. NULL: none has to. */
	void (*connected)(void *user);
	void *user;
};
/* For an engine made with `connected`: a question that was asked at asked_ns (kp_now_ns) found that the
   endpoint serves with this text stack (its fingerprint). A connection that is older than the question
   takes such generations from now on; one that was for others takes nothing new any more. A
   younger one goes on waiting: it may lead to somebody else. 0: nobody will ask any more; what waits is
   refused, what runs goes on. */
void kp_engine_serves(struct kp_engine *e, uint64_t text_fingerprint, int64_t asked_ns);

#endif

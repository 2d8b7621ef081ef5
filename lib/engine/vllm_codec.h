/* Messages of vllm.grpc.engine (proto/vllm/vllm_engine.proto) as bytes: what we send, and what an
   engine answers. No sockets, no clock; every function is pure but for the memory it is given.
   Wrong bytes: KP_INTERNAL, since only a broken engine sends them.

   Generate, sent for every request and received for every token, is read and written by hand: no
   allocation per field, none at all per message once the decoder has grown. The rare answers go
   through protobuf-c into an arena, behind kp_wire_check. */
#ifndef KP_ENGINE_VLLM_CODEC_H
#define KP_ENGINE_VLLM_CODEC_H

#include "base/arena.h"
#include "base/buf.h"
#include "core/engine.h"

enum {
	KP_VLLM_MAX_IDS = 1 << 20,  /* ids, or positions with log-probabilities, in one message */
	KP_VLLM_MAX_TOPS = 1 << 22, /* alternatives in one message */
	KP_VLLM_MAX_COLD =
		1 << 20, /* bytes of an answer that is not Generate's nor a tokenizer's */
};

/* Appends a GenerateRequest. `defaults` (may be NULL) stands in for what the request leaves unset:
   vLLM's servicer does not apply the model's own sampling defaults, it only reports them. Stop
   strings stay with the gateway. A seed beyond 32 bits is folded to 31. Fails when b's maximum is
   reached. */
int kp_vllm_encode_generate(struct kp_buf *b, const struct kp_engine_request *r,
	const struct kp_sampling *defaults, struct kp_err *err) KP_MUST_USE;
/* Log-probabilities under construction: the wire has three parallel lists, we want one. */
struct kp_vllm_logprobs {
	struct kp_token_logprob *p;
	size_t n_values, n_ids, n_lists, cap;
	struct kp_top_logprob *tops;
	size_t n_tops, cap_tops;
};
/* What a decoded message points into; reuse it for message after message. */
struct kp_vllm_decoder {
	struct kp_ids ids;
	struct kp_vllm_logprobs output, input;
};
void kp_vllm_decoder_init(struct kp_vllm_decoder *d);
void kp_vllm_decoder_fini(struct kp_vllm_decoder *d);

enum kp_vllm_kind { KP_VLLM_NOTHING = 0, KP_VLLM_CHUNK = 1, KP_VLLM_COMPLETE = 2 };
/* A GenerateResponse. Pointers are valid until the decoder's next message; `finish_reason` and
 * `matched_str` as long as the bytes. */
struct kp_vllm_response {
	enum kp_vllm_kind kind;
	uint32_t choice;
	const kp_id *ids;
	size_t n_ids;
	uint32_t prompt_tokens, completion_tokens, cached_tokens;
	const struct kp_token_logprob *logprobs; /* n_logprobs of them, NULL when there are none */
	size_t n_logprobs;
	const struct kp_token_logprob *prompt_logprobs;
	size_t n_prompt_logprobs;
	kp_str finish_reason; /* COMPLETE */
	bool has_matched_id;
	kp_id matched_id;
	kp_str matched_str; /* p NULL: none */
};
int kp_vllm_decode_response(struct kp_vllm_decoder *d, kp_str bytes, struct kp_vllm_response *ret,
	struct kp_err *err) KP_MUST_USE;
/* "stop", "length", "abort", "error". Anything newer ("repetition") ended the choice by the
 * engine's own rule: STOP. */
enum kp_finish kp_vllm_finish(kp_str reason);

/* GetTokenizerChunk: a piece of the archive; `sha256` (64 lower-case hex digits) only in the last
 * one, else empty. Borrowed from the bytes. */
int kp_vllm_decode_tokenizer(
	kp_str bytes, kp_str *ret_data, kp_str *ret_sha256, struct kp_err *err) KP_MUST_USE;

/* HealthCheckResponse: 0 when healthy, UNAVAILABLE with the engine's words when it says it is not.
 */
int kp_vllm_decode_health(kp_str bytes, struct kp_err *err) KP_MUST_USE;
/* Each fills its part of `ret` and leaves the rest; strings are copied to the arena. The engine's
 * version comes with the loads. */
int kp_vllm_decode_model_info(kp_str bytes, struct kp_arena *a, struct kp_engine_info *ret,
	struct kp_err *err) KP_MUST_USE;
int kp_vllm_decode_server_info(
	kp_str bytes, struct kp_engine_info *ret, struct kp_err *err) KP_MUST_USE;
/* Sums over data-parallel ranks; kv_usage is their mean. at_ns is left alone. */
int kp_vllm_decode_loads(kp_str bytes, struct kp_arena *a, struct kp_engine_loads *ret,
	kp_str *ret_version, struct kp_err *err) KP_MUST_USE;

#endif

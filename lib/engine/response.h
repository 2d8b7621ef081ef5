/* GenerateResponse as bytes, of every engine's protocol: they are the same messages but for the
   numbers of their fields, which a layout says. Sent for every token, so read by hand: no
   allocation per field, none at all per message once the decoder has grown. No sockets, no clock.
   Wrong bytes: KP_INTERNAL, since only a broken engine sends them. */
#ifndef KP_ENGINE_RESPONSE_H
#define KP_ENGINE_RESPONSE_H

#include "core/engine.h"

enum {
	KP_RESPONSE_MAX_IDS = 1 << 20,  /* ids, or positions with log-probabilities, in a message */
	KP_RESPONSE_MAX_TOPS = 1 << 22, /* alternatives in one message */
};

enum kp_response_kind { KP_RESPONSE_NOTHING = 0, KP_RESPONSE_CHUNK, KP_RESPONSE_COMPLETE };

/* Numbers of fields; 0: there is none. */
struct kp_response_fields {
	uint32_t ids, finish, prompt, completion, cached, output_logprobs, input_logprobs, index,
		matched_id, matched_str;
};
struct kp_response_layout {
	uint32_t request_id;             /* a string, not looked at */
	uint32_t chunk, complete;        /* the members of the oneof */
	struct kp_response_fields in[3]; /* by kind */
};

/* Log-probabilities under construction: the wire has three parallel lists, we want one. */
struct kp_response_logprobs {
	struct kp_token_logprob *p;
	size_t n_values, n_ids, n_lists, cap;
	struct kp_top_logprob *tops;
	size_t n_tops, cap_tops;
};
/* What a decoded message points into; reuse it for message after message. */
struct kp_response_decoder {
	struct kp_ids ids;
	struct kp_response_logprobs output, input;
};
void kp_response_decoder_init(struct kp_response_decoder *d);
void kp_response_decoder_fini(struct kp_response_decoder *d);

/* Pointers are valid until the decoder's next message; `finish_reason` and `matched_str` as long as
 * the bytes. */
struct kp_response {
	enum kp_response_kind kind;
	uint32_t choice;
	const kp_id *ids;
	size_t n_ids;
	/* completion_tokens: of this message (vLLM), or so far (SGLang) */
	uint32_t prompt_tokens, completion_tokens, cached_tokens;
	struct kp_token_logprob *logprobs; /* n_logprobs of them, NULL when there are none */
	size_t n_logprobs;
	struct kp_token_logprob *prompt_logprobs;
	size_t n_prompt_logprobs;
	kp_str finish_reason; /* COMPLETE */
	bool has_matched_id;
	kp_id matched_id;
	kp_str matched_str; /* p NULL: none */
};
int kp_response_decode(struct kp_response_decoder *d, const struct kp_response_layout *layout,
	kp_str bytes, struct kp_response *ret, struct kp_err *err) KP_MUST_USE;

/* "stop", "length", "abort", "error". Anything newer (vLLM's "repetition") ended the choice by the
 * engine's own rule: STOP. */
enum kp_finish kp_response_finish(kp_str reason);

#endif

/* Inside lib/engine: what no engine and no gateway is believed. Each failure is KP_INTERNAL, since only
   one that is broken does it. What was merely not asked for is left out. */
#ifndef KP_ENGINE_CHECK_H
#define KP_ENGINE_CHECK_H

#include "core/engine.h"

/* Every id is one of the vocabulary; vocab_size 0: it is not known. */
int kp_check_ids(const kp_id *ids, size_t n, uint32_t vocab_size, struct kp_err *err) KP_MUST_USE;
/* The same of a list of log-probabilities, which is for these `n` tokens (`ids` NULL: not known
   here which). */
int kp_check_logprobs(const struct kp_token_logprob *l, size_t n, const kp_id *ids,
	uint32_t vocab_size, struct kp_err *err) KP_MUST_USE;
/* There are none, or as many as the prompt has tokens. */
int kp_check_prompt_logprobs(size_t n, size_t n_prompt, struct kp_err *err) KP_MUST_USE;

/* What a generation asked for, as far as answers are held against it. */
struct kp_asked {
	size_t n_prompt;
	int32_t logprobs, prompt_logprobs; /* alternatives; below 0: none of the list */
	const kp_id *stop_ids;
	size_t n_stop_ids;
};
/* stop_ids: room for the sampling's, which are copied there. */
struct kp_asked kp_asked_of(const struct kp_engine_request *r, kp_id *stop_ids);
/* Leaves out of a delta that was checked what nobody asked for: lists of log-probabilities, alternatives
   beyond those asked for, a stop id that is none, more cached tokens than the prompt has. Changes the
   lists that it points to. */
void kp_asked_trim(const struct kp_asked *asked, struct kp_engine_delta *d);

/* A call's gRPC status as ours (engine/remote.h, "Errors"). true: the fault is the other side's, which
   the caller puts in front. `by_us`: we end all its calls, so CANCELLED means nothing. */
bool kp_check_status(struct kp_err *status, bool by_us);

#endif

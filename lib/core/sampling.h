/* How to sample: engine-neutral. A field counts only when its bit in `set` is on; unset means the
   engine's default (which may come from the model's generation_config). Names are those of OpenAI's
   API and of the engines' common extras. */
#ifndef KP_CORE_SAMPLING_H
#define KP_CORE_SAMPLING_H

#include "core/constraint.h"
#include "core/ids.h"
#include "base/str.h"

enum kp_sampling_field {
	KP_SET_TEMPERATURE = 1 << 0,
	KP_SET_TOP_P = 1 << 1,
	KP_SET_TOP_K = 1 << 2,
	KP_SET_MIN_P = 1 << 3,
	KP_SET_FREQUENCY_PENALTY = 1 << 4,
	KP_SET_PRESENCE_PENALTY = 1 << 5,
	KP_SET_REPETITION_PENALTY = 1 << 6,
	KP_SET_SEED = 1 << 7,
	KP_SET_MAX_TOKENS = 1 << 8,
	KP_SET_LOGPROBS = 1 << 9,
	KP_SET_PROMPT_LOGPROBS = 1 << 10,
	KP_SET_CONSTRAINT = 1 << 11,
	/* How tokens are chosen: what a model may bring values of its own for. */
	KP_SET_DEFAULTS = (1 << 7) - 1,
};

struct kp_logit_bias {
	kp_id id;
	float bias;
};

struct kp_sampling {
	uint32_t set; /* enum kp_sampling_field bits */
	double temperature, top_p, min_p;
	double frequency_penalty, presence_penalty, repetition_penalty;
	int64_t seed;
	int32_t top_k;       /* -1: all */
	uint32_t max_tokens; /* new tokens */
	uint32_t min_tokens;
	uint32_t n;                        /* sequences, >= 1 */
	int32_t logprobs, prompt_logprobs; /* how many alternatives besides the sampled token */
	bool ignore_eos, skip_special_tokens, spaces_between_special_tokens;
	bool include_stop_str;
	/* Stop strings are matched here, not by the engine. Stop ids go to it. */
	const kp_str *stop;
	size_t n_stop;
	const kp_id *stop_ids;
	size_t n_stop_ids;
	const struct kp_logit_bias *logit_bias;
	size_t n_logit_bias;
	struct kp_constraint constraint;
};

/* What s leaves unset is as `defaults` say, as far as they do: for a model's own sampling
   (kp_engine_info). */
static inline void kp_sampling_fill(struct kp_sampling *s, const struct kp_sampling *defaults)
{
	uint32_t taken = defaults->set & ~s->set;
	s->temperature = taken & KP_SET_TEMPERATURE ? defaults->temperature : s->temperature;
	s->top_p = taken & KP_SET_TOP_P ? defaults->top_p : s->top_p;
	s->top_k = taken & KP_SET_TOP_K ? defaults->top_k : s->top_k;
	s->min_p = taken & KP_SET_MIN_P ? defaults->min_p : s->min_p;
	s->frequency_penalty = taken & KP_SET_FREQUENCY_PENALTY ? defaults->frequency_penalty
								: s->frequency_penalty;
	s->presence_penalty =
		taken & KP_SET_PRESENCE_PENALTY ? defaults->presence_penalty : s->presence_penalty;
	s->repetition_penalty = taken & KP_SET_REPETITION_PENALTY ? defaults->repetition_penalty
								  : s->repetition_penalty;
	s->set |= taken & KP_SET_DEFAULTS;
}

#endif

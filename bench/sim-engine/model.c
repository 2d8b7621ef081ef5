/* DESIGN: the next token is a hash of (prompt and seed, choice, position), or the next of a given list. Nothing is remembered: any position can be asked for
   at any time, so a call keeps two counters per choice and no ids. */
#include "sim.h"
#include "base/map.h"

static uint64_t mix(uint64_t x)
{
	/* The finalizer of SplitMix64 (Steele, Lea, Flood 2014). */
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

struct kp_sim_model kp_sim_model_of(
	const struct kp_sim_opts *o, const Vllm__Grpc__Engine__GenerateRequest *r)
{
	static const uint8_t zero[16];
	const Vllm__Grpc__Engine__SamplingParams *p = r->sampling_params;
	uint64_t seed = p && p->has_seed_case ? (uint32_t)p->seed : 0;
	uint64_t prompt = kp_siphash(
		r->tokenized->input_ids, r->tokenized->n_input_ids * sizeof(uint32_t), zero);
	return (struct kp_sim_model){ .vocab = o->vocab,
		.tokens = o->tokens,
		.n_tokens = o->n_tokens,
		.key = mix(prompt ^ seed) };
}

uint32_t kp_sim_token(const struct kp_sim_model *m, uint32_t choice, uint32_t position)
{
	if (m->n_tokens) {
		return m->tokens[(position + (size_t)choice) % m->n_tokens];
	}
	return (uint32_t)(mix(m->key ^ (uint64_t)choice << 32 ^ position) % m->vocab);
}

float kp_sim_logprob(const struct kp_sim_model *m, uint32_t token, uint32_t position)
{
	return -(float)(mix(m->key + token + ((uint64_t)position << 32)) % 4096) / 1024.0f;
}

int kp_sim_check(const struct kp_sim_opts *o, const Vllm__Grpc__Engine__GenerateRequest *r,
	struct kp_err *err)
{
	const Vllm__Grpc__Engine__SamplingParams *p = r->sampling_params;
	if (r->input_case != VLLM__GRPC__ENGINE__GENERATE_REQUEST__INPUT_TOKENIZED ||
		!r->tokenized) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "only tokenized input is served");
	}
	if (r->tokenized->n_input_ids == 0) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "The decoder prompt cannot be empty");
	}
	for (size_t i = 0; i < r->tokenized->n_input_ids; i++) {
		if (r->tokenized->input_ids[i] >= o->vocab) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"Token id %u is out of vocabulary", r->tokenized->input_ids[i]);
		}
	}
	if (r->tokenized->n_input_ids >= o->max_context) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"The decoder prompt (length %zu) is longer than the maximum model length of %u.",
			r->tokenized->n_input_ids, o->max_context);
	}
	if (!p) {
		return 0;
	}
	if (p->has_max_tokens_case && p->max_tokens == 0) {
		return kp_err_set(
			err, KP_INVALID_ARGUMENT, "max_tokens must be at least 1, got 0.");
	}
	if (p->has_temperature_case && (p->temperature < 0 || p->temperature > 2)) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"temperature must be in [0, 2], got %g.", (double)p->temperature);
	}
	if (p->has_temperature_case && p->temperature == 0 && p->n > 1) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"n must be 1 when using greedy sampling, got %u.", p->n);
	}
	if (p->top_p < 0 || p->top_p > 1) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "top_p must be in (0, 1], got %g.",
			(double)p->top_p);
	}
	if (p->n > 1024) {
		return kp_err_set(
			err, KP_INVALID_ARGUMENT, "n must be at most 1024, got %u.", p->n);
	}
	if ((p->has_logprobs_case && p->logprobs > 20) ||
		(p->has_prompt_logprobs_case && p->prompt_logprobs > 20)) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"Requested sample logprobs greater than max allowed: 20");
	}
	return 0;
}

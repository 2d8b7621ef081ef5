/* DESIGN: the next token is a hash of (prompt and seed, choice, position), or the next of a given list. Nothing is remembered: any position can be asked for
   at any time, so a call keeps two counters per choice and no ids. */
#include "protocol.h"
#include "base/map.h"

static uint64_t mix(uint64_t x)
{
	/* The finalizer of SplitMix64 (Steele, Lea, Flood 2014). */
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

struct kp_sim_model kp_sim_model_of(const struct kp_sim_opts *o, const struct kp_sim_request *r)
{
	static const uint8_t zero[16];
	size_t turns = 0;
	for (size_t i = 0; i < r->n_ids && o->turn_step; i++) {
		turns += r->ids[i] == o->turn_id;
	}
	uint64_t prompt = kp_siphash(r->ids, r->n_ids * sizeof(uint32_t), zero);
	return (struct kp_sim_model){ .vocab = o->vocab,
		.tokens = o->tokens,
		.n_tokens = o->n_tokens,
		.from = (size_t)o->seed_step * r->seed + o->turn_step * turns,
		.key = mix(prompt ^ r->seed) };
}

uint32_t kp_sim_token(const struct kp_sim_model *m, uint32_t choice, uint32_t position)
{
	if (m->n_tokens) {
		return m->tokens[(m->from + position + choice) % m->n_tokens];
	}
	return (uint32_t)(mix(m->key ^ (uint64_t)choice << 32 ^ position) % m->vocab);
}

float kp_sim_logprob(const struct kp_sim_model *m, uint32_t token, uint32_t position)
{
	return -(float)(mix(m->key + token + ((uint64_t)position << 32)) % 4096) / 1024.0f;
}

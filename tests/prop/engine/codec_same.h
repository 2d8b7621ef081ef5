/* What our decoder made of a response against what protobuf-c did (see codec.h, which includes this). */
#ifndef TESTS_PROP_ENGINE_CODEC_SAME_H
#define TESTS_PROP_ENGINE_CODEC_SAME_H

#include "engine/protocol.h"

static bool same_tops(
	const struct kp_token_logprob *got, size_t n, PB(TopLogProbs) *const *tops, size_t n_tops)
{
	for (size_t i = 0; i < n; i++) {
		size_t want = n_tops ? tops[i]->n_values : 0;
		if (got[i].n_top != want) {
			return false;
		}
		for (size_t k = 0; k < want; k++) {
			if (got[i].top[k].id != tops[i]->token_ids[k] ||
				!same_float(got[i].top[k].logprob, tops[i]->values[k])) {
				return false;
			}
		}
	}
	return true;
}
/* Whether the three lists go together at all. */
static bool tops_consistent(PB(TopLogProbs) *const *tops, size_t n_tops, size_t n)
{
	for (size_t i = 0; i < n_tops; i++) {
		if (tops[i]->n_values != tops[i]->n_token_ids) {
			return false;
		}
	}
	return n_tops == 0 || n_tops == n;
}
static bool output_consistent(const PB(OutputLogProbs) * l)
{
	return !l || (l->n_token_logprobs == l->n_token_ids &&
			     tops_consistent(l->top_logprobs, l->n_top_logprobs, l->n_token_ids));
}
static bool input_consistent(const PB(InputLogProbs) * l)
{
	return !l || (l->n_token_logprobs == l->n_token_ids &&
			     tops_consistent(l->top_logprobs, l->n_top_logprobs, l->n_token_ids));
}

static bool same_output(const struct kp_token_logprob *got, size_t n, const PB(OutputLogProbs) * l)
{
	if (n != (l ? l->n_token_ids : 0) || (n == 0) != (got == NULL)) {
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		if (got[i].id != l->token_ids[i] || got[i].is_absent ||
			!same_float(got[i].logprob, l->token_logprobs[i])) {
			return false;
		}
	}
	return n == 0 || same_tops(got, n, l->top_logprobs, l->n_top_logprobs);
}
static bool same_input(const struct kp_token_logprob *got, size_t n, const PB(InputLogProbs) * l)
{
	if (n != (l ? l->n_token_ids : 0)) {
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		const PB(InputTokenLogProb) *t = l->token_logprobs[i];
		if (got[i].id != l->token_ids[i] || got[i].is_absent != (t->has_value_case == 0) ||
			(!got[i].is_absent && !same_float(got[i].logprob, t->value))) {
			return false;
		}
	}
	return n == 0 || same_tops(got, n, l->top_logprobs, l->n_top_logprobs);
}

static enum kp_response_kind kind_of(const PB(GenerateResponse) * m)
{
	uint32_t number = (uint32_t)m->response_case;
	return number == PROTOCOL.response.chunk      ? KP_RESPONSE_CHUNK
	       : number == PROTOCOL.response.complete ? KP_RESPONSE_COMPLETE
						      : KP_RESPONSE_NOTHING;
}

static bool consistent(const PB(GenerateResponse) * m)
{
	if (kind_of(m) == KP_RESPONSE_CHUNK) {
		return output_consistent(m->chunk->output_logprobs) &&
		       input_consistent(m->chunk->input_logprobs);
	}
	return kind_of(m) != KP_RESPONSE_COMPLETE ||
	       (output_consistent(m->complete->output_logprobs) &&
		       input_consistent(m->complete->input_logprobs));
}

static bool same(const struct kp_response *r, const PB(GenerateResponse) * m)
{
	if (r->kind != kind_of(m)) {
		return false;
	}
	if (r->kind == KP_RESPONSE_CHUNK) {
		const PB(GenerateStreamChunk) *c = m->chunk;
		return r->n_ids == c->n_token_ids &&
		       (r->n_ids == 0 || memcmp(r->ids, c->token_ids, r->n_ids * 4) == 0) &&
		       r->prompt_tokens == c->prompt_tokens &&
		       r->completion_tokens == c->completion_tokens &&
		       r->cached_tokens == c->cached_tokens && r->choice == c->index &&
		       same_output(r->logprobs, r->n_logprobs, c->output_logprobs) &&
		       same_input(r->prompt_logprobs, r->n_prompt_logprobs, c->input_logprobs);
	}
	if (r->kind == KP_RESPONSE_COMPLETE) {
		const PB(GenerateComplete) *c = m->complete;
		const struct kp_response_fields *f = &PROTOCOL.response.in[KP_RESPONSE_COMPLETE];
		bool has_str = (uint32_t)c->matched_stop_case == f->matched_str;
		return r->n_ids == c->n_output_ids &&
		       (r->n_ids == 0 || memcmp(r->ids, c->output_ids, r->n_ids * 4) == 0) &&
		       r->prompt_tokens == c->prompt_tokens &&
		       r->completion_tokens == c->completion_tokens &&
		       r->cached_tokens == c->cached_tokens && r->choice == c->index &&
		       kp_str_eq(r->finish_reason, kp_str_c(c->finish_reason)) &&
		       r->has_matched_id == ((uint32_t)c->matched_stop_case == f->matched_id) &&
		       (!r->has_matched_id || r->matched_id == c->matched_token_id) &&
		       (has_str ? kp_str_eq(r->matched_str, kp_str_c(c->matched_stop_str))
				: r->matched_str.p == NULL) &&
		       same_output(r->logprobs, r->n_logprobs, c->output_logprobs) &&
		       same_input(r->prompt_logprobs, r->n_prompt_logprobs, c->input_logprobs);
	}
	return true;
}

#endif

/* vLLM's protocol by hand against protobuf-c; see codec.h. */
#include "vllm/vllm_engine.pb-c.h"

#define PB(name)    Vllm__Grpc__Engine__##name
#define PB_FN(name) vllm__grpc__engine__##name
#define PROTOCOL    kp_vllm_protocol
#include "tests/prop/engine/codec.h"

static bool can_say(const struct kp_sampling *s)
{
	(void)s;
	return true;
}

static void check_constraint(const PB(SamplingParams) * p, const struct kp_sampling *s)
{
	const struct kp_constraint *c = &s->constraint;
	bool has = s->set & KP_SET_CONSTRAINT && c->kind;
	static const int cases[] = { [KP_CONSTRAINT_JSON_OBJECT] = 20,
		[KP_CONSTRAINT_JSON_SCHEMA] = 16,
		[KP_CONSTRAINT_REGEX] = 17,
		[KP_CONSTRAINT_GRAMMAR] = 18,
		[KP_CONSTRAINT_CHOICE] = 21,
		[KP_CONSTRAINT_TAG] = 19 };
	assert_int_equal(p->grammar_from_first_token, has);
	assert_int_equal(p->constraint_case, has ? cases[c->kind] : 0);
	if (p->constraint_case == 21) {
		assert_int_equal(p->choice->n_choices, c->n_choices);
		assert_str(kp_str_c(p->choice->choices[c->n_choices - 1]),
			c->choices[c->n_choices - 1]);
	} else if (p->constraint_case == 20) {
		assert_true(p->json_object);
	} else if (has) { /* strings of a oneof lie in one place */
		assert_str(kp_str_c(p->json_schema), c->text);
	}
}

static void check_request(const PB(GenerateRequest) * m, const struct kp_engine_request *r)
{
	const PB(SamplingParams) *p = m->sampling_params;
	const struct kp_sampling *s = r->sampling;
	const struct kp_sampling none = { 0 };
#define SAID(bit) (s->set & (bit) ? s : &none)
#define SAYS(bit) (s->set & (bit))
	assert_int_equal(m->input_case, VLLM__GRPC__ENGINE__GENERATE_REQUEST__INPUT_TOKENIZED);
	assert_int_equal(m->stream, r->stream);
	assert_int_equal(p->has_temperature_case != 0, SAYS(KP_SET_TEMPERATURE) != 0);
	if (p->has_temperature_case) {
		assert_true(
			same_float(p->temperature, (float)SAID(KP_SET_TEMPERATURE)->temperature));
	}
	assert_true(p->top_p == (float)SAID(KP_SET_TOP_P)->top_p);
	assert_int_equal(p->top_k, KP_MAX(SAID(KP_SET_TOP_K)->top_k, 0));
	assert_true(p->min_p == (float)SAID(KP_SET_MIN_P)->min_p);
	assert_true(
		p->frequency_penalty == (float)SAID(KP_SET_FREQUENCY_PENALTY)->frequency_penalty);
	assert_true(p->presence_penalty == (float)SAID(KP_SET_PRESENCE_PENALTY)->presence_penalty);
	assert_true(p->repetition_penalty ==
		    (float)SAID(KP_SET_REPETITION_PENALTY)->repetition_penalty);
	assert_int_equal(p->has_max_tokens_case != 0, SAYS(KP_SET_MAX_TOKENS) != 0);
	assert_int_equal(
		p->has_max_tokens_case ? p->max_tokens : 0, SAID(KP_SET_MAX_TOKENS)->max_tokens);
	assert_int_equal(p->min_tokens, s->min_tokens);
	assert_int_equal(p->n_stop, 0);
	assert_int_equal(p->n_stop_token_ids, s->n_stop_ids);
	assert_memory_equal(p->n_stop_token_ids ? (const void *)p->stop_token_ids : "", s->stop_ids,
		s->n_stop_ids * sizeof(kp_id));
	assert_int_equal(p->ignore_eos, s->ignore_eos);
	assert_int_equal(p->n, s->n);
	assert_int_equal(p->has_logprobs_case != 0, (s->set & KP_SET_LOGPROBS) != 0);
	assert_int_equal(
		p->has_logprobs_case ? p->logprobs : 0, s->set & KP_SET_LOGPROBS ? s->logprobs : 0);
	assert_int_equal(p->has_prompt_logprobs_case != 0, (s->set & KP_SET_PROMPT_LOGPROBS) != 0);
	assert_int_equal(p->has_prompt_logprobs_case ? p->prompt_logprobs : 0,
		s->set & KP_SET_PROMPT_LOGPROBS ? s->prompt_logprobs : 0);
	assert_int_equal(p->has_seed_case != 0, (s->set & KP_SET_SEED) != 0);
	if (p->has_seed_case && s->seed == (int32_t)s->seed) {
		assert_int_equal(p->seed, s->seed);
	} else if (p->has_seed_case) {
		assert_true(p->seed >= 0);
	}
	check_constraint(p, s);
	assert_int_equal(p->n_logit_bias, s->n_logit_bias);
	for (size_t i = 0; i < s->n_logit_bias; i++) {
		assert_int_equal(p->logit_bias[i]->key, s->logit_bias[i].id);
		assert_true(same_float(p->logit_bias[i]->value, s->logit_bias[i].bias));
	}
}

int main(void)
{
	return run_codec_tests();
}

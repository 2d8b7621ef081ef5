/* SGLang's protocol by hand against protobuf-c; see codec.h. */
#include "sglang/sglang_scheduler.pb-c.h"

#define PB(name)    Sglang__Grpc__Scheduler__##name
#define PB_FN(name) sglang__grpc__scheduler__##name
#define PROTOCOL    kp_sglang_protocol
#include "tests/prop/engine/codec.h"

static const struct kp_sampling *says(const struct kp_sampling *s, uint32_t bit)
{
	static const struct kp_sampling neutral = {
		.temperature = 1, .top_p = 1, .top_k = -1, .repetition_penalty = 1
	};
	return s->set & bit ? s : &neutral;
}

static bool can_say(const struct kp_sampling *s)
{
	bool is_greedy = says(s, KP_SET_TEMPERATURE)->temperature < 1e-6;
	return (is_greedy || !(s->set & KP_SET_SEED)) &&
	       !(s->set & KP_SET_LOGPROBS && s->logprobs < 0) &&
	       !(s->set & KP_SET_PROMPT_LOGPROBS && s->prompt_logprobs < 0);
}

static void check_logprobs(const PB(GenerateRequest) * m, const struct kp_sampling *s)
{
	int32_t output = s->set & KP_SET_LOGPROBS ? s->logprobs : -1;
	int32_t prompt = s->set & KP_SET_PROMPT_LOGPROBS ? s->prompt_logprobs : -1;
	assert_int_equal(m->return_logprob, output >= 0 || prompt >= 0);
	assert_int_equal(m->logprob_start_len, prompt >= 0 ? 0 : -1);
	assert_int_equal(m->top_logprobs_num, KP_MAX(KP_MAX(output, prompt), 0));
}

static void check_constraint(const PB(SamplingParams) * p, const struct kp_sampling *s)
{
	const struct kp_constraint *c = &s->constraint;
	bool has = s->set & KP_SET_CONSTRAINT && c->kind;
	static const int cases[] = { [KP_CONSTRAINT_JSON_OBJECT] = 14,
		[KP_CONSTRAINT_JSON_SCHEMA] = 14,
		[KP_CONSTRAINT_REGEX] = 13,
		[KP_CONSTRAINT_GRAMMAR] = 15,
		[KP_CONSTRAINT_CHOICE] = 13,
		[KP_CONSTRAINT_TAG] = 16 };
	assert_int_equal(p->constraint_case, has ? cases[c->kind] : 0);
	if (!has) {
		return;
	}
	const char *want = c->kind == KP_CONSTRAINT_JSON_OBJECT ? "{\"type\":\"object\"}"
			   : c->n_choices == 1                  ? "yes"
			   : c->n_choices                       ? "yes|no\\. \"é\" \\(1\\/2\\)\\n"
								: NULL;
	assert_str(kp_str_c(p->json_schema), want ? kp_str_c(want) : c->text);
}

static void check_request(const PB(GenerateRequest) * m, const struct kp_engine_request *r)
{
	const PB(SamplingParams) *p = m->sampling_params;
	const struct kp_sampling *s = r->sampling;
	assert_true(p->temperature == (float)says(s, KP_SET_TEMPERATURE)->temperature);
	assert_true(p->top_p == (float)says(s, KP_SET_TOP_P)->top_p);
	int32_t top_k = says(s, KP_SET_TOP_K)->top_k;
	assert_int_equal(p->top_k, top_k ? top_k : -1);
	assert_true(p->min_p == (float)says(s, KP_SET_MIN_P)->min_p);
	assert_true(p->frequency_penalty ==
		    (float)says(s, KP_SET_FREQUENCY_PENALTY)->frequency_penalty);
	assert_true(
		p->presence_penalty == (float)says(s, KP_SET_PRESENCE_PENALTY)->presence_penalty);
	assert_true(p->repetition_penalty ==
		    (float)says(s, KP_SET_REPETITION_PENALTY)->repetition_penalty);
	assert_int_equal(p->has_max_new_tokens_case != 0, (s->set & KP_SET_MAX_TOKENS) != 0);
	assert_int_equal(p->has_max_new_tokens_case ? p->max_new_tokens : 0,
		says(s, KP_SET_MAX_TOKENS)->max_tokens);
	assert_int_equal(p->min_new_tokens, s->min_tokens);
	assert_int_equal(p->n_stop, 0);
	assert_int_equal(p->n_stop_token_ids, s->n_stop_ids);
	assert_memory_equal(p->n_stop_token_ids ? (const void *)p->stop_token_ids : "", s->stop_ids,
		s->n_stop_ids * sizeof(kp_id));
	assert_int_equal(p->ignore_eos, s->ignore_eos);
	assert_int_equal(p->n, KP_MAX(s->n, 1u));
	assert_int_equal(m->stream, r->stream || s->n > 1);
	check_logprobs(m, s);
	check_constraint(p, s);
	assert_int_equal(p->n_logit_bias, s->n_logit_bias);
	for (size_t i = 0; i < s->n_logit_bias; i++) {
		uint64_t id;
		assert_true(kp_str_u64(kp_str_c(p->logit_bias[i]->key), UINT32_MAX, &id));
		assert_int_equal(id, s->logit_bias[i].id);
		assert_true(same_float(p->logit_bias[i]->value, s->logit_bias[i].bias));
	}
}

int main(void)
{
	return run_codec_tests();
}

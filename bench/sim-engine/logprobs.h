/* Log-probabilities as the protocols' messages, which are the same under other names: included by a protocol's file after it has said what PB(Name) and
   PB_INIT(name) are. */
#include "protocol.h"

#ifdef PB

typedef PB(TopLogProbs) tops_pb;
typedef PB(OutputLogProbs) output_pb;
typedef PB(InputLogProbs) input_pb;
typedef PB(InputTokenLogProb) value_pb;

static tops_pb **make_tops(struct kp_arena *a, const struct kp_sim_logprobs *l)
{
	tops_pb **tops = kp_arena_xalloc(a, l->n * sizeof(*tops) + 1);
	for (size_t i = 0; i < l->n; i++) {
		tops[i] = kp_arena_xalloc(a, sizeof(*tops[i]));
		PB_INIT(top_log_probs)(tops[i]);
		tops[i]->n_values = tops[i]->n_token_ids = l->k;
		tops[i]->values = l->top_values + i * l->k;
		tops[i]->token_ids = l->top_ids + i * l->k;
	}
	return tops;
}

static output_pb *output_logprobs(struct kp_arena *a, const struct kp_sim_logprobs *l)
{
	if (!l) {
		return NULL;
	}
	output_pb *m = kp_arena_xalloc(a, sizeof(*m));
	PB_INIT(output_log_probs)(m);
	m->n_token_ids = m->n_token_logprobs = l->n;
	m->token_ids = l->ids;
	m->token_logprobs = l->values;
	if (l->k) {
		m->n_top_logprobs = l->n;
		m->top_logprobs = make_tops(a, l);
	}
	return m;
}

/* The first token of a prompt has none. */
static input_pb *input_logprobs(struct kp_arena *a, const struct kp_sim_logprobs *l)
{
	if (!l) {
		return NULL;
	}
	input_pb *m = kp_arena_xalloc(a, sizeof(*m));
	PB_INIT(input_log_probs)(m);
	m->n_token_ids = m->n_token_logprobs = l->n;
	m->token_ids = l->ids;
	m->token_logprobs = kp_arena_xalloc(a, l->n * sizeof(*m->token_logprobs));
	for (size_t i = 0; i < l->n; i++) {
		value_pb *t = kp_arena_xalloc(a, sizeof(*t));
		PB_INIT(input_token_log_prob)(t);
		if (i > 0) {
			t->has_value_case = 1; /* the number of `value` */
			t->value = l->values[i];
		}
		m->token_logprobs[i] = t;
	}
	if (l->k) {
		m->n_top_logprobs = l->n;
		m->top_logprobs = make_tops(a, l);
		m->top_logprobs[0]->n_values = m->top_logprobs[0]->n_token_ids = 0;
	}
	return m;
}

#endif

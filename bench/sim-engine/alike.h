/* What the protocols' messages say alike under other names: included by a protocol's file after it has said what PB(Name) and PB_INIT(name) are. */
#include "protocol.h"
#include "base/clock.h"

#ifdef PB

typedef PB(TokenizedInput) tokenized_pb;
typedef PB(TopLogProbs) tops_pb;
typedef PB(OutputLogProbs) output_pb;
typedef PB(InputLogProbs) input_pb;
typedef PB(InputTokenLogProb) value_pb;

/* protobuf-c's strings are not const, though it only reads what it packs. */
static char *text(const char *z)
{
	return kp_unconst(z);
}

/* --- Generate ------------------------------------------------------------------------------------------------------ */

/* Of a request that says nothing. */
static struct kp_sim_request no_request(void)
{
	return (struct kp_sim_request){
		.id = "", .text = "", .n = 1, .logprobs = -1, .prompt_logprobs = -1
	};
}

static void read_input(struct kp_sim_request *r, const tokenized_pb *m)
{
	r->has_ids = true;
	r->text = m->original_text;
	r->ids = m->input_ids;
	r->n_ids = m->n_input_ids;
}

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

/* completion_tokens are those of the message; how a choice ended is the protocol's to say. */
static PB(GenerateStreamChunk) make_chunk(const struct kp_sim_part *p)
{
	PB(GenerateStreamChunk) m;
	PB_INIT(generate_stream_chunk)(&m);
	m.index = p->choice;
	m.token_ids = p->ids;
	m.n_token_ids = p->n_ids;
	m.prompt_tokens = (uint32_t)p->request->n_ids;
	m.completion_tokens = (uint32_t)p->n_ids;
	m.cached_tokens = p->cached;
	m.output_logprobs = output_logprobs(p->arena, p->output);
	m.input_logprobs = input_logprobs(p->arena, p->prompt);
	return m;
}

static PB(GenerateComplete) make_complete(const struct kp_sim_part *p)
{
	PB(GenerateComplete) m;
	PB_INIT(generate_complete)(&m);
	m.index = p->choice;
	m.output_ids = p->ids;
	m.n_output_ids = p->n_ids;
	m.finish_reason = text(p->finish);
	m.prompt_tokens = (uint32_t)p->request->n_ids;
	m.completion_tokens = (uint32_t)p->n_ids;
	m.cached_tokens = p->cached;
	m.output_logprobs = output_logprobs(p->arena, p->output);
	m.input_logprobs = input_logprobs(p->arena, p->prompt);
	return m;
}

/* --- the other methods --------------------------------------------------------------------------------------------- */

static void answer_health(struct kp_sim *s, grpc_call *call, grpc_metadata_array metadata,
	const char *good, const char *bad)
{
	PB(HealthCheckResponse) m;
	PB_INIT(health_check_response)(&m);
	m.healthy = !kp_sim_fault_on(&s->control, KP_SIM_UNHEALTHY);
	m.message = text(m.healthy ? good : bad);
	kp_sim_answer(s, call, metadata, &m.base);
}

static void model_info(struct kp_sim *s, const struct kp_sim_protocol *p, grpc_call *call,
	grpc_metadata_array metadata, kp_str bytes)
{
	(void)p;
	(void)bytes;
	const struct kp_sim_opts *o = s->opts;
	PB(GetModelInfoResponse) m;
	PB_INIT(get_model_info_response)(&m);
	char *architecture = text(o->architecture);
	int32_t eos[KP_LEN(o->eos)];
	for (size_t i = 0; i < o->n_eos; i++) {
		eos[i] = (int32_t)o->eos[i];
	}
	m.model_path = m.tokenizer_path = text(o->model);
	m.served_model_name = text(o->served_name);
	m.is_generation = true;
	m.max_context_length = m.max_req_input_len = (int32_t)o->max_context;
	m.vocab_size = (int32_t)o->vocab;
	m.model_type = text(o->model_type);
	m.n_architectures = 1;
	m.architectures = &architecture;
	m.n_eos_token_ids = o->n_eos;
	m.eos_token_ids = eos;
	m.bos_token_id = (int32_t)o->bos;
	m.default_sampling_params_json = text(o->defaults);
	kp_sim_answer(s, call, metadata, &m.base);
}

static void loads(struct kp_sim *s, const struct kp_sim_protocol *p, grpc_call *call,
	grpc_metadata_array metadata, kp_str bytes)
{
	(void)p;
	(void)bytes;
	char now[25];
	PB(SchedulerLoad) one, *list = &one;
	PB(GetLoadsResponse) m;
	PB_INIT(scheduler_load)(&one);
	PB_INIT(get_loads_response)(&m);
	kp_time_rfc3339(kp_wall_ns(), now);
	one.num_running_reqs = (int32_t)s->n_running;
	one.num_waiting_reqs = (int32_t)s->n_waiting;
	one.num_total_reqs = (int32_t)(s->n_running + s->n_waiting);
	one.num_used_tokens = kp_sim_used_tokens(s);
	one.max_total_num_tokens = KP_SIM_CAPACITY;
	one.token_usage = one.utilization = (double)one.num_used_tokens / KP_SIM_CAPACITY;
	one.max_running_requests = KP_SIM_MAX_RUNNING;
	m.timestamp = now;
	m.version = text("sim-engine");
	m.dp_rank_count = 1;
	m.n_loads = 1;
	m.loads = &list;
	kp_sim_answer(s, call, metadata, &m.base);
}

#endif

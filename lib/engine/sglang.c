/* DESIGN: sglang.grpc.scheduler (proto/sglang/sglang_scheduler.proto) as engine/protocol.h wants it:
   the request by hand, field by field; the layout of the response; the rare answers through
   protobuf-c.

   Most fields of its SamplingParams have no presence and 0 is not their neutral value, so what
   nobody says is written out. What the protocol has no field for is refused by name: a request that
   is answered differently without a word would be worse. */
#include "engine/sglang.h"
#include "engine/cold.h"
#include "engine/protocol.h"
#include "engine/request.h"
#include "sglang/sglang_scheduler.pb-c.h"

#include <stdio.h>

#define GREEDY 1e-6 /* SGLang's: below, the likeliest token is taken */

/* --- requests --- */

static int check(const struct kp_sampling *s, struct kp_err *err)
{
	bool is_greedy = s->set & KP_SET_TEMPERATURE && s->temperature < GREEDY;
	if (s->set & KP_SET_SEED && !is_greedy) {
		return kp_err_param(err, "seed",
			"`seed`: SGLang takes none; leave it out, or set `temperature` to 0");
	}
	if ((s->set & KP_SET_LOGPROBS && s->logprobs < 0) ||
		(s->set & KP_SET_PROMPT_LOGPROBS && s->prompt_logprobs < 0)) {
		return kp_err_param(
			err, "logprobs", "`logprobs`: SGLang does not report the whole vocabulary");
	}
	return 0;
}

static void add_bias(struct kp_buf *b, const struct kp_logit_bias *bias, size_t n)
{
	char id[12];
	for (size_t i = 0; i < n; i++) {
		size_t at = kp_wire_begin(b, 22); /* a map is a list of {1: key, 2: value} */
		int len = snprintf(id, sizeof(id), "%u", bias[i].id);
		kp_wire_add_str(b, 1, kp_str_n(id, (size_t)len));
		kp_wire_add_float(b, 2, bias[i].bias);
		kp_wire_end(b, at);
	}
}

/* A regular expression of the choices: what is no letter or digit stands behind a backslash, but for bytes of other characters. */
static void add_choices(struct kp_buf *b, uint32_t number, const struct kp_constraint *c)
{
	size_t at = kp_wire_begin(b, number);
	for (size_t i = 0; i < c->n_choices; i++) {
		kp_buf_addz(b, i ? "|" : "");
		for (size_t k = 0; k < c->choices[i].n; k++) {
			char byte = c->choices[i].p[k];
			if (byte == '\n') {
				kp_buf_lit(b, "\\n");
				continue;
			}
			if (byte > 0 && strchr("\\^$.|?*+()[]{}/-", byte)) {
				kp_buf_addc(b, '\\');
			}
			kp_buf_addc(b, byte);
		}
	}
	kp_wire_end(b, at);
}

/* It has no fields for "any object" and choices: the one is a schema, the other a regular expression. */
static void add_constraint(struct kp_buf *b, const struct kp_constraint *c)
{
	switch (c->kind) {
	case KP_CONSTRAINT_NONE:
		break;
	case KP_CONSTRAINT_REGEX:
		kp_wire_add_str(b, 13, c->text);
		break;
	case KP_CONSTRAINT_CHOICE:
		add_choices(b, 13, c);
		break;
	case KP_CONSTRAINT_JSON_SCHEMA:
		kp_wire_add_str(b, 14, c->text);
		break;
	case KP_CONSTRAINT_JSON_OBJECT:
		kp_wire_add_str(b, 14, KP_S("{\"type\":\"object\"}"));
		break;
	case KP_CONSTRAINT_GRAMMAR:
		kp_wire_add_str(b, 15, c->text);
		break;
	case KP_CONSTRAINT_TAG:
		kp_wire_add_str(b, 16, c->text);
		break;
	}
}

static void add_sampling(struct kp_buf *b, const struct kp_sampling *s)
{
/* What is asked, or what changes nothing. */
#define OR(field, bit, neutral) (s->set & (bit) ? s->field : (neutral))
	kp_request_float(b, 1, OR(temperature, KP_SET_TEMPERATURE, 1));
	kp_request_float(b, 2, OR(top_p, KP_SET_TOP_P, 1));
	int32_t top_k = OR(top_k, KP_SET_TOP_K, -1);
	kp_wire_add_i64(b, 3, top_k > 0 ? top_k : -1);
	kp_request_float(b, 4, OR(min_p, KP_SET_MIN_P, 0));
	kp_request_float(b, 5, OR(frequency_penalty, KP_SET_FREQUENCY_PENALTY, 0));
	kp_request_float(b, 6, OR(presence_penalty, KP_SET_PRESENCE_PENALTY, 0));
	kp_request_float(b, 7, OR(repetition_penalty, KP_SET_REPETITION_PENALTY, 1));
#undef OR
	if (s->set & KP_SET_MAX_TOKENS) {
		kp_wire_add_u64(b, 8, s->max_tokens);
	}
	kp_wire_add_packed(b, 10, s->stop_ids, s->n_stop_ids);
	if (s->set & KP_SET_CONSTRAINT) {
		add_constraint(b, &s->constraint);
	}
	kp_wire_add_u64(b, 17, KP_MAX(s->n, 1u));
	kp_request_u64(b, 18, s->min_tokens);
	kp_request_u64(b, 19, s->ignore_eos);
	add_bias(b, s->logit_bias, s->n_logit_bias);
}

static void add_logprobs(struct kp_buf *b, const struct kp_sampling *s)
{
	bool of_output = s->set & KP_SET_LOGPROBS, of_prompt = s->set & KP_SET_PROMPT_LOGPROBS;
	int32_t most = KP_MAX(of_output ? s->logprobs : 0, of_prompt ? s->prompt_logprobs : 0);
	kp_request_u64(b, 5, of_output || of_prompt);
	if (!of_prompt) {
		kp_wire_add_i64(b, 6, -1); /* 0 is from the first token on */
	}
	kp_request_u64(b, 7, (uint64_t)most);
}

static const struct kp_request_media_fields media_fields = {
	.of_request = 3, .pixels = 4, .tensors = 9, .token = 10, .spans = 11
};

/* Its other models want more than the servicer can be sent; without, the scheduler dies. */
int kp_sglang_check_media(bool has_grid, struct kp_err *err)
{
	return has_grid ? 0
			: kp_err_param(err, "messages",
				  "`messages`: SGLang takes images of Qwen's models only");
}

static int encode(struct kp_buf *b, const struct kp_engine_request *r, struct kp_err *err)
{
	const struct kp_sampling *s = r->sampling;
	if (check(s, err) < 0) {
		return -1;
	}
	if (r->media && kp_sglang_check_media(r->media->grid.n_dims > 0, err)) {
		return -1;
	}
	kp_wire_add_str(b, 1, r->request_id);
	kp_request_input(b, 2, r);
	size_t at = kp_wire_begin(b, 4);
	add_sampling(b, s);
	kp_wire_end(b, at);
	add_logprobs(b, s);
	/* Not streamed, the choices of a prompt cannot be told apart: all say index 0. */
	kp_request_u64(b, 17, r->stream || s->n > 1);
	if (r->media) {
		kp_request_media(b, &media_fields, r);
	}
	return kp_buf_finish(b, "generate request", err);
}

/* Its Python servicer notices the end of a call only while it waits for the scheduler, not while it
   sends, and then the request runs on to its last token with nobody listening. The scheduler takes
   every request whose id begins with this one. */
static void encode_abort(struct kp_buf *b, kp_str request_id)
{
	kp_wire_add_str(b, 1, request_id);
}

/* No stop string is ever sent, so a matched one is SGLang's word for a model that has failed. */
static enum kp_finish finish(const struct kp_response *r)
{
	return r->matched_str.p ? KP_FINISH_ERROR : kp_response_finish(r->finish_reason);
}

/* --- rare answers --- */

static int read_health(kp_str bytes, struct kp_err *err)
{
	KP_AUTO(arena) struct kp_arena *scratch = kp_arena_create(KP_COLD_SCRATCH);
	const Sglang__Grpc__Scheduler__HealthCheckResponse *m = kp_cold_unpack(
		&sglang__grpc__scheduler__health_check_response__descriptor, bytes, scratch, err);
	return m ? kp_cold_health(m->healthy, m->message, err) : -1;
}

/* Three things are not what they are called. max_context_length is, of the Python servicer, the size
   of the KV cache; the longest prompt, which the scheduler makes six tokens less than the context or
   the cache, whichever is less, tells the context. And where that servicer does not know the model's
   end-of-sequence ids, which it never does, its vocabulary (128256, Llama 3's) and its
   begin-of-sequence id are made up. */
static int read_model_info(
	kp_str bytes, struct kp_arena *a, struct kp_engine_info *ret, struct kp_err *err)
{
	enum { BELOW_CONTEXT = 6 };
	KP_AUTO(arena) struct kp_arena *scratch = kp_arena_create(KP_COLD_SCRATCH);
	const Sglang__Grpc__Scheduler__GetModelInfoResponse *m = kp_cold_unpack(
		&sglang__grpc__scheduler__get_model_info_response__descriptor, bytes, scratch, err);
	if (!m) {
		return -1;
	}
	int64_t from_prompt = (int64_t)m->max_req_input_len + BELOW_CONTEXT;
	bool knows_model = m->n_eos_token_ids > 0;
	const struct kp_cold_model model = { .path = m->model_path,
		.served_name = m->served_model_name,
		.type = m->model_type,
		.architectures = m->architectures,
		.n_architectures = m->n_architectures,
		.max_context = m->max_req_input_len > 0 ? KP_MIN(m->max_context_length, from_prompt)
							: m->max_context_length,
		.vocab_size = knows_model ? m->vocab_size : 0,
		.eos = m->eos_token_ids,
		.n_eos = m->n_eos_token_ids,
		.bos = knows_model ? m->bos_token_id : 0,
		.defaults_json = m->default_sampling_params_json };
	return kp_cold_model_info(&model, a, scratch, ret, err);
}

static int read_server_info(
	kp_str bytes, struct kp_arena *a, struct kp_engine_info *ret, struct kp_err *err)
{
	KP_AUTO(arena) struct kp_arena *scratch = kp_arena_create(KP_COLD_SCRATCH);
	const Sglang__Grpc__Scheduler__GetServerInfoResponse *m =
		kp_cold_unpack(&sglang__grpc__scheduler__get_server_info_response__descriptor,
			bytes, scratch, err);
	return m ? kp_arena_dup(a, kp_str_c(m->sglang_version), &ret->version, err) : -1;
}

/* How many sequences run at once comes with them. */
static int read_loads(kp_str bytes, struct kp_arena *a, struct kp_engine_loads *ret_loads,
	struct kp_engine_info *ret_info, struct kp_err *err)
{
	(void)a;
	KP_AUTO(arena) struct kp_arena *scratch = kp_arena_create(KP_COLD_SCRATCH);
	const Sglang__Grpc__Scheduler__GetLoadsResponse *m = kp_cold_unpack(
		&sglang__grpc__scheduler__get_loads_response__descriptor, bytes, scratch, err);
	struct kp_cold_loads sum = { 0 };
	if (!m) {
		return -1;
	}
	ret_info->max_running = 0;
	for (size_t i = 0; i < m->n_loads; i++) {
		const Sglang__Grpc__Scheduler__SchedulerLoad *l = m->loads[i];
		kp_cold_load(&sum, l->num_running_reqs, l->num_waiting_reqs, l->num_used_tokens,
			l->token_usage);
		ret_info->max_running += (uint32_t)KP_MAX(l->max_running_requests, 0);
	}
	kp_cold_loads(&sum, ret_loads);
	return 0;
}

/* --- the protocol --- */

#define METHOD(name) "/sglang.grpc.scheduler.SglangScheduler/" name

const struct kp_protocol kp_sglang_protocol = {
	.generate = METHOD("Generate"),
	.health = METHOD("HealthCheck"),
	.model_info = METHOD("GetModelInfo"),
	.server_info = METHOD("GetServerInfo"),
	.loads = METHOD("GetLoads"),
	.tokenizer = METHOD("GetTokenizer"),
	.abort = METHOD("Abort"),
	.encode_abort = encode_abort,
	.encode = encode,
	.response = { .request_id = 1,
		.chunk = 2,
		.complete = 3,
		.in = { [KP_RESPONSE_CHUNK] = { .ids = 1,
				.prompt = 2,
				.completion = 3,
				.cached = 4,
				.output_logprobs = 5,
				.input_logprobs = 7,
				.index = 8 },
			[KP_RESPONSE_COMPLETE] = { .ids = 1,
				.finish = 2,
				.prompt = 3,
				.completion = 4,
				.cached = 5,
				.output_logprobs = 6,
				.matched_id = 8,
				.matched_str = 9,
				.input_logprobs = 10,
				.index = 11 } } },
	.finish = finish,
	.read_health = read_health,
	.read_model_info = read_model_info,
	.read_server_info = read_server_info,
	.read_loads = read_loads,
};

struct kp_engine *kp_engine_sglang_create(
	struct kp_loop *loop, const char *address, const struct kp_engine_opts *o)
{
	return kp_remote_create(loop, address, o, &kp_sglang_protocol);
}

/* DESIGN: sglang.grpc.scheduler, as SGLang's servicer speaks it: completion_tokens counts up; a `complete` that follows chunks says the last chunk once more;
   the model's own end is a matched id too; not streamed, every choice has index 0; what fails is a status, but for a model that makes nonsense, which "stops"
   with a matched string. Requests and answers by protobuf-c. */
#include "protocol.h"
#include "sglang/sglang_scheduler.pb-c.h"

#define PB(name)      Sglang__Grpc__Scheduler__##name
#define PB_INIT(name) sglang__grpc__scheduler__##name##__init
#include "alike.h"
#include "alike_media.h"

typedef PB(GenerateRequest) request_pb;
typedef PB(SamplingParams) sampling_pb;

/* --- Generate ------------------------------------------------------------------------------------------------------ */

static void tensor_bytes(const tensor_pb *m, struct kp_sim_tensor *t)
{
	t->bytes = m->data.data;
	t->n_bytes = m->data.len;
}

static struct kp_sim_request read_request(kp_str bytes)
{
	struct kp_sim_request r = no_request();
	request_pb *m = sglang__grpc__scheduler__generate_request__unpack(
		NULL, bytes.n, (const uint8_t *)bytes.p);
	r.message = m;
	if (!m) {
		return r;
	}
	r.id = m->request_id;
	r.stream = m->stream;
	if (m->tokenized) {
		read_input(&r, m->tokenized);
	}
	read_media(&r, m->mm_inputs);
	if (m->return_logprob) {
		r.logprobs = KP_MAX(m->top_logprobs_num, 0);
		r.prompt_logprobs = m->logprob_start_len == 0 ? r.logprobs : -1;
	}
	const sampling_pb *p = m->sampling_params;
	if (p) {
		r.sampling = &p->base;
		r.n = KP_MAX(p->n, 1u);
		r.min_tokens = p->min_new_tokens;
		r.has_max_tokens = p->has_max_new_tokens_case;
		r.max_tokens = r.has_max_tokens ? p->max_new_tokens : 0;
		r.ignore_eos = p->ignore_eos;
		r.stop_ids = p->stop_token_ids;
		r.n_stop_ids = p->n_stop_token_ids;
	}
	return r;
}

static void free_request(void *message)
{
	sglang__grpc__scheduler__generate_request__free_unpacked(message, NULL);
}

static int check_params(const sampling_pb *p, struct kp_err *err)
{
	if (!(p->temperature >= 0)) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"temperature must be a non-negative finite number, got %g.",
			(double)p->temperature);
	}
	if (p->top_p < 0 || p->top_p > 1) { /* 0 is 1 to the servicer */
		return kp_err_set(err, KP_INVALID_ARGUMENT, "top_p must be in (0, 1], got %g.",
			(double)p->top_p);
	}
	if (p->top_k < -1) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"top_k must be -1 (disable) or at least 1, got %d.", p->top_k);
	}
	if (p->repetition_penalty < 0 || p->repetition_penalty > 2) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"repetition_penalty must be in (0, 2], got %g.",
			(double)p->repetition_penalty);
	}
	if (p->has_max_new_tokens_case && p->min_new_tokens > p->max_new_tokens) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"min_new_tokens must be in [0, max_new_tokens(%u)], got %u.",
			p->max_new_tokens, p->min_new_tokens);
	}
	return 0;
}

static int check(const struct kp_sim_opts *o, const struct kp_sim_request *r, struct kp_err *err)
{
	const request_pb *m = r->message;
	if (!r->has_ids) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "Tokenized input must be provided");
	}
	if (r->n_ids == 0) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "The input is empty");
	}
	for (size_t i = 0; i < r->n_ids; i++) {
		if (r->ids[i] >= o->vocab) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"Token id %u is not in the vocabulary", r->ids[i]);
		}
	}
	if (r->n_ids >= o->max_context) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"Input length (%zu tokens) exceeds the maximum allowed length (%u tokens).",
			r->n_ids, o->max_context - 1);
	}
	return m->sampling_params ? check_params(m->sampling_params, err) : 0;
}

static grpc_byte_buffer *chunk(const struct kp_sim_part *p)
{
	PB(GenerateStreamChunk) m = make_chunk(p);
	PB(GenerateResponse) r;
	PB_INIT(generate_response)(&r);
	m.completion_tokens = p->made;
	r.request_id = text(p->request->id);
	r.response_case = SGLANG__GRPC__SCHEDULER__GENERATE_RESPONSE__RESPONSE_CHUNK;
	r.chunk = &m;
	return kp_sim_pack(&r.base);
}

static grpc_byte_buffer *complete(const struct kp_sim_part *p)
{
	PB(GenerateComplete) m = make_complete(p);
	PB(GenerateResponse) r;
	PB_INIT(generate_response)(&r);
	m.index = p->request->stream ? p->choice : 0;
	m.completion_tokens = p->made;
	if (kp_str_eq(kp_str_c(p->finish), KP_S("error"))) {
		m.finish_reason = text("stop");
		m.matched_stop_case =
			SGLANG__GRPC__SCHEDULER__GENERATE_COMPLETE__MATCHED_STOP_MATCHED_STOP_STR;
		m.matched_stop_str = text("NaN happened");
	} else if (p->has_matched || p->is_model_end) {
		m.matched_stop_case =
			SGLANG__GRPC__SCHEDULER__GENERATE_COMPLETE__MATCHED_STOP_MATCHED_TOKEN_ID;
		m.matched_token_id = p->matched;
	}
	r.request_id = text(p->request->id);
	r.response_case = SGLANG__GRPC__SCHEDULER__GENERATE_RESPONSE__RESPONSE_COMPLETE;
	r.complete = &m;
	return kp_sim_pack(&r.base);
}

/* --- the other methods --------------------------------------------------------------------------------------------- */

static void health(struct kp_sim *s, const struct kp_sim_protocol *p, grpc_call *call,
	grpc_metadata_array metadata, kp_str bytes)
{
	(void)p;
	(void)bytes;
	answer_health(s, call, metadata, "Health check passed", "Health check timeout after 20s");
}

static void abort_request(struct kp_sim *s, const struct kp_sim_protocol *p, grpc_call *call,
	grpc_metadata_array metadata, kp_str bytes)
{
	(void)p;
	PB(AbortRequest) *req = sglang__grpc__scheduler__abort_request__unpack(
		NULL, bytes.n, (const uint8_t *)bytes.p);
	if (req) {
		kp_sim_log(s, "abort", kp_str_c(req->request_id), "%s", "");
		kp_sim_abort_id(s, kp_str_c(req->request_id));
	}
	sglang__grpc__scheduler__abort_request__free_unpacked(req, NULL);
	PB(AbortResponse) m;
	PB_INIT(abort_response)(&m);
	m.success = true;
	kp_sim_answer(s, call, metadata, &m.base);
}

static void server_info(struct kp_sim *s, const struct kp_sim_protocol *p, grpc_call *call,
	grpc_metadata_array metadata, kp_str bytes)
{
	(void)p;
	(void)bytes;
	PB(GetServerInfoResponse) m;
	PB_INIT(get_server_info_response)(&m);
	m.server_type = text("grpc");
	m.sglang_version = text("sim-engine");
	m.uptime_seconds = (double)(kp_now_ns() - s->started_ns) / 1e9;
	m.active_requests = (int32_t)(s->n_running + s->n_waiting);
	m.max_total_num_tokens = KP_SIM_CAPACITY;
	kp_sim_answer(s, call, metadata, &m.base);
}

#define METHOD(name) "/sglang.grpc.scheduler.SglangScheduler/" name
static const struct kp_sim_method methods[] = {
	{ METHOD("Generate"), kp_sim_generate },
	{ METHOD("HealthCheck"), health },
	{ METHOD("Abort"), abort_request },
	{ METHOD("GetModelInfo"), model_info },
	{ METHOD("GetServerInfo"), server_info },
	{ METHOD("GetLoads"), loads },
	{ METHOD("GetTokenizer"), kp_sim_tokenizer },
	{ NULL, NULL },
};

const struct kp_sim_protocol kp_sim_sglang = {
	.name = "sglang",
	.full_code = GRPC_STATUS_UNAVAILABLE, /* HTTP's 503 */
	.full_text = "The request queue is full. (sim-engine: exhausted on demand)",
	.abort_code = GRPC_STATUS_INTERNAL,
	.read = read_request,
	.free = free_request,
	.check = check,
	.chunk = chunk,
	.complete = complete,
	.methods = methods,
};

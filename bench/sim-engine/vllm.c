/* DESIGN: vllm.grpc.engine, as vLLM's servicer speaks it. Requests and answers by protobuf-c. A `complete` that follows chunks says the last chunk once more. */
#include "protocol.h"
#include "vllm/vllm_engine.pb-c.h"

#define PB(name)      Vllm__Grpc__Engine__##name
#define PB_INIT(name) vllm__grpc__engine__##name##__init
#include "alike.h"
#include "alike_media.h"

typedef PB(GenerateRequest) request_pb;
typedef PB(SamplingParams) sampling_pb;

/* --- Generate ------------------------------------------------------------------------------------------------------ */

static void tensor_bytes(const tensor_pb *m, struct kp_sim_tensor *t)
{
	if (m->payload_case == VLLM__GRPC__ENGINE__TENSOR_DATA__PAYLOAD_INLINE) {
		t->bytes = m->inline_.data;
		t->n_bytes = m->inline_.len;
	} else if (m->payload_case == VLLM__GRPC__ENGINE__TENSOR_DATA__PAYLOAD_SHM) {
		t->shm = m->shm->name;
		t->offset = m->shm->offset;
		t->n_bytes = m->shm->nbytes;
	}
}

static struct kp_sim_request read_request(kp_str bytes)
{
	struct kp_sim_request r = no_request();
	request_pb *m = vllm__grpc__engine__generate_request__unpack(
		NULL, bytes.n, (const uint8_t *)bytes.p);
	r.message = m;
	if (!m) {
		return r;
	}
	r.id = m->request_id;
	r.stream = m->stream;
	if (m->input_case == VLLM__GRPC__ENGINE__GENERATE_REQUEST__INPUT_TOKENIZED &&
		m->tokenized) {
		read_input(&r, m->tokenized);
	}
	read_media(&r, m->mm_inputs);
	for (size_t i = 0; r.media && i < m->mm_inputs->n_mm_hashes && i < KP_SIM_IMAGES; i++) {
		r.media->hashes[r.media->n_hashes++] = m->mm_inputs->mm_hashes[i];
	}
	const sampling_pb *p = m->sampling_params;
	if (p) {
		r.sampling = &p->base;
		r.n = KP_MAX(p->n, 1u);
		r.min_tokens = p->min_tokens;
		r.has_max_tokens = p->has_max_tokens_case;
		r.max_tokens = r.has_max_tokens ? p->max_tokens : 0;
		r.ignore_eos = p->ignore_eos;
		r.stop_ids = p->stop_token_ids;
		r.n_stop_ids = p->n_stop_token_ids;
		r.seed = p->has_seed_case ? (uint32_t)p->seed : 0;
		r.logprobs = p->has_logprobs_case ? KP_MAX(p->logprobs, 0) : -1;
		r.prompt_logprobs =
			p->has_prompt_logprobs_case ? KP_MAX(p->prompt_logprobs, 0) : -1;
	}
	return r;
}

static void free_request(void *message)
{
	vllm__grpc__engine__generate_request__free_unpacked(message, NULL);
}

static int check_params(const sampling_pb *p, struct kp_err *err)
{
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

static int check(const struct kp_sim_opts *o, const struct kp_sim_request *r, struct kp_err *err)
{
	const request_pb *m = r->message;
	if (!r->has_ids) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "only tokenized input is served");
	}
	if (r->n_ids == 0) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "The decoder prompt cannot be empty");
	}
	for (size_t i = 0; i < r->n_ids; i++) {
		if (r->ids[i] >= o->vocab) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"Token id %u is out of vocabulary", r->ids[i]);
		}
	}
	if (r->n_ids >= o->max_context) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"The decoder prompt (length %zu) is longer than the maximum model length of %u.",
			r->n_ids, o->max_context);
	}
	return m->sampling_params ? check_params(m->sampling_params, err) : 0;
}

static grpc_byte_buffer *chunk(const struct kp_sim_part *p)
{
	PB(GenerateStreamChunk) m = make_chunk(p);
	PB(GenerateResponse) r;
	PB_INIT(generate_response)(&r);
	r.response_case = VLLM__GRPC__ENGINE__GENERATE_RESPONSE__RESPONSE_CHUNK;
	r.chunk = &m;
	return kp_sim_pack(&r.base);
}

static grpc_byte_buffer *complete(const struct kp_sim_part *p)
{
	PB(GenerateComplete) m = make_complete(p);
	PB(GenerateResponse) r;
	PB_INIT(generate_response)(&r);
	if (p->has_matched) {
		m.matched_stop_case =
			VLLM__GRPC__ENGINE__GENERATE_COMPLETE__MATCHED_STOP_MATCHED_TOKEN_ID;
		m.matched_token_id = p->matched;
	}
	r.response_case = VLLM__GRPC__ENGINE__GENERATE_RESPONSE__RESPONSE_COMPLETE;
	r.complete = &m;
	return kp_sim_pack(&r.base);
}

/* --- the other methods --------------------------------------------------------------------------------------------- */

static void health(struct kp_sim *s, const struct kp_sim_protocol *p, grpc_call *call,
	grpc_metadata_array metadata, kp_str bytes)
{
	(void)p;
	(void)bytes;
	answer_health(s, call, metadata, "Health", "Engine is not alive");
}

static void abort_requests(struct kp_sim *s, const struct kp_sim_protocol *p, grpc_call *call,
	grpc_metadata_array metadata, kp_str bytes)
{
	(void)p;
	PB(AbortRequest) *req =
		vllm__grpc__engine__abort_request__unpack(NULL, bytes.n, (const uint8_t *)bytes.p);
	for (size_t i = 0; req && i < req->n_request_ids; i++) {
		kp_sim_log(s, "abort", kp_str_c(req->request_ids[i]), "%s", "");
		kp_sim_abort_id(s, kp_str_c(req->request_ids[i]));
	}
	vllm__grpc__engine__abort_request__free_unpacked(req, NULL);
	PB(AbortResponse) m;
	PB_INIT(abort_response)(&m);
	kp_sim_answer(s, call, metadata, &m.base);
}

static void server_info(struct kp_sim *s, const struct kp_sim_protocol *p, grpc_call *call,
	grpc_metadata_array metadata, kp_str bytes)
{
	(void)p;
	(void)bytes;
	PB(GetServerInfoResponse) m;
	PB_INIT(get_server_info_response)(&m);
	m.server_type = text("sim-engine");
	m.uptime_seconds = (double)(kp_now_ns() - s->started_ns) / 1e9;
	m.active_requests = (uint32_t)(s->n_running + s->n_waiting);
	m.data_parallel_size = 1;
	m.block_size = 16;
	m.max_num_seqs = KP_SIM_MAX_RUNNING;
	char shm[80];
	kp_sim_shm_namespace(shm);
	m.shm_namespace_id = s->opts->shm ? text(s->opts->shm) : shm;
	m.mm_item_limits = text(s->opts->item_limits);
	m.mm_device_do_normalize = s->opts->normalizes;
	kp_sim_answer(s, call, metadata, &m.base);
}

#define METHOD(name) "/vllm.grpc.engine.VllmEngine/" name
static const struct kp_sim_method methods[] = {
	{ METHOD("Generate"), kp_sim_generate },
	{ METHOD("HealthCheck"), health },
	{ METHOD("Abort"), abort_requests },
	{ METHOD("GetModelInfo"), model_info },
	{ METHOD("GetServerInfo"), server_info },
	{ METHOD("GetLoads"), loads },
	{ METHOD("GetTokenizer"), kp_sim_tokenizer },
	{ NULL, NULL },
};

const struct kp_sim_protocol kp_sim_vllm = {
	.name = "vllm",
	.full_code = GRPC_STATUS_RESOURCE_EXHAUSTED,
	.full_text = "sim-engine: exhausted on demand",
	.abort_code = GRPC_STATUS_OK,
	.read = read_request,
	.free = free_request,
	.check = check,
	.chunk = chunk,
	.complete = complete,
	.methods = methods,
};

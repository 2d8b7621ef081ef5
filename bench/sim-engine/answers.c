/* DESIGN: the methods other than Generate. One-message answers are one batch; the tokenizer is sent piece by piece as each has gone out. */
#include "sim.h"
#include "base/clock.h"
#include "base/mem.h"

enum { PIECE = 64 << 10 };

struct answer {
	struct kp_sim_rpc rpc;
	size_t offset; /* of the tokenizer, sent so far */
};

static void nothing(struct kp_sim_rpc *r)
{
	(void)r;
}
static void destroy(struct kp_sim_rpc *r)
{
	kp_mem_free(KP_CONTAINER(r, struct answer, rpc));
}

static struct kp_sim_rpc *answer(struct kp_sim *s, grpc_call *call, grpc_metadata_array metadata,
	void (*on_sent)(struct kp_sim_rpc *))
{
	struct answer *a = kp_new(struct answer);
	a->rpc.on_sent = on_sent;
	a->rpc.on_cancelled = nothing;
	a->rpc.destroy = destroy;
	kp_sim_rpc_init(&a->rpc, s, call, metadata);
	return &a->rpc;
}

static void answer_one(
	struct kp_sim *s, grpc_call *call, grpc_metadata_array metadata, const ProtobufCMessage *m)
{
	kp_sim_finish(answer(s, call, metadata, nothing), kp_sim_pack(m), GRPC_STATUS_OK, "");
}

/* protobuf-c's strings are not const, though it only reads what it packs. */
static char *text(const char *z)
{
	return kp_unconst(z);
}

static void health(struct kp_sim *s, grpc_call *call, grpc_metadata_array metadata, kp_str bytes)
{
	(void)bytes;
	Vllm__Grpc__Engine__HealthCheckResponse m;
	vllm__grpc__engine__health_check_response__init(&m);
	m.healthy = !kp_sim_fault_on(&s->control, KP_SIM_UNHEALTHY);
	m.message = text(m.healthy ? "Health" : "Engine is not alive");
	answer_one(s, call, metadata, &m.base);
}

static void abort_requests(
	struct kp_sim *s, grpc_call *call, grpc_metadata_array metadata, kp_str bytes)
{
	Vllm__Grpc__Engine__AbortRequest *req =
		vllm__grpc__engine__abort_request__unpack(NULL, bytes.n, (const uint8_t *)bytes.p);
	for (size_t i = 0; req && i < req->n_request_ids; i++) {
		kp_sim_log(s, "abort", kp_str_c(req->request_ids[i]), "%s", "");
		kp_sim_abort_id(s, kp_str_c(req->request_ids[i]));
	}
	vllm__grpc__engine__abort_request__free_unpacked(req, NULL);
	Vllm__Grpc__Engine__AbortResponse m;
	vllm__grpc__engine__abort_response__init(&m);
	answer_one(s, call, metadata, &m.base);
}

static void model_info(
	struct kp_sim *s, grpc_call *call, grpc_metadata_array metadata, kp_str bytes)
{
	(void)bytes;
	const struct kp_sim_opts *o = s->opts;
	Vllm__Grpc__Engine__GetModelInfoResponse m;
	vllm__grpc__engine__get_model_info_response__init(&m);
	char *architecture = text(o->architecture);
	int32_t eos[KP_LEN(o->eos)];
	for (size_t i = 0; i < o->n_eos; i++) {
		eos[i] = (int32_t)o->eos[i];
	}
	m.model_path = m.tokenizer_path = text(o->model);
	m.served_model_name = text(o->served_name);
	m.is_generation = true;
	m.max_context_length = o->max_context;
	m.max_req_input_len = (int32_t)o->max_context;
	m.vocab_size = o->vocab;
	m.model_type = text(o->model_type);
	m.n_architectures = 1;
	m.architectures = &architecture;
	m.n_eos_token_ids = o->n_eos;
	m.eos_token_ids = eos;
	m.bos_token_id = (int32_t)o->bos;
	m.default_sampling_params_json = text(o->defaults);
	answer_one(s, call, metadata, &m.base);
}

static void server_info(
	struct kp_sim *s, grpc_call *call, grpc_metadata_array metadata, kp_str bytes)
{
	(void)bytes;
	Vllm__Grpc__Engine__GetServerInfoResponse m;
	vllm__grpc__engine__get_server_info_response__init(&m);
	m.server_type = text("sim-engine");
	m.uptime_seconds = (double)(kp_now_ns() - s->started_ns) / 1e9;
	m.active_requests = (uint32_t)(s->n_running + s->n_waiting);
	m.data_parallel_size = 1;
	m.block_size = 16;
	m.max_num_seqs = 1024;
	answer_one(s, call, metadata, &m.base);
}

static void loads(struct kp_sim *s, grpc_call *call, grpc_metadata_array metadata, kp_str bytes)
{
	enum { CAPACITY = 1 << 20 };
	(void)bytes;
	char now[25];
	Vllm__Grpc__Engine__SchedulerLoad one, *list = &one;
	Vllm__Grpc__Engine__GetLoadsResponse m;
	vllm__grpc__engine__scheduler_load__init(&one);
	vllm__grpc__engine__get_loads_response__init(&m);
	kp_time_rfc3339(kp_wall_ns(), now);
	one.num_running_reqs = (int32_t)s->n_running;
	one.num_waiting_reqs = (int32_t)s->n_waiting;
	one.num_total_reqs = (int32_t)(s->n_running + s->n_waiting);
	one.num_used_tokens = (int32_t)KP_MIN(s->used_tokens, (uint64_t)CAPACITY);
	one.max_total_num_tokens = CAPACITY;
	one.token_usage = one.utilization = (double)one.num_used_tokens / CAPACITY;
	one.max_running_requests = 1024;
	m.timestamp = now;
	m.version = text("sim-engine");
	m.dp_rank_count = 1;
	m.n_loads = 1;
	m.loads = &list;
	answer_one(s, call, metadata, &m.base);
}

/* --- GetTokenizer -------------------------------------------------------------------------------------------------- */

static void send_piece(struct kp_sim_rpc *r)
{
	struct answer *a = KP_CONTAINER(r, struct answer, rpc);
	struct kp_sim *s = r->sim;
	char other[] = "0000000000000000000000000000000000000000000000000000000000000000";
	Smg__Grpc__Common__GetTokenizerChunk m;
	smg__grpc__common__get_tokenizer_chunk__init(&m);
	kp_str piece = kp_str_sub(s->tokenizer, a->offset, a->offset + PIECE);
	a->offset += piece.n;
	bool is_last = a->offset == s->tokenizer.n;
	m.data.data = kp_unconst(piece.p);
	m.data.len = piece.n;
	if (is_last) {
		m.sha256 = kp_sim_fault_on(&s->control, KP_SIM_BAD_DIGEST) ? other
									   : s->tokenizer_sha256;
	}
	if (is_last && kp_sim_fault_on(&s->control, KP_SIM_NO_DIGEST)) {
		kp_sim_finish(r, NULL, GRPC_STATUS_OK, "");
	} else if (is_last) {
		kp_sim_finish(r, kp_sim_pack(&m.base), GRPC_STATUS_OK, "");
	} else {
		kp_sim_send(r, kp_sim_pack(&m.base), false);
	}
}

static void tokenizer(struct kp_sim *s, grpc_call *call, grpc_metadata_array metadata, kp_str bytes)
{
	(void)bytes;
	struct kp_sim_rpc *r = answer(s, call, metadata, send_piece);
	if (s->tokenizer.n == 0) {
		kp_sim_finish(r, NULL, GRPC_STATUS_FAILED_PRECONDITION,
			"Tokenizer path is not configured on this server.");
	} else {
		send_piece(r);
	}
}

static void unknown(struct kp_sim *s, grpc_call *call, grpc_metadata_array metadata, kp_str bytes)
{
	(void)bytes;
	kp_sim_finish(answer(s, call, metadata, nothing), NULL, GRPC_STATUS_UNIMPLEMENTED,
		"Method not found!");
}

#define METHOD(name) "/vllm.grpc.engine.VllmEngine/" name
const struct kp_sim_method kp_sim_methods[] = {
	{ METHOD("Generate"), kp_sim_generate },
	{ METHOD("HealthCheck"), health },
	{ METHOD("Abort"), abort_requests },
	{ METHOD("GetModelInfo"), model_info },
	{ METHOD("GetServerInfo"), server_info },
	{ METHOD("GetLoads"), loads },
	{ METHOD("GetTokenizer"), tokenizer },
	{ NULL, unknown },
};
const size_t kp_sim_n_methods = KP_LEN(kp_sim_methods);

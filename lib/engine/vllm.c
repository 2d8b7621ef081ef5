/* DESIGN: vllm.grpc.engine (proto/vllm/vllm_engine.proto) as engine/protocol.h wants it: the request
   by hand, field by field; the layout of the response; the rare answers through protobuf-c. A seed
   beyond 32 bits is folded to 31. */
#include "engine/vllm.h"
#include "engine/cold.h"
#include "engine/protocol.h"
#include "engine/request.h"
#include "vllm/vllm_engine.pb-c.h"

/* --- requests --- */

static int32_t fold_seed(int64_t seed)
{
	if (seed >= INT32_MIN && seed <= INT32_MAX) {
		return (int32_t)seed;
	}
	uint64_t u = (uint64_t)seed;
	return (int32_t)((u ^ u >> 31 ^ u >> 62) & INT32_MAX);
}

static void add_constraint(struct kp_buf *b, const struct kp_constraint *c)
{
	size_t at;
	switch (c->kind) {
	case KP_CONSTRAINT_NONE:
		return;
	case KP_CONSTRAINT_JSON_SCHEMA:
		kp_wire_add_str(b, 16, c->text);
		break;
	case KP_CONSTRAINT_REGEX:
		kp_wire_add_str(b, 17, c->text);
		break;
	case KP_CONSTRAINT_GRAMMAR:
		kp_wire_add_str(b, 18, c->text);
		break;
	case KP_CONSTRAINT_TAG:
		kp_wire_add_str(b, 19, c->text);
		break;
	case KP_CONSTRAINT_JSON_OBJECT:
		kp_wire_add_u64(b, 20, 1);
		break;
	case KP_CONSTRAINT_CHOICE:
		at = kp_wire_begin(b, 21);
		for (size_t i = 0; i < c->n_choices; i++) {
			kp_wire_add_str(b, 1, c->choices[i]);
		}
		kp_wire_end(b, at);
		break;
	}
}

static void add_sampling(struct kp_buf *b, const struct kp_sampling *s)
{
	bool is_constrained = s->set & KP_SET_CONSTRAINT && s->constraint.kind;
	if (s->set & KP_SET_TEMPERATURE) {
		kp_wire_add_float(b, 1, (float)s->temperature);
	}
	/* From here on zero means "not given" to the engine. */
	if (s->set & KP_SET_TOP_P) {
		kp_request_float(b, 2, s->top_p);
	}
	if (s->set & KP_SET_TOP_K && s->top_k > 0) { /* -1 is all: the wire's 0 */
		kp_wire_add_u64(b, 3, (uint64_t)s->top_k);
	}
	if (s->set & KP_SET_MIN_P) {
		kp_request_float(b, 4, s->min_p);
	}
	if (s->set & KP_SET_FREQUENCY_PENALTY) {
		kp_request_float(b, 5, s->frequency_penalty);
	}
	if (s->set & KP_SET_PRESENCE_PENALTY) {
		kp_request_float(b, 6, s->presence_penalty);
	}
	if (s->set & KP_SET_REPETITION_PENALTY) {
		kp_request_float(b, 7, s->repetition_penalty);
	}
	if (s->set & KP_SET_MAX_TOKENS) {
		kp_wire_add_u64(b, 8, s->max_tokens);
	}
	kp_request_u64(b, 9, s->min_tokens);
	kp_wire_add_packed(b, 11, s->stop_ids, s->n_stop_ids);
	kp_request_u64(b, 14, s->ignore_eos);
	kp_request_u64(b, 15, s->n);
	if (is_constrained) {
		add_constraint(b, &s->constraint);
	}
	if (s->set & KP_SET_LOGPROBS) {
		kp_wire_add_i64(b, 22, s->logprobs);
	}
	if (s->set & KP_SET_PROMPT_LOGPROBS) {
		kp_wire_add_i64(b, 23, s->prompt_logprobs);
	}
	if (s->set & KP_SET_SEED) {
		kp_wire_add_i64(b, 24, fold_seed(s->seed));
	}
	for (size_t i = 0; i < s->n_logit_bias; i++) {
		size_t at = kp_wire_begin(b, 26); /* a map is a list of {1: key, 2: value} */
		kp_wire_add_u64(b, 1, s->logit_bias[i].id);
		kp_wire_add_float(b, 2, s->logit_bias[i].bias);
		kp_wire_end(b, at);
	}
	/* Thoughts are part of the constraint; an engine that reads them too would wait for their end. */
	kp_request_u64(b, 28, is_constrained);
}

static const struct kp_request_media_fields media_fields = { .of_request = 7,
	.pixels = 2,
	.tensors = 3,
	.token = 4,
	.spans = 5,
	.hashes = 6,
	.batched = 7,
	.flat = 8,
	.on_cpu = 9,
	.shm = 4,
	.has_patches = true };

static int encode(struct kp_buf *b, const struct kp_engine_request *r, struct kp_err *err)
{
	kp_wire_add_str(b, 1, r->request_id);
	kp_request_input(b, 2, r);
	size_t at = kp_wire_begin(b, 4);
	add_sampling(b, r->sampling);
	kp_wire_end(b, at);
	kp_request_u64(b, 5, r->stream);
	if (r->media) {
		kp_request_media(b, &media_fields, r);
	}
	return kp_buf_finish(b, "generate request", err);
}

static enum kp_finish finish(const struct kp_response *r)
{
	return kp_response_finish(r->finish_reason);
}

/* --- rare answers --- */

static int read_health(kp_str bytes, struct kp_err *err)
{
	KP_AUTO(arena) struct kp_arena *scratch = kp_arena_create(KP_COLD_SCRATCH);
	const Vllm__Grpc__Engine__HealthCheckResponse *m = kp_cold_unpack(
		&vllm__grpc__engine__health_check_response__descriptor, bytes, scratch, err);
	return m ? kp_cold_health(m->healthy, m->message, err) : -1;
}

static int read_model_info(
	kp_str bytes, struct kp_arena *a, struct kp_engine_info *ret, struct kp_err *err)
{
	KP_AUTO(arena) struct kp_arena *scratch = kp_arena_create(KP_COLD_SCRATCH);
	const Vllm__Grpc__Engine__GetModelInfoResponse *m = kp_cold_unpack(
		&vllm__grpc__engine__get_model_info_response__descriptor, bytes, scratch, err);
	if (!m) {
		return -1;
	}
	const struct kp_cold_model model = { .path = m->model_path,
		.served_name = m->served_model_name,
		.type = m->model_type,
		.architectures = m->architectures,
		.n_architectures = m->n_architectures,
		.max_context = m->max_context_length,
		.vocab_size = m->vocab_size,
		.eos = m->eos_token_ids,
		.n_eos = m->n_eos_token_ids,
		.bos = m->bos_token_id,
		.defaults_json = m->default_sampling_params_json };
	return kp_cold_model_info(&model, a, scratch, ret, err);
}

/* "image=8,video=2" */
static uint32_t max_images(kp_str limits)
{
	const kp_str image = KP_S("image=");
	kp_str part;
	uint64_t n;
	while (kp_str_split(&limits, ',', &part)) {
		if (kp_str_starts(part, image) &&
			kp_str_u64(kp_str_skip(part, image.n), UINT32_MAX, &n)) {
			return (uint32_t)n;
		}
	}
	return UINT32_MAX;
}

static int read_server_info(
	kp_str bytes, struct kp_arena *a, struct kp_engine_info *ret, struct kp_err *err)
{
	KP_AUTO(arena) struct kp_arena *scratch = kp_arena_create(KP_COLD_SCRATCH);
	const Vllm__Grpc__Engine__GetServerInfoResponse *m = kp_cold_unpack(
		&vllm__grpc__engine__get_server_info_response__descriptor, bytes, scratch, err);
	if (!m) {
		return -1;
	}
	ret->max_running = (uint32_t)KP_MAX(m->max_num_seqs, 0);
	ret->max_images = max_images(kp_str_c(m->mm_item_limits));
	ret->normalizes = m->mm_device_do_normalize;
	return kp_arena_dup(a, kp_str_c(m->shm_namespace_id), &ret->shm, err);
}

/* The engine's version comes with them. */
static int read_loads(kp_str bytes, struct kp_arena *a, struct kp_engine_loads *ret_loads,
	struct kp_engine_info *ret_info, struct kp_err *err)
{
	KP_AUTO(arena) struct kp_arena *scratch = kp_arena_create(KP_COLD_SCRATCH);
	const Vllm__Grpc__Engine__GetLoadsResponse *m = kp_cold_unpack(
		&vllm__grpc__engine__get_loads_response__descriptor, bytes, scratch, err);
	struct kp_cold_loads sum = { 0 };
	if (!m || kp_arena_dup(a, kp_str_c(m->version), &ret_info->version, err) < 0) {
		return -1;
	}
	for (size_t i = 0; i < m->n_loads; i++) {
		const Vllm__Grpc__Engine__SchedulerLoad *l = m->loads[i];
		kp_cold_load(&sum, l->num_running_reqs, l->num_waiting_reqs, l->num_used_tokens,
			l->token_usage);
	}
	kp_cold_loads(&sum, ret_loads);
	return 0;
}

/* --- the protocol --- */

#define METHOD(name) "/vllm.grpc.engine.VllmEngine/" name

const struct kp_protocol kp_vllm_protocol = {
	.generate = METHOD("Generate"),
	.health = METHOD("HealthCheck"),
	.model_info = METHOD("GetModelInfo"),
	.server_info = METHOD("GetServerInfo"),
	.loads = METHOD("GetLoads"),
	.tokenizer = METHOD("GetTokenizer"),
	.encode = encode,
	.response = { .chunk = 1,
		.complete = 2,
		.in = { [KP_RESPONSE_CHUNK] = { .ids = 1,
				.prompt = 2,
				.completion = 3,
				.cached = 4,
				.output_logprobs = 5,
				.input_logprobs = 6,
				.index = 7 },
			[KP_RESPONSE_COMPLETE] = { .ids = 1,
				.finish = 2,
				.prompt = 3,
				.completion = 4,
				.cached = 5,
				.output_logprobs = 6,
				.input_logprobs = 7,
				.index = 8,
				.matched_id = 10,
				.matched_str = 11 } } },
	.finish = finish,
	.read_health = read_health,
	.read_model_info = read_model_info,
	.read_server_info = read_server_info,
	.read_loads = read_loads,
};

struct kp_engine *kp_engine_vllm_create(
	struct kp_loop *loop, const char *address, const struct kp_engine_opts *o)
{
	return kp_remote_create(loop, address, o, &kp_vllm_protocol);
}

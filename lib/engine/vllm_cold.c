/* DESIGN: the answers an engine gives once or now and then: protobuf-c into a bounded arena of
   their own, after kp_wire_check, then copied into our structs. Numbers are taken as the engine
   says them, clamped where a negative one makes no sense. */
#include "engine/vllm_codec.h"
#include "wire/check.h"
#include "json/value.h"
#include "vllm/vllm_engine.pb-c.h"

enum { UNPACK_MAX = 32 << 20 };

static void *arena_alloc(void *arena, size_t n)
{
	return kp_arena_alloc(arena, n);
}
static void arena_free(void *arena, void *p)
{
	(void)arena;
	(void)p;
}

/* The message lives as long as `scratch`. */
static void *unpack(const ProtobufCMessageDescriptor *d, kp_str bytes, struct kp_arena *scratch,
	struct kp_err *err)
{
	struct kp_wire_limits limits = KP_WIRE_LIMITS;
	limits.max_bytes = KP_VLLM_MAX_COLD;
	if (kp_wire_check(d, bytes, &limits, err) < 0) {
		return NULL;
	}
	ProtobufCAllocator allocator = { arena_alloc, arena_free, scratch };
	void *m = protobuf_c_message_unpack(d, &allocator, bytes.n, (const uint8_t *)bytes.p);
	if (!m) {
		kp_err_set(err, KP_INTERNAL, "read `%s`: not valid protobuf", d->name);
	}
	return m;
}

int kp_vllm_decode_health(kp_str bytes, struct kp_err *err)
{
	KP_AUTO(arena) struct kp_arena *scratch = kp_arena_create(UNPACK_MAX);
	const Vllm__Grpc__Engine__HealthCheckResponse *m =
		unpack(&vllm__grpc__engine__health_check_response__descriptor, bytes, scratch, err);
	if (!m) {
		return -1;
	}
	if (!m->healthy) {
		return kp_err_set(err, KP_UNAVAILABLE, "the engine says it is not healthy: %s",
			*m->message ? m->message : "no reason given");
	}
	return 0;
}

/* {"temperature":0.6,"top_k":20,...}. What is not a number, or not one of the five, is not ours to
   apply. A malformed text is no reason to refuse the engine: the model then has no defaults. */
static void read_defaults(kp_str json, struct kp_arena *scratch, struct kp_sampling *ret)
{
	struct kp_jv v;
	struct kp_err ignored = KP_ERR_INIT;
	double number;
	*ret = (struct kp_sampling){ 0 };
	if (json.n == 0 || kp_jv_parse(json, scratch, &v, &ignored) < 0) {
		return;
	}
	const struct {
		kp_str name;
		enum kp_sampling_field bit;
		double *field;
	} known[] = {
		{ KP_S("temperature"), KP_SET_TEMPERATURE, &ret->temperature },
		{ KP_S("top_p"), KP_SET_TOP_P, &ret->top_p },
		{ KP_S("min_p"), KP_SET_MIN_P, &ret->min_p },
		{ KP_S("repetition_penalty"), KP_SET_REPETITION_PENALTY, &ret->repetition_penalty },
	};
	for (size_t i = 0; i < KP_LEN(known); i++) {
		const struct kp_jv *m = kp_jv_get(&v, known[i].name);
		if (kp_jv_is(m, KP_JSON_NUMBER) && kp_str_f64(m->s, &number)) {
			*known[i].field = number;
			ret->set |= (uint32_t)known[i].bit;
		}
	}
	const struct kp_jv *k = kp_jv_get(&v, KP_S("top_k"));
	if (kp_jv_is(k, KP_JSON_NUMBER) && kp_str_f64(k->s, &number) && number >= -1 &&
		number <= INT32_MAX) {
		ret->top_k = (int32_t)number;
		ret->set |= KP_SET_TOP_K;
	}
}

int kp_vllm_decode_model_info(
	kp_str bytes, struct kp_arena *a, struct kp_engine_info *ret, struct kp_err *err)
{
	KP_AUTO(arena) struct kp_arena *scratch = kp_arena_create(UNPACK_MAX);
	const Vllm__Grpc__Engine__GetModelInfoResponse *m = unpack(
		&vllm__grpc__engine__get_model_info_response__descriptor, bytes, scratch, err);
	if (!m) {
		return -1;
	}
	kp_str model, served, type, architecture;
	const char *first = m->n_architectures ? m->architectures[0] : "";
	if (kp_arena_dup(a, kp_str_c(m->model_path), &model, err) < 0 ||
		kp_arena_dup(a, kp_str_c(m->served_model_name), &served, err) < 0 ||
		kp_arena_dup(a, kp_str_c(m->model_type), &type, err) < 0 ||
		kp_arena_dup(a, kp_str_c(first), &architecture, err) < 0) {
		return -1;
	}
	ret->model = model;
	ret->served_name = served;
	ret->model_type = type;
	ret->architecture = architecture;
	ret->max_context = m->max_context_length;
	ret->vocab_size = m->vocab_size;
	ret->n_eos = 0;
	for (size_t i = 0; i < m->n_eos_token_ids && ret->n_eos < KP_LEN(ret->eos); i++) {
		if (m->eos_token_ids[i] >= 0) {
			ret->eos[ret->n_eos++] = (kp_id)m->eos_token_ids[i];
		}
	}
	/* Absent and 0 are one on this wire. */
	ret->has_bos = m->bos_token_id > 0;
	ret->bos = ret->has_bos ? (kp_id)m->bos_token_id : 0;
	read_defaults(kp_str_c(m->default_sampling_params_json), scratch, &ret->defaults);
	return 0;
}

int kp_vllm_decode_server_info(kp_str bytes, struct kp_engine_info *ret, struct kp_err *err)
{
	KP_AUTO(arena) struct kp_arena *scratch = kp_arena_create(UNPACK_MAX);
	const Vllm__Grpc__Engine__GetServerInfoResponse *m = unpack(
		&vllm__grpc__engine__get_server_info_response__descriptor, bytes, scratch, err);
	if (!m) {
		return -1;
	}
	ret->max_running = m->max_num_seqs > 0 ? (uint32_t)m->max_num_seqs : 0;
	return 0;
}

int kp_vllm_decode_loads(kp_str bytes, struct kp_arena *a, struct kp_engine_loads *ret,
	kp_str *ret_version, struct kp_err *err)
{
	KP_AUTO(arena) struct kp_arena *scratch = kp_arena_create(UNPACK_MAX);
	const Vllm__Grpc__Engine__GetLoadsResponse *m =
		unpack(&vllm__grpc__engine__get_loads_response__descriptor, bytes, scratch, err);
	if (!m || kp_arena_dup(a, kp_str_c(m->version), ret_version, err) < 0) {
		return -1;
	}
	uint32_t running = 0, waiting = 0;
	uint64_t tokens = 0;
	double usage = 0;
	for (size_t i = 0; i < m->n_loads; i++) {
		const Vllm__Grpc__Engine__SchedulerLoad *l = m->loads[i];
		running += (uint32_t)KP_MAX(l->num_running_reqs, 0);
		waiting += (uint32_t)KP_MAX(l->num_waiting_reqs, 0);
		tokens += (uint64_t)KP_MAX(l->num_used_tokens, 0);
		usage += l->token_usage >= 0 && l->token_usage <= 1 ? l->token_usage : 0;
	}
	ret->running = running;
	ret->waiting = waiting;
	ret->total_tokens = tokens;
	ret->kv_usage = m->n_loads ? (float)(usage / (double)m->n_loads) : 0.0f;
	return 0;
}

/* DESIGN: see cold.h. protobuf-c's messages lie in an arena of their own and are gone when the
   answer has been read. */
#include "engine/cold.h"
#include "json/value.h"
#include "wire/unpack.h"
#include "wire/wire.h"

void *kp_cold_unpack(const struct ProtobufCMessageDescriptor *d, kp_str bytes,
	struct kp_arena *scratch, struct kp_err *err)
{
	struct kp_wire_limits limits = KP_WIRE_LIMITS;
	limits.max_bytes = KP_COLD_MAX;
	return kp_wire_unpack(d, bytes, &limits, scratch, err);
}

int kp_cold_health(bool is_healthy, const char *words, struct kp_err *err)
{
	if (is_healthy) {
		return 0;
	}
	return kp_err_set(err, KP_UNAVAILABLE, "the engine says it is not healthy: %s",
		*words ? words : "no reason given");
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

int kp_cold_model_info(const struct kp_cold_model *m, struct kp_arena *a, struct kp_arena *scratch,
	struct kp_engine_info *ret, struct kp_err *err)
{
	kp_str path, served, type, architecture;
	const char *first = m->n_architectures ? m->architectures[0] : "";
	if (kp_arena_dup(a, kp_str_c(m->path), &path, err) < 0 ||
		kp_arena_dup(a, kp_str_c(m->served_name), &served, err) < 0 ||
		kp_arena_dup(a, kp_str_c(m->type), &type, err) < 0 ||
		kp_arena_dup(a, kp_str_c(first), &architecture, err) < 0) {
		return -1;
	}
	ret->model = path;
	ret->served_name = served;
	ret->model_type = type;
	ret->architecture = architecture;
	ret->max_context = (uint32_t)KP_MAX(m->max_context, 0);
	ret->vocab_size = (uint32_t)KP_MAX(m->vocab_size, 0);
	ret->n_eos = 0;
	for (size_t i = 0; i < m->n_eos && ret->n_eos < KP_LEN(ret->eos); i++) {
		if (m->eos[i] >= 0) {
			ret->eos[ret->n_eos++] = (kp_id)m->eos[i];
		}
	}
	ret->has_bos = m->bos > 0;
	ret->bos = ret->has_bos ? (kp_id)m->bos : 0;
	read_defaults(kp_str_c(m->defaults_json), scratch, &ret->defaults);
	return 0;
}

void kp_cold_load(
	struct kp_cold_loads *l, int32_t running, int32_t waiting, int32_t tokens, double usage)
{
	l->sum.running += (uint32_t)KP_MAX(running, 0);
	l->sum.waiting += (uint32_t)KP_MAX(waiting, 0);
	l->sum.total_tokens += (uint64_t)KP_MAX(tokens, 0);
	l->usage += usage >= 0 && usage <= 1 ? usage : 0;
	l->n++;
}

void kp_cold_loads(const struct kp_cold_loads *l, struct kp_engine_loads *ret)
{
	ret->running = l->sum.running;
	ret->waiting = l->sum.waiting;
	ret->total_tokens = l->sum.total_tokens;
	ret->kv_usage = l->n ? (float)(l->usage / (double)l->n) : 0.0f;
}

int kp_cold_tokenizer(kp_str bytes, kp_str *ret_data, kp_str *ret_sha256, struct kp_err *err)
{
	kp_str field[2] = { KP_STR_NULL, KP_STR_NULL };
	struct kp_wire w = kp_wire_of(bytes);
	struct kp_wire_field f;
	while (kp_wire_more(&w)) {
		if (!kp_wire_next(&w, &f) ||
			((f.number == 1 || f.number == 2) && f.type != KP_WIRE_BYTES)) {
			return kp_err_set(
				err, KP_INTERNAL, "read `tokenizer chunk`: not valid protobuf");
		}
		if (f.number == 1 || f.number == 2) {
			field[f.number - 1] = kp_wire_str(f.bytes);
		}
	}
	if (field[1].n != 0 && field[1].n != 64) {
		return kp_err_set(
			err, KP_INTERNAL, "read `sha256`: %zu characters, not 64", field[1].n);
	}
	*ret_data = field[0];
	*ret_sha256 = field[1];
	return 0;
}

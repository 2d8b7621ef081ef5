/* DESIGN: each list is read into room for the most there may be, then hung into the turn. */
#include "sidecar/api/params_lists.h"

#include "parse/stop.h"
#include "sidecar/api/params.h"

static int read_stop_string(struct kp_json *j, kp_str *ret, struct kp_err *err)
{
	struct kp_json at = *j; /* so that an error names this string */
	if (kp_json_string(j, ret, err)) {
		return -1;
	}
	if (ret->n == 0) {
		return kp_json_fail(&at, err, "a stop string must not be empty");
	}
	return ret->n > KP_STOP_MAX_BYTES
		       ? kp_json_fail(&at, err, "a stop string has at most %d bytes, got %zu",
				 KP_STOP_MAX_BYTES, ret->n)
		       : 0;
}

int kp_params_stop(struct kp_json *j, struct kp_turn *t, struct kp_err *err)
{
	enum { MAX = 16 };
	kp_str *stops = kp_arena_calloc(t->arena, MAX, sizeof(*stops));
	size_t n = 0;
	int more = 0;
	if (!stops) {
		return kp_arena_full(err, "stop strings");
	}
	if (kp_json_peek(j) == KP_JSON_STRING) {
		n = 1;
		if (read_stop_string(j, &stops[0], err)) {
			return -1;
		}
	} else if (kp_json_peek(j) != KP_JSON_ARRAY) {
		return kp_json_fail(j, err, "expected a string or an array of strings, got %s",
			kp_json_type_name(kp_json_peek(j)));
	} else {
		if (kp_json_array(j, err)) {
			return -1;
		}
		while ((more = kp_json_element(j, err)) > 0) {
			if (n == MAX) {
				return kp_json_fail(j, err, "at most %d stop strings", MAX);
			}
			if (read_stop_string(j, &stops[n], err)) {
				return -1;
			}
			n++;
		}
	}
	t->sampling.stop = stops;
	t->sampling.n_stop = n;
	return more;
}

int kp_params_stop_ids(struct kp_json *j, struct kp_turn *t, struct kp_err *err)
{
	kp_id *ids = kp_arena_calloc(t->arena, KP_MAX_STOP_IDS, sizeof(*ids));
	size_t n = 0;
	int more;
	if (!ids) {
		return kp_arena_full(err, "stop token ids");
	}
	if (kp_json_array(j, err)) {
		return -1;
	}
	while ((more = kp_json_element(j, err)) > 0) {
		int64_t id;
		if (n == KP_MAX_STOP_IDS) {
			return kp_json_fail(j, err, "at most %d ids", KP_MAX_STOP_IDS);
		}
		if (kp_json_i64(j, 0, INT32_MAX, &id, err)) {
			return -1;
		}
		ids[n++] = (kp_id)id;
	}
	t->sampling.stop_ids = ids;
	t->sampling.n_stop_ids = n;
	return more;
}

int kp_params_logit_bias(struct kp_json *j, struct kp_turn *t, struct kp_err *err)
{
	struct kp_logit_bias *bias = kp_arena_calloc(t->arena, KP_MAX_LOGIT_BIAS, sizeof(*bias));
	size_t n = 0;
	kp_str key;
	int more;
	if (!bias) {
		return kp_arena_full(err, "logit_bias");
	}
	if (kp_json_object(j, err)) {
		return -1;
	}
	while ((more = kp_json_member(j, &key, err)) > 0) {
		uint64_t id;
		double v;
		if (n == KP_MAX_LOGIT_BIAS) {
			return kp_json_fail(j, err, "at most %d entries", KP_MAX_LOGIT_BIAS);
		}
		if (!kp_str_u64(key, INT32_MAX, &id)) {
			return kp_json_fail(j, err, "the key must be a token id");
		}
		if (kp_json_f64(j, -100, 100, &v, err)) {
			return -1;
		}
		bias[n++] = (struct kp_logit_bias){ .id = (kp_id)id, .bias = (float)v };
	}
	t->sampling.logit_bias = bias;
	t->sampling.n_logit_bias = n;
	return more;
}

int kp_params_stream_options(struct kp_json *j, struct kp_turn *turn, struct kp_err *err)
{
	kp_str key;
	bool ignored;
	int more;
	if (kp_json_object(j, err)) {
		return -1;
	}
	while ((more = kp_json_member(j, &key, err)) > 0) {
		int null = kp_json_try_null(j, err);
		if (null) {
			if (null < 0) {
				return -1;
			}
		} else if (kp_str_eq(key, KP_S("include_usage"))) {
			if (kp_json_bool(j, &turn->include_usage, err)) {
				return -1;
			}
		} else if (kp_str_eq(key, KP_S("include_obfuscation"))) {
			if (kp_json_bool(j, &ignored, err)) {
				return -1;
			}
			if (ignored) {
				return kp_json_fail(
					j, err, "obfuscation of streams is not supported");
			}
		} else {
			return kp_json_fail(j, err, "unknown parameter");
		}
	}
	return more;
}

int kp_params_modalities(struct kp_json *j, struct kp_err *err)
{
	int more;
	if (kp_json_array(j, err)) {
		return -1;
	}
	while ((more = kp_json_element(j, err)) > 0) {
		kp_str v;
		if (kp_json_string(j, &v, err)) {
			return -1;
		}
		if (!kp_str_eq(v, KP_S("text"))) {
			return kp_json_fail(j, err, "only `text` is supported");
		}
	}
	return more;
}

/* DESIGN: the two trailers of kelpie.peer.v1 as text. The load's entries are one table. */
#include "engine/peer_codec.h"

#include <stdio.h>

const char *kp_peer_reason(kp_str word)
{
	static const char *const known[] = { KP_PEER_DRAINING, KP_PEER_NOT_OWNER, KP_PEER_DOWN,
		KP_PEER_STALE, KP_PEER_OVERLOADED, KP_PEER_UNSUPPORTED };
	for (size_t i = 0; i < KP_LEN(known); i++) {
		if (kp_str_eq(word, kp_str_c(known[i]))) {
			return known[i];
		}
	}
	return word.n ? "refused" : NULL;
}

kp_str kp_peer_write_load(const struct kp_engine_loads *l, char buf[KP_PEER_LOAD_MAX])
{
	int n = snprintf(buf, KP_PEER_LOAD_MAX, "in_flight=%u running=%u waiting=%u kv=%.4g",
		l->in_flight, l->running, l->waiting, (double)l->kv_usage);
	return kp_str_n(buf, (size_t)n);
}

static int bad(struct kp_err *err, kp_str entry)
{
	return kp_err_set(err, KP_INTERNAL, "read `%s`: `%" KP_FMT "` is not NAME=NUMBER",
		KP_PEER_TRAILER_LOAD, KP_ARG(kp_str_sub(entry, 0, 100)));
}

static int read_entry(kp_str entry, struct kp_engine_loads *l, struct kp_err *err)
{
	const struct {
		kp_str name;
		uint32_t *to;
	} counts[] = {
		{ KP_S("in_flight"), &l->in_flight },
		{ KP_S("running"), &l->running },
		{ KP_S("waiting"), &l->waiting },
	};
	kp_str value = entry, name = KP_STR_NULL;
	uint64_t v;
	double kv;
	if (kp_str_find_char(entry, '=') < 1) {
		return bad(err, entry);
	}
	kp_str_split(&value, '=', &name);
	for (size_t i = 0; i < KP_LEN(counts); i++) {
		if (kp_str_eq(name, counts[i].name)) {
			if (!kp_str_u64(value, UINT32_MAX, &v)) {
				return bad(err, entry);
			}
			*counts[i].to = (uint32_t)v;
		}
	}
	if (kp_str_eq(name, KP_S("kv"))) {
		if (!kp_str_f64(value, &kv) || kv < 0) {
			return bad(err, entry);
		}
		l->kv_usage = (float)KP_MIN(kv, 1.0);
	}
	return 0;
}

int kp_peer_parse_load(kp_str text, struct kp_engine_loads *ret, struct kp_err *err)
{
	struct kp_engine_loads l = { 0 };
	kp_str entry;
	while (kp_str_split(&text, ' ', &entry)) {
		if (read_entry(entry, &l, err) < 0) {
			return -1;
		}
	}
	*ret = l;
	return 0;
}

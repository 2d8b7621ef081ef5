/* DESIGN: what does not depend on where records are: opening by name, and walking a chain from its end. */
#include "sidecar/history/history.h"

int kp_history_open(const char *where, const struct kp_history_limits *limits,
	struct kp_history **ret, struct kp_err *err)
{
	kp_str name = kp_str_c(where), prefix = KP_S("sqlite:");
	if (kp_str_eq(name, KP_S("memory"))) {
		*ret = kp_history_memory(limits);
		return 0;
	}
	if (kp_str_starts(name, prefix) && name.n > prefix.n) {
		return kp_history_sqlite(where + prefix.n, limits, ret, err);
	}
	return kp_err_set(err, KP_INVALID_ARGUMENT,
		"`--history`: expected memory, sqlite:PATH or none, got `%s`", where);
}

void kp_history_close(struct kp_history *h)
{
	if (h) {
		h->ops->close(h);
	}
}

static int missing(kp_str id, bool is_first, struct kp_err *err)
{
	return kp_err_set(err, KP_NOT_FOUND,
		is_first ? "no response `%" KP_FMT "` is kept here"
			 : "response `%" KP_FMT
			   "`, which the conversation goes through, is not kept any more",
		KP_ARG(kp_str_sub(id, 0, KP_HISTORY_MAX_ID)));
}

int kp_history_chain(struct kp_history *h, kp_str tenant, kp_str id, struct kp_arena *a,
	struct kp_history_record **ret, size_t *ret_n, struct kp_err *err)
{
	struct kp_history_record *records = NULL;
	size_t n = 0, cap = 0, bytes = 0;
	while (id.p) {
		if (n == cap) {
			size_t more = cap ? cap * 2 : 16;
			records = kp_arena_grow(
				a, records, cap * sizeof(*records), more * sizeof(*records));
			if (!records) {
				return kp_arena_full(err, "conversation");
			}
			cap = more;
		}
		int r = h->ops->get(h, tenant, id, a, &records[n], err);
		if (r) {
			return r < 0 ? -1 : missing(id, n == 0, err);
		}
		bytes += records[n].body.n;
		id = records[n++].previous_id;
		if (n > KP_HISTORY_MAX_CHAIN || bytes > KP_HISTORY_MAX_CHAIN_BYTES) {
			return kp_err_set(err, KP_OUT_OF_RANGE,
				"the conversation has more than %d responses or %d bytes",
				KP_HISTORY_MAX_CHAIN, KP_HISTORY_MAX_CHAIN_BYTES);
		}
	}
	for (size_t i = 0; i < n / 2; i++) {
		struct kp_history_record swapped = records[i];
		records[i] = records[n - 1 - i];
		records[n - 1 - i] = swapped;
	}
	*ret = records;
	*ret_n = n;
	return 0;
}

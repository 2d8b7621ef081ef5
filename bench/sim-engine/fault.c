/* DESIGN: a table of names; a request's fault is the first that applies, in the order told in sim.h. The file is looked at (one stat) when a request comes,
   so a running engine can be made to fail and to recover. */
#include "protocol.h"
#include "base/fs.h"

#include <sys/stat.h>

static const struct {
	const char *name;
	enum kp_sim_fault_kind kind;
	uint32_t k; /* when not given */
} names[] = {
	{ "refuse", KP_SIM_REFUSE, 0 },
	{ "exhausted", KP_SIM_EXHAUSTED, 0 },
	{ "invalid", KP_SIM_INVALID, 0 },
	{ "hang", KP_SIM_HANG, 0 },
	{ "die", KP_SIM_DIE, 0 },
	{ "unavailable", KP_SIM_UNAVAILABLE, 0 },
	{ "internal", KP_SIM_INTERNAL, 0 },
	{ "no-finish", KP_SIM_NO_FINISH, 0 },
	{ "garbage-ids", KP_SIM_GARBAGE_IDS, 0 },
	{ "bad-choice", KP_SIM_BAD_CHOICE, 0 },
	{ "wrong-proto", KP_SIM_WRONG_PROTO, 0 },
	{ "empty", KP_SIM_EMPTY, 0 },
	{ "extra", KP_SIM_EXTRA, 0 },
	{ "error", KP_SIM_ERROR, 1 },
	{ "slow-drip", KP_SIM_SLOW_DRIP, 1000 },
	{ "unhealthy", KP_SIM_UNHEALTHY, 0 },
	{ "bad-digest", KP_SIM_BAD_DIGEST, 0 },
	{ "no-digest", KP_SIM_NO_DIGEST, 0 },
};

void kp_sim_fault_names(struct kp_buf *b)
{
	for (size_t i = 0; i < KP_LEN(names); i++) {
		kp_buf_printf(b, "%s%s", i ? ", " : "", names[i].name);
	}
}

const char *kp_sim_fault_name(enum kp_sim_fault_kind kind)
{
	for (size_t i = 0; i < KP_LEN(names); i++) {
		if (names[i].kind == kind) {
			return names[i].name;
		}
	}
	return "none";
}

static int parse(
	kp_str name, kp_str k, kp_str max_tokens, struct kp_sim_fault *ret, struct kp_err *err)
{
	for (size_t i = 0; i < KP_LEN(names); i++) {
		if (kp_str_eq(kp_str_c(names[i].name), name)) {
			uint64_t number = names[i].k, only = 0;
			if ((k.p && !kp_str_u64(k, 1000000, &number)) ||
				(max_tokens.p && !kp_str_u64(max_tokens, UINT32_MAX, &only))) {
				break;
			}
			*ret = (struct kp_sim_fault){ .kind = names[i].kind,
				.k = (uint32_t)number,
				.max_tokens = (uint32_t)only };
			return 0;
		}
	}
	return kp_err_set(err, KP_INVALID_ARGUMENT,
		"parse fault `%" KP_FMT "`: not NAME[:K][@MAX_TOKENS]", KP_ARG(name));
}

int kp_sim_fault_parse(kp_str text, struct kp_sim_fault *ret, struct kp_err *err)
{
	kp_str name = KP_STR_NULL, k = KP_STR_NULL, rest = text, only = KP_STR_NULL;
	(void)kp_str_split(&rest, '@', &name);
	if (rest.p) {
		only = rest;
	}
	rest = name;
	(void)kp_str_split(&rest, ':', &name);
	if (rest.p) {
		k = rest;
	}
	return parse(name, k, only, ret, err);
}

/* "... sim-fault.die.3 ..." anywhere in a text. */
static bool in_text(kp_str s, struct kp_sim_fault *ret)
{
	ptrdiff_t at = kp_str_find(s, KP_S("sim-fault."));
	if (at < 0) {
		return false;
	}
	s = kp_str_skip(s, (size_t)at + 10);
	size_t n = 0;
	while (n < s.n && ((s.p[n] >= 'a' && s.p[n] <= 'z') || s.p[n] == '-')) {
		n++;
	}
	kp_str name = kp_str_sub(s, 0, n), k = KP_STR_NULL;
	if (n + 1 < s.n && s.p[n] == '.' && kp_is_digit(s.p[n + 1])) {
		size_t end = n + 1;
		while (end < s.n && kp_is_digit(s.p[end])) {
			end++;
		}
		k = kp_str_sub(s, n + 1, end);
	}
	struct kp_err ignored = KP_ERR_INIT;
	return parse(name, k, KP_STR_NULL, ret, &ignored) == 0;
}

static void apply_line(struct kp_sim_control *f, kp_str line)
{
	struct kp_err ignored = KP_ERR_INIT;
	if (kp_str_starts(line, KP_S("ttft-ms="))) {
		(void)!kp_sim_milliseconds(kp_str_skip(line, 8), &f->ttft_ns, &ignored);
	} else if (kp_str_starts(line, KP_S("itl-ms="))) {
		(void)!kp_sim_milliseconds(kp_str_skip(line, 7), &f->itl_ns, &ignored);
	} else if (line.n && f->n_from_file < KP_LEN(f->from_file) &&
		   kp_sim_fault_parse(line, &f->from_file[f->n_from_file], &ignored) == 0) {
		f->n_from_file++;
	}
}

void kp_sim_control_refresh(struct kp_sim_control *f)
{
	struct stat st;
	if (!f->file) {
		return;
	}
	int64_t stamp = stat(f->file, &st) == 0
				? st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec + st.st_size +
					  (int64_t)st.st_ino
				: 0;
	if (stamp == f->file_stamp) {
		return;
	}
	f->file_stamp = stamp;
	f->n_from_file = 0;
	f->ttft_ns = f->given_ttft_ns;
	f->itl_ns = f->given_itl_ns;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 4096);
	struct kp_err ignored = KP_ERR_INIT;
	kp_str rest, line;
	if (stamp == 0 || kp_fs_read(f->file, &b, &ignored) < 0) {
		return;
	}
	for (rest = kp_buf_str(&b); kp_str_split(&rest, '\n', &line);) {
		apply_line(f, kp_str_trim(line));
	}
}

bool kp_sim_fault_on(struct kp_sim_control *f, enum kp_sim_fault_kind kind)
{
	kp_sim_control_refresh(f);
	for (size_t i = 0; i < f->n_from_file; i++) {
		if (f->from_file[i].kind == kind) {
			return true;
		}
	}
	for (size_t i = 0; i < f->n_fixed; i++) {
		if (f->fixed[i].kind == kind) {
			return true;
		}
	}
	return false;
}

static bool is_of_requests(enum kp_sim_fault_kind k)
{
	return k != KP_SIM_UNHEALTHY && k != KP_SIM_BAD_DIGEST && k != KP_SIM_NO_DIGEST;
}

static bool first_of(
	const struct kp_sim_fault *list, size_t n, uint32_t max_tokens, struct kp_sim_fault *ret)
{
	for (size_t i = 0; i < n; i++) {
		if (is_of_requests(list[i].kind) &&
			(list[i].max_tokens == 0 || list[i].max_tokens == max_tokens)) {
			*ret = list[i];
			return true;
		}
	}
	return false;
}

struct kp_sim_fault kp_sim_fault_of(struct kp_sim_control *f, const struct kp_sim_request *r,
	const grpc_metadata_array *metadata)
{
	struct kp_sim_fault fault = { 0 };
	struct kp_err ignored = KP_ERR_INIT;
	kp_sim_control_refresh(f);
	for (size_t i = 0; i < metadata->count; i++) {
		const grpc_metadata *m = &metadata->metadata[i];
		kp_str value =
			kp_str_n(GRPC_SLICE_START_PTR(m->value), GRPC_SLICE_LENGTH(m->value));
		if (grpc_slice_str_cmp(m->key, "x-sim-fault") == 0 &&
			kp_sim_fault_parse(value, &fault, &ignored) == 0) {
			return fault;
		}
	}
	if (in_text(kp_str_c(r->id), &fault) || in_text(kp_str_c(r->text), &fault)) {
		return fault;
	}
	uint32_t max_tokens = r->has_max_tokens ? r->max_tokens : 0;
	if (!first_of(f->from_file, f->n_from_file, max_tokens, &fault)) {
		(void)first_of(f->fixed, f->n_fixed, max_tokens, &fault);
	}
	return fault;
}

/* DESIGN: the command line into struct kp_sim_opts, by one table that is also --help. */
#include "sim.h"
#include "bench/common/options.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/vec.h"

#include <stdio.h>

enum opt {
	OPT_LISTEN = 1,
	OPT_TTFT,
	OPT_ITL,
	OPT_VOCAB,
	OPT_MAX_CONTEXT,
	OPT_TOKENS,
	OPT_SEED_STEP,
	OPT_TURNS,
	OPT_STOP_AFTER,
	OPT_CACHED,
	OPT_MODEL,
	OPT_SERVED_NAME,
	OPT_MODEL_TYPE,
	OPT_ARCHITECTURE,
	OPT_DEFAULTS,
	OPT_EOS,
	OPT_BOS,
	OPT_TOKENIZER_ZIP,
	OPT_TOKENIZER_FILE,
	OPT_FAULT,
	OPT_CONTROL,
	OPT_LOG,
	OPT_LOG_IDS,
	OPT_MAX_STREAMS,
	OPT_SHM,
	OPT_ITEM_LIMITS,
	OPT_NORMALIZES,
	OPT_PROTOCOL,
};

static const struct kp_option table[] = {
	{ "listen", OPT_LISTEN, "ADDR",
		"address to serve on (127.0.0.1:50051; port 0: any, see the first line of output)" },
	{ "protocol", OPT_PROTOCOL, "NAME",
		"vllm, sglang or both: what it speaks on that port (both)" },
	{ "ttft-ms", OPT_TTFT, "MS", "time to first token (0)" },
	{ "itl-ms", OPT_ITL, "MS",
		"time between tokens, one common step for all requests, not below 1; 0: as fast as it can (0)" },
	{ "vocab", OPT_VOCAB, "N", "vocabulary size (32000)" },
	{ "max-context", OPT_MAX_CONTEXT, "N", "prompt and output tokens together (131072)" },
	{ "tokens", OPT_TOKENS, "FILE",
		"ids to answer with, in a circle, separated by white space, instead of hashed ones" },
	{ "seed-step", OPT_SEED_STEP, "N",
		"a request with seed S begins N * S ids further in that file (0)" },
	{ "turns", OPT_TURNS, "ID:N",
		"a prompt with ID in it K times begins N * K ids further, and ends at the first end-of-sequence id" },
	{ "stop-after", OPT_STOP_AFTER, "N",
		"the N-th token is the end-of-sequence token (never)" },
	{ "cached", OPT_CACHED, "N", "cached_tokens to report (0)" },
	{ "model", OPT_MODEL, "TEXT", "model_path (sim)" },
	{ "served-name", OPT_SERVED_NAME, "TEXT", "served_model_name (the model)" },
	{ "model-type", OPT_MODEL_TYPE, "TEXT", "model_type (llama)" },
	{ "architecture", OPT_ARCHITECTURE, "TEXT", "architecture (LlamaForCausalLM)" },
	{ "defaults", OPT_DEFAULTS, "JSON", "default_sampling_params_json" },
	{ "eos", OPT_EOS, "ID[,ID...]", "end-of-sequence ids (2)" },
	{ "bos", OPT_BOS, "ID", "begin-of-sequence id (1)" },
	{ "tokenizer-zip", OPT_TOKENIZER_ZIP, "FILE", "archive for GetTokenizer" },
	{ "tokenizer-file", OPT_TOKENIZER_FILE, "FILE",
		"or a file to put into one; may be repeated" },
	{ "fault", OPT_FAULT, "FAULT",
		"go wrong, see below; may be repeated, the first that applies counts" },
	{ "control", OPT_CONTROL, "FILE",
		"faults, itl-ms=MS and ttft-ms=MS, one a line; read again when it changes" },
	{ "log", OPT_LOG, "FILE", "append a JSON line for each start, end, cancellation, abort" },
	{ "log-ids", OPT_LOG_IDS, NULL, "with the prompt's ids, and what was said of sampling" },
	{ "shm", OPT_SHM, "TEXT", "shm_namespace_id, \"\" for none (that of its /dev/shm)" },
	{ "item-limits", OPT_ITEM_LIMITS, "TEXT", "mm_item_limits, e.g. image=2 (none)" },
	{ "normalizes", OPT_NORMALIZES, NULL,
		"mm_device_do_normalize: pixels as bytes, others are refused" },
	{ "max-streams", OPT_MAX_STREAMS, "N",
		"MAX_CONCURRENT_STREAMS of a connection (no limit)" },
};

static void help(void)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 64 << 10);
	printf("sim-engine: an engine without a model, for tests and benchmarks\n");
	kp_options_help(table, KP_LEN(table));
	kp_buf_lit(&b,
		"FAULT is NAME[:K][@M], K the number of tokens before it happens (slow-drip: milliseconds), M: only requests with max_tokens M.\n"
		"Each does the same in every protocol, said in the protocol's way (SGLang has no RESOURCE_EXHAUSTED for exhausted, no finish_reason for error).\n"
		"A request chooses its own by metadata `x-sim-fault: NAME[:K]`, or by \"sim-fault.NAME[.K]\" in request_id or original_text.\n"
		"NAME: ");
	kp_sim_fault_names(&b);
	kp_buf_lit(&b, "\n");
	fputs(kp_buf_cstr(&b), stdout);
}

int kp_sim_milliseconds(kp_str text, int64_t *ret, struct kp_err *err)
{
	double ms;
	if (!kp_str_f64(text, &ms) || ms < 0 || ms > 1e7) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"read `%" KP_FMT "`: not a number of milliseconds", KP_ARG(text));
	}
	*ret = (int64_t)(ms * (double)KP_NS_PER_MS);
	return 0;
}

static int ids_in(
	kp_str text, char separator, uint32_t *ret, size_t max, size_t *ret_n, struct kp_err *err)
{
	size_t n = 0;
	kp_str part;
	while (kp_str_split(&text, separator, &part)) {
		uint64_t v;
		part = kp_str_trim(part);
		if (part.n == 0) {
			continue;
		}
		if (n == max || !kp_str_u64(part, INT32_MAX, &v)) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"read ids `%" KP_FMT "`: not an id, or too many", KP_ARG(part));
		}
		ret[n++] = (uint32_t)v;
	}
	*ret_n = n;
	return 0;
}

static int read_turns(kp_str text, struct kp_sim_opts *o, struct kp_err *err)
{
	kp_str id;
	uint64_t v = 0, n = 0;
	if (!kp_str_split(&text, ':', &id) || !kp_str_u64(id, UINT32_MAX, &v) ||
		!kp_str_u64(text, INT32_MAX, &n) || n == 0) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "`--turns`: expected ID:N");
	}
	o->turn_id = (uint32_t)v;
	o->turn_step = (uint32_t)n;
	return 0;
}

static int read_tokens(const char *path, struct kp_sim_opts *o, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 16 << 20);
	if (kp_fs_read(path, &b, err) < 0) {
		return -1;
	}
	for (size_t i = 0; i < b.n; i++) {
		b.p[i] = b.p[i] == '\n' || b.p[i] == '\t' || b.p[i] == '\r' ? ' ' : b.p[i];
	}
	kp_free(&o->tokens);
	o->tokens = kp_xcalloc(b.n + 1, sizeof(uint32_t));
	if (ids_in(kp_buf_str(&b), ' ', o->tokens, b.n, &o->n_tokens, err) < 0) {
		return -1;
	}
	return o->n_tokens ? 0
			   : kp_err_set(err, KP_INVALID_ARGUMENT, "read tokens `%s`: no ids", path);
}

static int read_protocol(kp_str name, unsigned *ret, struct kp_err *err)
{
	if (kp_str_eq(name, KP_S("both"))) {
		*ret = KP_SIM_VLLM | KP_SIM_SGLANG;
	} else if (kp_str_eq(name, KP_S("vllm"))) {
		*ret = KP_SIM_VLLM;
	} else if (kp_str_eq(name, KP_S("sglang"))) {
		*ret = KP_SIM_SGLANG;
	} else {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"read --protocol `%" KP_FMT "`: not vllm, sglang or both", KP_ARG(name));
	}
	return 0;
}

static int apply(void *ctx, const struct kp_option *opt, const char *z, struct kp_err *err)
{
	struct kp_sim_opts *o = ctx;
	switch ((enum opt)opt->opt) {
	case OPT_LISTEN:
		o->listen = z;
		return 0;
	case OPT_TTFT:
		return kp_sim_milliseconds(kp_str_c(z), &o->control.given_ttft_ns, err);
	case OPT_ITL:
		return kp_sim_milliseconds(kp_str_c(z), &o->control.given_itl_ns, err);
	case OPT_VOCAB:
		return kp_option_u32(opt, z, 0, INT32_MAX, &o->vocab, err);
	case OPT_MAX_CONTEXT:
		return kp_option_u32(opt, z, 0, INT32_MAX, &o->max_context, err);
	case OPT_TOKENS:
		return read_tokens(z, o, err);
	case OPT_SEED_STEP:
		return kp_option_u32(opt, z, 0, INT32_MAX, &o->seed_step, err);
	case OPT_TURNS:
		return read_turns(kp_str_c(z), o, err);
	case OPT_STOP_AFTER:
		return kp_option_u32(opt, z, 0, INT32_MAX, &o->stop_after, err);
	case OPT_CACHED:
		return kp_option_u32(opt, z, 0, INT32_MAX, &o->cached, err);
	case OPT_MODEL:
		o->model = z;
		return 0;
	case OPT_SERVED_NAME:
		o->served_name = z;
		return 0;
	case OPT_MODEL_TYPE:
		o->model_type = z;
		return 0;
	case OPT_ARCHITECTURE:
		o->architecture = z;
		return 0;
	case OPT_DEFAULTS:
		o->defaults = z;
		return 0;
	case OPT_EOS:
		return ids_in(kp_str_c(z), ',', o->eos, KP_LEN(o->eos), &o->n_eos, err);
	case OPT_BOS:
		return kp_option_u32(opt, z, 0, INT32_MAX, &o->bos, err);
	case OPT_TOKENIZER_ZIP:
		o->tokenizer_zip = z;
		return 0;
	case OPT_TOKENIZER_FILE:
		if (o->n_tokenizer_files == KP_LEN(o->tokenizer_files)) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"read --%s `%s`: too many files", opt->name, z);
		}
		o->tokenizer_files[o->n_tokenizer_files++] = z;
		return 0;
	case OPT_FAULT:
		if (o->control.n_fixed == KP_LEN(o->control.fixed)) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"read --%s `%s`: too many faults", opt->name, z);
		}
		return kp_sim_fault_parse(
			kp_str_c(z), &o->control.fixed[o->control.n_fixed++], err);
	case OPT_CONTROL:
		o->control.file = z;
		return 0;
	case OPT_LOG:
		o->log = z;
		return 0;
	case OPT_LOG_IDS:
		o->log_ids = true;
		return 0;
	case OPT_PROTOCOL:
		return read_protocol(kp_str_c(z), &o->protocols, err);
	case OPT_SHM:
		o->shm = z;
		return 0;
	case OPT_ITEM_LIMITS:
		o->item_limits = z;
		return 0;
	case OPT_NORMALIZES:
		o->normalizes = true;
		return 0;
	case OPT_MAX_STREAMS:
		return kp_option_u32(opt, z, 0, INT32_MAX, &o->max_streams, err);
	}
	return 0;
}

int kp_sim_options(int argc, char **argv, struct kp_sim_opts *ret, struct kp_err *err)
{
	struct kp_sim_opts *o = ret;
	*o = (struct kp_sim_opts){ .listen = "127.0.0.1:50051",
		.protocols = KP_SIM_VLLM | KP_SIM_SGLANG,
		.vocab = 32000,
		.max_context = 131072,
		.model = "sim",
		.model_type = "llama",
		.architecture = "LlamaForCausalLM",
		.defaults = "",
		.item_limits = "",
		.eos = { 2 },
		.n_eos = 1,
		.bos = 1 };
	int r = kp_options_parse(argc, argv, table, KP_LEN(table), apply, o, err);
	if (r > 0) {
		help();
	}
	if (r != 0) {
		return r;
	}
	if (o->vocab == 0 || o->max_context < 2) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"read the command line: --vocab and --max-context must be larger");
	}
	o->control.ttft_ns = o->control.given_ttft_ns;
	o->control.itl_ns = o->control.given_itl_ns;
	o->served_name = o->served_name ? o->served_name : o->model;
	return 0;
}

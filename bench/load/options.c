/* DESIGN: the command line by one table that is also --help. */
#include "load.h"

#include "bench/common/options.h"

#include <arpa/inet.h>
#include <stdio.h>

enum opt {
	OPT_ADDRESS = 1,
	OPT_MODEL,
	OPT_PROMPT,
	OPT_WORDS,
	OPT_UNIQUE,
	OPT_COMPLETIONS,
	OPT_NO_STREAM,
	OPT_NO_USAGE,
	OPT_MAX_TOKENS,
	OPT_CONCURRENCY,
	OPT_REQUESTS,
	OPT_SECONDS,
	OPT_WARMUP,
	OPT_SEED,
	OPT_API_KEY,
	OPT_PID,
	OPT_JSON,
};

static const struct kp_option table[] = {
	{ "address", OPT_ADDRESS, "HOST:PORT", "where the API is served; a loopback address" },
	{ "model", OPT_MODEL, "NAME", "model to ask for" },
	{ "prompt", OPT_PROMPT, "short|long|FILE",
		"a fixed set, new long ones full of digits, or the lines of a file (short)" },
	{ "words", OPT_WORDS, "N", "length of long prompts (3000, about 21 KB)" },
	{ "unique", OPT_UNIQUE, NULL, "make every prompt new by a number behind it" },
	{ "completions", OPT_COMPLETIONS, NULL, "/v1/completions instead of /v1/chat/completions" },
	{ "no-stream", OPT_NO_STREAM, NULL, "ask for whole answers" },
	{ "no-usage", OPT_NO_USAGE, NULL,
		"do not ask for usage; tokens are then taken to be max_tokens" },
	{ "max-tokens", OPT_MAX_TOKENS, "N", "tokens of an answer (64)" },
	{ "concurrency", OPT_CONCURRENCY, "N", "requests at a time (64)" },
	{ "requests", OPT_REQUESTS, "N", "how many to measure (1000)" },
	{ "seconds", OPT_SECONDS, "S", "or for how long" },
	{ "warmup", OPT_WARMUP, "N", "requests before measuring (the concurrency)" },
	{ "seed", OPT_SEED, "N", "of the prompts (1)" },
	{ "api-key", OPT_API_KEY, "KEY", "sent as bearer token" },
	{ "pid", OPT_PID, "PID",
		"process whose CPU and memory to measure; may be repeated, the sum counts" },
	{ "json", OPT_JSON, NULL, "print one JSON object" },
};

static void help(void)
{
	printf("kelpie-load: load and measure an OpenAI endpoint on this machine\n");
	kp_options_help(table, KP_LEN(table));
}

static int apply(void *ctx, const struct kp_option *opt, const char *z, struct kp_err *err)
{
	struct kp_load_opts *o = ctx;
	uint64_t v = 0;
	switch ((enum opt)opt->opt) {
	case OPT_ADDRESS:
		o->address = z;
		return 0;
	case OPT_MODEL:
		o->model = z;
		return 0;
	case OPT_PROMPT:
		o->prompt = kp_str_eq(kp_str_c(z), KP_S("short"))  ? KP_LOAD_SHORT
			    : kp_str_eq(kp_str_c(z), KP_S("long")) ? KP_LOAD_LONG
								   : KP_LOAD_FILE;
		o->prompt_file = z;
		return 0;
	case OPT_WORDS:
		return kp_option_u32(opt, z, 1, 1000000, &o->words, err);
	case OPT_MAX_TOKENS:
		return kp_option_u32(opt, z, 1, 1000000, &o->max_tokens, err);
	case OPT_CONCURRENCY:
		return kp_option_u32(opt, z, 1, 10000, &o->concurrency, err);
	case OPT_REQUESTS:
		return kp_option_number(opt, z, 1, 100000000, &o->requests, err);
	case OPT_WARMUP:
		return kp_option_number(opt, z, 0, 100000000, &o->warmup, err);
	case OPT_SEED:
		return kp_option_number(opt, z, 0, UINT64_MAX, &o->seed, err);
	case OPT_SECONDS:
		if (!kp_str_f64(kp_str_c(z), &o->seconds) || o->seconds <= 0 ||
			o->seconds > 86400) {
			return kp_err_set(err, KP_INVALID_ARGUMENT, "read --%s `%s`: not a time",
				opt->name, z);
		}
		o->requests = 0;
		return 0;
	case OPT_API_KEY:
		o->api_key = z;
		return 0;
	case OPT_PID:
		if (o->n_pids == KP_LEN(o->pids)) {
			return kp_err_set(
				err, KP_INVALID_ARGUMENT, "read --%s `%s`: too many", opt->name, z);
		}
		if (kp_option_number(opt, z, 1, INT32_MAX, &v, err) < 0) {
			return -1;
		}
		o->pids[o->n_pids++] = (int32_t)v;
		return 0;
	case OPT_UNIQUE:
		o->unique = true;
		return 0;
	case OPT_COMPLETIONS:
		o->completions = true;
		return 0;
	case OPT_NO_STREAM:
		o->stream = false;
		return 0;
	case OPT_NO_USAGE:
		o->usage = false;
		return 0;
	case OPT_JSON:
		o->json = true;
		return 0;
	}
	return 0;
}

int kp_load_options(int argc, char **argv, struct kp_load_opts *ret, struct kp_err *err)
{
	struct kp_load_opts o = { .model = "default",
		.stream = true,
		.usage = true,
		.words = 3000,
		.max_tokens = 64,
		.concurrency = 64,
		.requests = 1000,
		.warmup = UINT64_MAX,
		.seed = 1 };
	int r = kp_options_parse(argc, argv, table, KP_LEN(table), apply, &o, err);
	if (r > 0) {
		help();
	}
	if (r != 0) {
		return r;
	}
	if (!o.address) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"read the command line: --address is needed, see --help");
	}
	o.warmup = o.warmup == UINT64_MAX ? o.concurrency : o.warmup;
	*ret = o;
	return 0;
}

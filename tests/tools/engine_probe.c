/* engine_probe ADDRESS [vocab=N] [protocol=vllm|sglang]: asks an engine what it is told on standard input, one command a line, through kp_engine, and prints
   what happens as JSON, one object a line. For tests/integ/engine. Ends at the end of its input or at `quit`.

   Commands:
	start ID ids=N,N,...|prompt=COUNT [option=value...]
	    options: n, max_tokens, min_tokens, temperature, top_p, top_k, min_p, frequency_penalty, presence_penalty, repetition_penalty, seed,
	    stop_ids, logprobs, prompt_logprobs, ignore_eos=1, bias=ID:VALUE, stream=0,
	    deadline_ms, text, request_id (ID), show=0 (no deltas), pause_after=TOKENS, cancel_after=TOKENS, destroy_after=TOKENS (inside the delta)
	resume ID | cancel ID | health | info | loads | tokenizer [FILE] | destroy | quit
	bench streams=N requests=N prompt=COUNT max_tokens=N    many requests over the one channel; prints the process's own CPU time
   Answers:
	{"event": "delta", "id", "choice", "ids", "finish", "matched", "prompt_tokens", "cached_tokens", "logprobs", "prompt_logprobs"}
	{"event": "end", "id", "code", "message", "param", "retryable", "deltas", "tokens", "t"}    t: monotonic seconds
	{"event": "health"|"info"|"loads"|"tokenizer", "code", "message", ...}
	{"event": "load", "in_flight", "running", "waiting", "kv_usage"}    of an owner, at the end of a call

   With `id=GATEWAY` the address is the peer port of the gateway that owns the endpoint `endpoint=ENGINE,ADDRESS`; `tls=FOLDER` has tls.crt, tls.key, ca.crt. */
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "engine/peer.h"
#include "engine/sglang.h"
#include "engine/vllm.h"
#include "json/write.h"
#include "net/loop.h"
#include "net/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

enum { MAX_CALLS = 1024, LINE_MAX_BYTES = 16 << 20, MAX_LIST = 1 << 16 };

struct probe_call {
	struct kp_engine_call *call; /* NULL: not running */
	char id[32];
	bool show;
	uint64_t deltas, tokens, pause_after, cancel_after, destroy_after;
};

static struct kp_loop *loop;
static struct kp_engine *engine;
static struct probe_call calls[MAX_CALLS];
static struct kp_buf input;
static uv_poll_t input_poll;

static void die(const char *what, const char *operand)
{
	fprintf(stderr, "engine_probe: %s `%s`\n", what, operand);
	exit(2);
}

static void print_line(struct kp_buf *b)
{
	kp_buf_lit(b, "}\n");
	KP_BUG_ON(!kp_buf_ok(b));
	fwrite(b->p, 1, b->n, stdout);
	fflush(stdout);
}
static void begin(struct kp_buf *b, const char *event, const char *id)
{
	kp_buf_init(b, 64 << 20);
	kp_buf_printf(b, "{\"event\": \"%s\"", event);
	if (id) {
		kp_buf_printf(b, ", \"id\": \"%s\"", id);
	}
}
static void field(struct kp_buf *b, const char *name, kp_str value)
{
	kp_buf_printf(b, ", \"%s\": ", name);
	kp_json_w_str(b, value);
}
static void number(struct kp_buf *b, const char *name, double v)
{
	kp_buf_printf(b, ", \"%s\": %.9g", name, v);
}

/* --- generations --- */

static void add_logprobs(
	struct kp_buf *b, const char *name, const struct kp_token_logprob *l, size_t n)
{
	kp_buf_printf(b, ", \"%s\": [", name);
	for (size_t i = 0; i < n; i++) {
		kp_buf_printf(b, "%s{\"id\": %u, \"logprob\": ", i ? ", " : "", l[i].id);
		if (l[i].is_absent) {
			kp_buf_lit(b, "null");
		} else {
			kp_buf_printf(b, "%.9g", (double)l[i].logprob);
		}
		kp_buf_lit(b, ", \"top\": [");
		for (uint32_t k = 0; k < l[i].n_top; k++) {
			kp_buf_printf(b, "%s[%u, %.9g]", k ? ", " : "", l[i].top[k].id,
				(double)l[i].top[k].logprob);
		}
		kp_buf_lit(b, "]}");
	}
	kp_buf_addc(b, ']');
}

static void show_delta(const struct probe_call *c, const struct kp_engine_delta *d)
{
	static const char *const finishes[] = { NULL, "stop", "length", "abort", "error" };
	KP_AUTO(buf) struct kp_buf b;
	begin(&b, "delta", c->id);
	number(&b, "choice", d->choice);
	kp_buf_lit(&b, ", \"ids\": [");
	for (size_t i = 0; i < d->n_ids; i++) {
		kp_buf_printf(&b, "%s%u", i ? ", " : "", d->ids[i]);
	}
	kp_buf_addc(&b, ']');
	if (d->finish) {
		field(&b, "finish", kp_str_c(finishes[d->finish]));
	}
	if (d->has_matched_id) {
		number(&b, "matched", d->matched_id);
	}
	number(&b, "prompt_tokens", d->prompt_tokens);
	number(&b, "cached_tokens", d->cached_tokens);
	if (d->logprobs) {
		add_logprobs(&b, "logprobs", d->logprobs, d->n_ids);
	}
	if (d->prompt_logprobs) {
		add_logprobs(&b, "prompt_logprobs", d->prompt_logprobs, d->n_prompt_logprobs);
	}
	print_line(&b);
}

static void on_delta(void *user, const struct kp_engine_delta *d)
{
	struct probe_call *c = user;
	uint64_t before = c->tokens;
	c->deltas++;
	c->tokens += d->n_ids;
	if (c->show) {
		show_delta(c, d);
	}
	if (before < c->pause_after && c->tokens >= c->pause_after) {
		engine->ops->pause(c->call, true);
	}
	if (before < c->cancel_after && c->tokens >= c->cancel_after) {
		engine->ops->cancel(kp_steal(c->call));
		KP_AUTO(buf) struct kp_buf b;
		begin(&b, "cancelled", c->id);
		number(&b, "t", (double)kp_now_ns() / 1e9);
		print_line(&b);
	} else if (before < c->destroy_after && c->tokens >= c->destroy_after) {
		struct kp_engine *e = kp_steal(engine);
		e->ops->destroy(e);
	}
}

static void on_end(void *user, const struct kp_err *status, bool retryable)
{
	struct probe_call *c = user;
	c->call = NULL;
	KP_AUTO(buf) struct kp_buf b;
	begin(&b, "end", c->id);
	field(&b, "code", kp_str_c(kp_code_name(status->code)));
	field(&b, "message", kp_str_c(status->msg));
	field(&b, "param", kp_str_c(status->param));
	kp_buf_printf(&b, ", \"retryable\": %s", retryable ? "true" : "false");
	if (status->reason) {
		field(&b, "reason", kp_str_c(status->reason));
	}
	number(&b, "deltas", (double)c->deltas);
	number(&b, "tokens", (double)c->tokens);
	number(&b, "t", (double)kp_now_ns() / 1e9);
	print_line(&b);
}

static const struct kp_engine_sink sink = { .delta = on_delta, .end = on_end };

/* --- reading commands --- */

static bool option(kp_str word, const char *name, kp_str *ret_value)
{
	kp_str n = kp_str_c(name);
	if (!kp_str_starts(word, n) || word.n <= n.n || word.p[n.n] != '=') {
		return false;
	}
	*ret_value = kp_str_skip(word, n.n + 1);
	return true;
}
static bool number_option(kp_str word, const char *name, double *ret)
{
	kp_str v;
	return option(word, name, &v) && kp_str_f64(v, ret);
}
static bool count_option(kp_str word, const char *name, uint64_t *ret)
{
	kp_str v;
	return option(word, name, &v) && kp_str_u64(v, UINT64_MAX, ret);
}
static bool ids_option(kp_str word, const char *name, kp_id *ids, size_t *ret_n)
{
	kp_str rest, part;
	uint64_t v;
	if (!option(word, name, &rest)) {
		return false;
	}
	for (*ret_n = 0; kp_str_split(&rest, ',', &part) && *ret_n < MAX_LIST;) {
		if (!kp_str_u64(part, UINT32_MAX, &v)) {
			die("not an id in", name);
		}
		ids[(*ret_n)++] = (kp_id)v;
	}
	return true;
}

/* Prompts of a length only: different ones for different calls. */
static size_t make_prompt(kp_id *ids, uint64_t n, uint64_t salt)
{
	for (size_t i = 0; i < KP_MIN(n, (uint64_t)MAX_LIST); i++) {
		ids[i] = (kp_id)((i * 7919 + salt) % 30000 + 3);
	}
	return KP_MIN(n, (uint64_t)MAX_LIST);
}

static bool float_option(kp_str word, struct kp_sampling *s)
{
	const struct {
		const char *name;
		enum kp_sampling_field bit;
		double *field;
	} known[] = { { "temperature", KP_SET_TEMPERATURE, &s->temperature },
		{ "top_p", KP_SET_TOP_P, &s->top_p }, { "min_p", KP_SET_MIN_P, &s->min_p },
		{ "frequency_penalty", KP_SET_FREQUENCY_PENALTY, &s->frequency_penalty },
		{ "presence_penalty", KP_SET_PRESENCE_PENALTY, &s->presence_penalty },
		{ "repetition_penalty", KP_SET_REPETITION_PENALTY, &s->repetition_penalty } };
	for (size_t i = 0; i < KP_LEN(known); i++) {
		if (number_option(word, known[i].name, known[i].field)) {
			s->set |= (uint32_t)known[i].bit;
			return true;
		}
	}
	return false;
}

static bool int_option(kp_str word, struct kp_sampling *s)
{
	static const struct {
		const char *name;
		uint32_t bit; /* 0: always counts */
	} known[] = { { "max_tokens", KP_SET_MAX_TOKENS }, { "top_k", KP_SET_TOP_K },
		{ "seed", KP_SET_SEED }, { "logprobs", KP_SET_LOGPROBS },
		{ "prompt_logprobs", KP_SET_PROMPT_LOGPROBS }, { "n", 0 }, { "min_tokens", 0 },
		{ "ignore_eos", 0 } };
	double d = 0;
	size_t i = 0;
	while (i < KP_LEN(known) && !number_option(word, known[i].name, &d)) {
		i++;
	}
	if (i == KP_LEN(known)) {
		return false;
	}
	s->set |= known[i].bit;
	switch (i) {
	case 0:
		s->max_tokens = (uint32_t)d;
		break;
	case 1:
		s->top_k = (int32_t)d;
		break;
	case 2:
		s->seed = (int64_t)d;
		break;
	case 3:
		s->logprobs = (int32_t)d;
		break;
	case 4:
		s->prompt_logprobs = (int32_t)d;
		break;
	case 5:
		s->n = (uint32_t)d;
		break;
	case 6:
		s->min_tokens = (uint32_t)d;
		break;
	default:
		s->ignore_eos = d != 0;
		break;
	}
	return true;
}

static bool sampling_option(
	kp_str word, struct kp_sampling *s, kp_id *stop, struct kp_logit_bias *bias)
{
	kp_str v;
	double d = 0;
	if (float_option(word, s) || int_option(word, s)) {
		return true;
	}
	if (ids_option(word, "stop_ids", stop, &s->n_stop_ids)) {
		s->stop_ids = stop;
		return true;
	}
	if (option(word, "bias", &v)) {
		kp_str id = KP_STR_NULL;
		uint64_t u = 0;
		kp_str_split(&v, ':', &id);
		if (!kp_str_u64(id, UINT32_MAX, &u) || !kp_str_f64(v, &d)) {
			die("not ID:VALUE in", "bias");
		}
		bias[s->n_logit_bias++] =
			(struct kp_logit_bias){ .id = (kp_id)u, .bias = (float)d };
		s->logit_bias = bias;
		return true;
	}
	return false;
}

static struct probe_call *find_call(kp_str id)
{
	for (size_t i = 0; i < MAX_CALLS; i++) {
		if (calls[i].call && kp_str_eq(kp_str_c(calls[i].id), id)) {
			return &calls[i];
		}
	}
	return NULL;
}

static struct probe_call *free_call(kp_str id)
{
	for (size_t i = 0; i < MAX_CALLS; i++) {
		if (!calls[i].call) {
			calls[i] = (struct probe_call){ .show = true };
			memcpy(calls[i].id, id.p, KP_MIN(id.n, sizeof(calls[i].id) - 1));
			return &calls[i];
		}
	}
	die("too many calls at", "start");
	return NULL;
}

static void start(kp_str line)
{
	static kp_id ids[MAX_LIST], stop[MAX_LIST];
	struct kp_logit_bias bias[16];
	kp_str id = KP_STR_NULL, word;
	kp_str_split(&line, ' ', &id);
	struct probe_call *c = free_call(id);
	struct kp_sampling s = { .n = 1 };
	struct kp_engine_request r = {
		.request_id = id, .ids = ids, .sampling = &s, .stream = true
	};
	uint64_t v;
	while (kp_str_split(&line, ' ', &word)) {
		if (ids_option(word, "ids", ids, &r.n_ids) || option(word, "text", &r.text) ||
			option(word, "request_id", &r.request_id) ||
			count_option(word, "pause_after", &c->pause_after) ||
			count_option(word, "cancel_after", &c->cancel_after) ||
			count_option(word, "destroy_after", &c->destroy_after) ||
			sampling_option(word, &s, stop, bias)) {
			continue;
		}
		if (count_option(word, "prompt", &v)) {
			r.n_ids = make_prompt(ids, v, 0);
		} else if (count_option(word, "stream", &v)) {
			r.stream = v != 0;
		} else if (count_option(word, "show", &v)) {
			c->show = v != 0;
		} else if (count_option(word, "deadline_ms", &v)) {
			r.deadline_ns = kp_now_ns() + (int64_t)v * KP_NS_PER_MS;
		} else {
			die("bad option in", "start");
		}
	}
	c->call = engine->ops->start(engine, &r, &sink, c);
}

/* --- questions --- */

static void begin_answer(struct kp_buf *b, const char *event, const struct kp_err *status)
{
	begin(b, event, NULL);
	field(b, "code", kp_str_c(kp_code_name(status->code)));
	field(b, "message", kp_str_c(status->msg));
	if (status->reason) {
		field(b, "reason", kp_str_c(status->reason));
	}
}

static void on_health(void *user, const struct kp_err *status)
{
	(void)user;
	KP_AUTO(buf) struct kp_buf b;
	begin_answer(&b, "health", status);
	print_line(&b);
}
static void on_info(void *user, const struct kp_err *status, const struct kp_engine_info *info)
{
	(void)user;
	KP_AUTO(buf) struct kp_buf b;
	begin_answer(&b, "info", status);
	if (info) {
		field(&b, "model", info->model);
		field(&b, "served_name", info->served_name);
		field(&b, "model_type", info->model_type);
		field(&b, "architecture", info->architecture);
		field(&b, "version", info->version);
		number(&b, "max_context", info->max_context);
		number(&b, "vocab_size", info->vocab_size);
		number(&b, "max_running", info->max_running);
		if (info->text_fingerprint) {
			kp_buf_printf(&b, ", \"text_fingerprint\": %llu",
				(unsigned long long)info->text_fingerprint);
		}
		kp_buf_lit(&b, ", \"eos\": [");
		for (size_t i = 0; i < info->n_eos; i++) {
			kp_buf_printf(&b, "%s%u", i ? ", " : "", info->eos[i]);
		}
		kp_buf_addc(&b, ']');
		if (info->has_bos) {
			number(&b, "bos", info->bos);
		}
		number(&b, "default_temperature",
			info->defaults.set & KP_SET_TEMPERATURE ? info->defaults.temperature : -1);
	}
	print_line(&b);
}
static void on_loads(void *user, const struct kp_err *status, const struct kp_engine_loads *loads)
{
	(void)user;
	KP_AUTO(buf) struct kp_buf b;
	begin_answer(&b, "loads", status);
	if (loads) {
		number(&b, "in_flight", loads->in_flight);
		number(&b, "running", loads->running);
		number(&b, "waiting", loads->waiting);
		number(&b, "kv_usage", (double)loads->kv_usage);
		number(&b, "total_tokens", (double)loads->total_tokens);
	}
	print_line(&b);
}
static void on_tokenizer(void *user, const struct kp_err *status, kp_str zip)
{
	char *path = user;
	struct kp_err err = *status;
	KP_AUTO(buf) struct kp_buf b;
	if (status->code == KP_OK && path && kp_fs_write_atomic(path, zip, 0644, &err) < 0) {
		die(err.msg, path);
	}
	kp_mem_free(path);
	begin_answer(&b, "tokenizer", status);
	number(&b, "bytes", (double)zip.n);
	print_line(&b);
}

/* --- bench --- */

static struct {
	uint64_t streams, left, running, prompt, max_tokens, deltas, failed;
	int64_t begun_ns, cpu_ns;
} bench;

static int64_t cpu_now(void)
{
	struct rusage r;
	getrusage(RUSAGE_SELF, &r);
	return (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * KP_NS_PER_S +
	       (r.ru_utime.tv_usec + r.ru_stime.tv_usec) * KP_NS_PER_US;
}

static void bench_delta(void *user, const struct kp_engine_delta *d)
{
	(void)user;
	(void)d;
	bench.deltas++;
}

static void bench_next(void);
static void bench_end(void *user, const struct kp_err *status, bool retryable)
{
	(void)user;
	(void)retryable;
	bench.failed += status->code != KP_OK;
	bench.running--;
	bench_next();
	if (bench.running == 0) {
		double cpu = (double)(cpu_now() - bench.cpu_ns),
		       wall = (double)(kp_now_ns() - bench.begun_ns);
		KP_AUTO(buf) struct kp_buf b;
		begin(&b, "bench", NULL);
		number(&b, "messages", (double)bench.deltas);
		number(&b, "failed", (double)bench.failed);
		number(&b, "wall_s", wall / 1e9);
		number(&b, "cpu_us_per_message",
			cpu / 1e3 / (double)KP_MAX(bench.deltas, UINT64_C(1)));
		print_line(&b);
	}
}
static const struct kp_engine_sink bench_sink = { .delta = bench_delta, .end = bench_end };

static void bench_next(void)
{
	static kp_id ids[MAX_LIST];
	if (bench.left == 0) {
		return;
	}
	struct kp_sampling s = { .set = KP_SET_MAX_TOKENS,
		.max_tokens = (uint32_t)bench.max_tokens,
		.n = 1,
		.ignore_eos = true };
	struct kp_engine_request r = {
		.request_id = KP_S("bench"), .ids = ids, .sampling = &s, .stream = true
	};
	r.n_ids = make_prompt(ids, bench.prompt, bench.left);
	bench.left--;
	bench.running++;
	engine->ops->start(engine, &r, &bench_sink, NULL);
}

static void start_bench(kp_str line)
{
	kp_str word;
	memset(&bench, 0, sizeof(bench));
	while (kp_str_split(&line, ' ', &word)) {
		if (!count_option(word, "streams", &bench.streams) &&
			!count_option(word, "requests", &bench.left) &&
			!count_option(word, "prompt", &bench.prompt) &&
			!count_option(word, "max_tokens", &bench.max_tokens)) {
			die("bad option in", "bench");
		}
	}
	bench.begun_ns = kp_now_ns();
	bench.cpu_ns = cpu_now();
	for (uint64_t i = 0; i < bench.streams; i++) {
		bench_next();
	}
}

/* --- the program --- */

static void finish(void)
{
	if (engine) {
		struct kp_engine *e = kp_steal(engine);
		e->ops->destroy(e);
	}
	if (!uv_is_closing((uv_handle_t *)&input_poll)) {
		uv_close((uv_handle_t *)&input_poll, NULL);
	}
	kp_loop_stop(loop);
}

static void command(kp_str line)
{
	kp_str verb = KP_STR_NULL;
	kp_str_split(&line, ' ', &verb);
	struct probe_call *c = line.p ? find_call(line) : NULL;
	if (kp_str_eq(verb, KP_S("quit"))) {
		finish();
	} else if (!engine) {
		die("the engine is destroyed:", "command");
	} else if (kp_str_eq(verb, KP_S("start"))) {
		start(line);
	} else if (kp_str_eq(verb, KP_S("bench"))) {
		start_bench(line);
	} else if (kp_str_eq(verb, KP_S("health"))) {
		engine->ops->health(engine, kp_now_ns() + KP_NS_PER_S * 5, on_health, NULL);
	} else if (kp_str_eq(verb, KP_S("info"))) {
		engine->ops->info(engine, kp_now_ns() + KP_NS_PER_S * 5, on_info, NULL);
	} else if (kp_str_eq(verb, KP_S("loads"))) {
		engine->ops->loads(engine, kp_now_ns() + KP_NS_PER_S * 5, on_loads, NULL);
	} else if (kp_str_eq(verb, KP_S("tokenizer"))) {
		char *path = NULL;
		if (line.p) {
			path = kp_xcalloc(1, line.n + 1);
			memcpy(path, line.p, line.n);
		}
		engine->ops->tokenizer(engine, kp_now_ns() + KP_NS_PER_S * 20, on_tokenizer, path);
	} else if (kp_str_eq(verb, KP_S("destroy"))) {
		struct kp_engine *e = kp_steal(engine);
		e->ops->destroy(e);
	} else if (!c) {
		die("no such call, or a bad command:", "line");
	} else if (kp_str_eq(verb, KP_S("cancel"))) {
		engine->ops->cancel(kp_steal(c->call));
	} else {
		engine->ops->pause(c->call, kp_str_eq(verb, KP_S("pause")));
	}
}

static void on_input(uv_poll_t *poll, int status, int events)
{
	(void)status;
	(void)events;
	if (!kp_buf_reserve(&input, 65536)) {
		die("line too long", "stdin");
	}
	ssize_t n = read(0, input.p + input.n, 65536);
	if (n < 0 && errno != EAGAIN) {
		die("cannot read", "stdin");
	}
	input.n += n > 0 ? (size_t)n : 0;
	ptrdiff_t end;
	while ((end = kp_str_find_char(kp_buf_str(&input), '\n')) >= 0) {
		command(kp_str_sub(kp_buf_str(&input), 0, (size_t)end));
		kp_buf_consume(&input, (size_t)end + 1);
	}
	if (n == 0 && !uv_is_closing((uv_handle_t *)poll)) {
		finish();
	}
}

static struct kp_tls_context *client_tls(const char *dir)
{
	char file[3][300];
	static const char *const names[] = { "tls.crt", "tls.key", "ca.crt" };
	for (size_t i = 0; i < KP_LEN(names); i++) {
		snprintf(file[i], sizeof(file[i]), "%s/%s", dir, names[i]);
	}
	const struct kp_tls_opts o = {
		.cert_file = file[0], .key_file = file[1], .ca_file = file[2]
	};
	struct kp_err err;
	struct kp_tls_context *tls = kp_tls_client(&o, &err);
	if (!tls) {
		die(err.msg, dir);
	}
	return tls;
}

static void on_load(void *user, const struct kp_engine_loads *l)
{
	(void)user;
	KP_AUTO(buf) struct kp_buf b;
	begin(&b, "load", NULL);
	number(&b, "in_flight", l->in_flight);
	number(&b, "running", l->running);
	number(&b, "waiting", l->waiting);
	number(&b, "kv_usage", (double)l->kv_usage);
	print_line(&b);
}

/* What the arguments say. */
static struct kp_engine *make_engine(int argc, char **argv)
{
	uint64_t vocab = 0;
	kp_str id = KP_STR_NULL, endpoint = KP_STR_NULL, dir = KP_STR_NULL, name;
	kp_str protocol = KP_S("vllm");
	for (int i = 2; i < argc; i++) {
		kp_str word = kp_str_c(argv[i]);
		if (!count_option(word, "vocab", &vocab) && !option(word, "id", &id) &&
			!option(word, "endpoint", &endpoint) && !option(word, "tls", &dir) &&
			!option(word, "protocol", &protocol)) {
			die("not an option:", argv[i]);
		}
	}
	if (!id.n) {
		const struct kp_engine_opts o = { .vocab_size = (uint32_t)vocab };
		return kp_str_eq(protocol, KP_S("sglang"))
			       ? kp_engine_sglang_create(loop, argv[1], &o)
			       : kp_engine_vllm_create(loop, argv[1], &o);
	}
	kp_str_split(&endpoint, ',', &name);
	char *engine_name = kp_str_z(name);
	const struct kp_engine_peer_opts o = { .peer = argv[1],
		.id = id.p,
		.engine = engine_name,
		.address = endpoint.p,
		.tls = dir.n ? client_tls(dir.p) : NULL,
		.vocab_size = (uint32_t)vocab,
		.load = on_load };
	struct kp_engine *e = kp_engine_peer_create(loop, &o);
	kp_tls_unref(o.tls);
	kp_mem_free(engine_name);
	return e;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		die("usage:", "engine_probe ADDRESS [option...]");
	}
	loop = kp_loop_create("probe");
	engine = make_engine(argc, argv);
	kp_buf_init(&input, LINE_MAX_BYTES);
	if (fcntl(0, F_SETFL, fcntl(0, F_GETFL) | O_NONBLOCK) < 0 ||
		uv_poll_init(kp_loop_uv(loop), &input_poll, 0) != 0) {
		die("cannot poll", "stdin");
	}
	uv_poll_start(&input_poll, UV_READABLE, on_input);
	kp_loop_run(loop);
	kp_loop_destroy(loop);
	kp_buf_fini(&input);
	return 0;
}

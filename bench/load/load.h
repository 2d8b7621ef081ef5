/* kelpie-load: drives an OpenAI endpoint with a number of requests at a time over kept-alive HTTP/1.1 connections and measures what the clients see (time to
   first token, time between tokens) and what it costs the server (CPU time, resident memory, from /proc). Loopback only.

   One thread, epoll, one connection per request under way. The same process makes the load for every gateway that is compared, so what it costs itself is
   the same for all; it is kept small because it shares the machine. */
#ifndef KP_BENCH_LOAD_H
#define KP_BENCH_LOAD_H

#include "base/buf.h"
#include "base/rand.h"
#include "base/vec.h"

/* --- options ------------------------------------------------------------------------------------------------------- */

enum kp_load_prompt { KP_LOAD_SHORT = 0, KP_LOAD_LONG, KP_LOAD_FILE };

struct kp_load_opts {
	const char *address; /* HOST:PORT */
	const char *model, *api_key;
	enum kp_load_prompt prompt;
	const char *prompt_file; /* one prompt a line */
	bool completions;        /* /v1/completions instead of chat */
	bool stream, usage, unique, json;
	uint32_t words; /* of a long prompt */
	uint32_t max_tokens;
	uint32_t concurrency;
	uint64_t requests, warmup; /* requests 0: until `seconds` have passed */
	double seconds;
	uint64_t seed;
	int32_t pids[16]; /* whose CPU and memory to measure */
	size_t n_pids;
};
/* 0, 1 (--help was printed) or -1. */
int kp_load_options(
	int argc, char **argv, struct kp_load_opts *ret, struct kp_err *err) KP_MUST_USE;

/* --- prompts ------------------------------------------------------------------------------------------------------- */

struct kp_load_prompts {
	const struct kp_load_opts *opts;
	struct kp_rng rng;
	struct kp_buf file;
	KP_VEC(kp_str)
	lines;
	uint64_t made;
};
int kp_load_prompts_init(
	struct kp_load_prompts *p, const struct kp_load_opts *o, struct kp_err *err) KP_MUST_USE;
void kp_load_prompts_fini(struct kp_load_prompts *p);
/* Appends the next request, head and body. */
void kp_load_request(struct kp_load_prompts *p, struct kp_buf *out);

/* --- the other processes (proc.c) ---------------------------------------------------------------------------------- */

struct kp_load_proc {
	int64_t cpu_ns; /* user and system, all threads, dead ones too */
	uint64_t rss_kib, peak_kib;
};
/* Sum over the processes. */
int kp_load_proc_read(
	const int32_t *pids, size_t n, struct kp_load_proc *ret, struct kp_err *err) KP_MUST_USE;

/* --- results ------------------------------------------------------------------------------------------------------- */

/* Counts per bucket of 1/64 of a power of two nanoseconds: 1.6 % wide. */
enum { KP_LOAD_BUCKETS = 64 * 58 };
struct kp_load_histogram {
	uint64_t count[KP_LOAD_BUCKETS], n;
};
void kp_load_add(struct kp_load_histogram *h, int64_t ns);
/* In milliseconds; the upper border of the bucket. 0 when empty. */
double kp_load_quantile(const struct kp_load_histogram *h, double q);

struct kp_load_results {
	struct kp_load_histogram ttft, gap, total;
	uint64_t ok, failed, tokens, events, body_bytes;
	int64_t begun_ns, ended_ns;
	struct kp_load_proc before, after;
	char first_error[400];
};
void kp_load_print(const struct kp_load_opts *o, const struct kp_load_results *r);

/* Runs warm-up and measurement. An error is one of the tool's; failed requests are counted. */
int kp_load_run(
	const struct kp_load_opts *o, struct kp_load_results *ret, struct kp_err *err) KP_MUST_USE;

#endif

/* DESIGN: histograms and the report. */
#include "load.h"
#include "json/write.h"

#include <stdio.h>

void kp_load_add(struct kp_load_histogram *h, int64_t ns)
{
	uint64_t v = ns < 1 ? 1 : (uint64_t)ns;
	unsigned log = 63 - (unsigned)__builtin_clzll(v);
	size_t bucket =
		log < 6 ? (size_t)v : (size_t)(log - 5) * 64 + (size_t)(v >> (log - 6) & 63);
	h->count[KP_MIN(bucket, (size_t)KP_LOAD_BUCKETS - 1)]++;
	h->n++;
}

static double upper_ms(size_t bucket)
{
	if (bucket < 64) {
		return (double)bucket / 1e6;
	}
	unsigned log = (unsigned)(bucket / 64) + 5;
	return (double)((64 + bucket % 64 + 1) << (log - 6)) / 1e6;
}

double kp_load_quantile(const struct kp_load_histogram *h, double q)
{
	uint64_t seen = 0;
	for (size_t i = 0; i < KP_LOAD_BUCKETS && h->n; i++) {
		seen += h->count[i];
		if ((double)seen >= q * (double)h->n) {
			return upper_ms(i);
		}
	}
	return 0;
}

static const struct row {
	const char *key, *label, *unit;
} rows[] = {
	{ "requests", "requests answered", "" },
	{ "failed", "requests failed", "" },
	{ "tokens", "tokens", "" },
	{ "events_per_request", "events per request", "" },
	{ "wall_s", "wall time", "s" },
	{ "requests_per_s", "requests per second", "" },
	{ "tokens_per_s", "tokens per second", "" },
	{ "ttft_p50_ms", "time to first token, median", "ms" },
	{ "ttft_p99_ms", "time to first token, p99", "ms" },
	{ "gap_p50_ms", "between events, median", "ms" },
	{ "gap_p99_ms", "between events, p99", "ms" },
	{ "total_p50_ms", "whole answer, median", "ms" },
	{ "total_p99_ms", "whole answer, p99", "ms" },
	{ "cpu_ms_per_request", "CPU of the gateway per request", "ms" },
	{ "cpu_us_per_token", "CPU of the gateway per token", "us" },
	{ "cpu_s", "CPU of the gateway", "s" },
	{ "rss_mib", "resident memory at the end", "MiB" },
	{ "peak_mib", "resident memory, peak", "MiB" },
};

void kp_load_print(const struct kp_load_opts *o, const struct kp_load_results *r)
{
	double wall = (double)(r->ended_ns - r->begun_ns) / 1e9,
	       ok = (double)KP_MAX(r->ok, UINT64_C(1)),
	       tokens = (double)KP_MAX(r->tokens, UINT64_C(1));
	double cpu = (double)(r->after.cpu_ns - r->before.cpu_ns) / 1e9;
	const double values[] = { (double)r->ok, (double)r->failed, (double)r->tokens,
		(double)r->events / ok, wall, (double)r->ok / wall, (double)r->tokens / wall,
		kp_load_quantile(&r->ttft, 0.5), kp_load_quantile(&r->ttft, 0.99),
		kp_load_quantile(&r->gap, 0.5), kp_load_quantile(&r->gap, 0.99),
		kp_load_quantile(&r->total, 0.5), kp_load_quantile(&r->total, 0.99), cpu * 1e3 / ok,
		cpu * 1e6 / tokens, cpu, (double)r->after.rss_kib / 1024,
		(double)r->after.peak_kib / 1024 };
	size_t n = KP_LEN(rows) - (o->n_pids ? 0 : 5);
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 64 << 10);
	if (o->json) {
		kp_buf_addc(&b, '{');
		for (size_t i = 0; i < n; i++) {
			kp_buf_printf(&b, "\"%s\": %.6g, ", rows[i].key, values[i]);
		}
		kp_buf_lit(&b, "\"first_error\": ");
		kp_json_w_str(&b, kp_str_c(r->first_error));
		kp_buf_lit(&b, "}\n");
	} else {
		for (size_t i = 0; i < n; i++) {
			kp_buf_printf(
				&b, "%-32s %14.6g %s\n", rows[i].label, values[i], rows[i].unit);
		}
		if (r->first_error[0]) {
			kp_buf_printf(&b, "first error: %s\n", r->first_error);
		}
	}
	fwrite(b.p, 1, b.n, stdout);
}

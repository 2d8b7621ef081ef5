/* DESIGN: looked up by name at the end of each request (four hash look-ups, about a microsecond),
   nothing per token. The model label is a configured name or "", so that clients cannot make new
   series. */
#include "sidecar/metrics.h"

#include "base/clock.h"
#include "obs/log.h"
#include "sidecar/peer/peer.h"

#include <stdio.h>

static void count(struct kp_gateway *g, const char *api, kp_str model, int http_status)
{
	char status[16];
	snprintf(status, sizeof(status), "%d", http_status);
	const struct kp_label labels[] = { { "api", kp_str_c(api) }, { "model", model },
		{ "code", kp_str_c(status) } };
	kp_counter_add(kp_metrics_counter(g->metrics, "kelpie_requests_total",
			       "Requests by API, model and HTTP status (499: the client left).",
			       labels, 3),
		1);
}

void kp_metrics_refused(struct kp_gateway *g, const char *api, int http_status)
{
	count(g, api, KP_S(""), http_status);
}

/* Tokens of the prompts that were made for it, by where they came from, and what that took. */
static void count_prompts(struct kp_gateway *g, const struct kp_flow *f)
{
	static const double bounds[] = { 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2,
		5e-2, 0.1, 1 };
	const struct kp_prompt_use use = kp_flow_prompt_use(f);
	const struct {
		const char *from;
		size_t n;
	} parts[] = { { "exact", use.exact }, { "prefix", use.prefix },
		{ "encoded", use.encoded } };
	for (size_t i = 0; i < KP_LEN(parts); i++) {
		if (parts[i].n) {
			const struct kp_label labels[] = { { "model", kp_str_c(f->model->name) },
				{ "from", kp_str_c(parts[i].from) } };
			kp_counter_add(
				kp_metrics_counter(g->metrics, "kelpie_prompt_cache_tokens_total",
					"Tokens of prompts by where they came from: a prompt kept as a whole (exact), the beginning of one (prefix), the tokenizer (encoded).",
					labels, 2),
				parts[i].n);
		}
	}
	if (f->prompt_ns) {
		const struct kp_label model = { "model", kp_str_c(f->model->name) };
		kp_histogram_observe(kp_metrics_histogram(g->metrics, "kelpie_tokenize_seconds",
					     "Rendering and tokenizing the prompts of a request.",
					     bounds, KP_LEN(bounds), &model, 1),
			(double)f->prompt_ns / 1e9);
	}
	if (!f->is_waiting && f->render_ns) { /* else a worker may be at it */
		const struct kp_label model = { "model", kp_str_c(f->model->name) };
		kp_histogram_observe(kp_metrics_histogram(g->metrics, "kelpie_render_seconds",
					     "Rendering a chat template, failed or not.", bounds,
					     KP_LEN(bounds), &model, 1),
			(double)f->render_ns / 1e9);
		kp_counter_add(
			kp_metrics_counter(g->metrics, "kelpie_render_failures_total",
				"Chats that the model's template did not take: it refused them, they did not fit its shape, or a budget ended.",
				&model, 1),
			f->render_failed);
	}
}

void kp_metrics_request(struct kp_gateway *g, const struct kp_flow *f, int http_status)
{
	kp_str model = f->model ? kp_str_c(f->model->name) : KP_S("");
	const struct kp_label labels[] = { { "api", kp_str_c(f->api->name) }, { "model", model } };
	uint64_t prompt = 0;
	count(g, f->api->name, model, http_status);
	atomic_fetch_add_explicit(&g->served.requests, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&g->served.errors, http_status >= 500, memory_order_relaxed);
	atomic_fetch_add_explicit(&g->served.tokens, f->completion_tokens, memory_order_relaxed);
	kp_histogram_observe(kp_metrics_histogram(g->metrics, "kelpie_request_duration_seconds",
				     "From the head of a request to its end.", kp_bounds_seconds,
				     KP_LEN(kp_bounds_seconds), labels, 2),
		(double)(kp_now_ns() - f->turn.start_ns) / 1e9);
	count_prompts(g, f);
	if (!f->first_ns) {
		return; /* no engine worked for it */
	}
	for (size_t i = 0; i < f->n_prompts; i++) {
		prompt += f->prompts[i].ids.n;
	}
	kp_counter_add(kp_metrics_counter(g->metrics, "kelpie_prompt_tokens_total",
			       "Tokens of prompts sent to engines.", labels + 1, 1),
		prompt);
	kp_counter_add(kp_metrics_counter(g->metrics, "kelpie_completion_tokens_total",
			       "Tokens received from engines.", labels + 1, 1),
		f->completion_tokens);
}

void kp_metrics_first_token(struct kp_gateway *g, const struct kp_flow *f)
{
	const struct kp_label label = { "model", kp_str_c(f->model->name) };
	kp_histogram_observe(kp_metrics_histogram(g->metrics, "kelpie_time_to_first_token_seconds",
				     "From the head of a request to the engine's first token.",
				     kp_bounds_seconds, KP_LEN(kp_bounds_seconds), &label, 1),
		(double)(f->first_ns - f->turn.start_ns) / 1e9);
}

void kp_metrics_validation(struct kp_gateway *g, const struct kp_model *model,
	enum kp_output_result result, bool again)
{
	static const char *const results[] = { [KP_OUTPUT_VALID] = "valid",
		[KP_OUTPUT_INVALID] = "invalid",
		[KP_OUTPUT_TRUNCATED] = "truncated",
		[KP_OUTPUT_UNCHECKED] = "unchecked" };
	if (result == KP_OUTPUT_NONE) {
		return;
	}
	const struct kp_label labels[] = { { "model", kp_str_c(model->name) },
		{ "result", kp_str_c(again ? "retried" : results[result]) } };
	kp_counter_add(
		kp_metrics_counter(g->metrics, "kelpie_output_validation_total",
			"Outputs that were checked against a schema of their request.", labels, 2),
		1);
}

static void set_counter(struct kp_gateway *g, const char *name, const char *help,
	const struct kp_label *label, uint64_t v)
{
	atomic_store_explicit(&kp_metrics_counter(g->metrics, name, help, label, label != NULL)->v,
		v, memory_order_relaxed);
}

static uint64_t counter(const struct kp_counter *c)
{
	return atomic_load_explicit(&c->v, memory_order_relaxed);
}

/* The servers' own counters, summed over the loops. */
static void refresh_http(struct kp_gateway *g)
{
	static const char *const reasons[KP_HTTP_REFUSED_N] = { "malformed", "head", "body", "slow",
		"flood", "connections", "tls" };
	const struct kp_label h1 = { "version", KP_S("1") }, h2 = { "version", KP_S("2") };
	int64_t connections = 0;
	uint64_t accepted = 0, v1 = 0, v2 = 0, in = 0, out = 0, refused[KP_HTTP_REFUSED_N] = { 0 };
	for (size_t i = 0; i < g->n_loops; i++) {
		const struct kp_http_counters *c = kp_http_server_counters(g->loops[i]->server);
		connections += atomic_load_explicit(&c->connections.v, memory_order_relaxed);
		accepted += counter(&c->accepted);
		v1 += counter(&c->http1_requests);
		v2 += counter(&c->http2_requests);
		in += counter(&c->bytes_in);
		out += counter(&c->bytes_out);
		for (size_t k = 0; k < KP_HTTP_REFUSED_N; k++) {
			refused[k] += counter(&c->refused[k]);
		}
	}
	kp_gauge_set(kp_metrics_gauge(g->metrics, "kelpie_http_connections",
			     "Open connections of the public listeners.", NULL, 0),
		connections);
	set_counter(g, "kelpie_http_accepted_total", "Connections accepted.", NULL, accepted);
	set_counter(g, "kelpie_http_requests_total", "Requests by HTTP version.", &h1, v1);
	set_counter(g, "kelpie_http_requests_total", "Requests by HTTP version.", &h2, v2);
	set_counter(g, "kelpie_http_received_bytes_total", "Bytes received.", NULL, in);
	set_counter(g, "kelpie_http_sent_bytes_total", "Bytes sent.", NULL, out);
	for (size_t k = 0; k < KP_HTTP_REFUSED_N; k++) {
		const struct kp_label label = { "reason", kp_str_c(reasons[k]) };
		set_counter(g, "kelpie_http_refused_total",
			"Requests and connections refused by the HTTP layer.", &label, refused[k]);
	}
}

static void refresh_peers(struct kp_gateway *g)
{
	int64_t connections = 0;
	uint64_t failed = 0;
	if (!g->config.peer_listen) {
		return;
	}
	for (size_t i = 0; i < g->n_loops; i++) {
		const struct kp_http_counters *c = kp_peer_server_counters(g->loops[i]->peer);
		connections += atomic_load_explicit(&c->connections.v, memory_order_relaxed);
		failed += counter(&c->refused[KP_HTTP_REFUSED_TLS]);
	}
	kp_gauge_set(kp_metrics_gauge(g->metrics, "kelpie_peer_connections",
			     "Open connections of the peer port.", NULL, 0),
		connections);
	set_counter(g, "kelpie_peer_handshakes_failed_total",
		"TLS handshakes that failed on the peer port.", NULL, failed);
}

static void refresh_prompts(struct kp_gateway *g)
{
	struct kp_prompt_cache_stats s;
	if (!g->prompts) {
		return;
	}
	kp_prompt_cache_stats(g->prompts, &s);
	kp_gauge_set(kp_metrics_gauge(g->metrics, "kelpie_prompt_cache_bytes",
			     "Memory of the prompt cache.", NULL, 0),
		(int64_t)s.bytes);
	kp_gauge_set(kp_metrics_gauge(g->metrics, "kelpie_prompt_cache_max_bytes",
			     "What it may have (--prompt-cache-bytes).", NULL, 0),
		(int64_t)s.max_bytes);
	kp_gauge_set(kp_metrics_gauge(g->metrics, "kelpie_prompt_cache_entries",
			     "Prompts and lists of messages in it.", NULL, 0),
		(int64_t)s.entries);
	set_counter(g, "kelpie_prompt_cache_evictions_total",
		"Of those, how many it let go for others.", NULL, s.evictions);
}

static void refresh(void *arg)
{
	struct kp_gateway *g = arg;
	refresh_http(g);
	refresh_peers(g);
	refresh_prompts(g);
	kp_gauge_set(kp_metrics_gauge(g->metrics, "kelpie_history_queue",
			     "Requests that wait for the store of responses.", NULL, 0),
		(int64_t)kp_workers_queued(g->history_thread));
	kp_gauge_set(kp_metrics_gauge(g->metrics, "kelpie_media_queue",
			     "Requests that wait for a worker for their images.", NULL, 0),
		(int64_t)kp_workers_queued(g->media_workers));
	kp_gauge_set(kp_metrics_gauge(g->metrics, "kelpie_receiver_queue",
			     "Connections whose long bodies wait for a receiver.", NULL, 0),
		(int64_t)kp_workers_queued(g->receivers));
	kp_gauge_set(kp_metrics_gauge(g->metrics, "kelpie_media_bytes",
			     "Memory that images of requests hold.", NULL, 0),
		atomic_load(&g->media_bytes));
	kp_gauge_set(kp_metrics_gauge(g->metrics, "kelpie_requests_in_flight",
			     "Requests being served.", NULL, 0),
		atomic_load(&g->in_flight));
	set_counter(g, "kelpie_log_lines_dropped_total",
		"Log lines that did not fit into the queue.", NULL, kp_log_dropped());
}

void kp_metrics_watch(struct kp_gateway *g)
{
	kp_metrics_on_render(g->metrics, refresh, g);
}

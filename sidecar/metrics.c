/* DESIGN: looked up by name at the end of each request (four hash look-ups, about a microsecond), nothing per token. The model label is a configured name or "", so that clients cannot
   make new series. */
#include "sidecar/metrics.h"

#include "base/clock.h"

#include <stdio.h>

void kp_metrics_request(struct kp_gateway *g, const struct kp_flow *f, int http_status)
{
	char status[16];
	snprintf(status, sizeof(status), "%d", http_status);
	kp_str model = f->model ? kp_str_c(f->model->name) : KP_S("");
	const struct kp_label labels[] = { { "api", kp_str_c(f->api) }, { "model", model }, { "code", kp_str_c(status) } };
	uint64_t prompt = 0;
	kp_counter_add(kp_metrics_counter(g->metrics, "kelpie_requests_total", "Requests by API, model and HTTP status (499: the client left).", labels, 3), 1);
	kp_histogram_observe(kp_metrics_histogram(g->metrics, "kelpie_request_duration_seconds", "From the head of a request to its end.", kp_bounds_seconds,
				     KP_LEN(kp_bounds_seconds), labels, 2),
		(double)(kp_now_ns() - f->turn.start_ns) / 1e9);
	if (!f->first_ns) {
		return; /* no engine worked for it */
	}
	for (size_t i = 0; i < f->n_prompts; i++) {
		prompt += f->prompts[i].ids.n;
	}
	kp_counter_add(kp_metrics_counter(g->metrics, "kelpie_prompt_tokens_total", "Tokens of prompts sent to engines.", labels + 1, 1), prompt);
	kp_counter_add(kp_metrics_counter(g->metrics, "kelpie_completion_tokens_total", "Tokens received from engines.", labels + 1, 1), f->completion_tokens);
}

void kp_metrics_first_token(struct kp_gateway *g, const struct kp_flow *f)
{
	const struct kp_label label = { "model", kp_str_c(f->model->name) };
	kp_histogram_observe(kp_metrics_histogram(g->metrics, "kelpie_time_to_first_token_seconds", "From the head of a request to the engine's first token.",
				     kp_bounds_seconds, KP_LEN(kp_bounds_seconds), &label, 1),
		(double)(f->first_ns - f->turn.start_ns) / 1e9);
}

/* DESIGN: the way of a request, top to bottom. A stage answers next, wait or fail; a waiting one is
   resumed by kp_flow_resume. From `start` on the engine drives: its deltas go through output.c.
   Every end (answered, failed, client gone) comes through one place, kp_flow_closed, which gives
   back what the request holds. */
#include "sidecar/flow/output.h"

#include "base/clock.h"
#include "base/rand.h"
#include "obs/log.h"
#include "sidecar/flow/media.h"
#include "sidecar/flow/stages.h"
#include "sidecar/flow/validate.h"
#include "sidecar/metrics.h"

const struct kp_stage kp_generate_stages[] = {
	{ "read", kp_stage_read },   /* JSON to turn */
	{ "await", kp_stage_await }, /* the engines of a gateway that just started */
	{ "resolve",
		kp_stage_resolve },    /* model -> pool -> revision: template, tokenizer, engines */
	{ "fetch", kp_stage_fetch },   /* images of URLs */
	{ "media", kp_stage_media },   /* images: sizes, tokens */
	{ "prompt", kp_stage_prompt }, /* render, tokenize */
	{ "constrain", kp_stage_constrain }, /* what the output has to look like */
	{ "validate", kp_stage_validate },   /* and what it is checked against */
	{ "fit", kp_stage_fit },             /* context length, id range, stop strings */
	{ "pixels", kp_stage_pixels },       /* images: decoded, processed */
	{ "start", kp_stage_start }, /* pick an endpoint, start the choices; then output.c */
	{ NULL, NULL },
};

#define KEEPALIVE_NS (10 * KP_NS_PER_S)
enum { EXPLAIN_BYTES = 64 << 10, EXPLAIN_CHOICES = 8 };

static void make_ids(struct kp_flow *f, kp_str client_id)
{
	char random[25];
	kp_random_id(random, 24);
	f->turn.id = kp_arena_printf(f->turn.arena, "%s%s", f->api->id_prefix, random);
	f->turn.request_id =
		client_id.n ? kp_str_c(kp_arena_strz(f->turn.arena, client_id)) : f->turn.id;
}

struct kp_flow *kp_flow_create(struct kp_gwloop *l, struct kp_stream *s,
	const struct kp_flow_api *api, struct kp_buf *body, kp_str client_id)
{
	struct kp_flow *f = kp_new(struct kp_flow);
	f->l = l;
	f->stream = s;
	f->api = api;
	f->body = *body;
	kp_buf_init(body, body->max);
	f->turn.kind = api->kind;
	/* To know messages again costs a turn some 10 us, which shorter bodies do not get back. */
	f->turn.cache = f->body.n >= KP_FLOW_OFFLOAD_BYTES ? kp_flow_prompt_cache(f) : NULL;
	f->turn.reasoning_field = kp_reasoning_field_names[l->gateway->config.reasoning_field];
	f->turn.arena = kp_arena_create(
		KP_FLOW_ARENA_BASE + KP_FLOW_ARENA_FACTOR * f->body.n + api->arena_bytes);
	f->turn.start_ns = f->active_ns = kp_loop_now(l->loop);
	f->turn.deadline_ns = f->turn.start_ns + l->gateway->config.request_timeout_ns;
	f->turn.created_s = kp_wall_ns() / KP_NS_PER_S;
	make_ids(f, client_id);
	kp_list_push(&l->flows, &f->link);
	l->n_flows++;
	return f;
}

static void arm(struct kp_flow *f);

static void on_timer(struct kp_timer *t)
{
	struct kp_flow *f = KP_CONTAINER(t, struct kp_flow, timer);
	int64_t now = kp_loop_now(f->l->loop);
	if (now >= f->turn.deadline_ns) {
		struct kp_err err;
		kp_err_set(&err, KP_DEADLINE_EXCEEDED, "the request took longer than %lld s",
			(long long)(f->l->gateway->config.request_timeout_ns / KP_NS_PER_S));
		kp_flow_fail(f, &err);
		return;
	}
	if (now - f->active_ns >=
		KEEPALIVE_NS) { /* the engine prefills: keep the connection in use */
		f->active_ns = now;
		if (f->encoder && f->encoder->keepalive) {
			kp_buf_addz(&f->l->scratch_buf, f->encoder->keepalive);
			kp_flow_flush(f);
		}
	}
	arm(f);
}

/* Before the body is read, so whether to stream is not known yet. */
static void arm(struct kp_flow *f)
{
	int64_t due = KP_MIN(f->turn.deadline_ns, f->active_ns + KEEPALIVE_NS);
	kp_timer_start(f->l->loop, &f->timer, due, on_timer);
}

static void run_from(struct kp_flow *f, size_t stage)
{
	struct kp_err err;
	for (f->stage = stage; f->stages[f->stage].name; f->stage++) {
		switch (f->stages[f->stage].run(f, &err)) {
		case KP_STEP_NEXT:
			break;
		case KP_STEP_WAIT:
			f->is_waiting = true;
			return;
		case KP_STEP_FAIL:
			kp_log(KP_LOG_DEBUG, "request failed", kp_f_str("id", f->turn.request_id),
				kp_f_z("stage", f->stages[f->stage].name), kp_f_err(&err));
			kp_flow_fail(f, &err);
			return;
		}
	}
}

void kp_flow_run(struct kp_flow *f)
{
	arm(f);
	kp_flow_run_stages(f, f->api->stages);
}

void kp_flow_run_stages(struct kp_flow *f, const struct kp_stage *stages)
{
	f->stages = stages;
	run_from(f, 0);
}

static void drop_generation(struct kp_flow *f)
{
	for (size_t i = 0; i < f->n_prompts; i++) {
		kp_ids_fini(&f->prompts[i].ids);
		kp_buf_fini(&f->prompts[i].packed);
	}
	for (size_t i = 0; i < f->n_choices; i++) {
		kp_flow_media_unname(&f->choices[i]);
		kp_stop_fini(&f->choices[i].stop);
		kp_parser_destroy(f->choices[i].parser);
		kp_output_check_destroy(f->choices[i].check);
	}
	kp_output_schemas_destroy(kp_steal(f->schemas));
	f->n_choices = 0;
}

void kp_flow_round(struct kp_flow *f, const char *stage)
{
	for (size_t i = 0; i < f->n_prompts; i++) {
		f->earlier.prompt_tokens += (uint32_t)f->prompts[i].ids.n;
		f->earlier.cached_tokens += f->prompts[i].cached_tokens;
	}
	drop_generation(f);
	for (size_t i = 0; i < f->n_prompts; i++) {
		f->prompts[i] = (struct kp_flow_prompt){ .endpoint = NULL };
		kp_flow_prompt_init(&f->prompts[i]);
	}
	f->offer = (struct kp_tool_offer){ .n = 0 };
	f->turn.sampling.constraint = (struct kp_constraint){ .kind = KP_CONSTRAINT_NONE };
	f->turn.sampling.set &= ~(uint32_t)KP_SET_CONSTRAINT;
	f->stages = f->api->stages;
	f->stage = 0;
	while (!kp_str_eq(kp_str_c(f->stages[f->stage].name), kp_str_c(stage))) {
		f->stage++;
	}
	f->stage--; /* the caller goes on with the next one */
}

int kp_flow_hold_loaded(struct kp_flow *f, struct kp_err *err)
{
	struct kp_gateway *g = f->l->gateway;
	long long more = (long long)(f->loaded_bytes - f->held_bytes);
	f->held_bytes = f->loaded_bytes;
	if (atomic_fetch_add(&g->body_bytes, more) + more <= g->config.max_body_total) {
		return 0;
	}
	kp_err_set(err, KP_RESOURCE_EXHAUSTED,
		"the bodies of all requests together, with the responses that they go on from, exceed %u bytes",
		g->config.max_body_total);
	err->reason = "too_many_requests";
	return -1;
}

/* Frees everything; the stream is closed and no job runs. */
static void destroy(struct kp_flow *f)
{
	kp_list_del(&f->link);
	f->l->n_flows--;
	drop_generation(f);
	kp_flow_media_release(f->media, f->l);
	if (f->api->stop) {
		f->api->stop(f);
	}
	if (f->encoder_state) {
		f->encoder->close(f->encoder_state);
	}
	kp_snapshot_unref(f->snapshot);
	kp_snapshot_unref(f->later);
	atomic_fetch_sub(&f->l->gateway->body_bytes, (long long)f->held_bytes);
	kp_arena_destroy(f->turn.arena);
	kp_gwloop_drop(f->l, &f->body);
	kp_buf_fini(&f->answer);
	kp_mem_free(f);
}

void kp_flow_resume(struct kp_flow *f, const struct kp_err *err)
{
	f->is_waiting = false;
	if (!f->stream) { /* the client left meanwhile */
		destroy(f);
	} else if (f->is_over) {
		return; /* failed meanwhile (deadline); closed comes */
	} else if (err) {
		kp_flow_fail(f, err);
	} else {
		run_from(f, f->stage + 1);
	}
}

void kp_choice_stop(struct kp_choice *c)
{
	if (c->call) {
		struct kp_engine_call *call = kp_steal(c->call);
		struct kp_lane *lane = kp_steal(c->lane);
		lane->engine->ops->cancel(call);
		kp_flow_media_unname(c);
		atomic_fetch_sub_explicit(&lane->endpoint->in_flight, 1, memory_order_relaxed);
		kp_lane_release(c->flow->l, lane);
	}
}

static void stop_all(struct kp_flow *f)
{
	kp_timer_stop(f->l->loop, &f->timer);
	kp_flow_media_stop(f);
	for (size_t i = 0; i < f->n_choices; i++) {
		kp_choice_stop(&f->choices[i]);
	}
	if (f->api->stop) {
		f->api->stop(f);
	}
}

struct kp_prompt_use kp_flow_prompt_use(const struct kp_flow *f)
{
	struct kp_prompt_use sum = { 0 };
	for (size_t i = 0; i < f->n_prompts && !f->is_waiting; i++) { /* else: a worker's still */
		sum.exact += f->prompts[i].use.exact;
		sum.prefix += f->prompts[i].use.prefix;
		sum.encoded += f->prompts[i].use.encoded;
	}
	return sum;
}

void kp_flow_ended(struct kp_flow *f, int http_status)
{
	struct kp_gateway *g = f->l->gateway;
	kp_metrics_request(g, f, http_status);
	if (!f->n_choices) {
		return; /* it never came to an engine */
	}
	KP_AUTO(buf) struct kp_buf json;
	const struct kp_explain_request r = { .id = f->turn.id,
		.client_id = f->turn.request_id,
		.model = f->turn.model,
		.resolved = f->model,
		.revision = f->revision,
		.gateway = g->config.id,
		.prompt = kp_flow_prompt_use(f),
		.known_messages = f->known_messages,
		.http_status = http_status,
		.start_ns = f->turn.start_ns,
		.end_ns = kp_loop_now(f->l->loop) };
	kp_buf_init(&json, EXPLAIN_BYTES);
	kp_explain_open(&json, &r);
	for (size_t i = 0; i < f->n_choices && i < EXPLAIN_CHOICES; i++) {
		kp_explain_choice(&json, &r, i, &f->choices[i].trace);
	}
	kp_explain_close(&json, &r);
	if (!json.failed) {
		kp_explain_ring_add(
			&f->l->explain, f->turn.id, f->turn.request_id, kp_buf_str(&json));
	}
}

void kp_flow_fail(struct kp_flow *f, const struct kp_err *err)
{
	if (f->is_over) {
		return;
	}
	f->is_over = true;
	stop_all(f);
	kp_flow_ended(f, kp_error_status(f->api->dialect, err->code));
	if (kp_code_http(err->code) >= 500 && err->reason != kp_invalid_output) {
		static _Thread_local struct kp_log_limit limit;
		uint64_t suppressed;
		if (kp_log_allow(&limit, kp_loop_now(f->l->loop), KP_NS_PER_S, &suppressed)) {
			kp_log(KP_LOG_WARN, "request failed", kp_f_str("id", f->turn.request_id),
				kp_f_str("model", f->turn.model),
				kp_f_z("code", kp_code_name(err->code)), kp_f_err(err),
				kp_f_int("suppressed", (int64_t)suppressed));
		}
	}
	if (!f->stream) {
		return;
	}
	if (!f->has_head) {
		kp_error_reply(f->stream, f->api->dialect, err, f->turn.request_id);
		return;
	}
	const struct kp_event ev = { .kind = KP_EV_ERROR, .error = err };
	f->encoder->event(f->encoder_state, &ev, &f->l->scratch_buf);
	kp_stream_write(f->stream, kp_buf_str(&f->l->scratch_buf));
	kp_buf_reset(&f->l->scratch_buf);
	kp_stream_finish(f->stream);
}

void kp_flow_writable(struct kp_flow *f)
{
	if (!f->is_paused) {
		return;
	}
	f->is_paused = false;
	for (size_t i = 0; i < f->n_choices; i++) {
		if (f->choices[i].call) {
			f->choices[i].lane->engine->ops->pause(f->choices[i].call, false);
		}
	}
}

void kp_flow_closed(struct kp_flow *f, enum kp_stream_end why)
{
	f->stream = NULL;
	if (!f->is_over) {
		f->is_over = true;
		stop_all(f);
		kp_flow_ended(f, why == KP_STREAM_FINISHED ? 200 : 499);
	}
	if (!f->is_waiting) {
		destroy(f);
	}
}

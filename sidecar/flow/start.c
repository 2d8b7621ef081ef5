/* DESIGN: pick an endpoint for each generation and start it there; the engine's callbacks. A generation that the engine certainly never took is tried on another endpoint while nothing of
   its answer was sent; everything else that goes wrong ends the turn with one error. */
#include "sidecar/flow/flow.h"

#include "obs/log.h"
#include "sidecar/control/control.h"
#include "sidecar/metrics.h"

#include <stdio.h>

static int start_gen(struct kp_gen *g, struct kp_err *err);

static void on_delta(void *user, const struct kp_engine_delta *d)
{
	kp_flow_delta(user, d);
}

static void gen_over(struct kp_gen *g)
{
	struct kp_flow *f = g->flow;
	if (--f->gens_left == 0) {
		kp_flow_complete(f);
	}
}

static void on_end(void *user, const struct kp_err *status, bool retryable)
{
	struct kp_gen *g = user;
	struct kp_flow *f = g->flow;
	struct kp_lane *lane = kp_steal(g->lane);
	struct kp_endpoint *e = lane->endpoint;
	struct kp_err err = *status;
	g->call = NULL;
	atomic_fetch_sub_explicit(&e->in_flight, 1, memory_order_relaxed);
	if (err.code == KP_UNAVAILABLE) {
		kp_control_suspect(f->l->gateway->control, e);
	}
	kp_lane_release(f->l, lane);
	if (f->is_over) {
		return;
	}
	if (err.code == KP_OK && g->choices_left == 0) {
		gen_over(g);
		return;
	}
	if (err.code == KP_OK) {
		kp_err_set(&err, KP_DATA_LOSS, "the engine ended without finishing %u of %u choices", g->choices_left, f->turn.sampling.n);
	} else if (retryable && !f->has_head && g->attempts < KP_FLOW_MAX_ATTEMPTS) {
		g->failed = e; /* compared only, never followed */
		if (start_gen(g, &err) == 0) {
			return;
		}
	}
	kp_flow_fail(f, &err);
}

static const struct kp_engine_sink sink = { on_delta, on_end };

static int start_gen(struct kp_gen *g, struct kp_err *err)
{
	struct kp_flow *f = g->flow;
	const struct kp_sampling *turn_sampling = &f->turn.sampling;
	struct kp_endpoint *e = kp_pick(f->revision, f->l->gateway->config.routing, g->failed, &f->l->rng);
	if (!e) {
		kp_err_set(err, KP_UNAVAILABLE, "no engine of model `%" KP_FMT "` is available", KP_ARG(f->turn.model));
		err->reason = "no_engine_available";
		return -1;
	}
	struct kp_sampling s = *turn_sampling;
	if (!(s.set & KP_SET_MAX_TOKENS) && f->revision->max_context) { /* as much as fits */
		s.max_tokens = f->revision->max_context - (uint32_t)g->ids.n;
		s.set |= KP_SET_MAX_TOKENS;
	}
	char id[64];
	if (f->n_gens > 1 || g->attempts) {
		snprintf(id, sizeof(id), "%" KP_FMT "-%u-%u", KP_ARG(f->turn.id), g->base, g->attempts);
	} else {
		snprintf(id, sizeof(id), "%" KP_FMT, KP_ARG(f->turn.id));
	}
	const struct kp_engine_request r = { .request_id = kp_str_c(id),
		.ids = g->ids.p,
		.n_ids = g->ids.n,
		.sampling = &s,
		.deadline_ns = f->turn.deadline_ns,
		.stream = true };
	g->attempts++;
	g->lane = kp_lane_acquire(f->l, e);
	atomic_fetch_add_explicit(&e->in_flight, 1, memory_order_relaxed);
	g->call = g->lane->engine->ops->start(g->lane->engine, &r, &sink, g);
	return 0;
}

enum kp_step kp_stage_start(struct kp_flow *f, struct kp_err *err)
{
	for (size_t i = 0; i < f->n_gens; i++) {
		if (start_gen(&f->gens[i], err)) {
			return KP_STEP_FAIL;
		}
	}
	return KP_STEP_NEXT;
}

/* DESIGN: pick an endpoint for each choice and start it there; the engine's callbacks. A choice
   whose engine failed before it sent anything is tried on another endpoint; everything else that
   goes wrong ends the turn with one error. */
#include "sidecar/flow/media.h"

#include "sidecar/flow/output.h"
#include "sidecar/flow/stages.h"

#include "base/clock.h"
#include "obs/log.h"
#include "sidecar/control/control.h"

#include <stdio.h>

#define SILENT_NS (5 * KP_NS_PER_S)

static void on_delta(void *user, const struct kp_engine_delta *d)
{
	kp_flow_delta(user, d);
}

/* Another gateway turned it away before its engine saw it (engine/peer.h). */
static bool is_refused(const struct kp_err *err, bool retryable)
{
	return retryable && err->reason;
}

/* As long as nothing came back: what the engine never took, and what it gave up before the first
   token, since a generation that nobody has seen can be made again. What it called its own fault
   may be the request's: that goes to one other engine at most. */
static bool can_retry(const struct kp_choice *c, const struct kp_endpoint *e,
	const struct kp_err *err, bool retryable)
{
	unsigned failed = c->attempts - c->refused - (c->no_shm != NULL); /* that one was ours */
	if (c->is_open || failed >= KP_FLOW_MAX_ATTEMPTS || c->refused >= KP_FLOW_MAX_REFUSED) {
		return false;
	}
	return retryable || err->code == KP_UNAVAILABLE ||
	       (kp_is_engine_fault(err) && failed == 1 && kp_has_other(c->flow->routes, e));
}

/* What the end of a call says of its endpoint. */
static void learn(struct kp_flow *f, struct kp_endpoint *e, const struct kp_err *err, bool refused)
{
	if (refused && kp_str_eq(kp_str_c(err->reason), KP_S("draining"))) {
		kp_endpoint_turned_away(e);
	}
	if (err->code == KP_UNAVAILABLE || refused) {
		kp_control_suspect(f->l->gateway->control, e);
	}
	if (!refused) { /* busy or leaving is no fault */
		kp_endpoint_learn(e, err);
	}
}

/* The call is over. Tries again elsewhere where that is possible, else ends the turn. */
static void settle(struct kp_choice *c, struct kp_endpoint *e, struct kp_err *err, bool retryable)
{
	struct kp_flow *f = c->flow;
	if (f->is_over) {
		return;
	}
	if (c->is_done) { /* the client has its finish: what the engine did wrong later is between us */
		kp_choice_over(c);
		return;
	}
	if (err->code == KP_OK) {
		kp_err_set(err, KP_DATA_LOSS, "the engine ended without finishing choice %u",
			c->index);
	} else if (can_retry(c, e, err, retryable)) {
		c->failed = e;
		c->prompt->endpoint = NULL;
		if (kp_choice_start(c, err) == 0) {
			return;
		}
	}
	if (err->code == KP_UNAVAILABLE && !c->is_open) {
		err->reason =
			"no_engine_available"; /* whichever was asked last said what is in the message */
	}
	kp_flow_fail(f, err);
}

void kp_choice_failed(struct kp_choice *c, struct kp_err *err)
{
	struct kp_endpoint *e = c->lane->endpoint;
	kp_choice_stop(c);
	kp_endpoint_blame(e);
	kp_explain_end(&c->trace, c->flow->turn.arena, err, kp_loop_now(c->flow->l->loop));
	settle(c, e, err, false);
}

static void on_end(void *user, const struct kp_err *status, bool retryable)
{
	struct kp_choice *c = user;
	struct kp_flow *f = c->flow;
	struct kp_lane *lane = kp_steal(c->lane);
	struct kp_endpoint *e = lane->endpoint;
	struct kp_err err = *status;
	bool refused = is_refused(&err, retryable);
	c->call = NULL;
	c->refused += refused;
	atomic_fetch_sub_explicit(&e->in_flight, 1, memory_order_relaxed);
	bool is_again = kp_flow_media_failed(c, e, &err);
	kp_flow_media_unname(c);
	if (!is_again) {
		learn(f, e, &err, refused);
	}
	kp_explain_end(&c->trace, f->turn.arena, &err, kp_loop_now(f->l->loop));
	kp_lane_release(f->l, lane); /* e lives: the flow's snapshot has it */
	if (is_again && !f->is_over) {
		c->prompt->endpoint = e;
		if (kp_choice_start(c, &err) == 0) {
			return;
		}
	}
	settle(c, e, &err, retryable);
}

void kp_flow_engine_down(struct kp_flow *f, const struct kp_endpoint *e, bool is_stalled)
{
	struct kp_err err;
	int64_t now = kp_loop_now(f->l->loop);
	for (size_t i = 0; i < f->n_choices && !f->is_over; i++) {
		struct kp_choice *c = &f->choices[i];
		bool is_silent = is_stalled && now - c->heard_ns > SILENT_NS;
		if (!c->lane || c->lane->endpoint != e || (c->is_open && !is_silent)) {
			continue;
		}
		kp_err_set(&err, KP_UNAVAILABLE, "engine `%s` does not answer", e->address);
		kp_choice_failed(c, &err);
	}
}

static const struct kp_engine_sink sink = { on_delta, on_end };

/* What this choice's call asks for: one sequence, as many tokens as fit when the client set no
   limit, chosen in the model's own way where the client does not say how. */
static struct kp_sampling choice_sampling(const struct kp_choice *c, const struct kp_endpoint *e)
{
	const struct kp_flow *f = c->flow;
	const struct kp_endpoint_facts *facts = kp_revision_facts(f->routes, e);
	struct kp_sampling s = f->turn.sampling;
	if (facts) { /* else its owner does it */
		kp_sampling_fill(&s, &facts->info.defaults);
	}
	if (!(s.set & KP_SET_MAX_TOKENS) && f->revision->max_context) {
		s.max_tokens = f->revision->max_context - (uint32_t)c->prompt->ids.n;
		s.set |= KP_SET_MAX_TOKENS;
	}
	s.seed = (int64_t)((uint64_t)s.seed + c->index % s.n + (c->was_again ? s.n : 0));
	s.n = 1;
	return s;
}

int kp_flow_no_engine(const struct kp_flow *f, struct kp_err *err)
{
	kp_err_set(err, KP_UNAVAILABLE, "no engine of model `%" KP_FMT "` is available",
		KP_ARG(f->turn.model));
	err->reason = "no_engine_available";
	return -1;
}

/* Its engines went while it was on its way: those that have come for the same ids may have it. Once: choices point into both. */
static bool look_again(struct kp_flow *f)
{
	struct kp_snapshot *s = f->l->snapshot;
	const struct kp_model *m =
		s == f->snapshot || f->later ? NULL : kp_snapshot_find(s, f->turn.model);
	for (size_t i = 0; m && i < m->n_revisions; i++) {
		struct kp_model_revision *r = m->revisions[i];
		if (r->text && r->text->fingerprint == f->revision->text->fingerprint) {
			f->later = kp_snapshot_ref(s);
			f->routes = r;
			return true;
		}
	}
	return false;
}

int kp_choice_start(struct kp_choice *c, struct kp_err *err)
{
	struct kp_flow *f = c->flow;
	struct kp_gateway *g = f->l->gateway;
	struct kp_endpoint *e = c->prompt->endpoint;
	const struct kp_pick how = { .policy = g->config.routing,
		.margin = g->config.locality_margin,
		.leave_own = atomic_load_explicit(&g->draining, memory_order_relaxed),
		.now_ns = kp_loop_now(f->l->loop),
		.takes = f->media ? kp_flow_media_takes : NULL,
		.user = f };
	bool is_prompts = e && kp_endpoint_state(e) == KP_ENDPOINT_ROUTABLE;
	if (!is_prompts) {
		e = kp_pick(f->routes, &how, c->failed, &f->l->rng);
		e = !e && look_again(f) ? kp_pick(f->routes, &how, c->failed, &f->l->rng) : e;
	}
	kp_explain_pick(&c->trace, f->turn.arena, f->routes, &how, c->failed, e,
		!e                                   ? "none is routable"
		: is_prompts                         ? "the prompt's other choices run there"
		: !kp_has_other(f->routes, e)        ? "the only one routable"
		: how.policy == KP_ROUTE_ROUND_ROBIN ? "round robin"
						     : "lowest score");
	if (!e) {
		return kp_flow_no_engine(f, err);
	}
	c->prompt->endpoint = e;
	const struct kp_sampling sampling = choice_sampling(c, e);
	char id[96]; /* unique on the engine: a choice may be tried twice */
	snprintf(id, sizeof(id), "%" KP_FMT "-%u-%u", KP_ARG(f->turn.id), c->index, c->attempts);
	const struct kp_engine_request r = { .request_id = kp_str_c(id),
		.ids = c->prompt->ids.p,
		.n_ids = c->prompt->ids.n,
		.packed = kp_buf_str(&c->prompt->packed),
		.sampling = &sampling,
		.text_fingerprint = f->revision->text->fingerprint,
		.media = kp_flow_media_tensors(f),
		.media_shm = kp_flow_media_name(c, e),
		.deadline_ns = f->turn.deadline_ns,
		.stream = true };
	c->attempts++;
	c->heard_ns = how.now_ns;
	c->lane = kp_lane_acquire(f->l, e);
	atomic_fetch_add_explicit(&e->in_flight, 1, memory_order_relaxed);
	c->call = c->lane->engine->ops->start(c->lane->engine, &r, &sink, c);
	return 0;
}

enum kp_step kp_stage_start(struct kp_flow *f, struct kp_err *err)
{
	for (size_t i = 0; i < f->n_choices; i++) {
		if (kp_choice_start(&f->choices[i], err)) {
			return KP_STEP_FAIL;
		}
	}
	return KP_STEP_NEXT;
}

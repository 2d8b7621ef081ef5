/* DESIGN: what came to a gateway that has just started need not be refused because nobody has looked at its engines yet: a gateway
   that was started again gets requests before those who send them have noticed that it was gone. It waits for the first program, and
   until an engine has said what it serves, but not for one that is known to be down, and not longer than AWAIT_NS after the start. */
#include "sidecar/flow/stages.h"

#include "base/clock.h"
#include "sidecar/gateway.h"

#define AWAIT_NS (5 * KP_NS_PER_S)
#define LOOK_NS  (10 * KP_NS_PER_MS)

/* Is an engine up, and if none is: may one be soon? */
static bool may_be_up(const struct kp_model *m, bool *is_up)
{
	bool may = false;
	*is_up = false;
	for (size_t i = 0; i < m->n_revisions; i++) {
		const struct kp_model_revision *r = m->revisions[i];
		for (size_t k = 0; k < r->n_endpoints; k++) {
			enum kp_endpoint_state state = kp_endpoint_state(r->endpoints[k]);
			*is_up |= state == KP_ENDPOINT_ROUTABLE;
			may |= state == KP_ENDPOINT_DISCOVERED || state == KP_ENDPOINT_ANSWERING;
		}
	}
	return may;
}

static bool must_wait(const struct kp_flow *f)
{
	const struct kp_snapshot *s = f->l->snapshot;
	bool is_up;
	if (kp_loop_now(f->l->loop) - f->l->gateway->started_ns >= AWAIT_NS) {
		return false;
	}
	if (!s || !s->has_program) {
		return true;
	}
	for (size_t i = 0; i < s->n_models; i++) {
		const struct kp_model *m = &s->models[i];
		if (f->turn.model.n && !kp_str_eq(f->turn.model, kp_str_c(m->name))) {
			continue;
		}
		if (may_be_up(m, &is_up) &&
			!(kp_model_text_revision(m) && (is_up || !f->api->whole))) {
			return true; /* an API without an encoder asks no engine: the text stack does */
		}
	}
	return false;
}

/* Also when the client is gone or the request is over: who waits is woken once more. */
static void on_look(struct kp_timer *t)
{
	struct kp_flow *f = KP_CONTAINER(t, struct kp_flow, look);
	if (f->stream && !f->is_over && must_wait(f)) {
		kp_timer_start(f->l->loop, t, kp_loop_now(f->l->loop) + LOOK_NS, on_look);
	} else {
		kp_flow_resume(f, NULL);
	}
}

enum kp_step kp_stage_await(struct kp_flow *f, struct kp_err *err)
{
	(void)err;
	if (!must_wait(f)) {
		return KP_STEP_NEXT;
	}
	kp_timer_start(f->l->loop, &f->look, kp_loop_now(f->l->loop) + LOOK_NS, on_look);
	return KP_STEP_WAIT;
}

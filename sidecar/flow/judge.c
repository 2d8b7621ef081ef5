/* DESIGN: what becomes of an output that breaks its schema, by spec.output.validation. The check of a choice (validate.h) sees its events on their way to the
   encoder; its verdict comes just before the finish, or, where it is certain earlier and nobody gets the rest, then: the engine's call is cancelled. `Retry` needs an answer that nobody has seen: the encoder forgets the choice, and once its call is over it
   starts again as if it had never run, with another seed. That is done once; what then is wrong is marked. */
#include "sidecar/flow/output.h"
#include "sidecar/flow/stages.h"

#include "sidecar/flow/validate.h"
#include "sidecar/metrics.h"

#include <stdio.h>

const char kp_invalid_output[] = "invalid_output";

/* Anthropic's `strict` has another subset. */
static bool is_openais(const struct kp_flow *f)
{
	return f->revision->strict_schemas == KP_STRICT_OPENAI &&
	       f->api->dialect != KP_DIALECT_ANTHROPIC;
}

static int compile(struct kp_flow *f, struct kp_token_scratch *scratch, struct kp_err *err)
{
	const char *member = f->api->dialect == KP_DIALECT_ANTHROPIC ? "input_schema"
			     : f->turn.response                      ? "parameters"
								     : "function.parameters";
	(void)scratch;
	if (is_openais(f) && kp_output_check_strict(&f->turn, &f->offer, member, err)) {
		return -1;
	}
	return f->revision->validation == KP_VALIDATION_OFF
		       ? 0
		       : kp_output_schemas_compile(&f->turn, &f->offer, member, &f->schemas, err);
}

enum kp_step kp_stage_validate(struct kp_flow *f, struct kp_err *err)
{
	bool is_off = f->revision->validation == KP_VALIDATION_OFF && !is_openais(f);
	return is_off || !kp_output_has_schemas(&f->turn, &f->offer)
		       ? KP_STEP_NEXT
		       : kp_flow_work(f, compile, err);
}

static int refuse(
	const struct kp_choice *c, const struct kp_output_fault *fault, struct kp_err *err)
{
	char call[40] = "";
	if (fault->call >= 0) {
		snprintf(call, sizeof(call), ", tool call %d", fault->call);
	}
	kp_err_set(err, KP_DATA_LOSS,
		"the model's output does not fit its schema: choice %u%s: `%s` at byte %llu: %s",
		c->index, call, fault->pointer, (unsigned long long)fault->offset, fault->message);
	err->reason = kp_invalid_output;
	return -1;
}

static bool may_be_again(const struct kp_choice *c)
{
	const struct kp_flow *f = c->flow;
	return f->revision->validation == KP_VALIDATION_RETRY && f->encoder->forget &&
	       !c->was_again;
}

int kp_flow_judge(
	struct kp_choice *c, struct kp_event *ev, struct kp_output_fault *fault, struct kp_err *err)
{
	struct kp_flow *f = c->flow;
	enum kp_output_validation how = f->revision->validation;
	bool is_cut = ev->finish.reason != KP_FINISH_STOP || ev->finish.stop_text.p ||
		      ev->finish.has_stop_id;
	if (!c->check) {
		return 0;
	}
	enum kp_output_result result = kp_output_check_finish(c->check, is_cut, fault);
	c->is_again = result == KP_OUTPUT_INVALID && may_be_again(c);
	kp_metrics_validation(f->l->gateway, f->model, result, c->is_again);
	if (result == KP_OUTPUT_NONE || result == KP_OUTPUT_VALID || c->is_again) {
		return 0;
	}
	if (how == KP_VALIDATION_FAIL && result != KP_OUTPUT_TRUNCATED) {
		return refuse(c, fault, err);
	}
	ev->finish.fault = fault;
	return 0;
}

int kp_flow_judge_early(struct kp_choice *c, struct kp_err *err)
{
	struct kp_output_fault fault;
	struct kp_event end = { .kind = KP_EV_FINISH, .choice = c->index };
	if (!c->check || c->is_done) {
		return 0;
	}
	enum kp_output_result result = kp_output_check_certain(c->check);
	bool fails = result && c->flow->revision->validation == KP_VALIDATION_FAIL;
	if (!fails && (result != KP_OUTPUT_INVALID || !may_be_again(c))) {
		return 0;
	}
	end.finish.reason = KP_FINISH_STOP;
	c->is_done = true;
	return kp_flow_judge(c, &end, &fault, err);
}

void kp_flow_again(struct kp_choice *c)
{
	struct kp_flow *f = c->flow;
	struct kp_err err;
	f->encoder->forget(f->encoder_state, c->index);
	kp_output_check_destroy(kp_steal(c->check));
	kp_parser_destroy(kp_steal(c->parser));
	kp_stop_fini(&c->stop);
	c->is_again = c->is_done = c->is_open = false;
	c->was_again = true;
	c->n_tokens = c->n_chars = 0;
	kp_choice_init(c);
	if (kp_choice_start(c, &err)) {
		kp_flow_fail(f, &err);
	}
}

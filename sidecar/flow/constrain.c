/* DESIGN: what the client asked of the output's form, as a constraint for the engine, and who reads what it makes of it. Schemas may be as long as the body, so
   long ones are written by a worker. */
#include "sidecar/flow/output.h"
#include "sidecar/flow/stages.h"

#include "parse/constrain.h"

/* The parser of calls that are no family's own. */
static int read_list(struct kp_flow *f, const struct kp_parsers *p, const struct kp_grammar *g,
	struct kp_err *err)
{
	return kp_lexicon_create(
		f->turn.arena, g, p->thinking, p->controls, p->n_controls, &f->lexicon, err);
}

static int constrain(struct kp_flow *f, struct kp_token_scratch *scratch, struct kp_err *err)
{
	const struct kp_parsers *p = &f->revision->text->parsers;
	const struct kp_chat *chat = &f->turn.chat;
	struct kp_sampling *s = &f->turn.sampling;
	bool is_chat = f->turn.kind == KP_TURN_CHAT;
	struct kp_constrain_opts o = { .format = &f->turn.format };
	const struct kp_grammar *reads;
	(void)scratch;
	f->lexicon = p->lexicon;
	if (is_chat && chat->tool_choice != KP_TOOL_CHOICE_NONE &&
		kp_tool_offer_create(f->turn.arena, &chat->tools, &f->offer, err)) {
		return -1;
	}
	if (is_chat) {
		o = (struct kp_constrain_opts){ .tools = p->tools,
			.thinking = p->thinking,
			.start = kp_parse_start_of(p->thinking, &f->prompts[0].text),
			.controls = p->controls,
			.control_ids = p->control_ids,
			.n_controls = p->n_controls,
			.offer = &f->offer,
			.chat = chat,
			.format = &f->turn.format };
	}
	if (kp_constrain(&o, f->turn.arena, &s->constraint, &reads, err)) {
		return -1;
	}
	s->set |= s->constraint.kind ? KP_SET_CONSTRAINT : 0;
	return reads ? read_list(f, p, reads, err) : 0;
}

enum kp_step kp_stage_constrain(struct kp_flow *f, struct kp_err *err)
{
	return kp_flow_work(f, constrain, err);
}

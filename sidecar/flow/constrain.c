/* DESIGN: what the client asked of the output's form, as a constraint for the engine. */
#include "sidecar/flow/output.h"

enum kp_step kp_stage_constrain(struct kp_flow *f, struct kp_err *err)
{
	const struct kp_chat *chat = &f->turn.chat;
	if (f->turn.format.kind) {
		kp_err_param(err, f->turn.format.param,
			"`%s`: structured output is not supported yet", f->turn.format.param);
	} else if (chat->tool_choice >= KP_TOOL_CHOICE_REQUIRED || chat->n_allowed) {
		kp_err_param(err, "tool_choice",
			"`tool_choice`: only `none` and `auto` are supported yet");
	} else {
		return KP_STEP_NEXT;
	}
	err->reason = "unsupported_parameter";
	return KP_STEP_FAIL;
}

/* Inside lib/prompt/anthropic*.c. */
#ifndef KP_PROMPT_ANTHROPIC_INTERNAL_H
#define KP_PROMPT_ANTHROPIC_INTERNAL_H

#include "prompt/anthropic.h"
#include "prompt/make.h"

int kp_anthropic_tools(struct kp_json *j, struct kp_turn *turn, struct kp_err *err) KP_MUST_USE;
int kp_anthropic_tool_choice(
	struct kp_json *j, struct kp_turn *turn, struct kp_err *err) KP_MUST_USE;

#endif

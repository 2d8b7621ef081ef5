/* The members of a chat request that make its prompt: messages, tools, tool_choice, documents, chat_template, chat_template_kwargs, reasoning_effort,
   add_generation_prompt, continue_final_message. One reader for all who take them. */
#ifndef KP_PROMPT_CHAT_H
#define KP_PROMPT_CHAT_H

#include "base/err.h"
#include "core/turn.h"

/* Reads the value at the cursor, which is not null, into turn->chat. 1: the member is none of these, and nothing was read. INVALID_ARGUMENT with the
   place in err->param. */
int kp_chat_member(
	struct kp_json *j, kp_str name, struct kp_turn *turn, struct kp_err *err) KP_MUST_USE;
/* After the last: what does not go together. */
int kp_chat_settle(struct kp_turn *turn, struct kp_err *err) KP_MUST_USE;

#endif

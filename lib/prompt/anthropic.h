/* What makes the prompt of a request to Anthropic's Messages API, as the turn's chat has it: the same messages and tools that a client of OpenAI's
   API would have sent.

   A run of messages of one role is one turn. Of a user's turn each tool_result becomes a message of role `tool`, in order, and what is
   text one message of role `user` behind them; of an assistant's the texts, thoughts and calls become one message. A last message of the
   assistant's is continued. Thoughts go to the template as `reasoning_content`, never as text; redacted ones go nowhere. */
#ifndef KP_PROMPT_ANTHROPIC_H
#define KP_PROMPT_ANTHROPIC_H

#include "base/err.h"
#include "core/turn.h"

struct kp_anthropic { /* zeroed before the first member */
	struct kp_jv system, messages;
};

/* Reads the value at the cursor if `name` is one of `system`, `messages`, `tools`, `tool_choice`, `thinking`, `output_config`; 1: it is none
   of them. INVALID_ARGUMENT with the place. */
int kp_anthropic_member(struct kp_json *j, kp_str name, struct kp_anthropic *a,
	struct kp_turn *turn, struct kp_err *err) KP_MUST_USE;
/* After the last member: makes turn->chat.messages; INVALID_ARGUMENT with the place ("messages[2].content[0].type"). */
int kp_anthropic_settle(
	const struct kp_anthropic *a, struct kp_turn *turn, struct kp_err *err) KP_MUST_USE;

#endif

/* The `messages` array of a chat request: checked and brought into the one shape templates get. */
#ifndef KP_PROMPT_MESSAGES_H
#define KP_PROMPT_MESSAGES_H

#include "base/err.h"
#include "core/turn.h"

enum {
	KP_MAX_MESSAGES = 4096,
	KP_MAX_VALUES = 1000000, /* JSON values kept of one body */
};

/* Reads the array at the cursor into turn->chat.messages. Each message keeps its members in their
   order; a list of text parts becomes one string, the parts joined by newlines (vLLM's rule for
   templates that take strings). Refused by name: unknown roles, tool calls and results (not
   supported yet), parts that are not text. */
int kp_messages_read(struct kp_json *j, struct kp_turn *turn, struct kp_err *err) KP_MUST_USE;

#endif

/* What a chat request says about tools: `tools` and `tool_choice`, checked. */
#ifndef KP_PROMPT_TOOLS_H
#define KP_PROMPT_TOOLS_H

#include "base/err.h"
#include "core/turn.h"

enum { KP_MAX_TOOLS = 1024 };

/* Reads the array at the cursor into turn->chat.tools, each as the client wrote it: templates print them, so the same keys in the same order.
   An empty list is none. INVALID_ARGUMENT with the place ("tools[1].function.name"). */
int kp_tools_read(struct kp_json *j, struct kp_turn *turn, struct kp_err *err) KP_MUST_USE;
/* Are these tools as kp_tools_read takes them? list: an ARRAY. */
int kp_tools_check(const struct kp_jv *list, struct kp_err *err) KP_MUST_USE;
/* Reads a string or an object into turn->chat: tool_choice and, of a tool by name or `allowed_tools`, allowed. Whether those tools exist
   is settled later, since `tools` may come behind it. */
int kp_tool_choice_read(struct kp_json *j, struct kp_turn *turn, struct kp_err *err) KP_MUST_USE;
/* After the last member: are there tools, and all that are allowed? */
int kp_tool_choice_settle(const struct kp_chat *chat, struct kp_err *err) KP_MUST_USE;

#endif

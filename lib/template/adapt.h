/* Rewrites a conversation from OpenAI's shape to the one its chat template takes (shape.h). Everything stays below the message it came
   in, so that its origin stays what it was; what a template takes as it is, is not copied. Pure; new values lie in the arena.

   As transformers does before every render: members of a message that are null are left out; a message's reasoning, whichever of
   `reasoning_content`, `thinking` and `reasoning` it came in, is given as `reasoning_content` and `thinking`.
   As vLLM does: text parts for a template that takes text are joined by a newline; an empty `tool_calls` is left out; arguments that
   are JSON but no object, or are empty, are {}. */
#ifndef KP_TEMPLATE_ADAPT_H
#define KP_TEMPLATE_ADAPT_H

#include "template/shape.h"

/* messages: ARRAY of objects with a string `role`. INVALID_ARGUMENT, with the place ("messages[2].content[0]"): parts other than text
   for a template that takes text only, arguments that are not JSON. RESOURCE_EXHAUSTED: the arena is full. */
int kp_template_adapt_messages(const struct kp_template_shape *shape, const struct kp_jv *messages,
	struct kp_arena *a, struct kp_jv *ret, struct kp_err *err) KP_MUST_USE;
/* The same, where the first `from` messages have been rewritten for the same shape already. */
int kp_template_adapt_rest(const struct kp_template_shape *shape, const struct kp_jv *messages,
	uint32_t from, struct kp_arena *a, struct kp_jv *ret, struct kp_err *err) KP_MUST_USE;
/* tools: ARRAY. Wrapped ones lose the wrapper for a template that takes them flat; otherwise they are given as they came. */
int kp_template_adapt_tools(const struct kp_template_shape *shape, const struct kp_jv *tools,
	struct kp_arena *a, struct kp_jv *ret, struct kp_err *err) KP_MUST_USE;

#endif

/* The `messages` array of a chat request, checked. What templates need beyond that (parts or text, arguments as objects or text, ...) is
   the shape adapter's work (template/adapt.h). */
#ifndef KP_PROMPT_MESSAGES_H
#define KP_PROMPT_MESSAGES_H

#include "base/err.h"
#include "core/turn.h"

enum {
	KP_MAX_MESSAGES = 4096,
	KP_MAX_VALUES = 1000000, /* JSON values kept of one body */
};

/* Reads the array at the cursor into turn->chat.messages, its images into turn->chat.media. A message keeps its members in their order, those that are not known here too;
   what changes is only what OpenAI's API says in more than one way:
     a part of text is {"type": "text", "text": ...} and nothing else (it may come as a string, or as a refusal)
     an image is {"type": "image"}
     arguments of a tool call that are missing, null or "" are "{}"
     the older `function_call` is a list `tool_calls` of one, and role `function` its result, role `tool`
   INVALID_ARGUMENT with the place in err->param ("messages[2].tool_calls[0].function.name"). */
int kp_messages_read(struct kp_json *j, struct kp_turn *turn, struct kp_err *err) KP_MUST_USE;

/* The same behind the first n_known messages, with the cursor behind the last of them (kp_json_reopen_array): their places in the list are left for the caller to fill. Errors say that it
   failed, not where. */
struct kp_messages_rest {
	struct kp_jv *items; /* of turn->chat.messages */
	const struct kp_jmember
		*rest; /* each message behind the known ones, as it came, with its text as key */
	uint32_t
		n_apart; /* the first messages that hang on nothing but their own text: all in front of images and of `function_call` */
};
int kp_messages_read_rest(struct kp_json *j, uint32_t n_known, struct kp_turn *turn,
	struct kp_messages_rest *ret, struct kp_err *err) KP_MUST_USE;

#endif

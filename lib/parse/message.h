/* Events of a parser as OpenAI's chat API shows them: deltas of chunks, and the message of an answer that is not streamed. */
#ifndef KP_PARSE_MESSAGE_H
#define KP_PARSE_MESSAGE_H

#include "base/buf.h"
#include "core/event.h"

#define KP_REASONING_FIELD "reasoning_content"

/* The members of "delta" for TEXT, REASONING, TOOL_START and TOOL_ARGUMENTS; n_calls: how many calls have begun, this event's among them. false, and nothing is
   written, for other events. */
bool kp_message_delta(
	const struct kp_event *ev, size_t n_calls, const char *reasoning_field, struct kp_buf *out);

struct kp_message {
	struct kp_buf text, reasoning;
	struct kp_buf calls; /* JSON objects, commas between */
	struct kp_buf arguments;
	size_t n_calls;
};
void kp_message_init(struct kp_message *m, size_t max_bytes); /* of each part */
void kp_message_fini(struct kp_message *m);
void kp_message_add(struct kp_message *m, const struct kp_event *ev);
/* "content":.., then, where there is something to say, the reasoning and "tool_calls". content is null when only these are there. False: a part was too
   large. all: both are said in any case, as null and []. */
bool kp_message_write(
	const struct kp_message *m, const char *reasoning_field, bool all, struct kp_buf *out);

/* The finish_reason: `reason` ("stop", ..), but "tool_calls" when the model stopped of itself and has called. */
const char *kp_message_finish(const char *reason, size_t n_calls);

#endif

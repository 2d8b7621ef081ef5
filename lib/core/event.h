/* kp_event: what a generation tells the API encoder, whatever the API. A parser turns text and ids
   into events, an encoder turns events into bytes; neither sees a socket. An answer that is not
   streamed is the streamed one collected. Slices are valid during the call. */
#ifndef KP_CORE_EVENT_H
#define KP_CORE_EVENT_H

#include "core/engine.h"

enum kp_event_kind {
	KP_EV_NONE = 0,
	KP_EV_ROLE, /* a choice begins */
	KP_EV_TEXT, /* visible text */
	KP_EV_REASONING,
	KP_EV_TOOL_START,
	KP_EV_TOOL_ARGUMENTS,
	KP_EV_TOOL_END,
	KP_EV_LOGPROBS,        /* of output tokens; precedes the text they made */
	KP_EV_PROMPT_LOGPROBS, /* of all its tokens, once for each choice */
	KP_EV_IDS,             /* of output tokens; precedes the text they made */
	KP_EV_REFUSAL,
	KP_EV_USAGE,  /* once per turn, before the end */
	KP_EV_FINISH, /* a choice ends */
	KP_EV_ERROR,  /* the turn ends; nothing follows */
};

/* One output token with its bytes, for logprobs.content. */
struct kp_event_logprob {
	kp_str bytes; /* may be part of a character */
	float logprob;
	kp_id id;
	bool is_absent; /* first prompt position: nothing predicts it */
	const struct kp_event_logprob *top;
	size_t n_top;
	uint32_t text_offset; /* in characters of the choice's text (legacy completions) */
};

struct kp_usage {
	uint32_t prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens;
};

/* How an output fits the schemas of its request. */
enum kp_output_result {
	KP_OUTPUT_NONE = 0, /* it has none */
	KP_OUTPUT_VALID,
	KP_OUTPUT_INVALID,
	KP_OUTPUT_TRUNCATED, /* cut before its end, and fitting up to there */
	KP_OUTPUT_UNCHECKED, /* a budget of the validator was used up */
};
struct kp_output_fault {
	enum kp_output_result result; /* INVALID and what follows it */
	int32_t call;                 /* of its arguments: which call; -1: of the text */
	uint64_t offset;   /* bytes of the text or arguments up to where it was certain */
	char pointer[240]; /* of the value, RFC 6901 */
	char keyword[240]; /* of the schema that says no; "" where JSON itself is broken */
	char message[240];
};

struct kp_event {
	enum kp_event_kind kind;
	uint32_t choice;
	union {
		kp_str text; /* TEXT, REASONING, REFUSAL, TOOL_ARGUMENTS */
		struct {
			uint32_t index;
			kp_str id, name;
		} tool; /* TOOL_START, TOOL_END */
		struct {
			const struct kp_event_logprob *items;
			size_t n;
		} logprobs;
		struct {
			const kp_id *p;
			size_t n;
		} ids; /* IDS */
		struct {
			struct kp_usage usage;
			const kp_id *ids;
			size_t n_ids;
		} prompt;              /* ROLE */
		struct kp_usage usage; /* USAGE */
		struct {
			enum kp_finish reason;
			bool tool_calls;
			kp_str stop_text; /* the client's stop string that matched, p NULL: none */
			bool has_stop_id;
			kp_id stop_id;
			const struct kp_output_fault *fault; /* NULL: none */
		} finish;
		const struct kp_err *error;
	};
};

#endif

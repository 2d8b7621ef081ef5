/* What makes the prompt of a request to OpenAI's Responses API, as the turn's chat has it: the same messages and tools that a client of chat completions
   would have sent. The request's own items, what a store kept of earlier ones, and what this answer made so far are one list (`entries`); it is made into messages
   anew for every generation.

   A run of reasoning, text and calls is one message of the assistant's; results follow it. Calls that a gateway ran (`mcp_call`) are calls and results like
   any others, under the name that the model knows (`kp_responses_tool_name`). */
#ifndef KP_PROMPT_RESPONSES_H
#define KP_PROMPT_RESPONSES_H

#include "base/err.h"
#include "core/turn.h"

enum {
	KP_RESPONSES_MAX_ITEMS = 16384, /* of one conversation */
	KP_RESPONSES_ECHOES = 20,
};

/* What the request says beyond the turn. Borrowed from the turn's arena or the body. */
struct kp_responses {
	struct kp_jv input;               /* STRING, ARRAY, or NONE */
	kp_str instructions, previous_id; /* KP_STR_NULL: none */
	struct kp_jv tools, tool_choice;  /* as the client wrote them; NONE: none */
	bool no_store;
	bool wants_logprobs;     /* include */
	bool wants_summary;      /* thoughts as a summary, not as what they are */
	uint32_t max_tool_calls; /* 0: not given */
	kp_str echo
		[KP_RESPONSES_ECHOES]; /* JSON that the answer repeats, by kp_responses_echoes; n 0: its default */
};

/* A member that every answer repeats. */
struct kp_responses_echo {
	const char *name, *missing; /* what it says when the request does not */
};
extern const struct kp_responses_echo kp_responses_echoes[KP_RESPONSES_ECHOES];
/* The request's own text for a member, which must live as long as `r`; other names are passed over. */
void kp_responses_echo(struct kp_responses *r, kp_str name, kp_str json);

/* Reads the value at the cursor if `name` is a member of this API alone; 1: it is not. INVALID_ARGUMENT with the place. */
int kp_responses_member(struct kp_json *j, kp_str name, struct kp_responses *r,
	struct kp_turn *turn, struct kp_err *err) KP_MUST_USE;

/* A tool that the gateway runs. */
struct kp_responses_tool {
	kp_str exposed;     /* to models */
	kp_str label, name; /* of its server, and there */
	kp_str description; /* KP_STR_NULL: none */
	struct kp_jv schema;
	bool needs_approval;
};
/* What a model is shown: kp_mcp_expose. */
int kp_responses_tool_name(
	struct kp_arena *a, kp_str label, kp_str name, kp_str *ret, struct kp_err *err) KP_MUST_USE;
/* turn->chat.tools and tool_choice: the request's functions, then what the gateway runs. */
int kp_responses_tools(const struct kp_responses *r, const struct kp_responses_tool *own, size_t n,
	struct kp_turn *turn, struct kp_err *err) KP_MUST_USE;

struct kp_responses_entry {
	const struct kp_jv *item;
	uint32_t index; /* in `input`, for errors */
	bool is_kept;   /* by the gateway: what it lacks is not the client's fault */
	bool begins;    /* a generation: what stands before it is another message */
};
/* turn->chat.messages. INVALID_ARGUMENT with the place ("input[3].call_id"). */
int kp_responses_messages(const struct kp_responses *r, const struct kp_responses_entry *entries,
	size_t n, struct kp_turn *turn, struct kp_err *err) KP_MUST_USE;

#endif

/* kp_turn: what a client asked for in one request, independent of the API it came through. Built
   once by an API's reader, then only read. Everything lies in the turn's arena or in the request
   body, which the arena's owner keeps as long. */
#ifndef KP_CORE_TURN_H
#define KP_CORE_TURN_H

#include "core/ids.h"
#include "core/sampling.h"
#include "json/value.h"

struct kp_arena;

enum kp_turn_kind { KP_TURN_NONE = 0, KP_TURN_CHAT, KP_TURN_COMPLETION };

/* One prompt of a completion: text, or ids when `ids` is set. */
struct kp_prompt {
	kp_str text;
	const kp_id *ids;
	size_t n_ids;
};

enum kp_tool_choice { KP_TOOL_CHOICE_UNSET = 0, KP_TOOL_CHOICE_NONE, KP_TOOL_CHOICE_AUTO };

struct kp_chat {
	struct kp_jv messages;  /* ARRAY of checked messages: each an object with a string role */
	struct kp_jv tools;     /* NONE, or ARRAY of checked tools, as the client wrote them */
	struct kp_jv documents; /* NONE, or ARRAY of objects */
	struct kp_jv kwargs;    /* NONE, or OBJECT: chat_template_kwargs */
	enum kp_tool_choice tool_choice; /* NONE: the model is told of no tools */
	kp_str reasoning_effort;         /* KP_STR_NULL: not given */
	kp_str template_source;          /* of the request's own, KP_STR_NULL: the model's */
	bool add_generation_prompt, has_generation_prompt; /* has: the client says which */
	bool continue_final_message;
	bool one_call; /* parallel_tool_calls: false */
};

struct kp_turn {
	struct kp_arena *arena;
	enum kp_turn_kind kind;
	kp_str id;         /* "chatcmpl-..." */
	kp_str model;      /* as the client wrote it */
	kp_str tenant;     /* "" until authentication exists */
	kp_str cache_salt; /* only requests with the same one share the prompt cache; "" */
	int64_t created_s; /* wall clock, Unix seconds */
	int64_t start_ns, deadline_ns; /* monotonic */

	struct kp_chat chat;             /* CHAT */
	const struct kp_prompt *prompts; /* COMPLETION */
	size_t n_prompts;
	bool add_special_tokens; /* of text prompts */

	struct kp_sampling sampling;
	bool stream, include_usage;
	bool return_token_strs, explain; /* tokenize */
	bool want_logprobs;              /* sampling.logprobs alternatives are shown too */
};

#endif

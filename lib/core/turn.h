/* kp_turn: what a client asked for in one request, independent of the API it came through. Built
   once by an API's reader, then only read. Everything lies in the turn's arena or in the request
   body, which the arena's owner keeps as long. */
#ifndef KP_CORE_TURN_H
#define KP_CORE_TURN_H

#include "core/constraint.h"
#include "core/ids.h"
#include "core/media.h"
#include "core/sampling.h"
#include "json/value.h"

struct kp_arena;
struct kp_known;
struct kp_prompt_cache;
struct kp_responses;

enum kp_turn_kind { KP_TURN_NONE = 0, KP_TURN_CHAT, KP_TURN_COMPLETION };

/* One prompt of a completion: text, or ids when `ids` is set. */
struct kp_prompt {
	kp_str text;
	const kp_id *ids;
	size_t n_ids;
};

enum kp_tool_choice {
	KP_TOOL_CHOICE_UNSET = 0, /* as AUTO */
	KP_TOOL_CHOICE_NONE,
	KP_TOOL_CHOICE_AUTO,
	KP_TOOL_CHOICE_REQUIRED, /* at least one call */
	KP_TOOL_CHOICE_NAMED     /* exactly one call, of the tool in `allowed` */
};

/* What the visible answer has to look like. */
struct kp_output_format {
	enum kp_constraint_kind kind; /* NONE: any text */
	const char *param;   /* the request's parameter that says so, for errors; NULL with NONE */
	struct kp_jv schema; /* JSON_SCHEMA: an OBJECT, TRUE or FALSE */
	kp_str name;         /* of the schema; KP_STR_NULL: none */
	bool strict;         /* the schema's own word */
	kp_str text;         /* REGEX, GRAMMAR, TAG (one JSON object) */
	const kp_str *choices; /* CHOICE */
	size_t n_choices;
};

/* What a request says of thinking, for templates that have a switch for it. */
enum kp_thinking_mode { KP_THINKING_UNSET = 0, KP_THINKING_ON, KP_THINKING_OFF };

struct kp_chat {
	struct kp_jv messages;  /* ARRAY of checked messages: each an object with a string role */
	struct kp_jv tools;     /* NONE, or ARRAY of checked tools, as the client wrote them */
	struct kp_jv documents; /* NONE, or ARRAY of objects */
	struct kp_jv kwargs;    /* NONE, or OBJECT: chat_template_kwargs */
	enum kp_tool_choice tool_choice; /* NONE: the model is told of no tools; of the others none
					    is given without tools */
	kp_str reasoning_effort;         /* KP_STR_NULL: not given */
	bool effort_is_a_wish;           /* templates that do not know it do without */
	enum kp_thinking_mode thinking;
	uint32_t thinking_budget; /* tokens, 0: not given */
	kp_str template_source;   /* of the request's own, KP_STR_NULL: the model's */
	bool add_generation_prompt, has_generation_prompt; /* has: the client says which */
	bool continue_final_message;
	bool one_call; /* parallel_tool_calls: false */
	/* Of `tools` only these may be called (tool_choice by name, allowed_tools), though the
	   model is told of all; NULL: all. Each is one of `tools`, none twice. */
	const kp_str *allowed;
	size_t n_allowed;
	const struct kp_media_part *media; /* images of `messages`, in their order; there their
					      parts are {"type": "image"} */
	size_t n_media;
	struct kp_known
		*known; /* how `messages` were recognised (prompt/known.h); NULL: not looked up */
};

struct kp_turn {
	struct kp_arena *arena;
	enum kp_turn_kind kind;
	kp_str id;         /* "chatcmpl-..." */
	kp_str request_id; /* the client's x-request-id, or one of ours: for headers, errors, the log */
	kp_str model;      /* as the client wrote it */
	kp_str tenant;     /* "" until authentication exists */
	kp_str cache_salt; /* only requests with the same one share the prompt cache; "" */
	int64_t created_s; /* wall clock, Unix seconds */
	int64_t start_ns, deadline_ns; /* monotonic */

	struct kp_prompt_cache *cache;   /* where messages are looked up and kept; NULL: nowhere */
	struct kp_chat chat;             /* CHAT */
	const struct kp_prompt *prompts; /* COMPLETION */
	size_t n_prompts;
	const char *prompt_param; /* what the client calls its prompt; NULL: `prompt`, `messages` */
	bool add_special_tokens;  /* of text prompts */

	struct kp_responses *
		response; /* what a request of that API says besides (prompt/responses.h); NULL of others */
	struct kp_sampling sampling;
	struct kp_output_format format;
	bool stream, include_usage;
	const char *reasoning_field;     /* what a chat calls thoughts */
	bool return_token_strs, explain; /* tokenize */
	bool want_logprobs;              /* sampling.logprobs alternatives are shown too */
	bool want_ids;                   /* token ids are shown too */
	bool echo, echo_only; /* COMPLETION: the prompt is shown first; only: nothing else is */
	/* SGLang's /generate. */
	bool answers_a_list, text_in_logprobs;
	uint32_t prompt_logprobs_from; /* the first position that is shown */
};

#endif

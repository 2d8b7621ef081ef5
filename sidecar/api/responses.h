/* A response while it is made: what was asked, and the items of its output, which are events to the client, messages to the model (prompt/responses.h) and what
   a store keeps. One per request of /v1/responses, in the turn's arena, reached from the turn; the loop's thread, but for reading the request. */
#ifndef SIDECAR_API_RESPONSES_H
#define SIDECAR_API_RESPONSES_H

#include "prompt/responses.h"
#include "sidecar/api/generate.h"
#include "sidecar/history/history.h"
#include "sidecar/tools/servers.h"

enum { KP_RESPONSE_MAX_BYTES = 64 << 20 }; /* of its answer */

enum kp_item_kind {
	KP_ITEM_NONE = 0,
	KP_ITEM_MESSAGE,
	KP_ITEM_REASONING,
	KP_ITEM_FUNCTION_CALL,
	KP_ITEM_MCP_CALL,
	KP_ITEM_MCP_APPROVAL,
	KP_ITEM_MCP_LIST,
};
enum kp_item_status {
	KP_ITEM_IN_PROGRESS = 0,
	KP_ITEM_COMPLETED,
	KP_ITEM_INCOMPLETE,
	KP_ITEM_FAILED
};

struct kp_item {
	enum kp_item_kind kind;
	enum kp_item_status status;
	uint32_t index; /* in the output */
	uint32_t round; /* the generation that made it, from 0 */
	kp_str id;
	kp_str call_id;     /* FUNCTION_CALL */
	kp_str name, label; /* of a tool, label: of its server */
	kp_str approval_id; /* MCP_CALL that somebody allowed */
	struct kp_buf
		text; /* text, thoughts, arguments; of a list its tools, JSON without brackets */
	struct kp_buf logprobs; /* MESSAGE */
	struct kp_buf output;   /* MCP_CALL: what it answered; FAILED: an error as JSON */
};

/* A call of the gateway's own that runs. */
struct kp_response_call {
	struct kp_flow *flow;
	struct kp_item *item;
	struct kp_mcp_ask *ask; /* NULL: it is over */
};

struct kp_response {
	struct kp_responses ask;
	const struct kp_turn *turn;
	bool is_streamed, has_begun;
	uint64_t sequence;
	struct kp_item **items; /* in the arena, their buffers are not */
	uint32_t n_items, cap_items;
	uint32_t round, round_items; /* the generation that runs, and the items before it */
	struct kp_item *open;        /* the one that grows */
	struct kp_buf held;          /* white space that may begin a text */
	struct kp_buf logprobs;      /* of the text that comes next */
	struct kp_usage usage;
	bool has_usage;
	const char *incomplete; /* why it is; NULL: it is complete */
	struct kp_output_fault fault;
	bool failed; /* it is larger than an answer may be */
	int64_t completed_s;
	/* The gateway's own tools (responses_tools.c). */
	const struct kp_responses_tool *own;
	size_t n_own;
	struct kp_tool_server *servers, *listing; /* listing: the last one that was asked */
	size_t n_servers;
	struct kp_response_call *calls; /* of this round */
	size_t n_calls;
	uint32_t n_called; /* of the whole response */
	const kp_str
		*permitted; /* tool_choice allowed_tools: names that the model knows; NULL: all */
	size_t n_permitted;
	uint32_t asks;           /* answers that are waited for */
	uint32_t counted_tokens; /* of earlier rounds, taken off max_tokens */
	/* What was kept of earlier responses. */
	struct kp_history_record *records; /* oldest first */
	size_t n_records;
	struct kp_history_record *
		references; /* those with the items that are referred to, by their place in the input */
	struct kp_responses_entry *entries; /* of all before this answer */
	size_t n_entries;
	size_t first_input, n_input; /* which of them the request has */
	uint32_t n_entered;          /* items that are among them */
	const struct kp_jv **
		allowed; /* mcp_approval_requests among them that somebody allowed, and no call tells of */
	size_t n_allowed;
	struct kp_buf document; /* what is kept of this one */
	kp_str *item_ids;
	size_t n_item_ids;
};

struct kp_response *kp_response_of(const struct kp_turn *turn);
/* A new last item, which is open until kp_item_close. NULL: the arena is full, the answer fails. */
struct kp_item *kp_item_open(
	struct kp_response *r, enum kp_item_kind kind, kp_str name, kp_str label);
/* The client is told of it. An approval is asked for when all of it is known. */
void kp_item_announce(struct kp_response *r, struct kp_item *it, struct kp_buf *out);
/* Text, thoughts or arguments. */
void kp_item_grow(struct kp_response *r, struct kp_item *it, kp_str text, struct kp_buf *out);
/* Its text is complete. A call of the gateway's own is over only after kp_item_answered. */
void kp_item_close(
	struct kp_response *r, struct kp_item *it, enum kp_item_status status, struct kp_buf *out);
/* An MCP_CALL has its output, or (FAILED) its error. */
void kp_item_answered(
	struct kp_response *r, struct kp_item *it, enum kp_item_status status, struct kp_buf *out);

/* An MCP_LIST, all of it. */
void kp_item_listed(
	struct kp_response *r, struct kp_item *it, enum kp_item_status status, struct kp_buf *out);
/* The first events, if they were not sent yet. */
void kp_response_begin(struct kp_response *r, struct kp_buf *out);

/* responses_write.c: the item as JSON, with or without what grew of it. */
void kp_item_write(
	const struct kp_response *r, const struct kp_item *it, bool is_empty, struct kp_buf *out);
/* The response object. status: "in_progress", "completed", "incomplete", "failed" (with its error). */
void kp_response_write(const struct kp_response *r, const char *status, const struct kp_err *err,
	struct kp_buf *out);
/* "completed" or "incomplete". */
const char *kp_response_status(const struct kp_response *r);

/* responses_keep.c: what is kept of a response: {"input": [items], "rounds": [where in the output a generation begins], "response": {..}}.
   Loads what the request refers to; on the history's thread. */
int kp_response_load(struct kp_response *r, struct kp_history *h, struct kp_err *err) KP_MUST_USE;
size_t kp_response_loaded(const struct kp_response *r); /* bytes of what was loaded */
/* Is there anything to load? */
bool kp_response_refers(const struct kp_response *r);
/* The entries: what was loaded, then the request's own items. */
int kp_response_gather(struct kp_response *r, struct kp_err *err) KP_MUST_USE;
/* Adds what was made since, as entries; its items are over. */
int kp_response_enter(struct kp_response *r, struct kp_err *err) KP_MUST_USE;
/* The document of an answer that is complete. */
int kp_response_document(struct kp_response *r, struct kp_err *err) KP_MUST_USE;

#endif

/* DESIGN: events to items, items to bytes. One walk for both answers: items begin, grow and end, in the order of their begins; a streamed answer is told of each
   step, one that is not is the response object at the end. An item keeps its text, because the last event repeats all of them. White space before a text
   is held until the text comes, so that what stands between two calls makes no item. */
#include "sidecar/api/responses.h"

#include "base/clock.h"
#include "json/write.h"

enum { MAX_HELD = 256, MAX_ITEMS = 4096 };

struct kp_response *kp_response_of(const struct kp_turn *turn)
{
	return KP_CONTAINER(turn->response, struct kp_response, ask);
}

/* --- pieces -------------------------------------------------------------------------------------- */

static void begin_event(struct kp_response *r, const char *type, struct kp_buf *out)
{
	kp_buf_lit(out, "event: ");
	kp_buf_addz(out, type);
	kp_buf_lit(out, "\ndata: {\"type\":\"");
	kp_buf_addz(out, type);
	kp_buf_lit(out, "\",\"sequence_number\":");
	kp_buf_u64(out, r->sequence++);
}

static void end_event(struct kp_buf *out)
{
	kp_buf_lit(out, "}\n\n");
}

static void item_event(
	struct kp_response *r, const struct kp_item *it, const char *type, struct kp_buf *out)
{
	begin_event(r, type, out);
	kp_buf_lit(out, ",\"output_index\":");
	kp_buf_u64(out, it->index);
	kp_buf_lit(out, ",\"item_id\":");
	kp_json_w_str(out, it->id);
}

static void whole_item(struct kp_response *r, const struct kp_item *it, const char *type,
	bool is_empty, struct kp_buf *out)
{
	begin_event(r, type, out);
	kp_buf_lit(out, ",\"output_index\":");
	kp_buf_u64(out, it->index);
	kp_buf_lit(out, ",\"item\":");
	kp_item_write(r, it, is_empty, out);
	end_event(out);
}

static void response_event(struct kp_response *r, const char *type, const char *status,
	const struct kp_err *err, struct kp_buf *out)
{
	begin_event(r, type, out);
	kp_buf_lit(out, ",\"response\":");
	kp_response_write(r, status, err, out);
	end_event(out);
}

/* What an item's text is called. */
static const struct words {
	const char *place;             /* of a part, with its number, which is 0; NULL: no parts */
	const char *added, *done;      /* events of a part */
	const char *part;              /* before its text */
	const char *delta, *text_done; /* events of text */
	const char *member;            /* of text_done that has it all */
} words_of[] = {
	[KP_ITEM_MESSAGE] = { ",\"content_index\":0", "response.content_part.added",
		"response.content_part.done",
		"{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[",
		"response.output_text.delta", "response.output_text.done", "text" },
	[KP_ITEM_REASONING] = { ",\"content_index\":0", "response.content_part.added",
		"response.content_part.done", "{\"type\":\"reasoning_text\"",
		"response.reasoning_text.delta", "response.reasoning_text.done", "text" },
	[KP_ITEM_FUNCTION_CALL] = { NULL, NULL, NULL, NULL,
		"response.function_call_arguments.delta", "response.function_call_arguments.done",
		"arguments" },
	[KP_ITEM_MCP_CALL] = { NULL, NULL, NULL, NULL, "response.mcp_call_arguments.delta",
		"response.mcp_call_arguments.done", "arguments" },
	[KP_ITEM_MCP_LIST] = { NULL, NULL, NULL, NULL, NULL, NULL, NULL },
};
static const struct words summary = { ",\"summary_index\":0",
	"response.reasoning_summary_part.added", "response.reasoning_summary_part.done",
	"{\"type\":\"summary_text\"", "response.reasoning_summary_text.delta",
	"response.reasoning_summary_text.done", "text" };

static const struct words *words_for(const struct kp_response *r, const struct kp_item *it)
{
	return it->kind == KP_ITEM_REASONING && r->ask.wants_summary ? &summary
								     : &words_of[it->kind];
}

static void part_event(struct kp_response *r, const struct kp_item *it, const struct words *w,
	bool is_done, struct kp_buf *out)
{
	item_event(r, it, is_done ? w->done : w->added, out);
	kp_buf_addz(out, w->place);
	kp_buf_lit(out, ",\"part\":");
	kp_buf_addz(out, w->part);
	if (it->kind == KP_ITEM_MESSAGE) {
		kp_buf_add(out, is_done ? kp_buf_str(&it->logprobs) : KP_S(""));
		kp_buf_addc(out, ']');
	}
	kp_buf_lit(out, ",\"text\":");
	kp_json_w_str(out, is_done ? kp_buf_str(&it->text) : KP_S(""));
	kp_buf_addc(out, '}');
	end_event(out);
}

/* --- items --------------------------------------------------------------------------------------- */

static struct kp_item *add_item(struct kp_response *r)
{
	struct kp_arena *a = r->turn->arena;
	if (r->n_items == MAX_ITEMS) { /* it ends here, as one that was too long */
		r->incomplete = "max_output_tokens";
		return NULL;
	}
	if (r->n_items == r->cap_items) {
		uint32_t cap = r->cap_items ? r->cap_items * 2 : 8;
		struct kp_item **items = kp_arena_grow(a, r->items,
			r->cap_items * sizeof(struct kp_item *), cap * sizeof(struct kp_item *));
		if (!items) {
			r->failed = true;
			return NULL;
		}
		r->items = items;
		r->cap_items = cap;
	}
	struct kp_item *it = kp_arena_calloc(a, 1, sizeof(*it));
	if (!it) {
		r->failed = true;
		return NULL;
	}
	it->index = r->n_items;
	it->round = r->round;
	kp_buf_init(&it->text, KP_RESPONSE_MAX_BYTES);
	kp_buf_init(&it->logprobs, KP_RESPONSE_MAX_BYTES);
	kp_buf_init(&it->output, KP_RESPONSE_MAX_BYTES);
	r->items[r->n_items++] = it;
	return it;
}

/* The response's own random part, and a number. */
static kp_str item_id(const struct kp_response *r, const struct kp_item *it)
{
	static const char *const prefixes[] = { [KP_ITEM_MESSAGE] = "msg",
		[KP_ITEM_REASONING] = "rs",
		[KP_ITEM_FUNCTION_CALL] = "fc",
		[KP_ITEM_MCP_CALL] = "mcp",
		[KP_ITEM_MCP_APPROVAL] = "mcpr",
		[KP_ITEM_MCP_LIST] = "mcpl" };
	kp_str own = kp_str_skip(r->turn->id, sizeof("resp_") - 1);
	return kp_arena_printf(
		r->turn->arena, "%s_%" KP_FMT "%04u", prefixes[it->kind], KP_ARG(own), it->index);
}

struct kp_item *kp_item_open(
	struct kp_response *r, enum kp_item_kind kind, kp_str name, kp_str label)
{
	struct kp_err err;
	struct kp_item *it = add_item(r);
	if (!it) {
		return NULL;
	}
	it->kind = kind;
	it->id = item_id(r, it);
	if ((name.p && kp_arena_dup(r->turn->arena, name, &it->name, &err)) ||
		(label.p && kp_arena_dup(r->turn->arena, label, &it->label, &err))) {
		r->failed = true;
	}
	return it;
}

void kp_item_announce(struct kp_response *r, struct kp_item *it, struct kp_buf *out)
{
	const struct words *w = words_for(r, it);
	r->open = it;
	if (!r->is_streamed || it->kind == KP_ITEM_MCP_APPROVAL) {
		return; /* an approval is asked for when all of it is known */
	}
	whole_item(r, it, "response.output_item.added", true, out);
	if (w->place) {
		part_event(r, it, w, false, out);
	}
	if (it->kind == KP_ITEM_MCP_CALL) {
		item_event(r, it, "response.mcp_call.in_progress", out);
		end_event(out);
	}
}

void kp_item_listed(
	struct kp_response *r, struct kp_item *it, enum kp_item_status status, struct kp_buf *out)
{
	it->status = status;
	r->failed |= it->text.failed || it->output.failed;
	if (!r->is_streamed) {
		return;
	}
	whole_item(r, it, "response.output_item.added", true, out);
	item_event(r, it, "response.mcp_list_tools.in_progress", out);
	end_event(out);
	item_event(r, it,
		status == KP_ITEM_FAILED ? "response.mcp_list_tools.failed"
					 : "response.mcp_list_tools.completed",
		out);
	end_event(out);
	whole_item(r, it, "response.output_item.done", false, out);
}

void kp_item_grow(struct kp_response *r, struct kp_item *it, kp_str text, struct kp_buf *out)
{
	const struct words *w = words_for(r, it);
	kp_buf_add(&it->text, text);
	r->failed |= it->text.failed;
	if (!text.n || !r->is_streamed || it->kind == KP_ITEM_MCP_APPROVAL) {
		return;
	}
	item_event(r, it, w->delta, out);
	if (w->place) {
		kp_buf_addz(out, w->place);
	}
	kp_buf_lit(out, ",\"delta\":");
	kp_json_w_str(out, text);
	if (it->kind == KP_ITEM_MESSAGE) {
		kp_buf_lit(out, ",\"logprobs\":[");
		kp_buf_add(out, kp_buf_str(&r->logprobs));
		kp_buf_addc(out, ']');
	}
	end_event(out);
}

static void put_text_done(
	struct kp_response *r, const struct kp_item *it, const struct words *w, struct kp_buf *out)
{
	item_event(r, it, w->text_done, out);
	kp_buf_addz(out, w->place ? w->place : "");
	kp_buf_printf(out, ",\"%s\":", w->member);
	kp_json_w_str(out, kp_buf_str(&it->text));
	if (it->kind == KP_ITEM_MESSAGE) {
		kp_buf_lit(out, ",\"logprobs\":[");
		kp_buf_add(out, kp_buf_str(&it->logprobs));
		kp_buf_addc(out, ']');
	} else if (it->kind == KP_ITEM_FUNCTION_CALL) {
		kp_buf_lit(out, ",\"name\":");
		kp_json_w_str(out, it->name);
	}
	end_event(out);
}

void kp_item_close(
	struct kp_response *r, struct kp_item *it, enum kp_item_status status, struct kp_buf *out)
{
	const struct words *w = words_for(r, it);
	bool is_call = it->kind == KP_ITEM_FUNCTION_CALL || it->kind == KP_ITEM_MCP_CALL ||
		       it->kind == KP_ITEM_MCP_APPROVAL;
	if (is_call && !it->text.n && status == KP_ITEM_COMPLETED) {
		kp_item_grow(r, it, KP_S("{}"), out);
	}
	r->open = r->open == it ? NULL : r->open;
	bool waits = it->kind == KP_ITEM_MCP_CALL && status == KP_ITEM_COMPLETED;
	it->status = waits ? KP_ITEM_IN_PROGRESS : status;
	if (!r->is_streamed) {
		return;
	}
	if (it->kind == KP_ITEM_MCP_APPROVAL) {
		whole_item(r, it, "response.output_item.added", false, out);
	} else if (w->text_done) {
		put_text_done(r, it, w, out);
	}
	if (w->place) {
		part_event(r, it, w, true, out);
	}
	if (!waits) {
		whole_item(r, it, "response.output_item.done", false, out);
	}
}

void kp_item_answered(
	struct kp_response *r, struct kp_item *it, enum kp_item_status status, struct kp_buf *out)
{
	it->status = status;
	r->failed |= it->output.failed;
	if (!r->is_streamed) {
		return;
	}
	item_event(r, it,
		status == KP_ITEM_FAILED ? "response.mcp_call.failed"
					 : "response.mcp_call.completed",
		out);
	end_event(out);
	whole_item(r, it, "response.output_item.done", false, out);
}

/* --- events -------------------------------------------------------------------------------------- */

static void close_open(struct kp_response *r, enum kp_item_status status, struct kp_buf *out)
{
	kp_buf_reset(&r->logprobs);
	if (r->open) {
		kp_item_close(r, r->open, status, out);
	}
}

static struct kp_item *begin(struct kp_response *r, enum kp_item_kind kind, kp_str name,
	kp_str label, struct kp_buf *out)
{
	close_open(r, KP_ITEM_COMPLETED, out);
	return kp_item_open(r, kind, name, label);
}

static void text_delta(struct kp_response *r, kp_str text, struct kp_buf *out)
{
	if (text.n) {
		kp_buf_addz(&r->open->logprobs, r->open->logprobs.n && r->logprobs.n ? "," : "");
		kp_buf_add(&r->open->logprobs, kp_buf_str(&r->logprobs));
		kp_item_grow(r, r->open, text, out);
		kp_buf_reset(&r->logprobs);
	}
}

static void begin_text(struct kp_response *r, struct kp_buf *out)
{
	struct kp_buf logprobs = r->logprobs; /* they are the new text's */
	kp_buf_init(&r->logprobs, KP_RESPONSE_MAX_BYTES);
	struct kp_item *it = begin(r, KP_ITEM_MESSAGE, KP_STR_NULL, KP_STR_NULL, out);
	kp_buf_fini(&r->logprobs);
	r->logprobs = logprobs;
	if (it) {
		kp_item_announce(r, it, out);
	}
}

static void take_text(struct kp_response *r, kp_str text, struct kp_buf *out)
{
	if (r->open && r->open->kind == KP_ITEM_MESSAGE) {
		text_delta(r, text, out);
		return;
	}
	size_t n = kp_leading_space(text, MAX_HELD - r->held.n);
	kp_buf_add(&r->held, kp_str_sub(text, 0, n));
	if (n == text.n) {
		return;
	}
	begin_text(r, out);
	if (r->open && r->open->kind == KP_ITEM_MESSAGE) {
		kp_buf_add(&r->held, kp_str_skip(text, n));
		text_delta(r, kp_buf_str(&r->held), out);
	}
	kp_buf_reset(&r->held);
}

static void take_thought(struct kp_response *r, kp_str text, struct kp_buf *out)
{
	if ((!r->open || r->open->kind != KP_ITEM_REASONING) && text.n) {
		struct kp_item *it = begin(r, KP_ITEM_REASONING, KP_STR_NULL, KP_STR_NULL, out);
		if (it) {
			kp_item_announce(r, it, out);
		}
	}
	kp_buf_reset(&r->logprobs);
	if (r->open && text.n) {
		kp_item_grow(r, r->open, text, out);
	}
}

static const struct kp_responses_tool *own_tool(const struct kp_response *r, kp_str name)
{
	for (size_t i = 0; i < r->n_own; i++) {
		if (kp_str_eq(r->own[i].exposed, name)) {
			return &r->own[i];
		}
	}
	return NULL;
}

static bool is_clients(const struct kp_response *r, kp_str name)
{
	for (uint32_t i = 0; i < r->ask.tools.n; i++) {
		if (kp_str_eq(kp_jv_str(&r->ask.tools.items[i], KP_S("name")), name)) {
			return true;
		}
	}
	return false;
}

/* A name under a server's label that nothing has: a tool that the model made up, or that is gone. The client could do nothing with it, the model is told. */
static bool is_of_server(const struct kp_response *r, kp_str name, struct kp_responses_tool *ret)
{
	for (size_t i = 0; i < r->n_servers && !is_clients(r, name); i++) {
		kp_str label = r->servers[i].label, rest = kp_str_skip(name, label.n);
		if (kp_str_starts(name, label) && kp_str_starts(rest, KP_S("__")) && rest.n > 2) {
			*ret = (struct kp_responses_tool){ .label = label,
				.name = kp_str_skip(rest, 2) };
			return true;
		}
	}
	return false;
}

static void begin_call(struct kp_response *r, const struct kp_event *ev, struct kp_buf *out)
{
	struct kp_responses_tool missing;
	const struct kp_responses_tool *own = own_tool(r, ev->tool.name);
	if (!own && is_of_server(r, ev->tool.name, &missing)) {
		own = &missing;
	}
	enum kp_item_kind kind = !own                  ? KP_ITEM_FUNCTION_CALL
				 : own->needs_approval ? KP_ITEM_MCP_APPROVAL
						       : KP_ITEM_MCP_CALL;
	struct kp_err err;
	struct kp_item *it = begin(
		r, kind, own ? own->name : ev->tool.name, own ? own->label : KP_STR_NULL, out);
	if (!it) {
		return;
	}
	if (kp_arena_dup(r->turn->arena, ev->tool.id, &it->call_id, &err)) {
		r->failed = true;
		return;
	}
	kp_item_announce(r, it, out);
}

static void take_finish(struct kp_response *r, const struct kp_event *ev, struct kp_buf *out)
{
	bool is_cut = ev->finish.reason == KP_FINISH_LENGTH;
	if (!r->open && r->n_items == r->round_items) { /* it said nothing, as a message */
		begin_text(r, out);
	}
	close_open(r, is_cut ? KP_ITEM_INCOMPLETE : KP_ITEM_COMPLETED, out);
	if (is_cut) {
		r->incomplete = "max_output_tokens";
	}
	if (ev->finish.fault) {
		r->fault = *ev->finish.fault;
	}
}

static void take_event(struct kp_response *r, const struct kp_event *ev, struct kp_buf *out)
{
	if (ev->kind != KP_EV_TEXT && ev->kind != KP_EV_LOGPROBS) {
		kp_buf_reset(&r->held);
	}
	switch ((int)ev->kind) {
	case KP_EV_ROLE:
		r->round_items = r->n_items;
		break;
	case KP_EV_TEXT:
		take_text(r, ev->text, out);
		break;
	case KP_EV_LOGPROBS:
		kp_put_logprobs(&r->logprobs, ev);
		break;
	case KP_EV_REASONING:
		take_thought(r, ev->text, out);
		break;
	case KP_EV_TOOL_START:
		begin_call(r, ev, out);
		break;
	case KP_EV_TOOL_ARGUMENTS:
		if (r->open) {
			kp_item_grow(r, r->open, ev->text, out);
		}
		break;
	case KP_EV_TOOL_END:
		close_open(r, KP_ITEM_COMPLETED, out);
		break;
	case KP_EV_FINISH:
		take_finish(r, ev, out);
		break;
	case KP_EV_USAGE:
		r->usage = ev->usage;
		r->has_usage = true;
		r->completed_s = kp_wall_ns() / KP_NS_PER_S;
		break;
	default:
		break;
	}
}

/* --- encoders ------------------------------------------------------------------------------------ */

static void *open_response(const struct kp_turn *turn, bool is_streamed)
{
	struct kp_response *r = kp_response_of(turn);
	r->is_streamed = is_streamed;
	kp_buf_init(&r->held, 2 * KP_RESPONSE_MAX_BYTES);
	kp_buf_init(&r->logprobs, KP_RESPONSE_MAX_BYTES);
	return r;
}

static void drop_items(struct kp_response *r, uint32_t from)
{
	while (r->n_items > from) {
		struct kp_item *it = r->items[--r->n_items];
		kp_buf_fini(&it->text);
		kp_buf_fini(&it->logprobs);
		kp_buf_fini(&it->output);
	}
	r->open = NULL;
}

static void close_response(void *state)
{
	struct kp_response *r = state;
	drop_items(r, 0);
	kp_buf_fini(&r->held);
	kp_buf_fini(&r->logprobs);
	kp_buf_fini(&r->document);
}

void kp_response_begin(struct kp_response *r, struct kp_buf *out)
{
	if (r->is_streamed && !r->has_begun) {
		r->has_begun = true;
		response_event(r, "response.created", "in_progress", NULL, out);
		response_event(r, "response.in_progress", "in_progress", NULL, out);
	}
}

static void *streamed_open(const struct kp_turn *turn, size_t n_choices, struct kp_err *err)
{
	(void)n_choices;
	(void)err;
	return open_response(turn, true);
}

static void streamed_event(void *state, const struct kp_event *ev, struct kp_buf *out)
{
	struct kp_response *r = state;
	kp_response_begin(r, out);
	if (ev->kind == KP_EV_ERROR) {
		response_event(r, "response.failed", "failed", ev->error, out);
	} else {
		take_event(r, ev, out);
	}
}

static void streamed_end(void *state, struct kp_buf *out)
{
	struct kp_response *r = state;
	response_event(r, r->incomplete ? "response.incomplete" : "response.completed",
		kp_response_status(r), NULL, out);
}

const struct kp_encoder kp_responses_streamed = { "text/event-stream", true, streamed_open,
	streamed_event, streamed_end, close_response, ": keep-alive\n\n", NULL };

static void *whole_open(const struct kp_turn *turn, size_t n_choices, struct kp_err *err)
{
	(void)n_choices;
	(void)err;
	return open_response(turn, false);
}

static void whole_event(void *state, const struct kp_event *ev, struct kp_buf *out)
{
	take_event(state, ev, out);
}

static void whole_end(void *state, struct kp_buf *out)
{
	struct kp_response *r = state;
	kp_response_write(r, kp_response_status(r), NULL, out);
}

static void whole_forget(void *state, uint32_t choice)
{
	struct kp_response *r = state;
	(void)choice; /* there is one */
	drop_items(r, r->round_items);
	r->incomplete = NULL;
	kp_buf_reset(&r->held);
	kp_buf_reset(&r->logprobs);
}

const struct kp_encoder kp_responses_whole = { "application/json", false, whole_open, whole_event,
	whole_end, close_response, NULL, whole_forget };

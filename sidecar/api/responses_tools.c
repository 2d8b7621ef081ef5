/* DESIGN: what the gateway does with MCP tools around a response's generations. Before the first: the servers' lists become tools of the model, and what somebody
   allowed meanwhile is called. Behind each: its calls run, all at once; with their answers the conversation goes on in another generation, unless the
   client has something to do first. A request that waits here waits for `r->asks` answers of servers and nothing else; who ends it cancels them. All
   on the request's loop. */
#include "sidecar/api/responses.h"

#include "base/map.h"
#include "json/write.h"
#include "sidecar/api/params.h"
#include "sidecar/api/responses_stages.h"
#include "sidecar/flow/stages.h"

#include <stdio.h>

enum { MAX_TOOL_CALLS = 64 }; /* of one response */

static struct kp_buf *out_of(struct kp_flow *f)
{
	return &f->l->scratch_buf;
}

static void show(struct kp_flow *f)
{
	if (f->encoder->is_streamed) {
		kp_flow_flush(f);
	}
}

/* What stands in the loop's buffer when a request waits would be sent to another one. */
static void begin(struct kp_flow *f)
{
	kp_response_begin(kp_response_of(&f->turn), out_of(f));
	show(f);
}

/* One answer fewer to wait for. */
static void answered(struct kp_flow *f)
{
	struct kp_response *r = kp_response_of(&f->turn);
	if (r->asks && --r->asks == 0) {
		kp_flow_resume(f, NULL);
	}
}

void kp_responses_stop(struct kp_flow *f)
{
	struct kp_response *r = f->turn.response ? kp_response_of(&f->turn) : NULL;
	if (!r) {
		return;
	}
	for (size_t i = 0; i < r->n_calls; i++) {
		struct kp_response_call *c = &r->calls[i];
		if (c->ask) {
			kp_mcp_cancel(kp_steal(c->ask));
		}
	}
	/* A worker's job reads the lists; behind it this is called once more. */
	bool is_read = f->is_waiting && !r->asks;
	for (size_t i = 0; i < r->n_servers && !is_read; i++) {
		kp_tool_server_release(&r->servers[i]);
	}
	if (r->asks) { /* nothing comes any more */
		r->asks = 0;
		f->is_waiting = false;
	}
}

/* --- lists --------------------------------------------------------------------------------------- */

/* By the URL that the request names, where that is allowed, or by what the gateway knows of the label. */
static int find_server(struct kp_flow *f, struct kp_tool_server *s, struct kp_err *err)
{
	const struct kp_gateway *g = f->l->gateway;
	const struct kp_http_request *const *client = f->own;
	char param[48];
	if (!s->config.url.p) {
		return kp_tool_server_know(s, f->snapshot->tools, *client, err);
	}
	if (!g->config.mcp_hosts.n) {
		snprintf(param, sizeof(param), "tools[%u].server_url", s->index);
		return kp_err_param(
			err, param, "`%s`: servers that requests name are not allowed here", param);
	}
	s->config.policy = g->mcp.policy;
	return 0;
}

static int connect_server(struct kp_flow *f, struct kp_tool_server *s, struct kp_err *err)
{
	if (find_server(f, s, err)) {
		return -1;
	}
	s->config.tenant = f->turn.tenant;
	if (!(s->session = kp_mcp_get(f->l->mcp, &s->config, err))) {
		snprintf(err->param, sizeof(err->param), "tools[%u].%s", s->index,
			s->known ? "server_label" : "server_url");
		return kp_err_wrap(err, "tools of `%" KP_FMT "`", KP_ARG(s->label));
	}
	return 0;
}

static bool is_listed_before(const struct kp_response *r, kp_str label)
{
	for (size_t i = 0; i < r->n_entries; i++) {
		const struct kp_jv *item = r->entries[i].item;
		if (kp_str_eq(kp_jv_str(item, KP_S("type")), KP_S("mcp_list_tools")) &&
			kp_str_eq(kp_jv_str(item, KP_S("server_label")), label)) {
			return true;
		}
	}
	return false;
}

static void put_tool(struct kp_buf *out, const struct kp_mcp_tool *t)
{
	kp_buf_addz(out, out->n ? "," : "");
	kp_buf_lit(out, "{\"name\":");
	kp_json_w_str(out, t->name);
	kp_buf_lit(out, ",\"description\":");
	kp_json_w_str(out, t->description);
	kp_buf_lit(out, ",\"input_schema\":");
	kp_buf_add(out, t->input_schema);
	kp_buf_lit(out, ",\"annotations\":");
	kp_buf_add(out, t->annotations.n ? t->annotations : KP_S("null"));
	kp_buf_addc(out, '}');
}

static void show_list(struct kp_flow *f, const struct kp_tool_server *s)
{
	struct kp_response *r = kp_response_of(&f->turn);
	if (is_listed_before(r, s->label)) {
		return; /* the client has it, and sends it again */
	}
	struct kp_item *it = kp_item_open(r, KP_ITEM_MCP_LIST, KP_STR_NULL, s->label);
	if (!it) {
		return;
	}
	for (size_t i = 0; s->tools && i < s->tools->n; i++) {
		if (kp_tool_server_shows(s, &s->tools->items[i])) {
			put_tool(&it->text, &s->tools->items[i]);
		}
	}
	if (!s->tools) {
		kp_buf_addz(&it->output, s->err.msg);
	}
	kp_item_listed(r, it, s->tools ? KP_ITEM_COMPLETED : KP_ITEM_FAILED, out_of(f));
	show(f);
}

static void on_listed(void *ctx, const struct kp_mcp_tools *tools, const struct kp_err *err)
{
	struct kp_flow *f = ctx;
	struct kp_response *r = kp_response_of(&f->turn);
	struct kp_tool_server *s = r->listing;
	s->ask = NULL;
	if (tools) {
		s->tools = kp_mcp_tools_ref(tools);
	} else {
		s->err = *err;
	}
	show_list(f, s);
	answered(f);
}

/* One server after the other: they answer from memory but for the first time. */
enum kp_step kp_responses_stage_list(struct kp_flow *f, struct kp_err *err)
{
	struct kp_response *r = kp_response_of(&f->turn);
	size_t i = r->listing ? (size_t)(r->listing - r->servers) + 1 : 0;
	if (!i && kp_tool_servers_read(
			  &r->ask.tools, f->turn.arena, &r->servers, &r->n_servers, err)) {
		return KP_STEP_FAIL;
	}
	if (r->listing && r->listing->err.code != KP_OK) {
		*err = r->listing->err;
		kp_err_wrap(err, "tools of `%" KP_FMT "`", KP_ARG(r->listing->label));
		err->code = err->code == KP_UNAVAILABLE ? err->code : KP_DATA_LOSS;
		err->reason = "tool_server_failed";
		return KP_STEP_FAIL;
	}
	if (i == r->n_servers) {
		return KP_STEP_NEXT;
	}
	r->listing = &r->servers[i];
	if (connect_server(f, r->listing, err)) {
		return KP_STEP_FAIL;
	}
	if (!f->encoder_state && kp_flow_open(f, 1, err)) {
		return KP_STEP_FAIL;
	}
	begin(f);
	r->asks = 1;
	r->listing->ask = kp_mcp_list(r->listing->session, on_listed, f);
	f->stage--; /* here again */
	return KP_STEP_WAIT;
}

/* What the model is shown of all lists. */
static int own_tools(struct kp_flow *f, struct kp_token_scratch *scratch, struct kp_err *err)
{
	struct kp_response *r = kp_response_of(&f->turn);
	struct kp_arena *a = f->turn.arena;
	size_t n = 0, most = 0;
	(void)scratch;
	for (size_t i = 0; i < r->n_servers; i++) {
		most += r->servers[i].tools ? r->servers[i].tools->n : 0;
	}
	struct kp_responses_tool *own = kp_arena_calloc(a, most + 1, sizeof(*own));
	if (!own) {
		return kp_arena_full(err, "tools");
	}
	for (size_t i = 0; i < r->n_servers; i++) {
		const struct kp_tool_server *s = &r->servers[i];
		for (size_t k = 0; s->tools && k < s->tools->n; k++) {
			const struct kp_mcp_tool *t = &s->tools->items[k];
			struct kp_responses_tool *o = &own[n];
			if (!kp_tool_server_shows(s, t)) {
				continue;
			}
			*o = (struct kp_responses_tool){ .label = s->label,
				.name = t->name,
				.description = t->description.n ? t->description : KP_STR_NULL,
				.needs_approval = kp_tool_server_asks(s, t) };
			if (kp_responses_tool_name(a, s->label, t->name, &o->exposed, err) ||
				kp_jv_parse(t->input_schema, a, &o->schema, err)) {
				return -1;
			}
			n++;
		}
	}
	r->own = own;
	r->n_own = n;
	if (!r->n_allowed) {
		return 0;
	}
	/* Where a call was allowed, what is wrong with the tools is found here, before it is made. */
	return kp_responses_tools(&r->ask, own, n, &f->turn, err)
		       ? -1
		       : kp_params_check_form(&f->turn, err);
}

/* Lists may be long: then a worker reads them, and all that is made of them. */
enum kp_step kp_responses_stage_own(struct kp_flow *f, struct kp_err *err)
{
	const struct kp_response *r = kp_response_of(&f->turn);
	for (size_t i = 0; i < r->n_servers; i++) {
		const struct kp_tool_server *s = &r->servers[i];
		for (size_t k = 0; s->tools && k < s->tools->n; k++) {
			const struct kp_mcp_tool *t = &s->tools->items[k];
			f->loaded_bytes += kp_tool_server_shows(s, t)
						   ? t->input_schema.n + t->description.n
						   : 0;
		}
	}
	return kp_flow_work(f, own_tools, err);
}

/* --- calls --------------------------------------------------------------------------------------- */

static struct kp_tool_server *server_of(const struct kp_response *r, const struct kp_item *it)
{
	for (size_t i = 0; i < r->n_servers; i++) {
		if (kp_str_eq(r->servers[i].label, it->label)) {
			return &r->servers[i];
		}
	}
	return NULL;
}

/* `code`: of a protocol error */
static void put_error(struct kp_buf *out, enum kp_mcp_outcome outcome, int64_t code, kp_str text)
{
	switch (outcome) {
	case KP_MCP_TOOL_ERROR:
		kp_buf_lit(out,
			"{\"type\":\"mcp_tool_execution_error\",\"content\":[{\"type\":\"text\",\"text\":");
		kp_json_w_str(out, text);
		kp_buf_lit(out, "}]}");
		return;
	case KP_MCP_PROTOCOL_ERROR:
		kp_buf_lit(out, "{\"type\":\"mcp_protocol_error\",\"code\":");
		kp_buf_i64(out, code);
		kp_buf_lit(out, ",\"message\":");
		break;
	case KP_MCP_OK:
	case KP_MCP_FAILED:
		kp_buf_lit(out, "{\"type\":\"http_error\",\"code\":502,\"message\":");
		break;
	}
	kp_json_w_str(out, text);
	kp_buf_addc(out, '}');
}

/* A call that was not made. */
static void fail_call(struct kp_flow *f, struct kp_item *it, kp_str why)
{
	put_error(&it->output, KP_MCP_FAILED, 0, why);
	kp_item_answered(kp_response_of(&f->turn), it, KP_ITEM_FAILED, out_of(f));
	show(f);
}

static void on_called(void *ctx, const struct kp_mcp_result *result)
{
	struct kp_response_call *c = ctx;
	struct kp_flow *f = c->flow;
	c->ask = NULL;
	bool is_ok = result->outcome == KP_MCP_OK;
	f->loaded_bytes += result->output.n;
	if (is_ok) {
		kp_buf_add(&c->item->output, result->output);
	} else {
		put_error(&c->item->output, result->outcome, result->code, result->output);
	}
	kp_item_answered(kp_response_of(&f->turn), c->item,
		is_ok ? KP_ITEM_COMPLETED : KP_ITEM_FAILED, out_of(f));
	show(f);
	answered(f);
}

/* NULL: it is shown by nobody (any more, where a conversation goes on with other tools). */
static const struct kp_responses_tool *offered(
	const struct kp_response *r, const struct kp_item *it)
{
	for (size_t i = 0; i < r->n_own; i++) {
		if (kp_str_eq(r->own[i].label, it->label) && kp_str_eq(r->own[i].name, it->name)) {
			return &r->own[i];
		}
	}
	return NULL;
}

static bool is_permitted(const struct kp_response *r, kp_str exposed)
{
	for (size_t i = 0; i < r->n_permitted; i++) {
		if (kp_str_eq(r->permitted[i], exposed)) {
			return true;
		}
	}
	return !r->permitted;
}

/* Asks for the call, or answers it here. */
static void begin_call(struct kp_flow *f, struct kp_response_call *c)
{
	struct kp_response *r = kp_response_of(&f->turn);
	uint32_t most = r->ask.max_tool_calls
				? KP_MIN(r->ask.max_tool_calls, (uint32_t)MAX_TOOL_CALLS)
				: (uint32_t)MAX_TOOL_CALLS;
	struct kp_tool_server *s = server_of(r, c->item);
	const struct kp_responses_tool *tool = offered(r, c->item);
	if (r->n_called >= most) {
		r->incomplete = "max_tool_calls";
		fail_call(f, c->item, KP_S("The call was not made: too many calls."));
		return;
	}
	r->n_called++;
	if (!s || !s->session || !tool) {
		fail_call(f, c->item, KP_S("There is no such tool."));
		return;
	}
	if (!is_permitted(r, tool->exposed)) {
		fail_call(f, c->item, KP_S("The call was not made: the tool is not allowed."));
		return;
	}
	const struct kp_mcp_call call = { .tool = c->item->name,
		.arguments = kp_buf_str(&c->item->text),
		.done = on_called,
		.ctx = c };
	r->asks++;
	c->ask = kp_mcp_call(s->session, &call);
}

/* Runs every call of the gateway's own that is open. */
static enum kp_step run_calls(struct kp_flow *f, struct kp_err *err)
{
	struct kp_response *r = kp_response_of(&f->turn);
	struct kp_response_call *calls =
		kp_arena_calloc(f->turn.arena, r->n_items + 1, sizeof(*calls));
	if (!calls) {
		kp_arena_full(err, "calls");
		return KP_STEP_FAIL;
	}
	r->calls = calls;
	r->n_calls = 0;
	for (uint32_t i = 0; i < r->n_items; i++) {
		if (r->items[i]->kind == KP_ITEM_MCP_CALL &&
			r->items[i]->status == KP_ITEM_IN_PROGRESS) {
			calls[r->n_calls++] =
				(struct kp_response_call){ .flow = f, .item = r->items[i] };
		}
	}
	for (size_t i = 0; i < r->n_calls; i++) {
		begin_call(f, &calls[i]);
	}
	return r->asks ? KP_STEP_WAIT : KP_STEP_NEXT;
}

/* --- what somebody allowed ----------------------------------------------------------------------- */

struct question {
	const struct kp_jv *request, *answer; /* answer: the last one, what is said later counts */
	bool is_done;                         /* a call tells of it */
};

static int note(
	struct kp_map *questions, struct kp_arena *a, const struct kp_jv *item, struct kp_err *err)
{
	kp_str type = kp_jv_str(item, KP_S("type"));
	bool is_request = kp_str_eq(type, KP_S("mcp_approval_request")),
	     is_answer = kp_str_eq(type, KP_S("mcp_approval_response")),
	     is_call = kp_str_eq(type, KP_S("mcp_call"));
	kp_str id = is_request             ? kp_jv_str(item, KP_S("id"))
		    : is_answer || is_call ? kp_jv_str(item, KP_S("approval_request_id"))
					   : KP_STR_NULL;
	struct question *q = id.p ? kp_map_get(questions, id) : NULL;
	if (!id.p) {
		return 0;
	}
	if (!q) {
		if (!(q = kp_arena_calloc(a, 1, sizeof(*q)))) {
			return kp_arena_full(err, "input");
		}
		kp_map_set(questions, id, q);
	}
	q->request = is_request && !q->request ? item : q->request;
	q->answer = is_answer ? item : q->answer;
	q->is_done |= is_call;
	return 0;
}

static int note_all(struct kp_response *r, struct kp_map *questions, struct kp_err *err)
{
	struct kp_arena *a = r->turn->arena;
	struct kp_map_entry *e;
	for (size_t i = 0; i < r->n_entries; i++) {
		if (note(questions, a, r->entries[i].item, err)) {
			return -1;
		}
	}
	if (!(r->allowed = kp_arena_calloc(a, questions->n + 1, sizeof(*r->allowed)))) {
		return kp_arena_full(err, "input");
	}
	for (size_t i = 0; (e = kp_map_next(questions, &i)) != NULL;) {
		const struct question *q = e->value;
		/* That there is no request is found when messages are made. */
		if (q->request && !q->is_done &&
			kp_jv_is(kp_jv_get(q->answer, KP_S("approve")), KP_JSON_TRUE)) {
			r->allowed[r->n_allowed++] = q->request;
		}
	}
	return 0;
}

int kp_responses_note_allowed(struct kp_response *r, struct kp_err *err)
{
	struct kp_map questions;
	kp_map_init(&questions);
	int rc = note_all(r, &questions, err);
	kp_map_fini(&questions, NULL);
	return rc;
}

/* The call that was asked about, as an item of this response. */
static void allow(struct kp_flow *f, const struct kp_jv *request)
{
	struct kp_response *r = kp_response_of(&f->turn);
	struct kp_item *it = kp_item_open(r, KP_ITEM_MCP_CALL, kp_jv_str(request, KP_S("name")),
		kp_jv_str(request, KP_S("server_label")));
	if (!it) {
		return;
	}
	it->approval_id = kp_jv_str(request, KP_S("id"));
	kp_item_announce(r, it, out_of(f));
	kp_item_grow(r, it, kp_jv_str(request, KP_S("arguments")), out_of(f));
	kp_item_close(r, it, KP_ITEM_COMPLETED, out_of(f));
	show(f);
}

enum kp_step kp_responses_stage_allowed(struct kp_flow *f, struct kp_err *err)
{
	struct kp_response *r = kp_response_of(&f->turn);
	if (!r->n_allowed) {
		return KP_STEP_NEXT;
	}
	if (!f->encoder_state && kp_flow_open(f, 1, err)) {
		return KP_STEP_FAIL;
	}
	begin(f);
	for (size_t i = 0; i < r->n_allowed; i++) {
		allow(f, r->allowed[i]);
	}
	return run_calls(f, err);
}

enum kp_step kp_responses_stage_fit(struct kp_flow *f, struct kp_err *err)
{
	struct kp_response *r = kp_response_of(&f->turn);
	enum kp_step step = kp_stage_fit(f, err);
	bool is_long = step == KP_STEP_FAIL && err->reason &&
		       strcmp(err->reason, "context_length_exceeded") == 0;
	if (!is_long || !r->n_called) {
		return step;
	}
	r->incomplete = "max_output_tokens"; /* what was called is told of, and kept */
	kp_flow_cut(f);
	return KP_STEP_NEXT;
}

/* --- behind a generation ------------------------------------------------------------------------- */

enum kp_step kp_responses_stage_calls(struct kp_flow *f, struct kp_err *err)
{
	struct kp_response *r = kp_response_of(&f->turn);
	if (!r->incomplete) {
		return run_calls(f, err);
	}
	for (uint32_t i = 0; i < r->n_items; i++) { /* it was cut: nothing is called */
		if (r->items[i]->kind == KP_ITEM_MCP_CALL &&
			r->items[i]->status == KP_ITEM_IN_PROGRESS) {
			fail_call(
				f, r->items[i], KP_S("The call was not made: the answer was cut."));
		}
	}
	return KP_STEP_NEXT;
}

/* Is there anything that the model is to go on with, and nothing that the client has to do? */
static bool goes_on(const struct kp_response *r)
{
	bool has_calls = false;
	for (uint32_t i = r->round_items; i < r->n_items; i++) {
		enum kp_item_kind kind = r->items[i]->kind;
		if (kind == KP_ITEM_FUNCTION_CALL || kind == KP_ITEM_MCP_APPROVAL) {
			return false;
		}
		has_calls |= kind == KP_ITEM_MCP_CALL;
	}
	return has_calls && !r->incomplete;
}

/* A choice that is the first generation's; `none`, and which tools may be called at all, are for every one. */
static bool must_be_made(const struct kp_jv *choice)
{
	return choice->type == KP_JSON_STRING
		       ? !kp_str_eq(choice->s, KP_S("none"))
		       : !kp_str_eq(kp_jv_str(choice, KP_S("mode")), KP_S("auto"));
}

enum kp_step kp_responses_stage_round(struct kp_flow *f, struct kp_err *err)
{
	struct kp_response *r = kp_response_of(&f->turn);
	struct kp_sampling *s = &f->turn.sampling;
	(void)err;
	if (!goes_on(r)) {
		return KP_STEP_NEXT;
	}
	if (s->set & KP_SET_MAX_TOKENS) { /* it is the whole response's */
		uint32_t used = f->completion_tokens - r->counted_tokens;
		if (used >= s->max_tokens) {
			r->incomplete = "max_output_tokens";
			return KP_STEP_NEXT;
		}
		s->max_tokens -= used;
		r->counted_tokens = f->completion_tokens;
	}
	r->round++;
	r->has_usage = false;
	if (must_be_made(&r->ask.tool_choice)) {
		r->ask.tool_choice = (struct kp_jv){ .type = KP_JSON_NONE }; /* it was */
	}
	kp_flow_round(f, "messages");
	return KP_STEP_NEXT;
}

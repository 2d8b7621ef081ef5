/* DESIGN: the stages of POST /v1/responses: those of a chat, and before the prompt some that load what is kept, ask MCP servers and make items into messages; behind a
   generation the gateway's own calls, another generation, or the end, which keeps the answer. A client is told that its response is complete only when it is kept. */
#include "sidecar/api/responses.h"

#include "sidecar/api/http.h"
#include "sidecar/api/params.h"
#include "sidecar/api/responses_stages.h"
#include "sidecar/flow/stages.h"

enum { ARENA_BYTES = 8 * KP_HISTORY_MAX_CHAIN_BYTES };

/* How deep JSON nests that was read already. */
static unsigned depth_of(kp_str json)
{
	unsigned depth = 0, most = 0;
	bool is_text = false;
	for (size_t i = 0; i < json.n; i++) {
		char c = json.p[i];
		if (is_text) {
			i += c == '\\';
			is_text = c != '"';
		} else if (c == '{' || c == '[') {
			most = KP_MAX(most, ++depth);
		} else if (c == '}' || c == ']') {
			depth--;
		} else {
			is_text = c == '"';
		}
	}
	return most;
}

static int read_request(kp_str body, struct kp_turn *turn, struct kp_err *err)
{
	struct kp_response *r = kp_arena_new(turn->arena, struct kp_response);
	turn->response = &r->ask;
	r->turn = turn;
	if (kp_params_read_api(body, KP_PARAMS_RESPONSES, turn, err)) {
		return -1;
	}
	return depth_of(body) < KP_JSON_MAX_DEPTH /* what is kept has it one deeper */
		       ? 0
		       : kp_err_set(err, KP_INVALID_ARGUMENT, "the request nests more than %d deep",
				 KP_JSON_MAX_DEPTH - 1);
}

/* --- before -------------------------------------------------------------------------------------- */

static int load(struct kp_flow *f, struct kp_token_scratch *scratch, struct kp_err *err)
{
	struct kp_response *r = kp_response_of(&f->turn);
	(void)scratch;
	if (kp_response_load(r, f->l->gateway->history, err)) {
		return -1;
	}
	f->loaded_bytes = kp_response_loaded(r);
	return 0;
}

static enum kp_step stage_load(struct kp_flow *f, struct kp_err *err)
{
	struct kp_response *r = kp_response_of(&f->turn);
	const struct kp_gateway *g = f->l->gateway;
	bool has_history = g->history != NULL;
	if (!has_history) { /* said in the answer, too */
		r->ask.no_store = true;
		kp_responses_echo(&r->ask, KP_S("store"), KP_S("false"));
	}
	if (has_history && g->config.tenant_header && !f->turn.tenant.n) {
		kp_err_set(err, KP_INVALID_ARGUMENT, "the request has no header `%s`",
			g->config.tenant_header);
		return KP_STEP_FAIL;
	}
	if (!kp_response_refers(r)) {
		return KP_STEP_NEXT;
	}
	if (!has_history) {
		kp_err_param(err, "previous_response_id",
			"`previous_response_id`: responses are not kept here");
		return KP_STEP_FAIL;
	}
	return kp_flow_submit(f, f->l->gateway->history_thread, load, err);
}

/* Where a call was allowed, what is wrong with the items is found here, before it is made. */
static int gather(struct kp_flow *f, struct kp_token_scratch *scratch, struct kp_err *err)
{
	struct kp_response *r = kp_response_of(&f->turn);
	(void)scratch;
	if (kp_response_gather(r, err) || kp_responses_note_allowed(r, err)) {
		return -1;
	}
	return r->n_allowed
		       ? kp_responses_messages(&r->ask, r->entries, r->n_entries, &f->turn, err)
		       : 0;
}

static enum kp_step stage_gather(struct kp_flow *f, struct kp_err *err)
{
	return kp_flow_hold_loaded(f, err) ? KP_STEP_FAIL : kp_flow_work(f, gather, err);
}

static int make_messages(struct kp_flow *f, struct kp_token_scratch *scratch, struct kp_err *err)
{
	struct kp_response *r = kp_response_of(&f->turn);
	(void)scratch;
	if (kp_response_enter(r, err) ||
		kp_responses_messages(&r->ask, r->entries, r->n_entries, &f->turn, err) ||
		kp_responses_tools(&r->ask, r->own, r->n_own, &f->turn, err)) {
		return -1;
	}
	if (kp_str_eq(kp_jv_str(&r->ask.tool_choice, KP_S("type")), KP_S("allowed_tools"))) {
		r->permitted = f->turn.chat.allowed;
		r->n_permitted = f->turn.chat.n_allowed;
	}
	return kp_params_check_form(&f->turn, err);
}

static enum kp_step stage_messages(struct kp_flow *f, struct kp_err *err)
{
	return kp_flow_work(f, make_messages, err);
}

/* --- after --------------------------------------------------------------------------------------- */

static int keep(struct kp_flow *f, struct kp_token_scratch *scratch, struct kp_err *err)
{
	struct kp_response *r = kp_response_of(&f->turn);
	struct kp_history *h = f->l->gateway->history;
	const struct kp_history_record record = { .id = f->turn.id,
		.previous_id = r->ask.previous_id,
		.created_s = f->turn.created_s,
		.body = kp_buf_str(&r->document),
		.item_ids = r->item_ids,
		.n_item_ids = r->n_item_ids };
	(void)scratch;
	return h->ops->put(h, f->turn.tenant, &record, err);
}

static enum kp_step stage_keep(struct kp_flow *f, struct kp_err *err)
{
	struct kp_response *r = kp_response_of(&f->turn);
	if (r->ask.no_store) {
		return KP_STEP_NEXT;
	}
	return kp_response_document(r, err)
		       ? KP_STEP_FAIL
		       : kp_flow_submit(f, f->l->gateway->history_thread, keep, err);
}

static const struct kp_stage stages[] = {
	{ "read", kp_stage_read },
	{ "await", kp_stage_await },
	{ "resolve", kp_stage_resolve },
	{ "load", stage_load },                    /* what is kept of earlier responses */
	{ "gather", stage_gather },                /* all items before the answer */
	{ "list", kp_responses_stage_list },       /* tools of MCP servers */
	{ "own", kp_responses_stage_own },         /* what the model is shown of them */
	{ "allowed", kp_responses_stage_allowed }, /* calls that somebody allowed meanwhile */
	{ "messages",
		stage_messages }, /* and tools, as chats have them; each generation begins here */
	{ "prompt", kp_stage_prompt },
	{ "constrain", kp_stage_constrain },
	{ "validate", kp_stage_validate },
	{ "fit", kp_responses_stage_fit },
	{ "start", kp_stage_start },
	{ NULL, NULL },
};
static const struct kp_stage ending[] = {
	{ "calls", kp_responses_stage_calls }, /* of the gateway's own */
	{ "round", kp_responses_stage_round }, /* another generation, or on */
	{ "keep", stage_keep },
	{ "end", kp_stage_end },
	{ NULL, NULL },
};
static const struct kp_flow_api responses = { "responses", "resp_", KP_TURN_CHAT, read_request,
	stages, &kp_responses_streamed, &kp_responses_whole, KP_DIALECT_OPENAI, ending, ARENA_BYTES,
	kp_responses_stop };

void kp_api_responses(struct kp_api_call *c)
{
	struct kp_flow *f = kp_api_flow(c, &responses);
	const struct kp_http_request **request = kp_arena_xalloc(f->turn.arena, sizeof(*request));
	*request = c->request; /* as long as the stream: for headers that a ToolServer is passed */
	f->own = request;
	kp_flow_run(f);
}

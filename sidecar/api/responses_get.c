/* DESIGN: what is kept of one response, by its path: GET, DELETE, and GET of its input items. Three stages: ask the history's thread, write, where there
   is much of it on a worker, answer. */
#include "sidecar/api/responses.h"

#include "json/write.h"
#include "sidecar/api/http.h"
#include "sidecar/flow/output.h"

struct lookup {
	kp_str id, after; /* after: KP_STR_NULL: from the beginning */
	uint64_t limit;
	bool is_ascending;
	struct kp_history_record record;
	bool is_found;
};

enum { USUAL_ITEMS = 20, MAX_ITEMS = 100 };

/* --- the store ----------------------------------------------------------------------------------- */

static int get(struct kp_flow *f, struct kp_token_scratch *scratch, struct kp_err *err)
{
	struct lookup *k = f->own;
	struct kp_history *h = f->l->gateway->history;
	(void)scratch;
	int r = h->ops->get(h, f->turn.tenant, k->id, f->turn.arena, &k->record, err);
	k->is_found = r == 0;
	f->loaded_bytes = k->is_found ? k->record.body.n : 0;
	return r < 0 ? -1 : 0;
}

static int del(struct kp_flow *f, struct kp_token_scratch *scratch, struct kp_err *err)
{
	struct lookup *k = f->own;
	struct kp_history *h = f->l->gateway->history;
	(void)scratch;
	int r = h->ops->del(h, f->turn.tenant, k->id, err);
	k->is_found = r == 0;
	return r < 0 ? -1 : 0;
}

static enum kp_step missing(const struct lookup *k, struct kp_err *err)
{
	kp_err_set(err, KP_NOT_FOUND, "no response `%" KP_FMT "` is kept here",
		KP_ARG(kp_str_sub(k->id, 0, KP_HISTORY_MAX_ID)));
	return KP_STEP_FAIL;
}

static enum kp_step ask(struct kp_flow *f,
	int (*fn)(struct kp_flow *f, struct kp_token_scratch *scratch, struct kp_err *err),
	struct kp_err *err)
{
	struct lookup *k = f->own;
	const struct kp_gateway *g = f->l->gateway;
	if (g->history && g->config.tenant_header && !f->turn.tenant.n) {
		kp_err_set(err, KP_INVALID_ARGUMENT, "the request has no header `%s`",
			g->config.tenant_header);
		return KP_STEP_FAIL;
	}
	return !g->history || k->id.n > KP_HISTORY_MAX_ID
		       ? missing(k, err)
		       : kp_flow_submit(f, f->l->gateway->history_thread, fn, err);
}

static enum kp_step stage_get(struct kp_flow *f, struct kp_err *err)
{
	return ask(f, get, err);
}

static enum kp_step stage_del(struct kp_flow *f, struct kp_err *err)
{
	return ask(f, del, err);
}

/* --- answers ------------------------------------------------------------------------------------- */

static enum kp_step stage_answer(struct kp_flow *f, struct kp_err *err)
{
	if (kp_buf_finish(&f->answer, "answer", err)) {
		return KP_STEP_FAIL;
	}
	kp_flow_reply(f, kp_buf_str(&f->answer));
	return KP_STEP_NEXT;
}

static int read_document(struct kp_flow *f, struct kp_jv *ret, struct kp_err *err)
{
	struct lookup *k = f->own;
	kp_buf_init(&f->answer, 2 * KP_RESPONSE_MAX_BYTES);
	if (kp_jv_parse(k->record.body, f->turn.arena, ret, err)) {
		err->code = KP_DATA_LOSS;
		return -1;
	}
	return 0;
}

static enum kp_step write_on_worker(struct kp_flow *f,
	int (*fn)(struct kp_flow *f, struct kp_token_scratch *scratch, struct kp_err *err),
	struct kp_err *err)
{
	const struct lookup *k = f->own;
	if (!k->is_found) {
		return missing(k, err);
	}
	return kp_flow_hold_loaded(f, err) ? KP_STEP_FAIL : kp_flow_work(f, fn, err);
}

static int write_response(struct kp_flow *f, struct kp_token_scratch *scratch, struct kp_err *err)
{
	struct kp_jv document = { .type = KP_JSON_NONE };
	(void)scratch;
	if (read_document(f, &document, err)) {
		return -1;
	}
	const struct kp_jv *response = kp_jv_get(&document, KP_S("response"));
	if (response) {
		kp_jv_write(response, &f->answer);
	}
	return 0;
}

static enum kp_step stage_show(struct kp_flow *f, struct kp_err *err)
{
	return write_on_worker(f, write_response, err);
}

static enum kp_step stage_gone(struct kp_flow *f, struct kp_err *err)
{
	const struct lookup *k = f->own;
	if (!k->is_found) {
		return missing(k, err);
	}
	kp_buf_init(&f->answer, 4096);
	kp_buf_lit(&f->answer, "{\"id\":");
	kp_json_w_str(&f->answer, k->id);
	kp_buf_lit(&f->answer, ",\"object\":\"response\",\"deleted\":true}");
	return stage_answer(f, err);
}

static void put_id(struct kp_buf *out, const char *name, const struct kp_jv *item)
{
	kp_buf_printf(out, ",\"%s\":", name);
	if (item) {
		kp_json_w_str(out, kp_jv_str(item, KP_S("id")));
	} else {
		kp_buf_lit(out, "null");
	}
}

static int write_items(struct kp_flow *f, struct kp_token_scratch *scratch, struct kp_err *err)
{
	const struct lookup *k = f->own;
	struct kp_buf *out = &f->answer;
	struct kp_jv document = { .type = KP_JSON_NONE };
	(void)scratch;
	if (read_document(f, &document, err)) {
		return -1;
	}
	const struct kp_jv *input = kp_jv_get(&document, KP_S("input")), *first = NULL,
			   *last = NULL;
	uint32_t n = kp_jv_is(input, KP_JSON_ARRAY) ? input->n : 0, shown = 0, at = 0;
	bool is_after = !k->after.p;
	kp_buf_lit(out, "{\"object\":\"list\",\"data\":[");
	for (; at < n && shown < k->limit; at++) {
		const struct kp_jv *item = &input->items[k->is_ascending ? at : n - 1 - at];
		if (is_after) {
			kp_buf_addz(out, shown++ ? "," : "");
			kp_jv_write(item, out);
			first = first ? first : item;
			last = item;
		}
		is_after |= kp_str_eq(kp_jv_str(item, KP_S("id")), k->after);
	}
	if (!is_after) {
		return kp_err_param(err, "after", "`after`: no item `%" KP_FMT "`",
			KP_ARG(kp_str_sub(k->after, 0, 80)));
	}
	kp_buf_addc(out, ']');
	put_id(out, "first_id", first);
	put_id(out, "last_id", last);
	kp_buf_addz(out, at < n ? ",\"has_more\":true}" : ",\"has_more\":false}");
	return 0;
}

static enum kp_step stage_list(struct kp_flow *f, struct kp_err *err)
{
	return write_on_worker(f, write_items, err);
}

/* --- the request --------------------------------------------------------------------------------- */

static const struct kp_stage show[] = { { "history", stage_get }, { "write", stage_show },
	{ "answer", stage_answer }, { NULL, NULL } };
static const struct kp_stage gone[] = { { "history", stage_del }, { "answer", stage_gone },
	{ NULL, NULL } };
static const struct kp_stage list[] = { { "history", stage_get }, { "write", stage_list },
	{ "answer", stage_answer }, { NULL, NULL } };
enum { ARENA_BYTES = 8 * KP_HISTORY_MAX_RECORD };
static const struct kp_flow_api api_show = { "responses_get", "req_", KP_TURN_CHAT, NULL, show,
	NULL, NULL, KP_DIALECT_OPENAI, NULL, ARENA_BYTES, NULL };
static const struct kp_flow_api api_gone = { "responses_delete", "req_", KP_TURN_CHAT, NULL, gone,
	NULL, NULL, KP_DIALECT_OPENAI, NULL, ARENA_BYTES, NULL };
static const struct kp_flow_api api_list = { "responses_items", "req_", KP_TURN_CHAT, NULL, list,
	NULL, NULL, KP_DIALECT_OPENAI, NULL, ARENA_BYTES, NULL };

static int read_query(struct lookup *k, kp_str query, struct kp_err *err)
{
	kp_str part;
	while (kp_str_split(&query, '&', &part)) {
		kp_str name, value = part;
		kp_str_split(&value, '=', &name);
		if (kp_str_eq(name, KP_S("limit"))) {
			if (!kp_str_u64(value, MAX_ITEMS, &k->limit) || k->limit == 0) {
				return kp_err_param(
					err, "limit", "`limit`: expected 1 to %d", MAX_ITEMS);
			}
		} else if (kp_str_eq(name, KP_S("order"))) {
			k->is_ascending = kp_str_eq(value, KP_S("asc"));
			if (!k->is_ascending && !kp_str_eq(value, KP_S("desc"))) {
				return kp_err_param(err, "order", "`order`: expected asc or desc");
			}
		} else if (kp_str_eq(name, KP_S("after"))) {
			k->after = value;
		} else if (kp_str_eq(name, KP_S("stream")) && !kp_str_eq(value, KP_S("false"))) {
			return kp_err_param(
				err, "stream", "`stream`: kept responses are not streamed");
		}
	}
	return 0;
}

/* The path is "/v1/responses/ID" or "/v1/responses/ID/input_items". */
static void start(struct kp_api_call *c, const struct kp_flow_api *api, struct kp_err *err)
{
	struct kp_flow *f = kp_api_flow(c, api);
	struct lookup *k = kp_arena_new(f->turn.arena, struct lookup);
	kp_str path = kp_str_skip(c->request->path, sizeof("/v1/responses/") - 1), query = KP_S("");
	f->own = k;
	*k = (struct lookup){ .limit = USUAL_ITEMS };
	f->turn.model = KP_S("");
	if (kp_arena_dup(f->turn.arena, path, &path, err) ||
		kp_arena_dup(f->turn.arena, c->request->query, &query, err) ||
		read_query(k, query, err)) {
		kp_flow_fail(f, err);
		return;
	}
	kp_str_split(&path, '/', &k->id);
	kp_flow_run(f);
}

void kp_api_response(struct kp_api_call *c)
{
	struct kp_err err;
	start(c, kp_str_eq(c->route->method, KP_S("DELETE")) ? &api_gone : &api_show, &err);
}

void kp_api_response_items(struct kp_api_call *c)
{
	struct kp_err err;
	start(c, &api_list, &err);
}

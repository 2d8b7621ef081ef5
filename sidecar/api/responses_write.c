/* DESIGN: items and the response object as JSON. What the request said is repeated as it was written; headers and credentials of its tools are not. */
#include "sidecar/api/responses.h"

#include "json/write.h"

static const char *const statuses[] = { [KP_ITEM_IN_PROGRESS] = "in_progress",
	[KP_ITEM_COMPLETED] = "completed",
	[KP_ITEM_INCOMPLETE] = "incomplete",
	[KP_ITEM_FAILED] = "failed" };

static void put_member(struct kp_buf *out, const char *name, kp_str value)
{
	kp_buf_lit(out, ",\"");
	kp_buf_addz(out, name);
	kp_buf_lit(out, "\":");
	if (value.p) {
		kp_json_w_str(out, value);
	} else {
		kp_buf_lit(out, "null");
	}
}

static void put_message(const struct kp_item *it, bool is_empty, struct kp_buf *out)
{
	kp_buf_lit(out, ",\"role\":\"assistant\",\"content\":[");
	if (!is_empty) {
		kp_buf_lit(out, "{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[");
		kp_buf_add(out, kp_buf_str(&it->logprobs));
		kp_buf_lit(out, "]");
		put_member(out, "text", kp_buf_str(&it->text));
		kp_buf_addc(out, '}');
	}
	kp_buf_addc(out, ']');
}

static void put_reasoning(
	const struct kp_response *r, const struct kp_item *it, bool is_empty, struct kp_buf *out)
{
	const char *type = r->ask.wants_summary ? "summary_text" : "reasoning_text";
	kp_buf_lit(out, ",\"encrypted_content\":null");
	kp_buf_addz(out, r->ask.wants_summary ? ",\"summary\":[" : ",\"summary\":[],\"content\":[");
	if (!is_empty) {
		kp_buf_printf(out, "{\"type\":\"%s\"", type);
		put_member(out, "text", kp_buf_str(&it->text));
		kp_buf_addc(out, '}');
	}
	kp_buf_addc(out, ']');
}

static void put_call(const struct kp_item *it, bool is_empty, struct kp_buf *out)
{
	put_member(out, "call_id", it->call_id);
	put_member(out, "name", it->name);
	put_member(out, "arguments", is_empty ? KP_S("") : kp_buf_str(&it->text));
}

static void put_mcp_call(const struct kp_item *it, bool is_empty, struct kp_buf *out)
{
	bool is_over = it->status == KP_ITEM_COMPLETED, has_error = it->status == KP_ITEM_FAILED;
	put_member(out, "server_label", it->label);
	put_member(out, "name", it->name);
	put_member(out, "arguments", is_empty ? KP_S("") : kp_buf_str(&it->text));
	put_member(out, "approval_request_id", it->approval_id);
	put_member(out, "output", is_over ? kp_buf_str(&it->output) : KP_STR_NULL);
	kp_buf_lit(out, ",\"error\":");
	kp_buf_add(out, has_error ? kp_buf_str(&it->output) : KP_S("null"));
}

static void put_list(const struct kp_item *it, bool is_empty, struct kp_buf *out)
{
	bool has_error = it->status == KP_ITEM_FAILED;
	put_member(out, "server_label", it->label);
	kp_buf_lit(out, ",\"tools\":[");
	kp_buf_add(out, is_empty ? KP_S("") : kp_buf_str(&it->text));
	kp_buf_addc(out, ']');
	put_member(out, "error", has_error ? kp_buf_str(&it->output) : KP_STR_NULL);
}

void kp_item_write(
	const struct kp_response *r, const struct kp_item *it, bool is_empty, struct kp_buf *out)
{
	static const char *const types[] = { [KP_ITEM_MESSAGE] = "message",
		[KP_ITEM_REASONING] = "reasoning",
		[KP_ITEM_FUNCTION_CALL] = "function_call",
		[KP_ITEM_MCP_CALL] = "mcp_call",
		[KP_ITEM_MCP_APPROVAL] = "mcp_approval_request",
		[KP_ITEM_MCP_LIST] = "mcp_list_tools" };
	kp_buf_lit(out, "{\"id\":");
	kp_json_w_str(out, it->id);
	kp_buf_printf(out, ",\"type\":\"%s\"", types[it->kind]);
	if (it->kind != KP_ITEM_MCP_APPROVAL && it->kind != KP_ITEM_MCP_LIST) {
		kp_buf_printf(out, ",\"status\":\"%s\"", statuses[it->status]);
	}
	switch (it->kind) {
	case KP_ITEM_MESSAGE:
		put_message(it, is_empty, out);
		break;
	case KP_ITEM_REASONING:
		put_reasoning(r, it, is_empty, out);
		break;
	case KP_ITEM_FUNCTION_CALL:
		put_call(it, is_empty, out);
		break;
	case KP_ITEM_MCP_CALL:
		put_mcp_call(it, is_empty, out);
		break;
	case KP_ITEM_MCP_APPROVAL:
		put_member(out, "server_label", it->label);
		put_member(out, "name", it->name);
		put_member(out, "arguments", kp_buf_str(&it->text));
		break;
	case KP_ITEM_MCP_LIST:
		put_list(it, is_empty, out);
		break;
	case KP_ITEM_NONE:
		break;
	}
	kp_buf_addc(out, '}');
}

/* --- the response -------------------------------------------------------------------------------- */

const char *kp_response_status(const struct kp_response *r)
{
	return r->incomplete ? "incomplete" : "completed";
}

static void put_usage(const struct kp_usage *u, struct kp_buf *out)
{
	kp_buf_printf(out,
		"{\"input_tokens\":%u,\"input_tokens_details\":{\"cached_tokens\":%u,\"cache_write_tokens\":0},\"output_tokens\":%u,\"output_tokens_details\":{\"reasoning_tokens\":%u},\"total_tokens\":%llu}",
		u->prompt_tokens, u->cached_tokens, u->completion_tokens, u->reasoning_tokens,
		(unsigned long long)u->prompt_tokens + u->completion_tokens);
}

/* OpenAI's list of codes is short. */
static void put_error(const struct kp_err *err, struct kp_buf *out)
{
	bool is_limit = err->code == KP_RESOURCE_EXHAUSTED;
	bool is_clients = kp_code_http(err->code) < 500 && !is_limit;
	kp_buf_printf(out, "{\"code\":\"%s\"",
		is_limit     ? "rate_limit_exceeded"
		: is_clients ? "invalid_prompt"
			     : "server_error");
	put_member(out, "message", kp_str_c(err->msg));
	kp_buf_addc(out, '}');
}

static void put_tools(const struct kp_jv *tools, struct kp_buf *out)
{
	kp_buf_lit(out, ",\"tools\":[");
	for (uint32_t i = 0; i < tools->n; i++) {
		const struct kp_jv *t = &tools->items[i];
		bool is_first = true;
		kp_buf_addz(out, i ? ",{" : "{");
		for (uint32_t k = 0; kp_jv_is(t, KP_JSON_OBJECT) && k < t->n; k++) {
			const struct kp_jmember *m = &t->members[k];
			if (kp_str_eq(m->key, KP_S("headers")) ||
				kp_str_eq(m->key, KP_S("authorization"))) {
				continue;
			}
			kp_buf_addz(out, is_first ? "" : ",");
			is_first = false;
			kp_json_w_str(out, m->key);
			kp_buf_addc(out, ':');
			kp_jv_write(&m->value, out);
		}
		kp_buf_addc(out, '}');
	}
	kp_buf_addc(out, ']');
}

static void put_ask(const struct kp_response *r, struct kp_buf *out)
{
	for (size_t i = 0; i < KP_RESPONSES_ECHOES; i++) {
		const struct kp_responses_echo *e = &kp_responses_echoes[i];
		kp_buf_printf(out, ",\"%s\":", e->name);
		if (r->ask.echo[i].n) {
			kp_buf_add(out, r->ask.echo[i]);
		} else {
			kp_buf_addz(out, e->missing);
		}
	}
	put_tools(&r->ask.tools, out);
}

void kp_response_write(const struct kp_response *r, const char *status, const struct kp_err *err,
	struct kp_buf *out)
{
	bool is_over = r->has_usage && !err;
	kp_buf_lit(out, "{\"id\":");
	kp_json_w_str(out, r->turn->id);
	kp_buf_printf(out, ",\"object\":\"response\",\"created_at\":%lld,\"status\":\"%s\"",
		(long long)r->turn->created_s, status);
	if (is_over) {
		kp_buf_printf(out, ",\"completed_at\":%lld", (long long)r->completed_s);
	} else {
		kp_buf_lit(out, ",\"completed_at\":null");
	}
	kp_buf_lit(out, ",\"error\":");
	if (err) {
		put_error(err, out);
	} else {
		kp_buf_lit(out, "null");
	}
	kp_buf_lit(out, ",\"incomplete_details\":");
	if (is_over && r->incomplete) {
		kp_buf_printf(out, "{\"reason\":\"%s\"}", r->incomplete);
	} else {
		kp_buf_lit(out, "null");
	}
	kp_buf_lit(out, ",\"model\":");
	kp_json_w_str(out, r->turn->model);
	kp_buf_lit(out, ",\"output\":[");
	for (uint32_t i = 0; i < r->n_items; i++) {
		kp_buf_addz(out, i ? "," : "");
		kp_item_write(r, r->items[i], false, out);
	}
	kp_buf_addc(out, ']');
	put_ask(r, out);
	kp_buf_lit(out, ",\"usage\":");
	if (r->has_usage) {
		put_usage(&r->usage, out);
	} else {
		kp_buf_lit(out, "null");
	}
	if (r->fault.result) {
		kp_buf_addc(out, ',');
		kp_put_fault(out, &r->fault);
	}
	kp_buf_addc(out, '}');
	out->failed |= r->failed;
}

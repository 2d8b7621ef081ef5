/* DESIGN: POST /v1/tokenize and /v1/detokenize (also without /v1, as in vLLM): the gateway's own
   text stack, no engine. Bodies are small or rare, so they are served on the loop; the size of the
   text is bounded by the body. */
#include "base/clock.h"
#include "json/write.h"
#include "sidecar/api/errors.h"
#include "sidecar/api/http.h"
#include "sidecar/api/messages.h"
#include "sidecar/api/params.h"
#include "sidecar/flow/flow.h"

#include <stdio.h>

struct ask {
	struct kp_turn turn;
	bool has_prompt, has_messages, has_tokens, has_add_special, add_special, return_token_strs;
	kp_str prompt;
	struct kp_ids ids;
};

static int read_tokens(struct kp_json *j, struct ask *a, struct kp_err *err)
{
	int more;
	a->has_tokens = true;
	if (kp_json_array(j, err)) {
		return -1;
	}
	while ((more = kp_json_element(j, err)) > 0) {
		int64_t id;
		if (kp_json_i64(j, 0, INT32_MAX, &id, err)) {
			return -1;
		}
		kp_ids_add(&a->ids, (kp_id)id);
	}
	return more;
}

static int read_member(
	struct kp_json *j, kp_str name, bool is_detokenize, struct ask *a, struct kp_err *err)
{
	if (kp_str_eq(name, KP_S("model"))) {
		return kp_json_string(j, &a->turn.model, err);
	}
	if (is_detokenize && kp_str_eq(name, KP_S("tokens"))) {
		return read_tokens(j, a, err);
	}
	if (!is_detokenize && kp_str_eq(name, KP_S("prompt"))) {
		a->has_prompt = true;
		return kp_json_string(j, &a->prompt, err);
	}
	if (!is_detokenize && kp_str_eq(name, KP_S("messages"))) {
		a->has_messages = true;
		return kp_messages_read(j, &a->turn, err);
	}
	if (!is_detokenize && kp_str_eq(name, KP_S("add_special_tokens"))) {
		a->has_add_special = true;
		return kp_json_bool(j, &a->add_special, err);
	}
	if (!is_detokenize && kp_str_eq(name, KP_S("return_token_strs"))) {
		return kp_json_bool(j, &a->return_token_strs, err);
	}
	if (!is_detokenize && kp_str_eq(name, KP_S("add_generation_prompt"))) {
		return kp_json_bool(j, &a->turn.chat.add_generation_prompt, err);
	}
	if (!is_detokenize && kp_str_eq(name, KP_S("continue_final_message"))) {
		return kp_json_bool(j, &a->turn.chat.continue_final_message, err);
	}
	if (!is_detokenize && kp_str_eq(name, KP_S("chat_template_kwargs"))) {
		return kp_params_kwargs(j, &a->turn, err);
	}
	kp_json_fail(j, err, "unknown parameter");
	err->reason = "unknown_parameter";
	return -1;
}

static int read_ask(kp_str body, bool is_detokenize, struct ask *a, struct kp_err *err)
{
	struct kp_json j;
	kp_str name;
	int more;
	kp_json_init(&j, body, a->turn.arena);
	if (kp_json_object(&j, err)) {
		return -1;
	}
	while ((more = kp_json_member(&j, &name, err)) > 0) {
		int null = kp_json_try_null(&j, err);
		if (null < 0 || (null == 0 && read_member(&j, name, is_detokenize, a, err))) {
			return -1;
		}
	}
	if (more < 0 || kp_json_end(&j, err)) {
		return -1;
	}
	if (!a->turn.model.p) {
		return kp_err_param(err, "model", "`model`: missing");
	}
	if (is_detokenize) {
		return a->has_tokens ? 0 : kp_err_param(err, "tokens", "`tokens`: missing");
	}
	if (a->has_prompt == a->has_messages) {
		return kp_err_param(err, a->has_prompt ? "messages" : "prompt",
			"give either `prompt` or `messages`");
	}
	if (a->turn.chat.continue_final_message) {
		a->turn.chat.add_generation_prompt = false;
	}
	return 0;
}

static int encode(
	struct kp_gwloop *l, const struct kp_revision *r, struct ask *a, struct kp_err *err)
{
	struct kp_encode_opts opts = { .add_special = a->has_add_special ? a->add_special
									 : a->has_prompt };
	struct kp_text text = kp_text_trusted(a->prompt);
	if (a->has_messages) {
		opts.policy = r->text->policy;
		if (kp_text_stack_render(
			    r->text, &a->turn, a->turn.created_s * KP_NS_PER_S, &text, err)) {
			return -1;
		}
	}
	return kp_tokenizer_encode(r->text->tokenizer, l->scratch, &text, &opts, &a->ids, err);
}

static void put_tokens(struct kp_buf *out, const struct kp_revision *r, const struct ask *a)
{
	kp_buf_lit(out, "{\"count\":");
	kp_buf_u64(out, a->ids.n);
	kp_buf_lit(out, ",\"max_model_len\":");
	if (r->max_context) {
		kp_buf_u64(out, r->max_context);
	} else {
		kp_buf_lit(out, "null");
	}
	kp_buf_lit(out, ",\"tokens\":[");
	for (size_t i = 0; i < a->ids.n; i++) {
		if (i) {
			kp_buf_addc(out, ',');
		}
		kp_buf_u64(out, a->ids.p[i]);
	}
	kp_buf_lit(out, "],\"token_strs\":");
	if (!a->return_token_strs) {
		kp_buf_lit(out, "null}");
		return;
	}
	kp_buf_addc(out, '[');
	for (size_t i = 0; i < a->ids.n; i++) {
		kp_buf_addz(out, i ? "," : "");
		kp_json_w_str(out, kp_tokenizer_token_bytes(r->text->tokenizer, a->ids.p[i]));
	}
	kp_buf_lit(out, "]}");
}

static int answer(struct kp_api_call *c, bool is_detokenize, struct ask *a, struct kp_buf *out,
	struct kp_err *err)
{
	const struct kp_model *m;
	if (read_ask(kp_buf_str(&c->body), is_detokenize, a, err) ||
		!(m = kp_gwloop_model(c->l, a->turn.model, err))) {
		return -1;
	}
	const struct kp_revision *r = kp_model_text_revision(m);
	if (!is_detokenize) {
		if (encode(c->l, r, a, err)) {
			return -1;
		}
		put_tokens(out, r, a);
		return 0;
	}
	KP_AUTO(buf) struct kp_buf text;
	kp_buf_init(&text, 64 << 20);
	if (kp_tokenizer_decode(r->text->tokenizer, a->ids.p, a->ids.n, false, &text, err)) {
		snprintf(err->param, sizeof(err->param), "tokens");
		return -1;
	}
	kp_buf_lit(out, "{\"prompt\":");
	kp_json_w_str(out, kp_buf_str(&text));
	kp_buf_addc(out, '}');
	return kp_buf_finish(&text, "text", err);
}

static void serve(struct kp_api_call *c, bool is_detokenize)
{
	struct ask a = { .turn = { .kind = KP_TURN_CHAT,
				 .created_s = kp_wall_ns() / KP_NS_PER_S,
				 .chat = { .add_generation_prompt = true } } };
	struct kp_err err;
	KP_AUTO(buf) struct kp_buf out;
	kp_buf_init(&out, 256 << 20);
	kp_ids_init(&a.ids, KP_FLOW_MAX_PROMPT_IDS);
	a.turn.arena = kp_arena_create(KP_FLOW_ARENA_BASE + KP_FLOW_ARENA_FACTOR * c->body.n);
	if (answer(c, is_detokenize, &a, &out, &err)) {
		kp_error_reply(c->stream, &err);
	} else {
		kp_api_json(c->stream, &out);
	}
	kp_ids_fini(&a.ids);
	kp_arena_destroy(a.turn.arena);
}

void kp_api_tokenize(struct kp_api_call *c)
{
	serve(c, false);
}

void kp_api_detokenize(struct kp_api_call *c)
{
	serve(c, true);
}

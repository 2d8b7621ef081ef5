/* DESIGN: POST /v1/tokenize and /v1/detokenize (also without /v1, as in vLLM, whose bodies and answers they share): flows that need no
   engine. Their last stage answers: the ids of the prompt, or the text of the ids. `explain` is ours. */
#include "json/write.h"
#include "prompt/chat.h"
#include "sidecar/errors.h"
#include "sidecar/api/http.h"
#include "sidecar/api/params.h"
#include "sidecar/api/prompts.h"
#include "sidecar/flow/stages.h"
#include "sidecar/gwloop.h"
#include "token/pieces.h"

#include <stdio.h>

enum {
	MAX_ANSWER = 48 << 20, /* what is queued for a connection has a limit */
	MAX_EXPLAINED = 1 << 16,
};

struct ask {
	struct kp_json j;
	struct kp_turn *turn;
	struct kp_prompt *prompt;
	bool has_prompt, has_tokens, has_add_special;
};

static int read_tokens(struct ask *a, struct kp_err *err)
{
	a->has_tokens = true;
	if (kp_json_array(&a->j, err)) {
		return -1;
	}
	int more = kp_json_element(&a->j, err);
	return more < 0 ? -1 : kp_prompts_read_ids(&a->j, a->turn, more, a->prompt, err);
}

static int unknown(struct ask *a, struct kp_err *err)
{
	kp_json_fail(&a->j, err, "unknown parameter");
	err->reason = "unknown_parameter";
	return -1;
}

static int read_tokenize_member(struct ask *a, kp_str name, struct kp_err *err)
{
	struct kp_turn *t = a->turn;
	if (kp_str_eq(name, KP_S("model"))) {
		return kp_json_string(&a->j, &t->model, err);
	}
	if (kp_str_eq(name, KP_S("prompt"))) {
		a->has_prompt = true;
		return kp_json_string(&a->j, &a->prompt->text, err);
	}
	if (kp_str_eq(name, KP_S("add_special_tokens"))) {
		a->has_add_special = true;
		return kp_json_bool(&a->j, &t->add_special_tokens, err);
	}
	if (kp_str_eq(name, KP_S("return_token_strs"))) {
		return kp_json_bool(&a->j, &t->return_token_strs, err);
	}
	if (kp_str_eq(name, KP_S("explain"))) {
		return kp_json_bool(&a->j, &t->explain, err);
	}
	if (kp_str_eq(name, KP_S("mm_processor_kwargs")) ||
		kp_str_eq(name, KP_S("media_io_kwargs"))) {
		kp_json_fail(&a->j, err, "messages are text only");
		err->reason = "unsupported_parameter";
		return -1;
	}
	int r = kp_chat_member(&a->j, name, t, err);
	return r > 0 ? unknown(a, err) : r;
}

static int read_detokenize_member(struct ask *a, kp_str name, struct kp_err *err)
{
	if (kp_str_eq(name, KP_S("model"))) {
		return kp_json_string(&a->j, &a->turn->model, err);
	}
	return kp_str_eq(name, KP_S("tokens")) ? read_tokens(a, err) : unknown(a, err);
}

static int read_members(struct ask *a, kp_str body, struct kp_turn *turn,
	int (*member)(struct ask *a, kp_str name, struct kp_err *err), struct kp_err *err)
{
	kp_str name;
	int more;
	a->turn = turn;
	a->prompt = kp_arena_new(turn->arena, struct kp_prompt);
	turn->prompts = a->prompt;
	turn->n_prompts = 1;
	turn->sampling.n = 1;
	kp_json_init(&a->j, body, turn->arena);
	if (kp_json_body(&a->j, err)) {
		return -1;
	}
	while ((more = kp_json_member(&a->j, &name, err)) > 0) {
		int null = kp_json_try_null(&a->j, err);
		if (null < 0 || (null == 0 && member(a, name, err))) {
			return -1;
		}
	}
	if (more < 0 || kp_json_end(&a->j, err)) {
		return -1;
	}
	return 0;
}

static int read_tokenize(kp_str body, struct kp_turn *turn, struct kp_err *err)
{
	struct ask a = { .has_prompt = false };
	turn->chat.add_generation_prompt = true;
	if (read_members(&a, body, turn, read_tokenize_member, err)) {
		return -1;
	}
	bool is_chat = turn->chat.messages.n > 0;
	if (a.has_prompt == is_chat) {
		return kp_err_param(err, a.has_prompt ? "messages" : "prompt",
			"give either `prompt` or `messages`");
	}
	turn->kind = is_chat ? KP_TURN_CHAT : KP_TURN_COMPLETION;
	if (!a.has_add_special) {
		turn->add_special_tokens = a.has_prompt;
	}
	return is_chat ? kp_chat_settle(turn, err) : 0;
}

static int read_detokenize(kp_str body, struct kp_turn *turn, struct kp_err *err)
{
	struct ask a = { .has_prompt = false };
	if (read_members(&a, body, turn, read_detokenize_member, err)) {
		return -1;
	}
	return a.has_tokens ? 0 : kp_err_param(err, "tokens", "`tokens`: missing");
}

static void put_token_strs(
	struct kp_buf *out, const struct kp_tokenizer *t, const struct kp_ids *ids)
{
	KP_AUTO(buf) struct kp_buf written;
	kp_buf_init(&written, 1 << 20);
	kp_buf_lit(out, ",\"token_strs\":[");
	for (size_t i = 0; i < ids->n; i++) {
		kp_buf_reset(&written);
		kp_token_written(t, ids->p[i], &written);
		kp_buf_addz(out, i ? "," : "");
		kp_json_w_str(out, kp_buf_str(&written));
	}
	kp_buf_addc(out, ']');
}

static void put_tokens(struct kp_buf *out, const struct kp_flow *f)
{
	const struct kp_tokenizer *t = f->revision->text->tokenizer;
	const struct kp_ids *ids = &f->prompts[0].ids;
	kp_buf_printf(out, "{\"count\":%zu,\"max_model_len\":", ids->n);
	if (f->revision->max_context) {
		kp_buf_u64(out, f->revision->max_context);
	} else {
		kp_buf_lit(out, "null");
	}
	kp_buf_lit(out, ",\"tokens\":[");
	for (size_t i = 0; i < ids->n; i++) {
		kp_buf_addz(out, i ? "," : "");
		kp_buf_u64(out, ids->p[i]);
	}
	kp_buf_addc(out, ']');
	if (f->turn.return_token_strs) {
		put_token_strs(out, t, ids);
	} else {
		kp_buf_lit(out, ",\"token_strs\":null");
	}
	if (f->turn.explain) {
		kp_buf_lit(out, ",\"explain\":{\"tokenizer\":");
		kp_json_w_str(out, f->revision->text->info->kind);
		kp_buf_printf(out,
			",\"bytes\":%zu,\"seconds\":%.9f,\"pieces\":", f->prompts[0].text.s.n,
			(double)f->prompt_ns / 1e9);
		kp_token_pieces(t, &f->prompts[0].text, ids->p, ids->n, out);
		if (f->turn.kind == KP_TURN_CHAT) {
			kp_buf_addc(out, ',');
			kp_text_stack_json(f->revision->text, out);
			kp_buf_addc(out, ',');
			kp_text_json(&f->prompts[0].text, out);
		}
		kp_buf_addc(out, '}');
	}
	kp_buf_addc(out, '}');
}

/* The answers, written where the prompt was made: a long one takes a while. */
static int write_tokens(struct kp_flow *f, struct kp_token_scratch *scratch, struct kp_err *err)
{
	(void)scratch;
	if (f->turn.explain && f->prompts[0].ids.n > MAX_EXPLAINED) {
		return kp_err_param(err, "explain",
			"`explain`: at most %d tokens, the text has %zu", MAX_EXPLAINED,
			f->prompts[0].ids.n);
	}
	kp_buf_init(&f->answer, MAX_ANSWER);
	put_tokens(&f->answer, f);
	return kp_buf_finish(&f->answer, "answer", err);
}

static int write_text(struct kp_flow *f, struct kp_token_scratch *scratch, struct kp_err *err)
{
	const struct kp_prompt *p = &f->turn.prompts[0];
	KP_AUTO(buf) struct kp_buf text;
	(void)scratch;
	kp_buf_init(&text, MAX_ANSWER);
	kp_buf_init(&f->answer, MAX_ANSWER);
	if (kp_tokenizer_decode(
		    f->revision->text->tokenizer, p->ids, p->n_ids, false, &text, err)) {
		snprintf(err->param, sizeof(err->param), "tokens");
		err->code = err->code == KP_OUT_OF_RANGE ? KP_INVALID_ARGUMENT : err->code;
		return -1;
	}
	kp_buf_lit(&f->answer, "{\"prompt\":");
	kp_json_w_str(&f->answer, kp_buf_str(&text));
	kp_buf_addc(&f->answer, '}');
	return kp_buf_finish(&f->answer, "answer", err);
}

static enum kp_step write_tokens_stage(struct kp_flow *f, struct kp_err *err)
{
	return kp_flow_work(f, write_tokens, err);
}

static enum kp_step write_text_stage(struct kp_flow *f, struct kp_err *err)
{
	return kp_flow_work(f, write_text, err);
}

static enum kp_step reply(struct kp_flow *f, struct kp_err *err)
{
	(void)err;
	kp_flow_reply(f, kp_buf_str(&f->answer));
	return KP_STEP_NEXT;
}

static const struct kp_stage tokenize_stages[] = { { "read", kp_stage_read },
	{ "await", kp_stage_await }, { "resolve", kp_stage_resolve_only },
	{ "fetch", kp_stage_fetch }, { "media", kp_stage_media }, { "prompt", kp_stage_prompt },
	{ "write", write_tokens_stage }, { "answer", reply }, { NULL, NULL } };
static const struct kp_stage detokenize_stages[] = { { "read", kp_stage_read },
	{ "await", kp_stage_await }, { "resolve", kp_stage_resolve_only },
	{ "write", write_text_stage }, { "answer", reply }, { NULL, NULL } };
static const struct kp_flow_api tokenize = { "tokenize", "tok-", KP_TURN_NONE, read_tokenize,
	tokenize_stages, NULL, NULL, KP_DIALECT_OPENAI, NULL, 0, NULL };
static const struct kp_flow_api detokenize = { "detokenize", "detok-", KP_TURN_NONE,
	read_detokenize, detokenize_stages, NULL, NULL, KP_DIALECT_OPENAI, NULL, 0, NULL };

void kp_api_tokenize(struct kp_api_call *c)
{
	kp_api_start(c, &tokenize);
}

void kp_api_detokenize(struct kp_api_call *c)
{
	kp_api_start(c, &detokenize);
}

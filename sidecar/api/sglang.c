/* DESIGN: POST /generate as SGLang has it. Its answer is one object for each choice, with all that there is of it so far: a stream sends the same object again and
   again, each longer than the one before. The sampling parameters are read by the common table (params.c). */
#include "json/write.h"
#include "prompt/messages.h"
#include "sidecar/api/generate.h"
#include "sidecar/api/http.h"
#include "sidecar/api/params.h"
#include "sidecar/api/prompts.h"
#include "sidecar/flow/stages.h"

enum { MAX_ANSWER = 64 << 20, DEFAULT_MAX_TOKENS = 128 };

/* --- request ---------------------------------------------------------------------------------------------------------------------- */

struct ask {
	struct kp_json j;
	struct kp_turn *t;
	bool has_prompt, return_logprob;
	int64_t top, start;
};

static int refuse(struct ask *a, const char *reason, const char *what, struct kp_err *err)
{
	kp_json_fail(&a->j, err, "%s", what);
	err->reason = reason;
	return -1;
}

static int second_prompt(struct ask *a, struct kp_err *err)
{
	return kp_json_fail(&a->j, err, "give either `text` or `input_ids`");
}

static int read_text(struct ask *a, struct kp_err *err)
{
	if (a->has_prompt) {
		return second_prompt(a, err);
	}
	a->has_prompt = true;
	a->t->prompt_param = "text";
	a->t->answers_a_list = kp_json_peek(&a->j) == KP_JSON_ARRAY;
	if (kp_prompts_read(&a->j, a->t, err)) {
		return -1;
	}
	for (size_t i = 0; i < a->t->n_prompts; i++) {
		if (a->t->prompts[i].ids) {
			return kp_json_fail(&a->j, err, "expected text, not ids");
		}
	}
	return 0;
}

static int read_input_ids(struct ask *a, struct kp_err *err)
{
	struct kp_json look = a->j;
	if (a->has_prompt) {
		return second_prompt(a, err);
	}
	a->has_prompt = true;
	a->t->prompt_param = "input_ids";
	a->t->answers_a_list = kp_json_array(&look, err) == 0 && kp_json_element(&look, err) > 0 &&
			       kp_json_peek(&look) == KP_JSON_ARRAY;
	if (kp_prompts_read(&a->j, a->t, err)) {
		return -1;
	}
	for (size_t i = 0; i < a->t->n_prompts; i++) {
		if (!a->t->prompts[i].ids) {
			return kp_json_fail(&a->j, err, "expected ids, not text");
		}
	}
	return 0;
}

static int read_sampling(struct ask *a, struct kp_err *err)
{
	return kp_json_peek(&a->j) == KP_JSON_ARRAY
		       ? refuse(a, "unsupported_parameter", "one object is for all prompts", err)
		       : kp_params_sampling(&a->j, a->t, err);
}

static int read_model(struct ask *a, struct kp_err *err)
{
	return kp_json_string(&a->j, &a->t->model, err);
}

static int read_stream(struct ask *a, struct kp_err *err)
{
	return kp_json_bool(&a->j, &a->t->stream, err);
}

static int read_return_logprob(struct ask *a, struct kp_err *err)
{
	return kp_json_bool(&a->j, &a->return_logprob, err);
}

static int read_top(struct ask *a, struct kp_err *err)
{
	return kp_json_i64(&a->j, 0, KP_MAX_LOGPROBS, &a->top, err);
}

static int read_start(struct ask *a, struct kp_err *err)
{
	return kp_json_i64(&a->j, -1, INT32_MAX, &a->start, err);
}

static int read_text_in_logprobs(struct ask *a, struct kp_err *err)
{
	return kp_json_bool(&a->j, &a->t->text_in_logprobs, err);
}

/* SGLang's clients send its default. */
static int must_be_false(struct ask *a, struct kp_err *err)
{
	return kp_json_peek(&a->j) == KP_JSON_FALSE
		       ? kp_json_skip(&a->j, NULL, err)
		       : refuse(a, "unsupported_parameter", "only false is supported", err);
}

static int skip_value(struct ask *a, struct kp_err *err)
{
	return kp_json_skip(&a->j, NULL, err);
}

/* read NULL: known, not served. */
static const struct {
	const char *name;
	int (*read)(struct ask *a, struct kp_err *err);
} members[] = { { "text", read_text }, { "input_ids", read_input_ids },
	{ "sampling_params", read_sampling }, { "model", read_model }, { "stream", read_stream },
	{ "return_logprob", read_return_logprob }, { "top_logprobs_num", read_top },
	{ "logprob_start_len", read_start }, { "return_text_in_logprobs", read_text_in_logprobs },
	{ "rid", skip_value }, { "log_metrics", skip_value }, { "priority", skip_value },
	{ "input_embeds", NULL }, { "image_data", NULL }, { "video_data", NULL },
	{ "audio_data", NULL }, { "token_ids_logprob", NULL }, { "lora_path", NULL },
	{ "session_params", NULL }, { "custom_logit_processor", NULL },
	{ "return_hidden_states", must_be_false } };

static int read_member(struct ask *a, kp_str name, struct kp_err *err)
{
	for (size_t i = 0; i < KP_LEN(members); i++) {
		if (kp_str_eq(name, kp_str_c(members[i].name))) {
			int null = kp_json_try_null(&a->j, err);
			if (null) {
				return null < 0 ? -1 : 0;
			}
			return members[i].read
				       ? members[i].read(a, err)
				       : refuse(a, "unsupported_parameter", "not supported", err);
		}
	}
	return refuse(a, "unknown_parameter", "unknown parameter", err);
}

static int settle(struct ask *a, struct kp_err *err)
{
	struct kp_turn *t = a->t;
	struct kp_sampling *s = &t->sampling;
	if (t->n_prompts == 0) {
		const char *name = a->has_prompt ? t->prompt_param : "text";
		return kp_err_param(err, name, "`%s`: %s", name,
			a->has_prompt ? "must not be empty" : "this or `input_ids` is missing");
	}
	if (t->n_prompts * s->n > KP_MAX_CHOICES) {
		return kp_err_param(err, "sampling_params.n",
			"`sampling_params.n`: %zu prompts times %u are more than %d choices",
			t->n_prompts, s->n, KP_MAX_CHOICES);
	}
	if (!(s->set & KP_SET_MAX_TOKENS)) {
		s->max_tokens = DEFAULT_MAX_TOKENS;
		s->set |= KP_SET_MAX_TOKENS;
	}
	if (s->max_tokens == 0 || s->min_tokens > s->max_tokens) {
		return kp_err_param(err, "sampling_params.max_new_tokens",
			"`sampling_params.max_new_tokens`: must be above 0 and not below `min_new_tokens`");
	}
	t->answers_a_list |= s->n > 1;
	t->want_ids = true;
	if (a->return_logprob) {
		t->want_logprobs = true;
		s->logprobs = s->prompt_logprobs = (int32_t)a->top;
		s->set |= KP_SET_LOGPROBS | (a->start >= 0 ? KP_SET_PROMPT_LOGPROBS : 0);
		t->prompt_logprobs_from = a->start >= 0 ? (uint32_t)a->start : 0;
	}
	return 0;
}

static int read_generate(kp_str body, struct kp_turn *turn, struct kp_err *err)
{
	struct ask a = { .t = turn, .start = -1 };
	kp_str name;
	int more;
	kp_params_defaults(turn);
	kp_json_init(&a.j, body, turn->arena);
	if (kp_json_body(&a.j, err)) {
		return -1;
	}
	while ((more = kp_json_member(&a.j, &name, err)) > 0) {
		if (read_member(&a, name, err)) {
			return -1;
		}
	}
	return more < 0 || kp_json_end(&a.j, err) ? -1 : settle(&a, err);
}

/* --- answer ----------------------------------------------------------------------------------------------------------------------- */

struct lists { /* insides of two JSON lists */
	struct kp_buf tokens, tops;
};
struct choice {
	struct kp_buf text; /* as it stands in a JSON string: it is written again in each chunk */
	struct kp_buf ids, finish;
	struct lists output, input;
	struct kp_usage prompt;
	kp_id last_id;
	uint32_t n_ids;
};
struct state {
	const struct kp_turn *turn;
	struct choice *choices;
	size_t n_choices;
};

static void *open_state(const struct kp_turn *turn, size_t n_choices, struct kp_err *err)
{
	struct state *s = kp_arena_new(turn->arena, struct state);
	*s = (struct state){ .turn = turn };
	s->choices = kp_arena_calloc(turn->arena, n_choices, sizeof(*s->choices));
	if (!s->choices) {
		kp_arena_full(err, "choices");
		return NULL;
	}
	s->n_choices = n_choices;
	for (size_t i = 0; i < n_choices; i++) {
		struct choice *c = &s->choices[i];
		struct kp_buf *all[] = { &c->text, &c->ids, &c->finish, &c->output.tokens,
			&c->output.tops, &c->input.tokens, &c->input.tops };
		for (size_t k = 0; k < KP_LEN(all); k++) {
			kp_buf_init(all[k], MAX_ANSWER);
		}
	}
	return s;
}

static void close_state(void *state)
{
	struct state *s = state;
	for (size_t i = 0; i < s->n_choices; i++) {
		struct choice *c = &s->choices[i];
		struct kp_buf *all[] = { &c->text, &c->ids, &c->finish, &c->output.tokens,
			&c->output.tops, &c->input.tokens, &c->input.tops };
		for (size_t k = 0; k < KP_LEN(all); k++) {
			kp_buf_fini(all[k]);
		}
	}
}

/* [log-probability, id, text or null] */
static void put_token(struct kp_buf *out, const struct state *s, const struct kp_event_logprob *p)
{
	kp_buf_addc(out, '[');
	if (p->is_absent) {
		kp_buf_lit(out, "null");
	} else {
		kp_put_logprob(out, p->logprob);
	}
	kp_buf_printf(out, ",%u,", p->id);
	if (s->turn->text_in_logprobs) {
		kp_json_w_str(out, p->bytes);
	} else {
		kp_buf_lit(out, "null");
	}
	kp_buf_addc(out, ']');
}

static void take_logprobs(
	const struct state *s, struct lists *l, const struct kp_event *ev, size_t from)
{
	for (size_t i = from; i < ev->logprobs.n; i++) {
		const struct kp_event_logprob *p = &ev->logprobs.items[i];
		const char *comma = l->tokens.n ? "," : "";
		kp_buf_addz(&l->tokens, comma);
		put_token(&l->tokens, s, p);
		kp_buf_addz(&l->tops, comma);
		if (p->is_absent) {
			kp_buf_lit(&l->tops, "null");
			continue;
		}
		kp_buf_addc(&l->tops, '[');
		for (size_t k = 0; k < p->n_top; k++) {
			kp_buf_addz(&l->tops, k ? "," : "");
			put_token(&l->tops, s, &p->top[k]);
		}
		kp_buf_addc(&l->tops, ']');
	}
}

static void take_finish(struct choice *c, const struct kp_event *ev)
{
	switch (ev->finish.reason) {
	case KP_FINISH_LENGTH:
		kp_buf_printf(&c->finish, "{\"type\":\"length\",\"length\":%u}", c->n_ids);
		return;
	case KP_FINISH_ABORT:
	case KP_FINISH_ERROR:
		kp_buf_lit(&c->finish,
			"{\"type\":\"abort\",\"message\":\"the engine gave up\",\"status_code\":null,\"err_type\":null}");
		return;
	case KP_FINISH_NONE:
	case KP_FINISH_STOP:
		break;
	}
	kp_buf_lit(&c->finish, "{\"type\":\"stop\",\"matched\":");
	if (ev->finish.stop_text.p) {
		kp_json_w_str(&c->finish, ev->finish.stop_text);
	} else {
		kp_buf_u64(&c->finish, ev->finish.has_stop_id ? ev->finish.stop_id : c->last_id);
	}
	kp_buf_addc(&c->finish, '}');
}

static void take(struct state *s, const struct kp_event *ev)
{
	struct choice *c = &s->choices[ev->choice];
	switch ((int)ev->kind) {
	case KP_EV_ROLE:
		c->prompt = ev->prompt.usage;
		break;
	case KP_EV_IDS:
		kp_put_ids(&c->ids, ev->ids.p, ev->ids.n);
		c->last_id = ev->ids.p[ev->ids.n - 1];
		c->n_ids += (uint32_t)ev->ids.n;
		break;
	case KP_EV_LOGPROBS:
		take_logprobs(s, &c->output, ev, 0);
		break;
	case KP_EV_PROMPT_LOGPROBS:
		take_logprobs(s, &c->input, ev, s->turn->prompt_logprobs_from);
		break;
	case KP_EV_TEXT:
		kp_json_w_esc(&c->text, ev->text);
		break;
	case KP_EV_FINISH:
		take_finish(c, ev);
		if (ev->finish.fault) {
			kp_buf_addc(&c->finish, ',');
			kp_put_fault(&c->finish, ev->finish.fault);
		}
		break;
	default:
		break;
	}
}

static void put_list(struct kp_buf *out, const char *name, const struct kp_buf *inside)
{
	kp_buf_lit(out, ",\"");
	kp_buf_addz(out, name);
	kp_buf_lit(out, "\":[");
	kp_buf_add(out, kp_buf_str(inside));
	kp_buf_addc(out, ']');
	out->failed |= inside->failed;
}

static void put_result(struct kp_buf *out, const struct state *s, size_t i, bool with_index)
{
	const struct choice *c = &s->choices[i];
	kp_buf_lit(out, "{\"text\":\"");
	kp_buf_add(out, kp_buf_str(&c->text));
	kp_buf_addc(out, '"');
	put_list(out, "output_ids", &c->ids);
	kp_buf_lit(out, ",\"meta_info\":{\"id\":");
	kp_json_w_str(out, s->turn->id);
	kp_buf_lit(out, ",\"finish_reason\":");
	kp_buf_add(out, c->finish.n ? kp_buf_str(&c->finish) : KP_S("null"));
	kp_buf_lit(out, ",\"prompt_tokens\":");
	kp_buf_u64(out, c->prompt.prompt_tokens);
	kp_buf_lit(out, ",\"weight_version\":\"default\",\"completion_tokens\":");
	kp_buf_u64(out, c->n_ids);
	kp_buf_lit(out, ",\"cached_tokens\":");
	kp_buf_u64(out, c->prompt.cached_tokens);
	if (s->turn->want_logprobs) {
		put_list(out, "input_token_logprobs", &c->input.tokens);
		put_list(out, "output_token_logprobs", &c->output.tokens);
		if (s->turn->sampling.logprobs > 0) {
			put_list(out, "input_top_logprobs", &c->input.tops);
			put_list(out, "output_top_logprobs", &c->output.tops);
		}
	}
	kp_buf_addc(out, '}');
	if (with_index) {
		kp_buf_printf(out, ",\"index\":%zu", i);
	}
	kp_buf_addc(out, '}');
	out->failed |= c->text.failed;
}

static void streamed_event(void *state, const struct kp_event *ev, struct kp_buf *out)
{
	struct state *s = state;
	if (ev->kind == KP_EV_ERROR) {
		kp_put_sse_error(out, ev->error);
		return;
	}
	take(s, ev);
	if (ev->kind == KP_EV_TEXT || ev->kind == KP_EV_FINISH) {
		kp_buf_lit(out, "data: ");
		put_result(out, s, ev->choice, s->turn->answers_a_list);
		kp_buf_lit(out, "\n\n");
	}
}

static void streamed_end(void *state, struct kp_buf *out)
{
	(void)state;
	kp_buf_lit(out, "data: [DONE]\n\n");
}

static void whole_event(void *state, const struct kp_event *ev, struct kp_buf *out)
{
	(void)out;
	take(state, ev);
}

static void whole_end(void *state, struct kp_buf *out)
{
	struct state *s = state;
	bool is_list = s->turn->answers_a_list;
	kp_buf_addz(out, is_list ? "[" : "");
	for (size_t i = 0; i < s->n_choices; i++) {
		kp_buf_addz(out, i ? "," : "");
		put_result(out, s, i, false);
	}
	kp_buf_addz(out, is_list ? "]" : "");
}

static void whole_forget(void *state, uint32_t choice)
{
	struct choice *c = &((struct state *)state)->choices[choice];
	struct kp_buf *all[] = { &c->text, &c->ids, &c->finish, &c->output.tokens, &c->output.tops,
		&c->input.tokens, &c->input.tops };
	for (size_t k = 0; k < KP_LEN(all); k++) {
		kp_buf_reset(all[k]);
	}
	c->n_ids = 0;
}

static const struct kp_encoder streamed = { "text/event-stream", true, open_state, streamed_event,
	streamed_end, close_state, ": keep-alive\n\n", NULL };
static const struct kp_encoder whole = { "application/json", false, open_state, whole_event,
	whole_end, close_state, NULL, whole_forget };
static const struct kp_stage stages[] = { { "read", kp_stage_read }, { "await", kp_stage_await },
	{ "resolve", kp_stage_resolve_only }, { "prompt", kp_stage_prompt },
	{ "constrain", kp_stage_constrain }, { "validate", kp_stage_validate },
	{ "fit", kp_stage_fit }, { "start", kp_stage_start }, { NULL, NULL } };
static const struct kp_flow_api api = { "generate", "gen-", KP_TURN_COMPLETION, read_generate,
	stages, &streamed, &whole, KP_DIALECT_OPENAI, NULL, 0, NULL };

void kp_api_generate(struct kp_api_call *c)
{
	kp_api_start(c, &api);
}

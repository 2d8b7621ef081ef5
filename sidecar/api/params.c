/* DESIGN: a table of parameters, one small reader each; the body is read once, in the order it was written. What depends on two parameters (logprobs and top_logprobs,
   say) is settled in `settle` after the last one. Sources of names and ranges: OpenAI's API reference for the two endpoints; the extras are those vLLM and SGLang take. */
#include "sidecar/api/params.h"

#include "base/utf8.h"
#include "json/skim.h"
#include "prompt/anthropic.h"
#include "prompt/chat.h"
#include "prompt/known.h"
#include "prompt/messages.h"
#include "prompt/responses.h"
#include "sidecar/api/format.h"
#include "sidecar/api/params_lists.h"
#include "sidecar/api/prompts.h"

#include <stdio.h>

struct reader {
	struct kp_json j;
	struct kp_turn *t;
	enum kp_params_api api;
	kp_str name; /* of the parameter being read */
	struct kp_anthropic anthropic;
	bool has_prompt, has_model, has_top_logprobs, has_stream_options, has_best_of;
	bool has_max_completion_tokens;
	bool logprobs_flag;   /* chat: the boolean */
	bool leaves_messages; /* chat: they are read when it is known whose they are */
	bool has_messages;
	kp_str messages; /* their text then; KP_STR_NULL: none were left */
	int64_t top_logprobs, best_of;
};

enum {
	CHAT = KP_PARAMS_CHAT,
	COMPLETION = KP_PARAMS_COMPLETION,
	BOTH = CHAT | COMPLETION,
	MESSAGES = KP_PARAMS_MESSAGES,
	COUNT = KP_PARAMS_COUNT,
	SGLANG = KP_PARAMS_SGLANG,
	RESPONSES = KP_PARAMS_RESPONSES,
	MOST = BOTH | RESPONSES,
	ANTHROPIC = MESSAGES | COUNT,
	ALL = MOST | ANTHROPIC,
};

struct param {
	const char *name;
	unsigned apis;
	int (*read)(struct reader *r, struct kp_err *err);
	const char *refuse; /* why not, for those that are refused */
};

static int read_i64(struct reader *r, int64_t min, int64_t max, int64_t *ret, struct kp_err *err)
{
	return kp_json_i64(&r->j, min, max, ret, err);
}

static int read_f64(
	struct reader *r, double min, double max, uint32_t bit, double *ret, struct kp_err *err)
{
	if (kp_json_f64(&r->j, min, max, ret, err)) {
		return -1;
	}
	r->t->sampling.set |= bit;
	return 0;
}

static int skip_value(struct reader *r, struct kp_err *err)
{
	return kp_json_skip(&r->j, NULL, err);
}

static int read_model(struct reader *r, struct kp_err *err)
{
	r->has_model = true;
	if (kp_json_string(&r->j, &r->t->model, err)) {
		return -1;
	}
	if (r->t->model.n == 0 || r->t->model.n > 256) {
		return kp_json_fail(&r->j, err, "must have 1 to 256 bytes, has %zu", r->t->model.n);
	}
	return 0;
}

static int read_chat(struct reader *r, struct kp_err *err)
{
	return kp_chat_member(&r->j, r->name, r->t, err);
}

/* Where they end is all that is needed to read on. */
static int read_messages(struct reader *r, struct kp_err *err)
{
	enum { SHORT = 256 }; /* bytes: nothing in front of that many is found */
	const char *from = r->j.p;
	if (!r->leaves_messages || *from != '[') {
		return read_chat(r, err);
	}
	const char *end = kp_json_skim(from, r->j.end);
	if (!end || r->has_messages) {
		return kp_json_fail(&r->j, err, "not to be left");
	}
	r->has_messages = true;
	if (end - from < SHORT) {
		return read_chat(r, err);
	}
	r->messages = kp_str_n(from, (size_t)(end - from));
	r->j.p = end;
	return 0;
}

static int read_anthropic(struct reader *r, struct kp_err *err)
{
	return kp_anthropic_member(&r->j, r->name, &r->anthropic, r->t, err);
}

static int read_responses(struct reader *r, struct kp_err *err)
{
	return kp_responses_member(&r->j, r->name, r->t->response, r->t, err);
}

/* Its SDK's tool runner asks for it first, and does without when it reads this word. */
static int refuse_thread(struct reader *r, struct kp_err *err)
{
	kp_json_fail(&r->j, err, "conversations are not kept here");
	err->reason = "thread_unsupported_request";
	return -1;
}

/* Anthropic's own servers would act on it; a list of none asks for nothing. */
static int must_be_empty_list(struct reader *r, struct kp_err *err)
{
	struct kp_jv v;
	if (kp_jv_read_as(&r->j, KP_JSON_ARRAY, KP_MAX_VALUES, &v, err)) {
		return -1;
	}
	return v.n ? kp_json_fail(&r->j, err, "not supported") : 0;
}

static int read_parallel(struct reader *r, struct kp_err *err)
{
	bool v;
	if (kp_json_bool(&r->j, &v, err)) {
		return -1;
	}
	r->t->chat.one_call = !v;
	return 0;
}

static int read_add_special(struct reader *r, struct kp_err *err)
{
	return kp_json_bool(&r->j, &r->t->add_special_tokens, err);
}

static int read_prompt(struct reader *r, struct kp_err *err)
{
	r->has_prompt = true;
	return kp_prompts_read(&r->j, r->t, err);
}

static int read_stream(struct reader *r, struct kp_err *err)
{
	return kp_json_bool(&r->j, &r->t->stream, err);
}

static int read_stream_options(struct reader *r, struct kp_err *err)
{
	r->has_stream_options = true;
	return kp_params_stream_options(&r->j, r->t, err);
}

static int read_n(struct reader *r, struct kp_err *err)
{
	int64_t v;
	if (read_i64(r, 1, KP_MAX_CHOICES, &v, err)) {
		return -1;
	}
	r->t->sampling.n = (uint32_t)v;
	return 0;
}

static int read_max_tokens(struct reader *r, struct kp_err *err)
{
	int64_t v;
	if (read_i64(r, r->t->kind == KP_TURN_CHAT ? 1 : 0, INT32_MAX, &v, err)) {
		return -1;
	}
	if (!r->has_max_completion_tokens) { /* the newer name wins wherever it stands */
		r->t->sampling.max_tokens = (uint32_t)v;
		r->t->sampling.set |= KP_SET_MAX_TOKENS;
	}
	return 0;
}

static int read_max_completion_tokens(struct reader *r, struct kp_err *err)
{
	r->has_max_completion_tokens = false;
	if (read_max_tokens(r, err)) {
		return -1;
	}
	r->has_max_completion_tokens = true;
	return 0;
}

static int read_min_tokens(struct reader *r, struct kp_err *err)
{
	int64_t v;
	if (read_i64(r, 0, INT32_MAX, &v, err)) {
		return -1;
	}
	r->t->sampling.min_tokens = (uint32_t)v;
	return 0;
}

static int read_temperature(struct reader *r, struct kp_err *err)
{
	return read_f64(r, 0, 2, KP_SET_TEMPERATURE, &r->t->sampling.temperature, err);
}

static int read_top_p(struct reader *r, struct kp_err *err)
{
	if (read_f64(r, 0, 1, KP_SET_TOP_P, &r->t->sampling.top_p, err)) {
		return -1;
	}
	return r->t->sampling.top_p > 0 ? 0 : kp_json_fail(&r->j, err, "must be greater than 0");
}

static int read_top_k(struct reader *r, struct kp_err *err)
{
	int64_t v;
	if (read_i64(r, -1, INT32_MAX, &v, err)) {
		return -1;
	}
	r->t->sampling.top_k = v == 0 ? -1 : (int32_t)v; /* 0 and -1 both mean "all" */
	r->t->sampling.set |= KP_SET_TOP_K;
	return 0;
}

static int read_min_p(struct reader *r, struct kp_err *err)
{
	return read_f64(r, 0, 1, KP_SET_MIN_P, &r->t->sampling.min_p, err);
}

static int read_frequency_penalty(struct reader *r, struct kp_err *err)
{
	return read_f64(r, -2, 2, KP_SET_FREQUENCY_PENALTY, &r->t->sampling.frequency_penalty, err);
}

static int read_presence_penalty(struct reader *r, struct kp_err *err)
{
	return read_f64(r, -2, 2, KP_SET_PRESENCE_PENALTY, &r->t->sampling.presence_penalty, err);
}

static int read_repetition_penalty(struct reader *r, struct kp_err *err)
{
	if (read_f64(
		    r, 0, 10, KP_SET_REPETITION_PENALTY, &r->t->sampling.repetition_penalty, err)) {
		return -1;
	}
	return r->t->sampling.repetition_penalty > 0
		       ? 0
		       : kp_json_fail(&r->j, err, "must be greater than 0");
}

static int read_seed(struct reader *r, struct kp_err *err)
{
	if (read_i64(r, INT64_MIN, INT64_MAX, &r->t->sampling.seed, err)) {
		return -1;
	}
	r->t->sampling.set |= KP_SET_SEED;
	return 0;
}

static int read_ignore_eos(struct reader *r, struct kp_err *err)
{
	return kp_json_bool(&r->j, &r->t->sampling.ignore_eos, err);
}

static int read_skip_special(struct reader *r, struct kp_err *err)
{
	return kp_json_bool(&r->j, &r->t->sampling.skip_special_tokens, err);
}

static int read_spaces_between(struct reader *r, struct kp_err *err)
{
	bool v;
	if (kp_json_bool(&r->j, &v, err)) {
		return -1;
	}
	/* Byte-level tokenizers have no such spaces; false would change nothing there, and others
	 * are not served yet. */
	return v ? 0 : kp_json_fail(&r->j, err, "false is not supported");
}

static int read_include_stop(struct reader *r, struct kp_err *err)
{
	return kp_json_bool(&r->j, &r->t->sampling.include_stop_str, err);
}

static int read_stop(struct reader *r, struct kp_err *err)
{
	return kp_params_stop(&r->j, r->t, err);
}

static int read_stop_sequences(struct reader *r, struct kp_err *err)
{
	enum kp_json_type type = kp_json_peek(&r->j);
	return type == KP_JSON_ARRAY
		       ? kp_params_stop(&r->j, r->t, err)
		       : kp_json_fail(&r->j, err, "expected an array of strings, got %s",
				 kp_json_type_name(type));
}

static int read_stop_ids(struct reader *r, struct kp_err *err)
{
	return kp_params_stop_ids(&r->j, r->t, err);
}

static int read_logit_bias(struct reader *r, struct kp_err *err)
{
	return kp_params_logit_bias(&r->j, r->t, err);
}

/* chat: a boolean; completions: how many alternatives. */
static int read_logprobs(struct reader *r, struct kp_err *err)
{
	int64_t v;
	if (r->t->kind == KP_TURN_CHAT) {
		return kp_json_bool(&r->j, &r->logprobs_flag, err);
	}
	if (read_i64(r, 0, KP_MAX_LOGPROBS, &v, err)) {
		return -1;
	}
	r->t->want_logprobs = true;
	r->t->sampling.logprobs = (int32_t)v;
	r->t->sampling.set |= KP_SET_LOGPROBS;
	return 0;
}

static int read_top_logprobs(struct reader *r, struct kp_err *err)
{
	r->has_top_logprobs = true;
	return read_i64(r, 0, KP_MAX_LOGPROBS, &r->top_logprobs, err);
}

static int read_best_of(struct reader *r, struct kp_err *err)
{
	r->has_best_of = true;
	return read_i64(r, 1, KP_MAX_CHOICES, &r->best_of, err);
}

static int read_echo(struct reader *r, struct kp_err *err)
{
	return kp_json_bool(&r->j, &r->t->echo, err);
}

static int read_return_ids(struct reader *r, struct kp_err *err)
{
	return kp_json_bool(&r->j, &r->t->want_ids, err);
}

static int read_prompt_logprobs(struct reader *r, struct kp_err *err)
{
	int64_t v;
	if (read_i64(r, 0, KP_MAX_LOGPROBS, &v, err)) {
		return -1;
	}
	r->t->sampling.prompt_logprobs = (int32_t)v;
	r->t->sampling.set |= KP_SET_PROMPT_LOGPROBS;
	return 0;
}

static int must_be_false(struct reader *r, struct kp_err *err)
{
	bool v;
	if (kp_json_bool(&r->j, &v, err)) {
		return -1;
	}
	return v ? kp_json_fail(&r->j, err, "only false is supported") : 0;
}

static int read_words(
	struct reader *r, const char *one, const char *other, const char *what, struct kp_err *err)
{
	kp_str v;
	if (kp_json_string(&r->j, &v, err)) {
		return -1;
	}
	return kp_str_eq(v, kp_str_c(one)) || kp_str_eq(v, kp_str_c(other))
		       ? 0
		       : kp_json_fail(&r->j, err, "%s", what);
}

static int must_be_empty(struct reader *r, struct kp_err *err)
{
	return read_words(r, "", "", "not supported", err);
}

static int read_service_tier(struct reader *r, struct kp_err *err)
{
	return read_words(r, "auto", "default", "only `auto` and `default` are supported", err);
}

static int read_verbosity(struct reader *r, struct kp_err *err)
{
	return read_words(r, "medium", "medium", "only `medium` is supported", err);
}

static int read_modalities(struct reader *r, struct kp_err *err)
{
	return kp_params_modalities(&r->j, err);
}

static int read_format(struct reader *r, struct kp_err *err)
{
	return kp_format_read(&r->j, r->name, r->t, err);
}

static int read_cache_salt(struct reader *r, struct kp_err *err)
{
	kp_str *salt = &r->t->cache_salt;
	if (kp_json_string(&r->j, salt, err)) {
		return -1;
	}
	return salt->n && salt->n <= KP_MAX_CACHE_SALT
		       ? 0
		       : kp_json_fail(&r->j, err, "must have 1 to %d bytes, has %zu",
				 KP_MAX_CACHE_SALT, salt->n);
}

static int read_label(struct reader *r, struct kp_err *err)
{
	kp_str v;
	return kp_json_string(&r->j, &v, err);
}

static const struct param table[] = {
	{ "model", ALL, read_model, NULL },
	{ "messages", CHAT, read_messages, NULL },
	{ "prompt", COMPLETION, read_prompt, NULL },
	{ "stream", MOST | MESSAGES, read_stream, NULL },
	{ "temperature", MOST | MESSAGES | SGLANG, read_temperature, NULL },
	{ "max_tokens", BOTH | MESSAGES, read_max_tokens, NULL },
	{ "max_completion_tokens", CHAT, read_max_completion_tokens, NULL },
	{ "top_p", MOST | MESSAGES | SGLANG, read_top_p, NULL },
	{ "stream_options", MOST, read_stream_options, NULL },
	{ "stop", MOST | SGLANG, read_stop, NULL },
	{ "n", BOTH | SGLANG, read_n, NULL },
	{ "seed", MOST, read_seed, NULL },
	{ "frequency_penalty", MOST | SGLANG, read_frequency_penalty, NULL },
	{ "presence_penalty", MOST | SGLANG, read_presence_penalty, NULL },
	{ "logit_bias", MOST | SGLANG, read_logit_bias, NULL },
	{ "logprobs", BOTH, read_logprobs, NULL },
	{ "top_logprobs", CHAT | RESPONSES, read_top_logprobs, NULL },
	{ "top_k", MOST | MESSAGES | SGLANG, read_top_k, NULL },
	{ "min_p", MOST | SGLANG, read_min_p, NULL },
	{ "min_tokens", MOST, read_min_tokens, NULL },
	{ "repetition_penalty", MOST | SGLANG, read_repetition_penalty, NULL },
	{ "ignore_eos", MOST | SGLANG, read_ignore_eos, NULL },
	{ "stop_token_ids", MOST | SGLANG, read_stop_ids, NULL },
	{ "skip_special_tokens", MOST | SGLANG, read_skip_special, NULL },
	{ "spaces_between_special_tokens", MOST | SGLANG, read_spaces_between, NULL },
	{ "include_stop_str_in_output", MOST, read_include_stop, NULL },
	{ "chat_template_kwargs", CHAT | ANTHROPIC | RESPONSES, read_chat, NULL },
	{ "add_generation_prompt", CHAT, read_chat, NULL },
	{ "continue_final_message", CHAT, read_chat, NULL },
	{ "documents", CHAT, read_chat, NULL },
	{ "tools", CHAT, read_chat, NULL },
	{ "tool_choice", CHAT, read_chat, NULL },
	{ "parallel_tool_calls", CHAT | RESPONSES, read_parallel, NULL },
	{ "response_format", BOTH, read_format, NULL },
	{ "structured_outputs", BOTH, read_format, NULL },
	{ "guided_json", BOTH, read_format, NULL },
	{ "guided_regex", BOTH, read_format, NULL },
	{ "guided_choice", BOTH, read_format, NULL },
	{ "guided_grammar", BOTH, read_format, NULL },
	{ "json_schema", COMPLETION | SGLANG, read_format, NULL },
	{ "regex", BOTH | SGLANG, read_format, NULL },
	{ "ebnf", BOTH | SGLANG, read_format, NULL },
	{ "reasoning_effort", CHAT, read_chat, NULL },
	{ "chat_template", CHAT, read_chat, NULL },
	{ "add_special_tokens", BOTH, read_add_special, NULL },
	{ "cache_salt", MOST | MESSAGES, read_cache_salt, NULL },
	{ "messages", ANTHROPIC, read_anthropic, NULL },
	{ "system", ANTHROPIC, read_anthropic, NULL },
	{ "tools", ANTHROPIC, read_anthropic, NULL },
	{ "tool_choice", ANTHROPIC, read_anthropic, NULL },
	{ "thinking", ANTHROPIC, read_anthropic, NULL },
	{ "output_config", ANTHROPIC, read_anthropic, NULL },
	{ "input", RESPONSES, read_responses, NULL },
	{ "instructions", RESPONSES, read_responses, NULL },
	{ "previous_response_id", RESPONSES, read_responses, NULL },
	{ "tools", RESPONSES, read_responses, NULL },
	{ "tool_choice", RESPONSES, read_responses, NULL },
	{ "text", RESPONSES, read_responses, NULL },
	{ "reasoning", RESPONSES, read_responses, NULL },
	{ "include", RESPONSES, read_responses, NULL },
	{ "metadata", RESPONSES, read_responses, NULL },
	{ "truncation", RESPONSES, read_responses, NULL },
	{ "store", RESPONSES, read_responses, NULL },
	{ "max_tool_calls", RESPONSES, read_responses, NULL },
	{ "max_output_tokens", RESPONSES, read_max_tokens, NULL },
	{ "background", RESPONSES, must_be_false, NULL },
	{ "conversation", RESPONSES, NULL, "not supported: use `previous_response_id`" },
	{ "prompt", RESPONSES, NULL, "prompts that a server keeps are not supported" },
	{ "context_management", RESPONSES, must_be_empty_list, NULL },
	{ "moderation", RESPONSES, NULL, "not supported" },
	{ "prompt_cache_options", RESPONSES, NULL, "not supported" },
	{ "background_options", RESPONSES, NULL, "not supported" },
	{ "stop_sequences", MESSAGES, read_stop_sequences, NULL },
	/* Accepted without effect on the answer (docs/api-openai.md and docs/api-anthropic.md list them). */
	{ "metadata", MESSAGES, skip_value, NULL },
	{ "cache_control", ANTHROPIC, skip_value, NULL },
	{ "context_management", ANTHROPIC, skip_value, NULL },
	{ "diagnostics", MESSAGES, skip_value, NULL },
	{ "service_tier", MESSAGES, read_label, NULL },
	{ "inference_geo", MESSAGES, read_label, NULL },
	{ "speed", ANTHROPIC, read_label, NULL },
	{ "mcp_servers", ANTHROPIC, must_be_empty_list, NULL },
	{ "container", MESSAGES, NULL, "not supported" },
	{ "thread", MESSAGES, refuse_thread, NULL },
	{ "user", MOST, read_label, NULL },
	{ "safety_identifier", CHAT | RESPONSES, read_label, NULL },
	{ "prompt_cache_key", CHAT | RESPONSES, read_label, NULL },
	{ "prompt_cache_retention", CHAT | RESPONSES, read_label, NULL },
	{ "metadata", CHAT, skip_value, NULL },
	{ "service_tier", CHAT | RESPONSES, read_service_tier, NULL },
	{ "modalities", CHAT, read_modalities, NULL },
	{ "store", CHAT, must_be_false, NULL },
	{ "best_of", COMPLETION, read_best_of, NULL },
	{ "echo", COMPLETION, read_echo, NULL },
	{ "prompt_logprobs", BOTH, read_prompt_logprobs, NULL },
	{ "return_token_ids", BOTH, read_return_ids, NULL },
	{ "use_beam_search", BOTH, must_be_false, NULL },
	{ "suffix", COMPLETION, must_be_empty, NULL },
	/* SGLang's names. */
	{ "max_new_tokens", SGLANG, read_max_tokens, NULL },
	{ "min_new_tokens", SGLANG, read_min_tokens, NULL },
	{ "no_stop_trim", SGLANG, read_include_stop, NULL },
	{ "sampling_seed", SGLANG, read_seed, NULL },
	{ "stream_interval", SGLANG, skip_value, NULL },
	{ "structural_tag", SGLANG, NULL, "not supported yet" },
	{ "stop_regex", SGLANG, NULL, "not supported" },
	{ "custom_params", SGLANG, NULL, "not supported" },
	/* Known, not served yet. */
	{ "functions", CHAT, NULL, "deprecated: use `tools`" },
	{ "function_call", CHAT, NULL, "deprecated: use `tool_choice`" },
	{ "audio", CHAT, NULL, "audio output is not supported" },
	{ "prediction", CHAT, NULL, "predicted output is not supported" },
	{ "web_search_options", CHAT, NULL, "web search is not supported" },
	{ "moderation", CHAT, NULL, "not supported" },
	{ "prompt_cache_options", CHAT, NULL, "not supported" },
	{ "verbosity", CHAT, read_verbosity, NULL },
	{ "truncate_prompt_tokens", BOTH, NULL, "prompts are never truncated" },
	{ "guided_decoding_backend", BOTH, NULL, "the engine chooses it" },
	{ "guided_whitespace_pattern", BOTH, NULL, "not supported" },
	{ "length_penalty", BOTH, NULL, "beam search is not supported" },
	{ "bad_words", BOTH, NULL, "not supported" },
	{ "allowed_token_ids", BOTH, NULL, "not supported" },
	{ "priority", BOTH, NULL, "not supported" },
};

static const struct param *find_param(kp_str name, enum kp_params_api api)
{
	for (size_t i = 0; i < KP_LEN(table); i++) {
		if (table[i].apis & api && kp_str_eq(kp_str_c(table[i].name), name)) {
			return &table[i];
		}
	}
	return NULL;
}

static int read_one(struct reader *r, kp_str name, struct kp_err *err)
{
	const struct param *p = find_param(name, r->api);
	if (!p) {
		kp_json_fail(&r->j, err, "unknown parameter");
		err->reason = "unknown_parameter";
		return -1;
	}
	int null = kp_json_try_null(&r->j, err);
	if (null) {
		return null < 0 ? -1 : 0;
	}
	if (p->refuse) {
		kp_json_fail(&r->j, err, "%s", p->refuse);
		err->reason = "unsupported_parameter";
		return -1;
	}
	r->name = name;
	const char *from = r->j.p;
	if (p->read(r, err)) {
		return -1;
	}
	if (r->api == KP_PARAMS_RESPONSES) { /* the answer says again what was asked */
		kp_responses_echo(r->t->response, name, kp_str_n(from, (size_t)(r->j.p - from)));
	}
	return 0;
}

void kp_params_defaults(struct kp_turn *t)
{
	t->sampling = (struct kp_sampling){ .n = 1,
		.top_k = -1,
		.skip_special_tokens = true,
		.spaces_between_special_tokens = true };
	t->chat.add_generation_prompt = true;
	t->add_special_tokens = t->kind == KP_TURN_COMPLETION;
}

int kp_params_check_form(const struct kp_turn *t, struct kp_err *err)
{
	if (t->format.kind && t->chat.tool_choice >= KP_TOOL_CHOICE_REQUIRED) {
		return kp_err_param(err, t->format.param,
			"`%s`: `tool_choice` already asks for a tool call", t->format.param);
	}
	return 0;
}

static int settle_logprobs(struct reader *r, const char *needs, struct kp_err *err)
{
	struct kp_turn *t = r->t;
	if (r->has_top_logprobs && r->top_logprobs > 0 && !r->logprobs_flag) {
		return kp_err_param(err, "top_logprobs", "`top_logprobs`: needs %s", needs);
	}
	if (r->logprobs_flag) {
		t->want_logprobs = true;
		t->sampling.logprobs = (int32_t)r->top_logprobs;
		t->sampling.set |= KP_SET_LOGPROBS;
	}
	return 0;
}

static int settle_chat(struct reader *r, struct kp_err *err)
{
	struct kp_turn *t = r->t;
	if (kp_chat_settle(t, err)) {
		return -1;
	}
	if (kp_params_check_form(t, err)) {
		return -1;
	}
	return settle_logprobs(r, "`logprobs`: true", err);
}

static int settle_completion(struct reader *r, struct kp_err *err)
{
	struct kp_turn *t = r->t;
	if (!r->has_prompt || t->n_prompts == 0) {
		return kp_err_param(err, "prompt",
			r->has_prompt ? "`prompt`: must not be empty" : "`prompt`: missing");
	}
	if (r->has_best_of && r->best_of != (int64_t)t->sampling.n) {
		return kp_err_param(err, "best_of",
			"`best_of`: only the value of `n` (%u) is supported, got %lld",
			t->sampling.n, (long long)r->best_of);
	}
	if (!(t->sampling.set & KP_SET_MAX_TOKENS)) {
		t->sampling.max_tokens = 16; /* OpenAI's default for this endpoint */
		t->sampling.set |= KP_SET_MAX_TOKENS;
	}
	if (t->sampling.max_tokens == 0) {
		if (!t->echo) {
			return kp_err_param(err, "max_tokens", "`max_tokens`: 0 needs `echo`");
		}
		t->echo_only = true;
		t->sampling.max_tokens = 1;
	}
	if (t->echo && t->sampling.set & KP_SET_PROMPT_LOGPROBS) {
		return kp_err_param(err, "prompt_logprobs",
			"`prompt_logprobs`: excludes `echo`, which shows them with `logprobs`");
	}
	if (t->echo && t->want_logprobs) {
		t->sampling.prompt_logprobs = t->sampling.logprobs;
		t->sampling.set |= KP_SET_PROMPT_LOGPROBS;
	}
	return 0;
}

static int settle_messages(struct reader *r, struct kp_err *err)
{
	struct kp_turn *t = r->t;
	if (kp_anthropic_settle(&r->anthropic, t, err) || kp_chat_settle(t, err) ||
		kp_params_check_form(t, err)) {
		return -1;
	}
	return r->api == KP_PARAMS_MESSAGES && !(t->sampling.set & KP_SET_MAX_TOKENS)
		       ? kp_err_param(err, "max_tokens", "`max_tokens`: missing")
		       : 0;
}

/* Messages and tools are made later: some of them are not the request's own. */
static int settle_responses(struct reader *r, struct kp_err *err)
{
	struct kp_turn *t = r->t;
	t->prompt_param = "input";
	r->logprobs_flag = t->response->wants_logprobs;
	return settle_logprobs(r, "`include` of `message.output_text.logprobs`", err);
}

static int settle_api(struct reader *r, struct kp_err *err)
{
	if (r->api == KP_PARAMS_RESPONSES) {
		return settle_responses(r, err);
	}
	if (r->api & ANTHROPIC) {
		return settle_messages(r, err);
	}
	return r->api == KP_PARAMS_CHAT ? settle_chat(r, err) : settle_completion(r, err);
}

static int settle(struct reader *r, struct kp_err *err)
{
	struct kp_turn *t = r->t;
	if (!r->has_model) {
		return kp_err_param(err, "model", "`model`: missing");
	}
	if (settle_api(r, err)) {
		return -1;
	}
	if (r->has_stream_options && !t->stream) {
		return kp_err_param(
			err, "stream_options", "`stream_options`: only with `stream`: true");
	}
	if (t->stream && !t->echo && t->sampling.set & KP_SET_PROMPT_LOGPROBS) {
		return kp_err_param(
			err, "prompt_logprobs", "`prompt_logprobs`: not with `stream`: true");
	}
	size_t prompts = t->kind == KP_TURN_CHAT ? 1 : t->n_prompts;
	if (prompts * t->sampling.n > KP_MAX_CHOICES) {
		return kp_err_param(err, "n", "`n`: %zu prompts times %u are more than %d choices",
			prompts, t->sampling.n, KP_MAX_CHOICES);
	}
	if ((t->sampling.set & KP_SET_MAX_TOKENS) &&
		t->sampling.min_tokens > t->sampling.max_tokens) {
		return kp_err_param(err, "min_tokens",
			"`min_tokens`: %u is more than `max_tokens` (%u)", t->sampling.min_tokens,
			t->sampling.max_tokens);
	}
	return 0;
}

/* An object of parameters. */
static int read_all(struct reader *r, struct kp_err *err)
{
	kp_str name;
	int more;
	if (kp_json_body(&r->j, err)) {
		return -1;
	}
	while ((more = kp_json_member(&r->j, &name, err)) > 0) {
		if (read_one(r, name, err)) {
			return -1;
		}
	}
	return more;
}

int kp_params_sampling(struct kp_json *j, struct kp_turn *turn, struct kp_err *err)
{
	struct reader r = { .t = turn, .api = KP_PARAMS_SGLANG, .j = *j };
	if (read_all(&r, err)) {
		return -1;
	}
	*j = r.j;
	return 0;
}

static int read_body(kp_str body, enum kp_params_api api, bool leaves_messages,
	struct kp_turn *turn, struct kp_err *err)
{
	struct reader r = { .t = turn, .api = api, .leaves_messages = leaves_messages };
	kp_params_defaults(turn);
	kp_json_init(&r.j, body, turn->arena);
	if (read_all(&r, err) || kp_json_end(&r.j, err) ||
		(r.messages.p && kp_known_read(r.messages, turn))) {
		return -1;
	}
	return settle(&r, err);
}

int kp_params_read_api(
	kp_str body, enum kp_params_api api, struct kp_turn *turn, struct kp_err *err)
{
	if (api == KP_PARAMS_CHAT && turn->cache) {
		struct kp_turn given = *turn;
		struct kp_arena_mark mark = kp_arena_mark(turn->arena);
		if (read_body(body, api, true, turn, err) == 0) {
			return 0;
		}
		*turn = given; /* something is wrong, or unusual: from front to back it is said which */
		kp_arena_rewind(turn->arena, &mark);
	}
	return read_body(body, api, false, turn, err);
}

int kp_params_read(kp_str body, struct kp_turn *turn, struct kp_err *err)
{
	enum kp_params_api api = turn->kind == KP_TURN_CHAT ? KP_PARAMS_CHAT : KP_PARAMS_COMPLETION;
	return kp_params_read_api(body, api, turn, err);
}

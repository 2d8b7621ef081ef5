/* DESIGN: a table of members, one small reader each. What the answer repeats is the request's own text: a slice of its body for each name. */
#include "prompt/responses.h"

#include "prompt/make.h"
#include "prompt/messages.h"

const struct kp_responses_echo kp_responses_echoes[KP_RESPONSES_ECHOES] = {
	{ "instructions", "null" },
	{ "max_output_tokens", "null" },
	{ "max_tool_calls", "null" },
	{ "metadata", "{}" },
	{ "parallel_tool_calls", "true" },
	{ "previous_response_id", "null" },
	{ "prompt_cache_key", "null" },
	{ "prompt_cache_retention", "null" },
	{ "reasoning", "{\"effort\":null,\"summary\":null}" },
	{ "safety_identifier", "null" },
	{ "service_tier", "\"default\"" },
	{ "store", "true" },
	{ "temperature", "null" },
	{ "text", "{\"format\":{\"type\":\"text\"}}" },
	{ "tool_choice", "\"auto\"" },
	{ "top_logprobs", "0" },
	{ "top_p", "null" },
	{ "truncation", "\"disabled\"" },
	{ "user", "null" },
	{ "background", "false" },
};

void kp_responses_echo(struct kp_responses *r, kp_str name, kp_str json)
{
	for (size_t i = 0; i < KP_RESPONSES_ECHOES; i++) {
		if (kp_str_eq(name, kp_str_c(kp_responses_echoes[i].name))) {
			r->echo[i] = json;
		}
	}
}

static int unsupported(struct kp_json *j, struct kp_err *err, const char *what)
{
	kp_json_fail(j, err, "%s", what);
	err->reason = "unsupported_parameter";
	return -1;
}

static int read_input(
	struct kp_json *j, struct kp_responses *r, struct kp_turn *turn, struct kp_err *err)
{
	(void)turn;
	if (kp_jv_read(j, KP_MAX_VALUES, &r->input, err)) {
		return -1;
	}
	if (r->input.type != KP_JSON_STRING && r->input.type != KP_JSON_ARRAY) {
		return kp_json_fail(j, err, "expected a string or an array of items, got %s",
			kp_json_type_name(r->input.type));
	}
	return r->input.type == KP_JSON_ARRAY && r->input.n > KP_RESPONSES_MAX_ITEMS
		       ? kp_json_fail(j, err, "at most %d items, got %u", KP_RESPONSES_MAX_ITEMS,
				 r->input.n)
		       : 0;
}

static int read_instructions(
	struct kp_json *j, struct kp_responses *r, struct kp_turn *turn, struct kp_err *err)
{
	(void)turn;
	return kp_json_string(j, &r->instructions, err);
}

static int read_previous(
	struct kp_json *j, struct kp_responses *r, struct kp_turn *turn, struct kp_err *err)
{
	(void)turn;
	if (kp_json_string(j, &r->previous_id, err)) {
		return -1;
	}
	return r->previous_id.n && r->previous_id.n <= 128
		       ? 0
		       : kp_json_fail(j, err, "must have 1 to 128 bytes");
}

static int read_tools(
	struct kp_json *j, struct kp_responses *r, struct kp_turn *turn, struct kp_err *err)
{
	(void)turn;
	return kp_jv_read_as(j, KP_JSON_ARRAY, KP_MAX_VALUES, &r->tools, err);
}

static int read_tool_choice(
	struct kp_json *j, struct kp_responses *r, struct kp_turn *turn, struct kp_err *err)
{
	(void)turn;
	return kp_jv_read(j, KP_MAX_VALUES, &r->tool_choice, err);
}

static int read_store(
	struct kp_json *j, struct kp_responses *r, struct kp_turn *turn, struct kp_err *err)
{
	bool v;
	(void)turn;
	if (kp_json_bool(j, &v, err)) {
		return -1;
	}
	r->no_store = !v;
	return 0;
}

static int read_max_tool_calls(
	struct kp_json *j, struct kp_responses *r, struct kp_turn *turn, struct kp_err *err)
{
	int64_t v;
	(void)turn;
	if (kp_json_i64(j, 1, INT32_MAX, &v, err)) {
		return -1;
	}
	r->max_tool_calls = (uint32_t)v;
	return 0;
}

/* What others' tools would add is never there to be left out; names that are not OpenAI's are wrong. */
static int read_include(
	struct kp_json *j, struct kp_responses *r, struct kp_turn *turn, struct kp_err *err)
{
	static const char *const known[] = { "file_search_call.results", "web_search_call.results",
		"web_search_call.action.sources", "message.input_image.image_url",
		"computer_call_output.output.image_url", "code_interpreter_call.outputs",
		"reasoning.encrypted_content", "message.output_text.logprobs" };
	int more;
	(void)turn;
	r->wants_logprobs = false;
	if (kp_json_array(j, err)) {
		return -1;
	}
	while ((more = kp_json_element(j, err)) > 0) {
		kp_str name;
		bool is_known = false;
		if (kp_json_string(j, &name, err)) {
			return -1;
		}
		for (size_t i = 0; i < KP_LEN(known); i++) {
			is_known |= kp_str_eq(name, kp_str_c(known[i]));
		}
		if (!is_known) {
			return kp_json_fail(j, err, "nothing is called `%" KP_FMT "`",
				KP_ARG(kp_str_sub(name, 0, 80)));
		}
		r->wants_logprobs |= kp_str_eq(name, KP_S("message.output_text.logprobs"));
	}
	return more;
}

static int read_metadata(
	struct kp_json *j, struct kp_responses *r, struct kp_turn *turn, struct kp_err *err)
{
	kp_str key, value;
	int more, n = 0;
	(void)r;
	(void)turn;
	if (kp_json_object(j, err)) {
		return -1;
	}
	while ((more = kp_json_member(j, &key, err)) > 0) {
		if (++n > 16 || key.n > 64) {
			return kp_json_fail(j, err, "at most 16 pairs, of keys of 64 bytes");
		}
		if (kp_json_string(j, &value, err)) {
			return -1;
		}
		if (value.n > 512) {
			return kp_json_fail(j, err, "must have at most 512 bytes");
		}
	}
	return more;
}

static int read_truncation(
	struct kp_json *j, struct kp_responses *r, struct kp_turn *turn, struct kp_err *err)
{
	kp_str v;
	(void)r;
	(void)turn;
	if (kp_json_string(j, &v, err)) {
		return -1;
	}
	return kp_str_eq(v, KP_S("disabled"))
		       ? 0
		       : unsupported(j, err, "only `disabled`: conversations are never truncated");
}

/* --- text ---------------------------------------------------------------------------------------- */

static int read_schema(
	struct kp_json *j, const struct kp_jv *format, struct kp_turn *turn, struct kp_err *err)
{
	const struct kp_jv *schema = kp_jv_get(format, KP_S("schema")),
			   *strict = kp_jv_get(format, KP_S("strict"));
	kp_str name = kp_jv_str(format, KP_S("name"));
	if (name.n == 0 || name.n > 64) {
		return kp_json_fail(j, err, "`format.name` must have 1 to 64 bytes");
	}
	if (!kp_jv_is(schema, KP_JSON_OBJECT)) {
		return kp_json_fail(j, err, "`format.schema` must be an object");
	}
	if (kp_is_given(strict) && strict->type != KP_JSON_TRUE && strict->type != KP_JSON_FALSE) {
		return kp_json_fail(j, err, "`format.strict` must be a boolean");
	}
	turn->format = (struct kp_output_format){ .kind = KP_CONSTRAINT_JSON_SCHEMA,
		.param = "text",
		.schema = *schema,
		.name = name,
		.strict = kp_jv_is(strict, KP_JSON_TRUE) };
	return 0;
}

static int read_format(
	struct kp_json *j, const struct kp_jv *format, struct kp_turn *turn, struct kp_err *err)
{
	kp_str type = kp_jv_str(format, KP_S("type"));
	turn->format = (struct kp_output_format){ .kind = KP_CONSTRAINT_NONE };
	if (kp_str_eq(type, KP_S("json_schema"))) {
		return read_schema(j, format, turn, err);
	}
	if (kp_str_eq(type, KP_S("json_object"))) {
		turn->format.kind = KP_CONSTRAINT_JSON_OBJECT;
		turn->format.param = "text";
		return 0;
	}
	return kp_str_eq(type, KP_S("text"))
		       ? 0
		       : kp_json_fail(j, err,
				 "`format.type` must be `text`, `json_object` or `json_schema`");
}

static int read_text(
	struct kp_json *j, struct kp_responses *r, struct kp_turn *turn, struct kp_err *err)
{
	struct kp_jv v;
	(void)r;
	if (kp_jv_read_as(j, KP_JSON_OBJECT, KP_MAX_VALUES, &v, err)) {
		return -1;
	}
	const struct kp_jv *format = kp_jv_get(&v, KP_S("format")),
			   *verbosity = kp_jv_get(&v, KP_S("verbosity"));
	if (kp_is_given(verbosity) &&
		!kp_str_eq(kp_jv_str(&v, KP_S("verbosity")), KP_S("medium"))) {
		return unsupported(j, err, "`verbosity`: only `medium` is supported");
	}
	return kp_is_given(format) ? read_format(j, format, turn, err) : 0;
}

/* --- reasoning ----------------------------------------------------------------------------------- */

static int read_reasoning(
	struct kp_json *j, struct kp_responses *r, struct kp_turn *turn, struct kp_err *err)
{
	struct kp_jv v;
	if (kp_jv_read_as(j, KP_JSON_OBJECT, KP_MAX_VALUES, &v, err)) {
		return -1;
	}
	const struct kp_jv *effort = kp_jv_get(&v, KP_S("effort")),
			   *summary = kp_jv_get(&v, KP_S("summary"));
	if (!kp_is_given(summary)) {
		summary = kp_jv_get(&v, KP_S("generate_summary"));
	}
	if (kp_is_given(effort) && effort->type != KP_JSON_STRING) {
		return kp_json_fail(j, err, "`effort` must be a string");
	}
	if (kp_is_given(summary) && summary->type != KP_JSON_STRING) {
		return kp_json_fail(j, err, "`summary` must be a string");
	}
	r->wants_summary = kp_is_given(summary) && !kp_str_eq(summary->s, KP_S("none"));
	if (!kp_is_given(effort)) {
		return 0;
	}
	turn->chat.thinking =
		kp_str_eq(effort->s, KP_S("none")) ? KP_THINKING_OFF : KP_THINKING_UNSET;
	turn->chat.reasoning_effort = effort->s;
	turn->chat.effort_is_a_wish = true;
	return 0;
}

int kp_responses_member(struct kp_json *j, kp_str name, struct kp_responses *r,
	struct kp_turn *turn, struct kp_err *err)
{
	static const struct {
		const char *name;
		int (*read)(struct kp_json *j, struct kp_responses *r, struct kp_turn *turn,
			struct kp_err *err);
	} members[] = { { "input", read_input }, { "instructions", read_instructions },
		{ "previous_response_id", read_previous }, { "tools", read_tools },
		{ "tool_choice", read_tool_choice }, { "store", read_store },
		{ "max_tool_calls", read_max_tool_calls }, { "include", read_include },
		{ "metadata", read_metadata }, { "truncation", read_truncation },
		{ "text", read_text }, { "reasoning", read_reasoning } };
	for (size_t i = 0; i < KP_LEN(members); i++) {
		if (kp_str_eq(name, kp_str_c(members[i].name))) {
			return members[i].read(j, r, turn, err);
		}
	}
	return 1;
}

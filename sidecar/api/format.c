/* DESIGN: a table of parameters; each has a reader that makes a format of a value that was read whole. What vLLM's newer `structured_outputs` holds are the same
   values under shorter names. A schema stays what it is: whether the engine can keep to it is for the engine to say. */
#include "sidecar/api/format.h"

#include "prompt/messages.h"

typedef int format_reader(struct kp_json *j, const struct kp_jv *v, struct kp_turn *t,
	struct kp_output_format *ret, struct kp_err *err);

static int unsupported(struct kp_json *j, struct kp_err *err, const char *what)
{
	kp_json_fail(j, err, "%s", what);
	err->reason = "unsupported_parameter";
	return -1;
}

static bool has_nul(kp_str s)
{
	return s.n && memchr(s.p, '\0', s.n);
}

static bool is_schema(const struct kp_jv *v)
{
	return kp_jv_is(v, KP_JSON_OBJECT) || kp_jv_is(v, KP_JSON_TRUE) ||
	       kp_jv_is(v, KP_JSON_FALSE);
}

/* A schema, or its text. */
static int read_schema(struct kp_json *j, const struct kp_jv *v, struct kp_turn *t,
	struct kp_output_format *ret, struct kp_err *err)
{
	struct kp_jv parsed;
	if (kp_jv_is(v, KP_JSON_STRING)) {
		struct kp_err inner = KP_ERR_INIT;
		if (kp_jv_parse(v->s, t->arena, &parsed, &inner)) {
			return kp_json_fail(j, err, "the text is no JSON: %s", inner.msg);
		}
		v = &parsed;
	}
	if (!is_schema(v)) {
		return kp_json_fail(j, err, "expected a JSON schema, got %s",
			kp_json_type_name(v ? v->type : KP_JSON_NULL));
	}
	ret->kind = KP_CONSTRAINT_JSON_SCHEMA;
	ret->schema = *v;
	return 0;
}

static int read_text(struct kp_json *j, const struct kp_jv *v, enum kp_constraint_kind kind,
	struct kp_output_format *ret, struct kp_err *err)
{
	if (!kp_jv_is(v, KP_JSON_STRING)) {
		return kp_json_fail(
			j, err, "expected a string, got %s", kp_json_type_name(v->type));
	}
	if (v->s.n == 0 || v->s.n > KP_MAX_CONSTRAINT || has_nul(v->s)) {
		return kp_json_fail(
			j, err, "must have 1 to %d bytes and no NUL", KP_MAX_CONSTRAINT);
	}
	ret->kind = kind;
	ret->text = v->s;
	return 0;
}

static int read_regex(struct kp_json *j, const struct kp_jv *v, struct kp_turn *t,
	struct kp_output_format *ret, struct kp_err *err)
{
	(void)t;
	return read_text(j, v, KP_CONSTRAINT_REGEX, ret, err);
}

static int read_grammar(struct kp_json *j, const struct kp_jv *v, struct kp_turn *t,
	struct kp_output_format *ret, struct kp_err *err)
{
	(void)t;
	return read_text(j, v, KP_CONSTRAINT_GRAMMAR, ret, err);
}

/* A structural tag: its text, or the object. */
static int read_tag(struct kp_json *j, const struct kp_jv *v, struct kp_turn *t,
	struct kp_output_format *ret, struct kp_err *err)
{
	struct kp_buf text;
	if (kp_jv_is(v, KP_JSON_STRING)) {
		struct kp_jv parsed;
		struct kp_err inner = KP_ERR_INIT;
		if (kp_jv_parse(v->s, t->arena, &parsed, &inner) || parsed.type != KP_JSON_OBJECT) {
			return kp_json_fail(j, err, "the text is no JSON object");
		}
		return read_text(j, v, KP_CONSTRAINT_TAG, ret, err);
	}
	if (!kp_jv_is(v, KP_JSON_OBJECT)) {
		return kp_json_fail(
			j, err, "expected an object, got %s", kp_json_type_name(v->type));
	}
	kp_buf_init(&text, KP_MAX_CONSTRAINT);
	kp_jv_write(v, &text);
	int r = kp_buf_finish(&text, "structural tag", err);
	r = r ? r : (int)kp_arena_dup(t->arena, kp_buf_str(&text), &ret->text, err);
	kp_buf_fini(&text);
	ret->kind = KP_CONSTRAINT_TAG;
	return r < 0 ? -1 : 0;
}

static int read_choice(struct kp_json *j, const struct kp_jv *v, struct kp_turn *t,
	struct kp_output_format *ret, struct kp_err *err)
{
	size_t bytes = 0;
	if (!kp_jv_is(v, KP_JSON_ARRAY) || v->n == 0 || v->n > KP_MAX_CONSTRAINT_CHOICES) {
		return kp_json_fail(
			j, err, "expected a list of 1 to %d strings", KP_MAX_CONSTRAINT_CHOICES);
	}
	kp_str *choices = kp_arena_calloc(t->arena, v->n, sizeof(*choices));
	if (!choices) {
		return kp_arena_full(err, "choices");
	}
	for (uint32_t i = 0; i < v->n; i++) {
		bool is_good = kp_jv_is(&v->items[i], KP_JSON_STRING) && v->items[i].s.n &&
			       !has_nul(v->items[i].s);
		bytes += is_good ? v->items[i].s.n : 0;
		if (!is_good || bytes > KP_MAX_CONSTRAINT) {
			return kp_json_fail(j, err,
				"[%u] must be a string that is not empty and has no NUL, of %d bytes together",
				i, KP_MAX_CONSTRAINT);
		}
		choices[i] = v->items[i].s;
	}
	ret->kind = KP_CONSTRAINT_CHOICE;
	ret->choices = choices;
	ret->n_choices = v->n;
	return 0;
}

static int read_json_object(struct kp_json *j, const struct kp_jv *v, struct kp_turn *t,
	struct kp_output_format *ret, struct kp_err *err)
{
	(void)t;
	if (!kp_jv_is(v, KP_JSON_TRUE) && !kp_jv_is(v, KP_JSON_FALSE)) {
		return kp_json_fail(
			j, err, "expected a boolean, got %s", kp_json_type_name(v->type));
	}
	ret->kind = v->type == KP_JSON_TRUE ? KP_CONSTRAINT_JSON_OBJECT : KP_CONSTRAINT_NONE;
	return 0;
}

/* --- response_format ----------------------------------------------------------------------------- */

static bool is_name(kp_str s)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
			    c == '_' || c == '-')) {
			return false;
		}
	}
	return s.n >= 1 && s.n <= 64;
}

static int read_json_schema(struct kp_json *j, const struct kp_jv *v, struct kp_turn *t,
	struct kp_output_format *ret, struct kp_err *err)
{
	const struct kp_jv *all = kp_jv_get(v, KP_S("json_schema")),
			   *schema = kp_jv_get(all, KP_S("schema")),
			   *strict = kp_jv_get(all, KP_S("strict"));
	if (!kp_jv_is(all, KP_JSON_OBJECT)) {
		return kp_json_fail(j, err, "`json_schema` must be an object");
	}
	ret->name = kp_jv_str(all, KP_S("name"));
	if (!is_name(ret->name)) {
		return kp_json_fail(j, err,
			"`json_schema.name` must have 1 to 64 letters, digits, `_` and `-`");
	}
	if (strict && strict->type != KP_JSON_NULL && strict->type != KP_JSON_TRUE &&
		strict->type != KP_JSON_FALSE) {
		return kp_json_fail(j, err, "`json_schema.strict` must be a boolean");
	}
	ret->strict = kp_jv_is(strict, KP_JSON_TRUE);
	if (!schema) {
		return kp_json_fail(j, err, "`json_schema.schema` is missing");
	}
	return read_schema(j, schema, t, ret, err);
}

static int read_response_format(struct kp_json *j, const struct kp_jv *v, struct kp_turn *t,
	struct kp_output_format *ret, struct kp_err *err)
{
	kp_str type = kp_jv_str(v, KP_S("type"));
	if (kp_str_eq(type, KP_S("text"))) { /* what is done anyway */
		return 0;
	}
	if (kp_str_eq(type, KP_S("json_object"))) {
		ret->kind = KP_CONSTRAINT_JSON_OBJECT;
		return 0;
	}
	if (kp_str_eq(type, KP_S("json_schema"))) {
		return read_json_schema(j, v, t, ret, err);
	}
	if (kp_str_eq(type, KP_S("structural_tag"))) {
		return read_tag(j, v, t, ret, err);
	}
	return kp_json_fail(
		j, err, "`type` must be `text`, `json_object`, `json_schema` or `structural_tag`");
}

/* --- vLLM's structured_outputs -------------------------------------------------------------------- */

static const struct member {
	const char *name;
	format_reader *read;
} members[] = {
	{ "json", read_schema },
	{ "regex", read_regex },
	{ "choice", read_choice },
	{ "grammar", read_grammar },
	{ "json_object", read_json_object },
	{ "structural_tag", read_tag },
};

static int read_structured(struct kp_json *j, const struct kp_jv *v, struct kp_turn *t,
	struct kp_output_format *ret, struct kp_err *err)
{
	if (!kp_jv_is(v, KP_JSON_OBJECT)) {
		return kp_json_fail(
			j, err, "expected an object, got %s", kp_json_type_name(v->type));
	}
	for (uint32_t i = 0; i < v->n; i++) {
		const struct kp_jmember *m = &v->members[i];
		const struct member *known = NULL;
		for (size_t k = 0; k < KP_LEN(members); k++) {
			known = kp_str_eq(m->key, kp_str_c(members[k].name)) ? &members[k] : known;
		}
		if (m->value.type == KP_JSON_NULL || (!known && m->value.type == KP_JSON_FALSE)) {
			continue;
		}
		if (!known) {
			return unsupported(j, err,
				"only `json`, `regex`, `choice`, `grammar`, `json_object` and `structural_tag` are supported in it");
		}
		if (ret->kind) {
			return kp_json_fail(j, err, "more than one kind of output is asked for");
		}
		if (known->read(j, &m->value, t, ret, err)) {
			return -1;
		}
	}
	return 0;
}

/* --- the table ------------------------------------------------------------------------------------ */

static const struct {
	const char *name;
	format_reader *read;
} table[] = {
	{ "response_format", read_response_format },
	{ "structured_outputs", read_structured },
	{ "guided_json", read_schema },
	{ "guided_regex", read_regex },
	{ "guided_choice", read_choice },
	{ "guided_grammar", read_grammar },
	{ "json_schema", read_schema },
	{ "regex", read_regex },
	{ "ebnf", read_grammar },
};

int kp_format_read(struct kp_json *j, kp_str name, struct kp_turn *turn, struct kp_err *err)
{
	for (size_t i = 0; i < KP_LEN(table); i++) {
		struct kp_output_format format = { .param = table[i].name };
		struct kp_jv v;
		if (!kp_str_eq(name, kp_str_c(table[i].name))) {
			continue;
		}
		if (kp_jv_read(j, KP_MAX_VALUES, &v, err) ||
			table[i].read(j, &v, turn, &format, err)) {
			return -1;
		}
		if (format.kind == KP_CONSTRAINT_NONE) {
			return 0;
		}
		if (turn->format.kind) {
			return kp_json_fail(j, err, "`%s` already says what the output looks like",
				turn->format.param);
		}
		turn->format = format;
		return 0;
	}
	return 1;
}

/* DESIGN: one run of the validator per text, and one for the call that is open. Each is given bytes until its verdict is certain; the first fault of the choice
   is kept, a verdict before a "could not be told". What only the end can say (the JSON is not closed) is TRUNCATED where the output was cut there. Bounds: the
   validator's own for memory and depth, fewer steps, since this is on the loop: some 10 ms of them in an answer, and 64 more for each byte. */
#include "sidecar/flow/validate.h"

#include "base/arena.h"
#include "jsonschema/jsonschema.h"

#include <stdio.h>

enum { MAX_STEPS = 200 * 1000 };

struct kp_output_schemas {
	const struct kp_tool_offer *offer;
	struct kp_jsonschema *text;   /* NULL: it may be anything */
	struct kp_jsonschema **tools; /* by the offer's index; NULL: not strict */
	size_t n_tools;
};
struct kp_output_check {
	const struct kp_output_schemas *schemas;
	struct kp_jsonschema_run *text, *call; /* NULL: nothing to check, or its verdict is known */
	struct kp_output_fault text_fault, call_fault; /* result NONE: none yet */
	bool call_at_end; /* its fault was found where the call ended */
	bool has_bytes;   /* of the open call */
	uint32_t n_calls, n_checked;
};

/* --- the request's schemas ------------------------------------------------------------------------ */

static int compile(const struct kp_jv *schema, const char *param, struct kp_jsonschema **ret,
	struct kp_err *err)
{
	struct kp_err inner;
	if (kp_jsonschema_compile(schema, NULL, ret, &inner)) {
		kp_err_param(err, param, "`%s`: the schema: %s", param, inner.msg);
		err->reason = "invalid_json_schema";
		return -1;
	}
	return 0;
}

static int check_strict(const struct kp_jv *schema, const char *param, struct kp_err *err)
{
	struct kp_err inner;
	if (kp_jsonschema_check_strict(schema, &inner)) {
		kp_err_param(err, param, "`%s`: %s (`strictSchemas` of this model: OpenAI)", param,
			inner.msg);
		err->reason = "invalid_json_schema";
		return -1;
	}
	return 0;
}

static const char *tool_param(char ret[64], size_t i, const char *schema_name)
{
	snprintf(ret, 64, "tools[%zu].%s", i, schema_name);
	return ret;
}

int kp_output_check_strict(const struct kp_turn *turn, const struct kp_tool_offer *offer,
	const char *schema_name, struct kp_err *err)
{
	const struct kp_output_format *format = &turn->format;
	char param[64];
	if (format->kind == KP_CONSTRAINT_JSON_SCHEMA && format->strict &&
		check_strict(&format->schema, format->param, err)) {
		return -1;
	}
	for (size_t i = 0; i < offer->n; i++) {
		const struct kp_offered_tool *tool = &offer->tools[i];
		if (tool->strict && tool->parameters &&
			check_strict(tool->parameters, tool_param(param, i, schema_name), err)) {
			return -1;
		}
	}
	return 0;
}

static int compile_text(const struct kp_turn *turn, struct kp_output_schemas *s, struct kp_err *err)
{
	const struct kp_output_format *format = &turn->format;
	const struct kp_jmember type = { KP_S("type"),
		{ .type = KP_JSON_STRING, .s = KP_S("object") } };
	const struct kp_jv object = { .type = KP_JSON_OBJECT, .n = 1, .members = &type };
	if (turn->chat.continue_final_message) { /* its beginning stands in the prompt */
		return 0;
	}
	if (format->kind == KP_CONSTRAINT_JSON_OBJECT) {
		return compile(&object, format->param, &s->text, err);
	}
	return format->kind == KP_CONSTRAINT_JSON_SCHEMA
		       ? compile(&format->schema, format->param, &s->text, err)
		       : 0;
}

static int compile_tools(struct kp_turn *turn, const struct kp_tool_offer *offer,
	const char *schema_name, struct kp_output_schemas *s, struct kp_err *err)
{
	s->tools = kp_arena_calloc(turn->arena, offer->n, sizeof(struct kp_jsonschema *));
	if (!s->tools) {
		return kp_arena_full(err, "tools");
	}
	s->n_tools = offer->n;
	for (size_t i = 0; i < offer->n; i++) {
		char param[64];
		if (offer->tools[i].strict && offer->tools[i].parameters &&
			compile(offer->tools[i].parameters, tool_param(param, i, schema_name),
				&s->tools[i], err)) {
			return -1;
		}
	}
	return 0;
}

bool kp_output_has_schemas(const struct kp_turn *turn, const struct kp_tool_offer *offer)
{
	bool has = turn->format.kind == KP_CONSTRAINT_JSON_OBJECT ||
		   turn->format.kind == KP_CONSTRAINT_JSON_SCHEMA;
	for (size_t i = 0; i < offer->n && !has; i++) {
		has = offer->tools[i].strict && offer->tools[i].parameters;
	}
	return has;
}

int kp_output_schemas_compile(struct kp_turn *turn, const struct kp_tool_offer *offer,
	const char *schema_name, struct kp_output_schemas **ret, struct kp_err *err)
{
	if (!kp_output_has_schemas(turn, offer)) {
		return 0;
	}
	struct kp_output_schemas *s = kp_arena_new(turn->arena, struct kp_output_schemas);
	s->offer = offer;
	if (compile_text(turn, s, err) || compile_tools(turn, offer, schema_name, s, err)) {
		kp_output_schemas_destroy(s);
		return -1;
	}
	*ret = s;
	return 0;
}

void kp_output_schemas_destroy(struct kp_output_schemas *s)
{
	for (size_t i = 0; s && i < s->n_tools; i++) {
		kp_jsonschema_destroy(s->tools[i]);
	}
	if (s) {
		kp_jsonschema_destroy(s->text);
	}
}

/* --- one choice ----------------------------------------------------------------------------------- */

static struct kp_jsonschema_run *run_of(const struct kp_jsonschema *s)
{
	const struct kp_jsonschema_limits limits = { .max_steps = MAX_STEPS };
	return s ? kp_jsonschema_run_create(s, &limits) : NULL;
}

struct kp_output_check *kp_output_check_create(const struct kp_output_schemas *s)
{
	struct kp_output_check *c = kp_new(struct kp_output_check);
	c->schemas = s;
	c->text = run_of(s->text);
	return c;
}

void kp_output_check_destroy(struct kp_output_check *c)
{
	if (c) {
		kp_jsonschema_run_destroy(c->text);
		kp_jsonschema_run_destroy(c->call);
		kp_mem_free(c);
	}
}

static struct kp_output_fault fault_of(
	const struct kp_jsonschema_run *r, const struct kp_err *budget, int32_t call)
{
	struct kp_output_fault f = { .result = KP_OUTPUT_INVALID, .call = call };
	size_t n = 0;
	const struct kp_jsonschema_error *e = kp_jsonschema_run_errors(r, &n);
	if (budget) {
		f.result = KP_OUTPUT_UNCHECKED;
		snprintf(f.message, sizeof(f.message), "%.*s", (int)sizeof(f.message) - 1,
			budget->msg);
	} else if (n) {
		f.offset = e->at;
		snprintf(f.pointer, sizeof(f.pointer), "%s", e->pointer);
		snprintf(f.keyword, sizeof(f.keyword), "%s", e->keyword);
		snprintf(f.message, sizeof(f.message), "%s", e->message);
	}
	return f;
}

/* A verdict: the run is over. */
static void settle(struct kp_jsonschema_run **run, enum kp_jsonschema_verdict v,
	const struct kp_err *budget, int32_t call, struct kp_output_fault *fault)
{
	bool is_worse = fault->result == KP_OUTPUT_NONE ||
			(fault->result == KP_OUTPUT_UNCHECKED && v == KP_JSONSCHEMA_INVALID);
	if ((budget || v == KP_JSONSCHEMA_INVALID) && is_worse) {
		*fault = fault_of(*run, budget, call);
	}
	kp_jsonschema_run_destroy(*run);
	*run = NULL;
}

static void feed(
	struct kp_jsonschema_run **run, kp_str bytes, int32_t call, struct kp_output_fault *fault)
{
	enum kp_jsonschema_verdict v = KP_JSONSCHEMA_OPEN;
	struct kp_err err;
	if (*run && kp_jsonschema_run_feed(*run, bytes, &v, &err)) {
		settle(run, v, &err, call, fault);
	} else if (*run && v == KP_JSONSCHEMA_INVALID) {
		settle(run, v, NULL, call, fault);
	}
}

/* true: this found the choice's fault. */
static bool finish(struct kp_jsonschema_run **run, int32_t call, struct kp_output_fault *fault)
{
	enum kp_jsonschema_verdict v = KP_JSONSCHEMA_OPEN;
	enum kp_output_result before = fault->result;
	struct kp_err err;
	if (!*run) {
		return false;
	}
	bool spent = kp_jsonschema_run_finish(*run, &v, &err) != 0;
	settle(run, v, spent ? &err : NULL, call, fault);
	return fault->result == KP_OUTPUT_INVALID && before != KP_OUTPUT_INVALID;
}

static void end_call(struct kp_output_check *c)
{
	int32_t call = (int32_t)c->n_calls - 1;
	if (c->call && !c->has_bytes) { /* no arguments are none of them */
		feed(&c->call, KP_S("{}"), call, &c->call_fault);
		c->call_at_end = c->call_fault.call == call && c->call_fault.result;
	}
	c->call_at_end |= finish(&c->call, call, &c->call_fault);
}

static void begin_call(struct kp_output_check *c, kp_str name)
{
	const struct kp_output_schemas *s = c->schemas;
	const struct kp_offered_tool *tool = kp_tool_offer_find(s->offer, name);
	end_call(c);
	c->n_calls++;
	c->has_bytes = false;
	c->call = tool && s->n_tools ? run_of(s->tools[tool - s->offer->tools]) : NULL;
	c->n_checked += c->call != NULL;
}

void kp_output_check_event(struct kp_output_check *c, const struct kp_event *ev)
{
	if (ev->kind == KP_EV_TEXT) {
		feed(&c->text, ev->text, -1, &c->text_fault);
	} else if (ev->kind == KP_EV_TOOL_START) {
		begin_call(c, ev->tool.name);
	} else if (ev->kind == KP_EV_TOOL_ARGUMENTS) {
		c->has_bytes |= ev->text.n != 0;
		feed(&c->call, ev->text, (int32_t)c->n_calls - 1, &c->call_fault);
	} else if (ev->kind == KP_EV_TOOL_END) {
		end_call(c);
	}
}

enum kp_output_result kp_output_check_certain(const struct kp_output_check *c)
{
	if (c->call_fault.result == KP_OUTPUT_NONE && !c->n_calls && !c->schemas->offer->n) {
		return c->text_fault.result;
	}
	return c->call_fault.result;
}

enum kp_output_result kp_output_check_finish(
	struct kp_output_check *c, bool is_cut, struct kp_output_fault *ret)
{
	struct kp_output_fault *fault = &c->call_fault;
	bool at_end;
	end_call(c);
	if (c->n_calls) {
		at_end = c->call_at_end && fault->call == (int32_t)c->n_calls - 1;
	} else {
		c->n_checked = c->schemas->text != NULL;
		fault = &c->text_fault;
		at_end = finish(&c->text, -1, fault);
	}
	if (fault->result == KP_OUTPUT_NONE) {
		return c->n_checked ? KP_OUTPUT_VALID : KP_OUTPUT_NONE;
	}
	if (fault->result == KP_OUTPUT_INVALID && at_end && is_cut) {
		fault->result = KP_OUTPUT_TRUNCATED;
	}
	*ret = *fault;
	return fault->result;
}

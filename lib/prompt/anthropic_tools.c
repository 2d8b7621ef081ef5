/* DESIGN: Anthropic's tools as OpenAI's, which the turn has: a wrapper and other names; the schema stays as it is. */
#include "prompt/anthropic_internal.h"

#include "prompt/messages.h"
#include "prompt/tools.h"

#include <stdio.h>

static int bad(
	struct kp_err *err, const char *reason, const char *what, uint32_t i, const char *member)
{
	return kp_make_bad(err, reason, what, "tools[%u]%s", i, member);
}

static int take_tool(
	const struct kp_maker *m, const struct kp_jv *tool, uint32_t i, struct kp_jv *ret)
{
	const struct kp_jv *type = kp_jv_get(tool, KP_S("type")),
			   *name = kp_jv_get(tool, KP_S("name")),
			   *description = kp_jv_get(tool, KP_S("description")),
			   *schema = kp_jv_get(tool, KP_S("input_schema")),
			   *strict = kp_jv_get(tool, KP_S("strict"));
	/* The second line has no effect. */
	static const char members[] =
		"type name description input_schema strict "
		"allowed_callers cache_control defer_loading eager_input_streaming input_examples";
	char where[32];
	struct kp_jv function;
	if (tool->type != KP_JSON_OBJECT) {
		return bad(m->err, NULL, "expected an object", i, "");
	}
	if (kp_is_given(type) &&
		!(type->type == KP_JSON_STRING && kp_str_eq(type->s, KP_S("custom")))) {
		return bad(m->err, "unsupported_parameter",
			"only `custom` tools are supported: others are run by Anthropic", i,
			".type");
	}
	snprintf(where, sizeof(where), "tools[%u]", i);
	if (kp_make_only(m->err, tool, members, where)) {
		return -1;
	}
	if (!kp_jv_is(name, KP_JSON_STRING) || name->s.n == 0) {
		return bad(m->err, NULL, name ? "expected a name" : "missing", i, ".name");
	}
	if (kp_is_given(description) && description->type != KP_JSON_STRING) {
		return bad(m->err, NULL, "expected a string", i, ".description");
	}
	if (!kp_jv_is(schema, KP_JSON_OBJECT)) {
		return bad(m->err, NULL, schema ? "expected an object" : "missing", i,
			".input_schema");
	}
	if (kp_is_given(strict) && strict->type != KP_JSON_TRUE && strict->type != KP_JSON_FALSE) {
		return bad(m->err, NULL, "expected a boolean", i, ".strict");
	}
	struct kp_jmember f[4] = { { KP_S("name"), *name } };
	uint32_t n = 1;
	if (kp_is_given(description)) {
		f[n++] = (struct kp_jmember){ KP_S("description"), *description };
	}
	f[n++] = (struct kp_jmember){ KP_S("parameters"), *schema };
	if (kp_jv_is(strict, KP_JSON_TRUE)) {
		f[n++] = (struct kp_jmember){ KP_S("strict"), *strict };
	}
	if (kp_make_object(m, f, n, &function)) {
		return -1;
	}
	const struct kp_jmember wrapped[] = {
		{ KP_S("type"), kp_made_text(KP_S("function")) },
		{ KP_S("function"), function },
	};
	return kp_make_object(m, wrapped, KP_LEN(wrapped), ret);
}

int kp_anthropic_tools(struct kp_json *j, struct kp_turn *turn, struct kp_err *err)
{
	const struct kp_maker make = { turn->arena, err };
	struct kp_jv list, *items;
	if (kp_jv_read_as(j, KP_JSON_ARRAY, KP_MAX_VALUES, &list, err)) {
		return -1;
	}
	if (list.n > KP_MAX_TOOLS) {
		return kp_json_fail(j, err, "at most %d tools, got %u", KP_MAX_TOOLS, list.n);
	}
	if (!(items = kp_arena_calloc(turn->arena, list.n, sizeof(*items)))) {
		return kp_arena_full(err, "tools");
	}
	for (uint32_t i = 0; i < list.n; i++) {
		if (take_tool(&make, &list.items[i], i, &items[i])) {
			return -1;
		}
	}
	list.items = items;
	turn->chat.tools = list.n ? list : (struct kp_jv){ .type = KP_JSON_NONE };
	return 0;
}

static int name_tool(
	struct kp_json *j, const struct kp_jv *choice, struct kp_turn *turn, struct kp_err *err)
{
	kp_str name = kp_jv_str(choice, KP_S("name")), *kept;
	if (!name.n) {
		return kp_json_fail(j, err, "`name` is missing");
	}
	if (!(kept = kp_arena_alloc(turn->arena, sizeof(*kept)))) {
		return kp_arena_full(err, "tool_choice");
	}
	*kept = name;
	turn->chat.allowed = kept;
	turn->chat.n_allowed = 1;
	return 0;
}

int kp_anthropic_tool_choice(struct kp_json *j, struct kp_turn *turn, struct kp_err *err)
{
	static const struct {
		const char *type;
		enum kp_tool_choice choice;
	} types[] = { { "auto", KP_TOOL_CHOICE_AUTO }, { "none", KP_TOOL_CHOICE_NONE },
		{ "any", KP_TOOL_CHOICE_REQUIRED }, { "tool", KP_TOOL_CHOICE_NAMED } };
	struct kp_jv v;
	if (kp_jv_read_as(j, KP_JSON_OBJECT, KP_MAX_VALUES, &v, err)) {
		return -1;
	}
	if (kp_make_only(err, &v, "type name disable_parallel_tool_use", "tool_choice")) {
		return -1;
	}
	kp_str type = kp_jv_str(&v, KP_S("type"));
	const struct kp_jv *one = kp_jv_get(&v, KP_S("disable_parallel_tool_use"));
	if (kp_is_given(one) && one->type != KP_JSON_TRUE && one->type != KP_JSON_FALSE) {
		return kp_json_fail(j, err, "`disable_parallel_tool_use` must be a boolean");
	}
	turn->chat.one_call = kp_jv_is(one, KP_JSON_TRUE);
	turn->chat.allowed = NULL; /* of a repeated key */
	turn->chat.n_allowed = 0;
	for (size_t i = 0; i < KP_LEN(types); i++) {
		if (kp_str_eq(type, kp_str_c(types[i].type))) {
			turn->chat.tool_choice = types[i].choice;
			return types[i].choice == KP_TOOL_CHOICE_NAMED ? name_tool(j, &v, turn, err)
								       : 0;
		}
	}
	return kp_json_fail(j, err, "`type` must be auto, any, tool or none");
}

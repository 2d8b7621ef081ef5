/* DESIGN: the array is read as values, then looked at; nothing is rewritten. */
#include "prompt/tools.h"

#include "prompt/messages.h"

#include <stdio.h>

static int bad(
	struct kp_err *err, const char *reason, const char *what, uint32_t i, const char *member)
{
	char param[64];
	snprintf(param, sizeof(param), "tools[%u]%s", i, member);
	kp_err_param(err, param, "`%s`: %s", param, what);
	err->reason = reason;
	return -1;
}

/* An absent or null member, or one of this type. */
static bool may_be(const struct kp_jv *v, enum kp_json_type type)
{
	return !v || v->type == KP_JSON_NULL || v->type == type;
}

static int check_tool(const struct kp_jv *tool, uint32_t i, struct kp_err *err)
{
	const struct kp_jv *type = kp_jv_get(tool, KP_S("type")),
			   *f = kp_jv_get(tool, KP_S("function")),
			   *name = kp_jv_get(f, KP_S("name")),
			   *strict = kp_jv_get(f, KP_S("strict"));
	if (tool->type != KP_JSON_OBJECT) {
		return bad(err, NULL, "expected an object", i, "");
	}
	if (!kp_jv_is(type, KP_JSON_STRING)) {
		return bad(err, NULL, type ? "expected a string" : "missing", i, ".type");
	}
	if (!kp_str_eq(type->s, KP_S("function"))) {
		return bad(
			err, "unsupported_parameter", "only `function` is supported", i, ".type");
	}
	if (!kp_jv_is(f, KP_JSON_OBJECT)) {
		return bad(err, NULL, f ? "expected an object" : "missing", i, ".function");
	}
	if (!kp_jv_is(name, KP_JSON_STRING)) {
		return bad(err, NULL, name ? "expected a string" : "missing", i, ".function.name");
	}
	if (name->s.n == 0) {
		return bad(err, NULL, "must not be empty", i, ".function.name");
	}
	if (!may_be(kp_jv_get(f, KP_S("description")), KP_JSON_STRING)) {
		return bad(err, NULL, "expected a string", i, ".function.description");
	}
	if (!may_be(kp_jv_get(f, KP_S("parameters")), KP_JSON_OBJECT)) {
		return bad(err, NULL, "expected an object", i, ".function.parameters");
	}
	if (!may_be(strict, KP_JSON_TRUE) && strict->type != KP_JSON_FALSE) {
		return bad(err, NULL, "expected a boolean", i, ".function.strict");
	}
	return 0;
}

int kp_tools_check(const struct kp_jv *list, struct kp_err *err)
{
	if (list->n > KP_MAX_TOOLS) {
		return kp_err_param(
			err, "tools", "`tools`: at most %d tools, got %u", KP_MAX_TOOLS, list->n);
	}
	for (uint32_t i = 0; i < list->n; i++) {
		if (check_tool(&list->items[i], i, err)) {
			return -1;
		}
	}
	return 0;
}

int kp_tools_read(struct kp_json *j, struct kp_turn *turn, struct kp_err *err)
{
	struct kp_jv list;
	if (kp_jv_read_as(j, KP_JSON_ARRAY, KP_MAX_VALUES, &list, err) ||
		kp_tools_check(&list, err)) {
		return -1;
	}
	turn->chat.tools = list.n ? list : (struct kp_jv){ .type = KP_JSON_NONE };
	return 0;
}

/* --- tool_choice --------------------------------------------------------------------------------- */

static bool is_allowed(const struct kp_chat *c, kp_str name)
{
	for (size_t i = 0; i < c->n_allowed; i++) {
		if (kp_str_eq(c->allowed[i], name)) {
			return true;
		}
	}
	return false;
}

/* {"type": "function", "function": {"name": ...}}; the name, or KP_STR_NULL. */
static kp_str function_name(const struct kp_jv *v)
{
	kp_str type = kp_jv_str(v, KP_S("type"));
	kp_str name = kp_jv_str(kp_jv_get(v, KP_S("function")), KP_S("name"));
	return kp_str_eq(type, KP_S("function")) && name.n ? name : KP_STR_NULL;
}

static int read_allowed(
	struct kp_json *j, const struct kp_jv *v, struct kp_turn *turn, struct kp_err *err)
{
	const struct kp_jv *all = kp_jv_get(v, KP_S("allowed_tools")),
			   *tools = kp_jv_get(all, KP_S("tools"));
	kp_str mode = kp_jv_str(all, KP_S("mode"));
	bool required = kp_str_eq(mode, KP_S("required"));
	if (!required && !kp_str_eq(mode, KP_S("auto"))) {
		return kp_json_fail(j, err, "`allowed_tools.mode` must be `auto` or `required`");
	}
	if (!kp_jv_is(tools, KP_JSON_ARRAY) || tools->n == 0 || tools->n > KP_MAX_TOOLS) {
		return kp_json_fail(j, err, "`allowed_tools.tools` must be a list of 1 to %d tools",
			KP_MAX_TOOLS);
	}
	kp_str *names = kp_arena_calloc(turn->arena, tools->n, sizeof(*names));
	if (!names) {
		return kp_arena_full(err, "allowed tools");
	}
	turn->chat.allowed = names;
	turn->chat.n_allowed = 0;
	for (uint32_t i = 0; i < tools->n; i++) {
		kp_str name = function_name(&tools->items[i]);
		if (!name.p) {
			return kp_json_fail(j, err,
				"`allowed_tools.tools[%u]` must be a function with a name", i);
		}
		if (!is_allowed(&turn->chat, name)) {
			names[turn->chat.n_allowed++] = name;
		}
	}
	turn->chat.tool_choice = required ? KP_TOOL_CHOICE_REQUIRED : KP_TOOL_CHOICE_AUTO;
	return 0;
}

static int read_named(
	struct kp_json *j, const struct kp_jv *v, struct kp_turn *turn, struct kp_err *err)
{
	kp_str *name = kp_arena_calloc(turn->arena, 1, sizeof(*name));
	if (!name) {
		return kp_arena_full(err, "allowed tools");
	}
	*name = function_name(v);
	if (!name->p) {
		return kp_json_fail(j, err, "`function.name` is missing");
	}
	turn->chat.tool_choice = KP_TOOL_CHOICE_NAMED;
	turn->chat.allowed = name;
	turn->chat.n_allowed = 1;
	return 0;
}

int kp_tool_choice_read(struct kp_json *j, struct kp_turn *turn, struct kp_err *err)
{
	static const struct {
		const char *word;
		enum kp_tool_choice choice;
	} words[] = { { "none", KP_TOOL_CHOICE_NONE }, { "auto", KP_TOOL_CHOICE_AUTO },
		{ "required", KP_TOOL_CHOICE_REQUIRED } };
	struct kp_jv v;
	if (kp_jv_read(j, KP_MAX_VALUES, &v, err)) {
		return -1;
	}
	turn->chat.allowed = NULL; /* of a repeated key */
	turn->chat.n_allowed = 0;
	for (size_t i = 0; v.type == KP_JSON_STRING && i < KP_LEN(words); i++) {
		if (kp_str_eq(v.s, kp_str_c(words[i].word))) {
			turn->chat.tool_choice = words[i].choice;
			return 0;
		}
	}
	kp_str type = kp_jv_str(&v, KP_S("type"));
	if (kp_str_eq(type, KP_S("function"))) {
		return read_named(j, &v, turn, err);
	}
	if (kp_str_eq(type, KP_S("allowed_tools"))) {
		return read_allowed(j, &v, turn, err);
	}
	if (kp_str_eq(type, KP_S("custom"))) {
		kp_json_fail(j, err, "`custom` is not supported");
		err->reason = "unsupported_parameter";
		return -1;
	}
	return kp_json_fail(j, err, "expected none, auto, required or an object with a type");
}

int kp_tool_choice_settle(const struct kp_chat *chat, struct kp_err *err)
{
	if (chat->tool_choice > KP_TOOL_CHOICE_NONE && chat->tools.n == 0) {
		return kp_err_param(
			err, "tool_choice", "`tool_choice`: only `none` goes without `tools`");
	}
	for (size_t i = 0; i < chat->n_allowed; i++) {
		bool found = false;
		for (uint32_t k = 0; !found && k < chat->tools.n; k++) {
			found = kp_str_eq(chat->allowed[i],
				kp_jv_str(kp_jv_get(&chat->tools.items[k], KP_S("function")),
					KP_S("name")));
		}
		if (!found) {
			return kp_err_param(err, "tool_choice",
				"`tool_choice`: `%" KP_FMT "` is none of `tools`",
				KP_ARG(chat->allowed[i]));
		}
	}
	return 0;
}

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

int kp_tools_read(struct kp_json *j, struct kp_turn *turn, struct kp_err *err)
{
	struct kp_jv list;
	if (kp_jv_read_as(j, KP_JSON_ARRAY, KP_MAX_VALUES, &list, err)) {
		return -1;
	}
	if (list.n > KP_MAX_TOOLS) {
		return kp_json_fail(j, err, "at most %d tools, got %u", KP_MAX_TOOLS, list.n);
	}
	for (uint32_t i = 0; i < list.n; i++) {
		if (check_tool(&list.items[i], i, err)) {
			return -1;
		}
	}
	turn->chat.tools = list.n ? list : (struct kp_jv){ .type = KP_JSON_NONE };
	return 0;
}

int kp_tool_choice_read(struct kp_json *j, struct kp_turn *turn, struct kp_err *err)
{
	struct kp_jv v;
	if (kp_jv_read(j, KP_MAX_VALUES, &v, err)) {
		return -1;
	}
	kp_str word = v.type == KP_JSON_STRING ? v.s : kp_jv_str(&v, KP_S("type"));
	if (v.type == KP_JSON_STRING && kp_str_eq(word, KP_S("none"))) {
		turn->chat.tool_choice = KP_TOOL_CHOICE_NONE;
		return 0;
	}
	if (v.type == KP_JSON_STRING && kp_str_eq(word, KP_S("auto"))) {
		turn->chat.tool_choice = KP_TOOL_CHOICE_AUTO;
		return 0;
	}
	static const char *const known[] = { "required", "function", "allowed_tools", "custom" };
	for (size_t i = 0; i < KP_LEN(known); i++) {
		if (kp_str_eq(word, kp_str_c(known[i]))) {
			kp_json_fail(j, err, "`%s` is not supported yet, only `none` and `auto`",
				known[i]);
			err->reason = "unsupported_parameter";
			return -1;
		}
	}
	return kp_json_fail(j, err, "expected none, auto, required or an object with a type");
}

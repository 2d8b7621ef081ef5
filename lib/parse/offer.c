/* DESIGN: a list, as the client wrote it. */
#include "parse/offer.h"

#include "parse/typing.h"

int kp_tool_offer_create(struct kp_arena *a, const struct kp_jv *tools, struct kp_tool_offer *ret,
	struct kp_err *err)
{
	size_t n = 0;
	*ret = (struct kp_tool_offer){ .n = 0 };
	if (!kp_jv_is(tools, KP_JSON_ARRAY) || tools->n == 0) {
		return 0;
	}
	struct kp_offered_tool *list = kp_arena_calloc(a, tools->n, sizeof(*list));
	if (!list) {
		return kp_arena_full(err, "tools");
	}
	for (size_t i = 0; i < tools->n; i++) {
		const struct kp_jv *tool = &tools->items[i];
		const struct kp_jv *function = kp_jv_get(tool, KP_S("function"));
		tool = kp_jv_is(function, KP_JSON_OBJECT) ? function : tool;
		const struct kp_jv *schema = kp_jv_get(tool, KP_S("parameters"));
		schema = schema ? schema : kp_jv_get(tool, KP_S("input_schema"));
		kp_str name = kp_jv_str(tool, KP_S("name"));
		if (name.n) {
			list[n].name = name;
			list[n].strict = kp_jv_is(kp_jv_get(tool, KP_S("strict")), KP_JSON_TRUE);
			list[n++].parameters = kp_jv_is(schema, KP_JSON_OBJECT) ? schema : NULL;
		}
	}
	*ret = (struct kp_tool_offer){ .tools = list, .n = n };
	return 0;
}

const struct kp_offered_tool *kp_tool_offer_find(const struct kp_tool_offer *o, kp_str name)
{
	for (size_t i = 0; i < o->n; i++) {
		if (kp_str_eq(o->tools[i].name, name)) {
			return &o->tools[i];
		}
	}
	return NULL;
}

unsigned kp_tool_offer_types(const struct kp_offered_tool *tool, kp_str parameter, bool *ret_known)
{
	const struct kp_jv *root = tool ? tool->parameters : NULL;
	const struct kp_jv *schema = root ? kp_typing_property(root, root, parameter) : NULL;
	*ret_known = schema != NULL;
	return schema ? kp_typing_of(root, schema) : 0;
}

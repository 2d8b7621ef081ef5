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

/* Where the schema of an object names its property: in it, behind its $ref, or in a part of allOf, anyOf, oneOf. */
static const struct kp_jv *property(
	const struct kp_jv *root, const struct kp_jv *schema, kp_str name, unsigned budget)
{
	static const char *const parts[] = { "allOf", "anyOf", "oneOf" };
	const struct kp_jv *found = kp_jv_get(kp_jv_get(schema, KP_S("properties")), name);
	for (size_t p = 0; !found && budget && p < KP_LEN(parts); p++) {
		const struct kp_jv *of = kp_jv_get(schema, kp_str_c(parts[p]));
		for (size_t i = 0; !found && kp_jv_is(of, KP_JSON_ARRAY) && i < of->n; i++) {
			found = property(root, &of->items[i], name, budget - 1);
		}
	}
	return found;
}

unsigned kp_tool_offer_types(const struct kp_offered_tool *tool, kp_str parameter, bool *ret_known)
{
	const struct kp_jv *root = tool ? tool->parameters : NULL;
	const struct kp_jv *schema = root ? property(root, root, parameter, 3) : NULL;
	*ret_known = schema != NULL;
	return schema ? kp_typing_of(root, schema) : 0;
}

/* DESIGN: pages are copied into the list's own arena, one after the other; the items grow at its end. A tool that breaks a rule is left out, so that
   one bad tool does not take the others away; what is wrong with the list as a whole is an error. */
#include "mcp/message.h"

#include "base/buf.h"

static bool is_tool_name(kp_str s)
{
	bool is_right = s.n > 0 && s.n <= KP_MCP_TOOL_NAME_MAX;
	for (size_t i = 0; i < s.n && is_right; i++) {
		is_right = (unsigned char)s.p[i] > ' ' && s.p[i] != 0x7f;
	}
	return is_right;
}

struct kp_mcp_tools *kp_mcp_tools_begin(void)
{
	struct kp_arena *a = kp_arena_create(KP_MCP_LIST_MAX);
	struct kp_mcp_tools *t = kp_arena_new(a, struct kp_mcp_tools);
	kp_ref_init(&t->refs);
	t->arena = a;
	t->items = kp_arena_calloc(a, KP_MCP_TOOLS_MAX, sizeof(*t->items));
	KP_BUG_ON(!t->items);
	return t;
}

static bool is_deeper(const struct kp_jv *v, unsigned depth)
{
	bool is_list = v->type == KP_JSON_ARRAY, is_object = v->type == KP_JSON_OBJECT;
	if (!is_list && !is_object) {
		return false;
	}
	if (depth == 0) {
		return true;
	}
	for (uint32_t i = 0; i < v->n; i++) {
		if (is_deeper(is_list ? &v->items[i] : &v->members[i].value, depth - 1)) {
			return true;
		}
	}
	return false;
}

/* 1: it is one; 0: it is to be left out. */
static int read_tool(
	struct kp_arena *a, const struct kp_jv *v, struct kp_mcp_tool *ret, struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf schema, notes, text;
	const struct kp_jv *input = kp_jv_get(v, KP_S("inputSchema")),
			   *annotations = kp_jv_get(v, KP_S("annotations"));
	kp_str name = kp_jv_str(v, KP_S("name"));
	struct kp_mcp_tool t = { 0 };
	kp_buf_init(&schema, KP_MCP_SCHEMA_MAX);
	kp_buf_init(&notes, KP_MCP_SCHEMA_MAX);
	kp_buf_init(&text, KP_MCP_SCHEMA_MAX);
	if (!is_tool_name(name) || !kp_jv_is(input, KP_JSON_OBJECT) ||
		is_deeper(input, KP_MCP_SCHEMA_DEPTH) ||
		(annotations && is_deeper(annotations, KP_MCP_SCHEMA_DEPTH))) {
		return 0;
	}
	kp_jv_write(input, &schema);
	if (kp_jv_is(annotations, KP_JSON_OBJECT)) {
		kp_jv_write(annotations, &notes);
		t.is_read_only =
			kp_jv_is(kp_jv_get(annotations, KP_S("readOnlyHint")), KP_JSON_TRUE);
	}
	kp_mcp_text_add(&text, kp_jv_str(v, KP_S("description")));
	size_t n = text.n;
	kp_mcp_text_add(&text, kp_jv_str(v, KP_S("title")));
	if (schema.failed || notes.failed || text.failed) {
		return 0;
	}
	if (kp_arena_dup(a, name, &t.name, err) ||
		kp_arena_dup(a, kp_str_sub(kp_buf_str(&text), 0, n), &t.description, err) ||
		kp_arena_dup(a, kp_str_skip(kp_buf_str(&text), n), &t.title, err) ||
		kp_arena_dup(a, kp_buf_str(&schema), &t.input_schema, err) ||
		kp_arena_dup(a, kp_buf_str(&notes), &t.annotations, err)) {
		err->code = KP_TOO_LARGE;
		return -1;
	}
	*ret = t;
	return 1;
}

int kp_mcp_tools_page(
	struct kp_mcp_tools *t, const struct kp_jv *result, kp_str *ret_cursor, struct kp_err *err)
{
	const struct kp_jv *tools = kp_jv_get(result, KP_S("tools"));
	struct kp_mcp_tool *items = kp_unconst(t->items), tool;
	if (!kp_jv_is(tools, KP_JSON_ARRAY)) {
		return kp_err_set(err, KP_DATA_LOSS, "read tools/list: it has no `tools`");
	}
	for (uint32_t i = 0; i < tools->n; i++) {
		int rc = read_tool(t->arena, &tools->items[i], &tool, err);
		if (rc < 0) {
			return kp_err_wrap(err, "read tools/list");
		}
		if (rc == 0 || kp_mcp_tools_find(t, tool.name)) {
			t->n_left_out++;
			continue;
		}
		if (t->n == KP_MCP_TOOLS_MAX) {
			return kp_err_set(err, KP_TOO_LARGE, "read tools/list: more than %d tools",
				KP_MCP_TOOLS_MAX);
		}
		items[t->n++] = tool;
	}
	*ret_cursor = kp_jv_str(result, KP_S("nextCursor"));
	return 0;
}

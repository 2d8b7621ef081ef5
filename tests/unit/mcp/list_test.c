/* Lists of tools: one that breaks a rule is left out, the others stay. */
#include "mcp/message.h"
#include "tests/test.h"

/* A tool whose schema nests `depth` deep. */
static void add_tool(struct kp_buf *b, const char *name, unsigned depth)
{
	kp_buf_printf(b,
		"%s{\"name\":\"%s\",\"inputSchema\":{\"a\":", b->p[b->n - 1] == '[' ? "" : ",",
		name);
	for (unsigned i = 1; i < depth; i++) {
		kp_buf_addc(b, '[');
	}
	for (unsigned i = 1; i < depth; i++) {
		kp_buf_addc(b, ']');
	}
	kp_buf_addz(b, depth == 1 ? "1}}" : "}}");
}

static void test_a_schema_that_nests_too_deep_is_left_out(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf b;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	struct kp_mcp_tools *t = kp_mcp_tools_begin();
	struct kp_jv result;
	struct kp_err err;
	kp_str cursor;
	kp_buf_init(&b, 1 << 16);
	kp_buf_lit(&b, "{\"tools\":[");
	add_tool(&b, "flat", 1);
	add_tool(&b, "deep", KP_MCP_SCHEMA_DEPTH);
	add_tool(&b, "deeper", KP_MCP_SCHEMA_DEPTH + 1);
	add_tool(&b, "last", 1);
	kp_buf_lit(&b, "]}");
	assert_int_equal(kp_jv_parse(kp_buf_str(&b), a, &result, &err), 0);
	assert_int_equal(kp_mcp_tools_page(t, &result, &cursor, &err), 0);
	assert_int_equal(t->n, 3);
	assert_int_equal(t->n_left_out, 1);
	assert_non_null(kp_mcp_tools_find(t, KP_S("deep")));
	assert_null(kp_mcp_tools_find(t, KP_S("deeper")));
	kp_mcp_tools_unref(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_schema_that_nests_too_deep_is_left_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

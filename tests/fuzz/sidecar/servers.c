/* Fuzz target: `tools` of type mcp as requests write them. What is read has a label that its tools can be named after, headers that can be sent, and none of those that
   are ours; what is not is refused with its place. */
#include "sidecar/tools/servers.h"

enum { MEMORY = 16 << 20 };

static void must_be_right(const struct kp_tool_server *s, const struct kp_jv *tools)
{
	const struct kp_mcp_tool tool = { .name = KP_S("ping"), .is_read_only = true };
	char exposed[KP_MCP_EXPOSED_MAX + 1];
	struct kp_err err;
	KP_BUG_ON(s->index >= tools->n || s->config.n_headers > KP_MCP_HEADERS_MAX);
	KP_BUG_ON(kp_mcp_label_check(s->label, &err));
	for (size_t i = 0; i < s->config.n_headers; i++) {
		const struct kp_fetch_header *h = &s->config.headers[i];
		KP_BUG_ON(kp_mcp_header_is_own(h->name) || !kp_fetch_header_ok(h->name, h->value));
	}
	kp_mcp_expose(s->label, tool.name, exposed);
	KP_BUG_ON(!s->has_approval && !kp_tool_server_asks(s, &tool));
	KP_BUG_ON(!s->has_allowed && !kp_tool_server_shows(s, &tool));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(MEMORY);
	struct kp_tool_server *servers;
	struct kp_jv tools;
	struct kp_err err = KP_ERR_INIT;
	size_t n;
	if (kp_jv_parse(kp_str_n(data, size), a, &tools, &err) || tools.type != KP_JSON_ARRAY) {
		return 0;
	}
	if (kp_tool_servers_read(&tools, a, &servers, &n, &err)) {
		KP_BUG_ON(err.code != KP_INVALID_ARGUMENT && err.code != KP_RESOURCE_EXHAUSTED);
		KP_BUG_ON(err.code == KP_INVALID_ARGUMENT && !err.param[0]);
		return 0;
	}
	KP_BUG_ON(n > KP_TOOL_SERVERS_MAX);
	for (size_t i = 0; i < n; i++) {
		must_be_right(&servers[i], &tools);
		for (size_t k = 0; k < i; k++) {
			KP_BUG_ON(kp_str_eq(servers[i].label, servers[k].label));
		}
		kp_tool_server_release(&servers[i]);
	}
	return 0;
}

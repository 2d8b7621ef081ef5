/* The MCP servers of one request: `tools` of type `mcp`, read and checked; which of their tools the model is shown, and which somebody must allow. The sessions
   are lib/mcp's, of the request's loop. */
#ifndef SIDECAR_TOOLS_SERVERS_H
#define SIDECAR_TOOLS_SERVERS_H

#include "json/value.h"
#include "net/http.h"
#include "sidecar/control/catalog.h"

enum { KP_TOOL_SERVERS_MAX = 32 };

struct kp_tool_server {
	uint32_t index; /* of the entry in `tools` */
	kp_str label;
	struct kp_mcp_config config; /* but for what the gateway says: policy, tenant */
	struct kp_fetch_header headers[KP_MCP_HEADERS_MAX + 1];
	struct kp_mcp_approval approval; /* what the request says */
	struct kp_mcp_filter allowed;
	bool has_allowed;  /* only those in `allowed` are shown */
	bool has_approval; /* the request says something of it */
	const struct kp_tool_entry
		*known; /* a ToolServer, which has a word in both; NULL: the request's own */
	/* While the request runs. */
	struct kp_mcp *session;
	const struct kp_mcp_tools *tools; /* a reference; NULL: not listed yet */
	struct kp_mcp_ask *ask;
	struct kp_err err; /* code OK: nothing went wrong */
};

/* The entries of type `mcp` of a list of tools; other ones are passed over. INVALID_ARGUMENT with the place ("tools[2].server_label"). */
int kp_tool_servers_read(const struct kp_jv *tools, struct kp_arena *a, struct kp_tool_server **ret,
	size_t *ret_n, struct kp_err *err) KP_MUST_USE;
/* Of a server without a URL: what the gateway knows by its label, which must stay as long as `s`. client: the request's headers, for those that are passed on.
   INVALID_ARGUMENT, FAILED_PRECONDITION with the place. */
int kp_tool_server_know(struct kp_tool_server *s, const struct kp_tool_catalog *c,
	const struct kp_http_request *client, struct kp_err *err) KP_MUST_USE;
/* Must somebody say yes to its calls? A ToolServer's word stands; a request may only ask for more. */
bool kp_tool_server_asks(const struct kp_tool_server *s, const struct kp_mcp_tool *t);
/* Is the model shown this tool? */
bool kp_tool_server_shows(const struct kp_tool_server *s, const struct kp_mcp_tool *t);
/* Cancels, gives back, forgets. Twice is fine. */
void kp_tool_server_release(struct kp_tool_server *s);

#endif

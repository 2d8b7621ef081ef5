/* A client of MCP servers over streamable HTTP (modelcontextprotocol.io, specification 2025-11-25; also 2025-06-18, 2025-03-26): initialize, sessions,
   tools/list, tools/call. A kp_mcp_pool is one loop's; everything here is for that loop's thread, and callbacks run at the end of its turn,
   never inside of the functions below.

   A kp_mcp is one session with one server, for one tenant and one set of credentials: whoever differs in any of them gets another one. The session is
   made by the first question and made again when the server forgot it. Who asked meanwhile waits for it.

   What surely did not run (no connection; the server does not know the session) is asked once more by itself. Everything else that goes wrong is told to
   the caller: with a call, as text for the model. */
#ifndef KP_MCP_CLIENT_H
#define KP_MCP_CLIENT_H

#include "fetch/fetch.h"
#include "mcp/tools.h"
#include "obs/metrics.h"

struct kp_mcp_pool;
struct kp_mcp;
struct kp_mcp_ask;

enum {
	KP_MCP_ASKS_MAX = 64, /* of one session at once, waiting ones too: RESOURCE_EXHAUSTED */
	KP_MCP_SESSIONS_MAX = 1024,    /* of a pool: RESOURCE_EXHAUSTED when none of them is idle */
	KP_MCP_DESCRIPTORS_MAX = 8192, /* of a pool, unless told otherwise */
	KP_MCP_MESSAGE_MAX = 4 << 20,  /* bytes of one message of a server's */
	KP_MCP_OUTPUT_MAX = 64 << 10,  /* bytes of a result's text, unless told otherwise */
	KP_MCP_HEADERS_MAX = 40,       /* of one server */
};

struct kp_mcp_pool_opts {
	const char *
		version; /* of this program, for clientInfo and User-Agent; must outlive the pool */
	struct kp_metrics *metrics; /* kelpie_mcp_* */
	int64_t idle_ns;            /* a session that nobody holds ends after it; 0: 5 min */
	/* About so many may be open at once: half of them sessions that are kept, half requests. 0: KP_MCP_DESCRIPTORS_MAX. */
	size_t max_descriptors;
};
struct kp_mcp_pool *kp_mcp_pool_create(struct kp_loop *loop, const struct kp_mcp_pool_opts *opts);
/* Every kp_mcp must have been put back. Sessions are not said good-bye to. NULL is fine. */
void kp_mcp_pool_destroy(struct kp_mcp_pool *p);

struct kp_mcp_config {
	kp_str name;   /* the server's, for messages and metrics */
	kp_str series; /* for metrics alone; empty: the name */
	kp_str label;  /* not of use here; for whoever exposes its tools */
	kp_str url;
	const struct kp_fetch_header *headers; /* with credentials; never logged */
	size_t n_headers;
	kp_str tenant; /* "" until there are some */
	kp_str ca_pem;
	struct kp_fetch_policy policy;
	/* 0: 10 s, 30 s, 60 s, 10 min: until connected; an answer to initialize and to tools/list; to tools/call, each progress starts it anew; a call in
	   all. */
	int64_t connect_ns, list_ns, call_ns, call_total_ns;
	int64_t list_ttl_ns;     /* how long a list of tools is taken for right; 0: 5 min */
	size_t max_output_bytes; /* 0: KP_MCP_OUTPUT_MAX */
};
bool kp_mcp_header_is_own(kp_str name); /* the protocol's or ours: no server may have it */
/* The session of these, made on the first use, held until kp_mcp_put. Everything is copied. NULL with err: the URL is refused; too many. */
struct kp_mcp *kp_mcp_get(
	struct kp_mcp_pool *p, const struct kp_mcp_config *config, struct kp_err *err);
void kp_mcp_put(struct kp_mcp *m); /* asks that are left are the caller's to cancel before */

/* The server's tools, from memory when they are known and younger than list_ttl_ns. `tools` is NULL when err is set; else valid during the callback
   (kp_mcp_tools_ref for longer). */
typedef void kp_mcp_listed_fn(
	void *ctx, const struct kp_mcp_tools *tools, const struct kp_err *err);
struct kp_mcp_ask *kp_mcp_list(struct kp_mcp *m, kp_mcp_listed_fn *done, void *ctx);

enum kp_mcp_outcome {
	KP_MCP_OK = 1,
	KP_MCP_TOOL_ERROR, /* the tool ran and says that it failed (isError) */
	KP_MCP_PROTOCOL_ERROR, /* the server refused the call (a JSON-RPC error: no such tool, wrong arguments) */
	KP_MCP_FAILED, /* no answer: not reached, too late, too much, nonsense */
};
struct kp_mcp_result {
	enum kp_mcp_outcome outcome;
	/* For the model, always there, valid UTF-8 without control characters but tab and line feed, at most max_output_bytes and a line that says that
	   it was cut. With an outcome but OK it says what went wrong. */
	kp_str output;
	struct kp_err
		err; /* code OK exactly with outcome OK; its message is that of `output`, shortened */
	int64_t code; /* with PROTOCOL_ERROR: JSON-RPC's, the server's own; -32602 for arguments that were not sent */
	bool is_cut;
	bool may_have_run; /* with FAILED: it cannot be said that the tool did not run */
};
struct kp_mcp_call {
	kp_str tool;      /* the server's name of it; copied */
	kp_str arguments; /* JSON text of an object, "" for {}; copied. What is no object is PROTOCOL_ERROR without asking the server */
	/* May be NULL. total < 0: not told; message may be empty */
	void (*progress)(void *ctx, double progress, double total, kp_str message);
	void (*done)(void *ctx, const struct kp_mcp_result *r);
	void *ctx;
};
struct kp_mcp_ask *kp_mcp_call(struct kp_mcp *m, const struct kp_mcp_call *call);
/* `done` is not called; a call that the server has is cancelled there. Also in `progress`; not in `done`, and not after it. */
void kp_mcp_cancel(struct kp_mcp_ask *a);

#endif

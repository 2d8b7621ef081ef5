/* What an MCP server offers, by which names a model knows it, and what is asked before it is called. Pure. */
#ifndef KP_MCP_TOOLS_H
#define KP_MCP_TOOLS_H

#include "base/arena.h"
#include "base/ref.h"

enum {
	KP_MCP_TOOLS_MAX = 512,       /* of one server; more are an error */
	KP_MCP_TOOL_NAME_MAX = 128,   /* bytes */
	KP_MCP_SCHEMA_MAX = 64 << 10, /* bytes of one tool's input schema */
	KP_MCP_SCHEMA_DEPTH = 100,    /* how deep it nests */
	KP_MCP_LIST_MAX = 4 << 20,    /* bytes of all that is kept of a list */
	KP_MCP_EXPOSED_MAX = 64,      /* bytes of a name as models and clients see it */
	KP_MCP_LABEL_MAX = 32,
};

struct kp_mcp_tool {
	kp_str name, title, description; /* title and description may be empty */
	kp_str input_schema;             /* JSON text of an object, as the server wrote it */
	kp_str annotations;              /* JSON text of an object, or empty */
	bool is_read_only;               /* annotations.readOnlyHint, which nothing proves */
};
/* A server's list, in its order. Immutable, counted references, any thread. A tool that breaks a rule (its name, its schema) is left out. */
struct kp_mcp_tools {
	struct kp_refcount refs;
	struct kp_arena *arena;
	const struct kp_mcp_tool *items;
	size_t n;
	size_t n_left_out;
};
struct kp_mcp_tools *kp_mcp_tools_ref(const struct kp_mcp_tools *t);
void kp_mcp_tools_unref(const struct kp_mcp_tools *t); /* NULL is fine */
const struct kp_mcp_tool *kp_mcp_tools_find(
	const struct kp_mcp_tools *t, kp_str name); /* NULL: none */

/* `label__tool`, always with the label, so that a name stays what it is when another server comes: every byte but A-Z a-z 0-9 _ - becomes `_`; what was
   changed, or is longer than KP_MCP_EXPOSED_MAX, ends with `_` and eight digits of a hash of both, so that different tools keep different
   names. NUL-terminated. */
void kp_mcp_expose(kp_str label, kp_str tool, char ret[KP_MCP_EXPOSED_MAX + 1]);
/* A label: 1 to KP_MCP_LABEL_MAX of A-Z a-z 0-9 _ -, without `__`, not ending in `_`. INVALID_ARGUMENT names it. */
int kp_mcp_label_check(kp_str label, struct kp_err *err) KP_MUST_USE;

/* Which tools are meant: those named, those that say they only read; both given: those that are both. Neither: none. */
struct kp_mcp_filter {
	const kp_str *names;
	size_t n_names;
	bool has_names, has_read_only, read_only;
};
bool kp_mcp_filter_has(const struct kp_mcp_filter *f, const struct kp_mcp_tool *t);

enum kp_mcp_approval_rule {
	KP_MCP_APPROVAL_UNSET = 0, /* as ALWAYS */
	KP_MCP_APPROVAL_ALWAYS,
	KP_MCP_APPROVAL_NEVER, /* but for those in `always` */
	KP_MCP_APPROVAL_BY_TOOL, /* none for those in `never` that are not in `always`; everything else is asked */
};
struct kp_mcp_approval {
	enum kp_mcp_approval_rule rule;
	struct kp_mcp_filter always, never;
};
/* Whether somebody has to say yes before the tool is called. */
bool kp_mcp_needs_approval(const struct kp_mcp_approval *a, const struct kp_mcp_tool *t);

#endif

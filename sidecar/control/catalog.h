/* The tool servers that a gateway knows by label (ToolServer objects), as loops use them: with the values of their headers, which the control thread reads from
   the files of Secrets. Immutable, counted references, any thread. Values of headers are for their server alone: never logged, never shown. */
#ifndef SIDECAR_CONTROL_CATALOG_H
#define SIDECAR_CONTROL_CATALOG_H

#include "control/program.h"
#include "mcp/client.h"

enum { KP_TOOL_SECRET_MAX = 16 << 10 }; /* bytes of a value from a Secret */

struct kp_tool_entry {
	kp_str name; /* "default/weather" */
	kp_str label;
	struct kp_mcp_config config; /* but for the tenant, and headers that are passed on */
	const kp_str *forward;       /* names of the client's headers that are passed on */
	size_t n_forward;
	struct kp_mcp_filter allowed; /* if has_allowed: only these tools */
	bool has_allowed;
	struct kp_mcp_approval approval; /* a request may ask for more, not for less */
	const char *why_not; /* it cannot be used: what is wrong with a Secret; NULL: it can */
};
struct kp_tool_catalog {
	struct kp_refcount refs;
	struct kp_arena *arena;
	const struct kp_tool_entry *items; /* by name */
	size_t n;
	bool has_secrets; /* files to look at again */
	uint64_t digest;  /* of everything in it: equal ones need no new snapshot */
};
/* Control thread; reads files. `secrets` is the folder that has SECRET/KEY; NULL: there is none. `p` may be NULL. What cannot be read is logged if `before` did
   not have it already (NULL: nothing was before). */
struct kp_tool_catalog *kp_tool_catalog_create(
	const struct kp_program *p, const char *secrets, const struct kp_tool_catalog *before);
struct kp_tool_catalog *kp_tool_catalog_ref(struct kp_tool_catalog *c);
void kp_tool_catalog_unref(struct kp_tool_catalog *c); /* NULL is fine */
/* NULL: not there; c may be NULL. */
const struct kp_tool_entry *kp_tool_catalog_find(const struct kp_tool_catalog *c, kp_str label);
/* Lines of /readyz?verbose. */
void kp_tool_catalog_report(const struct kp_tool_catalog *c, struct kp_buf *out);

#endif

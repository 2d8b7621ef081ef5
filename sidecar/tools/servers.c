/* DESIGN: one reader for each member of an entry. Everything points into the request's values or its arena; nothing of a header goes anywhere but to its server. */
#include "sidecar/tools/servers.h"

#include <stdio.h>

struct reader {
	struct kp_arena *a;
	struct kp_err *err;
	uint32_t i;
	const struct kp_jv *tool;
};

static int bad(struct reader *r, const char *reason, const char *what, const char *member)
{
	char param[96];
	snprintf(param, sizeof(param), "tools[%u].%s", r->i, member);
	kp_err_param(r->err, param, "`%s`: %s", param, what);
	r->err->reason = reason;
	return -1;
}

static const struct kp_jv *given(const struct kp_jv *object, const char *member)
{
	const struct kp_jv *v = kp_jv_get(object, kp_str_c(member));
	return v && v->type != KP_JSON_NULL ? v : NULL;
}

/* A list of strings at `place`. */
static int read_names(
	struct reader *r, const struct kp_jv *v, const char *place, struct kp_mcp_filter *ret)
{
	kp_str *names;
	if (v->type != KP_JSON_ARRAY || v->n > KP_MCP_TOOLS_MAX) {
		return bad(r, NULL, "expected a list of names of tools", place);
	}
	if (!(names = kp_arena_calloc(r->a, v->n + 1, sizeof(*names)))) {
		return kp_arena_full(r->err, "names of tools");
	}
	for (uint32_t i = 0; i < v->n; i++) {
		if (v->items[i].type != KP_JSON_STRING) {
			return bad(r, NULL, "expected a list of names of tools", place);
		}
		names[i] = v->items[i].s;
	}
	ret->names = names;
	ret->n_names = v->n;
	ret->has_names = true;
	return 0;
}

/* {"tool_names": [..], "read_only": bool} */
static int read_filter(
	struct reader *r, const struct kp_jv *v, const char *place, struct kp_mcp_filter *ret)
{
	const struct kp_jv *names = given(v, "tool_names"), *read_only = given(v, "read_only");
	if (v->type != KP_JSON_OBJECT) {
		return bad(r, NULL, "expected an object", place);
	}
	if (names && read_names(r, names, place, ret)) {
		return -1;
	}
	if (read_only) {
		if (read_only->type != KP_JSON_TRUE && read_only->type != KP_JSON_FALSE) {
			return bad(r, NULL, "`read_only` must be a boolean", place);
		}
		ret->has_read_only = true;
		ret->read_only = read_only->type == KP_JSON_TRUE;
	}
	return 0;
}

static int read_allowed(struct reader *r, struct kp_tool_server *s)
{
	const struct kp_jv *v = given(r->tool, "allowed_tools");
	s->has_allowed = v != NULL;
	if (!v) {
		return 0;
	}
	return v->type == KP_JSON_ARRAY ? read_names(r, v, "allowed_tools", &s->allowed)
					: read_filter(r, v, "allowed_tools", &s->allowed);
}

static int read_approval(struct reader *r, struct kp_tool_server *s)
{
	const struct kp_jv *v = given(r->tool, "require_approval");
	struct kp_mcp_approval *a = &s->approval;
	a->rule = KP_MCP_APPROVAL_ALWAYS;
	s->has_approval = v != NULL;
	if (!v) {
		return 0;
	}
	if (v->type == KP_JSON_STRING) {
		bool is_never = kp_str_eq(v->s, KP_S("never"));
		a->rule = is_never ? KP_MCP_APPROVAL_NEVER : KP_MCP_APPROVAL_ALWAYS;
		return is_never || kp_str_eq(v->s, KP_S("always"))
			       ? 0
			       : bad(r, NULL, "expected always, never or an object",
					 "require_approval");
	}
	const struct kp_jv *always = given(v, "always"), *never = given(v, "never");
	if (v->type != KP_JSON_OBJECT) {
		return bad(r, NULL, "expected always, never or an object", "require_approval");
	}
	a->rule = KP_MCP_APPROVAL_BY_TOOL;
	return (always && read_filter(r, always, "require_approval.always", &a->always)) ||
			       (never && read_filter(r, never, "require_approval.never", &a->never))
		       ? -1
		       : 0;
}

static int add_header(
	struct reader *r, struct kp_tool_server *s, kp_str name, kp_str value, const char *place)
{
	if (kp_mcp_header_is_own(name)) {
		return bad(r, NULL, "has a header that the protocol sets", place);
	}
	if (s->config.n_headers == KP_MCP_HEADERS_MAX) {
		return bad(r, NULL, "has too many headers", place);
	}
	if (!kp_fetch_header_ok(name, value)) {
		return bad(r, NULL, "has a header that cannot be sent", place);
	}
	s->headers[s->config.n_headers++] = (struct kp_fetch_header){ name, value };
	return 0;
}

static int read_headers(struct reader *r, struct kp_tool_server *s)
{
	const struct kp_jv *v = given(r->tool, "headers"), *token = given(r->tool, "authorization");
	if (v && v->type != KP_JSON_OBJECT) {
		return bad(r, NULL, "expected an object", "headers");
	}
	for (uint32_t i = 0; v && i < v->n; i++) {
		const struct kp_jmember *m = &v->members[i];
		if (m->value.type != KP_JSON_STRING) {
			return bad(r, NULL, "expected strings", "headers");
		}
		if (add_header(r, s, m->key, m->value.s, "headers")) {
			return -1;
		}
	}
	if (!token) {
		return 0;
	}
	if (token->type != KP_JSON_STRING) {
		return bad(r, NULL, "expected a string", "authorization");
	}
	return add_header(r, s, KP_S("authorization"),
		kp_arena_printf(r->a, "Bearer %" KP_FMT, KP_ARG(token->s)), "authorization");
}

/* A member that nobody knows may be one that was to narrow what is allowed, misspelt. */
static int check_members(struct reader *r)
{
	static const char *const known[] = { "type", "server_label", "server_url", "headers",
		"authorization", "allowed_tools", "require_approval", "server_description",
		"allowed_callers", "defer_loading", "connector_id", "tunnel_id" };
	for (uint32_t i = 0; i < r->tool->n; i++) {
		bool is_known = false;
		for (size_t k = 0; k < KP_LEN(known); k++) {
			is_known |= kp_str_eq(r->tool->members[i].key, kp_str_c(known[k]));
		}
		if (!is_known) {
			char name[64];
			snprintf(name, sizeof(name), "%.*s",
				KP_ARG(kp_str_sub(r->tool->members[i].key, 0, 40)));
			return bad(r, "unknown_parameter", "unknown parameter", name);
		}
	}
	return 0;
}

static int read_server(struct reader *r, struct kp_tool_server *s)
{
	static const char *const refused[] = { "connector_id", "tunnel_id" };
	const struct kp_jv *label = given(r->tool, "server_label"),
			   *url = given(r->tool, "server_url");
	struct kp_err inner;
	if (check_members(r)) {
		return -1;
	}
	for (size_t i = 0; i < KP_LEN(refused); i++) {
		if (given(r->tool, refused[i])) {
			return bad(r, "unsupported_parameter", "not supported", refused[i]);
		}
	}
	if (!kp_jv_is(label, KP_JSON_STRING)) {
		return bad(r, NULL, label ? "expected a string" : "missing", "server_label");
	}
	if (kp_mcp_label_check(label->s, &inner)) {
		return bad(r, NULL, inner.msg, "server_label");
	}
	if (url && url->type != KP_JSON_STRING) {
		return bad(r, NULL, "expected a string", "server_url");
	}
	s->index = r->i;
	s->label = s->config.name = s->config.label = label->s;
	s->config.series = KP_S("request"); /* labels of clients are without number */
	s->config.url = url ? url->s : KP_STR_NULL;
	s->config.headers = s->headers;
	return read_allowed(r, s) || read_approval(r, s) || read_headers(r, s) ? -1 : 0;
}

int kp_tool_servers_read(const struct kp_jv *tools, struct kp_arena *a, struct kp_tool_server **ret,
	size_t *ret_n, struct kp_err *err)
{
	struct reader r = { .a = a, .err = err };
	struct kp_tool_server *servers = NULL;
	size_t n = 0;
	for (r.i = 0; r.i < tools->n; r.i++) {
		r.tool = &tools->items[r.i];
		if (!kp_str_eq(kp_jv_str(r.tool, KP_S("type")), KP_S("mcp"))) {
			continue;
		}
		if (!servers &&
			!(servers = kp_arena_calloc(a, KP_TOOL_SERVERS_MAX, sizeof(*servers)))) {
			return kp_arena_full(err, "servers of tools");
		}
		if (n == KP_TOOL_SERVERS_MAX) {
			return bad(&r, NULL, "too many servers", "server_label");
		}
		if (read_server(&r, &servers[n])) {
			return -1;
		}
		for (size_t k = 0; k < n; k++) {
			if (kp_str_eq(servers[k].label, servers[n].label)) {
				return bad(&r, NULL, "is another server's", "server_label");
			}
		}
		n++;
	}
	*ret = servers;
	*ret_n = n;
	return 0;
}

static kp_str client_header(const struct kp_http_request *client, kp_str name)
{
	for (size_t i = 0; i < client->n_headers; i++) {
		if (kp_str_ieq(client->headers[i].name, name)) {
			return client->headers[i].value;
		}
	}
	return KP_STR_NULL;
}

static int forward_headers(struct kp_tool_server *s, const struct kp_http_request *client)
{
	for (size_t i = 0; i < s->known->n_forward; i++) {
		kp_str name = s->known->forward[i];
		kp_str value = client_header(client, name);
		if (!value.p) {
			continue;
		}
		if (s->config.n_headers == KP_MCP_HEADERS_MAX) {
			return -1;
		}
		s->headers[s->config.n_headers++] = (struct kp_fetch_header){ name, value };
	}
	return 0;
}

int kp_tool_server_know(struct kp_tool_server *s, const struct kp_tool_catalog *c,
	const struct kp_http_request *client, struct kp_err *err)
{
	const struct kp_tool_entry *e = kp_tool_catalog_find(c, s->label);
	char param[48];
	snprintf(param, sizeof(param), "tools[%u].server_label", s->index);
	if (!e) {
		return kp_err_param(err, param,
			"`%s`: no ToolServer `%" KP_FMT "` is known, and there is no `server_url`",
			param, KP_ARG(s->label));
	}
	if (s->config.n_headers) {
		return kp_err_param(
			err, param, "`%s`: the headers of a ToolServer are its own", param);
	}
	if (e->why_not) { /* which names files: for the log and /readyz, not for clients */
		kp_err_set(err, KP_UNAVAILABLE,
			"ToolServer `%" KP_FMT
			"` cannot be used: a Secret of its headers is not there",
			KP_ARG(e->name));
		err->reason = "tool_server_failed";
		return -1;
	}
	s->known = e;
	s->config = e->config;
	s->config.headers = s->headers;
	s->config.n_headers = 0;
	for (size_t i = 0; i < e->config.n_headers && i < KP_MCP_HEADERS_MAX; i++) {
		s->headers[s->config.n_headers++] = e->config.headers[i];
	}
	return forward_headers(s, client)
		       ? kp_err_param(err, param, "`%s`: too many headers", param)
		       : 0;
}

bool kp_tool_server_asks(const struct kp_tool_server *s, const struct kp_mcp_tool *t)
{
	bool own = (!s->known || s->has_approval) && kp_mcp_needs_approval(&s->approval, t);
	return own || (s->known && kp_mcp_needs_approval(&s->known->approval, t));
}

bool kp_tool_server_shows(const struct kp_tool_server *s, const struct kp_mcp_tool *t)
{
	bool own = !s->has_allowed || kp_mcp_filter_has(&s->allowed, t);
	return own &&
	       (!s->known || !s->known->has_allowed || kp_mcp_filter_has(&s->known->allowed, t));
}

void kp_tool_server_release(struct kp_tool_server *s)
{
	if (s->ask) {
		kp_mcp_cancel(kp_steal(s->ask));
	}
	kp_mcp_tools_unref(kp_steal(s->tools));
	if (s->session) {
		kp_mcp_put(kp_steal(s->session));
	}
}

/* DESIGN: a session is none, starting or ready. Whoever asks is put into `waiting`; `turn`, at the end of the loop's turn, does what the state allows:
   starts, sends, or answers from memory. A session that the server forgot is none again, once for all who find out, and those who may be asked again are
   back in `waiting`. */
#include "json/write.h"
#include "mcp/internal.h"

static const char *const versions[] = { "2025-11-25", "2025-06-18", "2025-03-26" };

void kp_mcp_count(struct kp_mcp *m, const char *method, const char *outcome)
{
	const struct kp_label labels[] = { { "server", m->c.series },
		{ "method", kp_str_c(method) }, { "outcome", kp_str_c(outcome) } };
	kp_counter_add(
		kp_metrics_counter(m->pool->opts.metrics, "kelpie_mcp_requests_total",
			"Requests to MCP servers: ok, tool_error, protocol_error, failed, cancelled.",
			labels, 3),
		1);
}

static void forget(struct kp_mcp *m)
{
	m->state = KP_MCP_NONE;
	m->generation++;
	m->version = NULL;
	m->has_no_tools = false;
	kp_free(&m->session_id);
}

void kp_mcp_session_lost(struct kp_mcp *m, uint64_t generation)
{
	if (m->state == KP_MCP_READY && m->generation == generation) {
		forget(m);
		m->are_tools_stale = true; /* perhaps another version of the server */
	}
}

/* --- initialize --- */

static void start_failed(struct kp_mcp *m, const struct kp_err *why)
{
	struct kp_err err = *why;
	struct kp_list *node;
	kp_err_wrap(&err, "connect to the tool server `%" KP_FMT "`", KP_ARG(m->c.name));
	kp_mcp_count(m, "initialize", "failed");
	forget(m);
	while ((node = kp_list_pop(&m->waiting))) {
		struct kp_mcp_ask *a = KP_CONTAINER(node, struct kp_mcp_ask, link);
		a->failed = err;
		a->outcome = KP_MCP_FAILED;
		kp_list_push(&m->failed, &a->link);
	}
	kp_mcp_session_turn(m);
}

static void initialized(void *ctx, struct kp_mcp_post *p, const struct kp_mcp_answer *a)
{
	struct kp_mcp *m = ctx;
	(void)p;
	m->starting = NULL;
	if (a->err.code != KP_OK) {
		start_failed(m, &a->err);
		return;
	}
	kp_mcp_count(m, "initialize", "ok");
	m->state = KP_MCP_READY;
	kp_mcp_session_turn(m);
}

static bool is_session_id(kp_str s)
{
	bool is_right = s.n > 0 && s.n <= KP_MCP_SESSION_ID_MAX;
	for (size_t i = 0; i < s.n && is_right; i++) {
		is_right = s.p[i] > ' ' && s.p[i] < 0x7f;
	}
	return is_right;
}

static int take_start(
	struct kp_mcp *m, struct kp_mcp_post *p, const struct kp_mcp_answer *a, struct kp_err *err)
{
	kp_str id = kp_mcp_post_header(p, "Mcp-Session-Id"), version;
	if (a->err.code != KP_OK) {
		*err = a->err;
		return -1;
	}
	if (a->message->kind == KP_MCP_MESSAGE_ERROR) {
		return kp_err_set(err, KP_FAILED_PRECONDITION, "initialize: error %lld: %.*s",
			(long long)a->message->code,
			KP_ARG(kp_str_sub(a->message->message, 0, 200)));
	}
	version = kp_jv_str(a->message->result, KP_S("protocolVersion"));
	for (size_t i = 0; i < KP_LEN(versions); i++) {
		if (kp_str_eq(version, kp_str_c(versions[i]))) {
			m->version = versions[i];
		}
	}
	if (!m->version && !version.n) {
		return kp_err_set(err, KP_DATA_LOSS, "initialize: it has no `protocolVersion`");
	}
	if (!m->version) {
		return kp_err_set(err, KP_UNIMPLEMENTED,
			"initialize: the server speaks version `%.*s` of MCP alone",
			KP_ARG(kp_str_sub(version, 0, 40)));
	}
	if (id.n && !is_session_id(id)) {
		return kp_err_set(err, KP_DATA_LOSS, "initialize: the session's id is none");
	}
	const struct kp_jv *can = kp_jv_get(a->message->result, KP_S("capabilities"));
	m->has_no_tools = !kp_jv_is(kp_jv_get(can, KP_S("tools")), KP_JSON_OBJECT);
	m->session_id = id.n ? kp_str_z(id) : NULL;
	return 0;
}

static void started(void *ctx, struct kp_mcp_post *p, const struct kp_mcp_answer *a)
{
	struct kp_mcp *m = ctx;
	struct kp_err err;
	m->starting = NULL;
	const struct kp_mcp_post_opts o = { .method = "POST",
		.body = KP_S("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"),
		.quiet_ns = m->c.list_ns,
		.total_ns = m->c.list_ns,
		.answered = initialized,
		.ctx = m };
	if (take_start(m, p, a, &err)) {
		start_failed(m, &err);
		return;
	}
	m->starting = kp_mcp_post_begin(m, &o, &err);
	if (!m->starting) {
		start_failed(m, &err);
	}
}

void kp_mcp_session_start(struct kp_mcp *m)
{
	KP_AUTO(buf) struct kp_buf b;
	struct kp_err err;
	kp_buf_init(&b, 1024);
	m->state = KP_MCP_STARTING;
	kp_buf_printf(&b,
		"{\"jsonrpc\":\"2.0\",\"id\":%llu,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"%s\","
		"\"capabilities\":{},\"clientInfo\":{\"name\":\"kelpie\",\"version\":",
		(unsigned long long)++m->last_id, versions[0]);
	kp_json_w_str(&b, kp_str_c(m->pool->opts.version));
	kp_buf_lit(&b, "}}}");
	const struct kp_mcp_post_opts o = { .method = "POST",
		.body = kp_buf_str(&b),
		.id = m->last_id,
		.quiet_ns = m->c.list_ns,
		.total_ns = m->c.list_ns,
		.answered = started,
		.ctx = m };
	m->starting = kp_mcp_post_begin(m, &o, &err);
	if (!m->starting) {
		start_failed(m, &err);
	}
}

void kp_mcp_session_end(struct kp_mcp *m)
{
	if (m->session_id) {
		kp_mcp_stray(m, "DELETE", KP_STR_NULL);
	}
}

void kp_mcp_stray(struct kp_mcp *m, const char *method, kp_str body)
{
	struct kp_err ignored;
	const struct kp_mcp_post_opts o = { .method = method,
		.body = body,
		.quiet_ns = 10 * KP_NS_PER_S,
		.total_ns = 10 * KP_NS_PER_S };
	if (m->n_strays < KP_MCP_STRAYS_MAX) {
		(void)!kp_mcp_post_begin(m, &o, &ignored);
	}
}

/* --- the list --- */

static void list_over(struct kp_mcp *m, const struct kp_err *err)
{
	struct kp_list turn, *node;
	kp_mcp_count(m, "tools/list", err ? "failed" : "ok");
	if (err) {
		kp_mcp_tools_unref(m->coming);
	} else {
		kp_mcp_tools_unref(m->tools);
		m->tools = m->coming;
		m->tools_at_ns = kp_loop_now(m->pool->loop);
	}
	m->coming = NULL;
	struct kp_mcp_tools *tools = err ? NULL : kp_mcp_tools_ref(m->tools);
	kp_list_take(&turn, &m->listers);
	while ((node = kp_list_pop(&turn))) {
		kp_mcp_ask_listed(KP_CONTAINER(node, struct kp_mcp_ask, link), tools, err);
	}
	kp_mcp_tools_unref(tools);
}

static void ask_page(struct kp_mcp *m, kp_str cursor);

static void page_came(void *ctx, struct kp_mcp_post *p, const struct kp_mcp_answer *a)
{
	struct kp_mcp *m = ctx;
	struct kp_err err = a->err;
	kp_str cursor;
	struct kp_list *node;
	(void)p;
	m->listing = NULL;
	/* Some servers say 400 of a session that they forgot. */
	bool is_lost = (a->http == 404 || a->http == 400) && m->session_id;
	if (is_lost) {
		kp_mcp_session_lost(m, m->generation);
	}
	if ((is_lost || a->is_unsent) && err.code != KP_OK && !m->is_list_retried) {
		kp_mcp_tools_unref(m->coming);
		m->coming = NULL;
		while ((node = kp_list_pop(&m->listers))) {
			KP_CONTAINER(node, struct kp_mcp_ask, link)->is_retried = true;
			kp_list_push(&m->waiting, node);
		}
		kp_mcp_session_turn(m);
		return;
	}
	if (err.code == KP_OK && a->message->kind == KP_MCP_MESSAGE_ERROR) {
		kp_err_set(&err, KP_FAILED_PRECONDITION, "tools/list: error %lld: %.*s",
			(long long)a->message->code,
			KP_ARG(kp_str_sub(a->message->message, 0, 200)));
	} else if (err.code == KP_OK &&
		   kp_mcp_tools_page(m->coming, a->message->result, &cursor, &err) == 0) {
		if (cursor.n && m->pages < KP_MCP_PAGES_MAX && cursor.n <= 4096) {
			ask_page(m, cursor);
			return;
		}
		if (!cursor.n) {
			list_over(m, NULL);
			return;
		}
		kp_err_set(&err, KP_TOO_LARGE, "tools/list: more than %d pages", KP_MCP_PAGES_MAX);
	}
	kp_err_wrap(&err, "ask the tool server `%" KP_FMT "` for its tools", KP_ARG(m->c.name));
	list_over(m, &err);
}

static void ask_page(struct kp_mcp *m, kp_str cursor)
{
	KP_AUTO(buf) struct kp_buf b;
	struct kp_err err;
	kp_buf_init(&b, 64 << 10);
	m->pages++;
	kp_buf_printf(&b, "{\"jsonrpc\":\"2.0\",\"id\":%llu,\"method\":\"tools/list\",\"params\":{",
		(unsigned long long)++m->last_id);
	if (cursor.n) {
		kp_buf_lit(&b, "\"cursor\":");
		kp_json_w_str(&b, cursor);
	}
	kp_buf_lit(&b, "}}");
	const struct kp_mcp_post_opts o = { .method = "POST",
		.body = kp_buf_str(&b),
		.id = m->last_id,
		.quiet_ns = m->c.list_ns,
		.total_ns = m->c.list_ns,
		.answered = page_came,
		.ctx = m };
	m->listing = kp_mcp_post_begin(m, &o, &err);
	if (!m->listing) {
		list_over(m, &err);
	}
}

void kp_mcp_list_start(struct kp_mcp *m)
{
	m->coming = kp_mcp_tools_begin();
	m->pages = 0;
	m->are_tools_stale = false; /* what is told from here on counts again */
	if (m->has_no_tools) {
		list_over(m, NULL);
	} else {
		ask_page(m, KP_STR_NULL);
	}
}

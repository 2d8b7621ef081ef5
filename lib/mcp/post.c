/* DESIGN: one HTTP request carries one message; its answer is JSON, or an event stream with other messages before it. Each message is read in an arena of
   its own that goes when it has been told of.

   What is told of may cancel the post it came on: is_calling and is_dead put its end off. */
#include "json/write.h"
#include "mcp/internal.h"

#define DRAIN_NS (2 * KP_NS_PER_S)

static void free_post(struct kp_mcp_post *p)
{
	if (p->call) {
		kp_fetch_cancel(p->call);
	}
	p->m->n_strays -= !p->answered;
	p->m->pool->n_posts--;
	kp_list_del(&p->link);
	kp_buf_fini(&p->in);
	kp_sse_fini(&p->sse);
	kp_mem_free(p);
}

void kp_mcp_post_cancel(struct kp_mcp_post *p)
{
	if (p->is_calling) {
		p->is_dead = true;
	} else {
		free_post(p);
	}
}

kp_str kp_mcp_post_header(struct kp_mcp_post *p, const char *name)
{
	return p->call ? kp_fetch_header(p->call, name) : KP_STR_NULL;
}

static void tell(struct kp_mcp_post *p, const struct kp_mcp_answer *a)
{
	if (!p->is_answered && !p->is_dead) {
		p->is_answered = true;
		if (p->answered) {
			p->answered(p->ctx, p, a);
		}
	}
}

/* Something that the server wants of us. */
static void answer_request(struct kp_mcp *m, const struct kp_mcp_message *msg)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 4096);
	kp_buf_lit(&b, "{\"jsonrpc\":\"2.0\",\"id\":");
	if (msg->is_id_string) {
		kp_json_w_str(&b, msg->id);
	} else {
		kp_buf_add(&b, msg->id);
	}
	if (kp_str_eq(msg->method, KP_S("ping"))) {
		kp_buf_lit(&b, ",\"result\":{}}");
	} else {
		kp_buf_lit(&b,
			",\"error\":{\"code\":-32601,\"message\":\"not supported by this client\"}}");
	}
	if (kp_buf_ok(&b)) {
		kp_mcp_stray(m, "POST", kp_buf_str(&b));
	}
}

static void extend(struct kp_mcp_post *p)
{
	int64_t left = p->due_ns - kp_loop_now(p->m->pool->loop);
	if (p->call && left > 0) {
		kp_fetch_extend(p->call, KP_MIN(left, p->quiet_ns));
	}
}

static void take_message(struct kp_mcp_post *p, const struct kp_mcp_message *msg)
{
	if (msg->kind == KP_MCP_MESSAGE_REQUEST) {
		answer_request(p->m, msg);
	} else if (msg->kind == KP_MCP_MESSAGE_NOTIFICATION) {
		if (kp_str_eq(msg->method, KP_S("notifications/tools/list_changed"))) {
			p->m->are_tools_stale = true;
		} else if (kp_str_eq(msg->method, KP_S("notifications/progress")) &&
			   !p->is_answered) {
			uint64_t token;
			const struct kp_jv *t = kp_jv_get(msg->params, KP_S("progressToken"));
			if (t && (t->type == KP_JSON_NUMBER || t->type == KP_JSON_STRING) &&
				kp_str_u64(t->s, UINT64_MAX, &token) && token == p->id) {
				extend(p);
				if (p->progress) {
					p->progress(p->ctx, msg->params);
				}
			}
		}
	} else if (p->id && kp_mcp_message_is_of(msg, p->id)) {
		const struct kp_mcp_answer a = { .http = p->http, .message = msg };
		tell(p, &a);
	}
}

static int take_text(void *ctx, kp_str text, struct kp_err *err)
{
	struct kp_mcp_post *p = ctx;
	KP_AUTO(buf) struct kp_buf clean;
	KP_AUTO(arena) struct kp_arena *arena = NULL;
	const struct kp_mcp_message *msgs;
	size_t n;
	kp_buf_init(&clean, 3 * (size_t)KP_MCP_MESSAGE_MAX);
	if (kp_str_trim(text).n == 0) {
		return 0; /* an event that only keeps the stream alive, or has an id to resume at */
	}
	arena = kp_arena_create(KP_MCP_MESSAGE_ARENA);
	kp_mcp_clean(text, &clean);
	if (kp_buf_finish(&clean, "message", err) ||
		kp_mcp_messages_read(kp_buf_str(&clean), arena, &msgs, &n, err)) {
		return -1;
	}
	for (size_t i = 0; i < n && !p->is_dead; i++) {
		take_message(p, &msgs[i]);
	}
	return 0;
}

/* Nothing more is wanted of it. */
static void fail(struct kp_mcp_post *p, const struct kp_err *err)
{
	const struct kp_mcp_answer a = { .err = *err, .http = p->http };
	tell(p, &a);
	p->is_dead = true;
}

static bool is_type(kp_str type, kp_str want)
{
	ptrdiff_t semicolon = kp_str_find_char(type, ';');
	return kp_str_ieq(
		kp_str_trim(kp_str_sub(type, 0, semicolon < 0 ? type.n : (size_t)semicolon)), want);
}

static void on_head(void *ctx, int status)
{
	struct kp_mcp_post *p = ctx;
	kp_str type = kp_fetch_header(p->call, "Content-Type");
	p->http = status;
	p->is_json = is_type(type, KP_S("application/json"));
	p->is_sse = status == 200 && is_type(type, KP_S("text/event-stream"));
}

static void on_data(void *ctx, kp_str bytes)
{
	struct kp_mcp_post *p = ctx;
	struct kp_err err;
	int rc = 0;
	if (p->is_answered) {
		return;
	}
	p->is_calling = true;
	if (p->is_sse) {
		rc = kp_sse_feed(&p->sse, bytes, &err);
	} else if (p->is_json && p->id) {
		kp_buf_add(&p->in, bytes);
		if (p->in.failed) {
			rc = kp_err_set(&err, KP_TOO_LARGE,
				"the server's answer has more than %d bytes", KP_MCP_MESSAGE_MAX);
		}
	}
	if (rc) {
		fail(p, &err);
	}
	p->is_calling = false;
	if (p->is_dead) {
		free_post(p);
	} else if (p->is_answered) {
		kp_fetch_extend(p->call, DRAIN_NS);
	}
}

static void status_error(int status, struct kp_err *err)
{
	switch (status) {
	case 401:
		kp_err_set(
			err, KP_UNAUTHENTICATED, "the server wants other credentials (HTTP 401)");
		break;
	case 403:
		kp_err_set(err, KP_PERMISSION_DENIED, "the server refuses this (HTTP 403)");
		break;
	case 404:
		kp_err_set(
			err, KP_NOT_FOUND, "the server knows no such session or path (HTTP 404)");
		break;
	case 405:
		kp_err_set(err, KP_UNIMPLEMENTED,
			"there is no MCP over streamable HTTP at this path (HTTP 405)");
		break;
	case 429:
		kp_err_set(
			err, KP_RESOURCE_EXHAUSTED, "the server has too many requests (HTTP 429)");
		break;
	default:
		kp_err_set(err, status >= 500 ? KP_UNAVAILABLE : KP_FAILED_PRECONDITION,
			"the server answers with HTTP %d", status);
		break;
	}
}

/* The text of a JSON-RPC error in the body of a refusal. */
static void add_reason(struct kp_mcp_post *p, struct kp_err *err)
{
	KP_AUTO(arena) struct kp_arena *arena = kp_arena_create(KP_MCP_MESSAGE_ARENA);
	KP_AUTO(buf) struct kp_buf clean;
	const struct kp_mcp_message *msgs;
	struct kp_err ignored;
	size_t n;
	kp_buf_init(&clean, 3 * (size_t)KP_MCP_MESSAGE_MAX);
	kp_mcp_clean(kp_buf_str(&p->in), &clean);
	if (p->is_json && p->in.n && kp_buf_ok(&clean) &&
		kp_mcp_messages_read(kp_buf_str(&clean), arena, &msgs, &n, &ignored) == 0 &&
		n == 1 && msgs[0].kind == KP_MCP_MESSAGE_ERROR && msgs[0].message.n) {
		struct kp_err before = *err;
		kp_err_set(err, before.code, "%s: %.*s", before.msg,
			KP_ARG(kp_str_sub(msgs[0].message, 0, 200)));
	}
}

static void conclude(struct kp_mcp_post *p, const struct kp_fetch_result *r)
{
	struct kp_mcp_answer a = { .err = r->err, .http = r->status, .is_unsent = r->is_unsent };
	if (a.err.code == KP_OK && (r->status < 200 || r->status > 299)) {
		status_error(r->status, &a.err);
		add_reason(p, &a.err);
	} else if (a.err.code == KP_OK && p->id) {
		if (p->is_json && p->in.n && take_text(p, kp_buf_str(&p->in), &a.err)) {
			tell(p, &a);
			return;
		}
		/* whoever was told by take_text is not told again */
		kp_err_set(&a.err, KP_DATA_LOSS, "the server's answer %s (HTTP %d)",
			p->is_sse    ? "is a stream that ended without a result"
			: p->is_json ? "does not belong to this request"
				     : "is neither JSON nor an event stream",
			r->status);
	}
	tell(p, &a);
}

static void on_done(void *ctx, const struct kp_fetch_result *r)
{
	struct kp_mcp_post *p = ctx;
	p->is_calling = true;
	if (!p->is_answered) {
		conclude(p, r);
	}
	p->call = NULL; /* it is gone after this */
	p->is_calling = false;
	free_post(p);
}

/* --- */

enum { OWN_HEADERS = 5 };

static size_t set_headers(struct kp_mcp *m, struct kp_fetch_header *h)
{
	size_t n = 0;
	h[n++] = (struct kp_fetch_header){ KP_S("Content-Type"), KP_S("application/json") };
	h[n++] = (struct kp_fetch_header){ KP_S("Accept"),
		KP_S("application/json, text/event-stream") };
	if (m->version) {
		h[n++] = (struct kp_fetch_header){ KP_S("MCP-Protocol-Version"),
			kp_str_c(m->version) };
	}
	if (m->session_id) {
		h[n++] =
			(struct kp_fetch_header){ KP_S("Mcp-Session-Id"), kp_str_c(m->session_id) };
	}
	for (size_t i = 0; i < m->c.n_headers && n < KP_MCP_HEADERS_MAX + OWN_HEADERS; i++) {
		h[n++] = m->c.headers[i];
	}
	return n;
}

struct kp_mcp_post *kp_mcp_post_begin(
	struct kp_mcp *m, const struct kp_mcp_post_opts *o, struct kp_err *err)
{
	struct kp_fetch_header headers[KP_MCP_HEADERS_MAX + OWN_HEADERS];
	struct kp_mcp_pool *pool = m->pool;
	if (pool->n_posts >= pool->max_posts) {
		kp_err_set(err, KP_RESOURCE_EXHAUSTED,
			"more than %zu requests to tool servers at once", pool->max_posts);
		return NULL;
	}
	struct kp_mcp_post *p = kp_new(struct kp_mcp_post);
	pool->n_posts++;
	p->m = m;
	p->id = o->id;
	p->quiet_ns = o->quiet_ns;
	p->due_ns = kp_loop_now(m->pool->loop) + o->total_ns;
	p->answered = o->answered;
	p->progress = o->progress;
	p->ctx = o->ctx;
	kp_buf_init(&p->in, KP_MCP_MESSAGE_MAX);
	kp_sse_init(&p->sse, KP_MCP_MESSAGE_MAX, take_text, p);
	kp_list_push(&m->posts, &p->link);
	m->n_strays += !p->answered;
	const struct kp_fetch_request r = { .method = o->method,
		.url = m->c.url,
		.body = o->body,
		.headers = headers,
		.n_headers = set_headers(m, headers),
		.connect_ns = m->c.connect_ns,
		.first_byte_ns = o->total_ns,
		.total_ns = KP_MIN(o->quiet_ns, o->total_ns),
		.max_bytes = 16 * (uint64_t)KP_MCP_MESSAGE_MAX,
		.max_redirects = 2,
		.same_origin = true,
		.once = true,
		.head = on_head,
		.data = on_data,
		.done = on_done,
		.ctx = p };
	p->call = kp_fetch_send(m->fetch, &r, err);
	if (!p->call) {
		free_post(p);
		return NULL;
	}
	return p;
}

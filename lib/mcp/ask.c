/* DESIGN: an ask is in one of its session's lists (waiting, sent, listers, failed) until it is over, and over means that `done` is called and it is
   freed, or that it is cancelled. */
#include "json/write.h"
#include "mcp/internal.h"

/* Whoever is told of it may ask the next thing at once: it does not count any more. */
static void take_out(struct kp_mcp_ask *a)
{
	kp_list_del(&a->link);
	a->is_calling = true;
	a->m->n_asks--;
}

/* Of one that was taken out. */
static void free_ask(struct kp_mcp_ask *a)
{
	if (a->post) {
		kp_mcp_post_cancel(a->post);
	}
	kp_mem_free(a->tool);
	kp_mem_free(a->arguments);
	kp_mem_free(a);
}

void kp_mcp_ask_listed(struct kp_mcp_ask *a, const struct kp_mcp_tools *t, const struct kp_err *err)
{
	take_out(a);
	a->listed(a->ctx, t, err);
	free_ask(a);
}

/* --- calls --- */

static void called(struct kp_mcp_ask *a, const struct kp_mcp_result *r)
{
	static const char *const names[] = { [KP_MCP_OK] = "ok",
		[KP_MCP_TOOL_ERROR] = "tool_error",
		[KP_MCP_PROTOCOL_ERROR] = "protocol_error",
		[KP_MCP_FAILED] = "failed" };
	struct kp_mcp *m = a->m;
	const struct kp_label label = { "server", m->c.series };
	kp_mcp_count(m, "tools/call", names[r->outcome]);
	kp_histogram_observe(kp_metrics_histogram(m->pool->opts.metrics, "kelpie_mcp_call_seconds",
				     "How long calls of tools took.", kp_bounds_seconds,
				     KP_LEN(kp_bounds_seconds), &label, 1),
		(double)(kp_loop_now(m->pool->loop) - a->began_ns) / (double)KP_NS_PER_S);
	take_out(a);
	a->call.done(a->ctx, r);
	free_ask(a);
}

void kp_mcp_ask_failed(struct kp_mcp_ask *a, enum kp_mcp_outcome outcome, const struct kp_err *err,
	bool may_have_run)
{
	KP_AUTO(buf) struct kp_buf text;
	kp_buf_init(&text, 4096);
	if (a->listed) {
		kp_mcp_ask_listed(a, NULL, err);
		return;
	}
	kp_mcp_text_add(&text, kp_str_c(err->msg));
	if (may_have_run) {
		kp_buf_lit(&text, " (the tool may have run all the same)");
	}
	const struct kp_mcp_result r = { .outcome = outcome,
		.output = kp_buf_str(&text),
		.err = *err,
		.code = a->code,
		.may_have_run = may_have_run };
	called(a, &r);
}

static void take_result(struct kp_mcp_ask *a, const struct kp_jv *result)
{
	KP_AUTO(buf) struct kp_buf text;
	struct kp_mcp_text t = { 0 };
	struct kp_mcp_result r = { .outcome = KP_MCP_OK };
	kp_buf_init(&text, a->m->c.max_output_bytes * 3 + 256);
	if (kp_mcp_result_text(result, a->m->c.max_output_bytes, &text, &t, &r.err)) {
		kp_mcp_ask_failed(a, KP_MCP_FAILED, &r.err, true);
		return;
	}
	r.output = kp_buf_str(&text);
	r.is_cut = t.is_cut;
	if (t.is_error) {
		r.outcome = KP_MCP_TOOL_ERROR;
		kp_err_set(&r.err, KP_UNKNOWN, "%.*s", KP_ARG(kp_str_sub(r.output, 0, 300)));
	}
	called(a, &r);
}

static bool may_ask_again(struct kp_mcp_ask *a, const struct kp_mcp_answer *r)
{
	bool is_lost = r->http == 404 && a->m->session_id;
	if (is_lost) {
		kp_mcp_session_lost(a->m, a->generation);
	}
	/* Also when somebody else found out before: the session is another one by now, or none. */
	is_lost = is_lost || (r->http == 404 && a->generation != a->m->generation);
	return !a->is_retried && (is_lost || (r->is_unsent && r->err.code == KP_UNAVAILABLE));
}

static void send_cancelled(struct kp_mcp *m, uint64_t id, const char *why)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 256);
	kp_buf_printf(&b,
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":%llu,\"reason\":\"%s\"}}",
		(unsigned long long)id, why);
	kp_mcp_stray(m, "POST", kp_buf_str(&b));
}

static void answered(void *ctx, struct kp_mcp_post *p, const struct kp_mcp_answer *r)
{
	struct kp_mcp_ask *a = ctx;
	struct kp_mcp *m = a->m;
	struct kp_err err = r->err;
	a->post = NULL;
	if (err.code == KP_OK && r->message->kind == KP_MCP_MESSAGE_RESULT) {
		take_result(a, r->message->result);
		return;
	}
	if (err.code == KP_OK) {
		kp_err_set(&err, KP_FAILED_PRECONDITION, "error %lld: %.*s",
			(long long)r->message->code,
			KP_ARG(kp_str_sub(r->message->message, 0, 340)));
		a->code = r->message->code;
		kp_mcp_ask_failed(a, KP_MCP_PROTOCOL_ERROR, &err, false);
		return;
	}
	if (may_ask_again(a, r)) {
		a->is_retried = true;
		kp_list_del(&a->link);
		kp_list_push(&m->waiting, &a->link);
		kp_mcp_session_turn(m);
		return;
	}
	if (r->http == 400 && m->session_id) {
		/* Some servers say so of a session that they forgot, others of anything: not asked again, but the next one begins anew. */
		kp_mcp_session_lost(m, a->generation);
	}
	if (err.code == KP_DEADLINE_EXCEEDED && !r->is_unsent) {
		send_cancelled(m, p->id, "it took too long");
	}
	kp_err_wrap(&err, "call the tool `%s`", a->tool);
	kp_mcp_ask_failed(a, KP_MCP_FAILED, &err,
		!r->is_unsent &&
			(r->http == 0 || (r->http >= 200 && r->http <= 299) || r->http >= 500));
}

static void on_progress(void *ctx, const struct kp_jv *params)
{
	struct kp_mcp_ask *a = ctx;
	KP_AUTO(buf) struct kp_buf text;
	const struct kp_jv *done = kp_jv_get(params, KP_S("progress")),
			   *total = kp_jv_get(params, KP_S("total"));
	double d = 0, t = -1;
	kp_buf_init(&text, KP_MCP_ERROR_MAX * 3);
	if (!a->call.progress) {
		return;
	}
	if (!kp_jv_is(done, KP_JSON_NUMBER) || !kp_str_f64(done->s, &d)) {
		return;
	}
	if (!kp_jv_is(total, KP_JSON_NUMBER) || !kp_str_f64(total->s, &t)) {
		t = -1;
	}
	kp_mcp_text_add(&text, kp_str_sub(kp_jv_str(params, KP_S("message")), 0, KP_MCP_ERROR_MAX));
	a->call.progress(a->ctx, d, t, kp_buf_str(&text)); /* which may cancel it */
}

static int check_arguments(const struct kp_mcp_ask *a, struct kp_err *err)
{
	enum kp_json_type type = KP_JSON_OBJECT;
	KP_AUTO(arena) struct kp_arena *arena = kp_arena_create(1 << 20);
	kp_str text = kp_str_c(a->arguments);
	if (text.n && kp_json_check(text, arena, &type, err)) {
		return kp_err_wrap(err, "the arguments");
	}
	return type == KP_JSON_OBJECT
		       ? 0
		       : kp_err_set(err, KP_INVALID_ARGUMENT, "the arguments are no JSON object");
}

void kp_mcp_ask_send(struct kp_mcp_ask *a)
{
	KP_AUTO(buf) struct kp_buf b;
	struct kp_mcp *m = a->m;
	struct kp_err err;
	size_t n = strlen(a->arguments);
	kp_buf_init(&b, n + 8192);
	kp_buf_printf(&b,
		"{\"jsonrpc\":\"2.0\",\"id\":%llu,\"method\":\"tools/call\",\"params\":{\"_meta\":{\"progressToken\":%llu},\"name\":",
		(unsigned long long)m->last_id + 1, (unsigned long long)m->last_id + 1);
	m->last_id++;
	kp_json_w_str(&b, kp_str_c(a->tool));
	kp_buf_lit(&b, ",\"arguments\":");
	kp_buf_add(&b, n ? kp_str_n(a->arguments, n) : KP_S("{}"));
	kp_buf_lit(&b, "}}");
	const struct kp_mcp_post_opts o = { .method = "POST",
		.body = kp_buf_str(&b),
		.id = m->last_id,
		.quiet_ns = m->c.call_ns,
		.total_ns = m->c.call_total_ns,
		.answered = answered,
		.progress = on_progress,
		.ctx = a };
	kp_list_push(&m->sent, &a->link);
	a->generation = m->generation;
	if (kp_buf_finish(&b, "call", &err) || !(a->post = kp_mcp_post_begin(m, &o, &err))) {
		kp_err_wrap(&err, "call the tool `%s`", a->tool);
		kp_mcp_ask_failed(a, KP_MCP_FAILED, &err, false);
	}
}

/* --- the end of the turn --- */

static void turn(struct kp_defer *d)
{
	struct kp_mcp *m = KP_CONTAINER(d, struct kp_mcp, turn);
	struct kp_list *node, now;
	kp_list_take(&now, &m->failed);
	while ((node = kp_list_pop(&now))) {
		struct kp_mcp_ask *a = KP_CONTAINER(node, struct kp_mcp_ask, link);
		struct kp_err err = a->failed;
		kp_mcp_ask_failed(a, a->outcome, &err, false);
	}
	if (m->state == KP_MCP_NONE && !kp_list_empty(&m->waiting)) {
		kp_mcp_session_start(m);
	}
	if (m->state != KP_MCP_READY) {
		return;
	}
	bool is_fresh = m->tools && !m->are_tools_stale &&
			kp_loop_now(m->pool->loop) - m->tools_at_ns < m->c.list_ttl_ns;
	bool is_again = false;
	kp_list_take(&now, &m->waiting);
	while ((node = kp_list_pop(&now))) {
		struct kp_mcp_ask *a = KP_CONTAINER(node, struct kp_mcp_ask, link);
		if (!a->listed) {
			kp_mcp_ask_send(a);
		} else if (is_fresh) {
			kp_mcp_ask_listed(a, m->tools, NULL);
		} else {
			kp_list_push(&m->listers, &a->link);
			is_again = is_again || a->is_retried;
		}
	}
	if (!kp_list_empty(&m->listers) && !m->coming) {
		m->is_list_retried = is_again;
		kp_mcp_list_start(m);
	}
}

void kp_mcp_session_turn(struct kp_mcp *m)
{
	kp_loop_defer(m->pool->loop, &m->turn, turn);
}

static struct kp_mcp_ask *ask(struct kp_mcp *m, void *ctx)
{
	struct kp_mcp_ask *a = kp_new(struct kp_mcp_ask);
	kp_assert_on(m->pool->loop);
	a->m = m;
	a->ctx = ctx;
	a->began_ns = kp_loop_now(m->pool->loop);
	if (++m->n_asks > KP_MCP_ASKS_MAX) {
		kp_err_set(&a->failed, KP_RESOURCE_EXHAUSTED,
			"the tool server `%" KP_FMT "` is asked %d things already",
			KP_ARG(m->c.name), KP_MCP_ASKS_MAX);
		a->outcome = KP_MCP_FAILED;
	}
	return a;
}

static struct kp_mcp_ask *put(struct kp_mcp_ask *a)
{
	kp_list_push(a->failed.code == KP_OK ? &a->m->waiting : &a->m->failed, &a->link);
	kp_mcp_session_turn(a->m);
	return a;
}

struct kp_mcp_ask *kp_mcp_list(struct kp_mcp *m, kp_mcp_listed_fn *done, void *ctx)
{
	struct kp_mcp_ask *a = ask(m, ctx);
	a->listed = done;
	return put(a);
}

struct kp_mcp_ask *kp_mcp_call(struct kp_mcp *m, const struct kp_mcp_call *call)
{
	struct kp_mcp_ask *a = ask(m, call->ctx);
	a->call = *call;
	a->tool = kp_str_z(call->tool);
	a->arguments = kp_str_z(call->arguments);
	if (a->failed.code == KP_OK && check_arguments(a, &a->failed)) {
		a->outcome = KP_MCP_PROTOCOL_ERROR;
		a->code = -32602;
	}
	return put(a);
}

void kp_mcp_cancel(struct kp_mcp_ask *a)
{
	struct kp_mcp *m = a->m;
	if (a->is_calling) {
		return; /* in `done`: it is over anyway */
	}
	if (!a->listed) {
		kp_mcp_count(m, "tools/call", "cancelled");
	}
	if (a->post) {
		send_cancelled(m, a->post->id, "the caller gave it up");
	}
	take_out(a);
	free_ask(a);
}

/* DESIGN: a table of routes. GET handlers answer inside the call; POST bodies are collected into
   one buffer (announced sizes are refused by the server before a byte is read) and the handler runs
   when it is complete. */
#include "sidecar/api/http.h"

#include "base/mem.h"
#include "base/rand.h"
#include "sidecar/control/control.h"
#include "sidecar/flow/flow.h"
#include "sidecar/history/history.h"
#include "sidecar/metrics.h"

static const struct kp_route routes[] = {
	{ KP_S_INIT("POST"), KP_S_INIT("/v1/chat/completions"), "chat", NULL, kp_api_chat },
	{ KP_S_INIT("POST"), KP_S_INIT("/v1/completions"), "completions", NULL,
		kp_api_completions },
	{ KP_S_INIT("POST"), KP_S_INIT("/v1/responses"), "responses", NULL, kp_api_responses },
	{ KP_S_INIT("POST"), KP_S_INIT("/v1/messages"), "messages", NULL, kp_api_messages },
	{ KP_S_INIT("POST"), KP_S_INIT("/v1/messages/count_tokens"), "count_tokens", NULL,
		kp_api_count_tokens },
	{ KP_S_INIT("POST"), KP_S_INIT("/generate"), "generate", NULL, kp_api_generate },
	{ KP_S_INIT("GET"), KP_S_INIT("/v1/models"), NULL, kp_api_models, NULL },
	{ KP_S_INIT("POST"), KP_S_INIT("/v1/tokenize"), "tokenize", NULL, kp_api_tokenize },
	{ KP_S_INIT("POST"), KP_S_INIT("/tokenize"), "tokenize", NULL, kp_api_tokenize },
	{ KP_S_INIT("POST"), KP_S_INIT("/v1/detokenize"), "detokenize", NULL, kp_api_detokenize },
	{ KP_S_INIT("POST"), KP_S_INIT("/detokenize"), "detokenize", NULL, kp_api_detokenize },
	{ KP_S_INIT("GET"), KP_S_INIT("/livez"), NULL, kp_api_livez, NULL },
	{ KP_S_INIT("GET"), KP_S_INIT("/readyz"), NULL, kp_api_readyz, NULL },
	{ KP_S_INIT("GET"), KP_S_INIT("/health"), NULL, kp_api_readyz, NULL },
};
static const kp_str models_prefix = KP_S_INIT("/v1/models/");
static const kp_str responses_prefix = KP_S_INIT("/v1/responses/");
/* Their paths are the prefix, an id, and (items) what stands here. */
static const struct kp_route response_routes[] = {
	{ KP_S_INIT("GET"), KP_S_INIT(""), "responses_get", NULL, kp_api_response },
	{ KP_S_INIT("DELETE"), KP_S_INIT(""), "responses_delete", NULL, kp_api_response },
	{ KP_S_INIT("GET"), KP_S_INIT("/input_items"), "responses_items", NULL,
		kp_api_response_items },
};

/* By the path alone, so that whatever goes wrong is said in it. */
static enum kp_dialect dialect_of(kp_str path)
{
	kp_str messages = KP_S("/v1/messages");
	return kp_str_starts(path, messages) && (path.n == messages.n || path.p[messages.n] == '/')
		       ? KP_DIALECT_ANTHROPIC
		       : KP_DIALECT_OPENAI;
}

void kp_api_json(struct kp_stream *s, const struct kp_buf *body)
{
	const struct kp_header header = { KP_S("content-type"), KP_S("application/json") };
	struct kp_err err;
	if (kp_buf_finish(body, "answer", &err)) {
		kp_error_reply(s, KP_DIALECT_OPENAI, &err, KP_STR_NULL);
		return;
	}
	kp_stream_reply(s, 200, &header, 1, kp_buf_str(body));
}

void kp_api_livez(struct kp_gwloop *l, struct kp_stream *s, const struct kp_http_request *r)
{
	(void)l;
	(void)r;
	const struct kp_header header = { KP_S("content-type"), KP_S("text/plain") };
	kp_stream_reply(s, 200, &header, 1, KP_S("ok\n"));
}

void kp_api_readyz(struct kp_gwloop *l, struct kp_stream *s, const struct kp_http_request *r)
{
	const struct kp_header header = { KP_S("content-type"), KP_S("text/plain") };
	KP_AUTO(buf) struct kp_buf out;
	kp_buf_init(&out, 1 << 20);
	bool ready = kp_control_ready(
		l->gateway->control, kp_str_starts(r->query, KP_S("verbose")), &out);
	kp_stream_reply(s, ready ? 200 : 503, &header, 1, kp_buf_str(&out));
}

/* Answers a call whose body is not complete: the rest of it is not wanted. */
static void refuse_body(struct kp_api_call *c, const struct kp_err *err)
{
	c->is_refused = true;
	kp_list_del(&c->link);
	kp_metrics_refused(c->l->gateway, c->route->api, kp_error_status(c->dialect, err->code));
	kp_buf_fini(&c->body);
	kp_error_reply(c->stream, c->dialect, err, c->request_id);
}

void kp_api_fail_calls(struct kp_gwloop *l, const struct kp_err *err)
{
	kp_list_each_safe (node, &l->calls) {
		refuse_body(KP_CONTAINER(node, struct kp_api_call, link), err);
	}
}

static void on_data(void *user, kp_str piece)
{
	struct kp_api_call *c = user;
	struct kp_gateway *g = c->l->gateway;
	if (c->is_refused) {
		return;
	}
	c->held += piece.n;
	long long total = atomic_fetch_add(&g->body_bytes, (long long)piece.n) + (long long)piece.n;
	if (total > g->config.max_body_total) {
		struct kp_err err;
		kp_err_set(&err, KP_RESOURCE_EXHAUSTED,
			"the bodies of all requests together exceed %u bytes",
			g->config.max_body_total);
		err.reason = "too_many_requests";
		refuse_body(c, &err);
	}
}

static void on_end(void *user)
{
	struct kp_api_call *c = user;
	struct kp_err err;
	if (c->is_refused) {
		return;
	}
	kp_list_del(&c->link);
	if (kp_buf_finish(&c->body, "request body", &err)) {
		err.code = KP_TOO_LARGE;
		kp_error_reply(c->stream, c->dialect, &err, c->request_id);
		return;
	}
	c->route->post(c);
}

static void on_writable(void *user)
{
	struct kp_api_call *c = user;
	if (c->flow) {
		kp_flow_writable(c->flow);
	}
}

static void on_closed(void *user, enum kp_stream_end why)
{
	struct kp_api_call *c = user;
	if (c->flow) {
		kp_flow_closed(c->flow, why);
	}
	atomic_fetch_sub(&c->l->gateway->in_flight, 1);
	atomic_fetch_sub(&c->l->gateway->body_bytes, (long long)c->held);
	kp_list_del(&c->link);
	kp_gwloop_drop(c->l, &c->body);
	kp_mem_free(c);
}

static const struct kp_stream_ops call_ops = { on_data, on_end, on_writable, on_closed };

static bool is_json_type(kp_str type)
{
	kp_str media;
	if (!kp_str_split(&type, ';', &media)) {
		return true; /* none given */
	}
	media = kp_str_trim(media);
	return kp_str_ieq(media, KP_S("application/json")) || kp_str_ends(media, KP_S("+json"));
}

/* A client's request id becomes ours if it can stand in a log line and a header: letters, digits,
 * `-_.:`, at most 128. */
static kp_str client_request_id(const struct kp_http_request *r)
{
	kp_str id = kp_header_get(r->headers, r->n_headers, KP_S("x-request-id"));
	for (size_t i = 0; i < id.n; i++) {
		char c = kp_lower(id.p[i]);
		if (!kp_is_digit(c) && !(c >= 'a' && c <= 'z') && c != '-' && c != '_' &&
			c != '.' && c != ':') {
			return KP_STR_NULL;
		}
	}
	return id.n && id.n <= 128 ? id : KP_STR_NULL;
}

/* The name of the request: Anthropic's has one in any case, made into `own`. */
static kp_str request_id(const struct kp_http_request *r, enum kp_dialect d, char own[32])
{
	kp_str id = client_request_id(r);
	if (id.n || d != KP_DIALECT_ANTHROPIC) {
		return id;
	}
	memcpy(own, "req_", 4);
	kp_random_id(own + 4, 24);
	return kp_str_c(own);
}

static void refuse(struct kp_stream *s, const struct kp_http_request *r, enum kp_dialect d,
	const struct kp_err *err)
{
	char own[32];
	kp_error_reply(s, d, err, request_id(r, d, own));
}

bool kp_api_refuse(
	struct kp_stream *s, const struct kp_http_request *r, int status, const char *text)
{
	enum kp_dialect d = dialect_of(r->path);
	enum kp_code code = status == 408   ? KP_DEADLINE_EXCEEDED
			    : status == 413 ? KP_TOO_LARGE
					    : KP_INVALID_ARGUMENT;
	struct kp_err err;
	char own[32];
	if (d != KP_DIALECT_ANTHROPIC) {
		return false;
	}
	kp_err_set(&err, code, "%s", text);
	kp_error_reply_as(s, d, status, &err, request_id(r, d, own));
	return true;
}

/* 0, or the content type or coding of the body cannot be read. */
static int check_content(const struct kp_http_request *r, struct kp_err *err)
{
	if (!is_json_type(kp_header_get(r->headers, r->n_headers, KP_S("content-type")))) {
		return kp_err_set(
			err, KP_UNSUPPORTED_MEDIA, "the content type must be application/json");
	}
	kp_str coding = kp_header_get(r->headers, r->n_headers, KP_S("content-encoding"));
	return coding.n && !kp_str_ieq(coding, KP_S("identity"))
		       ? kp_err_set(err, KP_UNSUPPORTED_MEDIA,
				 "compressed request bodies are not supported")
		       : 0;
}

static kp_str tenant_of(const struct kp_gateway *g, const struct kp_http_request *r)
{
	return g->config.tenant_header
		       ? kp_header_get(r->headers, r->n_headers, kp_str_c(g->config.tenant_header))
		       : KP_STR_NULL;
}

static int check_tenant(
	const struct kp_gateway *g, const struct kp_http_request *r, struct kp_err *err)
{
	const char *name = g->config.tenant_header;
	size_t n = 0;
	for (size_t i = 0; name && i < r->n_headers; i++) {
		n += kp_str_ieq(r->headers[i].name, kp_str_c(name));
	}
	if (n > 1) { /* one of them may be the client's own */
		return kp_err_set(
			err, KP_INVALID_ARGUMENT, "header `%s`: is there %zu times", name, n);
	}
	return tenant_of(g, r).n > KP_HISTORY_MAX_TENANT
		       ? kp_err_set(err, KP_INVALID_ARGUMENT, "header `%s`: has more than %d bytes",
				 name, KP_HISTORY_MAX_TENANT)
		       : 0;
}

static void start_post(struct kp_gwloop *l, struct kp_stream *s, const struct kp_http_request *r,
	const struct kp_route *route)
{
	struct kp_err err;
	enum kp_dialect d = dialect_of(r->path);
	struct kp_gateway *g = l->gateway;
	if (check_content(r, &err) || check_tenant(g, r, &err)) {
		refuse(s, r, d, &err);
		return;
	}
	if ((uint32_t)atomic_fetch_add(&g->in_flight, 1) >= g->config.max_requests) {
		atomic_fetch_sub(&g->in_flight, 1);
		kp_err_set(&err, KP_RESOURCE_EXHAUSTED, "too many requests in flight (at most %u)",
			g->config.max_requests);
		err.reason = "too_many_requests";
		kp_metrics_refused(g, route->api, kp_error_status(d, err.code));
		refuse(s, r, d, &err);
		return;
	}
	struct kp_api_call *c = kp_new(struct kp_api_call);
	c->l = l;
	c->stream = s;
	c->route = route;
	c->dialect = d;
	c->request_id = request_id(r, d, c->own_id);
	c->request = r;
	c->tenant = tenant_of(g, r);
	kp_buf_init(&c->body, l->gateway->config.max_body_bytes);
	kp_list_push(&l->calls, &c->link);
	kp_stream_accept(s, &call_ops, c);
	kp_stream_collect(s, &c->body); /* the server holds the limit of one body */
}

/* false: it is no path of a kept response. */
static bool response_request(struct kp_gwloop *l, struct kp_stream *s,
	const struct kp_http_request *r, kp_str method, bool *is_known)
{
	if (!kp_str_starts(r->path, responses_prefix)) {
		return false;
	}
	kp_str rest = kp_str_skip(r->path, responses_prefix.n), id;
	kp_str_split(&rest, '/', &id);
	rest = rest.p ? kp_str_skip(r->path, responses_prefix.n + id.n) : KP_S("");
	for (size_t i = 0; i < KP_LEN(response_routes) && id.n; i++) {
		if (!kp_str_eq(response_routes[i].path, rest)) {
			continue;
		}
		*is_known = true;
		if (kp_str_eq(response_routes[i].method, method)) {
			start_post(l, s, r, &response_routes[i]);
			return true;
		}
	}
	return false;
}

void kp_api_request(void *ctx, struct kp_stream *s, const struct kp_http_request *r)
{
	struct kp_gwloop *l = ctx;
	struct kp_err err;
	bool is_head = kp_str_eq(r->method, KP_S("HEAD")), is_known = false;
	kp_str method = is_head ? KP_S("GET") : r->method;
	for (size_t i = 0; i < KP_LEN(routes); i++) {
		if (!kp_str_eq(routes[i].path, r->path)) {
			continue;
		}
		is_known = true;
		if (!kp_str_eq(routes[i].method, method)) {
			continue;
		}
		if (routes[i].get) {
			routes[i].get(l, s, r);
		} else {
			start_post(l, s, r, &routes[i]);
		}
		return;
	}
	if (kp_str_starts(r->path, models_prefix) && kp_str_eq(method, KP_S("GET"))) {
		kp_api_model(l, s, r);
		return;
	}
	if (response_request(l, s, r, r->method, &is_known)) {
		return;
	}
	kp_err_set(&err, is_known ? KP_METHOD_NOT_ALLOWED : KP_NOT_FOUND,
		is_known ? "method `%" KP_FMT "` is not allowed for `%" KP_FMT "`"
			 : "no such path: `%" KP_FMT " %" KP_FMT "`",
		KP_ARG(kp_str_sub(r->method, 0, 32)), KP_ARG(kp_str_sub(r->path, 0, 200)));
	refuse(s, r, dialect_of(r->path), &err);
}

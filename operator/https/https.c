/* DESIGN: the thread's life, and a table of routes. A call is the stream's: it goes when the stream is closed, and what it still
   waits for is cancelled then. */
#include "operator/https/internal.h"

#include "base/clock.h"
#include "inject/review.h"
#include "json/write.h"
#include "kube/version.h"
#include "net/tls.h"
#include "operator/trust/authority.h"

#include <stdlib.h>

enum {
	CONNECTIONS_MAX = 1024,
	BODIES_MAX = 64 << 20,
	ADDRESS_BURST = 100,
	POD_BURST = 10,
};
#define ADDRESS_EVERY_NS (KP_NS_PER_S / 10)
#define POD_EVERY_NS     (6 * KP_NS_PER_S)
#define LOG_TLS_NS       KP_NS_PER_S

/* --- requests --- */

static void count(struct kp_https_call *c, int status)
{
	char code[8];
	snprintf(code, sizeof(code), "%d", status);
	const struct kp_label labels[] = { { "path", c->route->path }, { "code", kp_str_c(code) } };
	kp_counter_add(
		kp_metrics_counter(c->h->opts.metrics, "kelpie_operator_https_requests_total",
			"Requests to the HTTPS listener, by path and status.", labels,
			KP_LEN(labels)),
		1);
}

void kp_https_reply(struct kp_https_call *c, int status, const char *type, kp_str body)
{
	const struct kp_header headers[] = { { KP_S("content-type"), kp_str_c(type) },
		{ KP_S("retry-after"), KP_S("1") } };
	bool comes_again = status == 429 || status == 503;
	c->is_answered = true;
	count(c, status);
	kp_stream_reply(c->stream, status, headers, comes_again ? 2 : 1, body);
}

static void reply_error(struct kp_stream *s, const struct kp_err *err)
{
	const struct kp_header type = { KP_S("content-type"), KP_S("application/json") };
	KP_AUTO(buf) struct kp_buf out;
	kp_buf_init(&out, 16384);
	kp_json_w_err(&out, err);
	kp_stream_reply(s, kp_code_http(err->code), &type, 1, kp_buf_str(&out));
}

void kp_https_fail(struct kp_https_call *c, const struct kp_err *err)
{
	KP_AUTO(buf) struct kp_buf out;
	kp_buf_init(&out, 16384);
	kp_json_w_err(&out, err);
	kp_https_reply(c, kp_code_http(err->code), "application/json", kp_buf_str(&out));
}

static void on_livez(struct kp_https_call *c)
{
	kp_https_reply(c, 200, "text/plain; charset=utf-8", KP_S("ok\n"));
}

static void on_readyz(struct kp_https_call *c)
{
	bool is_ready = kp_https_is_ready(c->h);
	kp_https_reply(c, is_ready ? 200 : 503, "text/plain; charset=utf-8",
		is_ready ? KP_S("ok\n")
			 : KP_S("not ready: the authority, engines or pools are not known yet\n"));
}

static const struct kp_https_route routes[] = {
	{ KP_S_INIT("POST"), KP_S_INIT("/inject"), KP_REVIEW_MAX_BYTES, kp_https_inject },
	{ KP_S_INIT("POST"), KP_S_INIT("/certificates"), KP_PKI_REQUEST_MAX,
		kp_https_certificates },
	{ KP_S_INIT("GET"), KP_S_INIT("/livez"), 0, on_livez },
	{ KP_S_INIT("GET"), KP_S_INIT("/readyz"), 0, on_readyz },
};

static void on_data(void *user, kp_str piece)
{
	struct kp_https_call *c = user;
	struct kp_err err;
	if (c->is_answered) {
		return;
	}
	c->held += piece.n;
	c->h->body_bytes += piece.n;
	if (c->body.n + piece.n > c->route->max_body) {
		kp_err_set(
			&err, KP_TOO_LARGE, "the body has more than %zu bytes", c->route->max_body);
		kp_https_fail(c, &err);
	} else if (c->h->body_bytes > BODIES_MAX) {
		kp_err_set(&err, KP_RESOURCE_EXHAUSTED,
			"the bodies of all requests together exceed %d bytes", BODIES_MAX);
		kp_https_fail(c, &err);
	} else {
		kp_buf_add(&c->body, piece);
	}
}

static void on_end(void *user)
{
	struct kp_https_call *c = user;
	struct kp_err err;
	if (c->is_answered) {
		return;
	}
	if (kp_buf_finish(&c->body, "request body", &err)) {
		kp_https_fail(c, &err);
	} else {
		c->route->run(c);
	}
}

static void on_writable(void *user)
{
	(void)user;
}

static void on_closed(void *user, enum kp_stream_end why)
{
	struct kp_https_call *c = user;
	(void)why;
	kp_https_certificates_closed(c);
	c->h->body_bytes -= c->held;
	kp_buf_fini(&c->body);
	kp_mem_free(c);
}

static void accept_call(struct kp_https *h, struct kp_stream *s, const struct kp_http_request *r,
	const struct kp_https_route *route)
{
	static const struct kp_stream_ops ops = { on_data, on_end, on_writable, on_closed };
	struct kp_https_call *c = kp_new(struct kp_https_call);
	struct kp_err err;
	*c = (struct kp_https_call){ .h = h, .stream = s, .request = r, .route = route };
	kp_buf_init(&c->body, route->max_body);
	kp_stream_accept(s, &ops, c);
	if (route->run == kp_https_certificates && kp_https_certificates_begin(c, &err)) {
		kp_https_fail(c, &err);
	}
}

static void on_request(void *ctx, struct kp_stream *s, const struct kp_http_request *r)
{
	struct kp_https *h = ctx;
	struct kp_err err;
	bool is_known = false;
	for (size_t i = 0; i < KP_LEN(routes); i++) {
		if (kp_str_eq(routes[i].path, r->path)) {
			is_known = true;
			if (kp_str_eq(routes[i].method, r->method)) {
				accept_call(h, s, r, &routes[i]);
				return;
			}
		}
	}
	kp_err_set(&err, is_known ? KP_METHOD_NOT_ALLOWED : KP_NOT_FOUND,
		is_known ? "method `%" KP_FMT "` is not allowed for `%" KP_FMT "`"
			 : "no such path: `%" KP_FMT " %" KP_FMT "`",
		KP_ARG(kp_str_sub(r->method, 0, 32)), KP_ARG(kp_str_sub(r->path, 0, 200)));
	reply_error(s, &err);
}

static void on_tls_failure(void *ctx, kp_str peer, const struct kp_err *why)
{
	struct kp_https *h = ctx;
	uint64_t more;
	if (kp_log_allow(&h->log_tls, kp_loop_now(h->loop), LOG_TLS_NS, &more)) {
		kp_log(KP_LOG_WARN, "TLS handshake failed", kp_f_z("port", "https"),
			kp_f_str("address", peer), kp_f_int("suppressed", (int64_t)more),
			kp_f_err(why));
	}
}

/* --- certificates of the listeners --- */

static struct kp_tls_context *context_of(const struct kp_trust_keys *keys, struct kp_err *err)
{
	const struct kp_tls_opts o = { .cert_pem = keys->cert, .key_pem = keys->key };
	return kp_tls_server(&o, err);
}

static void on_keys(void *ctx, const struct kp_trust_keys *keys)
{
	struct kp_https *h = ctx;
	struct kp_err err;
	struct kp_tls_context *tls = context_of(keys, &err);
	if (!tls || kp_rpc_keys_set(h->opts.keys, keys->cert, keys->key, keys->bundle, &err)) {
		kp_log(KP_LOG_ERROR, "cannot use the listeners' certificate, the last one stays",
			kp_f_err(&err));
	} else {
		kp_http_server_set_tls(h->server, tls);
		kp_https_look_ready(h);
		kp_log(KP_LOG_INFO, "certificate of the listeners loaded");
	}
	kp_tls_unref(tls);
}

void kp_https_look_ready(struct kp_https *h)
{
	if (h->trust && kp_trust_is_ready(h->trust) && kp_https_objects_are_listed(h->objects)) {
		atomic_store(&h->is_ready, true);
	}
}

bool kp_https_is_ready(const struct kp_https *h)
{
	return atomic_load(&h->is_ready);
}

/* An authority that nobody believes, for the time until the Secret is known. */
static int begin_keys(struct kp_https *h, struct kp_tls_context **ret, struct kp_err *err)
{
	static const kp_str names[] = { KP_S_INIT("kelpie-operator.invalid") };
	const struct kp_trust_wish w = { .period_s = 3600,
		.overlap_s = 60,
		.lifetime_s = 3600,
		.names = names,
		.n_names = KP_LEN(names) };
	struct kp_trust_state s = { 0 };
	int64_t now_s = kp_wall_ns() / KP_NS_PER_S, due_s;
	bool changed;
	KP_AUTO(buf) struct kp_buf bundle;
	kp_buf_init(&bundle, KP_PKI_BUNDLE_MAX);
	int r = kp_trust_state_step(&s, &w, now_s, &changed, &due_s, err);
	r = r ? r : kp_trust_state_bundle(&s, now_s, &bundle, err);
	const struct kp_trust_keys keys = { kp_str_c(s.cert), kp_str_c(s.key),
		kp_buf_str(&bundle) };
	struct kp_tls_context *tls = r ? NULL : context_of(&keys, err);
	r = tls ? kp_rpc_keys_set(h->opts.keys, keys.cert, keys.key, keys.bundle, err) : -1;
	kp_trust_state_fini(&s);
	*ret = tls;
	return r;
}

/* --- life --- */

static int start_client(struct kp_https *h, struct kp_err *err)
{
	const struct kp_https_opts *o = &h->opts;
	if (o->kubeconfig ? kp_kube_config_load(o->kubeconfig, NULL, &h->config, err)
			  : kp_kube_config_in_pod(NULL, getenv("KUBERNETES_SERVICE_HOST"),
				    getenv("KUBERNETES_SERVICE_PORT"), &h->config, err)) {
		return -1;
	}
	const struct kp_kube_opts kube = {
		.config = h->config, .user_agent = o->user_agent, .metrics = o->metrics
	};
	return kp_kube_create(h->loop, &kube, &h->kube, err);
}

static int start_server(struct kp_https *h, struct kp_err *err)
{
	const struct kp_http_limits limits = { .max_body_bytes = KP_REVIEW_MAX_BYTES,
		.max_connections = CONNECTIONS_MAX };
	const struct kp_http_handler handler = { on_request, h };
	struct kp_tls_context *tls = NULL;
	int r = begin_keys(h, &tls, err);
	if (r == 0) {
		h->server = kp_http_server_create(h->loop, &limits, tls, &handler);
		kp_http_server_on_tls_failure(h->server, on_tls_failure, h);
		r = kp_http_server_listen(h->server, h->opts.address, &h->port, err);
	}
	kp_tls_unref(tls);
	return r;
}

static void on_version(void *ctx, unsigned minor)
{
	struct kp_https *h = ctx;
	h->opts.inject.kubernetes_minor = minor;
}

static void start_parts(struct kp_https *h)
{
	const struct kp_https_opts *o = &h->opts;
	const struct kp_trust_opts trust = { .kube = h->kube,
		.ns = o->ns ? kp_str_c(o->ns) : kp_kube_namespace(h->kube),
		.namespaces = o->namespaces,
		.names = o->names,
		.periods = o->periods,
		.id = o->id,
		.is_standby = o->is_standby,
		.metrics = o->metrics,
		.changed = on_keys,
		.ctx = h };
	h->trust = kp_trust_create(h->loop, &trust);
	h->objects = kp_https_objects_create(h);
	h->version = kp_kube_version_create(h->kube, on_version, h);
	kp_quota_init(&h->of_address, ADDRESS_BURST, ADDRESS_EVERY_NS);
	kp_quota_init(&h->of_pod, POD_BURST, POD_EVERY_NS);
	h->refused = kp_metrics_counter(o->metrics, "kelpie_operator_certificates_refused_total",
		"Requests for certificates that were refused.", NULL, 0);
}

static void *thread_main(void *arg)
{
	struct kp_https *h = arg;
	kp_loop_run(h->loop);
	return NULL;
}

int kp_https_start(const struct kp_https_opts *opts, struct kp_https **ret, struct kp_err *err)
{
	struct kp_https *h = kp_new(struct kp_https);
	h->opts = *opts;
	h->loop = kp_loop_create("https");
	if (start_client(h, err) || start_server(h, err)) {
		kp_https_stop(h);
		return -1;
	}
	start_parts(h);
	if (pthread_create(&h->thread, NULL, thread_main, h) != 0) {
		kp_bug(__FILE__, __LINE__, "cannot start the https thread");
	}
	h->is_started = true;
	*ret = h;
	return 0;
}

int kp_https_port(const struct kp_https *h)
{
	return h->port;
}

struct order {
	struct kp_msg msg;
	struct kp_https *h;
	bool is_leading;
};

static void post(struct kp_https *h, void (*run)(struct kp_msg *), bool is_leading)
{
	struct order *o = kp_new(struct order);
	*o = (struct order){ .msg = { .run = run }, .h = h, .is_leading = is_leading };
	kp_mailbox_post(kp_loop_mailbox(h->loop), &o->msg);
}

static void on_lead(struct kp_msg *msg)
{
	struct order *o = KP_CONTAINER(msg, struct order, msg);
	kp_trust_lead(o->h->trust, o->is_leading);
	kp_mem_free(o);
}

void kp_https_lead(struct kp_https *h, bool is_leading)
{
	post(h, on_lead, is_leading);
}

static void on_gone(void *arg)
{
	kp_loop_stop(arg);
}

static void on_stop(struct kp_msg *msg)
{
	struct order *o = KP_CONTAINER(msg, struct order, msg);
	struct kp_https *h = o->h;
	kp_mem_free(o);
	kp_kube_version_destroy(kp_steal(h->version));
	kp_https_objects_destroy(kp_steal(h->objects));
	kp_trust_destroy(kp_steal(h->trust));
	if (h->server) { /* its calls are cancelled before the client goes */
		kp_http_server_destroy(h->server, on_gone, h->loop);
	} else {
		kp_loop_stop(h->loop);
	}
	kp_kube_destroy(h->kube);
}

void kp_https_stop(struct kp_https *h)
{
	if (!h) {
		return;
	}
	post(h, on_stop, false);
	if (h->is_started) {
		pthread_join(h->thread, NULL);
	} else {
		kp_loop_run(h->loop);
	}
	kp_loop_destroy(h->loop);
	kp_kube_config_destroy(h->config);
	kp_mem_free(h);
}

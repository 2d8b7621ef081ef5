/* DESIGN: a call is in one place at a time: waiting for a place, under way in a pool (transport.c), resting until
   it is tried again, or ended. Whatever happens is settled at the end of the loop's turn, in one function, outside
   of libcurl: only there, and in timers, callbacks of users run, so that they may make and cancel calls. */
#include "kube/internal.h"

#include <stdio.h>
#include <string.h>

#define DEFAULT_TIMEOUT_NS (30 * KP_NS_PER_S)
#define COMPLAIN_NS        (60 * KP_NS_PER_S)
enum { TRIES_MAX = 8, FAILURE_BODY_MAX = 1 << 20, STREAM_TURN_MAX = 64 << 20 };

const struct kp_doc_limits kp_kube_limits = {
	.max_bytes = KP_KUBE_ANSWER_MAX, .max_nodes = 8 << 20, .max_depth = 100, .max_docs = 1
};

static void settle(struct kp_defer *d);

void kp_kube_settle_soon(struct kp_kube *k)
{
	kp_loop_defer(k->loop, &k->settle, settle);
}

static void free_call(struct kp_kube_call *c)
{
	struct kp_kube *k = c->k;
	kp_kube_transport_end(c);
	kp_list_del(&c->ready);
	kp_timer_stop(k->loop, &c->deadline);
	kp_timer_stop(k->loop, &c->again);
	kp_timer_stop(k->loop, &c->idle);
	k->n_waiting -= c->is_waiting;
	k->n_in_flight -= c->is_counted;
	k->n_streams -= c->is_stream;
	kp_buf_fini(&c->in);
	kp_mem_free(c->path);
	kp_mem_free(c->url);
	kp_mem_free(c->body);
	kp_mem_free(c);
	kp_kube_settle_soon(k); /* who waits may go, an empty pool too */
}

/* It ends at the end of this turn, as `failed` says. */
static void end_soon(struct kp_kube_call *c, const struct kp_err *failed)
{
	kp_kube_transport_end(c);
	c->failed = *failed;
	kp_list_push(&c->k->ended, &c->link);
	kp_kube_settle_soon(c->k);
}

/* --- connections that say nothing --- */

static void give_up(struct kp_kube_pool *p)
{
	struct kp_kube *k = p->k;
	struct kp_err err;
	if (p->is_retired) {
		return;
	}
	p->is_retired = true;
	if (k->pool == p) {
		k->pool = kp_kube_pool_create(k);
	}
	kp_counter_add(k->silent, 1);
	kp_log(KP_LOG_WARN, "the API server's connection is silent, it is given up",
		kp_f_z("server", k->opts.config->server));
	kp_list_each_safe (node, &p->calls) {
		struct kp_kube_call *c = KP_CONTAINER(node, struct kp_kube_call, link);
		kp_err_set(&err, KP_UNAVAILABLE, "%s %s: the connection is silent", c->r.method,
			c->path);
		c->result = CURLE_RECV_ERROR;
		end_soon(c, &err);
	}
}

static void probed(void *ctx, const struct kp_kube_answer *a)
{
	struct kp_kube *k = ctx;
	(void)a; /* any answer is a sign of life; none gave the connection up */
	k->probing = NULL;
}

static void on_probe(struct kp_timer *t)
{
	struct kp_kube *k = KP_CONTAINER(t, struct kp_kube, probe);
	int64_t now = kp_loop_now(k->loop);
	if (!k->n_streams) {
		return;
	}
	if (!k->probing && !kp_list_empty(&k->pool->calls) &&
		now - k->pool->heard_ns >= k->opts.probe_after_ns) {
		const struct kp_kube_request r = { .method = "GET",
			.path = "/version",
			.timeout_ns = k->opts.probe_timeout_ns,
			.once = true,
			.done = probed,
			.ctx = k };
		k->probing = kp_kube_send(k, &r);
	}
	kp_timer_start(k->loop, t, now + k->opts.probe_after_ns / 2, on_probe);
}

/* --- a call's way --- */

static void look(struct kp_kube *k, bool is_forced)
{
	struct kp_err err;
	uint64_t suppressed;
	int64_t now = kp_loop_now(k->loop);
	if (kp_kube_credentials_look(&k->credentials, now, is_forced, &err) &&
		kp_log_allow(&k->complain, now, COMPLAIN_NS, &suppressed)) {
		kp_log(KP_LOG_WARN, "credentials of the API server: the old ones stay",
			kp_f_err(&err));
	}
}

static void begin(struct kp_kube_call *c)
{
	struct kp_err err;
	look(c->k, false);
	if (kp_kube_transport_begin(c->k->pool, c, &err)) {
		end_soon(c, &err);
	}
}

static void on_again(struct kp_timer *t)
{
	struct kp_kube_call *c = KP_CONTAINER(t, struct kp_kube_call, again);
	kp_list_del(&c->link);
	begin(c);
}

static void report(struct kp_kube_call *c, const struct kp_kube_answer *a)
{
	char code[16] = "none";
	if (a->http) {
		snprintf(code, sizeof(code), "%d", a->http);
	}
	const struct kp_label labels[] = { { "method",
						   kp_str_c(c->is_stream ? "WATCH" : c->r.method) },
		{ "code", kp_str_c(code) } };
	kp_counter_add(kp_metrics_counter(c->k->opts.metrics, "kelpie_kube_requests_total",
			       "Requests to the API server, by HTTP status.", labels, 2),
		1);
	kp_list_del(&c->link);
	c->is_calling = true;
	c->r.done(c->r.ctx, a);
	free_call(c);
}

static void fail(struct kp_kube_call *c, const struct kp_err *err)
{
	struct kp_kube_failure f = { .err = *err };
	const struct kp_kube_answer a = { .failure = &f };
	report(c, &a);
}

static void on_deadline(struct kp_timer *t)
{
	struct kp_kube_call *c = KP_CONTAINER(t, struct kp_kube_call, deadline);
	struct kp_kube_pool *p = c->pool;
	struct kp_err err;
	bool is_silent = p && p->heard_ns < c->began_ns &&
			 kp_loop_now(c->k->loop) - c->began_ns >= c->r.timeout_ns / 2;
	kp_err_set(&err, KP_DEADLINE_EXCEEDED, "%s %s: no answer within %lld ms%s%s", c->r.method,
		c->path, (long long)(c->r.timeout_ns / KP_NS_PER_MS), c->before.code ? ": " : "",
		c->before.code ? c->before.msg : "");
	fail(c, &err);
	if (is_silent) {
		give_up(p);
	}
}

static void on_idle(struct kp_timer *t)
{
	struct kp_kube_call *c = KP_CONTAINER(t, struct kp_kube_call, idle);
	struct kp_err err;
	kp_err_set(&err, KP_DEADLINE_EXCEEDED, "%s %s: nothing came for %lld ms", c->r.method,
		c->path, (long long)(c->r.idle_ns / KP_NS_PER_MS));
	fail(c, &err);
}

static int http_status(const struct kp_kube_call *c)
{
	long status = 0;
	if (c->easy) {
		curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	}
	return (int)status;
}

/* What came of a stream so far. */
static void deliver(struct kp_kube_call *c)
{
	int status = http_status(c);
	if (status < 200 || status > 299) {
		return; /* the text of a failure, for its end */
	}
	kp_timer_start(c->k->loop, &c->idle, kp_loop_now(c->k->loop) + c->r.idle_ns, on_idle);
	c->is_calling = true;
	if (!c->is_open && c->r.opened) {
		c->r.opened(c->r.ctx);
	}
	c->is_open = true;
	if (c->in.n && !c->is_dead) {
		c->r.data(c->r.ctx, kp_buf_str(&c->in));
	}
	c->is_calling = false;
	kp_buf_reset(&c->in);
	if (c->is_dead) {
		free_call(c);
	}
}

/* Nothing of the request can have reached the server. */
static bool is_unsent(const struct kp_kube_call *c)
{
	switch ((int)c->result) {
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
	case CURLE_COULDNT_CONNECT:
	case CURLE_SSL_CONNECT_ERROR:
		return true;
	default:
		return false;
	}
}

/* The connection was lost with the request on it. */
static bool is_broken(const struct kp_kube_call *c)
{
	switch ((int)c->result) {
	case CURLE_GOT_NOTHING:
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
	case CURLE_PARTIAL_FILE:
	case CURLE_HTTP2:
	case CURLE_HTTP2_STREAM:
	case CURLE_OPERATION_TIMEDOUT:
		return true;
	default:
		return false;
	}
}

/* Than those that this try was made with. */
static bool are_credentials_newer(struct kp_kube_call *c)
{
	const struct kp_kube_credentials *now = &c->k->credentials;
	look(c->k, true);
	return now->generation != c->used_generation || now->token.seen != c->used_token;
}

/* Whether it is tried again, and after how long. */
static bool may_retry(struct kp_kube_call *c, const struct kp_kube_failure *f, int64_t *ret_wait_ns)
{
	bool is_get = strcmp(c->r.method, "GET") == 0;
	if (c->r.once || c->is_stream || c->backoff.n >= TRIES_MAX || f->err.code == KP_TOO_LARGE) {
		return false;
	}
	if (f->http == 401) {
		bool is_first = !c->has_reread;
		c->has_reread = true;
		*ret_wait_ns = 0;
		return is_first && are_credentials_newer(c);
	}
	if (f->http == 429 || (f->http >= 500 && f->retry_after_ns > 0)) {
		int64_t own = kp_kube_backoff_next(&c->backoff, &c->k->rng);
		*ret_wait_ns = KP_MAX(own, f->retry_after_ns);
		return true;
	}
	*ret_wait_ns = kp_kube_backoff_next(&c->backoff, &c->k->rng);
	return f->http == 0 && (is_unsent(c) || (is_get && is_broken(c)));
}

static void describe(struct kp_kube_call *c, struct kp_kube_failure *f)
{
	char what[256];
	int status = http_status(c);
	curl_off_t after = 0;
	if (c->failed.code != KP_OK) {
		*f = (struct kp_kube_failure){ .err = c->failed };
		return;
	}
	/* A refusal counts though its body was cut: with 401 the server closes the connection at once. */
	if (c->result != CURLE_OK && status < 400) {
		*f = (struct kp_kube_failure){ 0 };
		kp_err_set(&f->err, KP_UNAVAILABLE, "%s %s: %s", c->r.method, c->path,
			c->text[0] ? c->text : curl_easy_strerror(c->result));
		return;
	}
	snprintf(what, sizeof(what), "%s %s", c->r.method, c->path);
	kp_kube_failure_init(f, status, kp_str_sub(kp_buf_str(&c->in), 0, FAILURE_BODY_MAX), what);
	curl_easy_getinfo(c->easy, CURLINFO_RETRY_AFTER, &after);
	if (after > 0) {
		f->retry_after_ns =
			KP_MAX(f->retry_after_ns, KP_MIN(after, (curl_off_t)600) * KP_NS_PER_S);
	}
}

static void finish(struct kp_kube_call *c)
{
	struct kp_kube *k = c->k;
	int status = http_status(c);
	int64_t wait_ns = 0;
	if (c->failed.code == KP_OK && c->result == CURLE_OK && status >= 200 && status <= 299) {
		const struct kp_kube_answer a = { .body = kp_buf_str(&c->in), .http = status };
		report(c, &a);
		return;
	}
	struct kp_kube_failure f;
	describe(c, &f);
	if (may_retry(c, &f, &wait_ns) && kp_loop_now(k->loop) + wait_ns < c->deadline.due_ns) {
		kp_counter_add(k->retries, 1);
		kp_kube_transport_end(c);
		c->result = CURLE_OK;
		c->failed = KP_ERR_INIT;
		c->before = f.err;
		kp_list_push(&k->resting, &c->link);
		kp_timer_start(k->loop, &c->again, kp_loop_now(k->loop) + wait_ns, on_again);
	} else {
		const struct kp_kube_answer a = { .http = f.http, .failure = &f };
		report(c, &a);
	}
	kp_kube_failure_fini(&f);
}

static void reap(struct kp_kube *k)
{
	kp_list_each_safe (node, &k->pools) {
		struct kp_kube_pool *p = KP_CONTAINER(node, struct kp_kube_pool, link);
		if (p->is_retired && kp_list_empty(&p->calls)) {
			kp_kube_pool_destroy(p);
		}
	}
}

static void settle(struct kp_defer *d)
{
	struct kp_kube *k = KP_CONTAINER(d, struct kp_kube, settle);
	struct kp_list *node;
	kp_list_each (at, &k->pools) {
		kp_kube_transport_collect(KP_CONTAINER(at, struct kp_kube_pool, link));
	}
	while ((node = kp_list_pop(&k->ready))) {
		deliver(KP_CONTAINER(node, struct kp_kube_call, ready));
	}
	struct kp_list ended;
	kp_list_take(&ended, &k->ended);
	while ((node = kp_list_pop(&ended))) {
		finish(KP_CONTAINER(node, struct kp_kube_call, link));
	}
	while (k->n_in_flight < KP_KUBE_IN_FLIGHT_MAX && (node = kp_list_pop(&k->waiting))) {
		struct kp_kube_call *c = KP_CONTAINER(node, struct kp_kube_call, link);
		k->n_waiting--;
		k->n_in_flight++;
		c->is_waiting = false;
		c->is_counted = true;
		begin(c);
	}
	reap(k);
}

/* --- making and cancelling --- */

static char *join(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);
	char *z = kp_xmalloc(n + m + 1);
	memcpy(z, a, n);
	memcpy(z + n, b, m + 1);
	return z;
}

static struct kp_kube_call *make(struct kp_kube *k, const struct kp_kube_request *r)
{
	struct kp_kube_call *c = kp_new(struct kp_kube_call);
	size_t max = r->max_bytes ? r->max_bytes : (size_t)KP_KUBE_ANSWER_MAX;
	c->k = k;
	c->r = *r;
	c->is_stream = r->data != NULL;
	c->r.timeout_ns = r->timeout_ns ? r->timeout_ns : DEFAULT_TIMEOUT_NS;
	c->r.path = c->path = kp_xstrdup(r->path);
	c->url = join(k->url_prefix, r->path);
	c->backoff = (struct kp_kube_backoff){ .first_ns = 100 * KP_NS_PER_MS,
		.most_ns = 5 * KP_NS_PER_S };
	kp_buf_init(&c->in, c->is_stream ? (size_t)STREAM_TURN_MAX : max);
	if (r->body.n && r->body.n <= KP_KUBE_BODY_MAX) {
		c->r.body.p = c->body = kp_str_z(r->body);
	}
	return c;
}

struct kp_kube_call *kp_kube_send(struct kp_kube *k, const struct kp_kube_request *r)
{
	struct kp_kube_call *c = make(k, r);
	struct kp_err err;
	int64_t now = kp_loop_now(k->loop);
	kp_assert_on(k->loop);
	if (r->body.n > KP_KUBE_BODY_MAX) {
		kp_err_set(&err, KP_TOO_LARGE, "%s %s: a body of %zu bytes, more than %d",
			r->method, r->path, r->body.n, KP_KUBE_BODY_MAX);
		end_soon(c, &err);
	} else if (c->is_stream ? k->n_streams >= KP_KUBE_STREAMS_MAX
				: k->n_waiting >= KP_KUBE_WAITING_MAX) {
		kp_err_set(&err, KP_RESOURCE_EXHAUSTED, "%s %s: too many requests wait", r->method,
			r->path);
		end_soon(c, &err);
	} else if (c->is_stream) {
		kp_timer_start(k->loop, &c->idle, now + c->r.idle_ns, on_idle);
		if (!k->probe.heap_index) {
			kp_timer_start(k->loop, &k->probe, now + k->opts.probe_after_ns, on_probe);
		}
		begin(c);
	} else {
		kp_timer_start(k->loop, &c->deadline, now + c->r.timeout_ns, on_deadline);
		k->n_waiting++;
		c->is_waiting = true;
		kp_list_push(&k->waiting, &c->link);
		kp_kube_settle_soon(k);
	}
	k->n_streams += c->is_stream;
	return c;
}

void kp_kube_cancel(struct kp_kube_call *c)
{
	if (c->is_calling) {
		c->is_dead = true;
	} else {
		free_call(c);
	}
}

/* --- the client --- */

static int set_url(struct kp_kube *k, struct kp_err *err)
{
	const char *server = k->opts.config->server, *name = k->opts.config->tls_server_name;
	char *host = NULL, *port = NULL, *path = NULL, *scheme = NULL;
	CURLU *u = curl_url();
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 16384);
	if (!u || curl_url_set(u, CURLUPART_URL, server, 0) ||
		curl_url_get(u, CURLUPART_HOST, &host, 0) ||
		curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) ||
		curl_url_get(u, CURLUPART_PATH, &path, 0) ||
		curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT)) {
		curl_url_cleanup(u);
		curl_free(host);
		curl_free(scheme);
		curl_free(path);
		return kp_err_set(err, KP_INVALID_ARGUMENT, "`%s` is no URL of a server", server);
	}
	k->no_proxy = strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
		      strcmp(host, "[::1]") == 0;
	kp_buf_printf(&b, "%s://%s:%s%s", scheme, name ? name : host, port,
		strcmp(path, "/") == 0 ? "" : path);
	k->url_prefix = kp_str_z(kp_buf_str(&b));
	if (name) {
		kp_buf_reset(&b);
		kp_buf_printf(&b, "%s:%s", host, port);
		k->host = kp_str_z(kp_buf_str(&b));
		kp_buf_reset(&b);
		kp_buf_printf(&b, "%s:%s:%s:%s", name, port, host, port);
		k->connect_to = curl_slist_append(NULL, kp_buf_cstr(&b));
	}
	curl_url_cleanup(u);
	curl_free(host);
	curl_free(port);
	curl_free(scheme);
	curl_free(path);
	return 0;
}

static void init_metrics(struct kp_kube *k)
{
	k->retries = kp_metrics_counter(k->opts.metrics, "kelpie_kube_retries_total",
		"Requests to the API server that were tried again.", NULL, 0);
	k->silent = kp_metrics_counter(k->opts.metrics, "kelpie_kube_silent_connections_total",
		"Connections to the API server that were given up because they were silent.", NULL,
		0);
}

int kp_kube_create(struct kp_loop *loop, const struct kp_kube_opts *opts, struct kp_kube **ret,
	struct kp_err *err)
{
	struct kp_kube *k = kp_new(struct kp_kube);
	uint64_t seed = opts->seed;
	k->loop = loop;
	k->opts = *opts;
	k->opts.connect_ns = opts->connect_ns ? opts->connect_ns : 10 * KP_NS_PER_S;
	k->opts.probe_after_ns = opts->probe_after_ns ? opts->probe_after_ns : 30 * KP_NS_PER_S;
	k->opts.probe_timeout_ns =
		opts->probe_timeout_ns ? opts->probe_timeout_ns : 10 * KP_NS_PER_S;
	k->user_agent = kp_xstrdup(opts->user_agent);
	kp_list_init(&k->pools);
	kp_list_init(&k->waiting);
	kp_list_init(&k->resting);
	kp_list_init(&k->ended);
	kp_list_init(&k->ready);
	if (!seed) {
		kp_random_bytes(&seed, sizeof(seed));
	}
	kp_rng_seed(&k->rng, seed);
	init_metrics(k);
	if (set_url(k, err) || kp_kube_credentials_init(&k->credentials, opts->config, err)) {
		kp_kube_destroy(k);
		return -1;
	}
	k->pool = kp_kube_pool_create(k);
	*ret = k;
	return 0;
}

static void cancel_all(struct kp_list *calls)
{
	struct kp_list *node;
	while ((node = kp_list_pop(calls))) {
		free_call(KP_CONTAINER(node, struct kp_kube_call, link));
	}
}

void kp_kube_destroy(struct kp_kube *k)
{
	if (!k) {
		return;
	}
	kp_timer_stop(k->loop, &k->probe);
	cancel_all(&k->waiting);
	cancel_all(&k->resting);
	cancel_all(&k->ended);
	kp_list_each_safe (node, &k->pools) {
		struct kp_kube_pool *p = KP_CONTAINER(node, struct kp_kube_pool, link);
		cancel_all(&p->calls);
		kp_kube_pool_destroy(p);
	}
	kp_loop_undefer(&k->settle);
	kp_kube_credentials_fini(&k->credentials);
	curl_slist_free_all(k->connect_to);
	kp_mem_free(k->url_prefix);
	kp_mem_free(k->host);
	kp_mem_free(k->user_agent);
	kp_mem_free(k);
}

struct kp_loop *kp_kube_loop(const struct kp_kube *k)
{
	return k->loop;
}

struct kp_rng *kp_kube_rng(struct kp_kube *k)
{
	return &k->rng;
}

kp_str kp_kube_namespace(const struct kp_kube *k)
{
	return k->opts.config->ns;
}

struct kp_metrics *kp_kube_metrics(const struct kp_kube *k)
{
	return k->opts.metrics;
}

json_t *kp_kube_answer_json(const struct kp_kube_answer *a, struct kp_err *err)
{
	json_t *v;
	if (a->failure) {
		*err = a->failure->err;
		return NULL;
	}
	if (kp_doc_json(a->body, "answer", &kp_kube_limits, &v, err)) {
		err->code = KP_DATA_LOSS;
		return NULL;
	}
	if (!json_is_object(v)) {
		kp_err_set(err, KP_DATA_LOSS, "parse `answer`: it is no object");
		json_decref(v);
		return NULL;
	}
	return v;
}

/* DESIGN: three methods by name, what all of them check first, and how a call ends. What is ours is
   looked up in a list of the snapshot's endpoints that this gateway owns, made anew with each
   snapshot: a gateway may know a thousand endpoints and own two. */
#include "sidecar/peer/peer.h"

#include "base/clock.h"
#include "core/identity.h"
#include "obs/log.h"
#include "sidecar/peer/internal.h"

#include <stdarg.h>

/* Ids take four bytes each; the rest of a request is small. */
enum { MAX_REQUEST = KP_PEER_MAX_PROMPT * 4 + (1 << 20) + KP_PEER_MAX_PIXELS };

#define SILENT_NS (5 * KP_NS_PER_S)

/* --- our endpoints --- */

static void add_own(struct kp_peer_server *s, const struct kp_model_revision *r)
{
	for (size_t i = 0; i < r->n_endpoints; i++) {
		if (r->endpoints[i]->is_own) {
			s->own = kp_xrealloc(s->own, (s->n_own + 1) * sizeof(*s->own));
			s->own[s->n_own++] =
				(struct kp_peer_own){ r->endpoints[i], r, r->facts[i] };
		}
	}
}

static void refresh_own(struct kp_peer_server *s)
{
	const struct kp_snapshot *snapshot = s->l->snapshot;
	if (!snapshot || snapshot->version == s->own_version) {
		return;
	}
	s->own_version = snapshot->version;
	s->n_own = 0;
	for (size_t i = 0; i < snapshot->n_revisions; i++) {
		add_own(s, snapshot->revisions[i]);
	}
}

const struct kp_peer_own *kp_peer_find(
	struct kp_peer_server *s, kp_str engine, kp_str address, struct kp_err *err)
{
	refresh_own(s);
	for (size_t i = 0; i < s->n_own; i++) {
		const struct kp_endpoint *e = s->own[i].endpoint;
		if (kp_str_eq(kp_str_c(e->address), address) &&
			kp_str_eq(kp_str_c(e->engine), engine)) {
			return &s->own[i];
		}
	}
	kp_peer_refuse(err, KP_UNAVAILABLE, KP_PEER_NOT_OWNER,
		"engine `%" KP_FMT "` at `%" KP_FMT "` is not this gateway's",
		KP_ARG(kp_str_sub(engine, 0, 128)), KP_ARG(kp_str_sub(address, 0, 128)));
	return NULL;
}

/* --- the end of a call --- */

int kp_peer_refuse(struct kp_err *err, enum kp_code code, const char *reason, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	kp_err_setv(err, code, fmt, ap);
	va_end(ap);
	err->reason = reason;
	return -1;
}

static kp_str load_of(const struct kp_endpoint *e, char buf[KP_PEER_LOAD_MAX])
{
	const struct kp_engine_loads l = {
		.in_flight = (uint32_t)KP_MAX(
			atomic_load_explicit(&e->in_flight, memory_order_relaxed), 0),
		.running = atomic_load_explicit(&e->running, memory_order_relaxed),
		.waiting = atomic_load_explicit(&e->waiting, memory_order_relaxed),
		.kv_usage =
			(float)atomic_load_explicit(&e->kv_permille, memory_order_relaxed) / 1000.0f
	};
	return kp_peer_write_load(&l, buf);
}

void kp_peer_end(
	struct kp_grpc_serving *c, const struct kp_err *status, const struct kp_endpoint *e)
{
	struct kp_header trailers[2];
	char load[KP_PEER_LOAD_MAX];
	size_t n = 0;
	if (status->code != KP_OK && status->reason) {
		trailers[n++] = (struct kp_header){ KP_S(KP_PEER_TRAILER_REASON),
			kp_str_c(status->reason) };
	}
	if (e) {
		trailers[n++] = (struct kp_header){ KP_S(KP_PEER_TRAILER_LOAD), load_of(e, load) };
	}
	kp_grpc_serving_end(c, status, trailers, n);
}

/* --- calls --- */

/* The handshake took only certificates of our CA; one that names no gateway is not a gateway's. */
static int check_caller(
	const struct kp_peer_server *s, const struct kp_grpc_request *r, struct kp_err *err)
{
	if (r->http->tls && r->http->n_peer_names == 0) {
		return kp_err_set(err, KP_PERMISSION_DENIED,
			"the certificate names no gateway: it has no subject alternative name");
	}
	return r->http->tls
		       ? kp_identity_check_namespace(r->http->peer_names, r->http->n_peer_names,
				 kp_str_c(s->l->gateway->config.namespace), err)
		       : 0;
}

static void on_request(void *ctx, struct kp_grpc_serving *c, const struct kp_grpc_request *r)
{
	static const struct {
		kp_str method;
		void (*call)(struct kp_peer_server *s, struct kp_grpc_serving *c,
			const struct kp_grpc_request *r);
	} methods[] = {
		{ KP_S_INIT("/kelpie.peer.v1.Peer/Generate"), kp_peer_generate },
		{ KP_S_INIT("/kelpie.peer.v1.Peer/Describe"), kp_peer_describe },
		{ KP_S_INIT("/kelpie.peer.v1.Peer/GetTokenizer"), kp_peer_get_tokenizer },
	};
	struct kp_peer_server *s = ctx;
	struct kp_err err;
	if (check_caller(s, r, &err) < 0) {
		kp_peer_end(c, &err, NULL);
		return;
	}
	for (size_t i = 0; i < KP_LEN(methods); i++) {
		if (kp_str_eq(methods[i].method, r->method)) {
			methods[i].call(s, c, r);
			return;
		}
	}
	kp_peer_refuse(&err, KP_UNIMPLEMENTED, KP_PEER_UNSUPPORTED,
		"method `%" KP_FMT "` is not known to this version",
		KP_ARG(kp_str_sub(r->method, 0, 128)));
	kp_peer_end(c, &err, NULL);
}

static void on_tls_failure(void *ctx, kp_str peer, const struct kp_err *why)
{
	static _Thread_local struct kp_log_limit limit;
	struct kp_peer_server *s = ctx;
	uint64_t suppressed;
	if (kp_log_allow(&limit, kp_loop_now(s->l->loop), KP_NS_PER_S, &suppressed)) {
		kp_log(KP_LOG_WARN, "peer port: handshake failed", kp_f_str("peer", peer),
			kp_f_err(why), kp_f_int("suppressed", (int64_t)suppressed));
	}
}

/* --- the server --- */

static void find_counters(struct kp_peer_server *s)
{
	static const char *const names[KP_PEER_RESULT_N] = { "ok", KP_PEER_DRAINING,
		KP_PEER_NOT_OWNER, KP_PEER_DOWN, KP_PEER_STALE, KP_PEER_OVERLOADED,
		KP_PEER_UNSUPPORTED, "error", "gone" };
	for (size_t i = 0; i < KP_PEER_RESULT_N; i++) {
		const struct kp_label label = { "result", kp_str_c(names[i]) };
		s->results[i] = kp_metrics_counter(s->l->gateway->metrics,
			"kelpie_peer_generations_total",
			"Generations that other gateways forwarded here, by how they ended.",
			&label, 1);
	}
}

struct kp_peer_server *kp_peer_server_create(
	struct kp_gwloop *l, struct kp_tls_context *tls, unsigned max_connections)
{
	struct kp_peer_server *s = kp_new(struct kp_peer_server);
	const struct kp_grpc_handler handler = { on_request, s };
	const struct kp_grpc_server_limits limits = { .max_message_bytes = MAX_REQUEST,
		.http = { .max_connections = max_connections,
			.max_streams = KP_MAX(l->gateway->config.max_requests, 1024u),
			.high_water = KP_PEER_HIGH_WATER,
			/* A client at the other end may be slow for as long as a request may take. */
			.stream_timeout_ns = l->gateway->config.request_timeout_ns } };
	s->l = l;
	kp_list_init(&s->forwards);
	kp_peer_request_decoder_init(&s->decoder);
	kp_buf_init(&s->out, KP_PEER_MAX_MESSAGE);
	find_counters(s);
	s->grpc = kp_grpc_server_create(l->loop, &limits, tls, &handler);
	if (tls) {
		kp_grpc_server_on_tls_failure(s->grpc, on_tls_failure, s);
	}
	return s;
}

int kp_peer_server_listen(
	struct kp_peer_server *s, const char *address, uint16_t *ret_port, struct kp_err *err)
{
	return kp_grpc_server_listen(s->grpc, address, ret_port, err);
}

void kp_peer_server_set_tls(struct kp_peer_server *s, struct kp_tls_context *tls)
{
	kp_grpc_server_set_tls(s->grpc, tls);
}

void kp_peer_server_drain(struct kp_peer_server *s, bool cancel)
{
	struct kp_err err;
	kp_grpc_server_drain(s->grpc);
	if (cancel) {
		kp_err_set(&err, KP_UNAVAILABLE, "the gateway is shutting down");
		kp_peer_end_forwards(s, NULL, INT64_MAX, &err);
	}
}

void kp_peer_server_engine_down(
	struct kp_peer_server *s, const struct kp_endpoint *e, bool is_stalled)
{
	struct kp_err err;
	kp_err_set(&err, KP_UNAVAILABLE, "engine `%s` does not answer", e->address);
	kp_peer_end_forwards(
		s, e, is_stalled ? kp_loop_now(s->l->loop) - SILENT_NS : INT64_MIN, &err);
}

const struct kp_http_counters *kp_peer_server_counters(const struct kp_peer_server *s)
{
	return kp_grpc_server_counters(s->grpc);
}

struct goodbye {
	struct kp_peer_server *s;
	void (*done)(void *);
	void *arg;
};

static void on_gone(void *arg)
{
	struct goodbye g = *(struct goodbye *)arg;
	kp_mem_free(arg);
	KP_BUG_ON(!kp_list_empty(&g.s->forwards));
	kp_peer_request_decoder_fini(&g.s->decoder);
	kp_buf_fini(&g.s->out);
	kp_mem_free(g.s->own);
	kp_mem_free(g.s);
	g.done(g.arg);
}

void kp_peer_server_destroy(struct kp_peer_server *s, void (*done)(void *), void *arg)
{
	if (!s) {
		done(arg);
		return;
	}
	struct goodbye *g = kp_new(struct goodbye);
	*g = (struct goodbye){ s, done, arg };
	kp_grpc_server_destroy(kp_steal(s->grpc), on_gone, g);
}

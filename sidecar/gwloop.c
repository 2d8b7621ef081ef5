/* DESIGN: a loop owns what it serves with; the control thread hands it a new snapshot by message,
   and the loop swaps its pointer. Requests in flight keep the snapshot they began with; a lane goes
   when neither the current snapshot names its endpoint nor a call runs on it. */
#include "sidecar/gwloop.h"

#include "fetch/fetch.h"
#include "mcp/client.h"

#include "base/clock.h"
#include "base/thread.h"
#include "base/version.h"
#include "obs/log.h"
#include "sidecar/api/http.h"
#include "sidecar/control/control.h"
#include "sidecar/control/dial.h"
#include "sidecar/flow/flow.h"
#include "sidecar/peer/peer.h"

#include <stdio.h>
#include <sys/resource.h>

enum { MAX_CONNECTIONS = 20000, SCRATCH_BYTES = 8 << 20, ANSWER_BYTES = 256 << 20 };

/* What a loop's public port may take of the descriptors, or its peer port, which gets a quarter where there
 * is one. Half or 256 stay for engines, files, the operator and the admin listener. */
static unsigned max_connections(const struct kp_gateway *g, bool is_peer)
{
	struct rlimit r;
	if (getrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur == RLIM_INFINITY) {
		return 0; /* the server's own maximum */
	}
	rlim_t kept = KP_MIN((rlim_t)256, r.rlim_cur / 2);
	rlim_t share = (r.rlim_cur - kept) / g->config.loops;
	if (g->config.peer_listen) {
		share = is_peer ? share / 4 : share - share / 4;
	}
	return share > MAX_CONNECTIONS ? MAX_CONNECTIONS : (unsigned)KP_MAX(share, (rlim_t)1);
}

/* The descriptors of one loop's, if all loops together may have one of so many parts of them. They are among those that stay. */
static size_t descriptors(const struct kp_gateway *g, unsigned parts)
{
	struct rlimit r;
	if (getrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur == RLIM_INFINITY) {
		return KP_MCP_DESCRIPTORS_MAX;
	}
	rlim_t share = r.rlim_cur / parts / g->config.loops;
	return (size_t)KP_MIN(KP_MAX(share, (rlim_t)1), (rlim_t)KP_MCP_DESCRIPTORS_MAX);
}

int kp_gwloop_create(
	struct kp_gateway *g, unsigned index, struct kp_gwloop **ret, struct kp_err *err)
{
	char name[16];
	struct kp_gwloop *l = kp_new(struct kp_gwloop);
	(void)err;
	snprintf(name, sizeof(name), "loop-%u", index);
	l->gateway = g;
	l->loop = kp_loop_create(name);
	l->scratch = kp_token_scratch_create(SCRATCH_BYTES);
	kp_rng_seed(&l->rng, (uint64_t)kp_now_ns() + index);
	kp_list_init(&l->flows);
	kp_list_init(&l->calls);
	kp_explain_ring_init(&l->explain);
	l->peer_tls = kp_peer_tls_ref(&g->peer_tls);
	kp_buf_init(&l->scratch_buf, ANSWER_BYTES);
	const struct kp_http_limits limits = { .max_body_bytes = g->config.max_body_bytes,
		.max_connections = max_connections(g, false) };
	const struct kp_http_handler handler = { kp_api_request, l };
	l->server = kp_http_server_create(l->loop, &limits, g->tls, &handler);
	kp_http_server_on_refusal(l->server, kp_api_refuse);
	kp_http_server_set_receivers(l->server, g->receivers);
	const struct kp_mcp_pool_opts mcp = {
		.version = kp_version(), .metrics = g->metrics, .max_descriptors = descriptors(g, 8)
	};
	l->max_image_fetches = /* those of one request at least */
		KP_MIN(KP_MAX(descriptors(g, 16), (size_t)g->config.max_images),
			(size_t)KP_FETCH_CALLS_MAX);
	l->mcp = kp_mcp_pool_create(l->loop, &mcp);
	if (g->config.peer_listen) {
		l->peer = kp_peer_server_create(l, l->peer_tls.server, max_connections(g, true));
	}
	*ret = l;
	return 0;
}

int kp_gwloop_listen(
	struct kp_gwloop *l, const char *address, uint16_t *ret_port, struct kp_err *err)
{
	return kp_http_server_listen(l->server, address, ret_port, err);
}

int kp_gwloop_listen_peer(
	struct kp_gwloop *l, const char *address, uint16_t *ret_port, struct kp_err *err)
{
	return kp_peer_server_listen(l->peer, address, ret_port, err);
}

struct listen {
	struct kp_msg msg;
	struct kp_gwloop *l;
	char *address;
};

static void on_listen(struct kp_msg *msg)
{
	struct listen *m = KP_CONTAINER(msg, struct listen, msg);
	struct kp_err err;
	uint16_t port;
	if (kp_http_server_listen(m->l->server, m->address, &port, &err)) {
		kp_log(KP_LOG_ERROR, "cannot listen", kp_f_err(&err));
	}
	kp_mem_free(m->address);
	kp_mem_free(m);
}

void kp_gwloop_listen_later(struct kp_gwloop *l, const char *address)
{
	struct listen *m = kp_new(struct listen);
	*m = (struct listen){ .msg = { .run = on_listen }, .l = l, .address = kp_xstrdup(address) };
	kp_mailbox_post(kp_loop_mailbox(l->loop), &m->msg);
}

static void *thread_main(void *arg)
{
	struct kp_gwloop *l = arg;
	pthread_setname_np(pthread_self(), kp_loop_name(l->loop));
	kp_thread_first();
	kp_mem_keep_here();
	kp_loop_run(l->loop);
	return NULL;
}

void kp_gwloop_start(struct kp_gwloop *l)
{
	if (pthread_create(&l->thread, NULL, thread_main, l) != 0) {
		kp_bug(__FILE__, __LINE__, "cannot start a loop thread");
	}
	l->is_started = true;
}

/* --- lanes --- */

static void lane_destroy(struct kp_gwloop *l, struct kp_lane *lane)
{
	for (size_t i = 0; i < l->n_lanes; i++) {
		if (l->lanes[i] == lane) {
			l->lanes[i] = l->lanes[--l->n_lanes];
			break;
		}
	}
	lane->engine->ops->destroy(lane->engine);
	kp_endpoint_unref(lane->endpoint);
	kp_mem_free(lane);
}

static void sweep(struct kp_defer *d)
{
	struct kp_gwloop *l = KP_CONTAINER(d, struct kp_gwloop, sweep);
	for (size_t i = l->n_lanes; i-- > 0;) {
		if (l->lanes[i]->calls == 0 && !l->lanes[i]->is_named) {
			lane_destroy(l, l->lanes[i]);
		}
	}
}

/* Who listens there now? Its generations wait for the answer (on_engine_serves); nobody gives one of an endpoint that is gone. */
static void on_connected(void *user)
{
	struct kp_lane *lane = user;
	if (lane->is_named) {
		kp_control_identify(lane->l->gateway->control, lane->endpoint);
	} else {
		kp_gwloop_engine_serves(lane->l, lane->endpoint, 0, INT64_MAX);
	}
}

struct kp_lane *kp_lane_acquire(struct kp_gwloop *l, struct kp_endpoint *e)
{
	struct kp_lane *lane = NULL;
	for (size_t i = 0; i < l->n_lanes && !lane; i++) {
		lane = l->lanes[i]->endpoint == e ? l->lanes[i] : NULL;
	}
	if (!lane) {
		lane = kp_new(struct kp_lane);
		lane->l = l;
		lane->endpoint = kp_endpoint_ref(e);
		lane->engine = kp_dial(l->loop, lane->endpoint, &l->peer_tls, on_connected, lane);
		lane->is_named = true;
		l->lanes = kp_xrealloc(l->lanes, (l->n_lanes + 1) * sizeof(*l->lanes));
		l->lanes[l->n_lanes++] = lane;
	}
	lane->calls++;
	return lane;
}

void kp_lane_release(struct kp_gwloop *l, struct kp_lane *lane)
{
	KP_BUG_ON(lane->calls == 0);
	lane->calls--;
	if (lane->calls == 0 && !lane->is_named) {
		kp_loop_defer(l->loop, &l->sweep,
			sweep); /* not now: a callback of its engine may be running */
	}
}

static bool names(const struct kp_snapshot *s, const struct kp_endpoint *e)
{
	for (size_t i = 0; i < s->n_revisions; i++) {
		for (size_t k = 0; k < s->revisions[i]->n_endpoints; k++) {
			if (s->revisions[i]->endpoints[k] == e) {
				return true;
			}
		}
	}
	return false;
}

/* --- snapshots --- */

struct publish {
	struct kp_msg msg;
	struct kp_gwloop *l;
	struct kp_snapshot *snapshot;
};

static void on_publish(struct kp_msg *msg)
{
	struct publish *p = KP_CONTAINER(msg, struct publish, msg);
	struct kp_gwloop *l = p->l;
	kp_snapshot_unref(l->snapshot);
	l->snapshot = p->snapshot;
	for (size_t i = 0; i < l->n_lanes; i++) {
		struct kp_lane *lane = l->lanes[i];
		lane->is_named = names(l->snapshot, lane->endpoint);
		if (!lane->is_named) { /* what waits there goes where the new snapshot says */
			kp_dial_serves(lane->engine, lane->endpoint, 0, INT64_MAX);
		}
	}
	kp_loop_defer(l->loop, &l->sweep, sweep);
	kp_mem_free(p);
}

void kp_gwloop_publish(struct kp_gwloop *l, struct kp_snapshot *s)
{
	struct publish *p = kp_new(struct publish);
	*p = (struct publish){ .msg = { .run = on_publish }, .l = l, .snapshot = s };
	kp_mailbox_post(kp_loop_mailbox(l->loop), &p->msg);
}

const struct kp_model *kp_gwloop_model(struct kp_gwloop *l, kp_str name, struct kp_err *err)
{
	const struct kp_model *m = l->snapshot ? kp_snapshot_find(l->snapshot, name) : NULL;
	if (!l->snapshot || !l->snapshot->has_program) {
		kp_err_set(err, KP_UNAVAILABLE,
			l->gateway->config.control
				? "this gateway waits for its operator's first program"
				: "this gateway has not read its manifests yet");
		err->reason = "model_not_ready";
		return NULL;
	}
	if (!m) {
		kp_err_param(err, "model", "the model `%" KP_FMT "` does not exist", KP_ARG(name));
		err->code = KP_NOT_FOUND;
		err->reason = "model_not_found";
		return NULL;
	}
	if (!kp_model_text_revision(m)) {
		const char *why = m->revisions[0]->why_not;
		kp_err_set(err, KP_UNAVAILABLE, "the model `%" KP_FMT "` is not ready: %s",
			KP_ARG(name), why ? why : "loading");
		err->reason = "model_not_ready";
		return NULL;
	}
	return m;
}

struct new_tls {
	struct kp_msg msg;
	struct kp_gwloop *l;
	struct kp_peer_tls tls;
};

static void on_new_tls(struct kp_msg *msg)
{
	struct new_tls *m = KP_CONTAINER(msg, struct new_tls, msg);
	struct kp_gwloop *l = m->l;
	kp_peer_tls_unref(&l->peer_tls);
	l->peer_tls = m->tls;
	for (size_t i = 0; i < l->n_lanes; i++) {
		kp_dial_set_tls(l->lanes[i]->engine, l->lanes[i]->endpoint, &l->peer_tls);
	}
	if (l->peer && l->peer_tls.server) {
		kp_peer_server_set_tls(l->peer, l->peer_tls.server);
	}
	kp_mem_free(m);
}

void kp_gwloop_set_peer_tls(struct kp_gwloop *l, struct kp_peer_tls tls)
{
	struct new_tls *m = kp_new(struct new_tls);
	*m = (struct new_tls){ .msg = { .run = on_new_tls }, .l = l, .tls = tls };
	kp_mailbox_post(kp_loop_mailbox(l->loop), &m->msg);
}

struct engine_down {
	struct kp_msg msg;
	struct kp_gwloop *l;
	struct kp_endpoint *e;
	bool is_stalled;
};

static void on_engine_down(struct kp_msg *msg)
{
	struct engine_down *d = KP_CONTAINER(msg, struct engine_down, msg);
	kp_list_each_safe (node, &d->l->flows) {
		kp_flow_engine_down(KP_CONTAINER(node, struct kp_flow, link), d->e, d->is_stalled);
	}
	if (d->l->peer) {
		kp_peer_server_engine_down(d->l->peer, d->e, d->is_stalled);
	}
	kp_endpoint_unref(d->e);
	kp_mem_free(d);
}

void kp_gwloop_engine_down(struct kp_gwloop *l, struct kp_endpoint *e, bool is_stalled)
{
	struct engine_down *d = kp_new(struct engine_down);
	*d = (struct engine_down){ .msg = { .run = on_engine_down },
		.l = l,
		.e = kp_endpoint_ref(e),
		.is_stalled = is_stalled };
	kp_mailbox_post(kp_loop_mailbox(l->loop), &d->msg);
}

struct engine_serves {
	struct kp_msg msg;
	struct kp_gwloop *l;
	struct kp_endpoint *e;
	uint64_t text_fingerprint;
	int64_t asked_ns;
};

static void on_engine_serves(struct kp_msg *msg)
{
	struct engine_serves *m = KP_CONTAINER(msg, struct engine_serves, msg);
	for (size_t i = 0; i < m->l->n_lanes; i++) {
		if (m->l->lanes[i]->endpoint == m->e) {
			kp_dial_serves(
				m->l->lanes[i]->engine, m->e, m->text_fingerprint, m->asked_ns);
		}
	}
	kp_endpoint_unref(m->e);
	kp_mem_free(m);
}

void kp_gwloop_engine_serves(
	struct kp_gwloop *l, struct kp_endpoint *e, uint64_t text_fingerprint, int64_t asked_ns)
{
	struct engine_serves *m = kp_new(struct engine_serves);
	*m = (struct engine_serves){ .msg = { .run = on_engine_serves },
		.l = l,
		.e = kp_endpoint_ref(e),
		.text_fingerprint = text_fingerprint,
		.asked_ns = asked_ns };
	kp_mailbox_post(kp_loop_mailbox(l->loop), &m->msg);
}

void kp_gwloop_drop(struct kp_gwloop *l, struct kp_buf *b)
{
	if (b->cap >= KP_WORKERS_FREE_LEAST) {
		kp_workers_free(l->gateway->receivers, b->p);
		kp_buf_init(b, b->max);
	} else {
		kp_buf_fini(b);
	}
}

/* --- drain and end --- */

struct drain {
	struct kp_msg msg;
	struct kp_gwloop *l;
	bool cancel;
};

static void on_drain(struct kp_msg *msg)
{
	struct drain *d = KP_CONTAINER(msg, struct drain, msg);
	struct kp_gwloop *l = d->l;
	struct kp_err err;
	kp_http_server_drain(l->server);
	if (l->peer) {
		kp_peer_server_drain(l->peer, d->cancel);
	}
	if (d->cancel) {
		kp_err_set(&err, KP_UNAVAILABLE, "the gateway is shutting down");
		kp_api_fail_calls(l, &err);
		kp_list_each_safe (node, &l->flows) {
			kp_flow_fail(KP_CONTAINER(node, struct kp_flow, link), &err);
		}
	}
	kp_mem_free(d);
}

void kp_gwloop_drain(struct kp_gwloop *l, bool cancel)
{
	struct drain *d = kp_new(struct drain);
	*d = (struct drain){ .msg = { .run = on_drain }, .l = l, .cancel = cancel };
	kp_mailbox_post(kp_loop_mailbox(l->loop), &d->msg);
}

static void server_gone(void *arg)
{
	struct kp_gwloop *l = arg;
	if (--l->servers_left == 0) {
		kp_loop_stop(l->loop);
	}
}

static void on_stop(struct kp_msg *msg)
{
	struct drain *d = KP_CONTAINER(msg, struct drain, msg);
	struct kp_gwloop *l = d->l;
	kp_mem_free(d);
	l->servers_left = 2;
	kp_http_server_destroy(l->server, server_gone,
		l); /* every flow ends here; those at a worker when it comes back */
	kp_peer_server_destroy(l->peer, server_gone, l);
	kp_fetch_destroy(kp_steal(l->media_fetch));
	kp_mcp_pool_destroy(kp_steal(l->mcp));
	while (l->n_lanes) {
		lane_destroy(l, l->lanes[0]);
	}
}

void kp_gwloop_destroy(struct kp_gwloop *l)
{
	if (!l) {
		return;
	}
	struct drain *d = kp_new(struct drain);
	*d = (struct drain){ .msg = { .run = on_stop }, .l = l };
	kp_mailbox_post(kp_loop_mailbox(l->loop), &d->msg);
	if (l->is_started) {
		pthread_join(l->thread, NULL);
	} else {
		kp_loop_run(l->loop);
	}
	kp_snapshot_unref(l->snapshot);
	kp_peer_tls_unref(&l->peer_tls);
	kp_loop_destroy(l->loop);
	kp_mem_free(l->lanes);
	kp_token_scratch_destroy(l->scratch);
	kp_buf_fini(&l->scratch_buf);
	kp_explain_ring_fini(&l->explain);
	kp_mem_free(l);
}

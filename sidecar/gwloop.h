/* One loop thread of the gateway: its listeners, the snapshot it serves from, its connections to
   engines, the requests in flight on it. Everything here is for that thread, except the
   functions that say "any thread". */
#ifndef SIDECAR_GWLOOP_H
#define SIDECAR_GWLOOP_H

#include "core/engine.h"
#include "sidecar/control/peer_tls.h"
#include "sidecar/gateway.h"
#include "sidecar/route/explain.h"

#include <pthread.h>

/* A lane: this loop's connection to one endpoint. It lives while a snapshot names the endpoint or a
 * call runs on it. */
struct kp_lane {
	struct kp_gwloop *l;
	struct kp_endpoint *endpoint;
	struct kp_engine *engine;
	unsigned calls;
	bool is_named; /* by the current snapshot */
};

struct kp_mcp_pool;

struct kp_gwloop {
	struct kp_gateway *gateway;
	struct kp_loop *loop;
	struct kp_http_server *server;
	struct kp_fetch *media_fetch; /* of images' URLs; NULL: none was asked for yet */
	size_t max_image_fetches;     /* at once */
	struct kp_peer_server *peer;  /* NULL: no --peer-listen */
	unsigned servers_left;        /* while they are being destroyed */
	struct kp_peer_tls peer_tls;
	struct kp_mcp_pool *mcp;      /* sessions with MCP servers */
	struct kp_snapshot *snapshot; /* NULL until the first one */
	struct kp_lane **lanes;
	size_t n_lanes;
	struct kp_token_scratch *scratch;
	struct kp_rng rng;
	struct kp_explain_ring explain; /* any thread may look something up in it */
	struct kp_list flows;           /* requests in flight */
	struct kp_list calls;           /* kp_api_call.link */
	size_t n_flows;
	struct kp_buf scratch_buf; /* for the answer bytes of one engine message */
	struct kp_defer sweep;     /* frees lanes nobody needs */
	pthread_t thread;
	bool is_started;
};

int kp_gwloop_create(struct kp_gateway *g, unsigned index, struct kp_gwloop **ret,
	struct kp_err *err) KP_MUST_USE;
/* Opens one more public listener. Before start. Port 0 gives a free one: *address is then replaced
 * for the loops that follow. */
int kp_gwloop_listen(struct kp_gwloop *l, const char *address, uint16_t *ret_port,
	struct kp_err *err) KP_MUST_USE;
/* The same for the peer port. */
int kp_gwloop_listen_peer(struct kp_gwloop *l, const char *address, uint16_t *ret_port,
	struct kp_err *err) KP_MUST_USE;
void kp_gwloop_start(struct kp_gwloop *l);
/* Any thread: as kp_gwloop_listen, later, on the loop; what fails is logged. */
void kp_gwloop_listen_later(struct kp_gwloop *l, const char *address);
/* Any thread: serve from this snapshot from now on (takes over the reference). */
void kp_gwloop_publish(struct kp_gwloop *l, struct kp_snapshot *s);
/* Any thread: new connections to and from other gateways use these certificates (takes over the
 * references). */
void kp_gwloop_set_peer_tls(struct kp_gwloop *l, struct kp_peer_tls tls);
/* Any thread: the endpoint does not answer. Generations that wait for their first token there go
   elsewhere; with is_stalled those under way that got nothing for a while end too. */
void kp_gwloop_engine_down(struct kp_gwloop *l, struct kp_endpoint *e, bool is_stalled);
/* Any thread: the endpoint, asked at asked_ns (kp_now_ns), serves with that text stack; connections that are
   older than the question may be used for it (engine/remote.h). */
void kp_gwloop_engine_serves(
	struct kp_gwloop *l, struct kp_endpoint *e, uint64_t text_fingerprint, int64_t asked_ns);
/* Any thread: stop accepting, let requests finish; with cancel true: end them now. */
void kp_gwloop_drain(struct kp_gwloop *l, bool cancel);
/* Joins the thread and frees everything. */
void kp_gwloop_destroy(struct kp_gwloop *l);

/* The model of that name with its text stack loaded, in the current snapshot. NULL: NOT_FOUND
 * `model_not_found`, or UNAVAILABLE `model_not_ready`. */
const struct kp_model *kp_gwloop_model(struct kp_gwloop *l, kp_str name, struct kp_err *err);

/* The lane to an endpoint (made when there is none), counted until kp_lane_release. */
struct kp_lane *kp_lane_acquire(struct kp_gwloop *l, struct kp_endpoint *e);
void kp_lane_release(struct kp_gwloop *l, struct kp_lane *lane);
/* As kp_buf_fini, of what may be large. */
void kp_gwloop_drop(struct kp_gwloop *l, struct kp_buf *b);

#endif

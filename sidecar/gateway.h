/* The gateway process: what its threads share, and its life. main.c builds one, runs it, takes it
   down.

   Threads: N loop threads (struct kp_gwloop each: connections, turns, engine connections), one
   control thread (manifests, endpoints' health, tokenizers), one admin thread (libwebsockets), the
   worker pool, the history's thread, the log thread. They share: the configuration, the metrics, the snapshot (by
   message), the endpoints' counters. */
#ifndef SIDECAR_GATEWAY_H
#define SIDECAR_GATEWAY_H

#include "base/shm.h"
#include "base/workers.h"
#include "fetch/policy.h"
#include "net/loop.h"
#include "net/server.h"
#include "obs/metrics.h"
#include "sidecar/config.h"
#include "sidecar/control/peer_tls.h"

struct kp_gateway;
struct kp_gwloop;
struct kp_bootstrap;
struct kp_history;

struct kp_gateway_policy {
	struct kp_fetch_policy policy;
	kp_str hosts[KP_STRINGS_MAX]; /* its parts */
	struct kp_cidr allow[KP_STRINGS_MAX];
};

struct kp_gateway {
	struct kp_config config;
	int64_t started_ns; /* monotonic */
	struct kp_metrics *metrics;
	struct kp_workers *workers, *media_workers;
	struct kp_workers *receivers;    /* of long bodies */
	struct kp_prompt_cache *prompts; /* of all loops and workers; NULL: none */
	struct kp_tls_context *tls;      /* of the public listeners; NULL: cleartext */
	struct kp_history *history;      /* of responses, its thread's alone; NULL: none is kept */
	struct kp_workers *history_thread; /* one thread */
	struct kp_bootstrap *bootstrap; /* makes the files of --tls-dir; NULL: somebody else does */
	struct kp_peer_tls peer_tls;    /* as they were at the start */
	struct kp_gwloop **loops;
	size_t n_loops;
	struct kp_control *control;
	struct kp_admin *admin, *probes;            /* probes: NULL: no --probe-listen */
	char admin_address[300], peer_address[300]; /* where others reach it, "" nowhere; set before
						       the control thread starts */
	struct {
		atomic_llong requests, errors, tokens; /* ended; with 5xx; sent to clients */
	} served;
	atomic_llong body_bytes;        /* of all request bodies held */
	struct kp_gateway_policy media; /* whom images' URLs may lead to */
	struct kp_gateway_policy mcp;   /* and those of MCP servers that requests name */
	struct kp_shm_owner media_shm;  /* of names in /dev/shm; lock -1: it is not used */
	atomic_uint media_names;        /* given so far */
	atomic_llong media_reaped_ns;   /* when what dead gateways left was looked for */
	atomic_llong media_bytes;       /* that images of all requests hold */
	atomic_int in_flight; /* requests with a body, from their head to their end, on all loops */
	atomic_bool draining, closed; /* closed: nothing is accepted any more */
	atomic_llong drain_ns;        /* when it began to (monotonic) */
	atomic_llong
		refuse_ns; /* while it drains: when it begins to turn other gateways away (monotonic) */
	bool is_listening; /* on a public address; the control thread's once it runs */
};

/* Builds everything and listens. On success every thread runs. */
int kp_gateway_start(
	const struct kp_config *config, struct kp_gateway **ret, struct kp_err *err) KP_MUST_USE;
/* The control thread: the program names the ports at last (127.0.0.1); nothing when it listens. */
void kp_gateway_listen(struct kp_gateway *g, const uint16_t *ports, size_t n);
/* Any thread: not ready from now on, and the operator is told. Other gateways are turned away once it has
 * had a second to name another owner, if there is one; what runs goes on. */
void kp_gateway_drain(struct kp_gateway *g);
/* Any thread. Who asks also moves it on: once those who send requests had --drain-settle to notice, the listeners close. */
enum kp_drain_state {
	KP_DRAIN_NONE = 0,
	KP_DRAIN_UNDER_WAY,
	KP_DRAIN_DONE,    /* nothing is in flight, and nothing comes any more */
	KP_DRAIN_TOO_LONG /* --drain-timeout since the drain began is over, something still is */
};
enum kp_drain_state kp_gateway_drained(struct kp_gateway *g, int64_t now_ns);
/* Any thread: is what other gateways send turned away? */
bool kp_gateway_refuses(const struct kp_gateway *g, int64_t now_ns);
/* Blocks until SIGTERM or SIGINT, drains, takes everything down. */
void kp_gateway_run(struct kp_gateway *g);
void kp_gateway_destroy(struct kp_gateway *g);

#endif

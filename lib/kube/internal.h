/* Inside lib/kube: a call, and the transport under it. */
#ifndef KP_KUBE_INTERNAL_H
#define KP_KUBE_INTERNAL_H

#include "base/clock.h"
#include "base/list.h"
#include "base/mem.h"
#include "fetch/multi.h"
#include "kube/backoff.h"
#include "kube/client.h"
#include "kube/credentials.h"
#include "obs/log.h"

/* One multi handle of libcurl and so one set of connections. A client has one that takes new calls, and for a
   moment some that were given up. */
struct kp_kube_pool {
	struct kp_list link;
	struct kp_kube *k;
	struct kp_multi multi;
	struct kp_list calls;
	int64_t heard_ns; /* a byte came on one of its connections */
	bool is_retired;
};

struct kp_kube_call {
	struct kp_list link;  /* in the pool's calls, the client's waiting or ended ones; or none */
	struct kp_list ready; /* bytes of a stream are to be handed on */
	struct kp_kube *k;
	struct kp_kube_pool *pool; /* NULL: not under way */
	CURL *easy;
	struct curl_slist *headers;
	struct kp_kube_request r;
	char *path, *url, *body;
	struct kp_buf in;
	struct kp_timer deadline, again, idle;
	struct kp_kube_backoff backoff;
	int64_t began_ns;                     /* this try */
	uint64_t used_generation, used_token; /* of the credentials, by this try */
	CURLcode result;
	struct kp_err failed; /* code OK: libcurl's result counts */
	struct kp_err before; /* why the last try failed; code OK: this is the first */
	char text[CURL_ERROR_SIZE];
	bool is_stream, is_open, is_waiting, is_counted, has_reread, is_calling, is_dead;
};

struct kp_kube {
	struct kp_loop *loop;
	struct kp_kube_opts opts;
	char *user_agent;
	char *url_prefix;              /* what stands before a path */
	char *host;                    /* for tls-server-name: whom the request is for; NULL */
	struct curl_slist *connect_to; /* and where the connection goes */
	bool no_proxy;                 /* the server is on this machine */
	struct kp_kube_credentials credentials;
	struct kp_rng rng;
	struct kp_list pools;
	struct kp_kube_pool *pool;                     /* that takes calls */
	struct kp_list waiting, resting, ended, ready; /* resting: until it is tried again */
	size_t n_in_flight, n_streams, n_waiting;
	struct kp_defer settle;
	struct kp_timer probe;
	struct kp_kube_call *probing;
	struct kp_log_limit complain;
	bool is_closing;
	struct kp_counter *retries, *silent;
};

/* transport.c */
struct kp_kube_pool *kp_kube_pool_create(struct kp_kube *k);
/* Its calls must be gone. */
void kp_kube_pool_destroy(struct kp_kube_pool *p);
/* -1: libcurl does not take it. */
int kp_kube_transport_begin(
	struct kp_kube_pool *p, struct kp_kube_call *c, struct kp_err *err) KP_MUST_USE;
/* Also in the middle; the call is in no list afterwards. */
void kp_kube_transport_end(struct kp_kube_call *c);
/* Calls that ended are moved to the client's list of ended ones. */
void kp_kube_transport_collect(struct kp_kube_pool *p);

/* client.c: called in the loop's turn when something happened */
void kp_kube_settle_soon(struct kp_kube *k);

#endif

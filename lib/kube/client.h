/* A client of one API server, on one loop: requests that answer by a callback, never before the call that made
   them returned, and streams (watches). One pool of connections, over HTTP/2 all on one; nothing blocks the
   loop but the look at small files of credentials. Owner's thread only.

   Tried again by itself, within the request's time: what was surely not taken (no connection; 429 or 5xx with
   Retry-After; 401, once, when the credentials on disk are others by now), and for GET also a connection that
   broke. Everything else is for the caller, who knows whether the request may be made twice.

   A connection that says nothing while requests on it time out, or a quiet one whose probe (GET /version) is
   not answered, is given up with all that is on it, and the next request makes a new one: a server that is
   stopped, or a network that drops, is noticed by all watches at once. */
#ifndef KP_KUBE_CLIENT_H
#define KP_KUBE_CLIENT_H

#include "kube/config.h"
#include "kube/status.h"
#include "net/loop.h"
#include "obs/metrics.h"

struct kp_kube;
struct kp_kube_call;

enum {
	KP_KUBE_IN_FLIGHT_MAX = 64,  /* requests, streams not counted; more wait */
	KP_KUBE_STREAMS_MAX = 1024,  /* more fail at once, RESOURCE_EXHAUSTED */
	KP_KUBE_WAITING_MAX = 10000, /* more fail at once, RESOURCE_EXHAUSTED */
	KP_KUBE_BODY_MAX = 16 << 20, /* of a request */
	KP_KUBE_ANSWER_MAX = 64 << 20,
};

struct kp_kube_opts {
	const struct kp_kube_config *config; /* must outlive the client */
	const char *user_agent;              /* "kelpie-operator/0.3" */
	struct kp_metrics *metrics;
	uint64_t seed; /* of the jitter; 0: random */
	/* 0: the defaults: 10 s, 30 s, 10 s */
	int64_t connect_ns, probe_after_ns, probe_timeout_ns;
};
/* The credentials are read; what cannot be read is an error. No connection is made yet. */
int kp_kube_create(struct kp_loop *loop, const struct kp_kube_opts *opts, struct kp_kube **ret,
	struct kp_err *err) KP_MUST_USE;
/* Calls that are left are cancelled. Stores, leases and the like on it must be gone. NULL is fine. */
void kp_kube_destroy(struct kp_kube *k);
struct kp_loop *kp_kube_loop(const struct kp_kube *k);
struct kp_rng *kp_kube_rng(struct kp_kube *k);
kp_str kp_kube_namespace(const struct kp_kube *k); /* of the configuration */
struct kp_metrics *kp_kube_metrics(const struct kp_kube *k);

struct kp_kube_answer {
	kp_str body;                     /* of success; until the callback returns */
	int http;                        /* 0: there was none */
	struct kp_kube_failure *failure; /* NULL: it is a success (2xx) */
};
struct kp_kube_request {
	const char *method, *path; /* "PATCH", "/api/v1/..." with everything encoded; copied */
	const char *content_type;  /* NULL: there is no body; static */
	kp_str body;               /* copied */
	int64_t timeout_ns; /* in all, with waiting and trying again; 0: 30 s. Not for streams */
	size_t max_bytes;   /* of the answer; 0: KP_KUBE_ANSWER_MAX */
	bool once;          /* is not tried again */
	/* A stream, if `data` is set: `opened` (may be NULL) when the head of a 2xx answer came, its bytes as they
	   come; `done` tells its end. No byte for idle_ns: it ends with DEADLINE_EXCEEDED. */
	void (*opened)(void *ctx);
	void (*data)(void *ctx, kp_str bytes);
	int64_t idle_ns;
	void (*done)(void *ctx, const struct kp_kube_answer *answer);
	void *ctx;
};
/* Never NULL. Valid until `done` was called, in which it may not be cancelled. */
struct kp_kube_call *kp_kube_send(struct kp_kube *k, const struct kp_kube_request *r);
/* `done` is not called. Also inside `opened` and `data` of the same call. */
void kp_kube_cancel(struct kp_kube_call *call);

/* The answer as an object, the caller's; NULL: failure says why (an answer that is no object is DATA_LOSS, in
   err alone). */
json_t *kp_kube_answer_json(const struct kp_kube_answer *a, struct kp_err *err) KP_MUST_USE;
extern const struct kp_doc_limits kp_kube_limits; /* of what an API server says */

#endif

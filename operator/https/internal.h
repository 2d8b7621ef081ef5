/* What the listener's own files share. Everything is the https thread's. */
#ifndef OPERATOR_HTTPS_INTERNAL_H
#define OPERATOR_HTTPS_INTERNAL_H

#include "base/list.h"
#include "net/server.h"
#include "operator/https/https.h"
#include "operator/trust/quota.h"
#include "obs/log.h"

#include <pthread.h>
#include <stdatomic.h>

struct kp_https_objects;
struct kp_https_call;

struct kp_https {
	struct kp_https_opts opts;
	struct kp_loop *loop;
	pthread_t thread;
	bool is_started;
	atomic_bool is_ready; /* for /readyz of the operator */
	struct kp_kube_config *config;
	struct kp_kube *kube;
	struct kp_trust *trust;
	struct kp_https_objects *objects;
	struct kp_kube_version *version;
	struct kp_http_server *server;
	uint16_t port;
	size_t body_bytes; /* of all calls */
	unsigned n_reviews;
	struct kp_quota of_address, of_pod; /* requests for certificates */
	struct kp_log_limit log_refused, log_tls;
	struct kp_counter *refused; /* certificates */
};

struct kp_https_route {
	kp_str method, path;
	size_t max_body; /* 0: none is read */
	/* The body is there; answers now or later. */
	void (*run)(struct kp_https_call *c);
};
struct kp_https_call {
	struct kp_https *h;
	struct kp_stream *stream;
	const struct kp_http_request *request; /* until the stream is closed */
	const struct kp_https_route *route;
	struct kp_buf body;
	size_t held; /* of h->body_bytes */
	bool is_answered;
	struct kp_pki_csr *csr;      /* of a request for a certificate */
	struct kp_kube_call *review; /* under way; NULL: none */
};
void kp_https_reply(struct kp_https_call *c, int status, const char *type, kp_str body);
void kp_https_fail(struct kp_https_call *c, const struct kp_err *err);
void kp_https_look_ready(struct kp_https *h);

/* certificates.c */
void kp_https_certificates(struct kp_https_call *c);
void kp_https_certificates_closed(struct kp_https_call *c);
/* Before the body is read: does this address ask too often? */
int kp_https_certificates_begin(struct kp_https_call *c, struct kp_err *err) KP_MUST_USE;

/* objects.c: engines and pools, for the webhook */
struct kp_https_objects *kp_https_objects_create(struct kp_https *h);
bool kp_https_objects_are_listed(const struct kp_https_objects *o); /* NULL: no */
void kp_https_objects_destroy(struct kp_https_objects *o);          /* NULL is fine */
void kp_https_inject(struct kp_https_call *c);

#endif

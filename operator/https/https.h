/* The operator's HTTPS listener, which every replica serves, leader or not:

     POST /inject        AdmissionReview in and out (inject/review.h): the webhook
     POST /certificates  a PEM certificate request, and the pod's token as bearer: a certificate for a gateway
     GET  /livez         the process answers
     GET  /readyz        ok once there is a certificate that others believe, and engines and pools were listed

   It has a thread of its own, with a loop and a client of the API server of its own, and there is everything that it needs: the
   authority (trust/trust.h) and what it knows of engines and pools. So a pod's creation never waits for a plan that the operator's
   loop makes, and handshakes do not hold up the gateways. With the rest of the operator it shares only the control port's
   certificate (rpc/rpc.h, kp_rpc_keys) and metrics; it tells it by messages who was refused a certificate.

   Limits: 1,024 connections, bodies of 8 MiB (/inject) and 16 KiB (/certificates), 64 MiB of them together, 512 tokens under
   review; of each address 100 requests for certificates, then 10 a second, of each pod 10, then one in 6 s. Errors are JSON as on
   every listener of ours: 401 the token is nobody's, 403 it is another's or the request asks for too much, 429 too often,
   503 the API server or the authority is not there. */
#ifndef OPERATOR_HTTPS_HTTPS_H
#define OPERATOR_HTTPS_HTTPS_H

#include "inject/inject.h"
#include "operator/trust/trust.h"
#include "rpc/rpc.h"

struct kp_https;

/* What became of a request for a certificate. */
struct kp_https_asked {
	kp_str uid;     /* of the gateway's pod; "": the request does not say whose it is */
	kp_str address; /* without a port */
	kp_str why;     /* it was refused; "": it was not */
};

struct kp_https_opts {
	const char *address;
	const char *kubeconfig; /* NULL: the pod's own */
	const char *ns;         /* the operator's; NULL: the configuration's */
	const char *user_agent;
	const char *id;                      /* in Events */
	const struct kp_strings *namespaces; /* that are watched; none: all */
	const struct kp_strings *names;      /* of the listeners, beside the Service's */
	struct kp_trust_periods periods;
	struct kp_inject_settings inject;
	bool is_standby;          /* this replica writes nothing until kp_https_lead says so */
	struct kp_rpc_keys *keys; /* of the control port; set before kp_https_start returns */
	struct kp_metrics *metrics;
	/* Run by the mailbox's owner, also after kp_https_stop: until the mailbox is gone. */
	struct kp_mailbox *mailbox;
	void (*asked)(void *ctx, const struct kp_https_asked *a);
	void *ctx;
};
/* Strings and *namespaces, *names must outlive it. Until the authority is known, both listeners show a certificate that nobody
   believes. */
int kp_https_start(
	const struct kp_https_opts *opts, struct kp_https **ret, struct kp_err *err) KP_MUST_USE;
int kp_https_port(const struct kp_https *h);
/* Any thread: there is a certificate that others believe, and engines and pools were listed. Stays true. */
bool kp_https_is_ready(const struct kp_https *h);
/* Any thread: whether this replica writes what certificates need. */
void kp_https_lead(struct kp_https *h, bool is_leading);
void kp_https_stop(struct kp_https *h); /* joins the thread; NULL is fine */

#endif

/* The operator's authority in a cluster (docs/trust.md): the Secret that has it, who believes it, and what it signs.

   Secret `kelpie-operator-tls` of the operator's namespace is made by the replica that is first, and changed with its
   resourceVersion, so of several that want to change it one does and the others read what it wrote. Only who leads
   writes. Everybody follows it, and it is made anew when it is deleted. When it makes no sense the last that it said stays in force and
   is written back, if anybody who leads knows it; an Event on it says so.
   ConfigMap `kelpie-ca` (`ca.crt`) is in each namespace that has an InferenceEngine, or pods that are labelled for one, and
   `caBundle` in every webhook of the MutatingWebhookConfiguration `kelpie`: both are followed and put right. A
   configuration that is not there is waited for. ConfigMaps are never deleted: pods may have mounted them.

   What it may do (RBAC), all of it:
     in the operator's namespace    secrets: create; get, list, watch, update of `kelpie-operator-tls`
                                    events.events.k8s.io: create, patch
     in each watched namespace      configmaps: create; get, list, watch, patch of `kelpie-ca`
                                    pods, inferenceengines.kelpie.dev: list, watch
     in the cluster                 tokenreviews.authentication.k8s.io: create
                                    mutatingwebhookconfigurations: get, list, watch, patch of `kelpie`
   (list and watch are of one name, by field selector, so rules with resourceNames allow them.)

   Everything on the loop's thread. Nothing is logged of keys. */
#ifndef OPERATOR_TRUST_TRUST_H
#define OPERATOR_TRUST_TRUST_H

#include "base/cmdline.h"
#include "kube/client.h"
#include "obs/metrics.h"
#include "pki/pki.h"

#define KP_TRUST_SECRET  "kelpie-operator-tls"
#define KP_TRUST_MAP     "kelpie-ca"
#define KP_TRUST_WEBHOOK "kelpie"
#define KP_TRUST_SERVICE "kelpie-operator"

struct kp_trust;

/* For the operator's listeners. PEM, until the next call of `changed`. */
struct kp_trust_keys {
	kp_str cert, key, bundle; /* the bundle: everybody who is believed */
};
struct kp_trust_periods {
	int64_t rotate_ns, overlap_ns, lifetime_ns;
};
/* What makes no sense together is INVALID_ARGUMENT and names the flags. */
int kp_trust_check_periods(const struct kp_trust_periods *p, struct kp_err *err) KP_MUST_USE;

struct kp_trust_opts {
	struct kp_kube *kube;                /* must outlive it */
	kp_str ns;                           /* the operator's; copied */
	const struct kp_strings *namespaces; /* that are watched; none: all. Must outlive it */
	const struct kp_strings *names; /* more names and addresses of the listeners; the same */
	struct kp_trust_periods periods;
	const char *id;  /* in Events; must outlive it */
	bool is_standby; /* writes nothing until kp_trust_lead says so */
	struct kp_metrics *metrics;
	/* The listeners' certificate, or whom they believe, is another one. */
	void (*changed)(void *ctx, const struct kp_trust_keys *keys);
	void *ctx;
};
struct kp_trust *kp_trust_create(struct kp_loop *loop, const struct kp_trust_opts *opts);
void kp_trust_destroy(struct kp_trust *t); /* NULL is fine */
/* Whether this replica writes. */
void kp_trust_lead(struct kp_trust *t, bool is_leading);
bool kp_trust_is_ready(const struct kp_trust *t); /* there is an authority */

struct kp_trust_issued {
	struct kp_buf cert, bundle; /* PEM; the caller's to finish */
	struct kp_pki_facts facts;
};
/* Signs a certificate for the gateway of this pod: DNS name `uid`, SPIFFE ID of the namespace and account. The request
   was checked. UNAVAILABLE: there is no authority yet. */
int kp_trust_issue(struct kp_trust *t, const struct kp_pki_csr *csr, kp_str uid, kp_str ns,
	kp_str account, struct kp_trust_issued *ret, struct kp_err *err) KP_MUST_USE;
void kp_trust_issued_fini(struct kp_trust_issued *i); /* zeroed is fine */

#endif

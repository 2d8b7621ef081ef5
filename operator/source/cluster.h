/* Objects from a Kubernetes API server, of all namespaces or of those named, followed: InferencePools and InferenceEngines,
   and the world around them (plan/world.h). What files give at once comes here one by one, so errors are the object's: one that makes no sense is left
   out and named, the others count. Nothing is handed on before everything was listed; while the server is away the last
   that was known stays. Loop thread. */
#ifndef OPERATOR_SOURCE_CLUSTER_H
#define OPERATOR_SOURCE_CLUSTER_H

#include "base/cmdline.h"
#include "net/loop.h"
#include "kube/store.h"
#include "obs/metrics.h"
#include "operator/plan/world.h"
#include "operator/source/objects.h"

struct kp_cluster;

struct kp_cluster_opts {
	const char *kubeconfig;         /* NULL: the operator's own pod */
	const struct kp_strings *names; /* of namespaces; none: all of them */
	const char *user_agent;
	struct kp_metrics *metrics;
	/* The rules between objects, and what is made of the set. Objects that the problems name are left out, and it is
	   called again. */
	kp_objects_check *check;
	/* The set that was checked last is accepted. */
	void (*accepted)(void *ctx);
	/* The world is another, the set is as it was. is_more: not only in its pods and nodes. */
	void (*moved)(void *ctx, bool is_more);
	/* Something else is known: see kp_cluster_problems. */
	void (*shown)(void *ctx);
	void *ctx;
};
/* An error is a configuration that cannot be used; a server that is not there is waited for. */
int kp_cluster_create(struct kp_loop *loop, const struct kp_cluster_opts *opts,
	struct kp_cluster **ret, struct kp_err *err) KP_MUST_USE;
void kp_cluster_destroy(struct kp_cluster *c); /* NULL is fine */

struct kp_kube *kp_cluster_kube(const struct kp_cluster *c);
/* NULL: not known yet. Until the next turn of the loop. */
const struct kp_world *kp_cluster_world(const struct kp_cluster *c);
/* Of a kind of plan/kinds.h (pods: those of engines) in a namespace; NULL: it is not watched there. */
const struct kp_kube_store *kp_cluster_store(
	const struct kp_cluster *c, const struct kp_kube_kind *kind, kp_str ns);
const char *kp_cluster_server(const struct kp_cluster *c); /* "https://10.0.0.1:443" */
bool kp_cluster_is_synced(const struct kp_cluster *c);     /* everything was listed once */
/* What is left out, and what cannot be watched, a line each, and how many; "" and 0: nothing. */
kp_str kp_cluster_problems(const struct kp_cluster *c, size_t *ret_n);
int64_t kp_cluster_accepted_wall_ns(
	const struct kp_cluster *c); /* when a set was accepted last; 0: never */

#endif

/* Keys of objects that are to be looked at: each is in the queue once however often it is added, no key is worked
   on twice at a time, and one that failed comes back after a growing pause. Level-based: a key says "look", not
   what happened. Owner's thread. */
#ifndef KP_KUBE_QUEUE_H
#define KP_KUBE_QUEUE_H

#include "base/rand.h"
#include "base/str.h"
#include "net/loop.h"
#include "obs/metrics.h"

struct kp_kube_queue;

enum { KP_KUBE_QUEUE_KEYS_MAX = 1 << 20 };

struct kp_kube_queue_opts {
	const char *name;          /* label of its metrics; static */
	size_t workers;            /* keys that are worked on at a time; 0: 1 */
	int64_t first_ns, most_ns; /* of the pause; 0: 10 ms, 5 min */
	uint64_t seed;             /* 0: random */
	struct kp_metrics *metrics;
	/* Begins the work on a key, which ends with kp_kube_queue_done, here or later. The key is the queue's until
	   then. Never called from within a call to the queue. */
	void (*work)(void *ctx, kp_str key);
	void *ctx;
};
struct kp_kube_queue *kp_kube_queue_create(
	struct kp_loop *loop, const struct kp_kube_queue_opts *opts);
void kp_kube_queue_destroy(struct kp_kube_queue *q); /* NULL is fine; not from within work() */

/* As soon as there is a worker. A key that is worked on comes again afterwards. false: KP_KUBE_QUEUE_KEYS_MAX keys
   are there, it was left out and counted. */
bool kp_kube_queue_add(struct kp_kube_queue *q, kp_str key);
/* Not before; the earliest of several counts. */
bool kp_kube_queue_add_after(struct kp_kube_queue *q, kp_str key, int64_t wait_ns);
/* The work is done; the pause of failures begins anew. */
void kp_kube_queue_done(struct kp_kube_queue *q, kp_str key);
/* The work failed: the key comes back after its pause, or at_least_ns. What is added meanwhile waits for it too: a
   change of the object is not a reason to ask a server that is down at once. Returns the pause. */
int64_t kp_kube_queue_failed(struct kp_kube_queue *q, kp_str key, int64_t at_least_ns);
size_t kp_kube_queue_depth(const struct kp_kube_queue *q);   /* waiting for a worker */
size_t kp_kube_queue_working(const struct kp_kube_queue *q); /* being worked on */

#endif

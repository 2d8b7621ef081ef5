/* Worker pool for what would hold a loop longer than about a millisecond. Bounded queue: a full one
   refuses at once, and the caller answers RESOURCE_EXHAUSTED. A job belongs to the pool from a
   successful submit until `done` ran on the thread that drains its `reply` mailbox. */
#ifndef KP_BASE_WORKERS_H
#define KP_BASE_WORKERS_H

#include "base/mailbox.h"

struct kp_job {
	struct kp_msg done; /* done.run is the completion, on the reply mailbox's thread */
	void (*work)(struct kp_job *); /* on a worker thread; touches only what the job owns */
	struct kp_mailbox *reply; /* NULL: nobody is told, and the job may be gone after work */
	struct kp_list link;      /* the pool's */
};

struct kp_workers;

struct kp_workers_opts {
	const char *name; /* of the threads, with a number: at most 12 bytes of it are shown */
	unsigned threads;
	size_t max_queued;
	int nice; /* above 0: kp_thread_last */
};

struct kp_workers *kp_workers_create(const struct kp_workers_opts *opts);
/* Finishes what is queued, joins the threads; nothing can be submitted any more. NULL is fine. */
void kp_workers_stop(struct kp_workers *w);
void kp_workers_destroy(struct kp_workers *w); /* stops it first */
/* false: the queue is full (the job is still the caller's). */
bool kp_workers_submit(struct kp_workers *w, struct kp_job *job) KP_MUST_USE;
/* Frees memory of KP_WORKERS_FREE_LEAST bytes or more on a worker (here, if the queue is full): giving so many pages back takes a while. */
enum { KP_WORKERS_FREE_LEAST = 256 << 10 };
void kp_workers_free(struct kp_workers *w, void *p);
size_t kp_workers_queued(const struct kp_workers *w);

#endif

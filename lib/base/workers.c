/* DESIGN: one queue under one mutex, a semaphore that counts its jobs, n threads with 1 MiB stacks. The queue
   is bounded: submit refuses, it never waits. Not a condition variable: to signal glibc's may wait for
   threads that were woken before and have not run yet, which niced ones may not do for long. Completions are posted outside the lock. Destroy lets
   queued jobs finish, since each holds a request that waits for it. */
#include "base/workers.h"
#include "base/mem.h"
#include "base/thread.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

struct kp_workers {
	pthread_mutex_t lock;
	sem_t jobs; /* in the queue; and one for each thread that is to end */
	struct kp_list queue;
	size_t queued, max_queued;
	bool stopping;
	int nice;
	unsigned n_threads;
	pthread_t threads[];
};

static void *worker(void *arg)
{
	struct kp_workers *w = arg;
	if (w->nice) {
		kp_thread_last(w->nice);
	}
	for (;;) {
		while (sem_wait(&w->jobs) != 0) {
		}
		pthread_mutex_lock(&w->lock);
		struct kp_list *node = kp_list_pop(&w->queue);
		w->queued -= node != NULL;
		pthread_mutex_unlock(&w->lock);
		if (!node) {
			break; /* stopping, and all is done */
		}
		struct kp_job *job = KP_CONTAINER(node, struct kp_job, link);
		struct kp_mailbox *reply = job->reply;
		job->work(job);
		if (reply) {
			kp_mailbox_post(reply, &job->done);
		}
	}
	return NULL;
}

static void start_thread(struct kp_workers *w, const char *name, const pthread_attr_t *attr)
{
	char numbered[16]; /* more than that pthread_setname_np refuses */
	if (pthread_create(&w->threads[w->n_threads], attr, worker, w) != 0) {
		kp_bug(__FILE__, __LINE__, "cannot start a worker thread");
	}
	snprintf(numbered, sizeof(numbered), "%.12s-%u", name, w->n_threads % 100);
	pthread_setname_np(w->threads[w->n_threads], numbered);
	w->n_threads++;
}

struct kp_workers *kp_workers_create(const struct kp_workers_opts *opts)
{
	struct kp_workers *w = kp_xcalloc(1, sizeof(*w) + opts->threads * sizeof(pthread_t));
	pthread_mutex_init(&w->lock, NULL);
	sem_init(&w->jobs, 0, 0);
	kp_list_init(&w->queue);
	w->max_queued = opts->max_queued;
	w->nice = opts->nice;
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 1 << 20);
	while (w->n_threads < opts->threads) {
		start_thread(w, opts->name, &attr);
	}
	pthread_attr_destroy(&attr);
	return w;
}

void kp_workers_stop(struct kp_workers *w)
{
	if (!w) {
		return;
	}
	pthread_mutex_lock(&w->lock);
	w->stopping = true;
	pthread_mutex_unlock(&w->lock);
	for (unsigned i = 0; i < w->n_threads; i++) {
		sem_post(&w->jobs);
	}
	for (unsigned i = 0; i < w->n_threads; i++) {
		pthread_join(w->threads[i], NULL);
	}
	w->n_threads = 0;
}

void kp_workers_destroy(struct kp_workers *w)
{
	if (!w) {
		return;
	}
	kp_workers_stop(w);
	sem_destroy(&w->jobs);
	pthread_mutex_destroy(&w->lock);
	kp_mem_free(w);
}

bool kp_workers_submit(struct kp_workers *w, struct kp_job *job)
{
	pthread_mutex_lock(&w->lock);
	bool ok = w->queued < w->max_queued && !w->stopping;
	if (ok) {
		kp_list_push(&w->queue, &job->link);
		w->queued++;
	}
	pthread_mutex_unlock(&w->lock);
	if (ok) {
		sem_post(&w->jobs);
	}
	return ok;
}

static void free_block(struct kp_job *job)
{
	kp_mem_free(job);
}

void kp_workers_free(struct kp_workers *w, void *p)
{
	struct kp_job *job = p; /* the block has room for it, and nothing else to do */
	*job = (struct kp_job){ .work = free_block };
	if (!kp_workers_submit(w, job)) {
		kp_mem_free(p);
	}
}

size_t kp_workers_queued(const struct kp_workers *w)
{
	struct kp_workers *m = kp_unconst(w); /* only its lock is written */
	pthread_mutex_lock(&m->lock);
	size_t n = m->queued;
	pthread_mutex_unlock(&m->lock);
	return n;
}

/* DESIGN: one queue under one mutex, a condition variable, n threads with 1 MiB stacks. The queue
   is bounded: submit refuses, it never waits. Completions are posted outside the lock. Destroy lets
   queued jobs finish, since each holds a request that waits for it. */
#include "base/workers.h"
#include "base/mem.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>

struct kp_workers {
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct kp_list queue;
	size_t queued, max_queued;
	bool stopping;
	int nice;
	unsigned n_threads;
	pthread_t threads[];
};

/* On Linux both are of this thread alone. What is not allowed is done without. */
static void come_after(int nice)
{
	const struct sched_param none = { .sched_priority = 0 };
	(void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + nice);
	(void)sched_setscheduler(0, SCHED_BATCH, &none);
}

static void *worker(void *arg)
{
	struct kp_workers *w = arg;
	if (w->nice) {
		come_after(w->nice);
	}
	pthread_mutex_lock(&w->lock);
	for (;;) {
		while (kp_list_empty(&w->queue) && !w->stopping) {
			pthread_cond_wait(&w->more, &w->lock);
		}
		struct kp_list *node = kp_list_pop(&w->queue);
		if (!node) {
			break;
		}
		w->queued--;
		pthread_mutex_unlock(&w->lock);
		struct kp_job *job = KP_CONTAINER(node, struct kp_job, link);
		job->work(job);
		kp_mailbox_post(job->reply, &job->done);
		pthread_mutex_lock(&w->lock);
	}
	pthread_mutex_unlock(&w->lock);
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
	pthread_cond_init(&w->more, NULL);
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

void kp_workers_destroy(struct kp_workers *w)
{
	if (!w) {
		return;
	}
	pthread_mutex_lock(&w->lock);
	w->stopping = true;
	pthread_cond_broadcast(&w->more);
	pthread_mutex_unlock(&w->lock);
	for (unsigned i = 0; i < w->n_threads; i++) {
		pthread_join(w->threads[i], NULL);
	}
	pthread_cond_destroy(&w->more);
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
		pthread_cond_signal(&w->more);
	}
	pthread_mutex_unlock(&w->lock);
	return ok;
}

size_t kp_workers_queued(const struct kp_workers *w)
{
	struct kp_workers *m = kp_unconst(w); /* only its lock is written */
	pthread_mutex_lock(&m->lock);
	size_t n = m->queued;
	pthread_mutex_unlock(&m->lock);
	return n;
}

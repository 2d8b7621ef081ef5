/* DESIGN: one queue under one mutex, a condition variable, n threads with 1 MiB stacks. The queue
   is bounded: submit refuses, it never waits. Completions are posted outside the lock. Destroy lets
   queued jobs finish, since each holds a request that waits for it. */
#include "base/workers.h"
#include "base/mem.h"

#include <pthread.h>

struct kp_workers {
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct kp_list queue;
	size_t queued, max_queued;
	bool stopping;
	unsigned n_threads;
	pthread_t threads[];
};

static void *worker(void *arg)
{
	struct kp_workers *w = arg;
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

struct kp_workers *kp_workers_create(unsigned threads, size_t max_queued)
{
	struct kp_workers *w = kp_xcalloc(1, sizeof(*w) + threads * sizeof(pthread_t));
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->more, NULL);
	kp_list_init(&w->queue);
	w->max_queued = max_queued;
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 1 << 20);
	for (; w->n_threads < threads; w->n_threads++) {
		if (pthread_create(&w->threads[w->n_threads], &attr, worker, w) != 0) {
			kp_bug(__FILE__, __LINE__, "cannot start a worker thread");
		}
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

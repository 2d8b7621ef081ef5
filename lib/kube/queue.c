/* DESIGN: one record a key, in a map while there is anything to know of it: it waits for a worker (in the list), is
   worked on, or waits for its time (a timer), and how often it failed in a row. */
#include "kube/queue.h"

#include "base/clock.h"
#include "base/list.h"
#include "base/map.h"
#include "kube/backoff.h"

struct item {
	struct kp_list link; /* waits for a worker */
	struct kp_timer later;
	struct kp_kube_queue *q;
	char *text;
	kp_str key;
	struct kp_kube_backoff backoff;
	bool is_working, is_dirty; /* dirty: added again while it is worked on */
	bool is_failing;           /* its pause is not over */
	int64_t again_ns;          /* while working: not before that, 0 nothing */
};
struct kp_kube_queue {
	struct kp_loop *loop;
	struct kp_kube_queue_opts opts;
	struct kp_rng rng;
	struct kp_map items;
	struct kp_list ready;
	size_t n_ready, n_working;
	struct kp_defer run;
	struct kp_counter *adds, *retries, *dropped;
	struct kp_gauge *depth;
};

static void run(struct kp_defer *d);

static void enqueue(struct item *i)
{
	struct kp_kube_queue *q = i->q;
	kp_timer_stop(q->loop, &i->later);
	i->is_failing = false;
	if (!kp_list_linked(&i->link)) {
		kp_list_push(&q->ready, &i->link);
		kp_gauge_set(q->depth, (int64_t)++q->n_ready);
		kp_loop_defer(q->loop, &q->run, run);
	}
}

static void on_later(struct kp_timer *t)
{
	enqueue(KP_CONTAINER(t, struct item, later));
}

static void at(struct item *i, int64_t due_ns)
{
	if (!i->later.heap_index || due_ns < i->later.due_ns) {
		kp_timer_start(i->q->loop, &i->later, due_ns, on_later);
	}
}

/* Begins as many as there are workers for; whoever is done meanwhile makes room in the same turn. */
static void run(struct kp_defer *d)
{
	struct kp_kube_queue *q = KP_CONTAINER(d, struct kp_kube_queue, run);
	struct kp_list *node;
	while (q->n_working < q->opts.workers && (node = kp_list_pop(&q->ready))) {
		struct item *i = KP_CONTAINER(node, struct item, link);
		kp_gauge_set(q->depth, (int64_t)--q->n_ready);
		q->n_working++;
		i->is_working = true;
		i->is_dirty = false;
		i->again_ns = 0;
		q->opts.work(q->opts.ctx, i->key);
	}
}

static void free_item(void *value)
{
	struct item *i = value;
	kp_timer_stop(i->q->loop, &i->later);
	kp_mem_free(i->text);
	kp_mem_free(i);
}

/* NULL: there are too many. */
static struct item *get(struct kp_kube_queue *q, kp_str key)
{
	struct item *i = kp_map_get(&q->items, key);
	kp_counter_add(q->adds, 1);
	if (i) {
		return i;
	}
	if (q->items.n >= KP_KUBE_QUEUE_KEYS_MAX) {
		kp_counter_add(q->dropped, 1);
		return NULL;
	}
	i = kp_new(struct item);
	i->q = q;
	i->text = kp_str_z(key);
	i->key = (kp_str){ i->text, key.n };
	i->backoff = (struct kp_kube_backoff){ .first_ns = q->opts.first_ns,
		.most_ns = q->opts.most_ns };
	kp_map_set(&q->items, key, i);
	return i;
}

bool kp_kube_queue_add(struct kp_kube_queue *q, kp_str key)
{
	struct item *i = get(q, key);
	if (!i) {
		return false;
	}
	if (i->is_working) {
		i->is_dirty = true;
	} else if (!i->is_failing) {
		enqueue(i);
	}
	return true;
}

bool kp_kube_queue_add_after(struct kp_kube_queue *q, kp_str key, int64_t wait_ns)
{
	int64_t due = kp_loop_now(q->loop) + wait_ns;
	struct item *i = get(q, key);
	if (!i) {
		return false;
	}
	if (i->is_working) {
		i->again_ns = i->again_ns ? KP_MIN(i->again_ns, due) : due;
	} else if (!i->is_failing && !kp_list_linked(&i->link)) {
		at(i, due);
	}
	return true;
}

/* What was on the worker is not any more. */
static struct item *stop_working(struct kp_kube_queue *q, kp_str key)
{
	struct item *i = kp_map_get(&q->items, key);
	KP_BUG_ON(!i || !i->is_working);
	i->is_working = false;
	q->n_working--;
	kp_loop_defer(q->loop, &q->run, run);
	return i;
}

void kp_kube_queue_done(struct kp_kube_queue *q, kp_str key)
{
	struct item *i = stop_working(q, key);
	kp_kube_backoff_reset(&i->backoff);
	if (i->is_dirty) {
		enqueue(i);
	} else if (i->again_ns) {
		at(i, i->again_ns);
	} else {
		kp_map_del(&q->items, i->key);
		free_item(i);
	}
}

int64_t kp_kube_queue_failed(struct kp_kube_queue *q, kp_str key, int64_t at_least_ns)
{
	struct item *i = stop_working(q, key);
	int64_t wait = kp_kube_backoff_next(&i->backoff, &q->rng);
	wait = KP_MAX(wait, at_least_ns);
	kp_counter_add(q->retries, 1);
	i->is_failing = true;
	at(i, kp_loop_now(q->loop) + wait);
	return wait;
}

static void init_metrics(struct kp_kube_queue *q)
{
	struct kp_metrics *m = q->opts.metrics;
	const struct kp_label of[] = { { "queue", kp_str_c(q->opts.name) } };
	q->adds = kp_metrics_counter(
		m, "kelpie_queue_adds_total", "Times a key was added to a work queue.", of, 1);
	q->retries = kp_metrics_counter(m, "kelpie_queue_retries_total",
		"Times the work on a key of a work queue failed.", of, 1);
	q->dropped = kp_metrics_counter(
		m, "kelpie_queue_dropped_total", "Keys that a work queue had no room for.", of, 1);
	q->depth = kp_metrics_gauge(
		m, "kelpie_queue_depth", "Keys of a work queue that wait for a worker.", of, 1);
}

struct kp_kube_queue *kp_kube_queue_create(
	struct kp_loop *loop, const struct kp_kube_queue_opts *opts)
{
	struct kp_kube_queue *q = kp_new(struct kp_kube_queue);
	uint64_t seed = opts->seed;
	q->loop = loop;
	q->opts = *opts;
	q->opts.workers = opts->workers ? opts->workers : 1;
	q->opts.first_ns = opts->first_ns ? opts->first_ns : 10 * KP_NS_PER_MS;
	q->opts.most_ns = opts->most_ns ? opts->most_ns : 300 * KP_NS_PER_S;
	if (!seed) {
		kp_random_bytes(&seed, sizeof(seed));
	}
	kp_rng_seed(&q->rng, seed);
	kp_map_init(&q->items);
	kp_list_init(&q->ready);
	init_metrics(q);
	return q;
}

void kp_kube_queue_destroy(struct kp_kube_queue *q)
{
	if (q) {
		kp_loop_undefer(&q->run);
		kp_map_fini(&q->items, free_item);
		kp_mem_free(q);
	}
}

size_t kp_kube_queue_depth(const struct kp_kube_queue *q)
{
	return q->n_ready;
}

size_t kp_kube_queue_working(const struct kp_kube_queue *q)
{
	return q->n_working;
}

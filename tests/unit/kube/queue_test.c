/* The work queue on a real loop: a key once, never on two workers, and back after a growing pause; the pauses
   themselves. */
#include "base/clock.h"
#include "kube/backoff.h"
#include "kube/queue.h"
#include "tests/test.h"

struct world {
	struct kp_loop *loop;
	struct kp_metrics *metrics;
	struct kp_kube_queue *q;
	struct kp_buf log; /* "a" began, "a." done, "a!" failed */
	struct kp_timer stop, step;
	int fail_first; /* so many times */
	bool is_slow;   /* work ends when step says so */
	size_t n_left;  /* works to be done until the loop stops, 0: only the time counts */
	size_t n_busy, most_busy;
	int64_t began_ns[16];
	size_t n_began;
};

static void work(void *ctx, kp_str key)
{
	struct world *w = ctx;
	kp_buf_add(&w->log, key);
	w->n_busy++;
	w->most_busy = KP_MAX(w->most_busy, w->n_busy);
	if (w->n_began < KP_LEN(w->began_ns)) {
		w->began_ns[w->n_began++] = kp_now_ns();
	}
	if (w->is_slow) {
		return;
	}
	w->n_busy--;
	if (w->fail_first > 0) {
		w->fail_first--;
		kp_buf_lit(&w->log, "!");
		kp_kube_queue_failed(w->q, key, 0);
	} else {
		kp_buf_lit(&w->log, ".");
		kp_kube_queue_done(w->q, key);
		if (w->n_left && --w->n_left == 0) {
			kp_loop_stop(w->loop);
		}
	}
}

static void setup(struct world *w, size_t workers, int64_t first_ms)
{
	*w = (struct world){ .loop = kp_loop_create("test"), .metrics = kp_metrics_create() };
	const struct kp_kube_queue_opts opts = { .name = "test",
		.workers = workers,
		.first_ns = first_ms * KP_NS_PER_MS,
		.most_ns = 4 * first_ms * KP_NS_PER_MS,
		.seed = 7,
		.metrics = w->metrics,
		.work = work,
		.ctx = w };
	kp_buf_init(&w->log, 4096);
	w->q = kp_kube_queue_create(w->loop, &opts);
}

static void teardown(struct world *w)
{
	kp_kube_queue_destroy(w->q);
	kp_loop_destroy(w->loop);
	kp_metrics_destroy(w->metrics);
	kp_buf_fini(&w->log);
}

static void on_stop(struct kp_timer *t)
{
	kp_loop_stop(KP_CONTAINER(t, struct world, stop)->loop);
}

static void run(struct world *w, int64_t ms)
{
	kp_timer_start(w->loop, &w->stop, kp_now_ns() + ms * KP_NS_PER_MS, on_stop);
	kp_loop_run(w->loop);
}

/* Until n works are done; a busy machine has its time. */
static void run_until(struct world *w, size_t n)
{
	w->n_left = n;
	run(w, 5000);
	kp_timer_stop(w->loop, &w->stop);
	assert_int_equal(w->n_left, 0);
}

static void a_key_is_there_once(void **state)
{
	(void)state;
	struct world w;
	setup(&w, 1, 10);
	kp_kube_queue_add(w.q, KP_S("a"));
	kp_kube_queue_add(w.q, KP_S("b"));
	kp_kube_queue_add(w.q, KP_S("a"));
	assert_int_equal(kp_kube_queue_depth(w.q), 2);
	run(&w, 20);
	assert_str_lit(kp_buf_str(&w.log), "a.b.");
	assert_int_equal(kp_kube_queue_depth(w.q), 0);
	teardown(&w);
}

static void on_step(struct kp_timer *t)
{
	struct world *w = KP_CONTAINER(t, struct world, step);
	/* "a" and "b" are on the two workers; "a" changes meanwhile, twice. */
	assert_int_equal(kp_kube_queue_working(w->q), 2);
	kp_kube_queue_add(w->q, KP_S("a"));
	kp_kube_queue_add(w->q, KP_S("a"));
	assert_int_equal(kp_kube_queue_depth(w->q), 1); /* "c" */
	w->is_slow = false;
	w->n_busy -= 2;
	kp_kube_queue_done(w->q, KP_S("a"));
	kp_kube_queue_done(w->q, KP_S("b"));
}

static void never_on_two_workers(void **state)
{
	(void)state;
	struct world w;
	setup(&w, 2, 10);
	w.is_slow = true;
	kp_kube_queue_add(w.q, KP_S("a"));
	kp_kube_queue_add(w.q, KP_S("b"));
	kp_kube_queue_add(w.q, KP_S("c"));
	kp_timer_start(w.loop, &w.step, kp_now_ns() + 5 * KP_NS_PER_MS, on_step);
	run_until(&w, 2);
	assert_str_lit(kp_buf_str(&w.log), "abc.a."); /* "a" once more, after "c" */
	assert_int_equal(w.most_busy, 2);
	teardown(&w);
}

static void failures_wait_longer_and_longer(void **state)
{
	(void)state;
	struct world w;
	setup(&w, 1, 10);
	w.fail_first = 3;
	kp_kube_queue_add(w.q, KP_S("a"));
	run_until(&w, 1);
	assert_str_lit(kp_buf_str(&w.log), "a!a!a!a.");
	for (size_t i = 0; i < 3; i++) {
		int64_t full = 10 * KP_NS_PER_MS << i, took = w.began_ns[i + 1] - w.began_ns[i];
		assert_true(took >= full / 2 - KP_NS_PER_MS);
	}
	/* It was done, so the next failure's pause is the first again. */
	w.fail_first = 1;
	w.n_began = 0;
	kp_kube_queue_add(w.q, KP_S("a"));
	run_until(&w, 1);
	assert_str_lit(kp_buf_str(&w.log), "a!a!a!a.a!a.");
	assert_int_equal(w.n_began, 2);
	teardown(&w);
}

static void a_change_does_not_shorten_the_pause(void **state)
{
	(void)state;
	struct world w;
	setup(&w, 1, 1000);
	w.fail_first = 1;
	kp_kube_queue_add(w.q, KP_S("a"));
	run(&w, 10);
	kp_kube_queue_add(w.q, KP_S("a"));
	kp_kube_queue_add_after(w.q, KP_S("a"), 0);
	run(&w, 10);
	assert_str_lit(kp_buf_str(&w.log), "a!");
	run_until(&w, 1);
	assert_str_lit(kp_buf_str(&w.log), "a!a.");
	teardown(&w);
}

static void later(void **state)
{
	(void)state;
	struct world w;
	setup(&w, 1, 10);
	kp_kube_queue_add_after(w.q, KP_S("a"), 50 * KP_NS_PER_MS);
	kp_kube_queue_add_after(w.q, KP_S("a"), 60 * KP_NS_PER_S); /* the earlier one counts */
	kp_kube_queue_add_after(w.q, KP_S("b"), 60 * KP_NS_PER_S);
	kp_kube_queue_add(w.q, KP_S("b")); /* now counts, and there is no second time */
	run_until(&w, 1);
	assert_str_lit(kp_buf_str(&w.log), "b.");
	run_until(&w, 1);
	assert_str_lit(kp_buf_str(&w.log), "b.a.");
	teardown(&w);
}

static void pauses(void **state)
{
	(void)state;
	struct kp_rng rng;
	struct kp_kube_backoff b = { .first_ns = 100, .most_ns = 1000 };
	static const int64_t full[] = { 100, 200, 400, 800, 1000, 1000, 1000 };
	kp_rng_seed(&rng, test_seed());
	for (int round = 0; round < 1000; round++) {
		kp_kube_backoff_reset(&b);
		for (size_t i = 0; i < KP_LEN(full); i++) {
			int64_t got = kp_kube_backoff_next(&b, &rng);
			assert_in_range(got, full[i] / 2, full[i]);
		}
	}
	b = (struct kp_kube_backoff){ .first_ns = INT64_MAX / 2, .most_ns = INT64_MAX, .n = 70 };
	assert_true(kp_kube_backoff_next(&b, &rng) >= INT64_MAX / 2);
	b.n = UINT32_MAX;
	kp_kube_backoff_next(&b, &rng);
	assert_int_equal(b.n, UINT32_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_is_there_once),
		cmocka_unit_test(never_on_two_workers),
		cmocka_unit_test(failures_wait_longer_and_longer),
		cmocka_unit_test(a_change_does_not_shorten_the_pause),
		cmocka_unit_test(later),
		cmocka_unit_test(pauses),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

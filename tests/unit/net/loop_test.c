/* The loop: timers, deferred work, mailbox, busy clock. */
#include "base/clock.h"
#include "base/mem.h"
#include "net/loop.h"
#include "tests/test.h"

#include <pthread.h>
#include <uv.h>

struct fixture {
	struct kp_loop *loop;
	char order[64];
	size_t n;
};

static void note(struct fixture *f, char c)
{
	assert_true(f->n < sizeof(f->order) - 1);
	f->order[f->n++] = c;
	f->order[f->n] = '\0';
}

struct named_timer {
	struct kp_timer t;
	struct fixture *f;
	char name;
};

static void on_named(struct kp_timer *t)
{
	struct named_timer *nt = KP_CONTAINER(t, struct named_timer, t);
	assert_true(kp_loop_now(nt->f->loop) >= t->due_ns);
	note(nt->f, nt->name);
	if (nt->name == '!') {
		kp_loop_stop(nt->f->loop);
	}
}

static void test_timers_fire_in_order(void **state)
{
	(void)state;
	struct fixture f = { .loop = kp_loop_create("test") };
	int64_t now = kp_loop_now(f.loop);
	const char names[] = "dbac!x";
	const int ms[] = { 4, 2, 1, 3, 8, 60000 };
	struct named_timer t[6] = { 0 };
	for (size_t i = 0; i < 6; i++) {
		t[i].f = &f;
		t[i].name = names[i];
		kp_timer_start(f.loop, &t[i].t, now + ms[i] * KP_NS_PER_MS, on_named);
	}
	kp_timer_stop(f.loop, &t[1].t);                                    /* b never fires */
	kp_timer_start(f.loop, &t[0].t, now + KP_NS_PER_MS / 2, on_named); /* d first now */
	kp_loop_run(f.loop);
	assert_true(kp_now_ns() - now >= 8 * KP_NS_PER_MS);
	assert_string_equal(f.order, "dac!");
	kp_timer_stop(f.loop, &t[5].t);
	kp_timer_stop(f.loop, &t[5].t); /* a stopped one is fine */
	kp_loop_destroy(f.loop);
}

/* Against a sorted array: random starts, restarts and stops. */
static void on_count(struct kp_timer *t)
{
	t->fn = NULL;
}

struct ender {
	struct kp_timer t;
	struct kp_loop *loop;
};
static void on_end(struct kp_timer *t)
{
	kp_loop_stop(KP_CONTAINER(t, struct ender, t)->loop);
}

static void test_many_timers(void **state)
{
	(void)state;
	enum { N = 2000 };
	struct kp_rng rng;
	kp_rng_seed(&rng, test_seed());
	struct kp_loop *loop = kp_loop_create("test");
	struct kp_timer *t = kp_xcalloc(N, sizeof(*t));
	bool *wanted = kp_xcalloc(N, sizeof(*wanted));
	int64_t now = kp_loop_now(loop);
	for (int round = 0; round < 5 * N; round++) {
		size_t i = kp_rng_below(&rng, N);
		wanted[i] = kp_rng_below(&rng, 3) != 0;
		if (wanted[i]) {
			kp_timer_start(
				loop, &t[i], now + (int64_t)kp_rng_below(&rng, 3000000), on_count);
		} else {
			kp_timer_stop(loop, &t[i]);
		}
	}
	struct ender end = { .loop = loop };
	kp_timer_start(loop, &end.t, now + 5 * KP_NS_PER_MS, on_end);
	kp_loop_run(loop);
	for (size_t i = 0; i < N; i++) {
		assert_int_equal(t[i].heap_index, 0);
		assert_true(!wanted[i] || t[i].fn == NULL); /* every wanted one fired */
	}
	kp_mem_free(t);
	kp_mem_free(wanted);
	kp_loop_destroy(loop);
}

static int busy_runs;
static void on_again(struct kp_timer *t)
{
	struct named_timer *nt = KP_CONTAINER(t, struct named_timer, t);
	busy_runs++;
	kp_timer_start(nt->f->loop, t, 0, on_again);
}

static void on_enough(struct kp_timer *t)
{
	struct named_timer *nt = KP_CONTAINER(t, struct named_timer, t);
	if (busy_runs > 1) {
		kp_loop_stop(nt->f->loop);
	} else {
		kp_timer_start(nt->f->loop, t, kp_loop_now(nt->f->loop) + KP_NS_PER_MS, on_enough);
	}
}

/* A timer that is always due must not keep the loop from everything else: it would run forever. */
static void test_due_again_does_not_starve(void **state)
{
	(void)state;
	struct fixture f = { .loop = kp_loop_create("test") };
	struct named_timer again = { .f = &f }, stop = { .f = &f };
	busy_runs = 0;
	kp_timer_start(f.loop, &again.t, 0, on_again);
	kp_timer_start(f.loop, &stop.t, kp_loop_now(f.loop) + 3 * KP_NS_PER_MS, on_enough);
	kp_loop_run(f.loop);
	kp_timer_stop(f.loop, &again.t);
	kp_loop_destroy(f.loop);
}

struct named_defer {
	struct kp_defer d;
	struct fixture *f;
	struct named_defer *then, *cancel;
	char name;
};

static void on_defer(struct kp_defer *d)
{
	struct named_defer *nd = KP_CONTAINER(d, struct named_defer, d);
	note(nd->f, nd->name);
	if (nd->then) {
		kp_loop_defer(nd->f->loop, &nd->then->d, on_defer);
	}
	if (nd->cancel) {
		kp_loop_undefer(&nd->cancel->d);
	}
	if (nd->name == '!') {
		kp_loop_stop(nd->f->loop);
	}
}

static void test_deferred_work(void **state)
{
	(void)state;
	struct fixture f = { .loop = kp_loop_create("test") };
	struct named_defer end = { .f = &f, .name = '!' }, dead = { .f = &f, .name = 'X' };
	struct named_defer b = { .f = &f, .name = 'b', .then = &end },
			   a = { .f = &f, .name = 'a', .then = &b, .cancel = &dead };
	kp_loop_defer(f.loop, &a.d, on_defer);
	kp_loop_defer(f.loop, &a.d, on_defer); /* once only */
	kp_loop_defer(f.loop, &dead.d, on_defer);
	kp_loop_run(f.loop);
	assert_string_equal(f.order, "ab!");
	kp_loop_destroy(f.loop);
}

static int self_runs;
static struct fixture self_fixture;
static void on_self(struct kp_defer *d)
{
	if (++self_runs == 1000) {
		kp_loop_stop(self_fixture.loop);
	} else {
		kp_loop_defer(self_fixture.loop, d, on_self);
	}
}

static void test_defer_that_defers_itself(void **state)
{
	(void)state;
	self_fixture = (struct fixture){ .loop = kp_loop_create("test") };
	struct kp_defer d = { 0 };
	self_runs = 0;
	kp_loop_defer(self_fixture.loop, &d, on_self);
	kp_loop_run(self_fixture.loop); /* ends: the loop went on between the rounds */
	assert_int_equal(self_runs, 1000);
	kp_loop_destroy(self_fixture.loop);
}

struct posted {
	struct kp_msg msg;
	struct kp_loop *loop;
	int *seen;
	int last;
};

static void on_message(struct kp_msg *msg)
{
	struct posted *p = KP_CONTAINER(msg, struct posted, msg);
	assert_true(kp_loop_is_current(p->loop));
	assert_true(kp_loop_busy_since(p->loop) != 0);
	if (++*p->seen == p->last) {
		kp_loop_stop(p->loop);
	}
	kp_mem_free(p);
}

struct poster {
	struct kp_loop *loop;
	int *seen;
	int last;
	struct kp_timer start;
	pthread_t thread;
};

static void *post(void *arg)
{
	struct poster *p = arg;
	for (int i = 0; i < p->last; i++) {
		struct posted *m = kp_new(struct posted);
		*m = (struct posted){
			.msg.run = on_message, .loop = p->loop, .seen = p->seen, .last = p->last
		};
		kp_mailbox_post(kp_loop_mailbox(p->loop), &m->msg);
		if (i % 100 == 0) {
			assert_false(kp_loop_is_current(p->loop));
		}
	}
	return NULL;
}

/* From inside the loop: one that nobody runs is everybody's. */
static void on_start(struct kp_timer *t)
{
	struct poster *p = KP_CONTAINER(t, struct poster, start);
	pthread_create(&p->thread, NULL, post, p);
}

static void test_mailbox(void **state)
{
	(void)state;
	int seen = 0;
	struct kp_loop *loop = kp_loop_create("loop-7");
	assert_string_equal(kp_loop_name(loop), "loop-7");
	assert_true(kp_loop_is_current(loop)); /* nobody runs it yet */
	struct poster p = { .loop = loop, .seen = &seen, .last = 50 };
	struct ender guard = { .loop = loop };
	kp_timer_start(loop, &guard.t, kp_loop_now(loop) + 20 * KP_NS_PER_S, on_end);
	kp_timer_start(loop, &p.start, 0, on_start);
	kp_loop_run(loop);
	pthread_join(p.thread, NULL);
	assert_int_equal(seen, 50);
	assert_int_equal(kp_loop_busy_since(loop), 0);
	kp_timer_stop(loop, &guard.t);
	kp_loop_destroy(loop);
}

static void test_stop_before_run(void **state)
{
	(void)state;
	struct kp_loop *loop = kp_loop_create("test");
	kp_loop_stop(loop);
	kp_loop_run(loop); /* returns at once */
	kp_loop_destroy(loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_timers_fire_in_order),
		cmocka_unit_test(test_many_timers),
		cmocka_unit_test(test_due_again_does_not_starve),
		cmocka_unit_test(test_deferred_work),
		cmocka_unit_test(test_defer_that_defers_itself),
		cmocka_unit_test(test_mailbox),
		cmocka_unit_test(test_stop_before_run),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

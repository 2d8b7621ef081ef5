/* Mailboxes and the worker pool, with threads. `make check-tsan` runs this under ThreadSanitizer. */
#include "base/mailbox.h"
#include "base/mem.h"
#include "base/workers.h"
#include "tests/test.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/resource.h>

struct note {
	struct kp_msg msg;
	int from, seq;
	struct log *log;
};
struct log {
	struct kp_mailbox *box;
	int seen[8]; /* last number by poster */
	int total;
	char order[64];
	size_t n;
	bool post_again;
};

static void ring(void *arg)
{
	sem_post(arg);
}
static void count_ring(void *arg)
{
	++*(int *)arg;
}

static void read_note(struct kp_msg *msg)
{
	struct note *note = KP_CONTAINER(msg, struct note, msg);
	struct log *log = note->log;
	assert_int_equal(note->seq, log->seen[note->from] + 1); /* in order, none lost */
	log->seen[note->from] = note->seq;
	log->total++;
	kp_mem_free(note);
}

static struct note *note_new(struct log *log, int from, int seq)
{
	struct note *note = kp_new(struct note);
	note->msg.run = read_note;
	note->from = from;
	note->seq = seq;
	note->log = log;
	return note;
}

static void wake_only_when_it_was_empty(void **state)
{
	(void)state;
	int rings = 0;
	struct log log = { .total = 0 };
	struct kp_mailbox *box = kp_mailbox_create(count_ring, &rings);
	for (int i = 1; i <= 3; i++) {
		kp_mailbox_post(box, &note_new(&log, 0, i)->msg);
		assert_int_equal(rings, 1);
	}
	assert_int_equal(kp_mailbox_drain(box), 3);
	assert_int_equal(log.total, 3);
	assert_int_equal(kp_mailbox_drain(box), 0);
	kp_mailbox_post(box, &note_new(&log, 0, 4)->msg);
	assert_int_equal(rings, 2);
	kp_mailbox_destroy(box); /* runs what is left */
	assert_int_equal(log.total, 4);
	kp_mailbox_destroy(NULL);
	struct kp_mailbox *silent = kp_mailbox_create(NULL, NULL);
	kp_mailbox_post(silent, &note_new(&log, 0, 5)->msg);
	assert_int_equal(kp_mailbox_drain(silent), 1);
	kp_mailbox_destroy(silent);
}

static void post_one_more(struct kp_msg *msg)
{
	struct note *note = KP_CONTAINER(msg, struct note, msg);
	struct log *log = note->log;
	log->order[log->n++] = (char)('0' + note->seq);
	if (note->seq < 3) {
		note->seq++;
		kp_mailbox_post(log->box,
			&note->msg); /* the message may be used again as soon as it runs */
	} else {
		kp_mem_free(note);
	}
}
static void a_drain_runs_only_what_was_there(void **state)
{
	(void)state;
	struct log log = { .box = kp_mailbox_create(NULL, NULL) };
	struct note *note = note_new(&log, 0, 1);
	note->msg.run = post_one_more;
	kp_mailbox_post(log.box, &note->msg);
	assert_int_equal(kp_mailbox_drain(log.box), 1);
	assert_str(kp_str_n(log.order, log.n), KP_S("1"));
	kp_mailbox_destroy(log.box); /* also what comes while it ends */
	assert_str(kp_str_n(log.order, log.n), KP_S("123"));
}

enum { POSTERS = 6, EACH = 20000 };
struct poster {
	pthread_t thread;
	struct log *log;
	int id;
};
static void *post_many(void *arg)
{
	struct poster *p = arg;
	for (int i = 1; i <= EACH; i++) {
		kp_mailbox_post(p->log->box, &note_new(p->log, p->id, i)->msg);
	}
	return NULL;
}
static void many_posters_one_owner(void **state)
{
	(void)state;
	sem_t rung;
	sem_init(&rung, 0, 0);
	struct log log = { .box = kp_mailbox_create(ring, &rung) };
	struct poster posters[POSTERS];
	for (int i = 0; i < POSTERS; i++) {
		posters[i] = (struct poster){ .log = &log, .id = i };
		assert_int_equal(
			pthread_create(&posters[i].thread, NULL, post_many, &posters[i]), 0);
	}
	/* Sleeps until it is woken and drains once: if a wake-up were lost, this would not end. */
	while (log.total < POSTERS * EACH) {
		sem_wait(&rung);
		kp_mailbox_drain(log.box);
	}
	for (int i = 0; i < POSTERS; i++) {
		pthread_join(posters[i].thread, NULL);
		assert_int_equal(log.seen[i], EACH);
	}
	kp_mailbox_destroy(log.box);
	sem_destroy(&rung);
}

/* --- workers --- */

struct sum {
	struct kp_job job;
	uint64_t n, result;
	pthread_t thread;
	int *done;
	sem_t *gate, *started;
};
static void add_up(struct kp_job *job)
{
	struct sum *s = KP_CONTAINER(job, struct sum, job);
	if (s->started) {
		sem_post(s->started);
	}
	if (s->gate) {
		sem_wait(s->gate);
	}
	s->thread = pthread_self();
	for (uint64_t i = 1; i <= s->n; i++) {
		s->result += i;
	}
}
static void added_up(struct kp_msg *msg)
{
	struct sum *s = KP_CONTAINER(KP_CONTAINER(msg, struct kp_job, done), struct sum, job);
	assert_int_equal(s->result, s->n * (s->n + 1) / 2);
	assert_false(pthread_equal(s->thread, pthread_self()));
	++*s->done;
	kp_mem_free(s);
}
static struct sum *sum_new(struct kp_mailbox *reply, uint64_t n, int *done)
{
	struct sum *s = kp_new(struct sum);
	s->job.work = add_up;
	s->job.done.run = added_up;
	s->job.reply = reply;
	s->n = n;
	s->done = done;
	return s;
}

static struct kp_workers *pool(unsigned threads, size_t max_queued)
{
	const struct kp_workers_opts opts = {
		.name = "test", .threads = threads, .max_queued = max_queued
	};
	return kp_workers_create(&opts);
}

static void jobs_come_back_to_the_owner(void **state)
{
	(void)state;
	enum { JOBS = 5000 };
	sem_t rung;
	sem_init(&rung, 0, 0);
	int done = 0;
	struct kp_mailbox *box = kp_mailbox_create(ring, &rung);
	struct kp_workers *w = pool(3, JOBS);
	for (uint64_t i = 0; i < JOBS; i++) {
		assert_true(kp_workers_submit(w, &sum_new(box, i, &done)->job));
	}
	while (done < JOBS) {
		sem_wait(&rung);
		kp_mailbox_drain(box);
	}
	assert_int_equal(kp_workers_queued(w), 0);
	kp_workers_destroy(w);
	kp_mailbox_destroy(box);
	sem_destroy(&rung);
}

static void a_full_queue_refuses_at_once(void **state)
{
	(void)state;
	sem_t gate, started;
	sem_init(&gate, 0, 0);
	sem_init(&started, 0, 0);
	int done = 0;
	struct kp_mailbox *box = kp_mailbox_create(NULL, NULL);
	struct kp_workers *w = pool(1, 2);
	struct sum *held = sum_new(box, 10, &done), *refused = sum_new(box, 10, &done);
	held->gate = &gate;
	held->started = &started;
	assert_true(kp_workers_submit(w, &held->job));
	sem_wait(&started); /* the worker has taken it out of the queue */
	assert_true(kp_workers_submit(w, &sum_new(box, 10, &done)->job));
	assert_int_equal(kp_workers_queued(w), 1);
	assert_true(kp_workers_submit(w, &sum_new(box, 10, &done)->job));
	assert_int_equal(kp_workers_queued(w), 2);
	assert_false(kp_workers_submit(w, &refused->job));
	assert_int_equal(kp_workers_queued(w), 2);
	sem_post(&gate);
	kp_workers_destroy(w); /* finishes the queued ones */
	assert_int_equal(kp_mailbox_drain(box), 3);
	assert_int_equal(done, 3);
	kp_mem_free(refused); /* still ours */
	kp_mailbox_destroy(box);
	sem_destroy(&gate);
	sem_destroy(&started);
}

static void a_stopped_pool_refuses(void **state)
{
	(void)state;
	int done = 0;
	struct kp_mailbox *box = kp_mailbox_create(NULL, NULL);
	struct kp_workers *w = pool(2, 10);
	struct sum *refused = sum_new(box, 10, &done);
	assert_true(kp_workers_submit(w, &sum_new(box, 10, &done)->job));
	kp_workers_stop(w);
	assert_false(kp_workers_submit(w, &refused->job));
	kp_workers_stop(w); /* again is fine */
	kp_workers_stop(NULL);
	kp_workers_destroy(w);
	assert_int_equal(kp_mailbox_drain(box), 1);
	assert_int_equal(done, 1);
	kp_mem_free(refused);
	kp_mailbox_destroy(box);
}

struct who {
	struct kp_job job;
	char name[16];
	int nice, policy;
};
static void say_who(struct kp_job *job)
{
	struct who *w = KP_CONTAINER(job, struct who, job);
	pthread_getname_np(pthread_self(), w->name, sizeof(w->name));
	w->nice = getpriority(PRIO_PROCESS, 0);
	w->policy = sched_getscheduler(0);
}

static void threads_have_names_and_nice_values(void **state)
{
	(void)state;
	int nice = getpriority(PRIO_PROCESS, 0);
	static const struct kp_workers_opts opts[] = {
		{ .name = "short", .threads = 1, .max_queued = 1 },
		{ .name = "longer-than-there-is-room", .threads = 1, .max_queued = 1, .nice = 3 },
	};
	struct who who[2] = { { .job.work = say_who }, { .job.work = say_who } };
	for (size_t i = 0; i < 2; i++) {
		struct kp_workers *w = kp_workers_create(&opts[i]);
		assert_true(kp_workers_submit(w, &who[i].job)); /* nobody is told */
		kp_workers_destroy(w);
	}
	assert_string_equal(who[0].name, "short-0");
	assert_int_equal(who[0].nice, nice);
	assert_int_equal(who[0].policy, SCHED_OTHER);
	assert_string_equal(who[1].name, "longer-than--0");
	assert_int_equal(who[1].nice, KP_MIN(nice + 3, 19));
	assert_int_equal(who[1].policy, SCHED_BATCH);
}

/* LeakSanitizer says whether they are. */
static void blocks_are_freed_by_a_worker(void **state)
{
	(void)state;
	struct kp_workers *w = pool(1, 1000);
	for (int i = 0; i < 100; i++) {
		kp_workers_free(w, kp_xcalloc(1, KP_WORKERS_FREE_LEAST));
	}
	kp_workers_stop(w);
	kp_workers_free(w, kp_xcalloc(1, KP_WORKERS_FREE_LEAST)); /* here */
	kp_workers_destroy(w);
}

static void an_unused_pool_ends(void **state)
{
	(void)state;
	kp_workers_destroy(pool(4, 1));
	kp_workers_destroy(NULL);
	struct kp_workers *none = pool(1, 0);
	struct kp_job job = { .work = add_up };
	assert_false(kp_workers_submit(none, &job));
	kp_workers_destroy(none);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wake_only_when_it_was_empty),
		cmocka_unit_test(a_drain_runs_only_what_was_there),
		cmocka_unit_test(many_posters_one_owner),
		cmocka_unit_test(jobs_come_back_to_the_owner),
		cmocka_unit_test(a_full_queue_refuses_at_once),
		cmocka_unit_test(a_stopped_pool_refuses),
		cmocka_unit_test(threads_have_names_and_nice_values),
		cmocka_unit_test(blocks_are_freed_by_a_worker),
		cmocka_unit_test(an_unused_pool_ends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

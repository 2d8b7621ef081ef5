/* What the kernel says of threads that asked to come first or last. */
#include "base/thread.h"
#include "tests/test.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

struct attr { /* sched_getattr(2) */
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_ns, deadline_ns, period_ns;
};

static struct attr attr_of_this(void)
{
	struct attr a = { 0 };
	assert_int_equal(syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0), 0);
	return a;
}

static bool kernel_has_slices(void)
{
	struct utsname u;
	int major = 0, minor = 0;
	uname(&u);
	for (const char *p = u.release; *p >= '0' && *p <= '9'; p++) {
		major = major * 10 + *p - '0';
	}
	const char *dot = strchr(u.release, '.');
	for (const char *p = dot ? dot + 1 : ""; *p >= '0' && *p <= '9'; p++) {
		minor = minor * 10 + *p - '0';
	}
	return major > 6 || (major == 6 && minor >= 12);
}

static void *first(void *arg)
{
	struct attr before = attr_of_this();
	kp_thread_first();
	struct attr after = attr_of_this();
	assert_int_equal(after.policy, SCHED_OTHER);
	assert_int_equal(after.nice, before.nice);
	if (kernel_has_slices()) {
		assert_int_equal(after.runtime_ns, 100000);
	}
	return arg;
}

static void *last(void *arg)
{
	struct attr before = attr_of_this();
	kp_thread_last(3);
	struct attr after = attr_of_this();
	assert_int_equal(after.policy, SCHED_BATCH);
	assert_int_equal(after.nice, before.nice + 3 > 19 ? 19 : before.nice + 3);
	return arg;
}

static void run(void *(*fn)(void *))
{
	pthread_t t;
	int x;
	void *ret = NULL;
	assert_int_equal(pthread_create(&t, NULL, fn, &x), 0);
	pthread_join(t, &ret);
	assert_ptr_equal(ret, &x);
}

/* Each of its thread alone: the one that starts them stays as it was. */
static void threads_come_first_and_last(void **state)
{
	(void)state;
	struct attr before = attr_of_this();
	run(first);
	run(last);
	struct attr after = attr_of_this();
	assert_int_equal(after.policy, before.policy);
	assert_int_equal(after.nice, before.nice);
	assert_int_equal(after.runtime_ns, before.runtime_ns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_come_first_and_last),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

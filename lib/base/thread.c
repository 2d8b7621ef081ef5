#include "base/thread.h"

#include <sched.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* struct sched_attr of sched_setattr(2), which glibc 2.36 does not have. */
struct attr {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_ns, deadline_ns, period_ns;
};

enum { SHORT_NS = 100000 }; /* the shortest turn the kernel gives; usually some 3 ms */

void kp_thread_first(void)
{
	const struct attr a = { .size = sizeof(a),
		.policy = SCHED_OTHER,
		.nice = getpriority(PRIO_PROCESS, 0), /* on Linux the thread's */
		.runtime_ns = SHORT_NS };
	(void)syscall(SYS_sched_setattr, 0, &a, 0);
}

void kp_thread_last(int nice)
{
	const struct sched_param none = { .sched_priority = 0 };
	(void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + nice);
	(void)sched_setscheduler(0, SCHED_BATCH, &none);
}

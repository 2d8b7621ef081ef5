/* DESIGN: CPU time from the process's CPU clock (nanoseconds, not the 10 ms ticks of /proc/PID/stat), memory from /proc/PID/status. */
#include "load.h"
#include "base/clock.h"
#include "base/fs.h"

#include <stdio.h>
#include <time.h>

static uint64_t field(kp_str status, kp_str name)
{
	ptrdiff_t at = kp_str_find(status, name);
	uint64_t v = 0;
	if (at < 0) {
		return 0;
	}
	kp_str line = kp_str_skip(status, (size_t)at + name.n), word = KP_STR_NULL;
	kp_str_split(&line, '\n', &word);
	word = kp_str_trim(word);
	kp_str number = KP_STR_NULL;
	kp_str_split(&word, ' ', &number);
	(void)kp_str_u64(number, UINT64_MAX, &v);
	return v;
}

static int read_one(int32_t pid, struct kp_load_proc *sum, struct kp_err *err)
{
	clockid_t clock;
	struct timespec t;
	char path[64];
	if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) != 0) {
		return kp_err_set(err, KP_NOT_FOUND,
			"read the CPU time of process `%d`: gone, or not ours", pid);
	}
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 64 << 10);
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	if (kp_fs_read(path, &b, err) < 0) {
		return -1;
	}
	sum->cpu_ns += t.tv_sec * KP_NS_PER_S + t.tv_nsec;
	sum->rss_kib += field(kp_buf_str(&b), KP_S("\nVmRSS:"));
	sum->peak_kib += field(kp_buf_str(&b), KP_S("\nVmHWM:"));
	return 0;
}

int kp_load_proc_read(const int32_t *pids, size_t n, struct kp_load_proc *ret, struct kp_err *err)
{
	struct kp_load_proc sum = { 0 };
	for (size_t i = 0; i < n; i++) {
		if (read_one(pids[i], &sum, err) < 0) {
			return -1;
		}
	}
	*ret = sum;
	return 0;
}

/* DESIGN: see clock.h. */
#include "base/clock.h"

#include <stdio.h>
#include <time.h>

static int64_t read_clock(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return (int64_t)t.tv_sec * KP_NS_PER_S + t.tv_nsec;
}

int64_t kp_now_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

int64_t kp_wall_ns(void)
{
	return read_clock(CLOCK_REALTIME);
}

void kp_time_rfc3339(int64_t wall_ns, char buf[25])
{
	time_t s = (time_t)(wall_ns / KP_NS_PER_S);
	unsigned ms = (unsigned)(wall_ns % KP_NS_PER_S / KP_NS_PER_MS) % 1000;
	struct tm tm;
	gmtime_r(&s, &tm);
	char tmp[80];
	snprintf(tmp, sizeof(tmp), "%04d-%02d-%02dT%02d:%02d:%02d.%03uZ", tm.tm_year + 1900,
		tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, ms);
	for (int i = 0; i < 24; i++) {
		buf[i] = tmp[i];
	}
	buf[24] = '\0';
}

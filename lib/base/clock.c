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

int64_t kp_cpu_ns(void)
{
	return read_clock(CLOCK_THREAD_CPUTIME_ID);
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

/* `width` digits at s[*at], then `behind`; moves *at. */
static bool take_number(kp_str s, size_t *at, size_t width, char behind, int max, int *ret)
{
	uint64_t v;
	if (s.n < *at + width + 1 || s.p[*at + width] != behind ||
		!kp_str_u64(kp_str_sub(s, *at, *at + width), (uint64_t)max, &v)) {
		return false;
	}
	*ret = (int)v;
	*at += width + 1;
	return true;
}

bool kp_time_parse(kp_str text, int64_t *ret_wall_ns)
{
	struct tm tm = { 0 }, back;
	int64_t fraction = 0, unit = KP_NS_PER_S;
	size_t at = 0;
	bool dot = text.n > 19 && text.p[19] == '.';
	if (!take_number(text, &at, 4, '-', 9999, &tm.tm_year) ||
		!take_number(text, &at, 2, '-', 12, &tm.tm_mon) ||
		!take_number(text, &at, 2, 'T', 31, &tm.tm_mday) ||
		!take_number(text, &at, 2, ':', 23, &tm.tm_hour) ||
		!take_number(text, &at, 2, ':', 59, &tm.tm_min) ||
		!take_number(text, &at, 2, dot ? '.' : 'Z', 59, &tm.tm_sec)) {
		return false;
	}
	for (; dot && at < text.n && kp_is_digit(text.p[at]) && unit > 1; at++) {
		unit /= 10;
		fraction += (text.p[at] - '0') * unit;
	}
	if (dot && (unit == KP_NS_PER_S || at >= text.n || text.p[at++] != 'Z')) {
		return false;
	}
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	int mon = tm.tm_mon, mday = tm.tm_mday;
	time_t s = timegm(&tm);
	/* A day that the month does not have comes back as another, month 0 as December. */
	if (at != text.n || s < 0 || s > INT64_MAX / KP_NS_PER_S - 1 || !gmtime_r(&s, &back) ||
		back.tm_mon != mon || back.tm_mday != mday) {
		return false;
	}
	*ret_wall_ns = (int64_t)s * KP_NS_PER_S + fraction;
	return true;
}

static void two_units(char *buf, int64_t n, char unit, int64_t rest, char small)
{
	if (rest) {
		snprintf(buf, KP_AGE_TEXT_MAX, "%lld%c%lld%c", (long long)n, unit, (long long)rest,
			small);
	} else {
		snprintf(buf, KP_AGE_TEXT_MAX, "%lld%c", (long long)n, unit);
	}
}

/* As HumanDuration of k8s.io/apimachinery. */
void kp_age_text(int64_t ns, char buf[KP_AGE_TEXT_MAX])
{
	int64_t s = ns < 0 ? 0 : ns / KP_NS_PER_S, m = s / 60, h = m / 60, d = h / 24;
	if (s < 120) {
		two_units(buf, s, 's', 0, 0);
	} else if (m < 180) {
		two_units(buf, m, 'm', m < 10 ? s % 60 : 0, 's');
	} else if (h < 48) {
		two_units(buf, h, 'h', h < 8 ? m % 60 : 0, 'm');
	} else if (d < 2 * 365) {
		two_units(buf, d, 'd', d < 8 ? h % 24 : 0, 'h');
	} else {
		two_units(buf, d / 365, 'y', d < 8 * 365 ? d % 365 : 0, 'd');
	}
}

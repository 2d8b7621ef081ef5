/* DESIGN: strftime as glibc does it in the C locale, for one moment in UTC: datetime.now().strftime(format) of a machine whose local time is
   UTC. Flags (- _ 0 ^ #) and widths are glibc's extensions, which Python hands through; %f is Python's own; %z and %Z are empty, since
   the reference's time knows no zone. Text between conversions keeps its origin, and so do the digits: the clock is nobody's data. */
#include "template/funcs.h"

#include <stdio.h>

struct when {
	int year, month, day, hour, minute, second, weekday,
		yearday; /* month from 1, weekday from Sunday 0, yearday from 0 */
	int64_t unix_s;
	int micro;
};

static const char *const days[] = { "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday",
	"Friday", "Saturday" };
static const char *const months[] = { "January", "February", "March", "April", "May", "June",
	"July", "August", "September", "October", "November", "December" };

static bool leap(int year)
{
	return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

/* Days since 1970 to a date: eras of 400 years that start in March. */
static struct when split_time(int64_t wall_ns)
{
	int64_t s = wall_ns / 1000000000, ns = wall_ns % 1000000000;
	if (ns < 0) {
		ns += 1000000000;
		s--;
	}
	int64_t day = s / 86400, rest = s % 86400;
	if (rest < 0) {
		rest += 86400;
		day--;
	}
	int64_t z = day + 719468, era = (z >= 0 ? z : z - 146096) / 146097, doe = z - era * 146097;
	int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365,
		doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
	struct when w = { .unix_s = s,
		.micro = (int)(ns / 1000),
		.hour = (int)(rest / 3600),
		.minute = (int)(rest / 60 % 60),
		.second = (int)(rest % 60) };
	w.day = (int)(doy - (153 * mp + 2) / 5 + 1);
	w.month = (int)(mp < 10 ? mp + 3 : mp - 9);
	w.year = (int)(yoe + era * 400 + (w.month <= 2));
	w.weekday = (int)(((day + 4) % 7 + 7) % 7);
	static const int before[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334 };
	w.yearday = before[w.month - 1] + w.day - 1 + (w.month > 2 && leap(w.year));
	return w;
}

/* ISO 8601 week and its year. */
static int iso_week(const struct when *w, int *ret_year)
{
	int wday = (w->weekday + 6) % 7, week = (w->yearday - wday + 10) / 7, year = w->year;
	if (week < 1) {
		year--;
		int last = leap(year) ? 366 : 365;
		week = (w->yearday + last - wday + 10) / 7;
	} else if (week == 53) {
		int jan1 = ((w->weekday - w->yearday) % 7 + 7) % 7;
		bool long_year = jan1 == 4 || (jan1 == 3 && leap(year));
		if (!long_year) {
			week = 1;
			year++;
		}
	}
	*ret_year = year;
	return week;
}

struct out {
	struct kp_interp *I;
	struct kp_tpl_buf *b;
	uint8_t origin;
	char flag; /* 0, '-', '_', '0' */
	bool upper, swap;
	int width; /* 0: the conversion's own */
};

static int text(struct out *o, const char *z)
{
	size_t n = strlen(z);
	char copy[64];
	for (size_t i = 0; i <= n && i < sizeof(copy); i++) {
		copy[i] = o->upper && z[i] >= 'a' && z[i] <= 'z' ? (char)(z[i] - 32) : z[i];
	}
	size_t pad = o->width > (int)n ? (size_t)o->width - n : 0;
	if (kp_tpl_charge(o->I, pad) ||
		kp_tpl_buf_fill(o->I, o->b, o->flag == '0' ? '0' : ' ', pad, o->origin)) {
		return -1;
	}
	return kp_tpl_buf_add(o->I, o->b, kp_str_n(copy, n), o->origin);
}

/* A number of `width` digits, padded as the conversion says unless a flag says otherwise. */
static int digits(struct out *o, int64_t v, int width, char pad)
{
	char copy[32];
	int n = snprintf(copy, sizeof(copy), "%lld", (long long)v);
	char fill = o->flag == '_' ? ' ' : o->flag == '0' ? '0' : pad;
	int want = o->flag == '-' ? o->width : KP_MAX(o->width, o->width ? o->width : width);
	size_t k = want > n ? (size_t)(want - n) : 0;
	if (o->flag == '-' && !o->width) {
		k = 0;
	}
	return kp_tpl_charge(o->I, k) || kp_tpl_buf_fill(o->I, o->b, fill, k, o->origin) ||
			       kp_tpl_buf_add(o->I, o->b, kp_str_n(copy, (size_t)n), o->origin)
		       ? -1
		       : 0;
}

static int compose(struct out *o, const char *fmt, const struct when *w)
{
	char copy[64];
	if (strcmp(fmt, "c") == 0) {
		snprintf(copy, sizeof(copy), "%.3s %.3s %2d %02d:%02d:%02d %d", days[w->weekday],
			months[w->month - 1], w->day, w->hour, w->minute, w->second, w->year);
	} else if (strcmp(fmt, "D") == 0) {
		snprintf(copy, sizeof(copy), "%02d/%02d/%02d", w->month, w->day, w->year % 100);
	} else if (strcmp(fmt, "T") == 0) {
		snprintf(copy, sizeof(copy), "%02d:%02d:%02d", w->hour, w->minute, w->second);
	} else if (strcmp(fmt, "R") == 0) {
		snprintf(copy, sizeof(copy), "%02d:%02d", w->hour, w->minute);
	} else if (strcmp(fmt, "F") == 0) {
		snprintf(copy, sizeof(copy), "%d-%02d-%02d", w->year, w->month, w->day);
	} else {
		snprintf(copy, sizeof(copy), "%02d:%02d:%02d %s", (w->hour + 11) % 12 + 1,
			w->minute, w->second, w->hour < 12 ? "AM" : "PM");
	}
	return text(o, copy);
}

static int shortened(struct out *o, const char *name, bool shorten)
{
	char copy[16];
	snprintf(copy, sizeof(copy), shorten ? "%.3s" : "%s", name);
	o->upper |= o->swap;
	return text(o, copy);
}

/* 1: not a conversion. */
static int convert(struct out *o, char c, const struct when *w)
{
	int iso_year, week = iso_week(w, &iso_year), hour12 = (w->hour + 11) % 12 + 1;
	switch (c) {
	case 'a':
	case 'A':
		return shortened(o, days[w->weekday], c == 'a');
	case 'b':
	case 'h':
	case 'B':
		return shortened(o, months[w->month - 1], c != 'B');
	case 'c':
		return compose(o, "c", w);
	case 'C':
		return digits(o, w->year / 100, 2, '0');
	case 'd':
		return digits(o, w->day, 2, '0');
	case 'D':
	case 'x':
		return compose(o, "D", w);
	case 'e':
		return digits(o, w->day, 2, ' ');
	case 'f': {
		char micro[8];
		snprintf(micro, sizeof(micro), "%06d", w->micro);
		return text(o, micro);
	}
	case 'F':
		return compose(o, "F", w);
	case 'g':
		return digits(o, iso_year % 100, 2, '0');
	case 'G':
		return digits(o, iso_year, 4, '0');
	case 'H':
		return digits(o, w->hour, 2, '0');
	case 'I':
		return digits(o, hour12, 2, '0');
	case 'j':
		return digits(o, w->yearday + 1, 3, '0');
	case 'k':
		return digits(o, w->hour, 2, ' ');
	case 'l':
		return digits(o, hour12, 2, ' ');
	case 'm':
		return digits(o, w->month, 2, '0');
	case 'M':
		return digits(o, w->minute, 2, '0');
	case 'n':
		return text(o, "\n");
	case 'p':
	case 'P': {
		bool lower = c == 'P' || o->swap;
		return text(o, w->hour < 12 ? lower ? "am" : "AM" : lower ? "pm" : "PM");
	}
	case 'r':
		return compose(o, "r", w);
	case 'R':
		return compose(o, "R", w);
	case 's':
		return digits(o, w->unix_s, 1, '0');
	case 'S':
		return digits(o, w->second, 2, '0');
	case 't':
		return text(o, "\t");
	case 'T':
	case 'X':
		return compose(o, "T", w);
	case 'u':
		return digits(o, w->weekday ? w->weekday : 7, 1, '0');
	case 'U':
		return digits(o, (w->yearday + 7 - w->weekday) / 7, 2, '0');
	case 'V':
		return digits(o, week, 2, '0');
	case 'w':
		return digits(o, w->weekday, 1, '0');
	case 'W':
		return digits(o, (w->yearday + 7 - (w->weekday + 6) % 7) / 7, 2, '0');
	case 'y':
		return digits(o, w->year % 100, 2, '0');
	case 'Y':
		return digits(o, w->year, 1, '0');
	case 'z':
	case 'Z':
		return text(o, "");
	case '%':
		return text(o, "%");
	default:
		return 1;
	}
}

int kp_tpl_strftime(struct kp_interp *I, const struct kp_tv *format, struct kp_tv *ret)
{
	struct when w = split_time(I->now_wall_ns);
	kp_str s = kp_tv_bytes(format);
	struct kp_tpl_buf *b;
	uint32_t done = 0;
	if (kp_tpl_charge(I, s.n / 8) || kp_tpl_buf_new(I, 0, &b)) {
		return -1;
	}
	for (uint32_t i = 0; i < s.n;) {
		if (s.p[i] != '%') {
			i++;
			continue;
		}
		struct out o = { .I = I, .b = b, .origin = format->origin };
		uint32_t at = i + 1;
		for (; at < s.n && s.p[at] && strchr("-_0^#", s.p[at]); at++) {
			o.upper |= s.p[at] == '^';
			o.swap |= s.p[at] == '#';
			o.flag = s.p[at] == '^' || s.p[at] == '#' ? o.flag : s.p[at];
		}
		for (; at < s.n && kp_is_digit(s.p[at]); at++) {
			o.width = KP_MIN(o.width * 10 + (s.p[at] - '0'), 1000);
		}
		at += at < s.n && (s.p[at] == 'E' || s.p[at] == 'O');
		if (kp_tpl_buf_add_sub(I, b, format, done, i)) {
			return -1;
		}
		int r = at < s.n ? convert(&o, s.p[at], &w) : 1;
		if (r < 0 || (r > 0 && kp_tpl_buf_add_sub(I, b, format, i,
					       (uint32_t)KP_MIN((size_t)at + 1, s.n)))) {
			return -1; /* what is no conversion stays as it is */
		}
		done = i = (uint32_t)KP_MIN((size_t)at + 1, s.n);
	}
	if (kp_tpl_buf_add_sub(I, b, format, done, format->n)) {
		return -1;
	}
	*ret = kp_tpl_buf_value(b);
	return 0;
}

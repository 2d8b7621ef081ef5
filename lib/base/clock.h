/* Time. Everything inside the program is nanoseconds of the monotonic clock; wall time only for
   logs, `created` fields and templates. Pure code takes the time as an argument and never calls
   these. */
#ifndef KP_BASE_CLOCK_H
#define KP_BASE_CLOCK_H

#include "base/str.h"

#define KP_NS_PER_US INT64_C(1000)
#define KP_NS_PER_MS INT64_C(1000000)
#define KP_NS_PER_S  INT64_C(1000000000)

int64_t kp_now_ns(void);  /* CLOCK_MONOTONIC */
int64_t kp_cpu_ns(void);  /* CLOCK_THREAD_CPUTIME_ID: what the calling thread has computed */
int64_t kp_wall_ns(void); /* CLOCK_REALTIME, since 1970 */
/* "2026-11-29T16:12:06.123Z" into buf[25]. */
void kp_time_rfc3339(int64_t wall_ns, char buf[25]);
/* The other way, with or without a fraction, "Z" only; false when it is none, or before 1970. */
bool kp_time_parse(kp_str text, int64_t *ret_wall_ns);
/* How long ago, as kubectl prints it: "95s", "5m12s", "3h12m", "8d". Negative: "0s". */
enum { KP_AGE_TEXT_MAX = 24 };
void kp_age_text(int64_t ns, char buf[KP_AGE_TEXT_MAX]);

#endif

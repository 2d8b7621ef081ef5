/* Time. Everything inside the program is nanoseconds of the monotonic clock; wall time only for
   logs, `created` fields and templates. Pure code takes the time as an argument and never calls
   these. */
#ifndef KP_BASE_CLOCK_H
#define KP_BASE_CLOCK_H

#include "base/macros.h"

#define KP_NS_PER_US INT64_C(1000)
#define KP_NS_PER_MS INT64_C(1000000)
#define KP_NS_PER_S  INT64_C(1000000000)

int64_t kp_now_ns(void);  /* CLOCK_MONOTONIC */
int64_t kp_wall_ns(void); /* CLOCK_REALTIME, since 1970 */
/* "2026-11-29T16:12:06.123Z" into buf[25]. */
void kp_time_rfc3339(int64_t wall_ns, char buf[25]);

#endif

/* How far ahead of a clock an epoch may lie: operators start theirs at the time, so one that is a year ahead
   is a lie or a broken clock, and whoever believed it could not be programmed by an honest operator any
   more. The bound moves with the clock, so that there is always room to raise an epoch above one that was
   believed before. */
#ifndef KP_CONTROL_EPOCH_H
#define KP_CONTROL_EPOCH_H

#include "base/clock.h"
#include "base/macros.h"

#include <stdint.h>

enum { KP_EPOCH_AHEAD_DAYS = 365 };

/* The highest that is believed, wall_ns being now. A gateway adds a day: an operator that raised its epoch
   to the bound by a clock that is a little ahead of the gateway's is still believed. */
static inline uint64_t kp_epoch_most(int64_t wall_ns)
{
	return (uint64_t)(KP_MAX(wall_ns, INT64_C(0)) / KP_NS_PER_MS) +
	       (uint64_t)KP_EPOCH_AHEAD_DAYS * 86400000;
}
static inline uint64_t kp_epoch_most_of_gateway(int64_t wall_ns)
{
	return kp_epoch_most(wall_ns) + 86400000;
}

#endif

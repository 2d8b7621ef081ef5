/* The operator's epoch: milliseconds of Unix time at its start, or more, so that of two operators the one
   that started later has the higher one, and every program says whose it is. Kept in a file, so that a
   clock that was set back does not lower it. */
#ifndef OPERATOR_CONTROL_EPOCH_H
#define OPERATOR_CONTROL_EPOCH_H

#include "base/err.h"

#include "control/follower.h"

/* state_dir NULL: nothing is read or kept. Blocking. A file that cannot be read or written is an error that
 * names it; one that holds no number is passed over with a warning. */
int kp_epoch_start(
	const char *state_dir, int64_t wall_ns, uint64_t *ret, struct kp_err *err) KP_MUST_USE;
int kp_epoch_keep(const char *state_dir, uint64_t epoch, struct kp_err *err) KP_MUST_USE;

/* Of a new leader, `before` being the last epoch that the Lease kept, 0: none. One that no gateway would believe, being far
   ahead of the clock, is somebody's mistake and does not count. Pure. */
uint64_t kp_epoch_of_term(uint64_t before, int64_t wall_ns);

/* A gateway that has seen `seen`, of an operator it heard of `age_ms` ago: how long this operator, of epoch
   `ours`, has to wait until it may program it. 0: now, with a higher epoch than `seen` if that is
   higher than ours. */
int64_t kp_epoch_wait_ns(uint64_t ours, uint64_t seen, uint64_t age_ms);

#endif

/* Parameters that are lists: each reads the value at the cursor into turn->sampling. INVALID_ARGUMENT with the place. */
#ifndef SIDECAR_API_PARAMS_LISTS_H
#define SIDECAR_API_PARAMS_LISTS_H

#include "base/err.h"
#include "core/turn.h"

/* A string, or up to 16. */
int kp_params_stop(struct kp_json *j, struct kp_turn *t, struct kp_err *err) KP_MUST_USE;
int kp_params_stop_ids(struct kp_json *j, struct kp_turn *t, struct kp_err *err) KP_MUST_USE;
/* {"ID": bias, ..} */
int kp_params_logit_bias(struct kp_json *j, struct kp_turn *t, struct kp_err *err) KP_MUST_USE;

#endif

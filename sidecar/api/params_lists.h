/* Parameters of more than one value: each reads the value at the cursor into the turn. INVALID_ARGUMENT with the place. */
#ifndef SIDECAR_API_PARAMS_LISTS_H
#define SIDECAR_API_PARAMS_LISTS_H

#include "base/err.h"
#include "core/turn.h"

/* A string, or up to 16. */
int kp_params_stop(struct kp_json *j, struct kp_turn *t, struct kp_err *err) KP_MUST_USE;
int kp_params_stop_ids(struct kp_json *j, struct kp_turn *t, struct kp_err *err) KP_MUST_USE;
/* {"ID": bias, ..} */
int kp_params_logit_bias(struct kp_json *j, struct kp_turn *t, struct kp_err *err) KP_MUST_USE;
/* stream_options: an object of two booleans. */
int kp_params_stream_options(
	struct kp_json *j, struct kp_turn *turn, struct kp_err *err) KP_MUST_USE;
/* modalities: only text is supported. */
int kp_params_modalities(struct kp_json *j, struct kp_err *err) KP_MUST_USE;

#endif

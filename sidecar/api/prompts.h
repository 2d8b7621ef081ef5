/* The `prompt` of a completion request. */
#ifndef SIDECAR_API_PROMPTS_H
#define SIDECAR_API_PROMPTS_H

#include "base/err.h"
#include "core/turn.h"

/* Reads the value at the cursor into turn->prompts (arena) and turn->n_prompts; at most
   KP_MAX_PROMPTS. */
int kp_prompts_read(struct kp_json *j, struct kp_turn *turn, struct kp_err *err) KP_MUST_USE;

/* The rest of a list of ids, of which `more` is what kp_json_element said for the first. */
int kp_prompts_read_ids(struct kp_json *j, struct kp_turn *turn, int more, struct kp_prompt *ret,
	struct kp_err *err) KP_MUST_USE;

#endif

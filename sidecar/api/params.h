/* Reads the JSON body of a generating API into a kp_turn. One table
   (params.c) says for each parameter what happens: read, accepted without effect, or refused by
   name; a name that is not in the table is refused too. null means "not given". */
#ifndef SIDECAR_API_PARAMS_H
#define SIDECAR_API_PARAMS_H

#include "base/err.h"
#include "core/turn.h"

/* Limits of a request beyond the body's size. */
enum {
	KP_MAX_CHOICES = 128, /* prompts x n */
	KP_MAX_PROMPTS = 128,
	KP_MAX_LOGPROBS = 20,
	KP_MAX_STOP_IDS = 128,
	KP_MAX_LOGIT_BIAS = 1024,
	KP_MAX_CACHE_SALT = 512, /* bytes */
};

/* body: the whole request body; must live as long as the turn. turn->arena and turn->kind are set
   by the caller, everything else starts zeroed. INVALID_ARGUMENT with the parameter in err->param.
 */
enum kp_params_api {
	KP_PARAMS_CHAT = 1,
	KP_PARAMS_COMPLETION = 2,
	KP_PARAMS_MESSAGES = 4,   /* Anthropic's; turn->kind is CHAT */
	KP_PARAMS_COUNT = 8,      /* its count_tokens */
	KP_PARAMS_SGLANG = 16,    /* the sampling_params of its /generate */
	KP_PARAMS_RESPONSES = 32, /* turn->response is the caller's; turn->kind is CHAT */
};
int kp_params_read_api(
	kp_str body, enum kp_params_api api, struct kp_turn *turn, struct kp_err *err) KP_MUST_USE;
/* What a turn has before the first parameter. */
void kp_params_defaults(struct kp_turn *turn);
/* The object at the cursor: SGLang's sampling_params. */
int kp_params_sampling(struct kp_json *j, struct kp_turn *turn, struct kp_err *err) KP_MUST_USE;
/* An answer cannot have a form and be a call that must be made. */
int kp_params_check_form(const struct kp_turn *t, struct kp_err *err) KP_MUST_USE;
/* Chat or completion, by turn->kind. */
int kp_params_read(kp_str body, struct kp_turn *turn, struct kp_err *err) KP_MUST_USE;

#endif

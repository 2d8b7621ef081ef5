/* The stages of a generating API, in this order (flow.c), and those that others share: loop thread. */
#ifndef SIDECAR_FLOW_STAGES_H
#define SIDECAR_FLOW_STAGES_H

#include "sidecar/flow/flow.h"

extern const struct kp_stage kp_generate_stages[];
/* Only of prompts for an engine: /v1/tokenize has no salt, and tells how long it took. NULL: none. */
struct kp_prompt_cache *kp_flow_prompt_cache(const struct kp_flow *f);
enum kp_step kp_stage_read(struct kp_flow *f, struct kp_err *err);
/* The engines of a gateway that just started (await.c). */
enum kp_step kp_stage_await(struct kp_flow *f, struct kp_err *err);
enum kp_step kp_stage_resolve(struct kp_flow *f, struct kp_err *err);
/* Without a model's name it is the only one. */
enum kp_step kp_stage_resolve_only(struct kp_flow *f, struct kp_err *err);
enum kp_step kp_stage_fetch(struct kp_flow *f, struct kp_err *err);  /* images: of URLs */
enum kp_step kp_stage_media(struct kp_flow *f, struct kp_err *err);  /* images: heads (media.c) */
enum kp_step kp_stage_prompt(struct kp_flow *f, struct kp_err *err); /* render, tokenize */
enum kp_step kp_stage_constrain(struct kp_flow *f, struct kp_err *err);
enum kp_step kp_stage_validate(struct kp_flow *f, struct kp_err *err); /* judge.c */
enum kp_step kp_stage_fit(struct kp_flow *f, struct kp_err *err);      /* context length, ids */
enum kp_step kp_stage_pixels(struct kp_flow *f, struct kp_err *err); /* images: tensors (media.c) */
enum kp_step kp_stage_start(struct kp_flow *f, struct kp_err *err);  /* pick, start */
enum kp_step kp_stage_end(struct kp_flow *f, struct kp_err *err);    /* the last of an ending */

#endif

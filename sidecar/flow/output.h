/* Inside of sidecar/flow: engine output to events. */
#ifndef SIDECAR_FLOW_OUTPUT_H
#define SIDECAR_FLOW_OUTPUT_H

#include "sidecar/flow/flow.h"

/* output.c. Of n of the delta's tokens, from `from` on. */
int kp_flow_emit_logprobs(struct kp_choice *c, const struct kp_engine_delta *d, size_t from,
	size_t n, struct kp_err *err) KP_MUST_USE;
/* An event of them, where the request wants ids. */
void kp_flow_emit_ids(struct kp_choice *c, const kp_id *ids, size_t n);
bool kp_flow_is_shown(const struct kp_flow *f, kp_id id);

/* parse.c. The choice's parser, where the model has any and the request is a chat; c->parser stays NULL otherwise. */
void kp_flow_parser_open(struct kp_choice *c);
/* Events of one delta; c->stop.matched says if a stop string ended the choice. */
int kp_flow_parse(
	struct kp_choice *c, const struct kp_engine_delta *d, struct kp_err *err) KP_MUST_USE;

void kp_flow_delta(struct kp_choice *c, const struct kp_engine_delta *d);
/* In a stage: what was loaded counts among the bodies of all requests until the end. RESOURCE_EXHAUSTED: they are too many. */
int kp_flow_hold_loaded(struct kp_flow *f, struct kp_err *err) KP_MUST_USE;
/* All choices are over: the API's ending, or the end. */
void kp_flow_complete(struct kp_flow *f);
/* In a stage: no generation (any more); the ending's stages come next. */
void kp_flow_cut(struct kp_flow *f);
/* Its stages from the first. */
void kp_flow_run_stages(struct kp_flow *f, const struct kp_stage *stages);
/* Sets the error of a model none of whose engines can be asked; -1. */
int kp_flow_no_engine(const struct kp_flow *f, struct kp_err *err);
/* The encoder, if it has none yet. */
int kp_flow_open(struct kp_flow *f, size_t n_choices, struct kp_err *err) KP_MUST_USE;
void kp_flow_prompt_init(struct kp_flow_prompt *p);

/* Detokenizer, stop strings, parser and check of a choice that begins. */
void kp_choice_init(struct kp_choice *c);

/* judge.c. A choice is over with this FINISH event, which is told of the fault, if any (written to *fault). -1: the turn has to fail. c->is_again: the event is not
   sent, and kp_flow_again comes once the call is over. */
int kp_flow_judge(struct kp_choice *c, struct kp_event *ev, struct kp_output_fault *fault,
	struct kp_err *err) KP_MUST_USE;
/* Behind each delta: an output whose verdict is certain and that will be made again or fails is over now (c->is_done). -1: the turn has to fail. */
int kp_flow_judge_early(struct kp_choice *c, struct kp_err *err) KP_MUST_USE;
void kp_flow_again(struct kp_choice *c);

#endif

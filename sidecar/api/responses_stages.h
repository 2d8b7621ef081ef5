/* Inside of sidecar/api/responses*.c: the stages that have to do with MCP tools. */
#ifndef SIDECAR_API_RESPONSES_STAGES_H
#define SIDECAR_API_RESPONSES_STAGES_H

#include "sidecar/api/responses.h"
#include "sidecar/flow/output.h"

/* Before the first generation: what servers offer; what somebody allowed. */
enum kp_step kp_responses_stage_list(struct kp_flow *f, struct kp_err *err);
enum kp_step kp_responses_stage_own(struct kp_flow *f, struct kp_err *err);
enum kp_step kp_responses_stage_allowed(struct kp_flow *f, struct kp_err *err);
/* r->allowed, of the entries: the calls that stage_allowed makes. Any thread. */
int kp_responses_note_allowed(struct kp_response *r, struct kp_err *err) KP_MUST_USE;
/* As kp_stage_fit; a response that called something ends where there is no room for more. */
enum kp_step kp_responses_stage_fit(struct kp_flow *f, struct kp_err *err);
/* Behind each: its calls; another generation. */
enum kp_step kp_responses_stage_calls(struct kp_flow *f, struct kp_err *err);
enum kp_step kp_responses_stage_round(struct kp_flow *f, struct kp_err *err);
/* kp_flow_api.stop */
void kp_responses_stop(struct kp_flow *f);

#endif

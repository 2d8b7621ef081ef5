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

/* parse.c. Parsers for the choices, where the model has any and the request is a chat; c->parser stays NULL otherwise. */
void kp_flow_parsers_open(struct kp_flow *f);
/* Events of one delta; c->stop.matched says if a stop string ended the choice. */
int kp_flow_parse(
	struct kp_choice *c, const struct kp_engine_delta *d, struct kp_err *err) KP_MUST_USE;

#endif

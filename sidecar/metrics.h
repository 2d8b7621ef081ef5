/* The gateway's own metrics; docs/metrics.md lists them. */
#ifndef SIDECAR_METRICS_H
#define SIDECAR_METRICS_H

#include "sidecar/flow/flow.h"

/* A request ended (once per request): what the client got, how long it took, its tokens. */
void kp_metrics_request(struct kp_gateway *g, const struct kp_flow *f, int http_status);
/* A request was turned away before it had a turn. */
void kp_metrics_refused(struct kp_gateway *g, const char *api, int http_status);
/* A choice was checked against its schema (result not NONE; else nothing is counted). again: it was INVALID, and is made once more. */
void kp_metrics_validation(struct kp_gateway *g, const struct kp_model *model,
	enum kp_output_result result, bool again);
/* The engine's first token arrived. */
void kp_metrics_first_token(struct kp_gateway *g, const struct kp_flow *f);

/* Registers what is read from the parts at each scrape: connections, requests in flight, the log.
 * After the loops exist. */
void kp_metrics_watch(struct kp_gateway *g);

#endif

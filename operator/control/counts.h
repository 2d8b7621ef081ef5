/* Who runs what, counted once for many questions: of each namespace's programs, in force and before, how many of the gateways that are there
   (connected, and heard of) run it. One thread. */
#ifndef OPERATOR_CONTROL_COUNTS_H
#define OPERATOR_CONTROL_COUNTS_H

#include "operator/control/gateways.h"
#include "operator/control/programs.h"
#include "operator/control/service_metrics.h"

/* Fills in what struct kp_ns_program and struct kp_base count, for the answers below, and the numbers of gateways. */
void kp_counts_take(struct kp_programs *p, const struct kp_gateways *g, int64_t now_ns,
	struct kp_service_counts *ret);

/* Every gateway that is there runs a program with this very item. */
bool kp_counts_all_know(const struct kp_ns_program *p, const struct kp_item *item);
/* How many of them run a program in which pool, engine and endpoints are as in the one in force. "default/demo" */
size_t kp_counts_of_engine(const struct kp_ns_program *p, kp_str engine, kp_str pool);

#endif

/* What the control service counts; docs/metrics.md lists it. */
#ifndef OPERATOR_CONTROL_SERVICE_METRICS_H
#define OPERATOR_CONTROL_SERVICE_METRICS_H

#include "obs/metrics.h"
#include "operator/control/sender.h"

struct kp_service_metrics {
	struct kp_metrics *registry;
	struct kp_counter *sent[KP_SEND_FULL + 1], *sent_bytes, *reports;
	struct kp_gauge *connected, *silent, *lost, *second_hand, *behind, *epoch;
	struct kp_histogram *answer_seconds, *everywhere_seconds;
};
struct kp_service_counts {
	int64_t connected, silent, lost, second_hand; /* gateways */
	int64_t behind; /* of those connected: they do not run the program in force */
	uint64_t epoch;
};

void kp_service_metrics_init(struct kp_service_metrics *m, struct kp_metrics *registry);
void kp_service_metrics_refused(struct kp_service_metrics *m, enum kp_code why);
void kp_service_metrics_sent(struct kp_service_metrics *m, enum kp_send as, size_t bytes);
/* result: "ack", or why it was refused. */
void kp_service_metrics_answered(struct kp_service_metrics *m, kp_str result, int64_t took_ns);
void kp_service_metrics_report(struct kp_service_metrics *m);
void kp_service_metrics_everywhere(struct kp_service_metrics *m, int64_t took_ns);
void kp_service_metrics_counts(
	struct kp_service_metrics *m, const struct kp_service_counts *counts);

#endif

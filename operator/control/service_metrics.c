/* DESIGN: see service_metrics.h. Words that gateways choose become labels only if they are ours. */
#include "operator/control/service_metrics.h"

static struct kp_gauge *gateways(struct kp_metrics *registry, const char *state)
{
	const struct kp_label label = { "state", kp_str_c(state) };
	return kp_metrics_gauge(registry, "kelpie_operator_gateways",
		"Gateways that are known, by state.", &label, 1);
}

static const char *const results[] = { "ack", KP_NACK_STALE_EPOCH, KP_NACK_UNKNOWN_BASE,
	KP_NACK_HASH_MISMATCH, KP_NACK_NOT_UNDERSTOOD, KP_NACK_INVALID, "other" };
static struct kp_counter *answers(struct kp_metrics *registry, const char *result)
{
	const struct kp_label label = { "result", kp_str_c(result) };
	return kp_metrics_counter(registry, "kelpie_operator_answers_total",
		"Gateways' answers to programs, by result.", &label, 1);
}

/* Why streams are ended by what is written here; others can come from below. */
static const enum kp_code refusals[] = { KP_INVALID_ARGUMENT, KP_DEADLINE_EXCEEDED,
	KP_PERMISSION_DENIED, KP_RESOURCE_EXHAUSTED, KP_FAILED_PRECONDITION, KP_ABORTED,
	KP_UNIMPLEMENTED };
static struct kp_counter *refused(struct kp_metrics *registry, enum kp_code why)
{
	const struct kp_label label = { "reason", kp_str_c(kp_code_reason(why)) };
	return kp_metrics_counter(registry, "kelpie_operator_streams_refused_total",
		"Streams of gateways that the operator ended, by reason.", &label, 1);
}

void kp_service_metrics_init(struct kp_service_metrics *m, struct kp_metrics *registry)
{
	*m = (struct kp_service_metrics){ .registry = registry };
	for (enum kp_send as = KP_SEND_NOTICE; as <= KP_SEND_FULL; as++) {
		const struct kp_label label = { "as", kp_str_c(kp_send_name(as)) };
		m->sent[as] = kp_metrics_counter(registry, "kelpie_operator_programs_sent_total",
			"Programs sent to gateways.", &label, 1);
	}
	/* All there from the beginning, so that the first of a kind is an increase. */
	for (size_t i = 0; i < KP_LEN(results); i++) {
		(void)answers(registry, results[i]);
	}
	for (size_t i = 0; i < KP_LEN(refusals); i++) {
		(void)refused(registry, refusals[i]);
	}
	m->sent_bytes = kp_metrics_counter(registry, "kelpie_operator_programs_sent_bytes_total",
		"Bytes of programs sent to gateways.", NULL, 0);
	m->reports = kp_metrics_counter(registry, "kelpie_operator_reports_total",
		"Reports received from gateways.", NULL, 0);
	m->connected = gateways(registry, "connected");
	m->silent = gateways(registry, "silent");
	m->lost = gateways(registry, "lost");
	m->second_hand = gateways(registry, "second_hand");
	m->behind = kp_metrics_gauge(registry, "kelpie_operator_gateways_behind",
		"Connected gateways that do not run the program in force.", NULL, 0);
	m->epoch = kp_metrics_gauge(
		registry, "kelpie_operator_epoch", "The operator's epoch.", NULL, 0);
	m->answer_seconds = kp_metrics_histogram(registry, "kelpie_operator_answer_seconds",
		"From sending a program to a gateway's answer.", kp_bounds_seconds,
		KP_LEN(kp_bounds_seconds), NULL, 0);
	m->everywhere_seconds = kp_metrics_histogram(registry, "kelpie_operator_everywhere_seconds",
		"From a new program until all gateways run it.", kp_bounds_seconds,
		KP_LEN(kp_bounds_seconds), NULL, 0);
}

void kp_service_metrics_sent(struct kp_service_metrics *m, enum kp_send as, size_t bytes)
{
	kp_counter_add(m->sent[as], 1);
	kp_counter_add(m->sent_bytes, bytes);
}

void kp_service_metrics_refused(struct kp_service_metrics *m, enum kp_code why)
{
	kp_counter_add(refused(m->registry, why), 1);
}

void kp_service_metrics_answered(struct kp_service_metrics *m, kp_str result, int64_t took_ns)
{
	const char *word = "other";
	for (size_t i = 0; i < KP_LEN(results); i++) {
		word = kp_str_eq(result, kp_str_c(results[i])) ? results[i] : word;
	}
	kp_counter_add(answers(m->registry, word), 1);
	kp_histogram_observe(m->answer_seconds, (double)took_ns / 1e9);
}

void kp_service_metrics_report(struct kp_service_metrics *m)
{
	kp_counter_add(m->reports, 1);
}

void kp_service_metrics_everywhere(struct kp_service_metrics *m, int64_t took_ns)
{
	kp_histogram_observe(m->everywhere_seconds, (double)took_ns / 1e9);
}

void kp_service_metrics_counts(struct kp_service_metrics *m, const struct kp_service_counts *c)
{
	kp_gauge_set(m->connected, c->connected);
	kp_gauge_set(m->silent, c->silent);
	kp_gauge_set(m->lost, c->lost);
	kp_gauge_set(m->second_hand, c->second_hand);
	kp_gauge_set(m->behind, c->behind);
	kp_gauge_set(m->epoch, (int64_t)c->epoch);
}

/* Metrics in Prometheus' text format 0.0.4. A registry hands out counters, gauges and histograms
   that live as long as it does; updates are relaxed atomics from any thread, so look a metric up
   once and keep the pointer. Names follow Prometheus' conventions (base units, _total, _seconds).
 */
#ifndef KP_OBS_METRICS_H
#define KP_OBS_METRICS_H

#include "base/buf.h"

#include <stdatomic.h>

struct kp_metrics;

struct kp_label {
	const char *name;
	kp_str value;
};
struct kp_counter {
	atomic_uint_fast64_t v;
};
struct kp_gauge {
	atomic_int_fast64_t v;
};
enum { KP_HISTOGRAM_MAX = 20 };
struct kp_histogram {
	const double *bounds; /* upper bounds, ascending, in the metric's unit */
	size_t n;
	atomic_uint_fast64_t sum_micro; /* of observed values, in millionths of the unit */
	atomic_uint_fast64_t counts[KP_HISTOGRAM_MAX + 1];
};

struct kp_metrics *kp_metrics_create(void);
void kp_metrics_destroy(struct kp_metrics *m);

/* Get or create; any thread (a mutex and a hash look-up). help and bounds must be static. At most
   1,000 label sets per name: beyond, all share one with the label overflow="true". A name keeps the
   type it was first given. */
struct kp_counter *kp_metrics_counter(struct kp_metrics *m, const char *name, const char *help,
	const struct kp_label *labels, size_t n);
struct kp_gauge *kp_metrics_gauge(struct kp_metrics *m, const char *name, const char *help,
	const struct kp_label *labels, size_t n);
struct kp_histogram *kp_metrics_histogram(struct kp_metrics *m, const char *name, const char *help,
	const double *bounds, size_t n_bounds, const struct kp_label *labels, size_t n);
extern const double kp_bounds_seconds[14]; /* 1 ms .. 60 s */

/* Called before each rendering, on the rendering thread, to refresh gauges. */
void kp_metrics_on_render(struct kp_metrics *m, void (*fn)(void *), void *arg);
void kp_metrics_render(struct kp_metrics *m, struct kp_buf *out);

static inline void kp_counter_add(struct kp_counter *c, uint64_t n)
{
	atomic_fetch_add_explicit(&c->v, n, memory_order_relaxed);
}
static inline void kp_gauge_set(struct kp_gauge *g, int64_t v)
{
	atomic_store_explicit(&g->v, v, memory_order_relaxed);
}
static inline void kp_gauge_add(struct kp_gauge *g, int64_t v)
{
	atomic_fetch_add_explicit(&g->v, v, memory_order_relaxed);
}
void kp_histogram_observe(struct kp_histogram *h, double v);

#endif

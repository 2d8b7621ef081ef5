/* Metrics: Prometheus' text, label escaping, the cardinality limit, updates from several threads.
 */
#include "obs/metrics.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

static void test_text(void **state)
{
	(void)state;
	static const double bounds[] = { 0.5, 1 };
	struct kp_metrics *m = kp_metrics_create();
	const struct kp_label label = { "model", KP_S("a\"b\\c\nd") };
	kp_counter_add(kp_metrics_counter(m, "x_total", "Help.", &label, 1), 3);
	kp_counter_add(kp_metrics_counter(m, "x_total", "Help.", &label, 1), 4);
	kp_gauge_set(kp_metrics_gauge(m, "g", "A gauge.", NULL, 0), -5);
	struct kp_histogram *h = kp_metrics_histogram(m, "h_seconds", "Times.", bounds, 2, NULL, 0);
	kp_histogram_observe(h, 0.25);
	kp_histogram_observe(h, 0.5);
	kp_histogram_observe(h, 2);
	KP_AUTO(buf) struct kp_buf out;
	kp_buf_init(&out, 1 << 16);
	kp_metrics_render(m, &out);
	assert_string_equal(kp_buf_cstr(&out),
		"# HELP x_total Help.\n# TYPE x_total counter\nx_total{model=\"a\\\"b\\\\c\\nd\"} 7\n"
		"# HELP g A gauge.\n# TYPE g gauge\ng -5\n"
		"# HELP h_seconds Times.\n# TYPE h_seconds histogram\n"
		"h_seconds_bucket{le=\"0.5\"} 2\nh_seconds_bucket{le=\"1\"} 2\nh_seconds_bucket{le=\"+Inf\"} 3\n"
		"h_seconds_sum 2.750000\nh_seconds_count 3\n");
	kp_metrics_destroy(m);
}

static void test_too_many_label_sets_share_one(void **state)
{
	(void)state;
	struct kp_metrics *m = kp_metrics_create();
	struct kp_counter *first = NULL;
	for (int i = 0; i < 1500; i++) {
		char v[16];
		snprintf(v, sizeof(v), "v%d", i);
		const struct kp_label label = { "l", kp_str_c(v) };
		struct kp_counter *c = kp_metrics_counter(m, "many_total", "Many.", &label, 1);
		first = i ? first : c;
		kp_counter_add(c, 1);
	}
	const struct kp_label label = { "l", KP_S("v0") };
	assert_ptr_equal(kp_metrics_counter(m, "many_total", "Many.", &label, 1), first);
	KP_AUTO(buf) struct kp_buf out;
	kp_buf_init(&out, 1 << 20);
	kp_metrics_render(m, &out);
	assert_true(kp_str_has(kp_buf_str(&out), KP_S("many_total{overflow=\"true\"} 500\n")));
	kp_metrics_destroy(m);
}

static void *add(void *arg)
{
	for (int i = 0; i < 10000; i++) {
		kp_counter_add(kp_metrics_counter(arg, "t_total", "T.", NULL, 0), 1);
	}
	return NULL;
}

static void test_threads(void **state)
{
	(void)state;
	struct kp_metrics *m = kp_metrics_create();
	pthread_t t[4];
	for (int i = 0; i < 4; i++) {
		pthread_create(&t[i], NULL, add, m);
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], NULL);
	}
	assert_int_equal(atomic_load(&kp_metrics_counter(m, "t_total", "T.", NULL, 0)->v), 40000);
	kp_metrics_destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_too_many_label_sets_share_one),
		cmocka_unit_test(test_threads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

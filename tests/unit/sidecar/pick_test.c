/* Picking endpoints and revisions: shares, ties, endpoints that are down. */
#include "sidecar/route/pick.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

enum { N = 4 };

static struct kp_snapshot *snapshot;
static struct kp_revision *rev;

static int setup(void **state)
{
	(void)state;
	snapshot = kp_snapshot_create(1, 0);
	rev = kp_snapshot_revision(snapshot, "default/a");
	for (int i = 0; i < N; i++) {
		char key[16];
		snprintf(key, sizeof(key), "e%d", i);
		struct kp_endpoint *e = kp_endpoint_create(key, "127.0.0.1:1");
		atomic_store(&e->state, (int)KP_ENDPOINT_ROUTABLE);
		kp_revision_add_endpoint(rev, e);
		kp_endpoint_unref(e);
	}
	kp_snapshot_add(snapshot, "zeta", "default/p", false, rev);
	kp_snapshot_add(snapshot, "alpha", "default/p", true, rev);
	kp_snapshot_seal(snapshot);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kp_snapshot_unref(snapshot);
	return 0;
}

static void count(enum kp_routing_policy policy, int rounds, int *counts)
{
	struct kp_rng rng;
	kp_rng_seed(&rng, 3);
	for (int i = 0; i < rounds; i++) {
		struct kp_endpoint *e = kp_pick(rev, policy, NULL, &rng);
		assert_non_null(e);
		counts[e->key[1] - '0']++;
	}
}

static void test_round_robin_is_even_also_around_one_that_is_down(void **state)
{
	(void)state;
	int counts[N] = { 0 }, fewer[N] = { 0 };
	count(KP_ROUTE_ROUND_ROBIN, 400, counts);
	for (int i = 0; i < N; i++) {
		assert_int_equal(counts[i], 100);
	}
	atomic_store(&rev->endpoints[1]->state, (int)KP_ENDPOINT_DOWN);
	count(KP_ROUTE_ROUND_ROBIN, 300, fewer);
	assert_int_equal(fewer[1], 0);
	assert_int_equal(fewer[0], 100);
	assert_int_equal(fewer[2], 100);
}

static void test_least_load_takes_the_idle_one_and_breaks_ties_by_chance(void **state)
{
	(void)state;
	int counts[N] = { 0 }, ties[N] = { 0 };
	for (int i = 0; i < N; i++) {
		atomic_store(&rev->endpoints[i]->in_flight, i == 2 ? 1 : 5);
	}
	count(KP_ROUTE_LEAST_LOAD, 50, counts);
	assert_int_equal(counts[2], 50);
	atomic_store(&rev->endpoints[2]->in_flight, 5);
	count(KP_ROUTE_LEAST_LOAD, 4000, ties);
	for (int i = 0; i < N; i++) {
		assert_in_range(ties[i], 850, 1150);
	}
}

static void test_the_failed_one_is_avoided_unless_alone(void **state)
{
	(void)state;
	struct kp_rng rng;
	kp_rng_seed(&rng, 9);
	for (int i = 0; i < 100; i++) {
		assert_ptr_not_equal(kp_pick(rev, KP_ROUTE_LEAST_LOAD, rev->endpoints[0], &rng),
			rev->endpoints[0]);
		assert_ptr_not_equal(kp_pick(rev, KP_ROUTE_ROUND_ROBIN, rev->endpoints[0], &rng),
			rev->endpoints[0]);
	}
	for (int i = 1; i < N; i++) {
		atomic_store(&rev->endpoints[i]->state, (int)KP_ENDPOINT_ANSWERING);
	}
	assert_ptr_equal(
		kp_pick(rev, KP_ROUTE_LEAST_LOAD, rev->endpoints[0], &rng), rev->endpoints[0]);
	atomic_store(&rev->endpoints[0]->state, (int)KP_ENDPOINT_DOWN);
	assert_null(kp_pick(rev, KP_ROUTE_LEAST_LOAD, rev->endpoints[0], &rng));
	assert_null(kp_pick(rev, KP_ROUTE_ROUND_ROBIN, NULL, &rng));
}

static void test_names_are_found_and_nothing_else(void **state)
{
	(void)state;
	assert_ptr_equal(kp_snapshot_find(snapshot, KP_S("zeta"))->revisions[0], rev);
	assert_true(kp_snapshot_find(snapshot, KP_S("alpha"))->is_alias);
	assert_null(kp_snapshot_find(snapshot, KP_S("beta")));
	assert_null(kp_snapshot_find(snapshot, KP_S("")));
	assert_null(kp_model_text_revision(
		kp_snapshot_find(snapshot, KP_S("zeta")))); /* nothing loaded */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_round_robin_is_even_also_around_one_that_is_down, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_least_load_takes_the_idle_one_and_breaks_ties_by_chance, setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			test_the_failed_one_is_avoided_unless_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_names_are_found_and_nothing_else, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

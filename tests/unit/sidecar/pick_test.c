/* Picking endpoints and revisions: shares, ties, endpoints that are down. */
#include "sidecar/route/pick.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

enum { N = 4 };

static struct kp_snapshot *snapshot;
static struct kp_model_revision *rev;

static int setup(void **state)
{
	(void)state;
	snapshot = kp_snapshot_create(1, 0);
	rev = kp_snapshot_revision(snapshot, "default/a");
	for (int i = 0; i < N; i++) {
		char key[16];
		snprintf(key, sizeof(key), "e%d", i);
		struct kp_endpoint *e = kp_endpoint_create(&(struct kp_program_engine){ 0 },
			&(struct kp_program_endpoint){ .address = kp_str_c(key) }, true, KP_S(""));
		atomic_store(&e->state, (int)KP_ENDPOINT_ROUTABLE);
		kp_revision_add_endpoint(rev, e, NULL);
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
		struct kp_endpoint *e =
			kp_pick(rev, &(struct kp_pick){ .policy = policy }, NULL, &rng);
		assert_non_null(e);
		counts[e->address[1] - '0']++;
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
		assert_ptr_not_equal(
			kp_pick(rev, &(struct kp_pick){ .policy = KP_ROUTE_LEAST_LOAD },
				rev->endpoints[0], &rng),
			rev->endpoints[0]);
		assert_ptr_not_equal(
			kp_pick(rev, &(struct kp_pick){ .policy = KP_ROUTE_ROUND_ROBIN },
				rev->endpoints[0], &rng),
			rev->endpoints[0]);
	}
	for (int i = 1; i < N; i++) {
		atomic_store(&rev->endpoints[i]->state, (int)KP_ENDPOINT_ANSWERING);
	}
	assert_ptr_equal(kp_pick(rev, &(struct kp_pick){ .policy = KP_ROUTE_LEAST_LOAD },
				 rev->endpoints[0], &rng),
		rev->endpoints[0]);
	atomic_store(&rev->endpoints[0]->state, (int)KP_ENDPOINT_DOWN);
	assert_null(kp_pick(
		rev, &(struct kp_pick){ .policy = KP_ROUTE_LEAST_LOAD }, rev->endpoints[0], &rng));
	assert_null(kp_pick(rev, &(struct kp_pick){ .policy = KP_ROUTE_ROUND_ROBIN }, NULL, &rng));
}

/* Endpoint i becomes one of another gateway, at that distance. */
static void move_away(int i, enum kp_distance distance)
{
	rev->endpoints[i]->is_own = distance == KP_DISTANCE_OWN;
	rev->endpoints[i]->distance = distance;
}

static void test_the_nearer_one_is_taken_until_it_is_worse_by_the_margin(void **state)
{
	(void)state;
	const struct kp_pick how = { .margin = 4, .now_ns = 1000 };
	struct kp_rng rng;
	kp_rng_seed(&rng, 1);
	move_away(1, KP_DISTANCE_NODE);
	move_away(2, KP_DISTANCE_POOL);
	move_away(3, KP_DISTANCE_POOL);
	for (int load = 0; load < 12; load++) {
		atomic_store(&rev->endpoints[0]->in_flight, load);
		struct kp_endpoint *e = kp_pick(rev, &how, NULL, &rng);
		assert_true(load < 4   ? e == rev->endpoints[0]
			    : load > 4 ? e == rev->endpoints[1]
				       : e == rev->endpoints[0] || e == rev->endpoints[1]);
	}
	/* What others run there counts as long as the report is fresh. */
	atomic_store(&rev->endpoints[0]->in_flight, 20);
	atomic_store(&rev->endpoints[1]->in_flight, 1);
	kp_endpoint_reported(rev->endpoints[1], 30, 1000);
	assert_int_equal(kp_endpoint_load(rev->endpoints[1], 1000), 31);
	struct kp_endpoint *e = kp_pick(rev, &how, NULL, &rng);
	assert_true(e == rev->endpoints[2] || e == rev->endpoints[3]);
	const struct kp_pick later = { .margin = 4, .now_ns = 1000 + 6000000000 };
	assert_ptr_equal(kp_pick(rev, &later, NULL, &rng), rev->endpoints[1]);
}

static void test_a_draining_gateway_leaves_its_own_engines_while_there_is_another(void **state)
{
	(void)state;
	const struct kp_pick how = { .margin = 4, .leave_own = true };
	struct kp_rng rng;
	kp_rng_seed(&rng, 1);
	move_away(3, KP_DISTANCE_POOL);
	atomic_store(&rev->endpoints[3]->in_flight, 100);
	assert_ptr_equal(kp_pick(rev, &how, NULL, &rng), rev->endpoints[3]);
	assert_true(kp_pick(rev, &how, rev->endpoints[3], &rng)->is_own);
	kp_endpoint_turned_away(rev->endpoints[3]);
	assert_int_equal(kp_endpoint_state(rev->endpoints[3]), KP_ENDPOINT_DRAINING);
	assert_true(kp_pick(rev, &how, NULL, &rng)->is_own);
}

static bool takes(const void *user, const struct kp_endpoint *e)
{
	return strchr(user, e->address[1]) != NULL;
}

/* Whoever cannot have the request is as good as down, also for a gateway that drains. */
static void test_only_those_that_could_have_it(void **state)
{
	(void)state;
	struct kp_rng rng;
	kp_rng_seed(&rng, 1);
	for (int i = 0; i < 40; i++) {
		struct kp_pick how = { .policy = i % 2 ? KP_ROUTE_LEAST_LOAD : KP_ROUTE_ROUND_ROBIN,
			.leave_own = i % 4 > 1,
			.takes = takes,
			.user = "13" };
		const struct kp_endpoint *e = kp_pick(rev, &how, NULL, &rng);
		assert_true(e == rev->endpoints[1] || e == rev->endpoints[3]);
		assert_ptr_equal(kp_pick(rev, &how, e, &rng),
			e == rev->endpoints[1] ? rev->endpoints[3] : rev->endpoints[1]);
		how.user = "0";
		assert_ptr_equal(kp_pick(rev, &how, rev->endpoints[0], &rng), rev->endpoints[0]);
		how.user = "";
		assert_null(kp_pick(rev, &how, NULL, &rng));
	}
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
			test_the_nearer_one_is_taken_until_it_is_worse_by_the_margin, setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			test_a_draining_gateway_leaves_its_own_engines_while_there_is_another,
			setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_only_those_that_could_have_it, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_names_are_found_and_nothing_else, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Conditions: one of Ready, Reconciling and Stalled is true, and says why. */
#include "operator/plan/conditions.h"
#include "tests/test.h"

static void assert_conditions(const struct kp_condition c[KP_POOL_CONDITIONS], const char *type,
	const char *reason, const char *msg)
{
	static const char *const types[] = { "Accepted", "Ready", "Reconciling", "Stalled" };
	for (size_t i = 0; i < KP_POOL_CONDITIONS; i++) {
		assert_string_equal(c[i].type, types[i]);
		assert_int_equal(c[i].is_true, i == 0 || strcmp(types[i], type) == 0);
		if (i > 0) {
			assert_string_equal(c[i].reason, reason);
			assert_string_equal(c[i].message, msg);
		}
	}
}

static void assert_engine(
	const struct kp_engine_facts *f, const char *type, const char *reason, const char *msg)
{
	struct kp_condition c[KP_CONDITIONS];
	kp_engine_conditions(f, c);
	assert_conditions(c, type, reason, msg);
}

/* From nothing to serving: each step names what is missing next. */
static void test_engine(void **state)
{
	(void)state;
	struct kp_engine_facts f = { 0 };
	assert_engine(&f, "Stalled", "NoEndpoints", "it names no endpoint");
	f.n_endpoints = 2;
	assert_engine(&f, "Reconciling", "NoGateways", "no gateway of the namespace is connected");
	f.no_owner = KP_S("its gateway was refused");
	assert_engine(&f, "Reconciling", "NoGateways",
		"no gateway of the namespace is connected; its gateway was refused");
	f.n_gateways = 3;
	assert_engine(&f, "Reconciling", "NoOwner",
		"2 of 2 endpoints are claimed by no gateway; its gateway was refused");
	f.no_owner = KP_S("");
	f.taken = KP_S("gateway `a` claims");
	assert_engine(&f, "Stalled", "AddressTaken", "gateway `a` claims");
	f.taken = KP_S("");
	assert_engine(&f, "Reconciling", "NoOwner", "2 of 2 endpoints are claimed by no gateway");
	f.n_owned = 2;
	assert_engine(&f, "Reconciling", "Programming", "0 of 3 gateways run the program");
	f.n_acked = 3;
	f.waiting = KP_S("127.0.0.1:1");
	f.waiting_why = KP_S("down: connection refused");
	f.n_routable = 1;
	assert_engine(&f, "Reconciling", "EndpointsNotRoutable",
		"1 of 2 endpoints are routable; `127.0.0.1:1`: down: connection refused");
	f.n_routable = 2;
	assert_engine(&f, "Ready", "Serving", "2 of 2 endpoints are routable");
	f.broken = KP_S("chat template: line 1");
	assert_engine(&f, "Stalled", "TokenizerFailed", "chat template: line 1");
	f.refused_by = KP_S("a");
	f.refused_why = KP_S("not_understood: engine `x`");
	assert_engine(&f, "Stalled", "ProgramRefused", "gateway `a`: not_understood: engine `x`");
	f.held_by = KP_S("`example.com/keep`");
	assert_engine(
		&f, "Reconciling", "Deleting", "it was deleted, and is kept by `example.com/keep`");
}

/* In pods: what comes before its endpoints, one after the other. */
static void test_engine_in_pods(void **state)
{
	(void)state;
	struct kp_engine_facts f = { .in_pods = true };
	assert_engine(&f, "Stalled", "NeedsCluster",
		"its pods are made and found in a Kubernetes cluster; here there are files");
	f.has_cluster = true;
	assert_engine(
		&f, "Reconciling", "NoPods", "there is no pod with its label `kelpie.dev/engine`");
	f.is_template = true;
	assert_engine(&f, "Ready", "ScaledToZero", "no pod is wanted");
	f.n_wanted = 2;
	assert_engine(&f, "Reconciling", "NoPods", "there is no pod yet");
	f.n_pods = 3;
	assert_engine(&f, "Reconciling", "PodsPending", "none of its 3 pods has an address yet");
	f.n_endpoints = f.n_owned = f.n_routable = 3;
	f.n_gateways = f.n_acked = 3;
	f.n_updated = 1;
	assert_engine(&f, "Reconciling", "Updating",
		"1 of 2 pods are of the newest template, 3 are there");
	f.n_pods = f.n_updated = 2;
	f.n_endpoints = f.n_owned = f.n_routable = 2;
	assert_engine(&f, "Ready", "Serving", "2 of 2 endpoints are routable");
	f.broken_link = "PortClash";
	f.broken_why = KP_S("port 1");
	assert_engine(&f, "Stalled", "PortClash", "port 1");
}

/* What Kubernetes says of a pod that does not run stands in front. */
static void test_pods_that_do_not_run(void **state)
{
	(void)state;
	struct kp_engine_facts f = {
		.in_pods = true, .has_cluster = true, .is_template = true, .n_wanted = 2
	};
	f.stuck = KP_S("pod `p`: Unschedulable: no");
	f.n_pods = f.n_updated = 1;
	assert_engine(&f, "Reconciling", "PodsPending",
		"none of its 1 pods has an address yet; pod `p`: Unschedulable: no");
	f.n_endpoints = f.n_gateways = f.n_acked = 1;
	assert_engine(&f, "Reconciling", "NoOwner",
		"1 of 1 endpoints are claimed by no gateway; pod `p`: Unschedulable: no");
	f.n_owned = 1;
	assert_engine(&f, "Reconciling", "Updating",
		"1 of 2 pods are of the newest template, 1 are there; pod `p`: Unschedulable: no");
	f.n_wanted = 1;
	f.waiting = KP_S("127.0.0.1:1");
	f.waiting_why = KP_S("down");
	assert_engine(&f, "Reconciling", "EndpointsNotRoutable",
		"0 of 1 endpoints are routable; pod `p`: Unschedulable: no; `127.0.0.1:1`: down");
}

static void assert_tokenizer(
	const struct kp_engine_facts *f, bool is_true, const char *reason, const char *msg)
{
	struct kp_condition c[KP_CONDITIONS];
	kp_engine_conditions(f, c);
	assert_string_equal(c[KP_POOL_CONDITIONS].type, "TokenizerReady");
	assert_int_equal(c[KP_POOL_CONDITIONS].is_true, is_true);
	assert_string_equal(c[KP_POOL_CONDITIONS].reason, reason);
	assert_string_equal(c[KP_POOL_CONDITIONS].message, msg);
}

static void test_tokenizer(void **state)
{
	(void)state;
	struct kp_engine_facts f = { .n_endpoints = 2 };
	f.n_loaded = 1;
	assert_tokenizer(&f, false, "NotLoaded",
		"tokenizer and chat template are loaded for 1 of 2 endpoints");
	f.n_loaded = 2;
	assert_tokenizer(
		&f, true, "Loaded", "tokenizer and chat template are loaded for 2 of 2 endpoints");
	f.broken = KP_S("chat template: line 1");
	assert_tokenizer(&f, false, "TokenizerFailed", "chat template: line 1");
}

static void test_pool(void **state)
{
	(void)state;
	struct kp_condition c[KP_CONDITIONS];
	struct kp_pool_facts f = { 0 };
	kp_pool_conditions(&f, c);
	assert_conditions(c, "Stalled", "NoEngines", "no InferenceEngine belongs to it");
	f.n_engines = 2;
	kp_pool_conditions(&f, c);
	assert_conditions(c, "Reconciling", "NoRoutableEndpoint",
		"none of its 2 engines has a routable endpoint");
	f.n_serving = 1;
	kp_pool_conditions(&f, c);
	assert_conditions(c, "Ready", "Serving", "1 of 2 engines have a routable endpoint");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_engine),
		cmocka_unit_test(test_engine_in_pods),
		cmocka_unit_test(test_pods_that_do_not_run),
		cmocka_unit_test(test_tokenizer),
		cmocka_unit_test(test_pool),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The DaemonSet of a node's gateways: what engines ask for, together. */
#include "common.h"

static const struct kp_kv requests_a[] = { { KP_S_INIT("cpu"), KP_S_INIT("2") },
	{ KP_S_INIT("memory"), KP_S_INIT("1Gi") } };
static const struct kp_kv requests_b[] = { { KP_S_INIT("cpu"), KP_S_INIT("500m") },
	{ KP_S_INIT("memory"), KP_S_INIT("4Gi") }, { KP_S_INIT("x.y/z"), KP_S_INIT("1") } };
static const struct kp_kv limits_a[] = { { KP_S_INIT("memory"), KP_S_INIT("3Gi") } };
static const struct kp_kv labels_a[] = { { KP_S_INIT("app"), KP_S_INIT("a") } };
static const struct kp_kv labels_b[] = { { KP_S_INIT("team"), KP_S_INIT("b") } };
static const struct kp_inference_engine_gateway_resources resources_a = { requests_a,
	KP_LEN(requests_a), limits_a, KP_LEN(limits_a) };
static const struct kp_inference_engine_gateway_resources resources_b = { requests_b,
	KP_LEN(requests_b), NULL, 0 };
static const struct kp_inference_engine_gateway_node node_a = { labels_a, 1 };
static const struct kp_inference_engine_gateway_node node_b = { labels_b, 1 };
static const struct kp_inference_engine_spec spec_a = { .engine = { .port = 50051 },
	.gateway = { KP_INFERENCE_ENGINE_GATEWAY_MODE_NODE, &resources_a, &node_a },
	.drain = { 30 } };
static const struct kp_inference_engine_spec spec_b = { .engine = { .port = 50052 },
	.gateway = { KP_INFERENCE_ENGINE_GATEWAY_MODE_NODE, &resources_b, &node_b },
	.drain = { 600 } };

static json_t *make(const struct kp_inject_node_engine *engines, size_t n)
{
	const struct kp_inject_settings settings = kp_inject_defaults();
	const struct kp_inject_node node = {
		.ns = KP_S("models"), .engines = engines, .n_engines = n
	};
	json_t *made = NULL;
	struct kp_err e = KP_ERR_INIT;
	int r = kp_inject_node_gateway(&node, &settings, arena, &made, &e);
	assert_string_equal(e.msg, "");
	assert_int_equal(r, 0);
	return made;
}

static const json_t *gateway(const json_t *made)
{
	return json_array_get(kp_doc_at(made, "template.spec.containers"), 0);
}

static void one_engine(void **state)
{
	(void)state;
	const struct kp_inject_node_engine one = { .name = KP_S("one"),
		.facts = { .engine = &engine_spec } };
	json_t *made = make(&one, 1), *again = make(&one, 1);
	assert_true(json_equal(made, again));
	is(kp_doc_at(made, "selector"),
		"{\"matchLabels\":{\"kelpie.dev/node-gateway\":\"models\"}}");
	is(kp_doc_at(made, "template.metadata.labels"), "{\"kelpie.dev/node-gateway\":\"models\"}");
	is(kp_doc_at(made, "template.spec.terminationGracePeriodSeconds"), "45");
	assert_null(kp_doc_at(made, "template.spec.affinity"));
	/* An init container's field, which a container may not have. */
	assert_null(json_object_get(gateway(made), "restartPolicy"));
	is(kp_doc_at(gateway(made), "resources.requests"),
		"{\"cpu\":\"500m\",\"memory\":\"512Mi\"}");
	is(kp_doc_at(gateway(made), "resources.limits"), "{\"memory\":\"2Gi\"}");
	assert_int_equal(json_array_size(kp_doc_at(made, "template.spec.volumes")), 3);
	json_decref(made);
	json_decref(again);
}

static void several_engines(void **state)
{
	(void)state;
	json_t *a = yaml(
		       "spec: {nodeSelector: {gpu: h200}, tolerations: [{key: a, operator: Exists}]}"),
	       *b = yaml(
		       "spec: {nodeSelector: {gpu: b200}, tolerations: [{key: a, operator: Exists}, {key: b, operator: Exists}]}");
	const struct kp_inject_node_engine both[] = { { KP_S("a"), { .engine = &spec_a }, a },
		{ KP_S("b"), { .engine = &spec_b }, b } };
	json_t *made = make(both, 2);
	is(kp_doc_at(made, "template.metadata.labels"),
		"{\"app\":\"a\",\"team\":\"b\",\"kelpie.dev/node-gateway\":\"models\"}");
	is(kp_doc_at(made, "template.spec.terminationGracePeriodSeconds"), "615");
	is(kp_doc_at(gateway(made), "resources.requests"),
		"{\"cpu\":\"2\",\"memory\":\"4Gi\",\"x.y/z\":\"1\"}");
	is(kp_doc_at(gateway(made), "resources.limits"), "{\"memory\":\"4Gi\"}");
	is(kp_doc_at(made,
		   "template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"),
		"{\"nodeSelectorTerms\":[{\"matchExpressions\":[{\"key\":\"gpu\",\"operator\":\"In\",\"values\":[\"h200\"]}]},"
		"{\"matchExpressions\":[{\"key\":\"gpu\",\"operator\":\"In\",\"values\":[\"b200\"]}]}]}");
	assert_int_equal(json_array_size(kp_doc_at(made, "template.spec.tolerations")), 4);
	json_decref(made);

	/* One of them may run anywhere. */
	const struct kp_inject_node_engine free_one[] = { { KP_S("a"), { .engine = &spec_a }, a },
		{ KP_S("b"), { .engine = &spec_b }, NULL } };
	made = make(free_one, 2);
	assert_null(kp_doc_at(made, "template.spec.affinity"));
	json_decref(made);
	json_decref(a);
	json_decref(b);
}

/* Whichever of them it is: its limit would be everybody's. */
static void what_makes_no_sense_is_named(void **state)
{
	static const struct kp_kv little[] = { { KP_S_INIT("memory"), KP_S_INIT("64Mi") } };
	static const struct kp_inference_engine_gateway_resources resources = { NULL, 0, little,
		1 };
	const struct kp_inject_settings settings = kp_inject_defaults();
	struct kp_inference_engine_spec bad = spec_b;
	(void)state;
	bad.gateway.resources = &resources;
	for (size_t i = 0; i < 2; i++) {
		struct kp_inject_node_engine engines[] = { { KP_S("a"), { .engine = &spec_b },
								   NULL },
			{ KP_S("b"), { .engine = &spec_b }, NULL } };
		const struct kp_inject_node node = {
			.ns = KP_S("models"), .engines = engines, .n_engines = 2
		};
		json_t *made = NULL;
		struct kp_err e = KP_ERR_INIT;
		engines[i].facts.engine = &bad;
		assert_int_equal(kp_inject_node_gateway(&node, &settings, arena, &made, &e), -1);
		assert_int_equal(e.code, KP_INVALID_ARGUMENT);
		assert_string_equal(e.msg,
			i ? "engine `b`: the gateway needs a memory limit of 128Mi at least, not `64Mi`"
			  : "engine `a`: the gateway needs a memory limit of 128Mi at least, not `64Mi`");
		assert_null(made);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_engine, setup, teardown),
		cmocka_unit_test_setup_teardown(several_engines, setup, teardown),
		cmocka_unit_test_setup_teardown(what_makes_no_sense_is_named, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Intents from manifests and gateways by their claims, for the tests of the operator. */
#ifndef KP_TESTS_OPERATOR_COMMON_H
#define KP_TESTS_OPERATOR_COMMON_H

#include "operator/plan/plan.h"
#include "tests/test.h"

#define POOL(ns, name)                                                                            \
	"apiVersion: inference.networking.k8s.io/v1\nkind: InferencePool\nmetadata: {name: " name \
	", namespace: " ns "}\n"                                                                  \
	"spec: {selector: {matchLabels: {app: x}}, targetPorts: [{number: 8080}], "               \
	"endpointPickerRef: {name: epp, port: {number: 9002}}}\n---\n"
#define ENGINE(ns, name, pool, model, endpoints)                                           \
	"apiVersion: kelpie.dev/v1alpha1\nkind: InferenceEngine\nmetadata: {name: " name   \
	", namespace: " ns "}\nspec:\n  poolRef: {name: " pool "}\n  model: {name: " model \
	"}\n  engine: {type: vllm, protocol: grpc}\n  endpoints: [" endpoints "]\n---\n"
#define AT(port) "{address: 127.0.0.1, port: " port "}"

/* Two namespaces, three engines. */
#define WORLD                                                             \
	POOL("default", "p")                                              \
	ENGINE("default", "a", "p", "m", AT("1") "," AT("2") "," AT("3")) \
	ENGINE("default", "b", "p", "k", AT("4"))                         \
	POOL("other", "p")                                                \
	ENGINE("other", "a", "p", "m", AT("1"))

KP_UNUSED static int test_intent_err(const char *text, struct kp_intent **ret, struct kp_err *err)
{
	const struct kp_manifest_file file = { .name = "pool.yaml", .text = kp_str_c(text) };
	struct kp_object_set set = { 0 };
	struct kp_problems problems;
	kp_problems_init(&problems);
	int r = kp_manifest_parse(&file, 1, KP_S("default"), &set, &problems, err);
	if (r == 0) {
		r = kp_intent_build(&set, &problems, ret, err);
	}
	kp_object_set_fini(&set);
	kp_problems_fini(&problems);
	return r;
}

KP_UNUSED static struct kp_intent *test_intent(const char *text)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_intent *i = NULL;
	int r = test_intent_err(text, &i, &err);
	assert_string_equal(err.msg, "");
	assert_int_equal(r, 0);
	return i;
}

KP_UNUSED static struct kp_plan *test_plan(const struct kp_intent *intent,
	const struct kp_plan_gateway *gateways, size_t n, int64_t now_ns)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_plan *p = NULL;
	int r = kp_plan_make(intent, NULL, gateways, n, now_ns, NULL, &p, &err);
	assert_string_equal(err.msg, "");
	assert_int_equal(r, 0);
	return p;
}

#endif

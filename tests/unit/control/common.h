/* A program from manifests, and a few gateways, for the tests of lib/control. */
#ifndef KP_TESTS_CONTROL_COMMON_H
#define KP_TESTS_CONTROL_COMMON_H

#include "control/follower.h"
#include "control/ownership.h"
#include "tests/test.h"

#define POOL(name, port)                                                                          \
	"apiVersion: inference.networking.k8s.io/v1\nkind: InferencePool\nmetadata: {name: " name \
	"}\n"                                                                                     \
	"spec: {selector: {matchLabels: {app: x}}, targetPorts: [{number: " port                  \
	"}], endpointPickerRef: {name: epp, port: {number: 9002}}}\n---\n"
#define ENGINE(name, pool, model, more)                                                  \
	"apiVersion: kelpie.dev/v1alpha1\nkind: InferenceEngine\nmetadata: {name: " name \
	"}\nspec:\n  poolRef: {name: " pool "}\n  model: " model "\n" more "\n---\n"

/* Two pools, two engines (one with three endpoints, out of the order of their addresses). */
#define TWO_ENGINES                                                                                 \
	POOL("b", "8081")                                                                           \
	POOL("a", "8080")                                                                           \
	ENGINE("demo", "a", "{name: m, aliases: [x, z]}",                                           \
		"  engine: {type: vllm, protocol: grpc}\n  endpoints: [{address: 127.0.0.1, port: " \
		"9}, {address: '::1', port: 2}, {address: 127.0.0.1, port: 1}]")                    \
	ENGINE("demo-b", "b", "{name: other}",                                                      \
		"  engine: {type: sglang}\n  tokenizer: {source: Path, path: /models/m}\n"          \
		"  endpoints: [{address: host.name, port: 50051}]")

KP_UNUSED static struct kp_program *test_program(const char *text)
{
	const struct kp_manifest_file file = { .name = "pool.yaml", .text = kp_str_c(text) };
	struct kp_object_set set = { 0 };
	struct kp_problems problems;
	struct kp_program *p = NULL;
	struct kp_err err = KP_ERR_INIT;
	kp_problems_init(&problems);
	int r = kp_manifest_parse(&file, 1, KP_S("default"), &set, &problems, &err);
	if (r == 0) {
		r = kp_program_build(&set, KP_S("default"), &problems, &p, &err);
	}
	assert_string_equal(err.msg, "");
	assert_int_equal(r, 0);
	kp_object_set_fini(&set);
	kp_problems_fini(&problems);
	return p;
}

/* The program with owners, as items. */
KP_UNUSED static struct kp_items *test_items(
	const char *text, const struct kp_program_gateway *gateways, size_t n)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_program *p = test_program(text), *owned = NULL;
	const struct kp_claim_problem *problems;
	size_t n_problems;
	struct kp_items *items = NULL;
	int r = kp_program_with_owners(p, gateways, n, &owned, &problems, &n_problems, &err);
	if (r == 0) {
		r = kp_items_from_program(owned, &items, &err);
	}
	assert_string_equal(err.msg, "");
	assert_int_equal(r, 0);
	kp_program_destroy(p);
	kp_program_destroy(owned);
	return items;
}

#endif

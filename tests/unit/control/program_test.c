/* Programs from manifests: the rules between objects, and what an engine resolves to. */
#include "control/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define POOL(name, port)                                                                          \
	"apiVersion: inference.networking.k8s.io/v1\nkind: InferencePool\nmetadata: {name: " name \
	"}\n"                                                                                     \
	"spec: {selector: {matchLabels: {app: x}}, targetPorts: [{number: " port                  \
	"}], endpointPickerRef: {name: epp, port: {number: 9002}}}\n---\n"
#define ENGINE(name, pool, model, more)                                                  \
	"apiVersion: kelpie.dev/v1alpha1\nkind: InferenceEngine\nmetadata: {name: " name \
	"}\nspec:\n  poolRef: {name: " pool "}\n  model: " model                         \
	"\n  engine: {type: vllm, protocol: grpc}\n" more "\n---\n"

static int build(
	const char *text, struct kp_program **p, struct kp_problems *problems, struct kp_err *err)
{
	const struct kp_manifest_file file = { .name = "pool.yaml", .text = kp_str_c(text) };
	struct kp_object_set set = { 0 };
	kp_problems_init(problems);
	if (kp_manifest_parse(&file, 1, KP_S("default"), &set, problems, err)) {
		return -1;
	}
	int r = kp_program_build(&set, KP_S("default"), problems, p, err);
	kp_object_set_fini(&set);
	return r;
}

static void test_resolves(void **state)
{
	(void)state;
	struct kp_program *p = NULL;
	struct kp_problems problems;
	struct kp_err err = KP_ERR_INIT;
	int r = build(
		POOL("b", "8081") POOL("a", "8080") ENGINE("e", "a", "{name: m, aliases: [x, z]}",
			"  endpoints: [{address: 127.0.0.1, port: 1}, {address: '::1', port: 2}]")
			ENGINE("f", "a", "{name: m}",
				"  tokenizer: {source: Path, path: /models/m}"),
		&p, &problems, &err);
	assert_string_equal(err.msg, "");
	assert_int_equal(r, 0);
	assert_int_equal(p->n_engines, 2);
	assert_int_equal(p->n_pools, 2);
	assert_true(kp_str_eq(p->pools[0].name, KP_S("default/a")));
	assert_int_equal(p->pools[0].n_target_ports, 1);
	assert_int_equal(p->pools[0].target_ports[0], 8080);
	const struct kp_program_engine *e = &p->engines[0];
	assert_true(kp_str_eq(e->name, KP_S("default/e")));
	assert_true(kp_str_eq(e->pool, KP_S("default/a")));
	assert_int_equal(e->n_aliases, 2);
	assert_true(kp_str_eq(e->endpoints[0].address, KP_S("127.0.0.1:1")));
	assert_true(kp_str_eq(e->endpoints[1].address, KP_S("[::1]:2")));
	assert_int_equal(e->tokenizer, KP_TOKENIZER_ENGINE);
	assert_int_equal(p->engines[1].tokenizer, KP_TOKENIZER_PATH);
	assert_true(kp_str_eq(p->engines[1].tokenizer_path, KP_S("/models/m")));
	kp_program_destroy(p);
	kp_problems_fini(&problems);
}

static void test_refuses(void **state)
{
	(void)state;
	static const struct {
		const char *text, *msg;
	} bad[] = {
		{ POOL("a", "8080") ENGINE("e", "nope", "{name: m}", ""),
			"load manifests: pool.yaml:10:19: error: InferenceEngine default/e: spec.poolRef.name: Not found: \"nope\": there is no InferencePool of that name in "
			"namespace \"default\"" },
		{ POOL("a", "8080") POOL("b", "8081") ENGINE("e", "a", "{name: m}", "")
				ENGINE("f", "b", "{name: other, aliases: [m]}", ""),
			"load manifests: pool.yaml:25:34: error: InferenceEngine default/f: spec.model.aliases[0]: Invalid value: \"m\": already the name of a model of pool "
			"\"a\" (engine \"e\")" },
	};
	for (size_t i = 0; i < KP_LEN(bad); i++) {
		struct kp_program *p = NULL;
		struct kp_problems problems;
		struct kp_err err = KP_ERR_INIT;
		assert_int_equal(build(bad[i].text, &p, &problems, &err), -1);
		assert_string_equal(err.msg, bad[i].msg);
		assert_null(p);
		kp_problems_fini(&problems);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_resolves),
		cmocka_unit_test(test_refuses),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

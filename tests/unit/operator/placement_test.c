/* Which nodes could hold a pod, by what must be so. */
#include "operator/plan/placement.h"
#include "tests/test.h"

#define NODE(name, gpus, labels)                                                           \
	"{\"metadata\": {\"name\": \"" name "\", \"labels\": {" labels "}}, \"status\": {" \
	"\"allocatable\": {\"nvidia.com/gpu\": " gpus                                      \
	", \"example.com/nic\": 1, \"cpu\": \"8\"}}}"

static const char *const nodes[] = {
	NODE("n1", "\"2\"", "\"zone\": \"a\""),
	NODE("n2", "\"8\"", "\"zone\": \"b\""),
	NODE("n3", "{}", "\"zone\": \"c\""),
};

struct asked {
	const char *selector; /* of the template */
	int64_t gpus, nics;
};

static bool look(const struct asked *a, size_t n_nodes, struct kp_condition *ret)
{
	struct kp_world *w = kp_world_create(NULL);
	struct kp_engine_pods p = { .n_gpus = 3,
		.gpus = { { .name = KP_S("nvidia.com/gpu"), .per_replica = a->gpus },
			{ .name = KP_S("claim:x"), .per_replica = 1 },
			{ .name = KP_S("example.com/nic"), .per_replica = a->nics } } };
	json_t *engine = json_pack("{s:{s:{s:{s:o}}}}", "spec", "template", "spec", "nodeSelector",
		json_loads(a->selector, 0, NULL));
	assert_non_null(engine);
	const struct kp_world_engine e = { .json = engine };
	w->has_nodes = true;
	for (size_t i = 0; i < n_nodes; i++) {
		json_t *v = json_loads(nodes[i], 0, NULL);
		assert_non_null(v);
		kp_world_add_node(w, v);
		json_decref(v);
	}
	kp_world_sort(w);
	bool is_said = kp_placement_look(w, &e, &p, ret);
	json_decref(engine);
	kp_world_destroy(w);
	return is_said;
}

static void assert_says(struct asked a, bool fits, const char *msg)
{
	struct kp_condition c;
	assert_true(look(&a, KP_LEN(nodes), &c));
	assert_string_equal(c.type, "NodeFits");
	assert_int_equal(c.is_true, fits);
	assert_string_equal(c.reason, fits ? "Fits" : "NoNodeFits");
	assert_string_equal(c.message, msg);
}

static void test_look(void **state)
{
	struct kp_condition c;
	(void)state;
	assert_says((struct asked){ "{}", 2, 1 }, true,
		"2 of 3 nodes have the accelerators that a pod needs");
	assert_says((struct asked){ "{}", 16, 1 }, false,
		"a pod needs 16 `nvidia.com/gpu`; of 3 nodes that it may run on `n2` has most, 8");
	assert_says((struct asked){ "{}", 8, 2 }, false,
		"a pod needs 2 `example.com/nic`; of 3 nodes that it may run on `n1` has most, 1");
	assert_says((struct asked){ "{\"zone\": \"a\"}", 8, 1 }, false,
		"a pod needs 8 `nvidia.com/gpu`; of 1 nodes that it may run on `n1` has most, 2");
	assert_says((struct asked){ "{\"zone\": \"x\"}", 1, 1 }, false,
		"no node has the labels of the template's nodeSelector");
	assert_says((struct asked){ "[7]", 1, 1 }, true, /* the server refuses such a template */
		"2 of 3 nodes have the accelerators that a pod needs");
	assert_false(look(&(struct asked){ "{}", 1, 1 }, 0, &c)); /* nothing is known of nodes */
}

/* As API servers write them. */
static void test_amount(void **state)
{
	static const struct {
		const char *text;
		int64_t amount;
	} cases[] = { { "8", 8 }, { "\"8\"", 8 }, { "\"0\"", 0 }, { "\"2k\"", 2000 },
		{ "\"16384\"", 16384 }, { "\"1M\"", 1000000 }, { "-1", 0 }, { "\"-1\"", 0 },
		{ "\"much\"", 0 }, { "{}", 0 } };
	(void)state;
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		json_t *v = json_loads(cases[i].text, JSON_DECODE_ANY, NULL);
		assert_non_null(v);
		assert_int_equal(kp_placement_amount(v), cases[i].amount);
		json_decref(v);
	}
	assert_int_equal(kp_placement_amount(NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_amount),
		cmocka_unit_test(test_look),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The plan: who owns what as time passes, and that the same input gives the same plan. */
#include "tests/unit/operator/common.h"

#define S KP_NS_PER_S
#define GATEWAY(gateway_id, gateway_ns, heard, ...)                                          \
	{                                                                                    \
		.is = { .id = KP_S(gateway_id),                                              \
			.peer = KP_S("10.0.0.1:8443"),                                       \
			.own = (const kp_str[]){ __VA_ARGS__ },                              \
			.n_own = sizeof((const kp_str[]){ __VA_ARGS__ }) / sizeof(kp_str) }, \
		.ns = KP_S(gateway_ns), .heard_ns = (heard)                                  \
	}

static void assert_owner(
	const struct kp_plan *p, const char *ns, size_t engine, size_t endpoint, const char *id)
{
	const struct kp_plan_namespace *n = kp_plan_find(p, kp_str_c(ns));
	assert_non_null(n);
	const struct kp_program_gateway *g = n->program->engines[engine].endpoints[endpoint].owner;
	assert_str(g ? g->id : KP_S(""), kp_str_c(id));
}

static void test_namespaces_are_apart(void **state)
{
	(void)state;
	struct kp_intent *i = test_intent(WORLD);
	const struct kp_plan_gateway g[] = {
		GATEWAY("z", "other", 0, KP_S("other/a"), KP_S("default/b")),
		GATEWAY("y", "default", 0, KP_S("default/a/1"), KP_S("default/nope")),
		GATEWAY("x", "nowhere", 0, KP_S("nowhere/a")),
	};
	struct kp_plan *p = test_plan(i, g, 3, S);
	assert_int_equal(p->n, 2);
	assert_owner(p, "default", 0, 0, "");
	assert_owner(p, "default", 0, 1, "y");
	assert_owner(p, "default", 1, 0, ""); /* a claim on another namespace is nothing */
	assert_owner(p, "other", 0, 0, "z");
	const struct kp_plan_namespace *n = kp_plan_find(p, KP_S("default"));
	assert_int_equal(n->program->n_gateways, 1);
	assert_int_equal(n->n_problems, 1);
	assert_str_lit(n->problems[0].claim, "default/nope");
	assert_int_equal(kp_plan_find(p, KP_S("other"))->n_problems, 1);
	assert_null(kp_plan_find(p, KP_S("nowhere")));
	assert_int_equal(p->due_ns, 10 * S);
	kp_plan_destroy(p);
	kp_intent_destroy(i);
}

/* Both claim all of engine a. `a` was heard of at 0, `b` is heard of all the time. */
static void test_silence(void **state)
{
	(void)state;
	struct kp_intent *i = test_intent(WORLD);
	static const struct {
		int64_t now;
		const char *shared, *alone;
		int64_t due;
		size_t n_gateways;
	} steps[] = {
		{ 10 * S - 1, "a", "a", 10 * S, 2 },
		{ 10 * S, "b", "a", 20 * S, 2 }, /* it gives way, but keeps what is its alone */
		{ 60 * S - 1, "b", "a", 60 * S, 2 },
		{ 60 * S, "b", "", 70 * S, 1 },
	};
	for (size_t k = 0; k < KP_LEN(steps); k++) {
		const struct kp_plan_gateway g[] = {
			GATEWAY("a", "default", 0, KP_S("default/a"), KP_S("default/b")),
			GATEWAY("b", "default", steps[k].now, KP_S("default/a")),
		};
		struct kp_plan *p = test_plan(i, g, 2, steps[k].now);
		assert_owner(p, "default", 0, 0, steps[k].shared);
		assert_owner(p, "default", 1, 0, steps[k].alone);
		assert_int_equal(p->due_ns, KP_MIN(steps[k].due, steps[k].now + 10 * S));
		assert_int_equal(
			kp_plan_find(p, KP_S("default"))->program->n_gateways, steps[k].n_gateways);
		kp_plan_destroy(p);
	}
	kp_intent_destroy(i);
}

static void test_nobody(void **state)
{
	(void)state;
	struct kp_intent *i = test_intent(WORLD);
	struct kp_plan *p = test_plan(i, NULL, 0, 0);
	assert_int_equal(p->n, 2);
	assert_true(p->due_ns == INT64_MAX);
	kp_plan_destroy(p);
	kp_intent_destroy(i);
}

/* The plan that follows `before` makes one namespace anew, and is the one that would have been made without it. */
static void assert_made_anew(const struct kp_intent *i, struct kp_plan *before,
	const struct kp_plan_gateway *g, size_t n, int64_t now)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_plan *after = NULL, *fresh = test_plan(i, g, n, now);
	assert_int_equal(kp_plan_make(i, NULL, g, n, now, before, &after, &err), 0);
	assert_int_equal(after->n_made, 1);
	for (size_t k = 0; k < fresh->n; k++) {
		assert_true(kp_items_same(fresh->namespaces[k].items, after->namespaces[k].items));
	}
	kp_plan_destroy(before);
	kp_plan_destroy(after);
	kp_plan_destroy(fresh);
}

/* Whatever is said of a gateway counts. */
static void test_what_changes_is_planned_anew(void **state)
{
	(void)state;
	struct kp_intent *i = test_intent(WORLD);
	const struct kp_plan_gateway g[] = {
		GATEWAY("a", "default", 0, KP_S("default/a"), KP_S("default/b")),
		GATEWAY("b", "default", 10 * S, KP_S("default/a")),
	};
	struct kp_plan_gateway other[5];
	static const kp_str elsewhere[] = { KP_S_INIT("default/a"), KP_S_INIT("default/a/1") };
	for (size_t k = 0; k < KP_LEN(other); k++) {
		other[k] = g[0];
	}
	other[0].is.id = KP_S("c");
	other[1].is.peer = KP_S("10.0.0.2:8443");
	other[2].is.node = KP_S("node");
	other[3].is.own = elsewhere;
	other[4].is.n_own = 1;
	for (size_t k = 0; k < KP_LEN(other); k++) {
		const struct kp_plan_gateway changed[] = { other[k], g[1] };
		assert_made_anew(i, test_plan(i, g, 2, S), changed, 2, S);
	}
	assert_made_anew(i, test_plan(i, g, 2, S), g, 2, 10 * S); /* `a` is silent and gives way */
	kp_intent_destroy(i);
}

/* More claims than an item holds would spoil the program for all: the error names the namespace. */
static void test_too_much(void **state)
{
	(void)state;
	struct kp_intent *i = test_intent(WORLD);
	static kp_str own[4000];
	for (size_t k = 0; k < KP_LEN(own); k++) {
		own[k] = KP_S("default/a-name-that-is-long-enough");
	}
	const struct kp_plan_gateway g = {
		.is = { .id = KP_S("a"), .own = own, .n_own = KP_LEN(own) }, .ns = KP_S("default")
	};
	struct kp_plan *p = NULL;
	struct kp_err err = KP_ERR_INIT;
	assert_int_equal(kp_plan_make(i, NULL, &g, 1, 0, NULL, &p, &err), -1);
	assert_null(p);
	assert_int_equal(err.code, KP_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(err.msg, "plan namespace `default`: gateway `a`"));
	kp_intent_destroy(i);
}

static void test_intents(void **state)
{
	(void)state;
	struct kp_intent *i = NULL;
	struct kp_err err = KP_ERR_INIT;
	i = test_intent("# nothing\n");
	assert_int_equal(i->n, 0);
	assert_null(kp_intent_find(i, KP_S("default")));
	kp_intent_destroy(i);
	i = NULL;
	assert_int_equal(test_intent_err(ENGINE("x", "a", "nope", "m", AT("1")) POOL("y", "p")
						 ENGINE("y", "a", "nope", "m", AT("1")),
				 &i, &err),
		-1);
	/* Those of both namespaces are counted. */
	assert_non_null(strstr(err.msg, "2 errors"));
	assert_null(i);
	i = test_intent(WORLD);
	assert_int_equal(i->n, 2);
	assert_str_lit(i->namespaces[0].name, "default");
	assert_int_equal(kp_intent_find(i, KP_S("other"))->program->n_engines, 1);
	assert_null(kp_intent_find(i, KP_S("x")));
	kp_intent_destroy(i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_namespaces_are_apart),
		cmocka_unit_test(test_silence),
		cmocka_unit_test(test_nobody),
		cmocka_unit_test(test_what_changes_is_planned_anew),
		cmocka_unit_test(test_too_much),
		cmocka_unit_test(test_intents),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

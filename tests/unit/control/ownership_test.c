/* Who owns which endpoint, and what is said of claims that do not hold. */
#include "tests/unit/control/common.h"

#define CLAIMS(...)                                                                                \
	(const kp_str[]){ __VA_ARGS__ }, sizeof((const kp_str[]){ __VA_ARGS__ }) / sizeof(kp_str), \
		false
#define YIELDS(...)                                                                                \
	(const kp_str[]){ __VA_ARGS__ }, sizeof((const kp_str[]){ __VA_ARGS__ }) / sizeof(kp_str), \
		true

static struct kp_program *decide_of(const char *manifest, const struct kp_program_gateway *gateways,
	size_t n, struct kp_buf *said)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_program *p = test_program(manifest), *owned = NULL;
	const struct kp_claim_problem *problems = NULL;
	size_t n_problems = 0;
	assert_int_equal(
		kp_program_with_owners(p, gateways, n, &owned, &problems, &n_problems, &err), 0);
	kp_program_destroy(p); /* the result stands alone */
	kp_buf_init(said, 1 << 20);
	for (size_t i = 0; i < n_problems; i++) {
		kp_claim_problem_write(&problems[i], said);
		kp_buf_addc(said, '\n');
	}
	return owned;
}
static struct kp_program *decide(
	const struct kp_program_gateway *gateways, size_t n, struct kp_buf *said)
{
	return decide_of(TWO_ENGINES, gateways, n, said);
}
static void assert_owner(const struct kp_program *p, size_t engine, size_t endpoint, const char *id)
{
	const struct kp_program_gateway *g = p->engines[engine].endpoints[endpoint].owner;
	assert_str(g ? g->id : KP_S(""), kp_str_c(id));
}

static void test_nobody(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf said;
	struct kp_program *p = decide(NULL, 0, &said);
	assert_owner(p, 0, 0, "");
	assert_int_equal(p->n_gateways, 0);
	assert_str_lit(kp_buf_str(&said), "");
	kp_program_destroy(p);
}

/* One endpoint beats the whole engine, whatever the ids; that is no conflict. */
static void test_exact_beats_engine(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf said;
	const struct kp_program_gateway g[] = {
		{ KP_S("z"), KP_S(""), KP_S(""), CLAIMS(KP_S("default/demo/1")) },
		{ KP_S("a"), KP_S(""), KP_S(""), CLAIMS(KP_S("default/demo")) },
	};
	struct kp_program *p = decide(g, 2, &said);
	assert_owner(p, 0, 0, "a");
	assert_owner(p, 0, 1, "z");
	assert_owner(p, 0, 2, "a");
	assert_owner(p, 1, 0, "");
	assert_str_lit(kp_buf_str(&said), "");
	kp_program_destroy(p);
}

/* A gateway that is silent keeps what nobody else claims, and nothing is said of the rest. */
static void test_yields(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf said;
	const struct kp_program_gateway g[] = {
		{ KP_S("a"), KP_S(""), KP_S(""),
			YIELDS(KP_S("default/demo/1"), KP_S("default/demo-b"), KP_S("x")) },
		{ KP_S("b"), KP_S(""), KP_S(""), CLAIMS(KP_S("default/demo")) },
		{ KP_S("c"), KP_S(""), KP_S(""), YIELDS(KP_S("default/demo-b")) },
	};
	struct kp_program *p = decide(g, 3, &said);
	assert_owner(p, 0, 0, "b");
	assert_owner(p, 0, 1, "b");
	assert_owner(p, 0, 2, "b");
	assert_owner(p, 1, 0, "a");
	assert_str_lit(kp_buf_str(&said),
		"gateway `a` claims `x`: not NAMESPACE/ENGINE or NAMESPACE/ENGINE/INDEX\n"
		"gateway `c` claims `default/demo-b`: gateway `a` has `default/demo-b/host.name:50051` by an equal claim\n");
	kp_program_destroy(p);
}

static void test_conflicts(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf said;
	const struct kp_program_gateway g[] = {
		{ KP_S("c"), KP_S(""), KP_S(""), CLAIMS(KP_S("default/demo")) },
		{ KP_S("b"), KP_S(""), KP_S(""),
			CLAIMS(KP_S("default/demo"), KP_S("default/demo-b/0")) },
		{ KP_S("a"), KP_S(""), KP_S(""),
			CLAIMS(KP_S("default/demo/0"), KP_S("default/demo-b/0")) },
	};
	struct kp_program *p = decide(g, 3, &said);
	assert_owner(p, 0, 0, "a");
	assert_owner(p, 0, 1, "b");
	assert_owner(p, 0, 2, "b");
	assert_owner(p, 1, 0, "a");
	assert_str_lit(kp_buf_str(&said),
		"gateway `b` claims `default/demo-b/0`: gateway `a` has `default/demo-b/host.name:50051` by an equal claim\n"
		"gateway `c` claims `default/demo`: gateway `b` has `default/demo/[::1]:2` by an equal claim\n");
	kp_program_destroy(p);
}

static void test_claims_on_nothing(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf said;
	const struct kp_program_gateway g[] = {
		{ KP_S("a"), KP_S(""), KP_S(""),
			CLAIMS(KP_S("default/demo/3"), KP_S("default/nope"), KP_S("demo"), KP_S(""),
				KP_S("default/demo/x"), KP_S("default/demo/"), KP_S("default//0"),
				KP_S("default/demo/0/0"), KP_S("default/demo/-1"),
				KP_S("default/demo/99999999999")) },
	};
	struct kp_program *p = decide(g, 1, &said);
	assert_owner(p, 0, 0, "");
	assert_str_lit(kp_buf_str(&said),
		"gateway `a` claims ``: not NAMESPACE/ENGINE or NAMESPACE/ENGINE/INDEX\n"
		"gateway `a` claims `default//0`: not NAMESPACE/ENGINE or NAMESPACE/ENGINE/INDEX\n"
		"gateway `a` claims `default/demo/`: not NAMESPACE/ENGINE or NAMESPACE/ENGINE/INDEX\n"
		"gateway `a` claims `default/demo/-1`: not NAMESPACE/ENGINE or NAMESPACE/ENGINE/INDEX\n"
		"gateway `a` claims `default/demo/0/0`: not NAMESPACE/ENGINE or NAMESPACE/ENGINE/INDEX\n"
		"gateway `a` claims `default/demo/3`: there is no such endpoint\n"
		"gateway `a` claims `default/demo/99999999999`: not NAMESPACE/ENGINE or NAMESPACE/ENGINE/INDEX\n"
		"gateway `a` claims `default/demo/x`: not NAMESPACE/ENGINE or NAMESPACE/ENGINE/INDEX\n"
		"gateway `a` claims `default/nope`: there is no such endpoint\n"
		"gateway `a` claims `demo`: not NAMESPACE/ENGINE or NAMESPACE/ENGINE/INDEX\n");
	kp_program_destroy(p);
}

#define SHARED(address)                                                          \
	"apiVersion: inference.networking.k8s.io/v1\n"                           \
	"kind: InferencePool\n"                                                  \
	"metadata: {name: p}\n"                                                  \
	"spec: {selector: {matchLabels: {a: b}}, targetPorts: [{number: 80}]}\n" \
	"---\n" SHARED_ENGINE("e", address) "---\n" SHARED_ENGINE("f", address)
#define SHARED_ENGINE(name, address)                                                         \
	"apiVersion: kelpie.dev/v1alpha1\n"                                                  \
	"kind: InferenceEngine\n"                                                            \
	"metadata: {name: " name "}\n"                                                       \
	"spec: {poolRef: {name: p}, model: {name: m}, engine: {type: vllm, protocol: grpc}," \
	" tokenizer: {source: Engine}, endpoints: [{address: '" address "', port: 1}]}\n"

/* One address is one engine process, whatever engines name it: it has one owner. */
static void test_one_address_has_one_owner(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf said, later, both;
	struct kp_program_gateway g[] = {
		{ KP_S("a"), KP_S(""), KP_S(""), CLAIMS(KP_S("default/f")) },
		{ KP_S("b"), KP_S(""), KP_S(""), CLAIMS(KP_S("default/e")) },
	};
	struct kp_program *p = decide_of(SHARED("10.0.0.1"), g, 2, &said);
	assert_owner(p, 0, 0, "b");
	assert_owner(p, 1, 0, "");
	assert_str_lit(kp_buf_str(&said),
		"gateway `a` claims `default/f/10.0.0.1:1`: gateway `b` has the same engine as "
		"`default/e/10.0.0.1:1`, and an address has one owner\n");
	kp_program_destroy(p);
	g[1].yields = true; /* the one that is there has it */
	p = decide_of(SHARED("10.0.0.1"), g, 2, &later);
	assert_owner(p, 0, 0, "");
	assert_owner(p, 1, 0, "a");
	assert_non_null(strstr(kp_buf_cstr(&later), "gateway `b` claims `default/e/10.0.0.1:1`"));
	kp_program_destroy(p);
	const struct kp_program_gateway one = { KP_S("a"), KP_S(""), KP_S(""),
		CLAIMS(KP_S("default/e"), KP_S("default/f")) };
	p = decide_of(SHARED("10.0.0.1"), &one, 1, &both);
	assert_owner(p, 0, 0, "a");
	assert_owner(p, 1, 0, "a");
	assert_str_lit(kp_buf_str(&both), "");
	kp_program_destroy(p);
}

/* Loopback is another engine on another machine. */
static void test_loopback_addresses(void **state)
{
	(void)state;
	static const struct {
		const char *node_a, *node_b, *peer_a, *peer_b;
		bool is_one;
	} cases[] = { { "n1", "n1", "10.0.0.1:1", "10.0.0.2:1", true },
		{ "n1", "n2", "10.0.0.1:1", "10.0.0.1:2", false },
		{ "", "", "10.0.0.1:1", "10.0.0.2:1", false },
		{ "", "", "[::1]:1", "[::1]:2", true }, { "", "", "", "", false } };
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		KP_AUTO(buf) struct kp_buf said;
		const struct kp_program_gateway g[] = {
			{ KP_S("a"), kp_str_c(cases[i].peer_a), kp_str_c(cases[i].node_a),
				CLAIMS(KP_S("default/e")) },
			{ KP_S("b"), kp_str_c(cases[i].peer_b), kp_str_c(cases[i].node_b),
				CLAIMS(KP_S("default/f")) },
		};
		struct kp_program *p =
			decide_of(i % 2 ? SHARED("127.0.0.1") : SHARED("::1"), g, 2, &said);
		assert_owner(p, 0, 0, "a");
		assert_owner(p, 1, 0, cases[i].is_one ? "" : "b");
		kp_program_destroy(p);
	}
}

static void test_same_id_twice(void **state)
{
	(void)state;
	struct kp_err err = KP_ERR_INIT;
	const struct kp_program_gateway g[] = { { .id = KP_S("a") }, { .id = KP_S("a") } };
	struct kp_program *p = test_program(TWO_ENGINES), *owned = NULL;
	const struct kp_claim_problem *problems;
	size_t n;
	assert_int_equal(kp_program_with_owners(p, g, 2, &owned, &problems, &n, &err), -1);
	assert_string_equal(err.msg, "decide owners: gateway `a` is there twice");
	kp_program_destroy(p);
}

/* Two pods of one engine, both at 127.0.0.1 for their own gateways, and a third whose gateway is not there. */
static void test_pods(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf said;
	struct kp_err err = KP_ERR_INIT;
	const struct kp_program_gateway g[] = {
		{ KP_S("uid-a"), KP_S("10.0.0.1:8443"), KP_S("node"),
			CLAIMS(KP_S("default/demo")) },
		{ KP_S("uid-b"), KP_S("10.0.0.2:8443"), KP_S("node"), NULL, 0, true },
	};
	const struct kp_program_endpoint pods[] = {
		{ KP_S("10.0.0.1:1"), NULL, KP_S("127.0.0.1:1"), KP_S("uid-a/0"), KP_S("uid-a") },
		{ KP_S("10.0.0.2:1"), NULL, KP_S("127.0.0.1:1"), KP_S("uid-b/3"), KP_S("uid-b") },
		{ KP_S("10.0.0.3:1"), NULL, KP_S("127.0.0.1:1"), KP_S("uid-c/0"), KP_S("uid-c") },
	};
	struct kp_program *p = test_program(TWO_ENGINES), *owned = NULL, *read = NULL;
	struct kp_program_engine *e = kp_unconst(&p->engines[0]);
	const struct kp_claim_problem *problems;
	struct kp_items *items = NULL;
	size_t n;
	kp_buf_init(&said, 1 << 20);
	e->endpoints = pods;
	e->n_endpoints = KP_LEN(pods);
	assert_int_equal(kp_program_with_owners(p, g, 2, &owned, &problems, &n, &err), 0);
	kp_program_destroy(p);
	assert_owner(owned, 0, 0, "uid-a");
	assert_owner(owned, 0, 1, "uid-b"); /* though it yields: nobody else can */
	assert_owner(owned, 0, 2, "");      /* the claim on the engine does not reach it */
	assert_int_equal(n, 0);
	/* As gateways read it. */
	assert_int_equal(kp_items_from_program(owned, &items, &err), 0);
	assert_int_equal(kp_items_to_program(items, KP_S("default"), &read, &err), 0);
	assert_int_equal(read->engines[0].n_endpoints, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_str(read->engines[0].endpoints[i].address, pods[i].address);
		assert_str(read->engines[0].endpoints[i].local, pods[i].local);
		assert_str(read->engines[0].endpoints[i].instance, pods[i].instance);
	}
	assert_owner(read, 0, 1, "uid-b");
	/* A pod that goes changes nothing of the others: one item less. */
	struct kp_items *fewer = NULL;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	struct kp_items_delta delta;
	struct kp_program_engine *first = kp_unconst(&owned->engines[0]);
	first->endpoints++;
	first->n_endpoints--;
	assert_int_equal(kp_items_from_program(owned, &fewer, &err), 0);
	assert_int_equal(kp_items_diff(items, fewer, a, &delta, &err), 0);
	assert_int_equal(delta.n_upserts, 0);
	assert_int_equal(delta.n_removes, 1);
	kp_items_unref(items);
	kp_items_unref(fewer);
	kp_program_destroy(read);
	kp_program_destroy(owned);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nobody),
		cmocka_unit_test(test_exact_beats_engine),
		cmocka_unit_test(test_yields),
		cmocka_unit_test(test_conflicts),
		cmocka_unit_test(test_claims_on_nothing),
		cmocka_unit_test(test_one_address_has_one_owner),
		cmocka_unit_test(test_loopback_addresses),
		cmocka_unit_test(test_pods),
		cmocka_unit_test(test_same_id_twice),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

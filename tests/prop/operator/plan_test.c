/* Plans of random gateways: the same whatever their order; owners are among those that claim; and an
   operator that starts anew, hearing of one gateway only, makes the program that runs. */
#include "operator/control/gateways.h"
#include "tests/unit/operator/common.h"

enum { MAX = 12, ROUNDS = 3000 };

static const kp_str claims[] = { KP_S_INIT("default/a"), KP_S_INIT("default/a/0"),
	KP_S_INIT("default/a/1"), KP_S_INIT("default/a/2"), KP_S_INIT("default/a/3"),
	KP_S_INIT("default/b"), KP_S_INIT("default/b/0"), KP_S_INIT("default/nope"),
	KP_S_INIT("other/a"), KP_S_INIT("x") };

struct fleet {
	struct kp_plan_gateway g[MAX];
	char id[MAX][24], peer[MAX][24];
	kp_str own[MAX][4];
	size_t n;
};

static void make_fleet(struct fleet *f, struct kp_rng *r, int64_t max_age)
{
	f->n = kp_rng_below(r, MAX);
	for (size_t i = 0; i < f->n; i++) {
		struct kp_plan_gateway *g = &f->g[i];
		snprintf(f->id[i], sizeof(f->id[i]), "g%zu", i);
		snprintf(f->peer[i], sizeof(f->peer[i]), "10.0.0.%d:8443",
			(int)kp_rng_below(r, 200));
		*g = (struct kp_plan_gateway){ .is = { .id = kp_str_c(f->id[i]),
						       .peer = kp_str_c(f->peer[i]),
						       .own = f->own[i],
						       .n_own = kp_rng_below(r, 4) },
			.ns = kp_rng_below(r, 4) ? KP_S("default") : KP_S("other"),
			.heard_ns = -(int64_t)kp_rng_below(r, (uint64_t)max_age) };
		for (size_t k = 0; k < g->is.n_own; k++) {
			f->own[i][k] = claims[kp_rng_below(r, KP_LEN(claims))];
		}
	}
}

static void shuffle(struct fleet *f, struct kp_rng *r)
{
	for (size_t i = f->n; i > 1; i--) {
		size_t k = kp_rng_below(r, i);
		struct kp_plan_gateway t = f->g[i - 1];
		f->g[i - 1] = f->g[k];
		f->g[k] = t;
	}
}

static void assert_same(const struct kp_plan *a, const struct kp_plan *b)
{
	assert_int_equal(a->n, b->n);
	for (size_t i = 0; i < a->n; i++) {
		assert_true(kp_items_same(a->namespaces[i].items, b->namespaces[i].items));
		assert_int_equal(a->namespaces[i].n_problems, b->namespaces[i].n_problems);
	}
	assert_true(a->due_ns == b->due_ns);
}

static bool claims_it(const struct kp_plan_gateway *g, kp_str engine, size_t index)
{
	char exact[64];
	snprintf(exact, sizeof(exact), "%" KP_FMT "/%zu", KP_ARG(engine), index);
	for (size_t k = 0; k < g->is.n_own; k++) {
		if (kp_str_eq(g->is.own[k], engine) || kp_str_eq(g->is.own[k], kp_str_c(exact))) {
			return true;
		}
	}
	return false;
}

/* By the rules, said once more in another way: who may be owner of this endpoint. */
static void check_endpoint(const struct fleet *f, const struct kp_plan_namespace *ns,
	const struct kp_program_engine *e, size_t index)
{
	const struct kp_program_gateway *owner = e->endpoints[index].owner;
	const struct kp_plan_gateway *found = NULL;
	size_t n_alive = 0, n_there = 0;
	for (size_t i = 0; i < f->n; i++) {
		const struct kp_plan_gateway *g = &f->g[i];
		if (!kp_str_eq(g->ns, ns->name) || -g->heard_ns >= KP_PLAN_GONE_NS ||
			!claims_it(g, e->name, index)) {
			continue;
		}
		n_there++;
		n_alive += -g->heard_ns < KP_PLAN_SILENT_NS;
		found = owner && kp_str_eq(g->is.id, owner->id) ? g : found;
	}
	assert_int_equal(n_there > 0, owner != NULL);
	assert_true(!owner || found);
	assert_true(!n_alive || -found->heard_ns < KP_PLAN_SILENT_NS);
}

static void test_plans(void **state)
{
	(void)state;
	struct kp_rng r;
	struct fleet f;
	kp_rng_seed(&r, test_seed());
	struct kp_intent *intent = test_intent(WORLD);
	for (int round = 0; round < ROUNDS; round++) {
		make_fleet(&f, &r, 70 * KP_NS_PER_S);
		struct kp_plan *a = test_plan(intent, f.g, f.n, 0);
		shuffle(&f, &r);
		struct kp_plan *b = test_plan(intent, f.g, f.n, 0);
		assert_same(a, b);
		for (size_t i = 0; i < a->n; i++) {
			const struct kp_plan_namespace *ns = &a->namespaces[i];
			for (size_t e = 0; e < ns->program->n_engines; e++) {
				for (size_t k = 0; k < ns->program->engines[e].n_endpoints; k++) {
					check_endpoint(&f, ns, &ns->program->engines[e], k);
				}
			}
		}
		kp_plan_destroy(a);
		kp_plan_destroy(b);
	}
	kp_intent_destroy(intent);
}

/* What one gateway of a namespace says when it comes back: its own words, and its program's. */
static void come_back(struct kp_gateways *anew, const struct kp_plan_gateway *g,
	const struct kp_plan *plan, int64_t now)
{
	const struct kp_plan_namespace *ns = kp_plan_find(plan, g->ns);
	struct kp_hello h = { .protocol = 1,
		.id = g->is.id,
		.ns = g->ns,
		.peer = g->is.peer,
		.own = g->is.own,
		.n_own = g->is.n_own,
		.revision = { .is_set = true, .epoch = 5, .n = 1 },
		.known = ns->program->gateways,
		.n_known = ns->program->n_gateways };
	struct kp_gateway_record *record;
	struct kp_err err = KP_ERR_INIT;
	memcpy(h.revision.hash, ns->items->hash, KP_HASH_BYTES);
	assert_int_equal(kp_hello_check(&h, false, NULL, 0, UINT64_MAX, &err), 0);
	assert_int_equal(kp_gateways_hello(anew, &h, now, 0, &record, &err), 0);
}

static void test_starts_anew(void **state)
{
	(void)state;
	struct kp_rng r;
	struct fleet f;
	kp_rng_seed(&r, test_seed());
	struct kp_intent *intent = test_intent(WORLD);
	for (int round = 0; round < ROUNDS; round++) {
		struct kp_gateways anew;
		make_fleet(&f, &r, KP_PLAN_SILENT_NS);
		struct kp_plan *before = test_plan(intent, f.g, f.n, 0);
		kp_gateways_init(&anew, 0);
		shuffle(&f, &r);
		for (size_t i = 0; i < f.n; i++) {
			size_t n;
			come_back(&anew, &f.g[i], before, (int64_t)i * KP_NS_PER_MS);
			kp_gateways_settle(&anew, (int64_t)i * KP_NS_PER_MS);
			struct kp_plan_gateway *list = kp_gateways_list(&anew, &n);
			struct kp_plan *after =
				test_plan(intent, list, n, (int64_t)i * KP_NS_PER_MS);
			/* From the first one of a namespace on, its program is as it was. */
			assert_true(kp_items_same(kp_plan_find(before, f.g[i].ns)->items,
				kp_plan_find(after, f.g[i].ns)->items));
			kp_plan_destroy(after);
			kp_mem_free(list);
		}
		kp_plan_destroy(before);
		kp_gateways_fini(&anew);
	}
	kp_intent_destroy(intent);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plans),
		cmocka_unit_test(test_starts_anew),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

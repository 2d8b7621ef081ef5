/* Who knows what: gateways that run older programs, or none that is known. */
#include "operator/control/counts.h"
#include "tests/unit/operator/common.h"

#define S KP_NS_PER_S

static struct kp_items *items(const char *const *keys, size_t n)
{
	struct kp_item list[16];
	struct kp_items *made = NULL;
	struct kp_err err = KP_ERR_INIT;
	for (size_t i = 0; i < n; i++) { /* "3 default/e/a v" */
		kp_str rest = kp_str_c(keys[i]), word;
		kp_str_split(&rest, ' ', &word);
		list[i].kind = (uint32_t)(word.p[0] - '0');
		kp_str_split(&rest, ' ', &list[i].key);
		list[i].value = rest.p ? rest : KP_S("");
	}
	assert_int_equal(kp_items_create(list, n, &made, &err), 0);
	return made;
}

static void publish(struct kp_programs *p, const char *const *keys, size_t n)
{
	struct kp_plan_namespace ns = { .name = KP_S("default"), .items = items(keys, n) };
	const struct kp_plan plan = { .namespaces = &ns, .n = 1 };
	kp_programs_update(p, &plan, 0, 0);
	kp_items_unref(ns.items);
}

static void join(struct kp_gateways *g, const char *id, const struct kp_revision *runs)
{
	const struct kp_hello h = { .protocol = 1,
		.id = kp_str_c(id),
		.ns = KP_S("default"),
		.peer = KP_S("10.0.0.1:8443"),
		.revision = *runs };
	struct kp_gateway_record *r = NULL;
	struct kp_err err = KP_ERR_INIT;
	assert_int_equal(kp_gateways_hello(g, &h, S, S, &r, &err), 0);
}

/* Beside `e` there are engines whose names go on: they sort before its endpoints, and behind them. */
#define REST \
	"1 default/p x", "2 default/e x", "2 default/e-x x", "2 default/e0 x", "3 default/e-x/b 1"
static const char *const first[] = { REST, "3 default/e/a 1", "3 default/e0/a 1" };
static const char *const second[] = { REST, "3 default/e/a 1", "3 default/e0/a 2", "4 g x" };
static const char *const third[] = { REST, "3 default/e/a 1", "3 default/e/b 1", "3 default/e0/a 2",
	"4 g x" };

static void test_counts(void **state)
{
	(void)state;
	struct kp_programs p;
	struct kp_gateways g;
	struct kp_service_counts counts;
	struct kp_ns_program *ns;
	const kp_str pool = KP_S("default/p");
	kp_programs_init(&p, 1);
	kp_gateways_init(&g, 0);
	publish(&p, first, KP_LEN(first));
	ns = kp_programs_find(&p, KP_S("default"));
	const struct kp_revision one = ns->revision;
	join(&g, "one", &one);
	publish(&p, second, KP_LEN(second));
	join(&g, "two", &ns->revision);
	kp_counts_take(&p, &g, S, &counts);
	assert_int_equal(counts.connected, 2);
	assert_int_equal(counts.behind, 1);
	assert_int_equal(ns->n_current, 1);
	/* What changed is another engine's, and a gateway. */
	assert_int_equal(kp_counts_of_engine(ns, KP_S("default/e"), pool), 2);
	assert_int_equal(kp_counts_of_engine(ns, KP_S("default/e-x"), pool), 2);
	assert_int_equal(kp_counts_of_engine(ns, KP_S("default/e0"), pool), 1);
	const struct kp_item *a = kp_items_find(ns->items, KP_ITEM_ENDPOINT, KP_S("default/e/a"));
	assert_true(kp_counts_all_know(ns, a));
	publish(&p, third, KP_LEN(third));
	kp_counts_take(&p, &g, S, &counts);
	assert_int_equal(kp_counts_of_engine(ns, KP_S("default/e"), pool), 0);
	assert_int_equal(kp_counts_of_engine(ns, KP_S("default/e0"), pool), 1);
	const struct kp_item *b = kp_items_find(ns->items, KP_ITEM_ENDPOINT, KP_S("default/e/b"));
	assert_false(kp_counts_all_know(ns, b));
	/* One of which it is not known what it runs knows nothing; one that is silent is not asked. */
	struct kp_revision odd = one;
	memset(odd.hash, 7, sizeof(odd.hash));
	join(&g, "odd", &odd);
	a = kp_items_find(ns->items, KP_ITEM_ENDPOINT, KP_S("default/e/a"));
	kp_counts_take(&p, &g, S, &counts);
	assert_false(kp_counts_all_know(ns, a));
	kp_gateway_lost(kp_gateways_find(&g, KP_S("default"), KP_S("odd")), S, S);
	kp_counts_take(&p, &g, S, &counts);
	assert_true(kp_counts_all_know(ns, a));
	assert_int_equal(counts.lost, 1);
	kp_gateways_fini(&g);
	kp_programs_fini(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_counts) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}

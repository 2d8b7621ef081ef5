/* Which gateways are known, from whom, and for how long. */
#include "operator/control/gateways.h"
#include "tests/unit/operator/common.h"

#define S KP_NS_PER_S

static const kp_str own_a[] = { KP_S_INIT("default/a") };

static struct kp_hello hello(const char *id, uint64_t epoch)
{
	struct kp_hello h = { .protocol = 1,
		.id = kp_str_c(id),
		.ns = KP_S("default"),
		.peer = KP_S("10.0.0.1:8443"),
		.admin = KP_S("10.0.0.1:9090"),
		.version = KP_S("0.2.0"),
		.own = own_a,
		.n_own = 1,
		.revision = { .is_set = epoch != 0, .epoch = epoch } };
	return h;
}

static struct kp_gateway_record *say(struct kp_gateways *g, const struct kp_hello *h, int64_t now)
{
	struct kp_gateway_record *r = NULL;
	struct kp_err err = KP_ERR_INIT;
	assert_int_equal(kp_gateways_hello(g, h, now, now, &r, &err), 0);
	return r;
}

static struct kp_gateway_record *find(const struct kp_gateways *g, kp_str id)
{
	return kp_gateways_find(g, KP_S("default"), id);
}

static void test_comes_and_goes(void **state)
{
	(void)state;
	struct kp_gateways g;
	struct kp_hello h = hello("a", 0);
	size_t n;
	kp_gateways_init(&g, 0);
	struct kp_gateway_record *r = say(&g, &h, S);
	assert_true(r->is_connected && !r->is_second_hand);
	assert_str_lit(r->admin, "10.0.0.1:9090");
	assert_int_equal(kp_gateways_settle(&g, 2 * S), 0);
	kp_gateway_lost(r, 3 * S, 0);
	for (int64_t now = 4; now < 63; now++) {
		assert_int_equal(kp_gateways_settle(&g, now * S), 0);
		assert_int_equal(kp_gateway_is_silent(r, now * S), now >= 13);
	}
	struct kp_plan_gateway *list = kp_gateways_list(&g, &n);
	assert_int_equal(n, 1);
	assert_str_lit(list[0].is.own[0], "default/a");
	assert_int_equal(list[0].heard_ns, 3 * S);
	kp_mem_free(list);
	assert_int_equal(kp_gateways_settle(&g, 63 * S), 1);
	assert_null(find(&g, KP_S("a")));
	kp_gateways_fini(&g);
}

/* What it says of itself the second time counts; a connected one is replaced. */
static void test_says_it_again(void **state)
{
	(void)state;
	struct kp_gateways g;
	struct kp_hello h = hello("a", 0);
	kp_gateways_init(&g, 0);
	struct kp_gateway_record *r = say(&g, &h, S);
	h.peer = KP_S("10.0.0.9:1");
	h.n_own = 0;
	assert_ptr_equal(say(&g, &h, S), r);
	assert_str_lit(r->is.peer, "10.0.0.9:1");
	assert_int_equal(r->is.n_own, 0);
	assert_int_equal(r->n_replaced, 1);
	kp_gateway_lost(r, S, 0);
	say(&g, &h, S);
	assert_int_equal(r->n_replaced, 1);
	kp_gateways_fini(&g);
}

/* A gateway that was draining has left: who else claims the same has it at once. */
static void test_drained(void **state)
{
	(void)state;
	struct kp_gateways g;
	struct kp_hello h = hello("a", 0);
	const struct kp_report report = { .draining = true };
	kp_gateways_init(&g, 0);
	struct kp_gateway_record *r = say(&g, &h, S);
	assert_true(kp_gateways_report(&g, r, &report));
	assert_false(kp_gateway_is_silent(r, S));
	kp_gateway_lost(r, 2 * S, 0);
	assert_true(kp_gateway_is_silent(r, 2 * S));
	say(&g, &h, 3 * S); /* it is back */
	assert_false(r->report.draining);
	assert_false(kp_gateway_is_silent(r, 3 * S));
	kp_gateways_fini(&g);
}

static void test_second_hand(void **state)
{
	(void)state;
	struct kp_gateways g;
	const struct kp_program_gateway old[] = { { .id = KP_S("gone") }, { .id = KP_S("b") } },
					known[] = { { .id = KP_S("a") },
						{ .id = KP_S("b"), .peer = KP_S("10.0.0.2:1") },
						{ .id = KP_S("c"), .own = own_a, .n_own = 1 },
						{ .id = KP_S("bad id") },
						{ .id = KP_S("d"), .peer = KP_S("nowhere") } };
	kp_gateways_init(&g, 0);
	struct kp_hello h = hello("x", 4);
	h.known = old;
	h.n_known = 2;
	say(&g, &h, S);
	assert_true(find(&g, KP_S("gone"))->is_second_hand);
	/* The list of a newer program counts alone; who spoke for itself is known better. */
	h = hello("a", 5);
	h.known = known;
	h.n_known = KP_LEN(known);
	say(&g, &h, S);
	assert_null(find(&g, KP_S("gone")));
	assert_str_lit(find(&g, KP_S("a"))->is.peer, "10.0.0.1:8443");
	assert_false(find(&g, KP_S("a"))->is_second_hand);
	assert_str_lit(find(&g, KP_S("b"))->is.peer, "10.0.0.2:1");
	assert_str_lit(find(&g, KP_S("c"))->is.own[0], "default/a");
	assert_non_null(find(&g, KP_S("x")));
	assert_int_equal(g.by_name.n, 4); /* those that make no sense are left out */
	/* One of an older program changes nothing. */
	h = hello("y", 4);
	h.known = old;
	h.n_known = 2;
	say(&g, &h, S);
	assert_null(find(&g, KP_S("gone")));
	/* It says hello itself. */
	h = hello("b", 5);
	assert_false(say(&g, &h, 2 * S)->is_second_hand);
	/* Believed for 60 s after the start. */
	for (int64_t now = 2; now < 60; now++) {
		assert_int_equal(kp_gateways_settle(&g, now * S), 0);
	}
	assert_non_null(find(&g, KP_S("c")));
	assert_int_equal(kp_gateways_settle(&g, 60 * S), 1);
	assert_null(find(&g, KP_S("c")));
	h = hello("z", 9);
	h.known = known;
	h.n_known = KP_LEN(known);
	say(&g, &h, 61 * S);
	assert_null(find(&g, KP_S("c")));
	kp_gateways_fini(&g);
}

/* Ids are unique within a namespace: one of another namespace is another gateway. */
static void test_namespaces(void **state)
{
	(void)state;
	struct kp_gateways g;
	const struct kp_program_gateway known = { .id = KP_S("a") };
	struct kp_hello h = hello("a", 0), other = hello("a", 5), third = hello("b", 6);
	size_t n;
	kp_gateways_init(&g, 0);
	other.ns = third.ns = KP_S("b");
	struct kp_gateway_record *a = say(&g, &h, S), *b = say(&g, &other, S);
	assert_ptr_not_equal(a, b);
	assert_str_lit(a->ns, "default");
	assert_int_equal(a->n_replaced, 0);
	third.known = &known;
	third.n_known = 1;
	say(&g, &third, S); /* what it says of "a" is of its namespace's */
	assert_ptr_equal(find(&g, KP_S("a")), a);
	assert_false(a->is_second_hand || b->is_second_hand);
	struct kp_plan_gateway *list = kp_gateways_list(&g, &n);
	assert_int_equal(n, 3);
	kp_mem_free(list);
	kp_gateway_lost(b, S, 0);
	for (int64_t now = 2; now < 62; now++) {
		kp_gateways_settle(&g, now * S);
	}
	assert_ptr_equal(find(&g, KP_S("a")), a);
	assert_null(kp_gateways_find(&g, KP_S("b"), KP_S("a")));
	kp_gateways_fini(&g);
}

/* The operator was stopped, or its machine: that is nobody's silence. */
static void test_pause(void **state)
{
	(void)state;
	struct kp_gateways g;
	struct kp_hello h = hello("a", 0), lost = hello("b", 0);
	kp_gateways_init(&g, 0);
	struct kp_gateway_record *a = say(&g, &h, S), *b = say(&g, &lost, S);
	kp_gateway_lost(b, S, 0);
	assert_int_equal(kp_gateways_settle(&g, S), 0);
	assert_int_equal(kp_gateways_settle(&g, 600 * S), 0);
	assert_false(kp_gateway_is_silent(a, 600 * S));
	assert_int_equal(b->heard_ns, 600 * S);
	for (int64_t now = 601; now < 660; now++) {
		assert_int_equal(kp_gateways_settle(&g, now * S), 0);
	}
	assert_int_equal(kp_gateways_settle(&g, 660 * S), 1);
	kp_gateways_fini(&g);
}

static void test_too_many(void **state)
{
	(void)state;
	struct kp_gateways g;
	struct kp_gateway_record *r;
	struct kp_err err = KP_ERR_INIT;
	kp_gateways_init(&g, 0);
	for (int i = 0; i <= KP_GATEWAYS_MAX; i++) {
		char id[16];
		snprintf(id, sizeof(id), "g%d", i);
		struct kp_hello h = hello(id, 0);
		assert_int_equal(
			kp_gateways_hello(&g, &h, S, 0, &r, &err), i == KP_GATEWAYS_MAX ? -1 : 0);
	}
	assert_int_equal(err.code, KP_RESOURCE_EXHAUSTED);
	kp_gateways_fini(&g);
}

/* Names that nobody has keep nobody out, and one namespace's leave room for another's. */
static void test_too_many_names(void **state)
{
	(void)state;
	enum { N = KP_GATEWAYS_MAX + 1 };
	struct kp_gateways g;
	struct kp_program_gateway *known = kp_xcalloc(N, sizeof(*known));
	char(*ids)[16] = kp_xcalloc(N, sizeof(*ids)), ns[16];
	for (int i = 0; i < N; i++) {
		snprintf(ids[i], sizeof(ids[i]), "k%d", i);
		known[i].id = kp_str_c(ids[i]);
	}
	kp_gateways_init(&g, 0);
	for (size_t i = 0; i < 6; i++) { /* liars of as many namespaces */
		struct kp_hello h = hello("liar", 9);
		snprintf(ns, sizeof(ns), "n%zu", i);
		h.ns = kp_str_c(ns);
		h.known = known;
		h.n_known = N;
		size_t believed = N - say(&g, &h, S)->n_left_out;
		assert_int_equal(believed, i < 4    ? KP_GATEWAYS_KNOWN_MAX
					   : i == 4 ? KP_GATEWAYS_KNOWN_MAX - 5
						    : 0);
	}
	assert_int_equal(g.by_name.n, KP_GATEWAYS_MAX);
	for (int i = 0; i < KP_GATEWAYS_MAX - 6; i++) {
		struct kp_hello h = hello(ids[i], 0);
		assert_false(say(&g, &h, S)->is_second_hand);
	}
	assert_int_equal(g.by_name.n, KP_GATEWAYS_MAX);
	struct kp_hello h = hello("more", 0);
	struct kp_gateway_record *r;
	struct kp_err err = KP_ERR_INIT;
	assert_int_equal(kp_gateways_hello(&g, &h, S, 0, &r, &err), -1);
	assert_string_equal(err.msg, "hello: 10000 gateways are known already");
	kp_gateways_fini(&g);
	kp_mem_free(known);
	kp_mem_free(ids);
}

static void test_reports(void **state)
{
	(void)state;
	struct kp_gateways g;
	struct kp_hello h = hello("a", 0);
	kp_gateways_init(&g, 0);
	struct kp_gateway_record *r = say(&g, &h, S);
	struct kp_endpoint_report *many = kp_xcalloc(20000, sizeof(*many));
	many[0] = (struct kp_endpoint_report){
		.engine = KP_S("default/a"), .state = KP_S("routable"), .kv_usage = 0.5f
	};
	struct kp_report report = { .endpoints = many, .n_endpoints = 1, .requests = 3 };
	assert_true(kp_gateways_report(&g, r, &report));
	assert_true(kp_report_same(&r->report, &report));
	assert_true(r->report.endpoints != many);
	report.requests++;
	assert_false(kp_report_same(&r->report, &report));
	report.requests--;
	many[0].state = KP_S("down");
	assert_false(kp_report_same(&r->report, &report));
	size_t small = g.report_bytes;
	assert_true(small > 0);
	report.n_endpoints = 20000; /* beyond what is kept: the numbers stay */
	assert_false(kp_gateways_report(&g, r, &report));
	assert_int_equal(r->report.n_endpoints, 0);
	assert_int_equal(r->report.requests, 3);
	assert_int_equal(g.report_bytes, 0);
	report.n_endpoints = 1;
	assert_true(kp_gateways_report(&g, r, &report));
	kp_gateway_lost(r, S, 0);
	kp_gateways_settle(&g, 2 * S);
	g.settled_ns = 70 * S;
	assert_int_equal(kp_gateways_settle(&g, 71 * S), 1);
	assert_int_equal(g.report_bytes, 0);
	kp_mem_free(many);
	kp_gateways_fini(&g);
}

static void test_answers(void **state)
{
	(void)state;
	struct kp_gateways g;
	struct kp_hello h = hello("a", 0);
	const struct kp_nack nack = { .reason = KP_S("invalid"), .message = KP_S("engine `x`") };
	kp_gateways_init(&g, 0);
	struct kp_gateway_record *r = say(&g, &h, S);
	kp_gateway_answered(r, &nack, 5);
	assert_str_lit(r->nack_message, "engine `x`");
	assert_int_equal(r->nack_wall_ns, 5);
	assert_int_equal(r->acked_wall_ns, 0);
	kp_gateway_answered(r, NULL, 6);
	assert_str_lit(r->nack_reason, "");
	assert_int_equal(r->acked_wall_ns, 6);
	kp_gateway_answered(r, &nack, 7);
	kp_gateways_fini(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_comes_and_goes),
		cmocka_unit_test(test_says_it_again),
		cmocka_unit_test(test_drained),
		cmocka_unit_test(test_second_hand),
		cmocka_unit_test(test_namespaces),
		cmocka_unit_test(test_pause),
		cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_too_many_names),
		cmocka_unit_test(test_reports),
		cmocka_unit_test(test_answers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

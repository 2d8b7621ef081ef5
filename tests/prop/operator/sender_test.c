/* The operator's side of the streams (plan, programs, sender) against the gateways' (control/follower),
   through bytes, in random order: plans change, answers are late, gateways and the operator start anew,
   bases are lost, programs are refused. In the end everybody runs the program in force; nobody is ever
   sent a second program before it answered, nor content that it has. */
#include "control/follower.h"
#include "operator/control/programs.h"
#include "tests/unit/operator/common.h"

enum { N = 5, ROUNDS = 1000, STEPS = 120 };

struct gateway {
	struct kp_follower follower;
	struct kp_sender sender;  /* the operator's, of its stream */
	struct kp_buf to_gateway; /* "" : nothing is on its way */
	bool has_answer, is_ack;
	struct kp_revision answered;
	kp_str reason;
};
struct world {
	struct kp_rng rng;
	struct kp_intent *intents[3];
	struct kp_programs programs;
	struct gateway g[N];
	bool may_fail;
	int64_t now;
};

static bool chance(struct world *w, unsigned one_in)
{
	return kp_rng_below(&w->rng, one_in) == 0;
}

static void replan(struct world *w)
{
	static const kp_str claims[] = { KP_S_INIT("default/a"), KP_S_INIT("default/b"),
		KP_S_INIT("default/a/1") };
	static const kp_str ids[] = { KP_S_INIT("u"), KP_S_INIT("v"), KP_S_INIT("w") };
	struct kp_plan_gateway list[3] = { 0 };
	size_t n = kp_rng_below(&w->rng, 4);
	for (size_t i = 0; i < n; i++) {
		list[i] =
			(struct kp_plan_gateway){ .is = { .id = ids[i],
							  .own = &claims[kp_rng_below(&w->rng, 3)],
							  .n_own = kp_rng_below(&w->rng, 2) },
				.ns = KP_S("default"),
				.heard_ns = w->now };
	}
	struct kp_plan *p = test_plan(w->intents[kp_rng_below(&w->rng, 3)], list, n, w->now);
	kp_programs_update(&w->programs, p, w->now, 0);
	kp_plan_destroy(p);
}

static void connect(struct world *w, struct gateway *g)
{
	kp_buf_reset(&g->to_gateway);
	g->has_answer = false;
	g->sender = (struct kp_sender){ .runs = g->follower.revision };
	kp_follower_connected(&g->follower, w->programs.epoch, w->now);
}

static void pump(struct world *w, struct gateway *g)
{
	struct kp_ns_program *p = kp_programs_find(&w->programs, KP_S("default"));
	struct kp_operator_message m = { .type = KP_OPERATOR_PROGRAM };
	struct kp_err err = KP_ERR_INIT;
	const struct kp_encoded *encoded;
	enum kp_send as = kp_sender_next(
		&g->sender, &p->revision, kp_ns_program_has_base(p, &g->sender.runs));
	if (as == KP_SEND_NOTHING) {
		return;
	}
	assert_true(g->to_gateway.n == 0 && !g->has_answer);
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 24);
	assert_int_equal(kp_ns_program_compose(p, as, &g->sender.runs, a, &m.program, &err), 0);
	size_t sent = m.program.delta.n_upserts + m.program.delta.n_removes;
	if (kp_revision_same_content(&g->sender.runs, &p->revision) && !g->sender.needs_full) {
		assert_int_equal(sent, 0);
	} else {
		assert_true(sent > 0);
	}
	kp_control_write_to_gateway(&g->to_gateway, &m);
	assert_int_equal(kp_ns_program_encode(p, as, &g->sender.runs, &encoded, &err), 0);
	assert_int_equal(encoded->n, g->to_gateway.n); /* the kept one is no older one */
	kp_sender_sent(&g->sender, &p->revision, as);
}

static void gateway_reads(struct world *w, struct gateway *g)
{
	struct kp_operator_message m;
	struct kp_offer o = { 0 };
	struct kp_err err = KP_ERR_INIT;
	if (g->to_gateway.n == 0) {
		return;
	}
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 24);
	assert_int_equal(kp_control_read_to_gateway(kp_buf_str(&g->to_gateway), a, &m, &err), 0);
	g->answered = m.program.revision;
	g->has_answer = true;
	g->is_ack = kp_follower_check(&g->follower, &m.program, w->now, &o, &err) == 0;
	g->reason = g->is_ack ? KP_S("") : kp_str_c(err.reason);
	if (g->is_ack && w->may_fail && chance(w, 8)) { /* it could not be applied */
		g->is_ack = false;
		g->reason = KP_S(KP_NACK_INVALID);
	} else if (g->is_ack) {
		kp_follower_commit(&g->follower, &o);
	} else {
		assert_true(w->may_fail || kp_str_eq(g->reason, KP_S(KP_NACK_UNKNOWN_BASE)));
	}
	kp_offer_fini(&o);
	kp_buf_reset(&g->to_gateway);
}

static void operator_reads(struct gateway *g)
{
	if (!g->has_answer) {
		return;
	}
	const struct kp_nack nack = { .revision = g->answered, .reason = g->reason };
	g->has_answer = false;
	assert_true(g->is_ack ? kp_sender_acked(&g->sender, &g->answered)
			      : kp_sender_nacked(&g->sender, &nack));
	assert_false(kp_sender_acked(&g->sender, &g->answered)); /* not twice */
}

static void start_anew(struct world *w)
{
	uint64_t epoch = w->programs.epoch;
	kp_programs_fini(&w->programs);
	kp_programs_init(&w->programs, epoch + 1);
	replan(w);
	for (size_t i = 0; i < N; i++) {
		connect(w, &w->g[i]);
	}
}

static void step(struct world *w)
{
	struct gateway *g = &w->g[kp_rng_below(&w->rng, N)];
	w->now += KP_NS_PER_MS;
	switch (kp_rng_below(&w->rng, 24)) {
	case 0:
	case 1:
		replan(w);
		break;
	case 2:
		connect(w, g);
		break;
	case 3: /* it starts anew, without its program */
		kp_follower_fini(&g->follower);
		kp_follower_init(&g->follower, KP_S("default"));
		connect(w, g);
		break;
	case 4: /* it runs nothing, but said otherwise */
		kp_items_unref(kp_steal(g->follower.items));
		break;
	case 5:
		if (chance(w, 4)) {
			start_anew(w);
		}
		break;
	case 6:
		if (chance(w, 4)) {
			kp_programs_raise(&w->programs, w->programs.epoch + 7, w->now, 0);
		}
		break;
	default:
		pump(w, g);
		if (chance(w, 2)) {
			gateway_reads(w, g);
		}
		if (chance(w, 2)) {
			operator_reads(g);
		}
	}
}

static void check_everybody_runs_it(struct world *w)
{
	w->may_fail = false;
	/* A refused program is not sent again; a new one is. */
	kp_programs_raise(&w->programs, w->programs.epoch + 1, w->now, 0);
	const struct kp_ns_program *p = kp_programs_find(&w->programs, KP_S("default"));
	for (size_t i = 0; i < N; i++) {
		struct gateway *g = &w->g[i];
		for (int k = 0; k < 6; k++) {
			gateway_reads(w, g);
			operator_reads(g);
			pump(w, g);
		}
		assert_true(g->follower.items && kp_items_same(g->follower.items, p->items));
		assert_true(kp_revision_same(&g->follower.revision, &p->revision));
		assert_true(kp_revision_same(&g->sender.runs, &p->revision));
	}
}

static void test_everybody_runs_it_in_the_end(void **state)
{
	(void)state;
	struct world w = { .may_fail = true };
	kp_rng_seed(&w.rng, test_seed());
	w.intents[0] = test_intent(WORLD);
	w.intents[1] = test_intent(POOL("default", "p"));
	w.intents[2] = test_intent(
		POOL("default", "p") ENGINE("default", "a", "p", "other", AT("1") "," AT("9")));
	for (int round = 0; round < ROUNDS; round++) {
		kp_programs_init(&w.programs, (uint64_t)w.now + 1);
		for (size_t i = 0; i < N; i++) {
			kp_follower_init(&w.g[i].follower, KP_S("default"));
			kp_buf_init(&w.g[i].to_gateway, 1 << 24);
		}
		start_anew(&w);
		for (int i = 0; i < STEPS; i++) {
			step(&w);
		}
		check_everybody_runs_it(&w);
		for (size_t i = 0; i < N; i++) {
			kp_follower_fini(&w.g[i].follower);
			kp_buf_fini(&w.g[i].to_gateway);
		}
		kp_programs_fini(&w.programs);
		w.may_fail = true;
	}
	for (size_t i = 0; i < 3; i++) {
		kp_intent_destroy(w.intents[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_everybody_runs_it_in_the_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

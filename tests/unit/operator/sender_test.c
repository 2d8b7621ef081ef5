/* What is sent next to one gateway, and which programs are kept for it. */
#include "operator/control/programs.h"
#include "tests/unit/operator/common.h"

static struct kp_revision revision(uint64_t n, uint8_t hash)
{
	struct kp_revision r = { .is_set = true, .epoch = 1, .n = n };
	memset(r.hash, hash, sizeof(r.hash));
	return r;
}

static void test_next(void **state)
{
	(void)state;
	const struct kp_revision none = { 0 }, one = revision(1, 'a'), again = revision(2, 'a'),
				 two = revision(2, 'b');
	const struct kp_sender fresh = { 0 }, runs = { .runs = one },
			       busy = { .runs = one, .sent = two },
			       refused = { .runs = one, .refused = two },
			       lost = { .runs = one, .needs_full = true };
	assert_int_equal(kp_sender_next(&fresh, &none, false), KP_SEND_NOTHING);
	assert_int_equal(kp_sender_next(&fresh, &one, false), KP_SEND_FULL);
	assert_int_equal(kp_sender_next(&runs, &one, true), KP_SEND_NOTHING);
	assert_int_equal(kp_sender_next(&runs, &again, false), KP_SEND_NOTICE);
	assert_int_equal(kp_sender_next(&runs, &two, true), KP_SEND_DELTA);
	assert_int_equal(kp_sender_next(&runs, &two, false), KP_SEND_FULL);
	assert_int_equal(kp_sender_next(&busy, &again, true), KP_SEND_NOTHING);
	assert_int_equal(kp_sender_next(&refused, &two, true), KP_SEND_NOTHING);
	assert_int_equal(kp_sender_next(&refused, &again, true), KP_SEND_NOTICE);
	assert_int_equal(kp_sender_next(&lost, &two, true), KP_SEND_FULL);
	assert_int_equal(kp_sender_next(&lost, &again, true), KP_SEND_FULL);
}

static void test_answers(void **state)
{
	(void)state;
	const struct kp_revision one = revision(1, 'a'), two = revision(2, 'b');
	struct kp_sender s = { .runs = one };
	struct kp_nack nack = { .revision = two, .reason = KP_S(KP_NACK_UNKNOWN_BASE) };
	assert_false(kp_sender_acked(&s, &two)); /* nothing was sent */
	assert_false(kp_sender_nacked(&s, &nack));
	kp_sender_sent(&s, &two, KP_SEND_DELTA);
	assert_false(kp_sender_acked(&s, &one));
	assert_true(kp_sender_nacked(&s, &nack));
	assert_true(s.needs_full);
	assert_int_equal(kp_sender_next(&s, &two, true), KP_SEND_FULL);
	kp_sender_sent(&s, &two, KP_SEND_FULL);
	assert_true(kp_sender_nacked(&s, &nack)); /* the whole, too: that is refused for good */
	assert_int_equal(kp_sender_next(&s, &two, true), KP_SEND_NOTHING);
	const struct kp_revision three = revision(3, 'c');
	kp_sender_sent(&s, &three, KP_SEND_FULL);
	assert_true(kp_sender_acked(&s, &three));
	assert_false(s.needs_full);
	assert_false(s.refused.is_set);
	assert_true(kp_revision_same(&s.runs, &three));
	nack.revision = two;
	nack.reason = KP_S("any other");
	kp_sender_sent(&s, &two, KP_SEND_DELTA);
	assert_true(kp_sender_nacked(&s, &nack));
	assert_false(s.needs_full);
	assert_true(kp_revision_same(&s.runs, &three));
	assert_int_equal(kp_sender_next(&s, &two, true), KP_SEND_NOTHING);
}

/* --- programs --- */

static size_t update(struct kp_programs *p, const char *text, int64_t now)
{
	struct kp_intent *i = test_intent(text);
	struct kp_plan *plan = test_plan(i, NULL, 0, 0);
	size_t changed = kp_programs_update(p, plan, now, now);
	kp_plan_destroy(plan);
	kp_intent_destroy(i);
	return changed;
}

static void test_programs(void **state)
{
	(void)state;
	struct kp_programs p;
	struct kp_err err = KP_ERR_INIT;
	const struct kp_encoded *full, *notice, *again;
	kp_programs_init(&p, 7);
	assert_int_equal(update(&p, WORLD, 1), 2);
	assert_int_equal(update(&p, WORLD, 2), 0);
	struct kp_ns_program *d = kp_programs_find(&p, KP_S("default"));
	assert_int_equal(d->revision.epoch, 7);
	assert_int_equal(d->since_ns, 1);
	const struct kp_revision first = d->revision;

	/* Made once, and again under a new number. */
	assert_int_equal(kp_ns_program_encode(d, KP_SEND_FULL, &first, &full, &err), 0);
	assert_int_equal(kp_ns_program_encode(d, KP_SEND_FULL, &first, &again, &err), 0);
	assert_ptr_equal(full->bytes, again->bytes);
	assert_int_equal(kp_ns_program_encode(d, KP_SEND_NOTICE, &first, &notice, &err), 0);
	assert_true(notice->n < full->n);
	kp_programs_raise(&p, 9, 3, 3);
	assert_null(d->full.bytes);
	assert_null(d->notice.bytes);
	assert_int_equal(d->revision.epoch, 9);
	assert_true(d->revision.n > first.n);
	assert_true(kp_revision_same_content(&d->revision, &first));
	assert_false(kp_revision_same(&d->revision, &first));
	assert_int_equal(d->since_ns, 3);

	/* A namespace that is gone has no program; one that comes back a new one. */
	assert_int_equal(update(&p, POOL("default", "p"), 4), 2);
	assert_null(kp_programs_find(&p, KP_S("other")));
	d = kp_programs_find(&p, KP_S("default"));
	assert_true(kp_ns_program_has_base(d, &first));
	assert_int_equal(update(&p, WORLD, 5), 2);
	assert_false(kp_ns_program_has_base(d, &first)); /* it is what is in force */
	assert_int_equal(d->n_bases, 1);
	kp_programs_fini(&p);
}

static void test_few_are_kept(void **state)
{
	(void)state;
	struct kp_programs p;
	struct kp_revision seen[KP_PROGRAMS_KEPT + 2];
	kp_programs_init(&p, 1);
	for (size_t i = 0; i < KP_LEN(seen); i++) {
		char text[2048];
		snprintf(text, sizeof(text), "%s%s: m%zu}}\n", POOL("default", "p"),
			"apiVersion: kelpie.dev/v1alpha1\nkind: InferenceEngine\nmetadata: {name: a}\n"
			"spec: {poolRef: {name: p}, engine: {type: vllm}, model: {name",
			i);
		assert_int_equal(update(&p, text, 1), 1);
		seen[i] = kp_programs_find(&p, KP_S("default"))->revision;
	}
	const struct kp_ns_program *d = kp_programs_find(&p, KP_S("default"));
	assert_int_equal(d->n_bases, KP_PROGRAMS_KEPT);
	assert_false(kp_ns_program_has_base(d, &seen[0])); /* the oldest */
	for (size_t i = 1; i < KP_LEN(seen) - 1; i++) {
		assert_true(kp_ns_program_has_base(d, &seen[i]));
	}
	kp_programs_fini(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_next),
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_programs),
		cmocka_unit_test(test_few_are_kept),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

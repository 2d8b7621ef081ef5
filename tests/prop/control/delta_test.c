/* Random sets and random edits: a delta leads from one to the other, whatever order it comes in; and a
   follower that is sent deltas with losses, repetitions, cuts and changes in the order never runs
   anything but what the operator had at that number. */
#include "control/follower.h"
#include "tests/test.h"

enum { SETS = 60, KEYS = 40, STEPS = 3000 };

/* Values that are pools of this name, so that the set can become a program. */
static struct kp_items *random_set(struct kp_rng *rng, struct kp_arena *arena)
{
	struct kp_item items[KEYS];
	struct kp_err err = KP_ERR_INIT;
	struct kp_items *s = NULL;
	size_t n = 0;
	for (size_t i = 0; i < KEYS; i++) {
		if (kp_rng_below(rng, 3) == 0) {
			continue;
		}
		kp_str name = kp_arena_printf(arena, "default/p%zu", i * 7 % KEYS);
		struct kp_buf b;
		kp_buf_init(&b, 256);
		kp_buf_addc(&b, 0x0a);
		kp_buf_addc(&b, (char)name.n);
		kp_buf_add(&b, name);
		if (kp_rng_below(rng, 2)) {
			kp_buf_lit(&b, "\x10"); /* one target port */
			kp_buf_addc(&b, (char)(1 + kp_rng_below(rng, 3)));
		}
		items[n] = (struct kp_item){ .kind = KP_ITEM_POOL, .key = name };
		assert_int_equal(kp_arena_dup(arena, kp_buf_str(&b), &items[n].value, &err), 0);
		kp_buf_fini(&b);
		n++;
	}
	assert_int_equal(kp_items_create(items, n, &s, &err), 0);
	return s;
}

static void shuffle(struct kp_rng *rng, const struct kp_item *list, size_t n)
{
	struct kp_item *items = kp_unconst(list);
	for (size_t i = n; i > 1; i--) {
		size_t k = kp_rng_below(rng, i);
		struct kp_item t = items[i - 1];
		items[i - 1] = items[k];
		items[k] = t;
	}
}

static void test_diff_and_apply(void **state)
{
	(void)state;
	struct kp_rng rng;
	kp_rng_seed(&rng, test_seed());
	for (int i = 0; i < 500; i++) {
		KP_AUTO(arena) struct kp_arena *arena = kp_arena_create(4 << 20);
		struct kp_err err = KP_ERR_INIT;
		struct kp_items *a = random_set(&rng, arena), *b = random_set(&rng, arena),
				*got = NULL;
		struct kp_items_delta d;
		assert_int_equal(kp_items_diff(a, b, arena, &d, &err), 0);
		/* No more than needed: nothing that is equal in both. */
		for (size_t k = 0; k < d.n_upserts; k++) {
			const struct kp_item *was =
				kp_items_find(a, d.upserts[k].kind, d.upserts[k].key);
			assert_true(!was || !kp_str_eq(was->value, d.upserts[k].value));
		}
		for (size_t k = 0; k < d.n_removes; k++) {
			assert_null(kp_items_find(b, d.removes[k].kind, d.removes[k].key));
		}
		shuffle(&rng, d.upserts, d.n_upserts);
		shuffle(&rng, d.removes, d.n_removes);
		assert_int_equal(kp_items_apply(a, &d, &got, &err), 0);
		assert_true(kp_items_same(got, b));
		assert_int_equal(got->n, b->n);
		for (size_t k = 0; k < b->n; k++) {
			assert_int_equal(got->p[k].kind, b->p[k].kind);
			assert_str(got->p[k].key, b->p[k].key);
			assert_str(got->p[k].value, b->p[k].value);
		}
		assert_true(kp_items_same(a, b) == (d.n_upserts + d.n_removes == 0));
		kp_items_unref(a);
		kp_items_unref(b);
		kp_items_unref(got);
	}
}

struct history {
	struct kp_items *at[SETS]; /* by number */
	size_t n;
};

static void set_revision(
	struct kp_revision *r, uint64_t epoch, uint64_t n, const struct kp_items *s)
{
	*r = (struct kp_revision){ .is_set = true, .epoch = epoch, .n = n };
	memcpy(r->hash, s->hash, KP_HASH_BYTES);
}

/* Something an operator might have sent at some time, maybe damaged. */
static struct kp_program_message random_message(
	struct kp_rng *rng, const struct history *h, struct kp_arena *arena, bool *is_damaged)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_program_message m = { .delta = { .n_upserts = 0 } };
	size_t to = kp_rng_below(rng, h->n), from = kp_rng_below(rng, h->n);
	set_revision(&m.revision, 5, to, h->at[to]);
	if (kp_rng_below(rng, 4)) {
		set_revision(&m.base, 5, from, h->at[from]);
		assert_int_equal(kp_items_diff(h->at[from], h->at[to], arena, &m.delta, &err), 0);
	} else {
		m.delta = (struct kp_items_delta){ .upserts = h->at[to]->p,
			.n_upserts = h->at[to]->n };
	}
	*is_damaged = true;
	switch (kp_rng_below(rng, 8)) {
	case 0:
		if (m.delta.n_upserts) {
			m.delta.n_upserts--;
			return m;
		}
		break;
	case 1:
		if (m.delta.n_removes) {
			m.delta.n_removes--;
			return m;
		}
		break;
	case 2:
		m.revision.hash[kp_rng_below(rng, KP_HASH_BYTES)] ^= 1;
		return m;
	case 3:
		if (m.base.is_set) {
			m.base.hash[kp_rng_below(rng, KP_HASH_BYTES)] ^= 1;
			return m;
		}
		break;
	default:
		break;
	}
	*is_damaged = false;
	return m;
}

static void test_follower(void **state)
{
	(void)state;
	struct kp_rng rng;
	struct kp_follower f;
	struct history h = { .n = SETS };
	size_t taken = 0, refused = 0;
	KP_AUTO(arena) struct kp_arena *lasting = kp_arena_create(64 << 20);
	kp_rng_seed(&rng, test_seed());
	kp_follower_init(&f, KP_S("default"));
	for (size_t i = 0; i < SETS; i++) {
		h.at[i] = random_set(&rng, lasting);
	}
	h.n = 2;
	for (int step = 0; step < STEPS; step++) {
		KP_AUTO(arena) struct kp_arena *arena = kp_arena_create(4 << 20);
		struct kp_err err = KP_ERR_INIT;
		struct kp_offer o;
		bool is_damaged;
		h.n = KP_MIN(2 + (size_t)step * SETS / STEPS, (size_t)SETS);
		struct kp_program_message m = random_message(&rng, &h, arena, &is_damaged);
		uint64_t before = f.revision.n;
		if (kp_follower_check(&f, &m, 0, &o, &err) < 0) {
			refused++;
			assert_non_null(err.reason);
			/* What is whole, and newer, is never refused. */
			assert_false(!is_damaged && !m.base.is_set && m.revision.n > before);
			continue;
		}
		assert_false(is_damaged);
		kp_follower_commit(&f, &o);
		kp_offer_fini(&o);
		taken++;
		assert_true(f.revision.n >= before);
		assert_true(kp_items_same(f.items, h.at[f.revision.n]));
	}
	assert_true(taken > SETS / 4 && refused > SETS);
	for (size_t i = 0; i < SETS; i++) {
		kp_items_unref(h.at[i]);
	}
	kp_follower_fini(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_diff_and_apply),
		cmocka_unit_test(test_follower),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

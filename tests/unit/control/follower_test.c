/* Which programs a gateway takes: bases, hashes, numbers, epochs, two operators, clocks that are wrong. */
#include "tests/unit/control/common.h"

#define DEMO(endpoints)   \
	POOL("a", "8080") \
	ENGINE("demo", "a", "{name: m}", "  engine: {type: vllm}\n  endpoints: [" endpoints "]")
#define AT(port) "{address: 127.0.0.1, port: " port "}"
enum { S = 1000000000 };

struct world {
	struct kp_items *one, *two, *three; /* with one, two, three endpoints */
	struct kp_arena *arena;
	struct kp_follower f;
};

static struct kp_revision revision(uint64_t epoch, uint64_t n, const struct kp_items *content)
{
	struct kp_revision r = { .is_set = true, .epoch = epoch, .n = n };
	memcpy(r.hash, content->hash, KP_HASH_BYTES);
	return r;
}
static struct kp_program_message full(uint64_t epoch, uint64_t n, const struct kp_items *content)
{
	return (struct kp_program_message){ .revision = revision(epoch, n, content),
		.delta = { .upserts = content->p, .n_upserts = content->n } };
}
static struct kp_program_message delta(struct world *w, uint64_t epoch, uint64_t n,
	const struct kp_items *from, const struct kp_items *to)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_program_message m = { .revision = revision(epoch, n, to),
		.base = revision(epoch, n - 1, from) };
	assert_int_equal(kp_items_diff(from, to, w->arena, &m.delta, &err), 0);
	return m;
}

static void start(struct world *w)
{
	*w = (struct world){ .one = test_items(DEMO(AT("1")), NULL, 0),
		.two = test_items(DEMO(AT("1") ", " AT("2")), NULL, 0),
		.three = test_items(DEMO(AT("1") ", " AT("2") ", " AT("3")), NULL, 0),
		.arena = kp_arena_create(1 << 20) };
	kp_follower_init(&w->f, KP_S("default"));
}
static void end(struct world *w)
{
	kp_follower_fini(&w->f);
	kp_items_unref(w->one);
	kp_items_unref(w->two);
	kp_items_unref(w->three);
	kp_arena_destroy(w->arena);
}

/* "taken", "unchanged" or the reason. */
static const char *offer(
	struct world *w, const struct kp_program_message *m, int64_t now_ns, struct kp_err *err)
{
	struct kp_offer o = { .is_unchanged = false };
	struct kp_follower before = w->f;
	*err = KP_ERR_INIT;
	if (kp_follower_check(&w->f, m, now_ns, &o, err) < 0) {
		assert_memory_equal(&before, &w->f, sizeof(before));
		assert_non_null(err->reason);
		return err->reason;
	}
	bool is_unchanged = o.is_unchanged;
	assert_true(is_unchanged == !o.program);
	kp_follower_commit(&w->f, &o);
	kp_offer_fini(&o);
	assert_memory_equal(w->f.revision.hash, m->revision.hash, KP_HASH_BYTES);
	assert_memory_equal(w->f.items->hash, m->revision.hash, KP_HASH_BYTES);
	assert_int_equal(w->f.revision.n, m->revision.n);
	return is_unchanged ? "unchanged" : "taken";
}
#define assert_offer(w, m, now, want, text)                                        \
	do {                                                                       \
		const struct kp_program_message m_ = (m);                          \
		struct kp_err e_;                                                  \
		assert_string_equal(offer((w), &m_, (int64_t)(now), &e_), (want)); \
		assert_string_equal(e_.msg, (text));                               \
	} while (0)

static void test_full_then_deltas(void **state)
{
	(void)state;
	struct world w;
	start(&w);
	kp_follower_connected(&w.f, 7, 0);
	assert_offer(&w, full(7, 1, w.one), 0, "taken", "");
	assert_offer(&w, delta(&w, 7, 2, w.one, w.two), 0, "taken", "");
	assert_offer(&w, delta(&w, 7, 3, w.two, w.one), 0, "taken", "");
	assert_offer(&w, full(7, 4, w.one), 0, "unchanged", "");
	assert_int_equal(w.f.revision.n, 4);
	assert_offer(&w, delta(&w, 7, 5, w.one, w.one), 0, "unchanged", "");
	assert_offer(&w, full(7, 5, w.one), 0, "unchanged", ""); /* again */
	/* An operator that starts anew and finds what it would send. */
	kp_follower_connected(&w.f, 9, 0);
	assert_offer(&w, delta(&w, 9, 1, w.one, w.one), 0, "unchanged", "");
	assert_offer(&w, delta(&w, 9, 2, w.one, w.three), 0, "taken", "");
	end(&w);
}

static void test_lost_and_reordered(void **state)
{
	(void)state;
	struct world w;
	struct kp_program_message m;
	char text[400];
	start(&w);
	assert_offer(&w, delta(&w, 7, 2, w.one, w.two), 0, KP_NACK_UNKNOWN_BASE,
		(snprintf(text, sizeof(text),
			 "take program `7.2`: it changes 7.1 (%s), but none is what runs",
			 kp_hash_text(w.one->hash, 12, (char[KP_HASH_TEXT_MAX]){ 0 })),
			text));
	assert_offer(&w, full(7, 1, w.one), 0, "taken", "");
	m = delta(&w, 7, 3, w.two, w.three); /* 7.2 was lost */
	struct kp_err err;
	assert_string_equal(offer(&w, &m, 0, &err), KP_NACK_UNKNOWN_BASE);
	m = delta(&w, 7, 2, w.one, w.two); /* and comes late */
	assert_string_equal(offer(&w, &m, 0, &err), "taken");
	assert_offer(&w, full(7, 4, w.three), 0, "taken", "");
	/* Numbers do not go back, whatever is in them. */
	assert_offer(&w, full(7, 3, w.two), 0, KP_NACK_INVALID,
		"take program `7.3`: it does not follow 7.4");
	assert_offer(&w, full(7, 4, w.two), 0, KP_NACK_INVALID,
		"take program `7.4`: it does not follow 7.4");
	assert_offer(&w, full(7, 3, w.three), 0, KP_NACK_INVALID,
		"take program `7.3`: it does not follow 7.4");
	end(&w);
}

static void test_damaged(void **state)
{
	(void)state;
	struct world w;
	struct kp_err err;
	start(&w);
	assert_offer(&w, full(7, 1, w.one), 0, "taken", "");
	struct kp_program_message m = delta(&w, 7, 2, w.one, w.three);
	m.delta.n_upserts--; /* truncated */
	assert_string_equal(offer(&w, &m, 0, &err), KP_NACK_HASH_MISMATCH);
	m = full(7, 2, w.three);
	m.delta.n_upserts--;
	assert_string_equal(offer(&w, &m, 0, &err), KP_NACK_HASH_MISMATCH);
	m = full(7, 2, w.three);
	m.revision.hash[31] ^= 1;
	assert_string_equal(offer(&w, &m, 0, &err), KP_NACK_HASH_MISMATCH);
	m = delta(&w, 7, 2, w.three, w.one); /* removes what is not there, of a base that is */
	m.base = revision(7, 1, w.one);
	assert_string_equal(offer(&w, &m, 0, &err), KP_NACK_INVALID);
	assert_string_equal(err.msg,
		"read items: endpoint `default/demo/127.0.0.1:2` is to be removed, but is not there");
	end(&w);
}

static void test_content(void **state)
{
	(void)state;
	struct world w;
	struct kp_err err = KP_ERR_INIT;
	struct kp_items *odd;
	start(&w);
	const struct kp_item later = { .kind = 17, .key = KP_S("x"), .value = KP_S("y") };
	assert_int_equal(kp_items_create(&later, 1, &odd, &err), 0);
	assert_offer(&w, full(7, 1, odd), 0, KP_NACK_NOT_UNDERSTOOD,
		"read kind 17 `x`: an unknown kind of item");
	kp_items_unref(odd);
	const struct kp_item wrong = { .kind = KP_ITEM_POOL, .key = KP_S("x"), .value = KP_S("y") };
	assert_int_equal(kp_items_create(&wrong, 1, &odd, &err), 0);
	assert_offer(&w, full(7, 1, odd), 0, KP_NACK_INVALID,
		"read pool `x`: read `kelpie.control.v1.Pool`: not valid protobuf");
	kp_items_unref(odd);
	kp_follower_fini(&w.f);
	kp_follower_init(&w.f, KP_S("other"));
	assert_offer(&w, full(7, 1, w.one), 0, KP_NACK_INVALID,
		"read pool `default/a`: the name is not the key, or not of this namespace");
	end(&w);
}

/* Two operators at once: the lower epoch is refused while the higher one is there, and for half a minute
   after it was last heard of. */
static void test_second_operator(void **state)
{
	(void)state;
	struct world w;
	start(&w);
	kp_follower_connected(&w.f, 100, 1 * (int64_t)S);
	assert_offer(&w, full(100, 5, w.one), 1 * (int64_t)S, "taken", "");
	/* A long quiet stream is not silence. */
	assert_int_equal(kp_follower_age_ms(&w.f, 500 * (int64_t)S), 0);
	assert_offer(&w, full(99, 9, w.two), 500 * (int64_t)S, KP_NACK_STALE_EPOCH,
		"take program `99.9`: its epoch is lower than 100, whose operator was heard of 0 s ago");
	kp_follower_disconnected(&w.f, 500 * (int64_t)S);
	kp_follower_connected(&w.f, 99, 501 * (int64_t)S);
	assert_int_equal(kp_follower_age_ms(&w.f, 529 * (int64_t)S), 29000);
	assert_offer(&w, full(99, 9, w.two), 529 * (int64_t)S, KP_NACK_STALE_EPOCH,
		"take program `99.9`: its epoch is lower than 100, whose operator was heard of 29 s ago");
	assert_offer(&w, full(99, 9, w.two), 530 * (int64_t)S, "taken", "");
	/* It is the one that counts now; the other, once back, is higher again. */
	assert_int_equal(w.f.epoch_seen, 99);
	assert_offer(&w, full(98, 1, w.one), 531 * (int64_t)S, KP_NACK_STALE_EPOCH,
		"take program `98.1`: its epoch is lower than 99, whose operator was heard of 0 s ago");
	kp_follower_connected(&w.f, 100, 532 * (int64_t)S);
	assert_offer(&w, full(100, 6, w.one), 532 * (int64_t)S, "taken", "");
	end(&w);
}

/* An operator whose Welcome came, but no program yet, counts; a clock that goes back does not confuse. */
static void test_greeting_and_clock(void **state)
{
	(void)state;
	struct world w;
	start(&w);
	kp_follower_connected(&w.f, 50, 10 * (int64_t)S);
	kp_follower_disconnected(&w.f, 11 * (int64_t)S);
	assert_offer(&w, full(40, 1, w.one), 12 * (int64_t)S, KP_NACK_STALE_EPOCH,
		"take program `40.1`: its epoch is lower than 50, whose operator was heard of 1 s ago");
	assert_int_equal(kp_follower_age_ms(&w.f, 5 * (int64_t)S), 0);
	assert_offer(&w, full(40, 1, w.one), 5 * (int64_t)S, KP_NACK_STALE_EPOCH,
		"take program `40.1`: its epoch is lower than 50, whose operator was heard of 0 s ago");
	/* An operator whose clock was far in the future, gone for half a minute. */
	kp_follower_connected(&w.f, UINT64_MAX, 20 * (int64_t)S);
	assert_offer(&w, full(UINT64_MAX, 1, w.one), 20 * (int64_t)S, "taken", "");
	kp_follower_disconnected(&w.f, 21 * (int64_t)S);
	kp_follower_connected(&w.f, 60, 40 * (int64_t)S);
	assert_offer(&w, full(60, 1, w.two), 51 * (int64_t)S, "taken", "");
	end(&w);
}

static void test_restored(void **state)
{
	(void)state;
	struct world w;
	start(&w);
	struct kp_revision r = revision(100, 5, w.one);
	kp_follower_restore(&w.f, &r, kp_items_ref(w.one), 0);
	assert_offer(&w, full(90, 1, w.two), 29 * (int64_t)S, KP_NACK_STALE_EPOCH,
		"take program `90.1`: its epoch is lower than 100, whose operator was heard of 29 s ago");
	assert_offer(&w, delta(&w, 100, 6, w.one, w.two), 1 * (int64_t)S, "taken", "");
	end(&w);
}

/* What was refused by who applies it is not committed, and may be offered again. */
static void test_not_applied(void **state)
{
	(void)state;
	struct world w;
	struct kp_err err = KP_ERR_INIT;
	struct kp_offer o;
	start(&w);
	struct kp_program_message m = full(7, 1, w.one);
	assert_int_equal(kp_follower_check(&w.f, &m, 0, &o, &err), 0);
	struct kp_program *p = kp_steal(o.program); /* the caller has it now */
	kp_offer_fini(&o);
	assert_int_equal(p->n_engines, 1);
	kp_program_destroy(p);
	assert_false(w.f.revision.is_set);
	assert_offer(&w, full(7, 1, w.one), 0, "taken", "");
	end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_full_then_deltas),
		cmocka_unit_test(test_lost_and_reordered),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_content),
		cmocka_unit_test(test_second_operator),
		cmocka_unit_test(test_greeting_and_clock),
		cmocka_unit_test(test_restored),
		cmocka_unit_test(test_not_applied),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

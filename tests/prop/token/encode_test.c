/* Properties of encoding and decoding: the block half of each pre-tokenizer, the caches and the merges together give the pieces and ids of the
   obvious way; nothing depends on what the scratch has seen, on its size, or on where runs of one origin end; text comes back. */
#include "tests/unit/token/naive.h"

static struct made made;

static void encode(const struct kp_tokenizer *t, struct kp_token_scratch *s, struct kp_text text,
	struct kp_ids *ids)
{
	struct kp_err err = KP_ERR_INIT;
	kp_ids_reset(ids);
	if (kp_tokenizer_encode(
		    t, s, &text, &(struct kp_encode_opts){ .policy = NULL }, ids, &err)) {
		print_error("%s\n", err.msg);
		fail();
	}
}

static void decodes_to(
	const struct kp_tokenizer *t, const struct kp_ids *ids, kp_str text, struct kp_rng *r)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_buf out;
	kp_buf_init(&out, 1 << 20);
	assert_int_equal(kp_tokenizer_decode(t, ids->p, ids->n, false, &out, &err), 0);
	assert_str(kp_buf_str(&out), text);
	/* The same in pieces of any size, each valid UTF-8. */
	kp_buf_reset(&out);
	struct kp_detok d;
	kp_detok_init(&d, t, false);
	for (size_t i = 0; i < ids->n; i++) {
		size_t before = out.n;
		assert_int_equal(kp_detok_feed(&d, ids->p[i], &out, &err), 0);
		assert_true(kp_utf8_ok(kp_str_skip(kp_buf_str(&out), before)));
		assert_true(d.n_pending <= 3);
	}
	kp_detok_finish(&d, &out);
	assert_str(kp_buf_str(&out), text);
	(void)r;
	kp_buf_fini(&out);
}

static void ids_are_the_obvious_ones(void **state)
{
	(void)state;
	struct kp_rng r;
	struct kp_ids want, got;
	struct kp_buf text;
	kp_rng_seed(&r, test_seed());
	kp_ids_init(&want, 1 << 20);
	kp_ids_init(&got, 1 << 20);
	kp_buf_init(&text, 1 << 20);
	struct kp_token_scratch *small = kp_token_scratch_create(0),
				*big = kp_token_scratch_create(4 << 20);
	for (int v = 0; v < 24; v++) {
		made_init(&made, &r, 100 + kp_rng_below(&r, 250), v % 5 == 0);
		struct kp_tokenizer *t = made_load(
			&made, made_pretoks[v % KP_LEN(made_pretoks)], false, v % 7 == 3, "");
		for (int k = 0; k < 50; k++) {
			kp_buf_reset(&text);
			made_text(&r, kp_rng_below(&r, k % 8 ? 120 : 900), &text);
			for (size_t i = k % 5 ? 0 : kp_rng_below(&r, 300); i;
				i--) { /* a long word, and what ends it */
				kp_buf_addc(&text, "abcz"[kp_rng_below(&r, 4)]);
				if (i == 1) {
					made_text(&r, text.n + kp_rng_below(&r, 40), &text);
				}
			}
			kp_str s = kp_buf_str(&text);
			kp_ids_reset(&want);
			made_encode(&made, t, s, &want);
			for (int pass = 0; pass < 2; pass++) { /* the second one from the cache */
				encode(t, small, kp_text_trusted(s), &got);
				assert_ids(&got, &want, s);
				encode(t, big, kp_text_trusted(s), &got);
				assert_ids(&got, &want, s);
			}
			decodes_to(t, &got, s, &r);
		}
		kp_tokenizer_unref(t);
		kp_arena_destroy(made.arena);
	}
	kp_token_scratch_destroy(small);
	kp_token_scratch_destroy(big);
	kp_ids_fini(&want);
	kp_ids_fini(&got);
	kp_buf_fini(&text);
}

/* Cutting a text into runs of any origin changes nothing where no added token is restricted; the maximum of ids is exact. */
static void runs_and_maximum(void **state)
{
	(void)state;
	struct kp_err err = KP_ERR_INIT;
	struct kp_rng r;
	struct kp_ids want, got;
	struct kp_buf text;
	kp_rng_seed(&r, test_seed());
	kp_ids_init(&want, 1 << 20);
	kp_buf_init(&text, 1 << 20);
	struct kp_token_scratch *s = kp_token_scratch_create(1 << 20);
	made_init(&made, &r, 300, false);
	struct kp_tokenizer *t = made_load(&made, made_pretoks[0], true, false, "");
	struct kp_token_policy *policy = NULL;
	assert_int_equal(
		kp_token_policy_create(t, KP_POLICY_MARKERS, NULL, 0, NULL, 0, &policy, &err), 0);
	for (int k = 0; k < 150; k++) {
		kp_buf_reset(&text);
		made_text(&r, 1 + kp_rng_below(&r, 3000), &text);
		encode(t, s, kp_text_trusted(kp_buf_str(&text)), &want);
		struct kp_run runs[16];
		size_t n = 1 + kp_rng_below(&r, KP_LEN(runs));
		for (size_t i = 0; i < n; i++) {
			runs[i] = (struct kp_run){ (uint32_t)(text.n * (i + 1) / n),
				(uint32_t)kp_rng_below(&r, 3) };
		}
		struct kp_text cut = { .s = kp_buf_str(&text), .runs = runs, .n_runs = n };
		kp_ids_init(&got, want.n);
		assert_int_equal(kp_tokenizer_encode(t, s, &cut,
					 &(struct kp_encode_opts){ .policy = policy }, &got, &err),
			0);
		assert_ids(&got, &want, kp_buf_str(&text));
		kp_ids_fini(&got);
		kp_ids_init(&got, want.n - 1);
		assert_int_equal(kp_tokenizer_encode(t, s, &cut,
					 &(struct kp_encode_opts){ .policy = policy }, &got, &err),
			-1);
		assert_int_equal(err.code, KP_RESOURCE_EXHAUSTED);
		assert_int_equal(got.n, want.n - 1);
		assert_memory_equal(got.p, want.p, got.n * sizeof(kp_id));
		kp_ids_fini(&got);
	}
	kp_token_policy_destroy(policy);
	kp_token_scratch_destroy(s);
	kp_tokenizer_unref(t);
	kp_arena_destroy(made.arena);
	kp_ids_fini(&want);
	kp_buf_fini(&text);
}

/* One scratch, more tokenizers than it has slots: never another one's ids. */
static void many_tokenizers_share_a_scratch(void **state)
{
	(void)state;
	enum { N = 40 };
	static struct made all[N];
	struct kp_tokenizer *t[N];
	struct kp_rng r;
	struct kp_ids want, got;
	struct kp_buf text;
	kp_rng_seed(&r, test_seed());
	kp_ids_init(&want, 1 << 20);
	kp_ids_init(&got, 1 << 20);
	kp_buf_init(&text, 1 << 20);
	struct kp_token_scratch *s = kp_token_scratch_create(1 << 20);
	for (int i = 0; i < N; i++) {
		made_init(&all[i], &r, 60, false);
		t[i] = made_load(&all[i], made_pretoks[0], false, false, "");
	}
	made_text(&r, 300, &text);
	for (int k = 0; k < 400; k++) {
		int i = (int)kp_rng_below(&r, k % 2 ? N : 3);
		kp_ids_reset(&want);
		made_encode(&all[i], t[i], kp_buf_str(&text), &want);
		encode(t[i], s, kp_text_trusted(kp_buf_str(&text)), &got);
		assert_ids(&got, &want, kp_buf_str(&text));
	}
	for (int i = 0; i < N; i++) {
		kp_tokenizer_unref(t[i]);
		kp_arena_destroy(all[i].arena);
	}
	kp_token_scratch_destroy(s);
	kp_ids_fini(&want);
	kp_ids_fini(&got);
	kp_buf_fini(&text);
}

/* DT-01, DT-02, DT-09: any ids, in one go, one by one: the lossy text of all bytes. */
static void any_ids_decode_alike(void **state)
{
	(void)state;
	struct kp_err err = KP_ERR_INIT;
	struct kp_rng r;
	struct kp_buf bytes, want, got;
	kp_rng_seed(&r, test_seed());
	kp_buf_init(&bytes, 1 << 20);
	kp_buf_init(&want, 1 << 20);
	kp_buf_init(&got, 1 << 20);
	made_init(&made, &r, 300, false);
	struct kp_tokenizer *t = made_load(&made, made_pretoks[0], false, false, "");
	static const uint8_t leads[] = { 0xc3, 0xe4, 0xed, 0xe0, 0xf0, 0xf4, 0x80, 0xbf, 0x9f, 0xa9,
		0x90, 'a', 0xff, 0xc0 };
	for (int k = 0; k < 8000; k++) {
		kp_id ids[24];
		size_t n = 1 + kp_rng_below(&r, KP_LEN(ids));
		kp_buf_reset(&bytes);
		kp_buf_reset(&want);
		kp_buf_reset(&got);
		struct kp_detok d;
		kp_detok_init(&d, t, false);
		for (size_t i = 0; i < n; i++) {
			ids[i] = kp_rng_below(&r, 4) ? leads[kp_rng_below(&r, KP_LEN(leads))]
						     : (kp_id)kp_rng_below(&r, made.n_tokens);
			kp_buf_add(&bytes, made.token[ids[i]]);
			assert_int_equal(kp_detok_feed(&d, ids[i], &got, &err), 0);
			assert_true(kp_utf8_ok(kp_buf_str(&got)));
		}
		kp_detok_finish(&d, &got);
		kp_utf8_add_lossy(&want, kp_buf_str(&bytes));
		assert_str(kp_buf_str(&got), kp_buf_str(&want));
		kp_buf_reset(&got);
		assert_int_equal(kp_tokenizer_decode(t, ids, n, false, &got, &err), 0);
		assert_str(kp_buf_str(&got), kp_buf_str(&want));
	}
	kp_tokenizer_unref(t);
	kp_arena_destroy(made.arena);
	kp_buf_fini(&bytes);
	kp_buf_fini(&want);
	kp_buf_fini(&got);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ids_are_the_obvious_ones),
		cmocka_unit_test(runs_and_maximum),
		cmocka_unit_test(many_tokenizers_share_a_scratch),
		cmocka_unit_test(any_ids_decode_alike),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

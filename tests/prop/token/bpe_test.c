/* Properties of merging: the three ways give what the obvious one gives, for any vocabulary, also one whose ranks are in no order. */
#include "tests/unit/token/naive.h"

static struct made made;

/* A piece over the letters of the vocabulary, random or of few units. */
static kp_str random_piece(struct kp_rng *r, size_t n, struct kp_buf *b)
{
	static const char *const part[] = { "a", "b", "c", " ", "=", "1", "é", "中", "文", "а",
		"\n", "z" };
	size_t base = kp_rng_below(r, KP_LEN(part)), span = 1 + kp_rng_below(r, 4);
	kp_buf_reset(b);
	while (b->n < n) {
		kp_buf_addz(b, part[(base + kp_rng_below(r, span)) % KP_LEN(part)]);
	}
	return kp_buf_str(b);
}

static void all_ways_agree(void **state)
{
	(void)state;
	struct kp_err err = KP_ERR_INIT;
	struct kp_rng r;
	struct kp_buf b;
	struct kp_ids want, got;
	kp_rng_seed(&r, test_seed());
	kp_buf_init(&b, 1 << 20);
	kp_ids_init(&want, 1 << 20);
	kp_ids_init(&got, 1 << 20);
	for (int v = 0; v < 24; v++) {
		made_init(&made, &r, 1 + kp_rng_below(&r, 300), v % 3 == 0);
		struct kp_tokenizer *t = made_load(&made, made_pretoks[0], false, false, "");
		for (int k = 0; k < 40; k++) {
			size_t n = k % 10 ? 1 + kp_rng_below(&r, 50) : 200 + kp_rng_below(&r, 400);
			kp_str piece = random_piece(&r, n, &b);
			const uint8_t *p = (const uint8_t *)piece.p;
			kp_ids_reset(&want);
			made_bpe(&made, piece, &want);
			kp_ids_reset(&got);
			assert_int_equal(kp_bpe_heap(&t->bpe, p, piece.n, &got, &err), 0);
			assert_ids(&got, &want, piece);
			kp_ids_reset(&got);
			assert_int_equal(kp_bpe_long(&t->bpe, p, piece.n, &got, &err), 0);
			assert_ids(&got, &want, piece);
			if (piece.n <= KP_BPE_SMALL) {
				kp_ids_reset(&got);
				assert_true(kp_ids_reserve(&got, piece.n));
				got.n = kp_bpe_small(&t->bpe, p, piece.n, got.p);
				assert_ids(&got, &want, piece);
			}
		}
		kp_tokenizer_unref(t);
		kp_arena_destroy(made.arena);
	}
	kp_buf_fini(&b);
	kp_ids_fini(&want);
	kp_ids_fini(&got);
}

static bool has_gap(const struct kp_bpe *b, const kp_id *sym, size_t n)
{
	bool found = false;
	for (size_t i = 0; i < n; i++) {
		found |= sym[i] == b->gap;
	}
	return found;
}

/* A piece that became one token: by which merge. */
static void check_last(
	const struct kp_bpe *b, kp_id *sym, kp_str piece, const struct kp_bpe_job *job)
{
	struct kp_merge m;
	size_t n = kp_bpe_start(b, (const uint8_t *)piece.p, piece.n, sym);
	if (n > 1 && !has_gap(b, sym, n) && kp_bpe_small_last(b, sym, n, &m)) {
		assert_int_equal(job->n, 1);
		assert_int_equal(job->last.left, m.left);
		assert_int_equal(job->last.right, m.right);
		assert_int_equal(job->last.product, m.product);
		assert_int_equal(job->last_rank, kp_bpe_rank(b, m.left, m.right));
	}
}

/* Short pieces, any number at once: each as if it were alone. */
static void pieces_at_once(void **state)
{
	(void)state;
	enum { JOBS = 40 };
	struct kp_rng r;
	struct kp_buf b;
	struct kp_ids want, got;
	kp_rng_seed(&r, test_seed());
	kp_buf_init(&b, 1 << 20);
	kp_ids_init(&want, 1 << 20);
	kp_ids_init(&got, 1 << 20);
	for (int v = 0; v < 24; v++) {
		made_init(&made, &r, 1 + kp_rng_below(&r, 300), v % 3 == 0);
		struct kp_tokenizer *t = made_load(&made, made_pretoks[0], false, false, "");
		for (int k = 0; k < 10; k++) {
			uint8_t text[JOBS][KP_BPE_FEW];
			kp_id ids[JOBS][KP_BPE_FEW], sym[JOBS][KP_BPE_FEW];
			struct kp_bpe_job job[JOBS];
			size_t len[JOBS], n = kp_rng_below(&r, JOBS + 1);
			for (size_t i = 0; i < n; i++) {
				kp_str piece =
					random_piece(&r, 1 + kp_rng_below(&r, KP_BPE_FEW - 2), &b);
				len[i] = piece.n;
				memcpy(text[i], piece.p, piece.n);
				size_t n_sym = kp_bpe_start(&t->bpe, text[i], len[i], sym[i]);
				bool as_symbols = i % 2 && !has_gap(&t->bpe, sym[i], n_sym);
				job[i] = (struct kp_bpe_job){ .p = as_symbols ? NULL : text[i],
					.sym = sym[i],
					.n = as_symbols ? n_sym : len[i],
					.ids = ids[i] };
			}
			kp_bpe_merge_all(&t->bpe, job, n);
			for (size_t i = 0; i < n; i++) {
				kp_str piece = kp_str_n((const char *)text[i], len[i]);
				kp_ids_reset(&want);
				made_bpe(&made, piece, &want);
				kp_ids_reset(&got);
				assert_true(kp_ids_reserve(&got, KP_BPE_FEW));
				memcpy(got.p, ids[i], job[i].n * sizeof(kp_id));
				got.n = job[i].n;
				assert_ids(&got, &want, piece);
				check_last(&t->bpe, sym[i], piece, &job[i]);
			}
		}
		kp_tokenizer_unref(t);
		kp_arena_destroy(made.arena);
	}
	kp_buf_fini(&b);
	kp_ids_fini(&want);
	kp_ids_fini(&got);
}

/* TK-07: long pieces, by windows and by the queue. */
static void long_pieces_agree(void **state)
{
	(void)state;
	struct kp_err err = KP_ERR_INIT;
	struct kp_rng r;
	struct kp_buf b;
	struct kp_ids want, got;
	kp_rng_seed(&r, test_seed());
	kp_buf_init(&b, 1 << 20);
	kp_ids_init(&want, 1 << 20);
	kp_ids_init(&got, 1 << 20);
	for (int v = 0; v < 8; v++) {
		made_init(&made, &r, 400, v % 2);
		struct kp_tokenizer *t = made_load(&made, made_pretoks[0], false, false, "");
		for (int k = 0; k < 6; k++) {
			kp_str piece = random_piece(&r, 2000 + kp_rng_below(&r, 10000), &b);
			kp_ids_reset(&want);
			kp_ids_reset(&got);
			assert_int_equal(kp_bpe_heap(&t->bpe, (const uint8_t *)piece.p, piece.n,
						 &want, &err),
				0);
			assert_int_equal(
				kp_bpe_long(&t->bpe, (const uint8_t *)piece.p, piece.n, &got, &err),
				0);
			assert_ids(&got, &want, kp_str_sub(piece, 0, 100));
		}
		kp_tokenizer_unref(t);
		kp_arena_destroy(made.arena);
	}
	kp_buf_fini(&b);
	kp_ids_fini(&want);
	kp_ids_fini(&got);
}

/* Long pieces whose letters merge as they stand, with runs, bytes beyond ASCII and what is no symbol among them; and of those the pieces that kp_bpe_ascii cuts. */
static void letters_agree(void **state)
{
	(void)state;
	struct kp_err err = KP_ERR_INIT;
	struct kp_rng r;
	struct kp_ids want, got;
	static uint8_t p[6000];
	kp_rng_seed(&r, test_seed());
	kp_ids_init(&want, 1 << 20);
	kp_ids_init(&got, 1 << 20);
	for (int v = 0; v < 16; v++) {
		made_init(&made, &r, 20 + kp_rng_below(&r, 600), v % 2);
		struct kp_tokenizer *t = made_load(&made, made_pretoks[0], false, false, "");
		assert_non_null(t->bpe.ascii);
		for (int k = 0; k < 12; k++) {
			size_t n = 1 + kp_rng_below(&r, sizeof(p)), run = 0;
			static const char letter[] = "abc =12\nz";
			size_t span = 1 + kp_rng_below(&r, sizeof(letter) - 1);
			for (size_t i = 0; i < n; i++) {
				run = run                     ? run - 1
				      : kp_rng_below(&r, 400) ? 0
							      : kp_rng_below(&r, 3000);
				bool same = i && run && k % 3 == 0;
				p[i] = same ? p[i - 1] : (uint8_t)letter[kp_rng_below(&r, span)];
				p[i] = k % 4 == 1 && kp_rng_below(&r, 700) == 0 ? 0xd0 : p[i];
			}
			kp_ids_reset(&want);
			kp_ids_reset(&got);
			assert_int_equal(kp_bpe_heap(&t->bpe, p, n, &want, &err), 0);
			assert_int_equal(kp_bpe_long(&t->bpe, p, n, &got, &err), 0);
			assert_ids(&got, &want, kp_str_n((const char *)p, KP_MIN(n, 100U)));
		}
		kp_tokenizer_unref(t);
		kp_arena_destroy(made.arena);
	}
	kp_ids_fini(&want);
	kp_ids_fini(&got);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_ways_agree),
		cmocka_unit_test(pieces_at_once),
		cmocka_unit_test(long_pieces_agree),
		cmocka_unit_test(letters_agree),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

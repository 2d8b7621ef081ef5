/* Who may write which added token (TK-01), decoding of ids that are no tokens (DT-10), skipping by id (DT-08). The reference's side of
   matching is tests/oracle/token/test_added.py. */
#include "tests/unit/token/naive.h"

enum { END = 276, MARK, PLAIN };
static const char added[] =
	"{\"id\":276,\"content\":\"<end>\",\"special\":true,\"normalized\":false},"
	"{\"id\":277,\"content\":\"<mark>\",\"special\":false,\"normalized\":false},"
	"{\"id\":278,\"content\":\"<plain>\",\"special\":false,\"normalized\":false}";

static struct made made;
static struct kp_tokenizer *t;
static struct kp_token_scratch *scratch;

static int setup(void **state)
{
	(void)state;
	struct kp_rng r;
	kp_rng_seed(&r, 1);
	made_init(&made, &r, 20, false);
	t = made_load(&made, made_pretoks[0], false, false, added);
	scratch = kp_token_scratch_create(1 << 20);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kp_token_scratch_destroy(scratch);
	kp_tokenizer_unref(t);
	kp_arena_destroy(made.arena);
	return 0;
}

/* Which of the three tokens come out, in order. */
static void gives(enum kp_text_policy policy, const struct kp_text *text, const char *want)
{
	struct kp_err err = KP_ERR_INIT;
	KP_AUTO(token_policy) struct kp_token_policy *p = NULL;
	struct kp_ids ids;
	char got[64] = "";
	kp_ids_init(&ids, 1000);
	kp_id mark = MARK;
	assert_int_equal(kp_token_policy_create(t, policy, &mark, 1, &mark, 1, &p, &err), 0);
	assert_int_equal(kp_tokenizer_encode(t, scratch, text,
				 &(struct kp_encode_opts){ .policy = p }, &ids, &err),
		0);
	for (size_t i = 0, n = 0; i < ids.n && n + 1 < sizeof(got); i++) {
		if (ids.p[i] >= END) {
			got[n++] = "EMP"[ids.p[i] - END];
			got[n] = '\0';
		}
	}
	assert_string_equal(got, want);
	kp_ids_fini(&ids);
}

static struct kp_text all_of(const char *z, struct kp_run *run, enum kp_origin origin)
{
	*run = (struct kp_run){ (uint32_t)strlen(z), origin };
	return (struct kp_text){ .s = kp_str_c(z), .runs = run, .n_runs = 1 };
}

static void tk_01_origins(void **state)
{
	(void)state;
	struct kp_run run;
	static const char text[] = "a<end>b<mark>c<plain>";
	static const char *const want[3][3] = { { "EMP", "P", "MP" }, { "EMP", "P", "P" },
		{ "EMP", "EMP", "EMP" } };
	for (int policy = KP_POLICY_MARKERS; policy <= KP_POLICY_TRUSTED; policy++) {
		for (int origin = KP_ORIGIN_TRUSTED; origin <= KP_ORIGIN_ASSISTANT; origin++) {
			struct kp_text x = all_of(text, &run, (enum kp_origin)origin);
			gives((enum kp_text_policy)policy, &x, want[policy][origin]);
		}
	}
}

/* A border anywhere inside a control token, from any origin to any other: it is one only if both may write it. */
static void tk_01_straddling(void **state)
{
	(void)state;
	for (uint32_t cut = 1; cut < 5; cut++) {
		for (uint32_t a = 0; a < 3; a++) {
			for (uint32_t b = 0; b < 3; b++) {
				const struct kp_run runs[] = { { cut, a }, { 5, b } };
				struct kp_text text = {
					.s = KP_S("<end>"), .runs = runs, .n_runs = 2
				};
				bool both = a == KP_ORIGIN_TRUSTED && b == KP_ORIGIN_TRUSTED;
				gives(KP_POLICY_MARKERS, &text, both ? "E" : "");
				text.s = KP_S("<mark>");
				const struct kp_run longer[] = { { cut, a }, { 6, b } };
				text.runs = longer;
				gives(KP_POLICY_MARKERS, &text,
					a != KP_ORIGIN_CLIENT && b != KP_ORIGIN_CLIENT ? "M" : "");
			}
		}
	}
}

static void policy_of_unknown_ids(void **state)
{
	(void)state;
	struct kp_err err = KP_ERR_INIT;
	struct kp_token_policy *p = NULL;
	const kp_id unknown = 279, ordinary = 'a';
	assert_int_equal(
		kp_token_policy_create(t, KP_POLICY_MARKERS, &unknown, 1, NULL, 0, &p, &err), -1);
	assert_string_equal(err.msg, "build token policy: no token has id `279`");
	assert_int_equal(
		kp_token_policy_create(t, KP_POLICY_MARKERS, &ordinary, 1, &ordinary, 1, &p, &err),
		0);
	kp_token_policy_destroy(p);
}

static void bad_text(void **state)
{
	(void)state;
	struct kp_err err = KP_ERR_INIT;
	struct kp_ids ids;
	kp_ids_init(&ids, 1000);
	struct kp_text text = kp_text_trusted(KP_S("ok \xed\xa0\x80")); /* a surrogate */
	struct kp_encode_opts opts = { .policy = NULL };
	assert_int_equal(kp_tokenizer_encode(t, scratch, &text, &opts, &ids, &err), -1);
	assert_string_equal(err.msg, "encode text: invalid UTF-8 at byte `3`");
	const struct kp_run runs[] = { { 2, 0 } };
	text = (struct kp_text){ .s = KP_S("abc"), .runs = runs, .n_runs = 1 };
	assert_int_equal(kp_tokenizer_encode(t, scratch, &text, &opts, &ids, &err), -1);
	assert_int_equal(err.code, KP_INTERNAL);
	text = kp_text_trusted(KP_S(""));
	assert_int_equal(kp_tokenizer_encode(t, scratch, &text, &opts, &ids, &err), 0);
	assert_int_equal(ids.n, 0);
	kp_ids_fini(&ids);
}

static void dt_08_skip_by_id(void **state)
{
	(void)state;
	struct kp_err err = KP_ERR_INIT;
	struct kp_buf out;
	kp_buf_init(&out, 1000);
	const kp_id ids[] = { 'a', END, 0xc3, END, 0xa9, MARK };
	assert_int_equal(kp_tokenizer_decode(t, ids, KP_LEN(ids), true, &out, &err), 0);
	assert_str_lit(kp_buf_str(&out), "aé<mark>");
	kp_buf_reset(&out);
	assert_int_equal(kp_tokenizer_decode(t, ids, KP_LEN(ids), false, &out, &err), 0);
	assert_str_lit(kp_buf_str(&out), "a<end>\xef\xbf\xbd<end>\xef\xbf\xbd<mark>");
	kp_buf_fini(&out);
}

static void dt_10_garbage_ids(void **state)
{
	(void)state;
	struct kp_err err = KP_ERR_INIT;
	struct kp_buf out;
	kp_buf_init(&out, 1000);
	kp_buf_lit(&out, "before");
	const kp_id ids[] = { 'a', 279 }, huge = UINT32_MAX;
	assert_int_equal(kp_tokenizer_decode(t, ids, 2, true, &out, &err), -1);
	assert_int_equal(err.code, KP_OUT_OF_RANGE);
	assert_string_equal(err.msg, "decode token `279`: no such id");
	assert_str_lit(kp_buf_str(&out), "before");
	assert_int_equal(kp_tokenizer_decode(t, &huge, 1, true, &out, &err), -1);
	struct kp_detok d;
	kp_detok_init(&d, t, true);
	assert_int_equal(kp_detok_feed(&d, 279, &out, &err), -1);
	kp_buf_fini(&out);
	/* A full buffer is an error, not a shorter text. */
	kp_buf_init(&out, 2);
	assert_int_equal(
		kp_tokenizer_decode(t, (const kp_id[]){ 'a', 'b', 'c' }, 3, true, &out, &err), -1);
	assert_int_equal(err.code, KP_RESOURCE_EXHAUSTED);
	kp_buf_fini(&out);
}

/* TK-07: a megabyte of one character is one piece; its ids are those of the queue alone. */
static void tk_07_one_long_piece(void **state)
{
	(void)state;
	enum { N = 1 << 20 };
	static const char *const unit[] = { "a", " ", "=", "\n", "中", "a=" };
	struct kp_err err = KP_ERR_INIT;
	struct kp_ids got, want;
	struct kp_buf text;
	kp_ids_init(&got, 2 * N);
	kp_ids_init(&want, 2 * N);
	kp_buf_init(&text, 2 * N);
	for (size_t i = 0; i < KP_LEN(unit); i++) {
		kp_buf_reset(&text);
		kp_ids_reset(&got);
		kp_ids_reset(&want);
		while (text.n < N) {
			kp_buf_addz(&text, unit[i]);
		}
		struct kp_text in = kp_text_trusted(kp_buf_str(&text));
		assert_int_equal(kp_tokenizer_encode(t, scratch, &in,
					 &(struct kp_encode_opts){ .policy = NULL }, &got, &err),
			0);
		const uint8_t *p = (const uint8_t *)text.p, *end = p + text.n;
		while (p < end) {
			size_t n = t->pretok.piece(p, end);
			assert_int_equal(kp_bpe_heap(&t->bpe, p, n, &want, &err), 0);
			p += n;
		}
		assert_ids(&got, &want, KP_S("one long piece"));
	}
	kp_ids_fini(&got);
	kp_ids_fini(&want);
	kp_buf_fini(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tk_01_origins),
		cmocka_unit_test(tk_01_straddling),
		cmocka_unit_test(policy_of_unknown_ids),
		cmocka_unit_test(bad_text),
		cmocka_unit_test(dt_08_skip_by_id),
		cmocka_unit_test(dt_10_garbage_ids),
		cmocka_unit_test(tk_07_one_long_piece),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}

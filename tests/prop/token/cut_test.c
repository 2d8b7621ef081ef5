/* TK-14: a text can be cut behind an added token only where the ids before it cannot depend on what follows. Made-up tokenizers whose added tokens
   run into each other, strip, want to stand alone or are matched normalized; texts of any origin made of them. Whatever follows a cut, going on from it
   gives the ids of the whole. */
#include "tests/unit/token/naive.h"

enum { TEXT = 160, CUTS = 256 };

static const char *const contents[] = { "<s>", "<s><e>", "<e>", "<", "<s", "s><", "><e", "[x]",
	"[x] ", " [x]", "[x]a", "a[x]", "ab", "b", "ba<s>", "<e>1", "e\xcc\x81", "\xc3\xa9", ">",
	"\xcc\xb8", "  ", "\n", "<t>", "<t><t>", "end" };

/* A handful of the contents with random flags. One byte is a token already, the others' ids begin behind the vocabulary. */
static void some_added(struct kp_rng *r, size_t first_id, struct kp_buf *out)
{
	bool taken[KP_LEN(contents)] = { false };
	kp_buf_reset(out);
	for (size_t n = 1 + kp_rng_below(r, 7), k = 0; k < n; k++) {
		size_t i = kp_rng_below(r, KP_LEN(contents));
		if (taken[i]) {
			continue;
		}
		taken[i] = true;
		uint64_t bits = kp_rng_next(r) & kp_rng_next(r);
		bool is_byte = strlen(contents[i]) == 1;
		kp_buf_printf(out, "%s{\"id\":%zu,\"content\":", out->n ? "," : "",
			is_byte ? (size_t)(uint8_t)contents[i][0] : first_id++);
		kp_json_w_str(out, kp_str_c(contents[i]));
		kp_buf_printf(out,
			",\"special\":%s,\"normalized\":%s,\"lstrip\":%s,\"rstrip\":%s,\"single_word\":%s}",
			bits & 1 ? "true" : "false", bits & 2 ? "true" : "false",
			bits & 4 ? "true" : "false", bits & 8 ? "true" : "false",
			bits & 48   ? "false"
			: bits & 64 ? "true"
				    : "false");
	}
}

static size_t some_text(struct kp_rng *r, struct kp_buf *out, size_t n)
{
	static const char *const more[] = { " ", "a", "b", "1", "\xcc\x81", "e", "  \n", "<s", "x",
		"\xe4\xb8\xad" };
	while (out->n < n) {
		size_t i = kp_rng_below(r, 2 * KP_LEN(contents));
		kp_buf_addz(out, i < KP_LEN(contents) ? contents[i] : more[i % KP_LEN(more)]);
	}
	return out->n;
}

/* Runs up to n bytes, the first ones as they are up to `keep`; at character borders or not. */
static size_t some_runs(struct kp_rng *r, struct kp_run *runs, size_t n_runs, size_t keep, size_t n)
{
	size_t k = 0;
	while (k < n_runs && runs[k].end <= keep) {
		k++;
	}
	uint32_t at = k ? runs[k - 1].end : 0;
	bool holds = k < n_runs &&
		     at < keep; /* the run that the cut stands in goes on, at least to it */
	while (at < n) {
		uint32_t origin = holds ? runs[k].origin : (uint32_t)kp_rng_below(r, 5) % 3;
		size_t least = holds ? keep : (size_t)at + 1;
		at = (uint32_t)KP_MIN(least + kp_rng_below(r, 40), n);
		runs[k++] = (struct kp_run){ at, origin };
		holds = false;
	}
	return k;
}

struct side {
	struct kp_buf text;
	struct kp_run runs[TEXT * 2];
	size_t n_runs;
	struct kp_ids ids;
	struct kp_cut cut[CUTS];
	struct kp_cuts cuts;
};

static void encode(const struct kp_tokenizer *t, struct kp_token_scratch *s, struct side *x,
	struct kp_encode_opts opts)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_text text = { kp_buf_str(&x->text), x->runs, x->n_runs };
	x->cuts = (struct kp_cuts){ x->cut, 0, CUTS };
	opts.cuts = &x->cuts;
	if (kp_tokenizer_encode(t, s, &text, &opts, &x->ids, &err)) {
		print_error("%s\n", err.msg);
		fail();
	}
}

static struct kp_tokenizer *some_tokenizer(
	struct kp_rng *r, struct made *made, struct kp_buf *added)
{
	static const char *const normalizers[] = { "null", "null", "{\"type\":\"NFC\"}",
		"{\"type\":\"Lowercase\"}", "{\"type\":\"Prepend\",\"prepend\":\"x\"}",
		"{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}" };
	struct kp_err err = KP_ERR_INIT;
	struct kp_tokenizer *t = NULL;
	struct kp_buf json, whole;
	kp_buf_init(&json, 1 << 20);
	kp_buf_init(&whole, 1 << 20);
	some_added(r, made->n_tokens, added);
	made_json(made, made_pretoks[kp_rng_below(r, KP_LEN(made_pretoks))], false, false,
		kp_buf_cstr(added), &json);
	ptrdiff_t at = kp_str_find(kp_buf_str(&json), KP_S("\"normalizer\":null"));
	assert_true(at > 0);
	kp_buf_add(&whole, kp_str_sub(kp_buf_str(&json), 0, (size_t)at));
	kp_buf_printf(
		&whole, "\"normalizer\":%s", normalizers[kp_rng_below(r, KP_LEN(normalizers))]);
	kp_buf_add(
		&whole, kp_str_skip(kp_buf_str(&json), (size_t)at + strlen("\"normalizer\":null")));
	/* Some are refused: an added token of which normalization leaves nothing, or that it makes a word. */
	if (kp_tokenizer_from_hf(kp_buf_str(&whole), KP_STR_NULL, &t, &err)) {
		t = NULL;
	}
	kp_buf_fini(&json);
	kp_buf_fini(&whole);
	return t;
}

static void same(const struct side *a, const struct side *whole, const struct side *first)
{
	if (a->ids.n != whole->ids.n ||
		memcmp(a->ids.p, whole->ids.p, a->ids.n * sizeof(kp_id)) != 0) {
		print_error("from a cut of \"%" KP_FMT "\":\n", KP_ARG(kp_buf_str(&first->text)));
		assert_ids(&a->ids, &whole->ids, kp_buf_str(&whole->text));
	}
}

static void tk_14_what_stands_before_a_cut_does_not_depend_on_what_follows(void **state)
{
	(void)state;
	static struct made made;
	static struct side first, whole, rest;
	struct kp_rng r;
	struct kp_buf added;
	size_t n_cuts = 0, n_loaded = 0;
	kp_rng_seed(&r, test_seed());
	kp_buf_init(&added, 1 << 16);
	struct side *all[] = { &first, &whole, &rest };
	for (size_t i = 0; i < KP_LEN(all); i++) {
		kp_buf_init(&all[i]->text, 1 << 16);
		kp_ids_init(&all[i]->ids, 1 << 16);
	}
	struct kp_token_scratch *s = kp_token_scratch_create(1 << 20);
	made_init(&made, &r, 120, false);
	for (int v = 0; v < 1200; v++) {
		KP_AUTO(tokenizer) struct kp_tokenizer *t = some_tokenizer(&r, &made, &added);
		KP_AUTO(token_policy) struct kp_token_policy *policy = NULL;
		struct kp_err err = KP_ERR_INIT;
		kp_id mark;
		if (!t) {
			continue;
		}
		n_loaded++;
		mark = t->added[t->n_added - 1].id;
		assert_int_equal(kp_token_policy_create(
					 t, KP_POLICY_MARKERS, &mark, 1, &mark, 1, &policy, &err),
			0);
		for (int k = 0; k < 60; k++) {
			struct kp_encode_opts opts = { .policy = kp_rng_below(&r, 3) ? policy
										     : NULL };
			kp_buf_reset(&first.text);
			kp_ids_reset(&first.ids);
			first.n_runs = some_runs(&r, first.runs, 0, 0,
				some_text(&r, &first.text, 1 + kp_rng_below(&r, TEXT)));
			encode(t, s, &first, opts);
			if (first.cuts.n == 0) {
				continue;
			}
			struct kp_cut cut = first.cut[kp_rng_below(&r, first.cuts.n)];
			n_cuts++;
			kp_buf_reset(&whole.text);
			kp_ids_reset(&whole.ids);
			kp_buf_add(&whole.text, kp_str_sub(kp_buf_str(&first.text), 0, cut.text));
			some_text(&r, &whole.text, cut.text + kp_rng_below(&r, 40));
			memcpy(whole.runs, first.runs, sizeof(whole.runs));
			whole.n_runs =
				some_runs(&r, whole.runs, first.n_runs, cut.text, whole.text.n);
			encode(t, s, &whole, opts);
			kp_buf_reset(&rest.text);
			kp_ids_reset(&rest.ids);
			kp_buf_add(&rest.text, kp_buf_str(&whole.text));
			memcpy(rest.runs, whole.runs, sizeof(rest.runs));
			rest.n_runs = whole.n_runs;
			for (size_t i = 0; i < cut.ids; i++) {
				kp_ids_add(&rest.ids, first.ids.p[i]);
			}
			opts.from = cut;
			encode(t, s, &rest, opts);
			same(&rest, &whole, &first);
			/* The cuts of the whole are those before the place and those that going on from it gives. */
			size_t before = 0;
			while (before < whole.cuts.n && whole.cut[before].text <= cut.text) {
				before++;
			}
			assert_int_equal(whole.cuts.n - before, rest.cuts.n);
			assert_memory_equal(
				whole.cut + before, rest.cut, rest.cuts.n * sizeof(struct kp_cut));
		}
	}
	print_message("# %zu tokenizers, %zu cuts\n", n_loaded, n_cuts);
	assert_true(n_cuts > 5000);
	for (size_t i = 0; i < KP_LEN(all); i++) {
		kp_buf_fini(&all[i]->text);
		kp_ids_fini(&all[i]->ids);
	}
	kp_token_scratch_destroy(s);
	kp_arena_destroy(made.arena);
	kp_buf_fini(&added);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tk_14_what_stands_before_a_cut_does_not_depend_on_what_follows),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

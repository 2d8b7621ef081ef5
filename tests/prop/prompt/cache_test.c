/* TK-14: what the cache gives is what encoding gives. Conversations grow, are edited, forked and cut over made-up tokenizers, in caches from tiny to roomy, under scopes that
   must not meet; every step is encoded twice, with the cache and without. Real tokenizers and templates: tests/oracle/prompt/test_prompt_cache.py. */
#include "prompt/cache.h"
#include "tests/unit/token/naive.h"
#include "wire/list.h"

enum { CHATS = 6, MESSAGES = 24 };
#ifdef __SANITIZE_THREAD__
enum { STEPS = 2000 };
#else
enum { STEPS = 40000 }; /* KP_STEPS in the environment: so many (make check-prompt-long) */
#endif

static const char added[] =
	"{\"id\":%zu,\"content\":\"<s>\",\"special\":true,\"normalized\":false},"
	"{\"id\":%zu,\"content\":\"<e>\",\"special\":true,\"normalized\":false,\"rstrip\":%s},"
	"{\"id\":%zu,\"content\":\"<mark>\",\"special\":false,\"normalized\":%s},"
	"{\"id\":%zu,\"content\":\"<mark>x\",\"special\":false,\"normalized\":%s}";

struct message {
	char *text;
	size_t n;
	uint32_t origin;
};
struct chat {
	struct message m[MESSAGES];
	size_t n;
};

struct world {
	struct kp_rng r;
	struct made made;
	struct kp_tokenizer *t;
	struct kp_token_policy *policy;
	struct kp_token_scratch *scratch;
	struct chat chat[CHATS];
	struct kp_text_builder text;
	struct kp_ids want, got;
	struct kp_buf packed;
	size_t exact, prefix, encoded;
};

static void message_set(struct message *m, struct kp_rng *r)
{
	struct kp_buf b;
	kp_buf_init(&b, 1 << 16);
	made_text(r, kp_rng_below(r, kp_rng_below(r, 8) ? 90 : 700), &b);
	if (kp_rng_below(r, 4) == 0) {
		static const char *const odd[] = { "<e>", "<s>", "<mark>", "<mark>x", "  ",
			"<e> \n" };
		kp_buf_addz(&b, odd[kp_rng_below(r, KP_LEN(odd))]);
	}
	kp_free(&m->text);
	m->text = kp_xmalloc(b.n + 1);
	memcpy(m->text, b.p, b.n);
	m->n = b.n;
	m->origin = (uint32_t)kp_rng_below(r, 3);
	kp_buf_fini(&b);
}

static void chat_clear(struct chat *c, size_t n)
{
	while (c->n > n) {
		c->n--;
		kp_free(&c->m[c->n].text);
	}
}

/* One edit, mostly the next turn. */
static void edit(struct world *w, struct chat *c)
{
	struct kp_rng *r = &w->r;
	size_t what = kp_rng_below(r, 12);
	if (what < 7 || c->n == 0) {
		if (c->n == MESSAGES) {
			chat_clear(c, kp_rng_below(r, MESSAGES));
		}
		for (size_t k = 1 + kp_rng_below(r, 2); k && c->n < MESSAGES; k--) {
			message_set(&c->m[c->n++], r);
		}
	} else if (what == 7) {
		message_set(&c->m[kp_rng_below(r, c->n)], r);
	} else if (what == 8) {
		chat_clear(c, kp_rng_below(r, c->n));
	} else if (what == 9) { /* a fork of another one */
		const struct chat *from = &w->chat[kp_rng_below(r, CHATS)];
		if (from != c) {
			chat_clear(c, 0);
			for (size_t i = 0; i < from->n; i++) {
				c->m[i] = from->m[i];
				c->m[i].text = kp_xmalloc(from->m[i].n + 1);
				memcpy(c->m[i].text, from->m[i].text, from->m[i].n);
				c->n++;
			}
		}
	} else if (what == 10) { /* the same bytes, of someone else */
		struct message *m = &c->m[kp_rng_below(r, c->n)];
		m->origin = (m->origin + 1) % 3;
	} /* else: the same again */
}

static struct kp_text render(struct world *w, const struct chat *c)
{
	kp_text_builder_fini(&w->text);
	kp_text_builder_init(&w->text, 1 << 20);
	for (size_t i = 0; i < c->n; i++) {
		kp_text_builder_add(
			&w->text, i % 2 ? KP_S("<s>b\n") : KP_S("<s>a\n"), KP_ORIGIN_TRUSTED);
		kp_text_builder_add(&w->text, kp_str_n(c->m[i].text, c->m[i].n),
			(enum kp_origin)c->m[i].origin);
		kp_text_builder_add(&w->text, KP_S("<e>\n"), KP_ORIGIN_TRUSTED);
	}
	if (kp_rng_below(&w->r, 4)) {
		kp_text_builder_add(&w->text, KP_S("<s>b\n"), KP_ORIGIN_TRUSTED);
	}
	assert_false(w->text.bytes.failed);
	return (struct kp_text){ kp_buf_str(&w->text.bytes), w->text.runs, w->text.n };
}

static void world_init(struct world *w, uint64_t seed)
{
	struct kp_err err = KP_ERR_INIT;
	char list[1024];
	memset(w, 0, sizeof(*w));
	kp_rng_seed(&w->r, seed);
	made_init(&w->made, &w->r, 150, false);
	size_t id = w->made.n_tokens;
	const char *normalized = kp_rng_below(&w->r, 2) ? "true" : "false";
	snprintf(list, sizeof(list), added, id, id + 1, kp_rng_below(&w->r, 2) ? "true" : "false",
		id + 2, normalized, id + 3, normalized);
	w->t = made_load(&w->made, made_pretoks[kp_rng_below(&w->r, KP_LEN(made_pretoks))],
		kp_rng_below(&w->r, 2), false, list);
	kp_id mark = (kp_id)id + 2;
	assert_int_equal(kp_token_policy_create(
				 w->t, KP_POLICY_MARKERS, &mark, 1, &mark, 1, &w->policy, &err),
		0);
	w->scratch = kp_token_scratch_create(1 << 20);
	kp_ids_init(&w->want, 1 << 20);
	kp_ids_init(&w->got, 1 << 20);
	kp_buf_init(&w->packed, 8 << 20);
	kp_text_builder_init(&w->text, 1 << 20);
}

static void world_fini(struct world *w)
{
	for (size_t i = 0; i < CHATS; i++) {
		chat_clear(&w->chat[i], 0);
	}
	kp_text_builder_fini(&w->text);
	kp_ids_fini(&w->want);
	kp_ids_fini(&w->got);
	kp_buf_fini(&w->packed);
	kp_token_scratch_destroy(w->scratch);
	kp_token_policy_destroy(w->policy);
	kp_tokenizer_unref(w->t);
	kp_arena_destroy(w->made.arena);
}

/* What engines are sent is the ids. */
static void assert_packed(const struct kp_buf *packed, const struct kp_ids *ids)
{
	KP_AUTO(buf) struct kp_buf want;
	kp_buf_init(&want, 8 << 20);
	kp_wire_add_varints(&want, ids->p, ids->n);
	assert_true(kp_str_eq(kp_buf_str(packed), kp_buf_str(&want)));
}

static struct kp_prompt_use both(struct world *w, struct kp_prompt_cache *c,
	const struct kp_prompt_scope *scope, const struct kp_text *text,
	const struct kp_encode_opts *opts)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_prompt_use use;
	kp_ids_reset(&w->want);
	kp_ids_reset(&w->got);
	kp_buf_reset(&w->packed);
	assert_int_equal(kp_tokenizer_encode(w->t, w->scratch, text, opts, &w->want, &err), 0);
	assert_int_equal(kp_prompt_cache_encode(c, scope, w->t, w->scratch, text, opts, &w->got,
				 &w->packed, &use, &err),
		0);
	assert_ids(&w->got, &w->want, text->s);
	if (w->packed.n) {
		assert_packed(&w->packed, &w->got);
	} else { /* too short to be looked up */
		assert_int_equal(use.exact + use.prefix, 0);
	}
	assert_int_equal(use.exact + use.prefix + use.encoded, w->got.n);
	w->exact += use.exact;
	w->prefix += use.prefix;
	w->encoded += use.encoded;
	return use;
}

static void tk_14_cached_ids_are_encoded_ids(void **state)
{
	(void)state;
	static struct world w;
	uint64_t seed = test_seed();
	size_t steps = STEPS, evictions = 0, longest = 0;
	const char *z = getenv("KP_STEPS");
	uint64_t n;
	if (z && kp_str_u64(kp_str_c(z), UINT32_MAX, &n)) {
		steps = (size_t)n;
	}
	size_t exact = 0, prefix = 0, encoded = 0;
	for (size_t done = 0; done < steps; seed++) {
		world_init(&w, seed);
		static const size_t budgets[] = { 6 << 10, 40 << 10, 300 << 10, 32 << 20 };
		size_t max = budgets[seed % KP_LEN(budgets)];
		struct kp_prompt_cache *c = kp_prompt_cache_create(max);
		struct kp_prompt_cache_stats stats;
		/* All budgets have their turn. */
		size_t here = KP_MIN(steps / (2 * KP_LEN(budgets)), (size_t)6000);
		for (size_t k = 0; k <= here && done < steps; k++, done++) {
			struct chat *chat = &w.chat[kp_rng_below(&w.r, CHATS)];
			edit(&w, chat);
			struct kp_text text = render(&w, chat);
			struct kp_prompt_scope scope = { .fingerprint = 1,
				.salt = kp_rng_below(&w.r, 20) ? KP_STR_NULL : KP_S("salt") };
			struct kp_encode_opts opts = { .policy = kp_rng_below(&w.r, 10) ? w.policy
											: NULL,
				.add_special = kp_rng_below(&w.r, 10) == 0 };
			longest = KP_MAX(longest, text.s.n);
			(void)both(&w, c, &scope, &text, &opts);
			kp_prompt_cache_stats(c, &stats);
			assert_true(stats.bytes <= max);
		}
		evictions += stats.evictions;
		kp_prompt_cache_destroy(c);
		exact += w.exact;
		prefix += w.prefix;
		encoded += w.encoded;
		world_fini(&w);
	}
	print_message(
		"# %zu steps, longest %zu bytes; tokens: %zu exact, %zu prefix, %zu encoded; %zu evictions\n",
		steps, longest, exact, prefix, encoded, evictions);
	assert_true(exact && prefix && encoded && evictions);
}

/* Who asks with another scope, policy, add_special or origin gets nothing of this one. */
static void scopes_never_share(void **state)
{
	(void)state;
	static struct world w;
	world_init(&w, test_seed());
	struct kp_prompt_cache *c = kp_prompt_cache_create(1 << 20);
	const struct kp_prompt_scope scopes[] = { { 1, KP_S("m"), KP_S(""), KP_S("") },
		{ 2, KP_S("m"), KP_S(""), KP_S("") }, { 1, KP_S("m2"), KP_S(""), KP_S("") },
		{ 1, KP_S("m"), KP_S("t"), KP_S("") }, { 1, KP_S("m"), KP_S(""), KP_S("t") },
		{ 1, KP_S(""), KP_S("m"), KP_S("") }, { 1, KP_S("m"), KP_S("t"), KP_S("salt") },
		{ 1, KP_S("m"), KP_S("ts"), KP_S("alt") } };
	struct chat *chat = &w.chat[0];
	for (size_t i = 0; i < 8; i++) {
		message_set(&chat->m[chat->n++], &w.r);
	}
	struct kp_text text = render(&w, chat);
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < KP_LEN(scopes); i++) {
			for (int special = 0; special < 2; special++) {
				struct kp_encode_opts opts = { .policy = w.policy,
					.add_special = special };
				struct kp_prompt_use use = both(&w, c, &scopes[i], &text, &opts);
				assert_int_equal(pass ? use.encoded : use.exact + use.prefix, 0);
				opts.policy = NULL;
				use = both(&w, c, &scopes[i], &text, &opts);
				assert_int_equal(pass ? use.encoded : use.exact + use.prefix, 0);
			}
		}
	}
	/* Another's bytes, though they are the same: what follows the first of them is encoded anew. */
	chat->m[2].origin = (chat->m[2].origin + 1) % 3;
	if (chat->m[2].n) {
		text = render(&w, chat);
		struct kp_prompt_use use = both(
			&w, c, &scopes[0], &text, &(struct kp_encode_opts){ .policy = w.policy });
		assert_int_equal(use.exact, 0);
		assert_true(use.encoded > 0);
	}
	kp_prompt_cache_destroy(c);
	world_fini(&w);
}

/* Turn by turn, for longer than nodes are hung on one another: only what a turn adds, and a little before it, is encoded. */
static void a_turn_costs_what_it_adds(void **state)
{
	(void)state;
	static struct world w;
	struct kp_buf b;
	struct kp_ids added_ids;
	size_t ends[100];
	world_init(&w, test_seed());
	kp_buf_init(&b, 1 << 20);
	kp_ids_init(&added_ids, 1 << 20);
	struct kp_prompt_cache *c = kp_prompt_cache_create(16 << 20);
	struct kp_prompt_scope scope = { .fingerprint = 1 };
	struct kp_prompt_cache_stats stats;
	for (int turn = 0; turn < 100; turn++) {
		struct kp_buf one;
		struct kp_err err = KP_ERR_INIT;
		kp_buf_init(&one, 1 << 20);
		kp_buf_lit(&one, "<s>a\n");
		made_text(&w.r, 300, &one);
		kp_buf_lit(&one, "<e>\n<s>b\n");
		kp_buf_add(&b, kp_buf_str(&one));
		struct kp_text text = kp_text_trusted(kp_buf_str(&b)),
			       alone = kp_text_trusted(kp_buf_str(&one));
		struct kp_encode_opts opts = { .policy = NULL };
		kp_ids_reset(&added_ids);
		assert_int_equal(
			kp_tokenizer_encode(w.t, w.scratch, &alone, &opts, &added_ids, &err), 0);
		struct kp_prompt_use use = both(&w, c, &scope, &text, &opts);
		assert_true(use.encoded <= added_ids.n + 4);
		use = both(&w, c, &scope, &text, &opts);
		assert_int_equal(use.encoded, 0);
		kp_buf_fini(&one);
		ends[turn] = b.n;
	}
	/* Kept once: text, ids, slots and some for each node; three times with the lines that were made anew. */
	kp_prompt_cache_stats(c, &stats);
	assert_int_equal(stats.entries, 100);
	assert_true(stats.bytes < (16 << 20) / 64 + 16 * 8 + 8 * (b.n + w.got.n * sizeof(kp_id)));
	/* Another way to go on, anywhere: from that turn on, whichever nodes it lies in. */
	for (int k = 0; k < 200; k++) {
		size_t turn = kp_rng_below(&w.r, KP_LEN(ends));
		struct kp_buf fork;
		kp_buf_init(&fork, 1 << 20);
		kp_buf_add(&fork, kp_str_sub(kp_buf_str(&b), 0, ends[turn]));
		kp_buf_lit(&fork, "another");
		struct kp_text text = kp_text_trusted(kp_buf_str(&fork));
		struct kp_prompt_use use =
			both(&w, c, &scope, &text, &(struct kp_encode_opts){ .policy = NULL });
		assert_true(use.encoded < 16);
		kp_buf_fini(&fork);
	}
	kp_prompt_cache_destroy(c);
	kp_buf_fini(&b);
	kp_ids_fini(&added_ids);
	world_fini(&w);
}

/* The maximum of ids is exact, and an error is the encoder's, cached or not. */
static void errors_are_the_encoders(void **state)
{
	(void)state;
	static struct world w;
	struct kp_prompt_use use;
	world_init(&w, test_seed());
	struct kp_prompt_cache *c = kp_prompt_cache_create(1 << 20);
	struct kp_prompt_scope scope = { .fingerprint = 1 };
	struct kp_encode_opts opts = { .policy = w.policy };
	for (size_t i = 0; i < 12; i++) {
		message_set(&w.chat[0].m[w.chat[0].n++], &w.r);
	}
	struct kp_text text = render(&w, &w.chat[0]);
	for (int pass = 0; pass < 2; pass++) {
		for (int k = 0; k < 40; k++) {
			struct kp_err want = KP_ERR_INIT, got = KP_ERR_INIT;
			struct kp_ids a, b;
			size_t max = kp_rng_below(&w.r, 400);
			kp_ids_init(&a, max);
			kp_ids_init(&b, max);
			kp_buf_reset(&w.packed);
			int r = kp_tokenizer_encode(w.t, w.scratch, &text, &opts, &a, &want);
			assert_int_equal(kp_prompt_cache_encode(c, &scope, w.t, w.scratch, &text,
						 &opts, &b, &w.packed, &use, &got),
				r);
			assert_string_equal(got.msg, want.msg);
			assert_int_equal(got.code, want.code);
			assert_ids(&b, &a, text.s);
			kp_ids_fini(&a);
			kp_ids_fini(&b);
		}
		(void)both(&w, c, &scope, &text, &opts);
	}
	char bad[200];
	memset(bad, 'a', sizeof(bad));
	bad[150] = '\xff';
	struct kp_err err = KP_ERR_INIT;
	struct kp_text broken = kp_text_trusted(kp_str_n(bad, sizeof(bad)));
	kp_ids_reset(&w.got);
	kp_buf_reset(&w.packed);
	assert_int_equal(kp_prompt_cache_encode(c, &scope, w.t, w.scratch, &broken, &opts, &w.got,
				 &w.packed, &use, &err),
		-1);
	assert_string_equal(err.msg, "encode text: invalid UTF-8 at byte `150`");
	/* No cache at all. */
	kp_ids_reset(&w.got);
	kp_buf_reset(&w.packed);
	assert_int_equal(kp_prompt_cache_encode(NULL, &scope, w.t, w.scratch, &text, &opts, &w.got,
				 &w.packed, &use, &err),
		0);
	assert_int_equal(use.encoded, w.got.n);
	kp_prompt_cache_destroy(c);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tk_14_cached_ids_are_encoded_ids),
		cmocka_unit_test(scopes_never_share),
		cmocka_unit_test(a_turn_costs_what_it_adds),
		cmocka_unit_test(errors_are_the_encoders),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

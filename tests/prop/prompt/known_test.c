/* Turns whose messages are looked up are read as turns whose messages are not: the same values and images, and both or neither refused. Conversations grow, are edited, forked and
   broken, in caches from tiny to roomy, by one thread and by several. */
#include "prompt/known.h"

#include "json/skim.h"
#include "prompt/cache.h"
#include "prompt/messages.h"
#include "tests/prop/prompt/talk.h"
#include "tests/test.h"

#include <pthread.h>

enum { TALKS = 6, MEMORY = 16 << 20, THREADS = 4 };
#ifdef __SANITIZE_THREAD__
enum { STEPS = 1500, SHARED_STEPS = 400 };
#else
enum { STEPS = 20000, SHARED_STEPS = 3000 };
#endif

struct world {
	struct kp_rng r;
	struct kp_prompt_cache *cache;
	struct talk talk[TALKS];
	struct kp_buf text, want, got;
	struct kp_arena *a, *b;
	size_t read, refused, known, wrong;
};

static void world_init(struct world *w, uint64_t seed, struct kp_prompt_cache *c)
{
	*w = (struct world){ .cache = c };
	kp_rng_seed(&w->r, seed);
	kp_buf_init(&w->text, MEMORY);
	kp_buf_init(&w->want, MEMORY);
	kp_buf_init(&w->got, MEMORY);
	w->a = kp_arena_create(MEMORY);
	w->b = kp_arena_create(MEMORY);
}

static void world_fini(struct world *w)
{
	for (size_t i = 0; i < TALKS; i++) {
		talk_clear(&w->talk[i], 0);
	}
	kp_buf_fini(&w->text);
	kp_buf_fini(&w->want);
	kp_buf_fini(&w->got);
	kp_arena_destroy(w->a);
	kp_arena_destroy(w->b);
}

static void show(const struct kp_turn *t, struct kp_buf *out)
{
	kp_buf_reset(out);
	kp_jv_write(&t->chat.messages, out);
	for (size_t i = 0; i < t->chat.n_media; i++) {
		const struct kp_media_part *m = &t->chat.media[i];
		kp_buf_printf(out, "%u %u %" KP_FMT, m->message, m->part, KP_ARG(m->url));
	}
}

/* Whether both ways of reading w->text agree. */
static bool agree(struct world *w, kp_str salt, bool keep)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_json j;
	kp_arena_reset(w->a);
	kp_arena_reset(w->b);
	struct kp_turn want = { .arena = w->a },
		       got = { .arena = w->b, .cache = w->cache, .cache_salt = salt };
	kp_str text = kp_buf_str(&w->text);
	kp_json_init(&j, text, w->a);
	kp_json_reopen_array(&j, j.p, 1, true); /* as deep as it is in a body */
	bool reads = kp_messages_read(&j, &want, &err) == 0 && j.p == j.end;
	bool ends = kp_json_skim(text.p, text.p + text.n) == text.p + text.n;
	if (reads != (ends && kp_known_read(text, &got) == 0)) {
		return false;
	}
	w->read += reads;
	w->refused += !reads;
	if (!reads) {
		return true;
	}
	w->known += kp_known_count(&got);
	show(&want, &w->want);
	show(&got, &w->got);
	if (keep) {
		kp_known_keep(&got);
	}
	return kp_str_eq(kp_buf_str(&w->want), kp_buf_str(&w->got)) &&
	       kp_jv_eq(&want.chat.messages, &got.chat.messages);
}

static void step(struct world *w)
{
	struct talk *t = &w->talk[kp_rng_below(&w->r, TALKS)];
	talk_edit(t, &w->talk[kp_rng_below(&w->r, TALKS)], &w->r);
	kp_buf_reset(&w->text);
	talk_write(t, &w->r, &w->text);
	if (kp_rng_below(&w->r, 50) == 0) {
		w->text.p[1 + kp_rng_below(&w->r, w->text.n - 1)] =
			"x\"\\[]{},\xff"[kp_rng_below(&w->r, 9)];
	}
	kp_str salt = kp_rng_below(&w->r, 20) ? KP_STR_NULL : KP_S("salt");
	w->wrong += !agree(w, salt, kp_rng_below(&w->r, 10) != 0);
}

static void test_read_as_without(void **state)
{
	(void)state;
	static const size_t budgets[] = { 20 << 10, 100 << 10, 600 << 10, 32 << 20 };
	uint64_t seed = test_seed(), evictions = 0;
	size_t read = 0, refused = 0, known = 0;
	for (size_t i = 0; i < KP_LEN(budgets); i++) {
		struct kp_prompt_cache *c = kp_prompt_cache_create(budgets[i]);
		struct kp_prompt_cache_stats stats;
		struct world w;
		world_init(&w, seed + i, c);
		for (size_t k = 0; k < STEPS / KP_LEN(budgets); k++) {
			step(&w);
			if (w.wrong) {
				fail_msg("step %zu: %" KP_FMT, k, KP_ARG(kp_buf_str(&w.text)));
			}
			kp_prompt_cache_stats(c, &stats);
			assert_true(stats.bytes <= budgets[i]);
		}
		read += w.read;
		refused += w.refused;
		known += w.known;
		evictions += stats.evictions;
		world_fini(&w);
		kp_prompt_cache_destroy(c);
	}
	print_message("# %zu read, %zu refused, %zu messages known, %zu evictions\n", read, refused,
		known, (size_t)evictions);
	assert_true(read > refused && known > read && evictions);
}

/* A turn knows all that the turn before had, for longer than nodes hang on one another; another salt, model or tenant knows nothing. */
static void test_what_is_known(void **state)
{
	(void)state;
	struct world w;
	struct kp_turn t;
	world_init(&w, test_seed(), kp_prompt_cache_create(4 << 20));
	for (uint32_t turn = 0; turn < 100; turn++) {
		kp_buf_printf(&w.text, "%s{\"role\":\"user\",\"content\":\"", turn ? ", " : "[");
		for (int k = 0; k < 40; k++) {
			kp_buf_printf(&w.text, "%llx \\n", (unsigned long long)kp_rng_next(&w.r));
		}
		kp_buf_lit(&w.text, "\"}]");
		for (int who = 0; who < 4; who++) {
			kp_arena_reset(w.b);
			t = (struct kp_turn){ .arena = w.b, .cache = w.cache };
			*(who == 1         ? &t.model
				: who == 2 ? &t.tenant
					   : &t.cache_salt) = who ? KP_S("x") : KP_S("");
			assert_int_equal(kp_known_read(kp_buf_str(&w.text), &t), 0);
			assert_int_equal(t.chat.messages.n, turn + 1);
			assert_int_equal(kp_known_count(&t), who ? 0 : turn);
			if (who == 0) {
				kp_known_keep(&t);
			}
		}
		w.text.n--;
	}
	kp_prompt_cache_destroy(w.cache);
	w.cache = NULL;
	kp_arena_reset(w.b);
	world_fini(&w);
}

static void *run(void *arg)
{
	struct world *w = arg;
	for (size_t k = 0; k < SHARED_STEPS; k++) {
		step(w);
	}
	return NULL;
}

/* Several threads with the same beginnings, and nodes that go all the time. */
static void test_threads(void **state)
{
	(void)state;
	struct kp_prompt_cache *c = kp_prompt_cache_create(200 << 10);
	static struct world w[THREADS];
	pthread_t id[THREADS];
	size_t known = 0;
	uint64_t seed = test_seed();
	for (size_t i = 0; i < THREADS; i++) {
		world_init(&w[i], seed + i / 2, c); /* two of them say the same */
		assert_int_equal(pthread_create(&id[i], NULL, run, &w[i]), 0);
	}
	for (size_t i = 0; i < THREADS; i++) {
		pthread_join(id[i], NULL);
		assert_int_equal(w[i].wrong, 0);
		known += w[i].known;
		world_fini(&w[i]);
	}
	assert_true(known);
	kp_prompt_cache_destroy(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read_as_without),
		cmocka_unit_test(test_what_is_known),
		cmocka_unit_test(test_threads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

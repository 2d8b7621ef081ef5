/* Threads that share one cache, with conversations that begin alike and a budget that makes nodes go all the time: each gets the ids of its own text. Under ThreadSanitizer
   (make check-tsan M=prompt) it also says what is not guarded. */
#include "prompt/cache.h"
#include "prompt/cache_table.h"
#include "tests/unit/token/naive.h"

#include <pthread.h>

enum { THREADS = 4, LONG = 3000, TEXTS = 10 };
#ifdef __SANITIZE_THREAD__
enum { STEPS = 300, LONG_STEPS = 60 };
#else
enum { STEPS = 1500, LONG_STEPS = 300 };
#endif

static struct made made;
static struct kp_tokenizer *t;
static struct kp_prompt_cache *cache;

struct thread {
	pthread_t id;
	uint64_t seed;
	size_t hits, wrong;
};

static void *run(void *arg)
{
	struct thread *me = arg;
	struct kp_rng r;
	struct kp_err err;
	struct kp_ids want, got;
	struct kp_buf packed;
	struct kp_buf text;
	struct kp_token_scratch *s = kp_token_scratch_create(1 << 20);
	struct kp_prompt_scope scope = { .fingerprint = 1 };
	struct kp_encode_opts opts = { .policy = NULL };
	kp_rng_seed(&r, me->seed);
	kp_ids_init(&want, 1 << 20);
	kp_ids_init(&got, 1 << 20);
	kp_buf_init(&packed, 1 << 20);
	kp_buf_init(&text, 1 << 20);
	for (int i = 0; i < STEPS; i++) {
		struct kp_prompt_use use;
		if (text.n > 6000 || kp_rng_below(&r, 10) == 0) {
			kp_buf_reset(&text);
		}
		if (text.n == 0) {
			struct kp_rng same;
			kp_rng_seed(
				&same, kp_rng_below(&r, 3)); /* few beginnings, of all threads */
			made_text(&same, 500, &text);
			kp_buf_lit(&text, "<e>");
		}
		made_text(&r, text.n + 10 + kp_rng_below(&r, 200), &text);
		kp_buf_lit(&text, "<e>\n");
		struct kp_text whole = kp_text_trusted(kp_buf_str(&text));
		kp_ids_reset(&want);
		kp_ids_reset(&got);
		kp_buf_reset(&packed);
		me->wrong += kp_tokenizer_encode(t, s, &whole, &opts, &want, &err) != 0;
		me->wrong += kp_prompt_cache_encode(cache, &scope, t, s, &whole, &opts, &got,
				     &packed, &use, &err) != 0;
		me->wrong += want.n != got.n || memcmp(want.p, got.p, got.n * sizeof(kp_id)) != 0;
		me->hits += use.exact + use.prefix > 0;
	}
	kp_ids_fini(&want);
	kp_ids_fini(&got);
	kp_buf_fini(&packed);
	kp_buf_fini(&text);
	kp_token_scratch_destroy(s);
	return NULL;
}

static void threads_share_a_cache(void **state)
{
	(void)state;
	struct kp_rng r;
	struct thread thread[THREADS] = { 0 };
	struct kp_prompt_cache_stats stats;
	char added[128];
	uint64_t seed = test_seed();
	kp_rng_seed(&r, seed);
	made_init(&made, &r, 100, false);
	snprintf(added, sizeof(added),
		"{\"id\":%zu,\"content\":\"<e>\",\"special\":true,\"normalized\":false}",
		made.n_tokens);
	t = made_load(&made, made_pretoks[0], false, false, added);
	cache = kp_prompt_cache_create(100 << 10);
	for (size_t i = 0; i < THREADS; i++) {
		thread[i].seed = seed + i;
		assert_int_equal(pthread_create(&thread[i].id, NULL, run, &thread[i]), 0);
	}
	for (size_t i = 0; i < THREADS; i++) {
		pthread_join(thread[i].id, NULL);
		assert_int_equal(thread[i].wrong, 0);
		assert_true(thread[i].hits > STEPS / 4);
	}
	kp_prompt_cache_stats(cache, &stats);
	assert_true(stats.evictions > 20);
	assert_true(stats.bytes <= 100 << 10);
	kp_prompt_cache_destroy(cache);
	kp_tokenizer_unref(t);
	kp_arena_destroy(made.arena);
}

/* --- nodes of so many slots that they are put in and taken out in several goes; room for four of them --------------- */

static struct kp_prompt_table *table;

/* Text i's; the first block is that of all. */
static void hashes_of(uint64_t i, uint64_t ret[LONG])
{
	for (uint64_t k = 0; k < LONG; k++) {
		ret[k] = k ? (i * LONG + k) * UINT64_C(0x9e3779b97f4a7c15) : 5;
	}
}

static void *come_and_go(void *arg)
{
	struct thread *me = arg;
	struct kp_rng r;
	uint64_t *hashes = kp_xmalloc(LONG * sizeof(*hashes));
	kp_rng_seed(&r, me->seed);
	for (int i = 0; i < LONG_STEPS; i++) {
		kp_id id = (kp_id)kp_rng_below(&r, TEXTS);
		struct kp_prompt_node *found[KP_PROMPT_FOUND];
		hashes_of(id, hashes);
		size_t n = kp_prompt_table_find(table, hashes, LONG, found), known = 0;
		for (size_t k = 0; k < n; k++) {
			known += found[k]->ids[0] == id;
			kp_prompt_node_unref(found[k]);
		}
		me->hits += known;
		if (!known) {
			struct kp_text text = kp_text_trusted(KP_S("text"));
			struct kp_ids ids = { .p = &id, .n = 1 };
			struct kp_cuts cuts = { 0 };
			struct kp_prompt_place none = { 0 };
			kp_prompt_table_add(table, hashes, LONG,
				kp_prompt_node_create(&none, KP_S("scope"), &text, &ids, KP_S("\1"),
					&cuts, hashes, LONG, SIZE_MAX));
		}
	}
	kp_mem_free(hashes);
	return NULL;
}

static void long_ones_come_and_go(void **state)
{
	(void)state;
	struct thread thread[THREADS] = { 0 };
	struct kp_prompt_cache_stats stats;
	struct kp_prompt_node *found[KP_PROMPT_FOUND];
	uint64_t *hashes = kp_xmalloc(LONG * sizeof(*hashes)), seed = test_seed();
	size_t there = 0;
	table = kp_prompt_table_create(4 * LONG * sizeof(struct kp_prompt_slot) + (20 << 10));
	for (size_t i = 0; i < THREADS; i++) {
		thread[i].seed = seed + i;
		assert_int_equal(pthread_create(&thread[i].id, NULL, come_and_go, &thread[i]), 0);
	}
	for (size_t i = 0; i < THREADS; i++) {
		pthread_join(thread[i].id, NULL);
		assert_true(thread[i].hits > 0);
	}
	kp_prompt_table_stats(table, &stats);
	assert_true(stats.entries <= 4 && stats.evictions > 20);
	assert_true(stats.bytes <= stats.max_bytes);
	/* Whoever is there is there from begin to end (two threads may have put the same one in), and nobody else has left a slot. */
	for (kp_id id = 0; id < TEXTS; id++) {
		hashes_of(id, hashes);
		size_t whole = 0;
		for (size_t k = LONG - 1; k; k--) {
			const uint64_t probe[] = { 5 + (UINT64_C(16) << 32),
				hashes[k] }; /* that shard, a block of nobody's */
			size_t n = kp_prompt_table_find(table, probe, 2, found);
			for (size_t i = 0; i < n; i++) {
				assert_int_equal(found[i]->ids[0], id);
				kp_prompt_node_unref(found[i]);
			}
			whole = k == LONG - 1 ? n : whole;
			assert_int_equal(n, whole);
		}
		there += whole;
	}
	assert_int_equal(there, stats.entries);
	kp_prompt_table_destroy(table);
	kp_mem_free(hashes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_share_a_cache),
		cmocka_unit_test(long_ones_come_and_go),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

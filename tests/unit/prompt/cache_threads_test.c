/* Threads that share one cache, with conversations that begin alike and a budget that makes nodes go all the time: each gets the ids of its own text. Under ThreadSanitizer
   (make check-tsan M=prompt) it also says what is not guarded. */
#include "prompt/cache.h"
#include "tests/unit/token/naive.h"

#include <pthread.h>

enum { THREADS = 4, STEPS = 1500 };

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
	struct kp_buf text;
	struct kp_token_scratch *s = kp_token_scratch_create(1 << 20);
	struct kp_prompt_scope scope = { .fingerprint = 1 };
	struct kp_encode_opts opts = { .policy = NULL };
	kp_rng_seed(&r, me->seed);
	kp_ids_init(&want, 1 << 20);
	kp_ids_init(&got, 1 << 20);
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
		me->wrong += kp_tokenizer_encode(t, s, &whole, &opts, &want, &err) != 0;
		me->wrong += kp_prompt_cache_encode(
				     cache, &scope, t, s, &whole, &opts, &got, &use, &err) != 0;
		me->wrong += want.n != got.n || memcmp(want.p, got.p, got.n * sizeof(kp_id)) != 0;
		me->hits += use.exact + use.prefix > 0;
	}
	kp_ids_fini(&want);
	kp_ids_fini(&got);
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
	assert_true(stats.evictions > 100);
	assert_true(stats.bytes <= 100 << 10);
	kp_prompt_cache_destroy(cache);
	kp_tokenizer_unref(t);
	kp_arena_destroy(made.arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(threads_share_a_cache) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}

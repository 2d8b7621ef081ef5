/* The map against a naive list: the same random sets, deletes and look-ups give the same answers, and iteration gives exactly what
   the list holds, in order of insertion as long as nothing was deleted. */
#include "base/map.h"
#include "tests/test.h"

enum { KEYS = 400 };

struct naive {
	unsigned key[KEYS]; /* in order of insertion */
	void *value[KEYS];
	size_t n;
};

static size_t find(const struct naive *l, unsigned key)
{
	size_t i = 0;
	while (i < l->n && l->key[i] != key) {
		i++;
	}
	return i;
}

static void *list_set(struct naive *l, unsigned key, void *value)
{
	size_t i = find(l, key);
	void *old = i < l->n ? l->value[i] : NULL;
	l->key[i] = key;
	l->value[i] = value;
	l->n = KP_MAX(l->n, i + 1);
	return old;
}

static void *list_del(struct naive *l, unsigned key)
{
	size_t i = find(l, key);
	if (i == l->n) {
		return NULL;
	}
	void *old = l->value[i];
	l->n--;
	memmove(&l->key[i], &l->key[i + 1], (l->n - i) * sizeof(l->key[0]));
	memmove(&l->value[i], &l->value[i + 1], (l->n - i) * sizeof(l->value[0]));
	return old;
}

/* Keys of all lengths, with NUL bytes, some a prefix of others. */
static kp_str key_of(unsigned k, char text[64])
{
	memset(text, 'x', 64);
	int n = snprintf(text, 64, "%u", k / 2);
	return kp_str_n(text, k % 2 ? (size_t)n : (size_t)n + 1 + k % 50);
}

static void compare(const struct kp_map *m, const struct naive *l, bool ordered)
{
	char text[64];
	assert_int_equal(m->n, l->n);
	size_t seen = 0;
	struct kp_map_entry *e;
	for (size_t pos = 0; (e = kp_map_next(m, &pos)) != NULL; seen++) {
		if (ordered) {
			assert_str(e->key, key_of(l->key[seen], text));
			assert_ptr_equal(e->value, l->value[seen]);
		}
	}
	assert_int_equal(seen, l->n);
	for (unsigned k = 0; k < KEYS; k++) {
		size_t i = find(l, k);
		assert_ptr_equal(kp_map_get(m, key_of(k, text)), i < l->n ? l->value[i] : NULL);
	}
}

static void it_behaves_like_a_list(void **state)
{
	(void)state;
	static char values[64];
	struct kp_rng rng;
	kp_rng_seed(&rng, test_seed());
	for (int round = 0; round < 60; round++) {
		struct kp_map m;
		struct naive l = { .n = 0 };
		char text[64];
		kp_map_init(&m);
		uint64_t keys = 1 + kp_rng_below(&rng, KEYS), deletes = kp_rng_below(&rng, 60);
		bool deleted = false;
		for (int step = 0; step < 3000; step++) {
			unsigned k = (unsigned)kp_rng_below(&rng, keys);
			if (kp_rng_below(&rng, 100) < deletes) {
				assert_ptr_equal(kp_map_del(&m, key_of(k, text)), list_del(&l, k));
				deleted = true;
			} else {
				void *v = &values[kp_rng_below(&rng, sizeof(values))];
				assert_ptr_equal(
					kp_map_set(&m, key_of(k, text), v), list_set(&l, k, v));
			}
			if (step % 200 == 0) {
				compare(&m, &l, !deleted);
			}
		}
		compare(&m, &l, !deleted);
		kp_map_fini(&m, NULL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(it_behaves_like_a_list) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}

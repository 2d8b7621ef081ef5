/* The hash map by example, and SipHash-1-3 against Python's; tests/prop/base/map_test.c compares it with a naive list. */
#include "base/map.h"
#include "tests/test.h"

static int one = 1, two = 2, three = 3;

static void absent_and_empty(void **state)
{
	(void)state;
	struct kp_map m;
	kp_map_init(&m);
	size_t pos = 0;
	assert_null(kp_map_get(&m, KP_S("a")));
	assert_null(kp_map_del(&m, KP_S("a")));
	assert_null(kp_map_next(&m, &pos));
	kp_map_fini(&m, NULL);
	kp_map_fini(&m, NULL);
}

static void set_gives_the_old_value_back(void **state)
{
	(void)state;
	struct kp_map m;
	kp_map_init(&m);
	assert_null(kp_map_set(&m, KP_S("k"), &one));
	assert_ptr_equal(kp_map_set(&m, KP_S("k"), &two), &one);
	assert_ptr_equal(kp_map_get(&m, KP_S("k")), &two);
	assert_int_equal(m.n, 1);
	assert_ptr_equal(kp_map_del(&m, KP_S("k")), &two);
	assert_null(kp_map_del(&m, KP_S("k")));
	assert_int_equal(m.n, 0);
	kp_map_fini(&m, NULL);
}

static void keys_are_bytes_and_copied(void **state)
{
	(void)state;
	struct kp_map m;
	kp_map_init(&m);
	char key[] = "a\0b";
	kp_map_set(&m, kp_str_n(key, 3), &one);
	kp_map_set(&m, KP_S("a"), &two);
	kp_map_set(&m, KP_S(""), &three);
	key[2] = 'c';
	assert_ptr_equal(kp_map_get(&m, KP_S("a\0b")), &one);
	assert_null(kp_map_get(&m, kp_str_n(key, 3)));
	assert_ptr_equal(kp_map_get(&m, KP_S("a")), &two);
	assert_ptr_equal(kp_map_get(&m, KP_STR_NULL), &three);
	assert_ptr_equal(kp_map_del(&m, KP_STR_NULL), &three);
	kp_map_fini(&m, NULL);
}

static void iteration_is_in_order_of_insertion(void **state)
{
	(void)state;
	struct kp_map m;
	kp_map_init(&m);
	char key[16];
	for (int i = 0; i < 1000; i++) {
		snprintf(key, sizeof(key), "%d", i);
		kp_map_set(&m, kp_str_c(key), &one);
	}
	kp_map_set(&m, KP_S("5"), &two); /* a new value, the old place */
	int i = 0;
	struct kp_map_entry *e;
	for (size_t pos = 0; (e = kp_map_next(&m, &pos)) != NULL; i++) {
		snprintf(key, sizeof(key), "%d", i);
		assert_str(e->key, kp_str_c(key));
		assert_int_equal(e->key.p[e->key.n], '\0');
	}
	assert_int_equal(i, 1000);
	kp_map_fini(&m, NULL);
}

static void deleting_while_iterating(void **state)
{
	(void)state;
	struct kp_map m;
	kp_map_init(&m);
	char key[16];
	for (int i = 0; i < 100; i++) {
		snprintf(key, sizeof(key), "%d", i);
		kp_map_set(&m, kp_str_c(key), i % 3 ? &one : &two);
	}
	struct kp_map_entry *e;
	for (size_t pos = 0; (e = kp_map_next(&m, &pos)) != NULL;) {
		if (e->value == &two) {
			kp_map_del(&m, e->key);
		}
	}
	assert_int_equal(m.n, 66);
	for (size_t pos = 0; (e = kp_map_next(&m, &pos)) != NULL;) {
		assert_ptr_equal(e->value, &one);
	}
	kp_map_fini(&m, NULL);
}

static void churn_does_not_grow_it(void **state)
{
	(void)state;
	struct kp_map m;
	kp_map_init(&m);
	char key[16];
	for (int i = 0; i < 100000; i++) {
		snprintf(key, sizeof(key), "%d", i);
		kp_map_set(&m, kp_str_c(key), &one);
		snprintf(key, sizeof(key), "%d", i - 10);
		kp_map_del(&m, kp_str_c(key));
	}
	assert_int_equal(m.n, 10);
	assert_in_range(m.n_slots, 16, 64);
	kp_map_fini(&m, NULL);
}

static size_t destroyed;
static void count(void *value)
{
	(void)value;
	destroyed++;
}
static void fini_destroys_what_is_left(void **state)
{
	(void)state;
	struct kp_map m;
	kp_map_init(&m);
	kp_map_set(&m, KP_S("a"), &one);
	kp_map_set(&m, KP_S("b"), &one);
	kp_map_set(&m, KP_S("c"), &one);
	kp_map_del(&m, KP_S("b"));
	destroyed = 0;
	kp_map_fini(&m, count);
	assert_int_equal(destroyed, 2);
}

static void set_null(void *arg)
{
	kp_map_set(arg, KP_S("k"), NULL);
}
static void a_null_value_is_a_bug(void **state)
{
	(void)state;
	struct kp_map m;
	kp_map_init(&m);
	assert_dies(set_null, &m);
	kp_map_fini(&m, NULL);
}

/* Python hashes bytes with SipHash-1-3 (sys.hash_info.algorithm, 3.11 and newer): PYTHONHASHSEED=0 is the zero key, another seed
   fills the key from a linear generator (Python/bootstrap_hash.c, lcg_urandom). The texts are bytes(range(n)). */
static void siphash_is_python_s(void **state)
{
	(void)state;
	static const struct {
		uint32_t seed;
		size_t n;
		uint64_t want;
	} table[] = {
		{ 0, 1, UINT64_C(0x68a914128e01e473) },
		{ 0, 7, UINT64_C(0x2f098ab0c751325a) },
		{ 0, 8, UINT64_C(0xead411e67ebe2eea) },
		{ 0, 9, UINT64_C(0x75927f9d95124362) },
		{ 0, 15, UINT64_C(0xf30eb725bb91c9ea) },
		{ 0, 16, UINT64_C(0x8972188433a5c5b7) },
		{ 0, 17, UINT64_C(0x4883c49a2c009c1d) },
		{ 0, 63, UINT64_C(0x385d3e39e5f37359) },
		{ 42, 1, UINT64_C(0xce880c366bcf3489) },
		{ 42, 7, UINT64_C(0xce280fabc397fbda) },
		{ 42, 8, UINT64_C(0x60866c3c108c6afb) },
		{ 42, 9, UINT64_C(0x68814005f7469e03) },
		{ 42, 15, UINT64_C(0x94ace24d68c18cf8) },
		{ 42, 16, UINT64_C(0x339176f3ac59ce05) },
		{ 42, 17, UINT64_C(0xed2706b414c296f1) },
		{ 42, 63, UINT64_C(0x06e24d6f0d014c37) },
	};
	uint8_t text[64];
	for (size_t i = 0; i < sizeof(text); i++) {
		text[i] = (uint8_t)i;
	}
	for (size_t i = 0; i < KP_LEN(table); i++) {
		uint8_t key[16] = { 0 };
		uint32_t x = table[i].seed;
		for (size_t k = 0; x && k < sizeof(key); k++) {
			x = x * 214013 + 2531011;
			key[k] = (uint8_t)(x >> 16);
		}
		uint64_t got = kp_siphash(text, table[i].n, key);
		if (got != table[i].want) {
			fail_msg("seed %u, %zu bytes: %016llx", table[i].seed, table[i].n,
				(unsigned long long)got);
		}
	}
}

/* Without the key nobody outside can make keys that collide: two processes hash differently. */
static void the_hash_differs_between_processes(void **state)
{
	(void)state;
	uint64_t got[2];
	for (int i = 0; i < 2; i++) {
		int fd[2];
		assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
		fflush(NULL);
		pid_t pid =
			fork(); /* this process has not hashed anything yet when this test comes first */
		if (pid == 0) {
			uint64_t h = kp_hash(KP_S("key"));
			_exit(write(fd[1], &h, sizeof(h)) == sizeof(h) ? 0 : 1);
		}
		assert_int_equal(read(fd[0], &got[i], sizeof(got[i])), sizeof(got[i]));
		waitpid(pid, NULL, 0);
		close(fd[0]);
		close(fd[1]);
	}
	assert_true(got[0] != got[1]);
	assert_true(kp_hash(KP_S("key")) == kp_hash(KP_S("key")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_hash_differs_between_processes),
		cmocka_unit_test(absent_and_empty),
		cmocka_unit_test(set_gives_the_old_value_back),
		cmocka_unit_test(keys_are_bytes_and_copied),
		cmocka_unit_test(iteration_is_in_order_of_insertion),
		cmocka_unit_test(deleting_while_iterating),
		cmocka_unit_test(churn_does_not_grow_it),
		cmocka_unit_test(fini_destroys_what_is_left),
		cmocka_unit_test(a_null_value_is_a_bug),
		cmocka_unit_test(siphash_is_python_s),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Arenas: the limit, alignment, growth, deferred calls, and that ASan sees one byte too far. */
#include "base/arena.h"
#include "tests/test.h"

static void allocations_are_aligned_and_apart(void **state)
{
	(void)state;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(64 << 20);
	struct kp_rng rng;
	kp_rng_seed(&rng, 1);
	enum { N = 3000 };
	unsigned char *p[N];
	size_t size[N];
	for (size_t i = 0; i < N; i++) {
		/* Mostly small, now and then one that gets a chunk of its own. */
		size[i] = kp_rng_below(&rng, kp_rng_below(&rng, 50) ? 200 : 300000);
		p[i] = kp_arena_alloc(a, size[i]);
		assert_non_null(p[i]);
		assert_int_equal((uintptr_t)p[i] % 16, 0);
		memset(p[i], (int)(i & 0xff), size[i]);
	}
	for (size_t i = 0; i < N; i++) {
		for (size_t k = 0; k < size[i]; k++) {
			assert_int_equal(p[i][k], i & 0xff);
		}
	}
}

static void the_limit_is_hard(void **state)
{
	(void)state;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1000);
	assert_null(kp_arena_alloc(a, 1001));
	assert_int_equal(kp_arena_used(a), 0); /* a refused one costs nothing */
	for (size_t n = 0; n < 62; n++) {
		assert_non_null(kp_arena_alloc(a, 16));
	}
	assert_int_equal(kp_arena_used(a), 992);
	assert_null(kp_arena_alloc(a, 16));
	assert_null(kp_arena_alloc(a, 0)); /* rounded up, since each has its own address */
	assert_null(kp_arena_calloc(a, 1, 1));
	kp_str copy = KP_S("untouched");
	struct kp_err err;
	assert_int_equal(kp_arena_dup(a, KP_S("x"), &copy, &err), -1);
	assert_int_equal(err.code, KP_RESOURCE_EXHAUSTED);
	assert_string_equal(err.msg, "allocate `string`: the request's memory limit is reached");
	assert_str_lit(copy, "untouched");
	/* The program's own small things go on for a while. */
	assert_non_null(kp_arena_xalloc(a, 100));
	assert_string_equal(kp_arena_strz(a, KP_S("id")), "id");
	kp_arena_reset(a);
	assert_int_equal(kp_arena_used(a), 0);
	assert_non_null(kp_arena_alloc(a, 1000 - 8));
}

static void sizes_that_overflow_are_refused(void **state)
{
	(void)state;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(SIZE_MAX);
	assert_non_null(kp_arena_alloc(a, 100));
	assert_null(kp_arena_alloc(a, SIZE_MAX));
	assert_null(kp_arena_alloc(a, SIZE_MAX - 15));
	assert_null(kp_arena_alloc(a, SIZE_MAX - 200));
	assert_null(kp_arena_calloc(a, SIZE_MAX / 2, 3));
	assert_null(kp_arena_calloc(a, 3, SIZE_MAX / 2));
	assert_non_null(kp_arena_alloc(a, 100));
}

static void xalloc_past_the_slack(void *arg)
{
	(void)arg;
	struct kp_arena *a = kp_arena_create(10);
	for (int i = 0; i < 3; i++) {
		kp_arena_xalloc(a, KP_ARENA_SLACK / 2);
	}
}
static void a_program_that_passes_its_own_limit_dies(void **state)
{
	(void)state;
	assert_dies(xalloc_past_the_slack, NULL);
}

static void zeroed_ones_are_zero_also_after_reset(void **state)
{
	(void)state;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	for (int round = 0; round < 3; round++) {
		char *p = kp_arena_alloc(a, 2000);
		assert_non_null(p);
		memset(p, 0xff, 2000);
		kp_arena_reset(a);
		char *q = kp_arena_xalloc(a, 1000), *r = kp_arena_calloc(a, 50, 20);
		for (size_t i = 0; i < 1000; i++) {
			assert_int_equal(q[i] | r[i], 0);
		}
		kp_arena_reset(a);
	}
}

static void grow_keeps_the_content(void **state)
{
	(void)state;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(8 << 20);
	char *p = kp_arena_grow(a, NULL, 0, 1);
	assert_non_null(p);
	p[0] = 'a';
	size_t n = 1;
	while (n < 1 << 20) {
		size_t more = n * 2;
		/* Now and then something comes in between, so that it cannot grow in place. */
		void *between = n % 3 ? NULL : kp_arena_alloc(a, 10);
		(void)between;
		char *q = kp_arena_grow(a, p, n, more);
		assert_non_null(q);
		for (size_t i = 0; i < n; i += 97) {
			assert_int_equal(q[i], 'a' + (char)(i % 26));
		}
		p = q;
		for (size_t i = 0; i < more; i++) {
			p[i] = (char)('a' + i % 26);
		}
		n = more;
	}
	char *shrunk = kp_arena_grow(a, p, n, 100);
	assert_non_null(shrunk);
	assert_int_equal(shrunk[99], 'a' + 99 % 26);
}

#ifndef KP_ASAN /* there each allocation is its own */
static void grow_in_place_costs_no_copy(void **state)
{
	(void)state;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	char *p = kp_arena_alloc(a, 100);
	assert_ptr_equal(kp_arena_grow(a, p, 100, 1000), p);
	assert_int_equal(kp_arena_used(a), 1008);
	assert_ptr_equal(kp_arena_grow(a, p, 1000, 500), p);
	assert_int_equal(kp_arena_used(a), 512);
	char *next = kp_arena_alloc(a, 1);
	assert_true(next >= p + 500);
	assert_ptr_not_equal(kp_arena_grow(a, p, 500, 600), p);
}
#endif

static void a_refused_grow_leaves_the_old_one(void **state)
{
	(void)state;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1024);
	char *p = kp_arena_alloc(a, 512);
	assert_non_null(p);
	memset(p, 'k', 512);
	assert_null(kp_arena_grow(a, p, 512, 2048));
	assert_null(kp_arena_grow(a, p, 512, SIZE_MAX));
	assert_null(kp_arena_grow(a, p, 512, SIZE_MAX - 14));
	for (size_t i = 0; i < 512; i++) {
		assert_int_equal(p[i], 'k');
	}
	assert_int_equal(kp_arena_used(a), 512);
}

/* A zero-size tail must not share its address with the next allocation. */
static void grow_to_nothing_still_has_its_own_address(void **state)
{
	(void)state;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1024);
	char *p = kp_arena_alloc(a, 32);
	char *q = kp_arena_grow(a, p, 32, 0);
	assert_non_null(q);
	assert_ptr_not_equal(kp_arena_alloc(a, 8), q);
}

static void strings(void **state)
{
	(void)state;
	struct kp_err err;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	kp_str s;
	assert_int_equal(kp_arena_dup(a, KP_S("a\0b"), &s, &err), 0);
	assert_str_lit(s, "a\0b");
	assert_int_equal(s.p[3], '\0');
	assert_int_equal(kp_arena_dup(a, KP_STR_NULL, &s, &err), 0);
	assert_int_equal(s.n, 0);
	assert_int_equal(s.p[0], '\0');
	assert_str_lit(kp_arena_printf(a, "%s-%d", "x", 42), "x-42");
	assert_string_equal(kp_arena_strz(a, KP_STR_NULL), "");
	struct {
		int x, y;
	} *pair = kp_arena_xalloc(a, sizeof(*pair));
	assert_int_equal(pair->x | pair->y, 0);
	assert_int_equal(*kp_arena_new(a, uint64_t), 0);
}

static char order[16];
static size_t n_order;
static void note(void *p)
{
	order[n_order++] = *(char *)p;
}
static void deferred_calls_run_last_first(void **state)
{
	(void)state;
	static char names[] = "abcd";
	n_order = 0;
	struct kp_arena *a = kp_arena_create(1000);
	kp_arena_defer(a, note, &names[0]);
	kp_arena_defer(a, note, &names[1]);
	kp_arena_reset(a);
	assert_str(kp_str_n(order, n_order), KP_S("ba"));
	kp_arena_defer(a, note, &names[2]);
	/* What a deferred call sees is still there. */
	char *own = kp_arena_strz(a, KP_S("d"));
	kp_arena_defer(a, note, own);
	kp_arena_destroy(a);
	assert_str(kp_str_n(order, n_order), KP_S("badc"));
}

struct again {
	struct kp_arena *a;
	char *name;
};
static void defer_again(void *p)
{
	struct again *again = p;
	kp_arena_defer(again->a, note, again->name);
}
static void a_deferred_call_may_defer(void **state)
{
	(void)state;
	static char names[] = "xy";
	n_order = 0;
	struct kp_arena *a = kp_arena_create(1000);
	struct again again = { a, &names[1] };
	kp_arena_defer(a, note, &names[0]);
	kp_arena_defer(a, defer_again, &again);
	kp_arena_destroy(a);
	assert_str(kp_str_n(order, n_order), KP_S("yx"));
}

static void what_is_behind_a_mark_is_undone(void **state)
{
	(void)state;
	static char names[] = "ab";
	enum { MAX = 4 << 20 };
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(MAX);
	for (size_t before = 0; before < 300000; before = before * 3 + 1) {
		n_order = 0;
		kp_arena_reset(a);
		char *kept = before ? memset(kp_arena_xalloc(a, before), 'k', before) : NULL;
		kp_arena_defer(a, note, &names[0]);
		size_t used = kp_arena_used(a);
		struct kp_arena_mark mark = kp_arena_mark(a);
		for (size_t round = 0; round < 2; round++) {
			kp_arena_defer(a, note, &names[1]);
			for (size_t n = 1; n < MAX / 4; n *= 2) { /* more than the half of all */
				assert_non_null(memset(kp_arena_xalloc(a, n), 'x', n));
			}
			kp_arena_rewind(a, &mark);
			assert_int_equal(kp_arena_used(a), used);
			assert_int_equal(n_order, round + 1);
		}
		for (size_t i = 0; i < before; i++) {
			assert_int_equal(kept[i], 'k');
		}
		assert_non_null(kp_arena_alloc(a, MAX - used));
		kp_arena_reset(a);
		assert_str(kp_str_n(order, n_order), KP_S("bba"));
	}
}

static void destroy_takes_null_and_an_unused_one(void **state)
{
	(void)state;
	kp_arena_destroy(NULL);
	kp_arena_destroy(kp_arena_create(0));
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(0);
	kp_arena_reset(a);
	assert_null(kp_arena_alloc(a, 1));
}

#ifdef KP_ASAN
static bool asan_stops(void (*fn)(void *), void *arg)
{
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
		dup2(null, STDERR_FILENO);
		fn(arg);
		_exit(0);
	}
	int status = 0;
	return waitpid(pid, &status, 0) == pid && !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
static void write_past_the_end(void *arg)
{
	struct kp_arena *a = kp_arena_create(1000);
	volatile char *p = kp_arena_alloc(a, *(size_t *)arg);
	p[*(size_t *)arg] = 1;
}
static void read_after_reset(void *arg)
{
	struct kp_arena *a = kp_arena_create(1000);
	volatile char *p = kp_arena_alloc(a, *(size_t *)arg);
	p[0] = 1;
	kp_arena_reset(a);
	p[0] = (char)(p[0] + 1);
}
static void asan_sees_misuse(void **state)
{
	(void)state;
	for (size_t n = 1; n < 40; n += 6) {
		assert_true(asan_stops(write_past_the_end, &n));
		assert_true(asan_stops(read_after_reset, &n));
	}
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(allocations_are_aligned_and_apart),
		cmocka_unit_test(the_limit_is_hard),
		cmocka_unit_test(sizes_that_overflow_are_refused),
		cmocka_unit_test(a_program_that_passes_its_own_limit_dies),
		cmocka_unit_test(zeroed_ones_are_zero_also_after_reset),
		cmocka_unit_test(grow_keeps_the_content),
#ifndef KP_ASAN
		cmocka_unit_test(grow_in_place_costs_no_copy),
#endif
		cmocka_unit_test(a_refused_grow_leaves_the_old_one),
		cmocka_unit_test(grow_to_nothing_still_has_its_own_address),
		cmocka_unit_test(strings),
		cmocka_unit_test(deferred_calls_run_last_first),
		cmocka_unit_test(a_deferred_call_may_defer),
		cmocka_unit_test(what_is_behind_a_mark_is_undone),
		cmocka_unit_test(destroy_takes_null_and_an_unused_one),
#ifdef KP_ASAN
		cmocka_unit_test(asan_sees_misuse),
#endif
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

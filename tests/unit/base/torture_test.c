/* Failing allocations: a scenario that uses buffers, arenas and files runs in a child process once per allocation it makes, with that
   one failing (KP_FAIL_ALLOC=n). Each run must end with an error that says so, or without one, but never crash or leak. */
#include "base/arena.h"
#include "base/fs.h"
#include "base/utf8.h"
#include "tests/test.h"

enum { DONE = 0, REFUSED = 40, WRONG = 41 };

/* Deterministic: the same allocations every time. */
static int scenario(void)
{
	struct kp_err err = KP_ERR_INIT;
	KP_AUTO(buf) struct kp_buf b;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(16 << 20);
	kp_buf_init(&b, 1 << 20);
	for (int i = 0; i < 5000; i++) {
		kp_buf_printf(&b, "%d ", i);
		kp_utf8_add(&b, 0x20ac);
	}
	if (kp_buf_finish(&b, "text", &err) != 0) {
		return err.code == KP_RESOURCE_EXHAUSTED && kp_buf_cstr(&b) == NULL ? REFUSED
										    : WRONG;
	}
	char *grown = NULL;
	for (size_t n = 1; n <= 1 << 20; n *= 2) {
		kp_str copy = KP_S("before");
		if (kp_arena_dup(a, kp_str_sub(kp_buf_str(&b), 0, n), &copy, &err) != 0) {
			return err.code == KP_RESOURCE_EXHAUSTED && kp_str_eq(copy, KP_S("before"))
				       ? REFUSED
				       : WRONG;
		}
		char *more = kp_arena_grow(a, grown, grown ? n / 2 : 0, n);
		if (!more) {
			/* The old one is still readable. */
			return grown && grown[0] != 'g' ? WRONG : REFUSED;
		}
		more[0] = 'g';
		grown = more;
		if (!kp_arena_calloc(a, n, 1)) {
			return REFUSED;
		}
	}
	kp_buf_reset(&b);
	if (kp_fs_read("/proc/self/maps", &b, &err) != 0) {
		return err.code == KP_RESOURCE_EXHAUSTED && b.n == 0 ? REFUSED : WRONG;
	}
	return DONE;
}

static const char *self; /* argv[0]: not /proc/self/exe, which is valgrind under valgrind */

static int run_with(uint64_t n)
{
	char value[32];
	snprintf(value, sizeof(value), "%llu", (unsigned long long)n);
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		setenv("KP_FAIL_ALLOC", value, 1);
		execl(self, self, "--scenario", (char *)NULL);
		_exit(WRONG);
	}
	int status = 0;
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) {
		return -1;
	}
	return WEXITSTATUS(status);
}

static void every_allocation_may_fail(void **state)
{
	(void)state;
	assert_int_equal(run_with(0), DONE); /* 0: none fails */
	uint64_t n = 1;
	int r;
	while ((r = run_with(n)) == REFUSED && n < 500) {
		n++;
	}
	assert_int_equal(r, DONE); /* n is more than it allocates */
	assert_in_range(n, 20, 499);
}

static void the_variable_counts_exactly(void **state)
{
	(void)state;
	/* A value that is no number fails nothing. */
	setenv("KP_FAIL_ALLOC", "x", 1);
	void *p = kp_try_malloc(10);
	assert_non_null(p);
	p = kp_try_realloc(p, 20);
	assert_non_null(p);
	kp_mem_free(p);
	assert_null(kp_try_malloc(SIZE_MAX));
	assert_null(kp_try_malloc((size_t)PTRDIFF_MAX + 1));
	assert_non_null(p = kp_try_malloc(0));
	kp_mem_free(p);
}

int main(int argc, char **argv)
{
	self = argv[0];
	if (argc == 2 && strcmp(argv[1], "--scenario") == 0) {
		return scenario();
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_allocation_may_fail),
		cmocka_unit_test(the_variable_counts_exactly),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

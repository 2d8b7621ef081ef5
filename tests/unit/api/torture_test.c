/* Failing allocations: a set of manifests with good, bad and foreign objects is read once per allocation that may fail, with that one failing. Each
   time it must end with an error or a set, never crash or leak. */
#include "api/manifest.h"
#include "tests/test.h"

enum { DONE = 0, REFUSED = 40, WRONG = 41 };

static int scenario(const char *path)
{
	struct kp_object_set set = { 0 };
	struct kp_problems ps;
	struct kp_err err = KP_ERR_INIT;
	kp_problems_init(&ps);
	int r = kp_manifest_load(path, KP_S("default"), &set, &ps, &err);
	bool said = r == 0 ? err.code == KP_OK : err.code != KP_OK && err.msg[0] && !set.arena;
	int status = !said                                              ? WRONG
		     : r == 0                                           ? DONE
		     : err.code == KP_RESOURCE_EXHAUSTED || ps.n_errors ? REFUSED
									: WRONG;
	kp_object_set_fini(&set);
	kp_problems_fini(&ps);
	return status;
}

static int run_with(const char *path, uint64_t n)
{
	char value[32];
	snprintf(value, sizeof(value), "%llu", (unsigned long long)n);
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		setenv("KP_FAIL_ALLOC", value, 1);
		execl("/proc/self/exe", "torture_test", path, (char *)NULL);
		_exit(WRONG);
	}
	int status = 0;
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) {
		return -1;
	}
	return WEXITSTATUS(status);
}

/* until: what comes out once nothing fails any more. */
static void torture(const char *path, int until)
{
	assert_int_equal(run_with(path, 0), until);
	int calm = 0;
	for (uint64_t n = 1; calm < 3 && n < 2000; n++) {
		int r = run_with(path, n);
		if (r != REFUSED && r != DONE) {
			print_error(
				"%s: allocation %llu: status %d\n", path, (unsigned long long)n, r);
			fail();
		}
		calm = r == until ? calm + (until == DONE) : 0;
		if (until == REFUSED && n >= 60) {
			break; /* errors look the same with and without */
		}
	}
}

static void good_ones(void **state)
{
	(void)state;
	torture("tests/corpus/manifests/good/smallest.yaml", DONE);
	torture("tests/corpus/manifests/good/other-kinds.yaml", DONE);
}

static void bad_ones(void **state)
{
	(void)state;
	torture("tests/corpus/manifests/bad/file-several-errors.yaml", REFUSED);
}

int main(int argc, char **argv)
{
	if (argc == 2) {
		return scenario(argv[1]);
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_ones),
		cmocka_unit_test(bad_ones),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

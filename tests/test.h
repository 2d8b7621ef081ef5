/* What a cmocka test includes: cmocka with its prerequisites, assertions that print our types, a seed for property tests, and
   assert_dies for what must abort. Tests run in one thread unless they start others. */
#ifndef KP_TESTS_TEST_H
#define KP_TESTS_TEST_H

#include "base/rand.h"
#include "base/str.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

KP_UNUSED static void assert_str_at(kp_str got, kp_str want, const char *file, int line)
{
	if (!kp_str_eq(got, want)) {
		print_error("got  \"%" KP_FMT "\" (%zu bytes)\nwant \"%" KP_FMT "\" (%zu bytes)\n",
			KP_ARG(got), got.n, KP_ARG(want), want.n);
		_fail(file, line);
	}
}
/* Two kp_str; a kp_str and a literal. */
#define assert_str(got, want)     assert_str_at((got), (want), __FILE__, __LINE__)
#define assert_str_lit(got, want) assert_str_at((got), KP_S(want), __FILE__, __LINE__)

/* The seed of a property test: KP_SEED from the environment, else a fresh one; always printed, so that a failure can be run again. */
KP_UNUSED static uint64_t test_seed(void)
{
	uint64_t seed;
	const char *z = getenv("KP_SEED");
	if (!z || !kp_str_u64(kp_str_c(z), UINT64_MAX, &seed)) {
		kp_random_bytes(&seed, sizeof(seed));
		seed >>= 32;
	}
	print_message("# KP_SEED=%llu\n", (unsigned long long)seed);
	return seed;
}

/* Runs fn(arg) in a child process; true if it ended by abort(), as kp_bug does. */
KP_UNUSED static bool test_aborts(void (*fn)(void *), void *arg)
{
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		signal(SIGABRT, SIG_DFL);
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
		dup2(null, STDERR_FILENO);
		fn(arg);
		_exit(0);
	}
	int status = 0;
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) &&
	       WTERMSIG(status) == SIGABRT;
}
#define assert_dies(fn, arg) assert_true(test_aborts((fn), (arg)))

#endif

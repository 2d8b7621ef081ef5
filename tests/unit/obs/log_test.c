/* The log: one line per event whatever is in the values, nothing lost that fits, the queue's limit.
 * Lines go to standard error, which the test reads through a pipe. */
#include "obs/log.h"
#include "base/buf.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

static int saved = -1, pipe_out = -1;

static void capture(void)
{
	int fds[2];
	assert_int_equal(pipe(fds), 0);
	saved = dup(STDERR_FILENO);
	dup2(fds[1], STDERR_FILENO);
	close(fds[1]);
	pipe_out = fds[0];
	fcntl(pipe_out, F_SETPIPE_SZ, 1 << 20);
}

static void release(struct kp_buf *out)
{
	char tmp[65536];
	ssize_t n;
	dup2(saved, STDERR_FILENO);
	close(saved);
	while ((n = read(pipe_out, tmp, sizeof(tmp))) > 0) {
		kp_buf_add(out, kp_str_n(tmp, (size_t)n));
	}
	close(pipe_out);
}

static void test_lines(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf out;
	kp_buf_init(&out, 1 << 20);
	capture();
	kp_log_start(KP_LOG_INFO, KP_LOG_LOGFMT);
	kp_log(KP_LOG_DEBUG, "hidden");
	kp_log(KP_LOG_WARN, "two words", kp_f_z("bare", "a/b"),
		kp_f_z("quoted", "a \"b\"\nc\x01\xff"), kp_f_int("n", -3), kp_f_bool("t", true));
	kp_log_stop();
	release(&out);
	kp_str s = kp_buf_str(&out);
	assert_true(kp_str_starts(s, KP_S("time=20")));
	assert_true(kp_str_ends(s,
		KP_S(" level=warn msg=\"two words\" bare=a/b quoted=\"a \\\"b\\\"\\nc\\u0001\xef\xbf\xbd\" n=-3 t=true\n")));
	assert_false(kp_str_has(s, KP_S("hidden")));
}

static void test_json(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf out;
	kp_buf_init(&out, 1 << 20);
	capture();
	kp_log_start(KP_LOG_DEBUG, KP_LOG_JSON);
	kp_log(KP_LOG_DEBUG, "x", kp_f_z("k", "v"), kp_f_f64("f", 0.5));
	kp_log_stop();
	release(&out);
	assert_true(kp_str_ends(kp_buf_str(&out),
		KP_S(",\"level\":\"debug\",\"msg\":\"x\",\"k\":\"v\",\"f\":0.5}\n")));
}

static void test_limit(void **state)
{
	(void)state;
	struct kp_log_limit l = { 0 };
	uint64_t n = 99;
	assert_true(kp_log_allow(&l, 100, 50, &n));
	assert_int_equal(n, 0);
	assert_false(kp_log_allow(&l, 120, 50, &n));
	assert_false(kp_log_allow(&l, 149, 50, &n));
	assert_true(kp_log_allow(&l, 150, 50, &n));
	assert_int_equal(n, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_limit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

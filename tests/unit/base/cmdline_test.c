/* The command line: each type of option, both ways of writing a value, and every complaint. */
#include "base/cmdline.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

enum colour { RED = 0, GREEN };
struct config {
	const char *path;
	struct kp_strings listen;
	uint32_t loops;
	int64_t timeout_ns;
	enum colour colour;
	bool loud;
};

static const char *const colours[] = { "red", "green", NULL };
#define AT(member) offsetof(struct config, member)
static const struct kp_cmdline_option options[] = {
	{ "--path", "PATH", "a path", KP_OPTION_STRING, AT(path), 0, 0, NULL },
	{ "--listen", "HOST:PORT", "addresses", KP_OPTION_STRINGS, AT(listen), 0, 2, NULL },
	{ "--loops", "N", "loops", KP_OPTION_U32, AT(loops), 1, 64, NULL },
	{ "--timeout", "SECONDS", "timeout", KP_OPTION_SECONDS, AT(timeout_ns), 0, 3600, NULL },
	{ "--colour", "COLOUR", "red (default) or green", KP_OPTION_CHOICE, AT(colour), 0, 0,
		colours },
	{ "--loud", "", "is loud", KP_OPTION_FLAG, AT(loud), 0, 0, NULL },
};

static void version(struct kp_buf *out)
{
	kp_buf_lit(out, "1.2.3\n");
}

static const struct kp_cmdline cmdline = { .program = "p",
	.what = "a program",
	.usage = "[options]",
	.options = options,
	.n = KP_LEN(options),
	.version = version };

static int parse(const char *const *argv, struct config *c, struct kp_err *err)
{
	int argc = 0;
	while (argv[argc]) {
		argc++;
	}
	return kp_cmdline_parse(&cmdline, argc, kp_unconst(argv), c, err);
}
#define ARGS(...) ((const char *const[]){ "p", __VA_ARGS__, NULL })

static void test_values(void **state)
{
	(void)state;
	struct config c = { .loops = 7 };
	struct kp_err err = KP_ERR_INIT;
	assert_int_equal(parse((const char *const[]){ "p", NULL }, &c, &err), 0);
	assert_int_equal(c.loops, 7); /* what is not given stays */
	assert_int_equal(
		parse(ARGS("--path", "/x=y", "--listen=a:1", "--listen", "b:2", "--loops=64",
			      "--timeout", "30", "--colour=green", "--path="),
			&c, &err),
		0);
	assert_string_equal(c.path, "");
	assert_int_equal(c.listen.n, 2);
	assert_string_equal(c.listen.p[0], "a:1");
	assert_string_equal(c.listen.p[1], "b:2");
	assert_int_equal(c.loops, 64);
	assert_int_equal(c.timeout_ns, 30 * KP_NS_PER_S);
	assert_int_equal(c.colour, GREEN);
	assert_int_equal(
		parse(ARGS("--path", "--loops"), &c, &err), 0); /* a value like any other */
	assert_string_equal(c.path, "--loops");
	assert_false(c.loud);
	assert_int_equal(parse(ARGS("--loud", "--loops", "2"), &c, &err), 0);
	assert_int_equal(c.loops, 2);
	assert_true(c.loud);
	assert_int_equal(parse(ARGS("--loud"), &c, &err), 0); /* also as the last one */
}

static void test_complaints(void **state)
{
	(void)state;
	static const struct {
		const char *argv[8], *msg;
	} bad[] = {
		{ { "p", "--nope" }, "unknown option `--nope` (see --help)" },
		{ { "p", "--pat", "x" }, "unknown option `--pat` (see --help)" },
		{ { "p", "x" }, "unknown option `x` (see --help)" },
		{ { "p", "" }, "unknown option `` (see --help)" },
		{ { "p", "--path" }, "`--path`: needs a value" },
		{ { "p", "--listen=a", "--listen=b", "--listen=c" }, "`--listen`: at most 2" },
		{ { "p", "--loops=0" },
			"`--loops`: expected a whole number from 1 to 64, got `0`" },
		{ { "p", "--loops", "65" },
			"`--loops`: expected a whole number from 1 to 64, got `65`" },
		{ { "p", "--loops", "+1" },
			"`--loops`: expected a whole number from 1 to 64, got `+1`" },
		{ { "p", "--timeout=1.5" },
			"`--timeout`: expected a whole number from 0 to 3600, got `1.5`" },
		{ { "p", "--colour=blue" },
			"`--colour`: unknown value `blue` (red (default) or green)" },
		{ { "p", "--loud=yes" }, "`--loud`: takes no value, got `yes`" },
	};
	for (size_t i = 0; i < KP_LEN(bad); i++) {
		struct config c = { 0 };
		struct kp_err err = KP_ERR_INIT;
		assert_int_equal(parse(bad[i].argv, &c, &err), -1);
		assert_string_equal(err.msg, bad[i].msg);
		assert_int_equal(err.code, KP_INVALID_ARGUMENT);
	}
}

static void test_help_and_version(void **state)
{
	(void)state;
	struct config c = { 0 };
	struct kp_err err = KP_ERR_INIT;
	assert_int_equal(parse(ARGS("--help"), &c, &err), 1);
	assert_int_equal(parse(ARGS("--loops=3", "-h", "--nope"), &c, &err), 1);
	assert_int_equal(parse(ARGS("--version"), &c, &err), 1);
	assert_int_equal(parse(ARGS("--nope", "--version"), &c, &err), -1); /* in their order */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_complaints),
		cmocka_unit_test(test_help_and_version),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

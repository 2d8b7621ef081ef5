/* The version is that of the file VERSION, the commit that of git, and the text has a line for each library. */
#include "base/version.h"
#include "tests/test.h"

/* The first line of what a program prints, or of a file of the checkout; "" when there is none. Tests run in its root. */
static kp_str first_line(FILE *f, char line[128])
{
	if (!f || !fgets(line, 128, f)) {
		line[0] = '\0';
	}
	return kp_str_trim(kp_str_c(line));
}

static void version_is_the_file_s(void **state)
{
	(void)state;
	char line[128];
	FILE *f = fopen("VERSION", "re");
	assert_str(kp_str_c(kp_version()), first_line(f, line));
	assert_true(kp_is_digit(kp_version()[0]));
	fclose(f);
}

static void commit_is_git_s(void **state)
{
	(void)state;
	kp_str commit = kp_str_c(kp_commit());
	if (kp_str_eq(commit, KP_S("unknown"))) {
		return; /* built outside of git */
	}
	if (kp_str_ends(commit, KP_S("-changed"))) {
		commit = kp_str_sub(commit, 0, commit.n - strlen("-changed"));
	}
	uint64_t part;
	assert_int_equal(commit.n, 40);
	assert_true(kp_str_hex64(kp_str_sub(commit, 0, 16), &part));
	assert_true(kp_str_hex64(kp_str_sub(commit, 24, 40), &part));
}

static void the_text(void **state)
{
	(void)state;
	static const struct kp_library libraries[] = { { "libone", "1.2" }, { "libtwo", "3" } };
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 4096);
	kp_version_text(&b, "kelpie-x", libraries, KP_LEN(libraries));
	kp_str rest = kp_buf_str(&b), line;
	char want[128];
	snprintf(want, sizeof(want), "kelpie-x %s", kp_version());
	assert_true(kp_str_split(&rest, '\n', &line));
	assert_str(line, kp_str_c(want));
	snprintf(want, sizeof(want), "commit %s", kp_commit());
	assert_true(kp_str_split(&rest, '\n', &line));
	assert_str(line, kp_str_c(want));
	assert_true(kp_str_split(&rest, '\n', &line));
	assert_true(kp_str_starts(line, KP_S("built by ")));
	assert_str_lit(rest, "libone 1.2\nlibtwo 3\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(version_is_the_file_s),
		cmocka_unit_test(commit_is_git_s),
		cmocka_unit_test(the_text),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

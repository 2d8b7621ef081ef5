/* Files: limits to the byte, kinds of failure, atomic replacement. Works in a folder of its own under /tmp. */
#include "base/fs.h"
#include "tests/test.h"

#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/kp_fs_XXXXXX";
static char path[64];
static struct kp_err err;

static const char *in_dir(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}
static void make_file(const char *name, size_t n)
{
	FILE *f = fopen(in_dir(name), "we");
	assert_non_null(f);
	for (size_t i = 0; i < n; i++) {
		fputc('a' + (int)(i % 26), f);
	}
	assert_int_equal(fclose(f), 0);
}

static int make_dir(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}
static int remove_dir(void **state)
{
	(void)state;
	static const char *const names[] = { "f", "g", "fifo", "sub/x" };
	for (size_t i = 0; i < KP_LEN(names); i++) {
		unlink(in_dir(names[i]));
	}
	rmdir(in_dir("sub"));
	return rmdir(dir); /* fails when a test left something, for instance a temporary file */
}

static void the_limit_is_exact(void **state)
{
	(void)state;
	static const size_t sizes[] = { 0, 1, 4095, 4096, 65535, 65536, 65537, 300000 };
	for (size_t i = 0; i < KP_LEN(sizes); i++) {
		size_t n = sizes[i];
		make_file("f", n);
		KP_AUTO(buf) struct kp_buf b;
		kp_buf_init(&b, n);
		assert_int_equal(kp_fs_read(in_dir("f"), &b, &err), 0);
		assert_int_equal(b.n, n);
		for (size_t k = 0; k < n; k++) {
			assert_int_equal(b.p[k], 'a' + (char)(k % 26));
		}
		assert_int_equal(strlen(kp_buf_cstr(&b)), n);
		if (n == 0) {
			continue;
		}
		KP_AUTO(buf) struct kp_buf less;
		kp_buf_init(&less, n - 1);
		assert_int_equal(kp_fs_read(in_dir("f"), &less, &err), -1);
		assert_int_equal(err.code, KP_TOO_LARGE);
		char want[200];
		snprintf(want, sizeof(want), "read `%s`: %zu bytes, at most %zu", path, n, n - 1);
		assert_string_equal(err.msg, want);
		assert_int_equal(less.cap, 0); /* refused before memory was taken */
		struct kp_mapping m = { KP_STR_NULL };
		assert_int_equal(kp_fs_map(in_dir("f"), n - 1, &m, &err), -1);
		assert_int_equal(err.code, KP_TOO_LARGE);
		assert_null(m.bytes.p);
		assert_int_equal(kp_fs_map(in_dir("f"), n, &m, &err), 0);
		assert_str(m.bytes, kp_buf_str(&b));
		kp_fs_unmap(&m);
		assert_int_equal(kp_fs_load(in_dir("f"), n - 1, &m, &err), -1);
		assert_int_equal(err.code, KP_TOO_LARGE);
		assert_int_equal(kp_fs_load(in_dir("f"), n, &m, &err), 0);
		assert_int_equal(truncate(path, 0), 0); /* a mapping would end the process */
		assert_str(m.bytes, kp_buf_str(&b));
		kp_fs_unmap(&m);
		assert_null(m.bytes.p);
		kp_fs_unmap(&m);
	}
}

static void reading_appends(void **state)
{
	(void)state;
	make_file("f", 3);
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 8);
	kp_buf_lit(&b, "start");
	assert_int_equal(kp_fs_read(in_dir("f"), &b, &err), 0);
	assert_str_lit(kp_buf_str(&b), "startabc");
	assert_int_equal(kp_fs_read(in_dir("f"), &b, &err), -1);
	assert_int_equal(err.code, KP_TOO_LARGE);
	assert_str_lit(kp_buf_str(&b), "startabc"); /* unchanged */
}

static void *feed(void *arg)
{
	FILE *f = fopen(arg, "we");
	for (int i = 0; i < 200000; i++) {
		if (fputc('x', f) == EOF) {
			break;
		}
	}
	fclose(f);
	return NULL;
}
/* What has no size is held to the limit too. */
static void a_pipe_is_limited(void **state)
{
	(void)state;
	for (int fits = 0; fits < 2; fits++) {
		char name[64];
		snprintf(name, sizeof(name), "%s", in_dir("fifo"));
		unlink(name);
		assert_int_equal(mkfifo(name, 0600), 0);
		signal(SIGPIPE, SIG_IGN);
		pthread_t thread;
		assert_int_equal(pthread_create(&thread, NULL, feed, name), 0);
		KP_AUTO(buf) struct kp_buf b;
		kp_buf_init(&b, fits ? 200000 : 199999);
		int r = kp_fs_read(name, &b, &err);
		pthread_join(thread, NULL);
		assert_int_equal(r, fits ? 0 : -1);
		assert_int_equal(b.n, fits ? 200000 : 0);
		if (!fits) {
			assert_int_equal(err.code, KP_TOO_LARGE);
			assert_true(kp_str_ends(kp_str_c(err.msg), KP_S("more than 199999 bytes")));
		}
		struct kp_mapping m = { KP_STR_NULL };
		/* A pipe cannot be mapped; opening it would wait for a writer, so take a folder for "not a file". */
		assert_int_equal(kp_fs_map(dir, 1 << 20, &m, &err), -1);
		assert_int_equal(err.code, KP_INVALID_ARGUMENT);
	}
}

/* As one that somebody cuts short between the look at its size and the reading: sysfs says 4,096 bytes for files of a few. */
static void less_than_the_file_said_is_an_error(void **state)
{
	(void)state;
	static const char few[] = "/sys/kernel/mm/transparent_hugepage/enabled";
	struct kp_mapping m = { KP_STR_NULL };
	struct stat st;
	if (stat(few, &st) || st.st_size < 4096) {
		skip();
	}
	assert_int_equal(kp_fs_load(few, 1 << 20, &m, &err), -1);
	assert_int_equal(err.code, KP_UNAVAILABLE);
	assert_true(kp_str_has(kp_str_c(err.msg), KP_S("it ends at")));
	assert_null(m.bytes.p);
}

static void failures_name_the_file(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 100);
	struct kp_mapping m = { KP_STR_NULL };
	assert_int_equal(kp_fs_read(in_dir("absent"), &b, &err), -1);
	assert_int_equal(err.code, KP_NOT_FOUND);
	assert_int_equal(err.sys, ENOENT);
	assert_true(kp_str_has(kp_str_c(err.msg), kp_str_c(path)));
	assert_int_equal(kp_fs_map(in_dir("absent"), 1, &m, &err), -1);
	assert_int_equal(err.code, KP_NOT_FOUND);
	assert_int_equal(kp_fs_read(dir, &b, &err), -1);
	assert_int_equal(err.code, KP_INVALID_ARGUMENT);
	assert_int_equal(err.sys, EISDIR);
	assert_int_equal(kp_fs_write_atomic(in_dir("absent/f"), KP_S("x"), 0600, &err), -1);
	assert_int_equal(err.code, KP_NOT_FOUND);
	char longname[9000];
	memset(longname, 'n', sizeof(longname));
	longname[sizeof(longname) - 1] = '\0';
	assert_int_equal(kp_fs_write_atomic(longname, KP_S("x"), 0600, &err), -1);
	assert_int_equal(err.code, KP_INVALID_ARGUMENT);
}

static void writing_replaces_whole(void **state)
{
	(void)state;
	struct stat st;
	mode_t old = umask(077);
	assert_int_equal(kp_fs_write_atomic(in_dir("g"), KP_S("first"), 0644, &err), 0);
	umask(old);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0644);
	ino_t inode = st.st_ino;
	struct kp_mapping m;
	assert_int_equal(kp_fs_map(path, 100, &m, &err), 0);
	assert_int_equal(kp_fs_write_atomic(path, KP_S("sec\0nd"), 0600, &err), 0);
	assert_str_lit(m.bytes, "first"); /* who has the old one open keeps it */
	kp_fs_unmap(&m);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_true(st.st_ino != inode);
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 100);
	assert_int_equal(kp_fs_read(path, &b, &err), 0);
	assert_str_lit(kp_buf_str(&b), "sec\0nd");
	assert_int_equal(kp_fs_write_atomic(path, KP_STR_NULL, 0600, &err), 0);
	kp_buf_reset(&b);
	assert_int_equal(kp_fs_read(path, &b, &err), 0);
	assert_int_equal(b.n, 0);
}

static void a_failed_write_leaves_nothing(void **state)
{
	(void)state;
	/* The target is a folder with something in it: the rename fails after the temporary file was written. */
	assert_int_equal(mkdir(in_dir("sub"), 0700), 0);
	make_file("sub/x", 1);
	assert_int_equal(kp_fs_write_atomic(in_dir("sub"), KP_S("x"), 0600, &err), -1);
	assert_true(kp_str_starts(kp_str_c(err.msg), KP_S("replace `")));
	/* remove_dir fails if a temporary file is left. */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_limit_is_exact),
		cmocka_unit_test(reading_appends),
		cmocka_unit_test(a_pipe_is_limited),
		cmocka_unit_test(less_than_the_file_said_is_an_error),
		cmocka_unit_test(failures_name_the_file),
		cmocka_unit_test(writing_replaces_whole),
		cmocka_unit_test(a_failed_write_leaves_nothing),
	};
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}

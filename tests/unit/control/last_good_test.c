/* The last good program's file: what was written is read; damage of any kind is named, and harmless. */
#include "tests/unit/control/common.h"
#include "control/last_good.h"
#include "base/fs.h"

#include <sys/resource.h>
#include <sys/stat.h>

static struct kp_items *content(void)
{
	static const kp_str own[] = { KP_S_INIT("default/demo") };
	static const struct kp_program_gateway g = { KP_S_INIT("gw-a"), KP_S_INIT("10.0.0.1:1"),
		KP_S_INIT("n"), own, 1, false };
	return test_items(TWO_ENGINES, &g, 1);
}
static struct kp_revision revision_of(const struct kp_items *items)
{
	struct kp_revision r = { .is_set = true, .epoch = 7, .n = 9 };
	memcpy(r.hash, items->hash, KP_HASH_BYTES);
	return r;
}

static void test_write_and_read(void **state)
{
	(void)state;
	char dir[] = "/tmp/kelpie-last-good-XXXXXX", path[128];
	struct kp_err err = KP_ERR_INIT;
	struct kp_items *items = content(), *back = NULL;
	struct kp_revision r = revision_of(items), got = { .n = 0 };
	struct stat st;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/program", dir);
	assert_int_equal(kp_last_good_read(path, &got, &back, &err), -1);
	assert_int_equal(err.code, KP_NOT_FOUND);
	umask(0);
	assert_int_equal(kp_last_good_write(path, &r, items, &err), 0);
	assert_int_equal(kp_last_good_write(path, &r, items, &err), 0); /* over the old one */
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(kp_last_good_read(path, &got, &back, &err), 0);
	assert_memory_equal(&got, &r, sizeof(r));
	assert_true(kp_items_same(items, back));
	kp_items_unref(back);
	kp_items_unref(items);
	unlink(path);
	rmdir(dir);
}

/* Not enough space, no permission to write, a directory that is not there: the old file stays as it was,
   and nothing is left beside it. */
static void test_cannot_write(void **state)
{
	(void)state;
	char dir[] = "/tmp/kelpie-last-good-XXXXXX", path[128], want[256];
	struct kp_err err = KP_ERR_INIT;
	struct kp_items *items = content(), *back = NULL;
	struct kp_revision r = revision_of(items), got;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/program", dir);
	assert_int_equal(kp_last_good_write(path, &r, items, &err), 0);
	r.n = 10;
	/* A file may have 100 bytes: as a full disk, the write ends in the middle. */
	struct rlimit before, small;
	getrlimit(RLIMIT_FSIZE, &before);
	small = before;
	small.rlim_cur = 100;
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &small);
	int rc = kp_last_good_write(path, &r, items, &err);
	setrlimit(RLIMIT_FSIZE, &before);
	assert_int_equal(rc, -1);
	snprintf(want, sizeof(want), "write `%s.tmp.%d`: File too large", path, (int)getpid());
	assert_string_equal(err.msg, want);
	assert_int_equal(kp_last_good_read(path, &got, &back, &err), 0);
	assert_int_equal(got.n, 9);
	kp_items_unref(back);
	assert_int_equal(kp_last_good_write("/nonexistent/program", &r, items, &err), -1);
	assert_int_equal(err.code, KP_NOT_FOUND);
	assert_int_equal(kp_last_good_write("/proc/program", &r, items, &err), -1);
	kp_items_unref(items);
	unlink(path);
	assert_int_equal(rmdir(dir), 0); /* empty again */
}

static void decode_fails(kp_str bytes, enum kp_code code, const char *want)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_revision r;
	struct kp_items *items = NULL;
	assert_int_equal(kp_last_good_decode(bytes, &r, &items, &err), -1);
	assert_string_equal(err.msg, want);
	assert_int_equal(err.code, code);
}

static void test_damaged(void **state)
{
	(void)state;
	struct kp_err err = KP_ERR_INIT;
	struct kp_items *items = content(), *back = NULL;
	struct kp_revision r = revision_of(items);
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 1 << 20);
	assert_int_equal(kp_last_good_encode(&r, items, &b, &err), 0);
	for (size_t n = 0; n < b.n; n++) { /* cut anywhere */
		struct kp_err e = KP_ERR_INIT;
		assert_int_equal(kp_last_good_decode(kp_str_n(b.p, n), &r, &back, &e), -1);
		assert_int_equal(e.code, KP_DATA_LOSS);
	}
	for (size_t i = 0; i < b.n; i++) { /* one bit wrong anywhere */
		struct kp_err e = KP_ERR_INIT;
		b.p[i] ^= (char)(1 << (i % 8));
		assert_int_equal(kp_last_good_decode(kp_buf_str(&b), &r, &back, &e), -1);
		assert_true(e.code == KP_DATA_LOSS || e.code == KP_UNIMPLEMENTED);
		b.p[i] ^= (char)(1 << (i % 8));
	}
	decode_fails(
		KP_S(""), KP_DATA_LOSS, "read last good program: not such a file, or cut short");
	kp_buf_addc(&b, 'x');
	decode_fails(kp_buf_str(&b), KP_DATA_LOSS,
		"read last good program: its length is not the one it names");
	b.n--;
	b.p[b.n - 1] ^= 1;
	decode_fails(kp_buf_str(&b), KP_DATA_LOSS,
		"read last good program: its checksum does not match");
	b.p[7] = 2;
	decode_fails(
		kp_buf_str(&b), KP_UNIMPLEMENTED, "read last good program: version 2 is not known");
	/* Right by its checksum, and not what it should be: another revision's hash. */
	kp_buf_reset(&b);
	r.hash[0] ^= 1;
	assert_int_equal(kp_last_good_encode(&r, items, &b, &err), 0);
	decode_fails(kp_buf_str(&b), KP_DATA_LOSS,
		"read last good program: its content does not have the hash of its revision");
	kp_items_unref(items);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_write_and_read),
		cmocka_unit_test(test_cannot_write),
		cmocka_unit_test(test_damaged),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Files of credentials: read again when they are others, the old ones stay when the new ones make no sense. */
#include "base/fs.h"
#include "kube/credentials.h"
#include "tests/test.h"

static char dir[] = "/tmp/kp-kube-XXXXXX";

static const char *file(const char *name, const char *content)
{
	static char path[4][64];
	static size_t n;
	struct kp_err err;
	char *p = path[n++ % 4];
	snprintf(p, 64, "%s/%s", dir, name);
	if (content) {
		assert_int_equal(kp_fs_write_atomic(p, kp_str_c(content), 0600, &err), 0);
	}
	return p;
}

static void a_token_file(void **state)
{
	(void)state;
	struct kp_kube_config config = { .token = { .path = file("token", "one\n"),
						 .data = KP_S("old") } };
	struct kp_kube_credentials c;
	struct kp_err err = KP_ERR_INIT;
	assert_int_equal(kp_kube_credentials_init(&c, &config, &err), 0);
	assert_str_lit(kp_kube_credentials_token(&c), "one");
	uint64_t generation = c.generation;
	assert_int_equal(kp_kube_credentials_look(&c, 1, false, &err), 0);
	file("token", "two");
	/* It looks once a second, unless it is told to. */
	assert_int_equal(kp_kube_credentials_look(&c, 2, false, &err), 0);
	assert_str_lit(kp_kube_credentials_token(&c), "one");
	assert_int_equal(kp_kube_credentials_look(&c, 3, true, &err), 0);
	assert_str_lit(kp_kube_credentials_token(&c), "two");
	static const char *const bad[] = { "", " \n", "a b", "a\r\nX-Evil: 1", "\xff" };
	for (size_t i = 0; i < KP_LEN(bad); i++) {
		file("token", bad[i]);
		assert_int_equal(kp_kube_credentials_look(&c, 0, true, &err), -1);
		assert_str_lit(kp_kube_credentials_token(&c), "two");
	}
	unlink(config.token.path);
	assert_int_equal(kp_kube_credentials_look(&c, 0, true, &err), -1);
	assert_int_equal(err.code, KP_NOT_FOUND);
	assert_str_lit(kp_kube_credentials_token(&c), "two");
	file("token", "three");
	assert_int_equal(kp_kube_credentials_look(&c, 4 * KP_NS_PER_S, false, &err), 0);
	assert_str_lit(kp_kube_credentials_token(&c), "three");
	assert_int_equal(c.generation, generation); /* a token is not the connection's */
	kp_kube_credentials_fini(&c);
	unlink(config.token.path);
}

static void certificates(void **state)
{
	(void)state;
	struct kp_kube_config config = {
		.ca.data = KP_S("CA"), .cert.path = file("crt", "C1"), .key.path = file("key", "K1")
	};
	struct kp_kube_credentials c;
	struct kp_err err = KP_ERR_INIT;
	assert_int_equal(kp_kube_credentials_init(&c, &config, &err), 0);
	uint64_t before = c.generation;
	file("crt", "C2");
	unlink(config.key.path); /* half way: the pair stays */
	assert_int_equal(kp_kube_credentials_look(&c, 0, true, &err), -1);
	assert_str_lit(kp_buf_str(&c.cert.content), "C1");
	assert_int_equal(c.generation, before);
	file("key", "K2");
	assert_int_equal(kp_kube_credentials_look(&c, 0, true, &err), 0);
	assert_str_lit(kp_buf_str(&c.cert.content), "C2");
	assert_str_lit(kp_buf_str(&c.key.content), "K2");
	assert_str_lit(kp_buf_str(&c.ca.content), "CA");
	assert_true(c.generation > before);
	kp_kube_credentials_fini(&c);
	unlink(config.cert.path);
	unlink(config.key.path);
}

static void what_is_not_there_at_the_start(void **state)
{
	(void)state;
	struct kp_kube_config config = { .token.path = file("none", NULL) };
	struct kp_kube_credentials c;
	struct kp_err err = KP_ERR_INIT;
	assert_int_equal(kp_kube_credentials_init(&c, &config, &err), -1);
	assert_int_equal(err.code, KP_NOT_FOUND);
	config = (struct kp_kube_config){ .token.data = KP_S("a\nb") };
	assert_int_equal(kp_kube_credentials_init(&c, &config, &err), -1);
	assert_string_equal(err.msg, "read token `token`: byte 1 cannot be in a token");
}

static int make_dir(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	(void)state;
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_token_file),
		cmocka_unit_test(certificates),
		cmocka_unit_test(what_is_not_there_at_the_start),
	};
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}

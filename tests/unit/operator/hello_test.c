/* Hellos that are refused, each with its words; epochs. */
#include "operator/control/epoch.h"
#include "operator/control/hello.h"
#include "tests/test.h"

#include <sys/stat.h>

static const struct kp_hello good = { .protocol = 1,
	.id = KP_S_INIT("gw-1.example"),
	.ns = KP_S_INIT("default"),
	.peer = KP_S_INIT("10.0.0.1:8443"),
	.node = KP_S_INIT("node-1"),
	.admin = KP_S_INIT("[::1]:9090"),
	.version = KP_S_INIT("0.2.0") };

static void assert_refused(const struct kp_hello *h, enum kp_code code, const char *msg)
{
	struct kp_err err = KP_ERR_INIT;
	assert_int_equal(kp_hello_check(h, false, NULL, 0, 1000, &err), -1);
	assert_string_equal(err.msg, msg);
	assert_int_equal(err.code, code);
}

static void test_good(void **state)
{
	(void)state;
	struct kp_err err = KP_ERR_INIT;
	struct kp_hello h = good;
	assert_int_equal(kp_hello_check(&h, false, NULL, 0, 1000, &err), 0);
	h.peer = h.node = h.admin = h.version = KP_S(""); /* nothing is known */
	assert_int_equal(kp_hello_check(&h, false, NULL, 0, 1000, &err), 0);
	h.peer = KP_S("unix:/run/peer.sock");
	assert_int_equal(kp_hello_check(&h, false, NULL, 0, 1000, &err), 0);
}

static void test_refused(void **state)
{
	(void)state;
	struct kp_hello h = good;
	h.protocol = 2;
	assert_refused(&h, KP_UNIMPLEMENTED, "hello: protocol `2`: this operator speaks 1");
	h = good;
	h.id = KP_S("a b");
	assert_refused(&h, KP_INVALID_ARGUMENT,
		"hello: id `a b`: must have only letters, digits, `-`, `.` and `_`, at most 253");
	h = good;
	h.ns = KP_S("a/b");
	assert_refused(
		&h, KP_INVALID_ARGUMENT, "hello: namespace `a/b`: is not a name of a namespace");
	static const char *const addresses[] = { "nowhere", ":8443", "10.0.0.1:0",
		"10.0.0.1:99999" };
	for (size_t i = 0; i < KP_LEN(addresses); i++) {
		char msg[200];
		h = good;
		h.peer = kp_str_c(addresses[i]);
		snprintf(msg, sizeof(msg),
			"hello: peer `%s`: must be HOST:PORT, as others reach it", addresses[i]);
		assert_refused(&h, KP_INVALID_ARGUMENT, msg);
	}
	h = good;
	h.admin = KP_S("x");
	assert_refused(
		&h, KP_INVALID_ARGUMENT, "hello: admin `x`: must be HOST:PORT, as others reach it");
	h = good;
	h.node = KP_S("a\tb");
	assert_refused(&h, KP_INVALID_ARGUMENT,
		"hello: node `a?b`: must be printable ASCII without spaces, at most 253");
	h = good;
	h.epoch_seen = UINT64_MAX;
	assert_refused(&h, KP_INVALID_ARGUMENT,
		"hello: epoch `18446744073709551615`: is far ahead of this operator's clock");
	h.epoch_seen = 0;
	h.revision.epoch = 1001;
	assert_refused(&h, KP_INVALID_ARGUMENT,
		"hello: epoch `1001`: is far ahead of this operator's clock");
	h.epoch_seen = h.revision.epoch = 1000;
	struct kp_err err = KP_ERR_INIT;
	assert_int_equal(kp_hello_check(&h, false, NULL, 0, 1000, &err), 0);
	h = good;
	const kp_str claim = KP_S("default/a\n");
	h.own = &claim;
	h.n_own = 1;
	assert_refused(&h, KP_INVALID_ARGUMENT,
		"hello: own `default/a?`: must be printable ASCII without spaces, at most 253");
	h = good;
	kp_str many[600];
	char text[100];
	memset(text, 'a', sizeof(text));
	for (size_t i = 0; i < KP_LEN(many); i++) {
		many[i] = kp_str_n(text, sizeof(text));
	}
	h.own = many;
	h.n_own = KP_LEN(many);
	assert_refused(
		&h, KP_RESOURCE_EXHAUSTED, "hello: own: 62400 bytes of claims, at most 32768");
}

static void test_certificates(void **state)
{
	(void)state;
	const kp_str names[] = { KP_S_INIT("kelpie:x"), KP_S_INIT("GW-1.example") };
	struct kp_err err = KP_ERR_INIT;
	assert_int_equal(kp_hello_check(&good, true, names, 2, 1000, &err), 0);
	assert_int_equal(kp_hello_check(&good, true, names, 1, 1000, &err), -1);
	assert_string_equal(err.msg,
		"hello: id `gw-1.example`: is not a name of the client's certificate (`kelpie:x`)");
	assert_int_equal(err.code, KP_PERMISSION_DENIED);
	assert_int_equal(kp_hello_check(&good, true, NULL, 0, 1000, &err), -1);
	assert_non_null(strstr(err.msg, "(none)"));
}

/* It speaks for its id in its namespace, and in no other. */
static void test_namespaces(void **state)
{
	(void)state;
	const kp_str names[] = { KP_S_INIT("gw-1.example"), KP_S_INIT("spiffe://x/ns/a/sa/b") };
	struct kp_err err = KP_ERR_INIT;
	struct kp_hello h = good;
	assert_int_equal(kp_hello_check(&h, true, names, 2, 1000, &err), -1);
	assert_string_equal(err.msg,
		"hello: id `gw-1.example`: the certificate is of `spiffe://x/ns/a/sa/b`, not of namespace `default`");
	assert_int_equal(err.code, KP_PERMISSION_DENIED);
	h.ns = KP_S("a");
	assert_int_equal(kp_hello_check(&h, true, names, 2, 1000, &err), 0);
	assert_int_equal(kp_hello_check(&h, true, names, 1, 1000, &err), -1);
	assert_string_equal(err.msg,
		"hello: id `gw-1.example`: the certificate has no SPIFFE ID, so it is of namespace `default`, not of `a`");
}

/* --- epochs --- */

static void test_epoch(void **state)
{
	(void)state;
	char dir[] = "/tmp/kelpie-epoch-XXXXXX", path[64];
	struct kp_err err = KP_ERR_INIT;
	struct stat st;
	uint64_t epoch;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/epoch", dir);
	assert_int_equal(kp_epoch_start(NULL, 5 * KP_NS_PER_S, &epoch, &err), 0);
	assert_int_equal(epoch, 5000);
	assert_int_equal(kp_epoch_start(dir, 5 * KP_NS_PER_S, &epoch, &err), 0);
	assert_int_equal(epoch, 5000);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	/* The clock was set back, and again. */
	assert_int_equal(kp_epoch_start(dir, 1, &epoch, &err), 0);
	assert_int_equal(epoch, 5001);
	assert_int_equal(kp_epoch_start(dir, -1, &epoch, &err), 0);
	assert_int_equal(epoch, 5002);
	assert_int_equal(kp_epoch_start(dir, 9 * KP_NS_PER_S, &epoch, &err), 0);
	assert_int_equal(epoch, 9000);
	/* Not a number: the clock alone counts. */
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs("-1\n", f);
	fclose(f);
	assert_int_equal(kp_epoch_start(dir, 7 * KP_NS_PER_S, &epoch, &err), 0);
	assert_int_equal(epoch, 7000);
	unlink(path);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(kp_epoch_start(dir, 1, &epoch, &err), -1);
	assert_non_null(strstr(err.msg, path));
	rmdir(path);
	rmdir(dir);
	assert_int_equal(kp_epoch_start(dir, 1, &epoch, &err), -1);
	assert_non_null(strstr(err.msg, "keep the epoch: create `/tmp/kelpie-epoch-"));
}

static void test_epoch_wait(void **state)
{
	(void)state;
	assert_int_equal(kp_epoch_wait_ns(10, 10, 0), 0);
	assert_int_equal(kp_epoch_wait_ns(10, 9, 0), 0);
	assert_int_equal(kp_epoch_wait_ns(10, 11, 0), 30 * KP_NS_PER_S);
	assert_int_equal(kp_epoch_wait_ns(10, 11, 29999), KP_NS_PER_MS);
	assert_int_equal(kp_epoch_wait_ns(10, 11, 30000), 0);
	assert_int_equal(kp_epoch_wait_ns(10, UINT64_MAX, UINT64_MAX), 0);
}

static void test_epoch_of_term(void **state)
{
	(void)state;
	uint64_t year = UINT64_C(365) * 86400000;
	assert_int_equal(kp_epoch_of_term(0, 5 * KP_NS_PER_S), 5000);
	assert_int_equal(kp_epoch_of_term(4999, 5 * KP_NS_PER_S), 5000);
	assert_int_equal(
		kp_epoch_of_term(5000, 5 * KP_NS_PER_S), 5001); /* a clock that is behind */
	assert_int_equal(kp_epoch_of_term(9000, -1), 9001);
	assert_int_equal(kp_epoch_of_term(5000 + year - 1, 5 * KP_NS_PER_S), 5000 + year);
	assert_int_equal(kp_epoch_of_term(5000 + year, 5 * KP_NS_PER_S), 5000); /* nobody's */
	assert_int_equal(kp_epoch_of_term(UINT64_MAX, 5 * KP_NS_PER_S), 5000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_certificates),
		cmocka_unit_test(test_namespaces),
		cmocka_unit_test(test_epoch),
		cmocka_unit_test(test_epoch_wait),
		cmocka_unit_test(test_epoch_of_term),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* MM-05, MM-06, MC-15: which URLs and addresses are fetched from. */
#include "base/mem.h"
#include "fetch/policy.h"
#include "tests/test.h"

#include <arpa/inet.h>
#include <netinet/in.h>

static const struct sockaddr *address(const char *z, struct sockaddr_storage *ss)
{
	struct sockaddr_in *a4 = (void *)ss;
	struct sockaddr_in6 *a6 = (void *)ss;
	memset(ss, 0, sizeof(*ss));
	if (inet_pton(AF_INET, z, &a4->sin_addr) == 1) {
		ss->ss_family = AF_INET;
	} else {
		ss->ss_family = AF_INET6;
		assert_int_equal(inet_pton(AF_INET6, z, &a6->sin6_addr), 1);
	}
	return (const void *)ss;
}

static void test_kinds(void **state)
{
	(void)state;
	static const struct {
		const char *z;
		enum kp_address_kind kind;
	} cases[] = {
		{ "8.8.8.8", KP_ADDRESS_GLOBAL },
		{ "1.1.1.1", KP_ADDRESS_GLOBAL },
		{ "100.63.255.255", KP_ADDRESS_GLOBAL },
		{ "100.128.0.0", KP_ADDRESS_GLOBAL },
		{ "172.15.255.255", KP_ADDRESS_GLOBAL },
		{ "172.32.0.0", KP_ADDRESS_GLOBAL },
		{ "223.255.255.255", KP_ADDRESS_GLOBAL },
		{ "2606:4700:4700::1111", KP_ADDRESS_GLOBAL },
		{ "::ffff:8.8.8.8", KP_ADDRESS_GLOBAL },
		{ "64:ff9b::8.8.8.8", KP_ADDRESS_GLOBAL },
		{ "10.1.2.3", KP_ADDRESS_PRIVATE },
		{ "172.16.0.1", KP_ADDRESS_PRIVATE },
		{ "172.31.255.255", KP_ADDRESS_PRIVATE },
		{ "192.168.0.1", KP_ADDRESS_PRIVATE },
		{ "100.64.0.1", KP_ADDRESS_PRIVATE },
		{ "fd12:3456::1", KP_ADDRESS_PRIVATE },
		{ "fc00::1", KP_ADDRESS_PRIVATE },
		{ "::ffff:10.0.0.1", KP_ADDRESS_PRIVATE },
		{ "64:ff9b::a00:1", KP_ADDRESS_PRIVATE },
		{ "127.0.0.1", KP_ADDRESS_LOOPBACK },
		{ "127.255.255.254", KP_ADDRESS_LOOPBACK },
		{ "::1", KP_ADDRESS_LOOPBACK },
		{ "::ffff:127.0.0.1", KP_ADDRESS_LOOPBACK },
		{ "64:ff9b::7f00:1", KP_ADDRESS_LOOPBACK },
		{ "169.254.169.254", KP_ADDRESS_METADATA },
		{ "::ffff:169.254.169.254", KP_ADDRESS_METADATA },
		{ "64:ff9b::169.254.169.254", KP_ADDRESS_METADATA },
		{ "100.100.100.200", KP_ADDRESS_METADATA },
		{ "168.63.129.16", KP_ADDRESS_METADATA },
		{ "192.0.0.192", KP_ADDRESS_METADATA },
		{ "fd00:ec2::254", KP_ADDRESS_METADATA },
		{ "fd20:ce::254", KP_ADDRESS_METADATA },
		{ "0.0.0.0", KP_ADDRESS_OTHER },
		{ "0.1.2.3", KP_ADDRESS_OTHER },
		{ "169.254.1.1", KP_ADDRESS_OTHER },
		{ "192.0.2.1", KP_ADDRESS_OTHER },
		{ "192.88.99.1", KP_ADDRESS_OTHER },
		{ "198.18.0.1", KP_ADDRESS_OTHER },
		{ "198.19.255.255", KP_ADDRESS_OTHER },
		{ "203.0.113.5", KP_ADDRESS_OTHER },
		{ "224.0.0.1", KP_ADDRESS_OTHER },
		{ "240.0.0.1", KP_ADDRESS_OTHER },
		{ "255.255.255.255", KP_ADDRESS_OTHER },
		{ "::", KP_ADDRESS_OTHER },
		{ "::8.8.8.8", KP_ADDRESS_OTHER },
		{ "64:ff9b:1::8.8.8.8", KP_ADDRESS_OTHER },
		{ "fe80::1", KP_ADDRESS_OTHER },
		{ "fec0::1", KP_ADDRESS_OTHER },
		{ "ff02::1", KP_ADDRESS_OTHER },
		{ "2001::1", KP_ADDRESS_OTHER },
		{ "2001:db8::1", KP_ADDRESS_OTHER },
		{ "2002:7f00:1::", KP_ADDRESS_OTHER },
		{ "2002:808:808::", KP_ADDRESS_OTHER },
		{ "3fff::1", KP_ADDRESS_OTHER },
		{ "5f00::1", KP_ADDRESS_OTHER },
		{ "100::1", KP_ADDRESS_OTHER },
	};
	struct sockaddr_storage ss;
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		enum kp_address_kind got = kp_address_kind(address(cases[i].z, &ss));
		if (got != cases[i].kind) {
			fail_msg("%s is %d", cases[i].z, got);
		}
	}
	const struct sockaddr other = { .sa_family = AF_UNIX };
	assert_int_equal(kp_address_kind(&other), KP_ADDRESS_OTHER);
}

static void test_ranges(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"", "/", "10.0.0.0", "10.0.0.0/33", "10.0.0.1/8", "fd00::/129", "10.0.0/8",
		"10.0.0.0/", "10.0.0.0/+8", "10.0.0.0/8 ", "fd00::1/64", "a/8", "::ffff:10.0.0.0/8",
		"1111111111111111111111111111111111111111111111111111111111111111111111111111111/8"
	};
	struct kp_cidr c;
	struct kp_err err;
	struct sockaddr_storage ss;
	for (size_t i = 0; i < KP_LEN(bad); i++) {
		if (kp_cidr_parse(kp_str_c(bad[i]), &c, &err) == 0) {
			fail_msg("%s was taken", bad[i]);
		}
		assert_int_equal(err.code, KP_INVALID_ARGUMENT);
	}
	assert_int_equal(kp_cidr_parse(KP_S("10.96.0.0/12"), &c, &err), 0);
	assert_true(kp_cidr_has(&c, address("10.96.0.1", &ss)));
	assert_true(kp_cidr_has(&c, address("10.111.255.255", &ss)));
	assert_true(kp_cidr_has(&c, address("::ffff:10.100.0.1", &ss)));
	assert_false(kp_cidr_has(&c, address("10.112.0.0", &ss)));
	assert_int_equal(kp_cidr_parse(KP_S("fd00:1::/32"), &c, &err), 0);
	assert_true(kp_cidr_has(&c, address("fd00:1::5", &ss)));
	assert_false(kp_cidr_has(&c, address("fd00:2::5", &ss)));
	assert_int_equal(kp_cidr_parse(KP_S("0.0.0.0/0"), &c, &err), 0);
	assert_true(kp_cidr_has(&c, address("169.254.169.254", &ss)));
	assert_false(kp_cidr_has(&c, address("::1", &ss)));
}

static void test_policies(void **state)
{
	(void)state;
	struct kp_cidr allow;
	struct kp_err err;
	struct sockaddr_storage ss;
	assert_int_equal(kp_cidr_parse(KP_S("169.254.7.0/24"), &allow, &err), 0);
	const struct kp_fetch_policy none = { 0 }, private = { .allows_private = true },
				     named = { .allow = &allow, .n_allow = 1 };
	assert_int_equal(kp_fetch_address_check(&none, address("8.8.8.8", &ss), &err), 0);
	assert_int_equal(kp_fetch_address_check(&none, address("10.0.0.1", &ss), &err), -1);
	assert_int_equal(err.code, KP_PERMISSION_DENIED);
	assert_true(kp_str_has(kp_str_c(err.msg), KP_S("10.0.0.1")));
	assert_int_equal(kp_fetch_address_check(&private, address("10.0.0.1", &ss), &err), 0);
	assert_int_equal(kp_fetch_address_check(&private, address("::1", &ss), &err), 0);
	assert_int_equal(
		kp_fetch_address_check(&private, address("169.254.169.254", &ss), &err), -1);
	assert_int_equal(kp_fetch_address_check(&private, address("fd00:ec2::254", &ss), &err), -1);
	assert_int_equal(kp_fetch_address_check(&private, address("224.0.0.1", &ss), &err), -1);
	assert_int_equal(kp_fetch_address_check(&named, address("169.254.7.9", &ss), &err), 0);
	assert_int_equal(kp_fetch_address_check(&named, address("169.254.8.9", &ss), &err), -1);
}

/* The SSRF corpus: what is refused before anything is resolved, and what is taken. 0: taken. */
static void test_mm_05_urls(void **state)
{
	(void)state;
	static const struct {
		const char *url;
		enum kp_code code;
	} cases[] = {
		{ "http://a.example/x?y", KP_OK },
		{ "HTTPS://A.Example:8443/", KP_OK },
		{ "http://8.8.8.8/", KP_OK },
		{ "http://[2606:4700:4700::1111]/", KP_OK },
		{ "http://localhost/", KP_OK }, /* a name: judged where it leads */
		{ "http://xn--bcher-kva.example/", KP_OK },
		{ "http://b\xc3\xbc"
		  "cher.example/",
			KP_INVALID_ARGUMENT },
		{ "http://a.example./", KP_OK },
		{ "", KP_INVALID_ARGUMENT },
		{ "a.example/x", KP_INVALID_ARGUMENT },
		{ "//a.example/x", KP_INVALID_ARGUMENT },
		{ "file:///etc/passwd", KP_INVALID_ARGUMENT },
		{ "ftp://a.example/x", KP_INVALID_ARGUMENT },
		{ "gopher://a.example/x", KP_INVALID_ARGUMENT },
		{ "dict://a.example/x", KP_INVALID_ARGUMENT },
		{ "data:text/plain,x", KP_INVALID_ARGUMENT },
		{ "javascript:alert(1)", KP_INVALID_ARGUMENT },
		{ "http://u@a.example/", KP_INVALID_ARGUMENT },
		{ "http://u:p@a.example/", KP_INVALID_ARGUMENT },
		{ "http://a.example@127.0.0.1/", KP_INVALID_ARGUMENT },
		{ "http://127.0.0.1:80@a.example/", KP_INVALID_ARGUMENT },
		{ "http://a.example:0/", KP_INVALID_ARGUMENT },
		{ "http://a.example:65536/", KP_INVALID_ARGUMENT },
		{ "http://a.example:x/", KP_INVALID_ARGUMENT },
		{ "http://a.example\\@127.0.0.1/", KP_INVALID_ARGUMENT },
		{ "http://a.example/\r\nHost: b", KP_INVALID_ARGUMENT },
		{ "http://a.example/a b", KP_INVALID_ARGUMENT },
		{ "http:// a.example/", KP_INVALID_ARGUMENT },
		{ "http://", KP_INVALID_ARGUMENT },
		{ "http://a%25b.example/", KP_INVALID_ARGUMENT },
		{ "http://a..example/", KP_OK },
		{ "http://127.0.0.1/", KP_PERMISSION_DENIED },
		{ "http://127.1/", KP_PERMISSION_DENIED },
		{ "http://2130706433/", KP_PERMISSION_DENIED },
		{ "http://0x7f000001/", KP_PERMISSION_DENIED },
		{ "http://0x7f.0.0.1/", KP_PERMISSION_DENIED },
		{ "http://0177.0.0.1/", KP_PERMISSION_DENIED },
		{ "http://017700000001/", KP_PERMISSION_DENIED },
		{ "http://127.0.0.1./", KP_PERMISSION_DENIED },
		{ "http://127%2e0.0.1/", KP_PERMISSION_DENIED },
		{ "http://21307064%33%33/", KP_INVALID_ARGUMENT },
		{ "http://0x7f%30%30%30%30%30%31/", KP_INVALID_ARGUMENT },
		{ "http://1.2.3.4.5/", KP_INVALID_ARGUMENT },
		{ "http://a.1e/", KP_OK },
		{ "http://\xef\xbc\x91\xef\xbc\x92\xef\xbc\x97.0.0.1/",
			KP_INVALID_ARGUMENT }, /* full width digits */
		{ "http://0/", KP_PERMISSION_DENIED },
		{ "http://10.0.0.1/", KP_PERMISSION_DENIED },
		{ "http://169.254.169.254/latest/meta-data", KP_PERMISSION_DENIED },
		{ "http://[::1]/", KP_PERMISSION_DENIED },
		{ "http://[::]/", KP_PERMISSION_DENIED },
		{ "http://[::ffff:127.0.0.1]/", KP_PERMISSION_DENIED },
		{ "http://[::ffff:7f00:1]/", KP_PERMISSION_DENIED },
		{ "http://[64:ff9b::7f00:1]/", KP_PERMISSION_DENIED },
		{ "http://[2002:7f00:1::]/", KP_PERMISSION_DENIED },
		{ "http://[fe80::1%25lo]/", KP_PERMISSION_DENIED },
		{ "http://[fd00::1]/", KP_PERMISSION_DENIED },
	};
	const struct kp_fetch_policy none = { 0 };
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		CURLU *u = NULL;
		struct kp_err err = KP_ERR_INIT;
		int rc = kp_fetch_url_parse(&none, kp_str_c(cases[i].url), &u, &err);
		if (err.code != cases[i].code) {
			fail_msg("%s: %s %s", cases[i].url, kp_code_name(err.code), err.msg);
		}
		assert_int_equal(rc, err.code == KP_OK ? 0 : -1);
		curl_url_cleanup(u);
	}
	char z[KP_FETCH_URL_MAX + 2];
	memset(z, 'a', sizeof(z));
	memcpy(z, "http://h/", 9);
	CURLU *u = NULL;
	struct kp_err err;
	assert_int_equal(kp_fetch_url_parse(&none, kp_str_n(z, sizeof(z) - 1), &u, &err), -1);
	assert_int_equal(kp_fetch_url_parse(&none, kp_str_n(z, sizeof(z) - 2), &u, &err), 0);
	curl_url_cleanup(u);
}

static void test_hosts(void **state)
{
	(void)state;
	static const kp_str hosts[] = { KP_S_INIT("Images.Example."), KP_S_INIT("*.cdn.example"),
		KP_S_INIT("xn--bcher-kva.example") };
	const struct kp_fetch_policy p = {
		.hosts = hosts, .n_hosts = KP_LEN(hosts), .https_only = true
	};
	static const struct {
		const char *url;
		enum kp_code code;
	} cases[] = {
		{ "https://images.example/", KP_OK },
		{ "https://IMAGES.example./", KP_OK },
		{ "https://a.b.cdn.example/", KP_OK },
		{ "https://b\xc3\xbc"
		  "cher.example/",
			KP_INVALID_ARGUMENT },
		{ "https://cdn.example/", KP_PERMISSION_DENIED },
		{ "https://.cdn.example/", KP_INVALID_ARGUMENT },
		{ "https://evilcdn.example/", KP_PERMISSION_DENIED },
		{ "https://images.example.evil.example/", KP_PERMISSION_DENIED },
		{ "https://8.8.8.8/", KP_PERMISSION_DENIED },
		{ "http://images.example/", KP_INVALID_ARGUMENT },
	};
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		CURLU *u = NULL;
		struct kp_err err = KP_ERR_INIT;
		if (kp_fetch_url_parse(&p, kp_str_c(cases[i].url), &u, &err) == 0) {
			curl_url_cleanup(u);
		}
		if (err.code != cases[i].code) {
			fail_msg("%s: %s %s", cases[i].url, kp_code_name(err.code), err.msg);
		}
	}
	static const char *const good[] = { "a", "a.example", "*.a", "a.example.", "[::1]",
		"10.0.0.1" },
				 *const bad[] = { "", ".", "*", "*.", "a.*", "a b", "a/b", ".a",
					 "*..a", "a@b" };
	struct kp_err err;
	for (size_t i = 0; i < KP_LEN(good); i++) {
		assert_int_equal(kp_fetch_host_check(kp_str_c(good[i]), &err), 0);
	}
	for (size_t i = 0; i < KP_LEN(bad); i++) {
		if (kp_fetch_host_check(kp_str_c(bad[i]), &err) == 0) {
			fail_msg("%s was taken", bad[i]);
		}
	}
}

static void test_redirect_targets(void **state)
{
	(void)state;
	static const struct {
		const char *to;
		enum kp_code code;
		bool is_same;
	} cases[] = {
		{ "/y", KP_OK, true },
		{ "?q", KP_OK, true },
		{ "//b.example/y", KP_OK, false },
		{ "https://A.example:443/z", KP_OK, true },
		{ "https://a.example:444/z", KP_OK, false },
		{ "http://a.example/z", KP_OK, false },
		{ "http://169.254.169.254/", KP_PERMISSION_DENIED, false },
		{ "//127.1/", KP_PERMISSION_DENIED, false },
		{ "file:///etc/passwd", KP_INVALID_ARGUMENT, false },
		{ "https://u:p@a.example/", KP_INVALID_ARGUMENT, false },
		{ "", KP_INVALID_ARGUMENT, false },
	};
	const struct kp_fetch_policy none = { 0 };
	CURLU *base = NULL;
	struct kp_err err;
	assert_int_equal(kp_fetch_url_parse(&none, KP_S("https://a.example/x/w"), &base, &err), 0);
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		CURLU *u = NULL;
		err = KP_ERR_INIT;
		if (kp_fetch_url_follow(&none, base, kp_str_c(cases[i].to), &u, &err) == 0) {
			assert_int_equal(kp_fetch_same_origin(base, u), cases[i].is_same);
			curl_url_cleanup(u);
		}
		if (err.code != cases[i].code) {
			fail_msg("%s: %s %s", cases[i].to, kp_code_name(err.code), err.msg);
		}
	}
	curl_url_cleanup(base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_policies),
		cmocka_unit_test(test_mm_05_urls),
		cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_redirect_targets),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Addresses as people write them. */
#include "net/addr.h"
#include "tests/test.h"

static void test_good(void **state)
{
	(void)state;
	static const struct {
		const char *text, *host;
		uint16_t port;
		int family;        /* 0: a name */
		const char *print; /* of the numeric ones */
	} cases[] = {
		{ "127.0.0.1:8080", "127.0.0.1", 8080, AF_INET, "127.0.0.1:8080" },
		{ "[::1]:0", "::1", 0, AF_INET6, "[::1]:0" },
		{ "[::ffff:1.2.3.4]:5", "::ffff:1.2.3.4", 5, AF_INET6, "1.2.3.4:5" },
		{ ":65535", "", 65535, AF_INET6, "[::]:65535" },
		{ "localhost:50051", "localhost", 50051, 0, NULL },
		{ "a-b.c_d.example:1", "a-b.c_d.example", 1, 0, NULL },
		{ "unix:/run/x.sock", "/run/x.sock", 0, AF_UNIX, "unix" },
	};
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		struct kp_addr a;
		struct kp_err err;
		char buf[KP_ADDR_TEXT_MAX];
		assert_int_equal(kp_addr_parse(cases[i].text, &a, &err), 0);
		assert_string_equal(a.host, cases[i].host);
		assert_int_equal(a.port, cases[i].port);
		assert_int_equal(a.sock.ss_family, cases[i].family);
		assert_int_equal(a.is_unix, cases[i].family == AF_UNIX);
		assert_int_equal(a.socklen != 0, cases[i].family != 0);
		if (cases[i].print) {
			kp_str text = kp_addr_print((const struct sockaddr *)&a.sock, buf);
			assert_str(text, kp_str_c(cases[i].print));
		}
	}
}

static void test_bad(void **state)
{
	(void)state;
	static const struct {
		const char *text, *why;
	} cases[] = {
		{ "", "no port" },
		{ "localhost", "no port" },
		{ "1.2.3.4:", "port must be" },
		{ "1.2.3.4:65536", "port must be" },
		{ "1.2.3.4:+1", "port must be" },
		{ "1.2.3.4:1x", "port must be" },
		{ "::1:80", "brackets" },
		{ "[nonsense]:80", "not an IPv6" },
		{ "[1.2.3.4]:80", "not an IPv6" },
		{ "a b:80", "odd character" },
		{ "http://a:80", "odd character" },
		{ "unix:", "1 to 107" },
	};
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		struct kp_addr a = { .port = 7 };
		struct kp_err err;
		assert_int_equal(kp_addr_parse(cases[i].text, &a, &err), -1);
		assert_int_equal(err.code, KP_INVALID_ARGUMENT);
		assert_non_null(strstr(err.msg, cases[i].why));
		assert_non_null(strstr(err.msg, cases[i].text));
		assert_int_equal(a.port, 7); /* untouched */
	}
	char longest[400];
	memset(longest, 'a', sizeof(longest));
	memcpy(longest + 390, ":80", 4);
	struct kp_addr a;
	struct kp_err err;
	assert_int_equal(kp_addr_parse(longest, &a, &err), -1);
	memcpy(longest, "unix:/", 6);
	assert_int_equal(kp_addr_parse(longest, &a, &err), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_bad),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

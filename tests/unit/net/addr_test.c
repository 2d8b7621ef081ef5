/* Addresses as people write them. */
#include "net/addr.h"
#include "tests/test.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* A kernel without IPv6, as far as this process can tell from now on. */
static void have_no_ipv6(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_socket, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = KP_LEN(code), .filter = code };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		_exit(2);
	}
}

static bool listens(const char *text, int family)
{
	struct kp_addr a;
	struct kp_err err;
	if (kp_addr_parse(text, &a, &err)) {
		return false;
	}
	int fd = kp_addr_socket(&a, SOCK_CLOEXEC);
	return fd >= 0 && a.sock.ss_family == family &&
	       bind(fd, (const struct sockaddr *)&a.sock, a.socklen) == 0 && listen(fd, 1) == 0;
}

static void test_every_address_without_ipv6(void **state)
{
	(void)state;
	pid_t child = fork();
	int status;
	if (child == 0) {
		have_no_ipv6();
		_exit(listens(":0", AF_INET) && listens("127.0.0.1:0", AF_INET) &&
					!listens("[::1]:0", AF_INET6) && errno == EAFNOSUPPORT
				? 0
				: 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_every_address_without_ipv6),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

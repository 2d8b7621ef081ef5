/* DESIGN: text to sockaddr and a socket of that kind; no name service. */
#include "net/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/un.h>

static int bad(const char *text, const char *why, struct kp_err *err)
{
	return kp_err_set(err, KP_INVALID_ARGUMENT, "parse address `%s`: %s", text, why);
}

static int parse_unix(const char *text, kp_str path, struct kp_addr *a, struct kp_err *err)
{
	struct sockaddr_un *un = (struct sockaddr_un *)&a->sock;
	if (path.n == 0 || path.n >= sizeof(un->sun_path)) {
		return bad(text, "the path must have 1 to 107 bytes", err);
	}
	a->is_unix = true;
	memcpy(a->host, path.p, path.n);
	un->sun_family = AF_UNIX;
	memcpy(un->sun_path, path.p, path.n);
	a->socklen = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + path.n + 1);
	return 0;
}

static bool host_char_ok(char c)
{
	char l = kp_lower(c);
	return (l >= 'a' && l <= 'z') || kp_is_digit(c) || c == '-' || c == '.' || c == '_';
}

static void fill_numeric(struct kp_addr *a)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)&a->sock;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&a->sock;
	if (a->host[0] == '\0') {
		v6->sin6_family = AF_INET6; /* in6addr_any, IPv4 included (IPV6_V6ONLY is off) */
		v6->sin6_port = htons(a->port);
		a->socklen = sizeof(*v6);
	} else if (inet_pton(AF_INET, a->host, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(a->port);
		a->socklen = sizeof(*v4);
	} else if (inet_pton(AF_INET6, a->host, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(a->port);
		a->socklen = sizeof(*v6);
	}
}

int kp_addr_parse(const char *text, struct kp_addr *ret, struct kp_err *err)
{
	kp_str s = kp_str_c(text);
	struct kp_addr a = { .port = 0 };
	if (kp_str_starts(s, KP_S("unix:"))) {
		if (parse_unix(text, kp_str_skip(s, 5), &a, err) < 0) {
			return -1;
		}
		*ret = a;
		return 0;
	}
	ptrdiff_t colon = kp_str_rfind_char(s, ':');
	uint64_t port;
	if (colon < 0) {
		return bad(text, "no port (host:port, [v6]:port or unix:/path)", err);
	}
	if (!kp_str_u64(kp_str_skip(s, (size_t)colon + 1), UINT16_MAX, &port)) {
		return bad(text, "the port must be a number from 0 to 65535", err);
	}
	kp_str host = kp_str_sub(s, 0, (size_t)colon);
	bool bracketed = host.n >= 2 && host.p[0] == '[' && host.p[host.n - 1] == ']';
	if (bracketed) {
		host = kp_str_sub(host, 1, host.n - 1);
	}
	if (host.n >= sizeof(a.host)) {
		return bad(text, "host name too long", err);
	}
	for (size_t i = 0; !bracketed && i < host.n; i++) {
		if (!host_char_ok(host.p[i])) {
			return bad(text, "odd character in the host (IPv6 addresses need brackets)",
				err);
		}
	}
	if (host.n > 0) {
		memcpy(a.host, host.p, host.n);
	}
	a.port = (uint16_t)port;
	fill_numeric(&a);
	if (bracketed && (a.socklen == 0 || a.sock.ss_family != AF_INET6)) {
		return bad(text, "not an IPv6 address between the brackets", err);
	}
	*ret = a;
	return 0;
}

int kp_addr_socket(struct kp_addr *a, int flags)
{
	int fd = socket(a->sock.ss_family, SOCK_STREAM | flags, 0);
	if (fd < 0 && errno == EAFNOSUPPORT && a->sock.ss_family == AF_INET6 && !a->host[0]) {
		struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(a->port) };
		memcpy(&a->sock, &v4, sizeof(v4));
		a->socklen = sizeof(v4);
		fd = socket(AF_INET, SOCK_STREAM | flags, 0);
	}
	return fd;
}

uint16_t kp_addr_port(const struct sockaddr *sa)
{
	if (sa->sa_family == AF_INET) {
		return ntohs(((const struct sockaddr_in *)(const void *)sa)->sin_port);
	}
	if (sa->sa_family == AF_INET6) {
		return ntohs(((const struct sockaddr_in6 *)(const void *)sa)->sin6_port);
	}
	return 0;
}

kp_str kp_addr_print(const struct sockaddr *sa, char buf[KP_ADDR_TEXT_MAX])
{
	char host[INET6_ADDRSTRLEN] = "";
	int n;
	if (sa->sa_family == AF_INET) {
		const struct sockaddr_in *v4 = (const void *)sa;
		inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
		n = snprintf(buf, KP_ADDR_TEXT_MAX, "%s:%u", host, kp_addr_port(sa));
	} else if (sa->sa_family == AF_INET6) {
		const struct sockaddr_in6 *v6 = (const void *)sa;
		if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
			inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], host, sizeof(host));
			n = snprintf(buf, KP_ADDR_TEXT_MAX, "%s:%u", host, kp_addr_port(sa));
		} else {
			inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
			n = snprintf(buf, KP_ADDR_TEXT_MAX, "[%s]:%u", host, kp_addr_port(sa));
		}
	} else {
		n = snprintf(buf, KP_ADDR_TEXT_MAX, "unix");
	}
	return kp_str_n(buf, (size_t)n);
}

bool kp_addr_is_loopback(const struct kp_addr *a)
{
	kp_str host = kp_str_c(a->host);
	return a->is_unix || kp_str_eq(host, KP_S("localhost")) || kp_str_eq(host, KP_S("::1")) ||
	       (a->socklen && kp_str_starts(host, KP_S("127.")));
}

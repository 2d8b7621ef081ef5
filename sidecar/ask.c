/* DESIGN: one request on a blocking socket with timeouts; only the answer's first line is read. */
#include "sidecar/ask.h"

#include "net/addr.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { PATIENCE_S = 5 };

static int ask(int fd, const struct kp_addr *a, const char *address, struct kp_err *err)
{
	static const char request[] =
		"GET /drain HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
	const struct timeval patience = { .tv_sec = PATIENCE_S };
	char answer[64];
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(fd, (const struct sockaddr *)&a->sock, a->socklen) != 0) {
		return kp_err_sys(err, errno, "connect to `%s`", address);
	}
	if (send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) != (ssize_t)sizeof(request) - 1) {
		return kp_err_sys(err, errno, "ask `%s` to drain", address);
	}
	ssize_t n = recv(fd, answer, sizeof(answer), MSG_WAITALL);
	if (n <= 0) {
		return kp_err_sys(err, n < 0 ? errno : ECONNRESET, "ask `%s` to drain", address);
	}
	kp_str line = kp_str_n(answer, (size_t)n), status;
	kp_str_split(&line, '\r', &status);
	return kp_str_starts(status, KP_S("HTTP/1.1 200"))
		       ? 0
		       : kp_err_set(err, KP_UNAVAILABLE,
				 "ask `%s` to drain: it answered `%" KP_FMT "`", address,
				 KP_ARG(status));
}

int kp_ask_drain(const char *address, struct kp_err *err)
{
	struct kp_addr a;
	if (kp_addr_parse(address, &a, err)) {
		return -1;
	}
	if (!a.socklen) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"`--ask-drain`: expected an IP address and a port, got `%s`", address);
	}
	int fd = socket(a.sock.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		return kp_err_sys(err, errno, "connect to `%s`", address);
	}
	int r = ask(fd, &a, address, err);
	close(fd);
	return r;
}

/* Addresses as people write them: "127.0.0.1:8080", "[::1]:0", "host.name:50051", ":8080" (every
 * address of the machine), "unix:/run/x.sock". */
#ifndef KP_NET_ADDR_H
#define KP_NET_ADDR_H

#include "base/err.h"
#include "base/str.h"

#include <sys/socket.h>

enum { KP_ADDR_HOST_MAX = 256, KP_ADDR_TEXT_MAX = 64 };

struct kp_addr {
	char host[KP_ADDR_HOST_MAX]; /* without brackets; "" for all addresses; the path of a Unix
					socket */
	uint16_t port;
	bool is_unix;
	/* Filled in when no name has to be resolved (a numeric address, a Unix socket); else
	 * socklen is 0. */
	struct sockaddr_storage sock;
	socklen_t socklen;
};

/* INVALID_ARGUMENT names the text. */
int kp_addr_parse(const char *text, struct kp_addr *ret, struct kp_err *err) KP_MUST_USE;
/* A stream socket of the address's kind, as socket(2) gives it; `flags` as its type's. Where every address is meant and the kernel has no IPv6, *a becomes
 * IPv4's. -1: errno. */
int kp_addr_socket(struct kp_addr *a, int flags);
/* A loopback address, "localhost" or a Unix socket: nothing leaves the machine. */
bool kp_addr_is_loopback(const struct kp_addr *a);
/* "1.2.3.4:80", "[::1]:80", "unix". */
kp_str kp_addr_print(const struct sockaddr *sa, char buf[KP_ADDR_TEXT_MAX]);
uint16_t kp_addr_port(const struct sockaddr *sa); /* 0 for a Unix socket */

#endif

/* Which URLs and addresses may be fetched from, when the URL comes from somebody who is not trusted. Pure.

   A name proves nothing: what counts is the address that the connection goes to, so each one is judged when it is connected
   to (fetch.c), after every resolution and every redirect. Without rules of its own a policy takes http and https to
   addresses that are global in IANA's registries of special-purpose addresses. Addresses that carry an IPv4 address inside
   (mapped, NAT64) are judged as that one. */
#ifndef KP_FETCH_POLICY_H
#define KP_FETCH_POLICY_H

#include "base/err.h"
#include "base/str.h"

#include <curl/curl.h>
#include <sys/socket.h>

enum { KP_FETCH_URL_MAX = 8192 }; /* bytes */

enum kp_address_kind {
	KP_ADDRESS_UNSET = 0,
	KP_ADDRESS_GLOBAL,
	KP_ADDRESS_PRIVATE,  /* 10/8, 172.16/12, 192.168/16, 100.64/10, fc00::/7 */
	KP_ADDRESS_LOOPBACK, /* 127/8, ::1 */
	KP_ADDRESS_METADATA, /* of a cloud's machines: answers with credentials */
	KP_ADDRESS_OTHER, /* link-local, multicast, unspecified, reserved, tunnels, no IP address */
};
enum kp_address_kind kp_address_kind(const struct sockaddr *sa);

/* A set of addresses, "10.0.0.0/8" or "fd00::/8"; IPv4 as mapped IPv6. */
struct kp_cidr {
	uint8_t net[16];
	uint8_t bits; /* of 128 */
};
/* Bits behind the prefix must be zero. INVALID_ARGUMENT names the text. */
int kp_cidr_parse(kp_str text, struct kp_cidr *ret, struct kp_err *err) KP_MUST_USE;
bool kp_cidr_has(const struct kp_cidr *c, const struct sockaddr *sa);

struct kp_fetch_policy {
	const kp_str *
		hosts; /* when there is one, only these: "a.example", "*.a.example" (not a.example itself) */
	size_t n_hosts;
	const struct kp_cidr *allow; /* these addresses too, whatever they are */
	size_t n_allow;
	bool allows_private; /* private and loopback addresses too, none of the other kinds */
	bool https_only;
};
/* Not a name that a list of hosts can have (KP_S("*.com.") is one: cases and a dot at the end do not matter). */
int kp_fetch_host_check(kp_str pattern, struct kp_err *err) KP_MUST_USE;

/* The URL, taken apart, as the transfer will read it too; the caller's (curl_url_cleanup). Refused, INVALID_ARGUMENT: other
   schemes, user names and passwords, port 0, more than KP_FETCH_URL_MAX bytes, control characters and spaces. PERMISSION_DENIED: a host that
   the policy does not name, or a number that is a refused address. No message has more of a URL than its host. */
int kp_fetch_url_parse(
	const struct kp_fetch_policy *p, kp_str url, CURLU **ret, struct kp_err *err) KP_MUST_USE;
/* The same of a redirect's Location, relative to `base`. */
int kp_fetch_url_follow(const struct kp_fetch_policy *p, CURLU *base, kp_str location, CURLU **ret,
	struct kp_err *err) KP_MUST_USE;
bool kp_fetch_same_origin(CURLU *a, CURLU *b);
/* PERMISSION_DENIED, with the address. */
int kp_fetch_address_check(
	const struct kp_fetch_policy *p, const struct sockaddr *sa, struct kp_err *err) KP_MUST_USE;

#endif

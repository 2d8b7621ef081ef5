/* DESIGN: an address is 16 bytes, IPv4 as its mapped form; what is special is a table of prefixes, the first that fits counts.
   In IPv6 only 2000::/3 is global, and in it what the table takes out.

   A URL is read by libcurl's own parser, and the transfer gets what that made of it, so the two cannot differ: numbers
   (0x7f.1, 2130706433) are addresses by then. Names in other letters are not translated (libcurl would do that by the locale's
   encoding, and this program has none). */
#include "fetch/policy.h"

#include "net/addr.h"

#include <arpa/inet.h>
#include <string.h>

static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
static const uint8_t nat64[12] = { 0, 0x64, 0xff, 0x9b };

static bool in(const uint8_t a[16], const uint8_t net[16], unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;
	return memcmp(a, net, whole) == 0 &&
	       (rest == 0 || ((a[whole] ^ net[whole]) >> (8 - rest)) == 0);
}

/* false: no IP address. */
static bool read_address(const struct sockaddr *sa, uint8_t ret[16])
{
	if (sa->sa_family == AF_INET) {
		memcpy(ret, mapped, 12);
		memcpy(ret + 12, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, 4);
	} else if (sa->sa_family == AF_INET6) {
		memcpy(ret, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, 16);
		if (memcmp(ret, nat64, 12) == 0) {
			memcpy(ret, mapped, 12); /* the translator connects to that one */
		}
	} else {
		return false;
	}
	return true;
}

#define V4(a, b, c, d)                        \
	{                                     \
		[10] = 0xff, 0xff, a, b, c, d \
	}
static const struct {
	uint8_t net[16];
	uint8_t bits;
	enum kp_address_kind kind;
} special[] = {
	{ V4(169, 254, 169, 254), 128, KP_ADDRESS_METADATA },
	{ V4(168, 63, 129, 16), 128, KP_ADDRESS_METADATA },   /* Azure's */
	{ V4(100, 100, 100, 200), 128, KP_ADDRESS_METADATA }, /* Alibaba's */
	{ V4(192, 0, 0, 192), 128, KP_ADDRESS_METADATA },     /* Oracle's */
	{ V4(0, 0, 0, 0), 96 + 8, KP_ADDRESS_OTHER },
	{ V4(10, 0, 0, 0), 96 + 8, KP_ADDRESS_PRIVATE },
	{ V4(100, 64, 0, 0), 96 + 10,
		KP_ADDRESS_PRIVATE }, /* behind a carrier's NAT; pods, at some */
	{ V4(127, 0, 0, 0), 96 + 8, KP_ADDRESS_LOOPBACK },
	{ V4(169, 254, 0, 0), 96 + 16, KP_ADDRESS_OTHER },
	{ V4(172, 16, 0, 0), 96 + 12, KP_ADDRESS_PRIVATE },
	{ V4(192, 0, 0, 0), 96 + 24, KP_ADDRESS_OTHER },
	{ V4(192, 0, 2, 0), 96 + 24, KP_ADDRESS_OTHER },
	{ V4(192, 88, 99, 0), 96 + 24, KP_ADDRESS_OTHER }, /* relays of 6to4 */
	{ V4(192, 168, 0, 0), 96 + 16, KP_ADDRESS_PRIVATE },
	{ V4(198, 18, 0, 0), 96 + 15, KP_ADDRESS_OTHER },
	{ V4(198, 51, 100, 0), 96 + 24, KP_ADDRESS_OTHER },
	{ V4(203, 0, 113, 0), 96 + 24, KP_ADDRESS_OTHER },
	{ V4(224, 0, 0, 0), 96 + 3, KP_ADDRESS_OTHER }, /* multicast, reserved, broadcast */
	{ V4(0, 0, 0, 0), 96, KP_ADDRESS_GLOBAL },
	{ { [15] = 1 }, 128, KP_ADDRESS_LOOPBACK },
	{ { 0xfd, 0x00, 0x0e, 0xc2, [15] = 0 }, 32, KP_ADDRESS_METADATA }, /* Amazon's */
	{ { 0xfd, 0x20, 0x00, 0xce, [15] = 0 }, 32, KP_ADDRESS_METADATA }, /* Google's */
	{ { 0xfc }, 7, KP_ADDRESS_PRIVATE },
	{ { 0x20, 0x01, 0x00, 0x00 }, 23, KP_ADDRESS_OTHER }, /* protocols, Teredo among them */
	{ { 0x20, 0x01, 0x0d, 0xb8 }, 32, KP_ADDRESS_OTHER },
	{ { 0x20, 0x02 }, 16, KP_ADDRESS_OTHER }, /* 6to4 */
	{ { 0x3f, 0xff }, 20, KP_ADDRESS_OTHER },
	{ { 0x20 }, 3, KP_ADDRESS_GLOBAL },
};

enum kp_address_kind kp_address_kind(const struct sockaddr *sa)
{
	uint8_t a[16];
	if (!read_address(sa, a)) {
		return KP_ADDRESS_OTHER;
	}
	for (size_t i = 0; i < KP_LEN(special); i++) {
		if (in(a, special[i].net, special[i].bits)) {
			return special[i].kind;
		}
	}
	return KP_ADDRESS_OTHER;
}

int kp_cidr_parse(kp_str text, struct kp_cidr *ret, struct kp_err *err)
{
	char z[64];
	uint8_t a[16];
	uint64_t bits;
	ptrdiff_t slash = kp_str_rfind_char(text, '/');
	kp_str ip = kp_str_sub(text, 0, slash < 0 ? text.n : (size_t)slash);
	bool is_v4 = kp_str_find_char(ip, ':') < 0;
	unsigned most = is_v4 ? 32 : 128, offset = is_v4 ? 96 : 0;
	if (slash < 0 || ip.n >= sizeof(z) || memchr(ip.p, '\0', ip.n)) {
		goto bad;
	}
	memcpy(z, ip.p, ip.n);
	z[ip.n] = '\0';
	memcpy(a, mapped, 12);
	if (inet_pton(is_v4 ? AF_INET : AF_INET6, z, is_v4 ? a + 12 : a) != 1 ||
		!kp_str_u64(kp_str_skip(text, (size_t)slash + 1), most, &bits)) {
		goto bad;
	}
	bits += offset;
	for (unsigned i = (unsigned)bits; i < 128; i++) {
		if (a[i / 8] & (0x80u >> (i % 8))) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"`%" KP_FMT "` has bits behind its prefix", KP_ARG(text));
		}
	}
	memcpy(ret->net, a, 16);
	ret->bits = (uint8_t)bits;
	return 0;
bad:
	return kp_err_set(err, KP_INVALID_ARGUMENT,
		"`%" KP_FMT "` is no range of addresses, as in 10.0.0.0/8",
		KP_ARG(kp_str_sub(text, 0, 64)));
}

bool kp_cidr_has(const struct kp_cidr *c, const struct sockaddr *sa)
{
	uint8_t a[16];
	return read_address(sa, a) && in(a, c->net, c->bits);
}

int kp_fetch_address_check(
	const struct kp_fetch_policy *p, const struct sockaddr *sa, struct kp_err *err)
{
	static const char *const what[] = { [KP_ADDRESS_PRIVATE] = "private",
		[KP_ADDRESS_LOOPBACK] = "a loopback address",
		[KP_ADDRESS_METADATA] = "a metadata service's",
		[KP_ADDRESS_OTHER] = "not a public one" };
	enum kp_address_kind kind = kp_address_kind(sa);
	char text[KP_ADDR_TEXT_MAX];
	if (kind == KP_ADDRESS_GLOBAL ||
		(p->allows_private &&
			(kind == KP_ADDRESS_PRIVATE || kind == KP_ADDRESS_LOOPBACK))) {
		return 0;
	}
	for (size_t i = 0; i < p->n_allow; i++) {
		if (kp_cidr_has(&p->allow[i], sa)) {
			return 0;
		}
	}
	if (sa->sa_family != AF_INET && sa->sa_family != AF_INET6) {
		return kp_err_set(err, KP_PERMISSION_DENIED, "connect: no address of the Internet");
	}
	return kp_err_set(err, KP_PERMISSION_DENIED,
		"connect to `%" KP_FMT "`: the address is %s, which is not allowed",
		KP_ARG(kp_addr_print(sa, text)), what[kind]);
}

/* --- URLs --- */

static kp_str without_dot(kp_str host)
{
	return host.n && host.p[host.n - 1] == '.' ? kp_str_sub(host, 0, host.n - 1) : host;
}

static bool ends_in_number(kp_str s)
{
	size_t at = s.n;
	while (at > 0 && s.p[at - 1] != '.') {
		at--;
	}
	kp_str last = kp_str_skip(s, at);
	bool is_hex = last.n >= 2 && last.p[0] == '0' && kp_lower(last.p[1]) == 'x';
	for (size_t i = is_hex ? 2 : 0; i < last.n; i++) {
		char c = kp_lower(last.p[i]);
		if (!kp_is_digit(c) && !(is_hex && c >= 'a' && c <= 'f')) {
			return false;
		}
	}
	return last.n > 0;
}

static bool is_ipv4(kp_str s)
{
	char z[INET_ADDRSTRLEN];
	struct in_addr a;
	snprintf(z, sizeof(z), "%.*s", KP_ARG(kp_str_sub(s, 0, sizeof(z))));
	return s.n < sizeof(z) && inet_pton(AF_INET, z, &a) == 1;
}

/* Letters, digits, `-`, `_` and dots, or an IPv6 address in brackets. What ends in a number is an IPv4 address or none (URL Standard, "ends in a number"): libcurl
   has read every other spelling of one by now, but for those that percent signs hid from it. */
static bool is_host(kp_str s)
{
	bool is_v6 = s.n > 2 && s.p[0] == '[' && s.p[s.n - 1] == ']';
	s = is_v6 ? kp_str_sub(s, 1, s.n - 1) : without_dot(s);
	bool is_right = s.n > 0 && s.n <= 253 && s.p[0] != '.' && s.p[s.n - 1] != '.';
	for (size_t i = 0; i < s.n && is_right; i++) {
		char c = kp_lower(s.p[i]);
		is_right = (c >= 'a' && c <= 'z') || kp_is_digit(c) || c == '.' ||
			   (is_v6 ? c == ':' : c == '-' || c == '_');
	}
	return is_right && (is_v6 || !ends_in_number(s) || is_ipv4(s));
}

int kp_fetch_host_check(kp_str pattern, struct kp_err *err)
{
	kp_str s = kp_str_starts(pattern, KP_S("*.")) ? kp_str_skip(pattern, 2) : pattern;
	if (!is_host(s)) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"`%" KP_FMT "` is no host, as in a.example or *.a.example",
			KP_ARG(kp_str_sub(pattern, 0, 253)));
	}
	return 0;
}

static bool is_host_of(kp_str host, kp_str pattern)
{
	pattern = without_dot(pattern);
	if (kp_str_starts(pattern, KP_S("*."))) {
		kp_str tail = kp_str_skip(pattern, 1);
		return host.n > tail.n && kp_str_ieq(kp_str_skip(host, host.n - tail.n), tail);
	}
	return kp_str_ieq(host, pattern);
}

static int check_host(const struct kp_fetch_policy *p, CURLU *u, struct kp_err *err)
{
	char *host = NULL;
	struct kp_addr a;
	struct kp_err numeric;
	int rc = 0;
	if (curl_url_get(u, CURLUPART_HOST, &host, 0) || !host[0]) {
		curl_free(host);
		return kp_err_set(err, KP_INVALID_ARGUMENT, "read the URL: it has no host");
	}
	if (!is_host(kp_str_c(host))) {
		rc = kp_err_set(err, KP_INVALID_ARGUMENT,
			"read the URL: its host is none (one in other letters is written as DNS has it, xn--...)");
		goto done;
	}
	kp_str name = without_dot(kp_str_c(host));
	bool is_named = p->n_hosts == 0;
	for (size_t i = 0; i < p->n_hosts && !is_named; i++) {
		is_named = is_host_of(name, p->hosts[i]);
	}
	if (!is_named) {
		rc = kp_err_set(err, KP_PERMISSION_DENIED, "the host `%" KP_FMT "` is not allowed",
			KP_ARG(kp_str_sub(name, 0, 253)));
		goto done;
	}
	/* A number is judged at once; names when they are resolved, each time. */
	char text[300];
	snprintf(text, sizeof(text), "%.*s:1", KP_ARG(kp_str_sub(name, 0, 260)));
	if (kp_addr_parse(text, &a, &numeric) == 0 && a.socklen && !a.is_unix && a.host[0]) {
		rc = kp_fetch_address_check(p, (const struct sockaddr *)&a.sock, err);
	}
done:
	curl_free(host);
	return rc;
}

static int check_url(const struct kp_fetch_policy *p, CURLU *u, struct kp_err *err)
{
	char *part = NULL;
	bool is_http, is_https;
	static const CURLUPart secrets[] = { CURLUPART_USER, CURLUPART_PASSWORD,
		CURLUPART_OPTIONS };
	if (curl_url_get(u, CURLUPART_SCHEME, &part, 0)) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "read the URL: it has no scheme");
	}
	is_https = kp_str_ieq(kp_str_c(part), KP_S("https"));
	is_http = kp_str_ieq(kp_str_c(part), KP_S("http"));
	curl_free(part);
	if (!is_https && (!is_http || p->https_only)) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "read the URL: only %s is fetched",
			p->https_only ? "https" : "http and https");
	}
	for (size_t i = 0; i < KP_LEN(secrets); i++) {
		if (curl_url_get(u, secrets[i], &part, 0) == CURLUE_OK) {
			curl_free(part);
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"read the URL: user name and password in it are not taken");
		}
	}
	if (curl_url_get(u, CURLUPART_PORT, &part, CURLU_DEFAULT_PORT) == CURLUE_OK) {
		bool is_zero = strspn(part, "0") == strlen(part);
		curl_free(part);
		if (is_zero) {
			return kp_err_set(err, KP_INVALID_ARGUMENT, "read the URL: port 0 is none");
		}
	}
	curl_url_set(u, CURLUPART_FRAGMENT, NULL, 0);
	return check_host(p, u, err);
}

static int set_url(CURLU *u, kp_str url, struct kp_err *err)
{
	char z[KP_FETCH_URL_MAX + 1];
	if (url.n == 0) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "read the URL: it is empty");
	}
	if (url.n > KP_FETCH_URL_MAX) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"read the URL: it has more than %d bytes", KP_FETCH_URL_MAX);
	}
	for (size_t i = 0; i < url.n; i++) {
		if ((unsigned char)url.p[i] <= ' ' || url.p[i] == 0x7f || url.p[i] == '\\') {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"read the URL: the character at %zu does not belong into one", i);
		}
	}
	memcpy(z, url.p, url.n);
	z[url.n] = '\0';
	CURLUcode rc = curl_url_set(u, CURLUPART_URL, z, CURLU_NON_SUPPORT_SCHEME);
	if (rc) {
		return kp_err_set(
			err, KP_INVALID_ARGUMENT, "read the URL: %s", curl_url_strerror(rc));
	}
	return 0;
}

static int finish(
	const struct kp_fetch_policy *p, CURLU *u, kp_str url, CURLU **ret, struct kp_err *err)
{
	KP_BUG_ON(!u);
	if (set_url(u, url, err) || check_url(p, u, err)) {
		curl_url_cleanup(u);
		return -1;
	}
	*ret = u;
	return 0;
}

int kp_fetch_url_parse(const struct kp_fetch_policy *p, kp_str url, CURLU **ret, struct kp_err *err)
{
	return finish(p, curl_url(), url, ret, err);
}

int kp_fetch_url_follow(const struct kp_fetch_policy *p, CURLU *base, kp_str location, CURLU **ret,
	struct kp_err *err)
{
	return finish(p, curl_url_dup(base), location, ret, err);
}

static bool is_same(CURLU *a, CURLU *b, CURLUPart part)
{
	char *x = NULL, *y = NULL;
	bool is_same = curl_url_get(a, part, &x, CURLU_DEFAULT_PORT) == CURLUE_OK &&
		       curl_url_get(b, part, &y, CURLU_DEFAULT_PORT) == CURLUE_OK &&
		       kp_str_ieq(without_dot(kp_str_c(x)), without_dot(kp_str_c(y)));
	curl_free(x);
	curl_free(y);
	return is_same;
}

bool kp_fetch_same_origin(CURLU *a, CURLU *b)
{
	return is_same(a, b, CURLUPART_SCHEME) && is_same(a, b, CURLUPART_HOST) &&
	       is_same(a, b, CURLUPART_PORT);
}

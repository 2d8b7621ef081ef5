/* What HTTP servers and clients here share: methods of a message, headers, limits. Names are lower case (HTTP/2 form) whatever came in. */
#ifndef KP_NET_HTTP_H
#define KP_NET_HTTP_H

#include "base/str.h"

struct kp_header {
	kp_str name, value;
};

/* First value of a header, KP_STR_NULL when absent. `name` in lower case. */
kp_str kp_header_get(const struct kp_header *h, size_t n, kp_str name);

struct kp_http_request {
	kp_str method;      /* "GET" */
	kp_str target;      /* as sent, "/v1/models?x=1" */
	kp_str path, query; /* target split at '?'; query without it */
	kp_str authority, scheme;
	const struct kp_header *
		headers; /* without pseudo-headers and framing (connection, transfer-encoding, ...) */
	size_t n_headers;
	int64_t content_length; /* -1: none given */
	int version;            /* 10, 11, 20 */
	bool te_trailers;       /* HTTP/2: "te: trailers" came */
	bool tls;
	/* DNS and URI names of the client's certificate, which was verified; none without one. */
	const kp_str *peer_names;
	size_t n_peer_names;
	kp_str peer; /* "127.0.0.1:54321" */
};

/* "OK" for 200; "" for an unknown status. */
const char *kp_http_reason(int status);
/* "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110, 5.6.7) and a NUL. */
enum { KP_HTTP_DATE_MAX = 30 };
void kp_http_date(int64_t wall_ns, char buf[KP_HTTP_DATE_MAX]);

#endif

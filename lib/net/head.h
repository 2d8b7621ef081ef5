/* HTTP/1 request heads and chunked bodies, strictly (RFC 9112): whatever two parsers could read differently is refused, because the difference is what request
   smuggling lives on. Pure functions over bytes; they give the same however the input is cut. http-parser (Debian 2.9.4) is the oracle of the tests, not part of
   this: it folds obs-fold, takes bare LF, and its Debian build skips any two bytes after a chunk.

   Refused with 400: bare LF, bare CR, NUL and other control bytes, obs-fold, white space before the colon, odd method or target, missing, repeated or odd Host, Content-Length
   that is not one plain number, Content-Length with Transfer-Encoding, repeated Transfer-Encoding, Transfer-Encoding in HTTP/1.0. 501: other codings than chunked, CONNECT.
   505: other versions. 414 and 431: over the limits. 417: unknown expectation. */
#ifndef KP_NET_HEAD_H
#define KP_NET_HEAD_H

#include "net/http.h"

struct kp_head_limits {
	size_t max_head_bytes, max_target_bytes;
	size_t max_headers;
};

/* A reason to refuse: status and a fixed text for the client; status 0: none. */
struct kp_refusal {
	int status;
	const char *why;
	bool not_http; /* the other side speaks something else: an answer would say nothing to it */
};

static inline struct kp_refusal kp_refuse(int status, const char *why)
{
	return (struct kp_refusal){ .status = status, .why = why };
}

/* Where the search for the end of the head stands; zeroed to begin. */
struct kp_head_scan {
	size_t begin;    /* of the request line, behind empty lines */
	size_t line;     /* of the line being searched */
	size_t searched; /* no LF before it */
	size_t n_lines;  /* complete ones: the request line and the fields */
};

/* Looks at all of `in` again (the same bytes with more behind them). Bytes of the head from `scan->begin`, 0: more are needed, or *ret is set. */
size_t kp_head_find_end(kp_str in, struct kp_head_scan *scan, const struct kp_head_limits *limits,
	struct kp_refusal *ret);

struct kp_head {
	kp_str method, target, path, query, authority;
	int version; /* 10 or 11 */
	struct kp_header *
		headers; /* the caller's array, room for scan.n_lines; without framing: connection, keep-alive, proxy-connection, content-length,
				      transfer-encoding, te, expect, host */
	size_t n_headers;
	int64_t content_length; /* -1: none */
	bool chunked, keep_alive, expect_continue;
};

/* Parses a whole head (from begin, as long as kp_head_find_end said). Header names in `p` become lower case; the slices of *ret point into it. Of a
 * head that is refused, *ret has what was read until then. */
struct kp_refusal kp_head_parse(char *p, size_t n, const struct kp_head_limits *limits,
	struct kp_header *headers, struct kp_head *ret);

/* What both versions share. */
bool kp_head_is_token(kp_str s);
bool kp_head_is_value(kp_str s);     /* visible ASCII, SP, HTAB, bytes above 127 */
bool kp_head_is_authority(kp_str s); /* host, host:port, [v6]:port; empty is fine */
/* "/x?y" or "*": path and query; false for anything else. */
bool kp_head_split_target(kp_str target, kp_str *ret_path, kp_str *ret_query);

/* ---- chunked bodies ---- */

enum kp_chunk_event { KP_CHUNK_MORE = 0, KP_CHUNK_DATA, KP_CHUNK_END, KP_CHUNK_BAD };

struct kp_chunked { /* zeroed to begin */
	uint8_t state;
	uint8_t digits;
	uint64_t left;   /* of the chunk */
	size_t overhead; /* bytes of extensions and trailers so far, at most 16 KiB */
	const char *why; /* KP_CHUNK_BAD */
};
/* Takes from the front of *in. DATA: *ret_piece is a piece of the body, call again; MORE: *in is used up; END: the body is complete, *in is what follows. Trailers are
   checked and dropped. */
enum kp_chunk_event kp_chunked_feed(struct kp_chunked *c, kp_str *in, kp_str *ret_piece);

#endif

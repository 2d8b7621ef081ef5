/* DESIGN: one table of byte classes, one pass over the lines. The end of the head is looked for first (LF by LF, never twice over the same bytes), so that the
   parser always has a whole head and every decision sees all of it. */
#include "net/head.h"

enum { T = 1 /* token */, V = 2 /* field value */, U = 4 /* target */, H = 8 /* host and port */ };

#define IN(c, low, high)    ((c) >= (low) && (c) <= (high))
#define ALNUM(c)            (IN(c, '0', '9') || IN(c, 'A', 'Z') || IN(c, 'a', 'z'))
#define ANY4(c, a, b, d, e) ((c) == (a) || (c) == (b) || (c) == (d) || (c) == (e))
#define IS_T(c)                                                                     \
	(ALNUM(c) || ANY4(c, '!', '#', '$', '%') || ANY4(c, '&', '\'', '*', '+') || \
		ANY4(c, '-', '.', '^', '_') || ANY4(c, '`', '|', '~', '~'))
#define IS_V(c) ((c) == '\t' || IN(c, 0x20, 0x7e) || (c) >= 0x80)
#define IS_U(c) (IN(c, 0x21, 0x7e) && (c) != '#')
#define IS_H(c)                                                                     \
	(ALNUM(c) || ANY4(c, '-', '.', '_', '~') || ANY4(c, '!', '$', '&', '\'') || \
		ANY4(c, '(', ')', '*', '+') || ANY4(c, ',', ';', '=', '%') ||       \
		ANY4(c, ':', '[', ']', ']'))
#define CLASS(c) (IS_T(c) ? T : 0) | (IS_V(c) ? V : 0) | (IS_U(c) ? U : 0) | (IS_H(c) ? H : 0)
#define ROW4(c)  CLASS(c), CLASS(c + 1), CLASS(c + 2), CLASS(c + 3)
#define ROW16(c) ROW4(c), ROW4(c + 4), ROW4(c + 8), ROW4(c + 12)
#define ROW64(c) ROW16(c), ROW16(c + 16), ROW16(c + 32), ROW16(c + 48)
static const uint8_t class_of[256] = { ROW64(0), ROW64(64), ROW64(128), ROW64(192) };

static bool all(kp_str s, uint8_t want)
{
	uint8_t have = want;
	for (size_t i = 0; i < s.n; i++) {
		have &= class_of[(uint8_t)s.p[i]];
	}
	return have == want;
}

bool kp_head_is_token(kp_str s)
{
	return s.n > 0 && all(s, T);
}

bool kp_head_is_value(kp_str s)
{
	return all(s, V);
}

bool kp_head_is_authority(kp_str s)
{
	if (!all(s, H)) {
		return false;
	}
	kp_str port = KP_STR_NULL;
	if (s.n > 0 && s.p[0] == '[') {
		ptrdiff_t close = kp_str_find_char(s, ']');
		if (close < 2) {
			return false;
		}
		port = kp_str_skip(s, (size_t)close + 1);
		if (port.n > 0 && port.p[0] != ':') {
			return false;
		}
		s = kp_str_sub(s, 1, (size_t)close);
	} else {
		ptrdiff_t colon = kp_str_find_char(s, ':');
		if (colon == 0) {
			return false;
		}
		port = colon > 0 ? kp_str_skip(s, (size_t)colon) : KP_STR_NULL;
		s = colon > 0 ? kp_str_sub(s, 0, (size_t)colon) : s;
		if (kp_str_find_char(s, ']') >= 0) {
			return false;
		}
	}
	uint64_t number;
	return kp_str_find_char(s, '[') < 0 &&
	       (port.n <= 1 || kp_str_u64(kp_str_skip(port, 1), UINT16_MAX, &number));
}

bool kp_head_split_target(kp_str target, kp_str *ret_path, kp_str *ret_query)
{
	if (target.n == 0 || !all(target, U) ||
		(target.p[0] != '/' && !kp_str_eq(target, KP_S("*")))) {
		return false;
	}
	ptrdiff_t q = kp_str_find_char(target, '?');
	*ret_path = q < 0 ? target : kp_str_sub(target, 0, (size_t)q);
	*ret_query = q < 0 ? KP_STR_NULL : kp_str_skip(target, (size_t)q + 1);
	return true;
}

/* ---- the end of the head ---- */

#define OK ((struct kp_refusal){ .status = 0 })

#define NOT_HTTP \
	((struct kp_refusal){ .status = 400, .why = "not an HTTP request", .not_http = true })

static size_t refuse(struct kp_refusal *ret, int status, const char *why)
{
	*ret = kp_refuse(status, why);
	return 0;
}

enum { REQUEST_LINE_EXTRA = 64 /* method, version, spaces */, MAX_EMPTY_LINES = 4 };

/* Too long so far? The smaller of the two limits speaks, so that the answer does not depend on how the input is cut. */
static bool too_long(
	size_t n, bool in_request_line, const struct kp_head_limits *limits, struct kp_refusal *ret)
{
	size_t line_max = limits->max_target_bytes + REQUEST_LINE_EXTRA;
	if (in_request_line && line_max < limits->max_head_bytes && n > line_max) {
		*ret = kp_refuse(414, "the request target is too long");
		return true;
	}
	if (n > limits->max_head_bytes) {
		*ret = kp_refuse(431, "the request head is too large");
		return true;
	}
	return false;
}

size_t kp_head_find_end(kp_str in, struct kp_head_scan *scan, const struct kp_head_limits *limits,
	struct kp_refusal *ret)
{
	while (scan->searched < in.n) {
		char first = scan->begin < in.n ? in.p[scan->begin] : '\r';
		if (scan->n_lines == 0 && first != '\r' && first != '\n' &&
			!(class_of[(uint8_t)first] & T)) {
			*ret = NOT_HTTP; /* a TLS hello, say: no need to wait for a line */
			return 0;
		}
		const char *lf = memchr(in.p + scan->searched, '\n', in.n - scan->searched);
		size_t at = lf ? (size_t)(lf - in.p) : in.n;
		if (too_long(at - scan->begin, scan->n_lines == 0, limits, ret)) {
			return 0;
		}
		scan->searched = lf ? at + 1 : in.n;
		if (!lf) {
			break;
		}
		if (at == scan->line || in.p[at - 1] != '\r') {
			return refuse(ret, 400, "a line of the request head ends without CR");
		}
		bool empty = at == scan->line + 1;
		scan->line = at + 1;
		if (!empty) {
			scan->n_lines++;
		} else if (scan->n_lines > 0) {
			return at + 1 - scan->begin;
		} else if (at + 1 > 2 * MAX_EMPTY_LINES) {
			return refuse(ret, 400, "too many empty lines before the request");
		} else {
			scan->begin = at + 1;
		}
	}
	return 0;
}

/* ---- the request line ---- */

/* "http://host:port/path" -> authority and the rest; RFC 9112, 3.2.2. */
static bool split_absolute(kp_str *target, kp_str *ret_authority)
{
	size_t scheme = kp_str_ieq(kp_str_sub(*target, 0, 7), KP_S("http://"))    ? 7
			: kp_str_ieq(kp_str_sub(*target, 0, 8), KP_S("https://")) ? 8
										  : 0;
	if (!scheme) {
		return false;
	}
	kp_str rest = kp_str_skip(*target, scheme);
	size_t end = 0;
	while (end < rest.n && rest.p[end] != '/' && rest.p[end] != '?') {
		end++;
	}
	*ret_authority = kp_str_sub(rest, 0, end);
	rest = kp_str_skip(rest, end);
	if (rest.n > 0 && rest.p[0] != '/') {
		return false; /* "http://host?query": no client of ours sends it */
	}
	*target = rest.n ? rest : KP_S("/");
	return ret_authority->n > 0 && kp_head_is_authority(*ret_authority);
}

static struct kp_refusal parse_version(kp_str v, int *ret)
{
	if (kp_str_eq(v, KP_S("HTTP/1.1"))) {
		*ret = 11;
		return OK;
	}
	if (kp_str_eq(v, KP_S("HTTP/1.0"))) {
		*ret = 10;
		return OK;
	}
	bool version_like = v.n == 8 && kp_str_starts(v, KP_S("HTTP/")) && kp_is_digit(v.p[5]) &&
			    v.p[6] == '.' && kp_is_digit(v.p[7]);
	if (version_like) {
		return kp_refuse(505, "only HTTP/1.0, HTTP/1.1 and HTTP/2 are spoken here");
	}
	return kp_str_starts(v, KP_S("HTTP/")) ? kp_refuse(400, "malformed HTTP version")
					       : NOT_HTTP;
}

static struct kp_refusal parse_request_line(
	kp_str line, const struct kp_head_limits *limits, struct kp_head *h)
{
	ptrdiff_t first = kp_str_find_char(line, ' ');
	ptrdiff_t last = kp_str_rfind_char(line, ' ');
	if (first <= 0 || last == first) {
		return kp_refuse(400, "malformed request line");
	}
	h->method = kp_str_sub(line, 0, (size_t)first);
	h->target = kp_str_sub(line, (size_t)first + 1, (size_t)last);
	if (h->target.n > limits->max_target_bytes) {
		return kp_refuse(414, "the request target is too long");
	}
	struct kp_refusal r = parse_version(kp_str_skip(line, (size_t)last + 1), &h->version);
	if (r.status) {
		return r;
	}
	if (h->method.n > 32 || !kp_head_is_token(h->method)) {
		return kp_refuse(400, "malformed request method");
	}
	if (kp_str_eq(h->method, KP_S("CONNECT"))) {
		return kp_refuse(501, "CONNECT is not supported");
	}
	kp_str target = h->target;
	bool ok = all(target, U);
	if (ok && target.n > 0 && target.p[0] != '/' && target.p[0] != '*') {
		ok = split_absolute(&target, &h->authority);
	}
	if (!ok || !kp_head_split_target(target, &h->path, &h->query) ||
		(target.p[0] == '*' && !kp_str_eq(h->method, KP_S("OPTIONS")))) {
		return kp_refuse(400, "malformed request target");
	}
	return OK;
}

/* ---- fields ---- */

struct framing {
	unsigned hosts, lengths, codings;
	bool close, keep_alive;
	kp_str host;
};

static struct kp_refusal take_connection(struct framing *f, kp_str value)
{
	kp_str rest = value, token;
	while (kp_str_split(&rest, ',', &token)) {
		token = kp_str_trim(token);
		if (kp_str_ieq(token, KP_S("close"))) {
			f->close = true;
		} else if (kp_str_ieq(token, KP_S("keep-alive"))) {
			f->keep_alive = true;
		} else if (token.n && !kp_head_is_token(token)) {
			return kp_refuse(400, "malformed Connection header");
		}
	}
	return OK;
}

static struct kp_refusal take_length(struct kp_head *h, struct framing *f, kp_str value)
{
	uint64_t n;
	if (++f->lengths > 1) {
		return kp_refuse(400, "more than one Content-Length");
	}
	for (size_t i = 0; i < value.n; i++) {
		if (!kp_is_digit(value.p[i])) {
			return kp_refuse(400, "Content-Length must be one decimal number");
		}
	}
	if (value.n == 0 || value.n > 18 || !kp_str_u64(value, INT64_MAX, &n)) {
		return kp_refuse(400, "Content-Length must be one decimal number");
	}
	h->content_length = (int64_t)n;
	return OK;
}

static struct kp_refusal take_coding(struct kp_head *h, struct framing *f, kp_str value)
{
	if (++f->codings > 1) {
		return kp_refuse(400, "more than one Transfer-Encoding");
	}
	if (h->version == 10) {
		return kp_refuse(400, "Transfer-Encoding in an HTTP/1.0 request");
	}
	if (!kp_str_ieq(value, KP_S("chunked"))) {
		return kp_head_is_token(value)
			       ? kp_refuse(501, "the only transfer coding taken is chunked")
			       : kp_refuse(400, "odd Transfer-Encoding");
	}
	h->chunked = true;
	return OK;
}

/* Framing headers are taken out (*ret_taken), the others stay with the request. */
static struct kp_refusal take_framing(
	struct kp_head *h, struct framing *f, struct kp_header x, bool *ret_taken)
{
	*ret_taken = true;
	switch (x.name.n) {
	case 2:
		if (kp_str_eq(x.name, KP_S("te"))) {
			return OK;
		}
		break;
	case 4:
		if (kp_str_eq(x.name, KP_S("host"))) {
			f->hosts++;
			f->host = x.value;
			return kp_head_is_authority(x.value)
				       ? OK
				       : kp_refuse(400, "malformed Host header");
		}
		break;
	case 6:
		if (kp_str_eq(x.name, KP_S("expect"))) {
			h->expect_continue = h->version == 11;
			return kp_str_ieq(x.value, KP_S("100-continue"))
				       ? OK
				       : kp_refuse(417, "the only expectation met is 100-continue");
		}
		break;
	case 10:
		if (kp_str_eq(x.name, KP_S("connection"))) {
			return take_connection(f, x.value);
		}
		if (kp_str_eq(x.name, KP_S("keep-alive"))) {
			return OK;
		}
		break;
	case 14:
		if (kp_str_eq(x.name, KP_S("content-length"))) {
			return take_length(h, f, x.value);
		}
		break;
	case 16:
		if (kp_str_eq(x.name, KP_S("proxy-connection"))) {
			return OK;
		}
		break;
	case 17:
		if (kp_str_eq(x.name, KP_S("transfer-encoding"))) {
			return take_coding(h, f, x.value);
		}
		break;
	default:
		break;
	}
	*ret_taken = false;
	return OK;
}

/* One line without its CRLF. */
static struct kp_refusal parse_field(char *p, size_t n, struct kp_header *ret)
{
	size_t colon = 0;
	while (colon < n && (class_of[(uint8_t)p[colon]] & T)) {
		p[colon] = kp_lower(p[colon]);
		colon++;
	}
	if (colon == n || colon == 0 || p[colon] != ':') {
		if (n > 0 && (p[0] == ' ' || p[0] == '\t')) {
			return kp_refuse(400, "folded header line");
		}
		return kp_refuse(400, "malformed header name");
	}
	size_t from = colon + 1, to = n;
	while (from < to && (p[from] == ' ' || p[from] == '\t')) {
		from++;
	}
	while (to > from && (p[to - 1] == ' ' || p[to - 1] == '\t')) {
		to--;
	}
	*ret = (struct kp_header){ { p, colon }, { p + from, to - from } };
	return kp_head_is_value(ret->value) ? OK : kp_refuse(400, "control byte in a header value");
}

static struct kp_refusal check_framing(struct kp_head *h, const struct framing *f)
{
	if (f->hosts > 1 || (f->hosts == 0 && h->version == 11)) {
		return kp_refuse(400, "exactly one Host header is needed");
	}
	if (h->chunked && h->content_length >= 0) {
		return kp_refuse(400, "Content-Length together with Transfer-Encoding");
	}
	if (h->authority.n == 0) {
		h->authority = f->host;
	}
	h->keep_alive = !f->close && (h->version == 11 || f->keep_alive);
	h->expect_continue = h->expect_continue && (h->chunked || h->content_length > 0);
	return OK;
}

struct kp_refusal kp_head_parse(char *p, size_t n, const struct kp_head_limits *limits,
	struct kp_header *headers, struct kp_head *ret)
{
	struct kp_head h = { .headers = headers, .content_length = -1 };
	struct framing f = { 0 };
	char *end = p + n - 2; /* of the last line before the empty one: its LF is end[-1] */
	char *line = p, *lf = memchr(p, '\n', n);
	struct kp_refusal r =
		parse_request_line(kp_str_n(line, (size_t)(lf - line) - 1), limits, &h);
	size_t lines = 0;
	for (line = lf + 1; !r.status && line < end; line = lf + 1) {
		lf = memchr(line, '\n', (size_t)(end - line));
		struct kp_header x;
		bool taken = false;
		if (++lines > limits->max_headers) {
			r = kp_refuse(431, "too many headers");
			break;
		}
		r = parse_field(line, (size_t)(lf - line) - 1, &x);
		if (!r.status) {
			r = take_framing(&h, &f, x, &taken);
		}
		if (!r.status && !taken) {
			headers[h.n_headers++] = x;
		}
	}
	if (!r.status) {
		r = check_framing(&h, &f);
	}
	*ret = h;
	return r;
}

/* ---- chunked ---- */

enum {
	SIZE = 0,
	EXTENSION,
	SIZE_LF,
	DATA,
	DATA_CR,
	DATA_LF,
	TRAILER_START,
	TRAILER_NAME,
	TRAILER_VALUE,
	TRAILER_LF,
	END_LF,
	DONE,
	BAD
};

enum { MAX_OVERHEAD = 16 << 10 };

static int hex_value(char c)
{
	char l = kp_lower(c);
	return kp_is_digit(c) ? c - '0' : l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
}

static uint8_t chunk_bad(struct kp_chunked *c, const char *why)
{
	c->why = why;
	return BAD;
}

static uint8_t size_byte(struct kp_chunked *c, char b)
{
	int v = hex_value(b);
	if (v >= 0 && c->digits < 15) {
		c->left = c->left * 16 + (uint64_t)v;
		c->digits++;
		return SIZE;
	}
	if (c->digits > 0 && b == '\r') {
		return SIZE_LF;
	}
	if (c->digits > 0 && b == ';') {
		return EXTENSION;
	}
	return chunk_bad(c, "malformed chunk size");
}

/* One byte that is not chunk data. */
static uint8_t framing_byte(struct kp_chunked *c, char b)
{
	uint8_t class = class_of[(uint8_t)b];
	switch (c->state) {
	case SIZE:
		return size_byte(c, b);
	case EXTENSION:
		return b == '\r'     ? SIZE_LF
		       : (class & V) ? EXTENSION
				     : chunk_bad(c, "malformed chunk extension");
	case SIZE_LF:
		return b != '\n' ? chunk_bad(c, "a chunk size ends without CRLF")
		       : c->left ? DATA
				 : TRAILER_START;
	case DATA_CR:
		return b == '\r' ? DATA_LF : chunk_bad(c, "a chunk ends without CRLF");
	case DATA_LF:
		c->digits = 0;
		return b == '\n' ? SIZE : chunk_bad(c, "a chunk ends without CRLF");
	case TRAILER_START:
		return b == '\r'     ? END_LF
		       : (class & T) ? TRAILER_NAME
				     : chunk_bad(c, "malformed trailer");
	case TRAILER_NAME:
		return b == ':'      ? TRAILER_VALUE
		       : (class & T) ? TRAILER_NAME
				     : chunk_bad(c, "malformed trailer");
	case TRAILER_VALUE:
		return b == '\r'     ? TRAILER_LF
		       : (class & V) ? TRAILER_VALUE
				     : chunk_bad(c, "malformed trailer");
	case TRAILER_LF:
		return b == '\n' ? TRAILER_START : chunk_bad(c, "malformed trailer");
	case END_LF:
		return b == '\n' ? DONE : chunk_bad(c, "the last chunk ends without CRLF");
	default:
		return BAD;
	}
}

enum kp_chunk_event kp_chunked_feed(struct kp_chunked *c, kp_str *in, kp_str *ret_piece)
{
	while (in->n > 0 && c->state != DONE && c->state != BAD) {
		if (c->state == DATA) {
			size_t take = c->left < in->n ? (size_t)c->left : in->n;
			*ret_piece = kp_str_sub(*in, 0, take);
			*in = kp_str_skip(*in, take);
			c->left -= take;
			if (c->left == 0) {
				c->state = DATA_CR;
			}
			return KP_CHUNK_DATA;
		}
		bool counted = c->state == EXTENSION ||
			       (c->state >= TRAILER_START && c->state <= TRAILER_LF);
		c->state = framing_byte(c, in->p[0]);
		*in = kp_str_skip(*in, 1);
		if (counted && ++c->overhead > MAX_OVERHEAD) {
			c->state = chunk_bad(c, "chunk extensions or trailers are too large");
		}
	}
	return c->state == DONE ? KP_CHUNK_END : c->state == BAD ? KP_CHUNK_BAD : KP_CHUNK_MORE;
}

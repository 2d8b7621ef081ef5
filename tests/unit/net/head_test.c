/* The strict scan of HTTP/1 heads and chunked bodies: tables of what is taken and what is refused, each with its status. */
#include "base/mem.h"
#include "net/head.h"
#include "tests/test.h"

static const struct kp_head_limits limits = {
	.max_head_bytes = 2000, .max_target_bytes = 200, .max_headers = 10
};

/* A head as the server takes it: end looked for, then parsed from a copy of its own size. */
static struct kp_refusal parse(kp_str text, struct kp_head *ret, char **ret_copy)
{
	struct kp_head_scan scan = { 0 };
	struct kp_refusal r = { .status = 0 };
	size_t n = kp_head_find_end(text, &scan, &limits, &r);
	*ret_copy = NULL;
	if (r.status) {
		return r;
	}
	assert_true(n > 0);
	assert_int_equal(scan.begin + n, text.n);
	size_t headers_bytes = scan.n_lines * sizeof(struct kp_header);
	*ret_copy = kp_xmalloc(headers_bytes + n);
	memcpy(*ret_copy + headers_bytes, text.p + scan.begin, n);
	return kp_head_parse(
		*ret_copy + headers_bytes, n, &limits, (struct kp_header *)(void *)*ret_copy, ret);
}

static void test_request(void **state)
{
	(void)state;
	struct kp_head h;
	char *copy;
	struct kp_refusal r = parse(
		KP_S("\r\nPOST /v1/x?a=b?c HTTP/1.1\r\nHost: a.example:80\r\nX-Empty:\r\nUser-Agent: \t x  y\t \r\n"
		     "content-LENGTH: 12\r\nConnection: Keep-Alive, X-Odd\r\nx-b: \x80\xff\r\nTE: trailers\r\n\r\n"),
		&h, &copy);
	assert_int_equal(r.status, 0);
	assert_str_lit(h.method, "POST");
	assert_str_lit(h.target, "/v1/x?a=b?c");
	assert_str_lit(h.path, "/v1/x");
	assert_str_lit(h.query, "a=b?c");
	assert_str_lit(h.authority, "a.example:80");
	assert_int_equal(h.version, 11);
	assert_int_equal(h.content_length, 12);
	assert_true(h.keep_alive);
	assert_false(h.chunked);
	assert_int_equal(h.n_headers, 3); /* without host, content-length, connection, te */
	assert_str_lit(h.headers[0].name, "x-empty");
	assert_str_lit(h.headers[0].value, "");
	assert_str_lit(h.headers[1].name, "user-agent");
	assert_str_lit(h.headers[1].value, "x  y");
	assert_str_lit(h.headers[2].value, "\x80\xff");
	assert_str_lit(kp_header_get(h.headers, h.n_headers, KP_S("user-agent")), "x  y");
	assert_null(kp_header_get(h.headers, h.n_headers, KP_S("absent")).p);
	kp_mem_free(copy);
}

static void test_targets(void **state)
{
	(void)state;
	static const struct {
		const char *line;
		int status;
		const char *path, *query, *authority;
	} cases[] = {
		{ "GET / HTTP/1.1", 0, "/", "", "h" },
		{ "GET /a//b/../%2e%00 HTTP/1.1", 0, "/a//b/../%2e%00", "", "h" },
		{ "GET /? HTTP/1.1", 0, "/", "", "h" },
		{ "GET http://other:81/x?y HTTP/1.1", 0, "/x", "y", "other:81" },
		{ "GET HTTPS://other HTTP/1.1", 0, "/", "", "other" },
		{ "OPTIONS * HTTP/1.1", 0, "*", "", "h" },
		{ "M-SEARCH /x HTTP/1.1", 0, "/x", "", "h" },
		{ "GET * HTTP/1.1", 400, NULL, NULL, NULL },
		{ "OPTIONS *x HTTP/1.1", 400, NULL, NULL, NULL },
		{ "GET x HTTP/1.1", 400, NULL, NULL, NULL },
		{ "GET http:///x HTTP/1.1", 400, NULL, NULL, NULL },
		{ "GET http://a@b/x HTTP/1.1", 400, NULL, NULL, NULL },
		{ "GET http://a?x HTTP/1.1", 400, NULL, NULL, NULL },
		{ "GET ftp://a/x HTTP/1.1", 400, NULL, NULL, NULL },
		{ "GET /a#b HTTP/1.1", 400, NULL, NULL, NULL },
		{ "GET /a b HTTP/1.1", 400, NULL, NULL, NULL },
		{ "GET  / HTTP/1.1", 400, NULL, NULL, NULL },
		{ "GET /  HTTP/1.1", 400, NULL, NULL, NULL },
		{ " GET / HTTP/1.1", 400, NULL, NULL, NULL },
		{ "GET\t/ HTTP/1.1", 400, NULL, NULL, NULL },
		{ "GET /\x7f HTTP/1.1", 400, NULL, NULL, NULL },
		{ "GET /\xc3\xa9 HTTP/1.1", 400, NULL, NULL, NULL },
		{ "GET /a\rb HTTP/1.1", 400, NULL, NULL, NULL },
		{ "G(T / HTTP/1.1", 400, NULL, NULL, NULL },
		{ "GET / HTTP/1.1 ", 400, NULL, NULL, NULL },
		{ "GET /", 400, NULL, NULL, NULL },
		{ "GET", 400, NULL, NULL, NULL },
		{ "GET / http/1.1", 400, NULL, NULL, NULL },
		{ "GET / HTTP/1.1x", 400, NULL, NULL, NULL },
		{ "GET / HTTP/11", 400, NULL, NULL, NULL },
		{ "GET / HTTP/1.2", 505, NULL, NULL, NULL },
		{ "GET / HTTP/0.9", 505, NULL, NULL, NULL },
		{ "PRI * HTTP/2.0", 505, NULL, NULL, NULL },
		{ "CONNECT a:443 HTTP/1.1", 501, NULL, NULL, NULL },
		{ "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG / HTTP/1.1", 400, NULL, NULL, NULL },
	};
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		char text[512], *copy;
		int n = snprintf(text, sizeof(text), "%s\r\nHost: h\r\n\r\n", cases[i].line);
		struct kp_head h;
		struct kp_refusal r = parse(kp_str_n(text, (size_t)n), &h, &copy);
		if (r.status != cases[i].status) {
			fail_msg("%s: status %d, not %d (%s)", cases[i].line, r.status,
				cases[i].status, r.why ? r.why : "");
		}
		if (!r.status) {
			assert_str(h.path, kp_str_c(cases[i].path));
			assert_str(h.query, kp_str_c(cases[i].query));
			assert_str(h.authority, kp_str_c(cases[i].authority));
		}
		kp_mem_free(copy);
	}
}

static void test_fields(void **state)
{
	(void)state;
	static const struct {
		const char *fields; /* after the request line, without the empty line */
		int status;
		const char *why;
	} cases[] = {
		{ "Host: h\r\n", 0, NULL },
		{ "Host:\r\n", 0, NULL },
		{ "Host: [::1]:80\r\n", 0, NULL },
		{ "Host: a_b-c.d~\r\n", 0, NULL },
		{ "Host: h\r\nContent-Length: 0\r\n", 0, NULL },
		{ "Host: h\r\nContent-Length: 007\r\n", 0, NULL },
		{ "Host: h\r\nTransfer-Encoding: CHUNKED\r\n", 0, NULL },
		{ "Host: h\r\nExpect: 100-Continue\r\n", 0, NULL },
		{ "", 400, "Host" },
		{ "X: y\r\n", 400, "Host" },
		{ "Host: a\r\nHost: a\r\n", 400, "Host" },
		{ "Host: a b\r\n", 400, "Host" },
		{ "Host: a/b\r\n", 400, "Host" },
		{ "Host: u@a\r\n", 400, "Host" },
		{ "Host: a:99999\r\n", 400, "Host" },
		{ "Host: a:8x\r\n", 400, "Host" },
		{ "Host: :80\r\n", 400, "Host" },
		{ "Host: [::1\r\n", 400, "Host" },
		{ "Host: []\r\n", 400, "Host" },
		{ "Host: [::1]x\r\n", 400, "Host" },
		{ "Host: h\r\nContent-Length: 5\r\nContent-Length: 6\r\n", 400,
			"more than one Content-Length" },
		{ "Host: h\r\nContent-Length: 5\r\nContent-Length: 5\r\n", 400,
			"more than one Content-Length" },
		{ "Host: h\r\nContent-Length: 5, 5\r\n", 400, "one decimal" },
		{ "Host: h\r\nContent-Length: 5abc\r\n", 400, "one decimal" },
		{ "Host: h\r\nContent-Length: +5\r\n", 400, "one decimal" },
		{ "Host: h\r\nContent-Length: -5\r\n", 400, "one decimal" },
		{ "Host: h\r\nContent-Length: 0x5\r\n", 400, "one decimal" },
		{ "Host: h\r\nContent-Length: 5 5\r\n", 400, "one decimal" },
		{ "Host: h\r\nContent-Length:\r\n", 400, "one decimal" },
		{ "Host: h\r\nContent-Length: 99999999999999999999\r\n", 400, "one decimal" },
		{ "Host: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400,
			"together" },
		{ "Host: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n", 400,
			"together" },
		{ "Host: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400,
			"more than one Transfer" },
		{ "Host: h\r\nTransfer-Encoding: chunked, chunked\r\n", 400, "odd Transfer" },
		{ "Host: h\r\nTransfer-Encoding: gzip, chunked\r\n", 400, "odd Transfer" },
		{ "Host: h\r\nTransfer-Encoding:\r\n", 400, "odd Transfer" },
		{ "Host: h\r\nTransfer-Encoding: \x0b"
		  "chunked\r\n",
			400, "control byte" },
		{ "Host: h\r\nTransfer-Encoding: chunked;q=1\r\n", 400, "odd Transfer" },
		{ "Host: h\r\nTransfer-Encoding: xchunked\r\n", 501, "chunked" },
		{ "Host: h\r\nTransfer-Encoding: identity\r\n", 501, "chunked" },
		{ "Host: h\r\nX: a\r\n b\r\n", 400, "folded" },
		{ "Host: h\r\n\tb: c\r\n", 400, "folded" },
		{ " Host: h\r\n", 400, "folded" },
		{ "Host : h\r\n", 400, "header name" },
		{ "Host\t: h\r\n", 400, "header name" },
		{ "Host: h\r\n: x\r\n", 400, "header name" },
		{ "Host: h\r\nNo colon\r\n", 400, "header name" },
		{ "Host: h\r\nA(b: c\r\n", 400, "header name" },
		{ "Host: h\r\nA\xc3\xa9: c\r\n", 400, "header name" },
		{ "Host: h\r\nX: a\x01\r\n", 400, "control byte" },
		{ "Host: h\r\nX: a\x7f\r\n", 400, "control byte" },
		{ "Host: h\r\nX: a\rb\r\n", 400, "control byte" },
		{ "Host: h\nX: y\r\n", 400, "without CR" },
		{ "Host: h\r\nX: y\n\r\n", 400, "without CR" },
		{ "Host: h\r\nExpect: tea\r\n", 417, "100-continue" },
		{ "Host: h\r\nConnection: clo se\r\n", 400, "Connection" },
		{ "Host: h\r\na: 1\r\na: 1\r\na: 1\r\na: 1\r\na: 1\r\na: 1\r\na: 1\r\na: 1\r\na: 1\r\na: 1\r\n",
			431, "too many" },
	};
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		char text[512], *copy;
		int n = snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n%s\r\n", cases[i].fields);
		struct kp_head h;
		struct kp_refusal r = parse(kp_str_n(text, (size_t)n), &h, &copy);
		if (r.status != cases[i].status || (cases[i].why && !strstr(r.why, cases[i].why))) {
			fail_msg("%s: status %d (%s), not %d (%s)", cases[i].fields, r.status,
				r.why ? r.why : "", cases[i].status,
				cases[i].why ? cases[i].why : "");
		}
		kp_mem_free(copy);
	}
}

static void test_nul_bytes(void **state)
{
	(void)state;
	const kp_str cases[] = {
		KP_S("GET /\0 HTTP/1.1\r\nHost: h\r\n\r\n"),
		KP_S("GET / HTTP/1.1\r\nHost: h\r\nX\0: y\r\n\r\n"),
		KP_S("GET / HTTP/1.1\r\nHost: h\r\nX: \0y\r\n\r\n"),
		KP_S("GET / HTTP/1.1\0\r\nHost: h\r\n\r\n"),
	};
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		struct kp_head h;
		char *copy;
		assert_int_equal(parse(cases[i], &h, &copy).status, 400);
		kp_mem_free(copy);
	}
}

static void test_keep_alive(void **state)
{
	(void)state;
	static const struct {
		const char *version, *connection;
		bool keep;
	} cases[] = {
		{ "1.1", "x", true },
		{ "1.1", "close", false },
		{ "1.1", "keep-alive, Close", false },
		{ "1.1", "keep-alive", true },
		{ "1.0", "x", false },
		{ "1.0", "keep-alive", true },
		{ "1.0", "Keep-Alive ,", true },
		{ "1.0", "keep-alive, close", false },
	};
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		char text[256], *copy;
		int n = snprintf(text, sizeof(text),
			"GET / HTTP/%s\r\nHost: h\r\nConnection: %s\r\n\r\n", cases[i].version,
			cases[i].connection);
		struct kp_head h;
		assert_int_equal(parse(kp_str_n(text, (size_t)n), &h, &copy).status, 0);
		assert_int_equal(h.keep_alive, cases[i].keep);
		kp_mem_free(copy);
	}
}

static void test_http10(void **state)
{
	(void)state;
	struct kp_head h;
	char *copy;
	assert_int_equal(
		parse(KP_S("GET / HTTP/1.0\r\n\r\n"), &h, &copy).status, 0); /* no Host needed */
	assert_int_equal(h.version, 10);
	kp_mem_free(copy);
	assert_int_equal(
		parse(KP_S("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n"), &h, &copy).status, 400);
	kp_mem_free(copy);
	assert_int_equal(
		parse(KP_S("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), &h, &copy)
			.status,
		400);
	kp_mem_free(copy);
	assert_int_equal(
		parse(KP_S("POST / HTTP/1.0\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"),
			&h, &copy)
			.status,
		0);
	assert_false(h.expect_continue); /* HTTP/1.0 has no 100 */
	kp_mem_free(copy);
}

static void test_expect(void **state)
{
	(void)state;
	struct kp_head h;
	char *copy;
	assert_int_equal(
		parse(KP_S("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"),
			&h, &copy)
			.status,
		0);
	assert_true(h.expect_continue);
	kp_mem_free(copy);
	assert_int_equal(
		parse(KP_S("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nExpect: 100-continue\r\n\r\n"),
			&h, &copy)
			.status,
		0);
	assert_false(h.expect_continue); /* there is no body to wait for */
	kp_mem_free(copy);
}

/* The limits, one byte below and above each, given at once and byte by byte. */
static void test_limits(void **state)
{
	(void)state;
	static const struct {
		size_t target, field; /* lengths */
		int status;
	} cases[] = {
		{ 200, 10, 0 },
		{ 201, 10, 414 },
		{ 5000, 10, 414 },
		{ 10, 1900, 0 },
		{ 10, 2000, 431 },
		{ 10, 20000, 431 },
	};
	static char text[30000];
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		size_t n = (size_t)snprintf(text, sizeof(text), "GET /");
		memset(text + n, 'a', cases[i].target - 1);
		n += cases[i].target - 1;
		n += (size_t)snprintf(text + n, sizeof(text) - n, " HTTP/1.1\r\nHost: h\r\nX: ");
		memset(text + n, 'b', cases[i].field);
		n += cases[i].field;
		n += (size_t)snprintf(text + n, sizeof(text) - n, "\r\n\r\n");
		struct kp_head h;
		char *copy;
		assert_int_equal(parse(kp_str_n(text, n), &h, &copy).status, cases[i].status);
		kp_mem_free(copy);
		struct kp_head_scan scan = { 0 };
		struct kp_refusal r = { .status = 0 };
		size_t given = 0;
		for (size_t end = 0; !r.status && !end && given < n; given++) {
			end = kp_head_find_end(kp_str_n(text, given + 1), &scan, &limits, &r);
		}
		/* 414 of a target just over its limit is only seen by the parser. */
		assert_true(
			r.status == cases[i].status || (r.status == 0 && cases[i].target == 201));
		assert_true(given <= 2100); /* refused at the byte, not at the end */
	}
}

static void test_not_http(void **state)
{
	(void)state;
	struct kp_head h;
	char *copy;
	struct kp_refusal r = parse(KP_S("\x16\x03\x01"), &h, &copy);
	assert_int_equal(r.status, 400);
	assert_true(r.not_http);
	r = parse(KP_S("INVALID CONNECTION PREFACE\r\n\r\n"), &h, &copy);
	assert_true(r.not_http);
	kp_mem_free(copy);
	r = parse(KP_S("\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\n"), &h, &copy);
	assert_int_equal(r.status, 400);
	assert_false(r.not_http);
	assert_int_equal(
		parse(KP_S("\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"), &h, &copy).status,
		0);
	kp_mem_free(copy);
	assert_int_equal(parse(KP_S("\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"), &h, &copy).status, 400);
}

/* ---- chunked ---- */

static enum kp_chunk_event decode(kp_str in, char *body, size_t *ret_n, size_t *ret_left)
{
	struct kp_chunked c = { 0 };
	kp_str piece;
	enum kp_chunk_event e;
	*ret_n = 0;
	while ((e = kp_chunked_feed(&c, &in, &piece)) == KP_CHUNK_DATA) {
		memcpy(body + *ret_n, piece.p, piece.n);
		*ret_n += piece.n;
	}
	*ret_left = in.n;
	assert_true(e != KP_CHUNK_BAD || c.why);
	return e;
}

static void test_chunked(void **state)
{
	(void)state;
	static const struct {
		const char *in;
		enum kp_chunk_event end;
		const char *body;
		size_t left;
	} cases[] = {
		{ "0\r\n\r\n", KP_CHUNK_END, "", 0 },
		{ "5\r\nhello\r\n0\r\n\r\nGET", KP_CHUNK_END, "hello", 3 },
		{ "5;a=b;c=\"d e\"\r\nhello\r\n00\r\n\r\n", KP_CHUNK_END, "hello", 0 },
		{ "a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n", KP_CHUNK_END,
			"01234567890123456789", 0 },
		{ "1\r\nx\r\n0\r\nTrailer: y\r\nother:z\r\n\r\n", KP_CHUNK_END, "x", 0 },
		{ "00000000000005\r\nhello\r\n0\r\n\r\n", KP_CHUNK_END, "hello", 0 },
		{ "5\r\nhel", KP_CHUNK_MORE, "hel", 0 },
		{ "5\r\nhello\r\n0\r\n", KP_CHUNK_MORE, "hello", 0 },
		{ "\r\n", KP_CHUNK_BAD, "", 1 },
		{ "x\r\n", KP_CHUNK_BAD, "", 2 },
		{ "-5\r\n", KP_CHUNK_BAD, "", 3 },
		{ "0x5\r\n", KP_CHUNK_BAD, "", 3 },
		{ " 5\r\n", KP_CHUNK_BAD, "", 3 },
		{ "5 \r\n", KP_CHUNK_BAD, "", 2 },
		{ "5\n", KP_CHUNK_BAD, "", 0 },
		{ "5\rX", KP_CHUNK_BAD, "", 0 },
		{ "5\r\nhelloXY0\r\n\r\n", KP_CHUNK_BAD, "hello", 6 },
		{ "5\r\nhello\n", KP_CHUNK_BAD, "hello", 0 },
		{ "5\r\nhello\rX", KP_CHUNK_BAD, "hello", 0 },
		{ "5;a\nb\r\n", KP_CHUNK_BAD, "", 3 },
		{ "0\r\nX : y\r\n\r\n", KP_CHUNK_BAD, "", 7 },
		{ "0\r\n folded\r\n\r\n", KP_CHUNK_BAD, "", 10 },
		{ "0\r\nX: y\n\r\n", KP_CHUNK_BAD, "", 2 },
		{ "0\r\n\n", KP_CHUNK_BAD, "", 0 },
		{ "0\r\n\rX", KP_CHUNK_BAD, "", 0 },
		{ "fffffffffffffffff\r\n", KP_CHUNK_BAD, "", 3 },
		{ "0000000000000000\r\n", KP_CHUNK_BAD, "", 2 },
	};
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		char body[64];
		size_t n, left;
		enum kp_chunk_event e = decode(kp_str_c(cases[i].in), body, &n, &left);
		if (e != cases[i].end || left != cases[i].left) {
			fail_msg("%s: event %d, %zu bytes left", cases[i].in, (int)e, left);
		}
		assert_str(kp_str_n(body, n), kp_str_c(cases[i].body));
	}
}

static void test_chunk_overhead(void **state)
{
	(void)state;
	struct kp_chunked c = { 0 };
	kp_str piece;
	size_t rounds = 0;
	for (; rounds < 100000; rounds++) {
		kp_str in = KP_S("1;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\nx\r\n");
		enum kp_chunk_event e;
		while ((e = kp_chunked_feed(&c, &in, &piece)) == KP_CHUNK_DATA) {
		}
		if (e == KP_CHUNK_BAD) {
			break;
		}
	}
	assert_true(rounds > 100 && rounds < 1000);
	assert_non_null(strstr(c.why, "too large"));
}

static void test_date(void **state)
{
	(void)state;
	char buf[KP_HTTP_DATE_MAX];
	kp_http_date(INT64_C(784111777) * 1000000000, buf);
	assert_string_equal(buf, "Sun, 06 Nov 1994 08:49:37 GMT");
	kp_http_date(INT64_C(1709164800) * 1000000000 + 999999999, buf);
	assert_string_equal(buf, "Thu, 29 Feb 2024 00:00:00 GMT");
	assert_string_equal(kp_http_reason(413), "Content Too Large");
	assert_string_equal(kp_http_reason(999), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_request),
		cmocka_unit_test(test_targets),
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_nul_bytes),
		cmocka_unit_test(test_keep_alive),
		cmocka_unit_test(test_http10),
		cmocka_unit_test(test_expect),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_not_http),
		cmocka_unit_test(test_chunked),
		cmocka_unit_test(test_chunk_overhead),
		cmocka_unit_test(test_date),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

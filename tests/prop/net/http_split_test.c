/* However the bytes of a connection are cut, and whenever the loop gets a turn in between, the handler sees the same requests and the client gets the same
   answers. Whatever HTTP/1 we take, http-parser (a laxer parser of other people) reads the same way: what we and it would read differently, we refuse. */
#include "tests/test.h"
#include "tests/unit/net/memory_server.h"

#include <http_parser.h>
#include <nghttp2/nghttp2.h>

static struct kp_rng rng;

static uint64_t below(uint64_t n)
{
	return kp_rng_below(&rng, n);
}

static const struct kp_http_limits limits = {
	.max_head_bytes = 4000, .max_target_bytes = 300, .max_headers = 20, .max_body_bytes = 5000
};

/* ---- HTTP/1 input ---- */

static void add_token(struct kp_buf *b, size_t max)
{
	for (size_t i = 1 + below(max); i > 0; i--) {
		kp_buf_addc(b,
			"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"[below(
				66)]);
	}
}

static void add_body(struct kp_buf *b, bool chunked, size_t n)
{
	while (chunked && n > 0) {
		size_t piece = 1 + below(n);
		kp_buf_printf(b, below(2) ? "%zx" : "%zX", piece);
		if (below(4) == 0) {
			kp_buf_lit(b, ";ext=\"a b\"");
		}
		kp_buf_lit(b, "\r\n");
		for (size_t i = 0; i < piece; i++) {
			kp_buf_addc(b, (char)kp_rng_next(&rng));
		}
		kp_buf_lit(b, "\r\n");
		n -= piece;
	}
	for (size_t i = 0; i < n; i++) {
		kp_buf_addc(b, (char)kp_rng_next(&rng));
	}
	if (chunked) {
		kp_buf_lit(b, "0\r\n");
		for (size_t i = below(3); i > 0; i--) {
			kp_buf_lit(b, "X-Trailer: y\r\n");
		}
		kp_buf_lit(b, "\r\n");
	}
}

static void add_request(struct kp_buf *b)
{
	static const char *const methods[] = { "GET", "POST", "PUT", "HEAD", "OPTIONS", "DELETE" };
	bool has_body = below(2), chunked = below(2);
	size_t n = below(8) == 0 ? below(6000) : below(200);
	kp_buf_printf(b, "%s /", methods[below(6)]);
	add_token(b, 40);
	if (below(3) == 0) {
		kp_buf_lit(b, "?x=");
		add_token(b, 20);
	}
	kp_buf_printf(b, " HTTP/1.%u\r\nHost: ", below(10) ? 1 : 0);
	add_token(b, 20);
	kp_buf_lit(b, "\r\n");
	for (size_t i = below(10); i > 0; i--) {
		kp_buf_lit(b, "X-");
		add_token(b, 10);
		kp_buf_addz(b, below(2) ? ":" : ": \t");
		for (size_t k = below(30); k > 0; k--) {
			kp_buf_addc(b, (char)(below(20) ? 33 + below(94) : 128 + below(128)));
		}
		kp_buf_lit(b, " \r\n");
	}
	if (below(6) == 0) {
		kp_buf_lit(b, "Connection: keep-alive\r\n");
	}
	if (has_body && below(5) == 0) {
		kp_buf_lit(b, "Expect: 100-continue\r\n");
	}
	if (has_body && chunked) {
		kp_buf_lit(b, "Transfer-Encoding: chunked\r\n");
	} else if (has_body) {
		kp_buf_printf(b, "Content-Length: %zu\r\n", n);
	}
	kp_buf_lit(b, "\r\n");
	if (has_body) {
		add_body(b, chunked, n);
	}
}

/* Now and then a byte is wrong: changed, lost or doubled, with a liking for the bytes that framing is made of. */
static void spoil(struct kp_buf *b)
{
	size_t at = below(b->n);
	switch (below(4)) {
	case 0:
		b->p[at] = (char)kp_rng_next(&rng);
		break;
	case 1:
		b->p[at] = "\r\n\0 \t:;,0"[below(9)];
		break;
	case 2:
		memmove(b->p + at, b->p + at + 1, b->n - at - 1);
		b->n--;
		break;
	default:
		kp_buf_addc(b, 'x');
		memmove(b->p + at + 1, b->p + at, b->n - at - 1);
		break;
	}
}

/* ---- runs ---- */

static void mask_dates(struct kp_buf *b)
{
	for (size_t i = 0; i + 35 <= b->n; i++) {
		if (memcmp(b->p + i, "date: ", 6) == 0) {
			memset(b->p + i + 6, '-', 29);
		}
	}
}

enum cut { WHOLE = 0, BYTES, RANDOM };

static void play(struct memory_server *m, kp_str in, enum cut cut)
{
	memory_server_open(m, &limits);
	while (in.n > 0) {
		size_t n = cut == WHOLE   ? in.n
			   : cut == BYTES ? 1
					  : 1 + below(KP_MIN(in.n, below(2) ? (size_t)40 : in.n));
		if (!memory_server_feed(m, kp_str_sub(in, 0, n))) {
			break;
		}
		in = kp_str_skip(in, n);
		if (cut == BYTES || below(3) == 0) {
			memory_server_spin(m);
		}
	}
	memory_server_spin(m);
	memory_server_eof(m);
	mask_dates(&m->sent);
}

static void show(const char *what, kp_str s)
{
	print_message("%s:\n", what);
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		if (c == '\n') {
			print_message("\\n\n");
		} else if (c >= 0x20 && c < 0x7f) {
			print_message("%c", c);
		} else {
			print_message("\\x%02x", c);
		}
	}
	print_message("\n");
}

/* ECHO answers depend on the cuts by design ("piece" per piece): such targets are left out of the comparison of what was sent. */
static bool same_sent(const struct memory_server *a, const struct memory_server *b)
{
	return kp_str_has(kp_buf_str(&a->sent), KP_S("piece")) ||
	       kp_str_has(kp_buf_str(&b->sent), KP_S("piece")) ||
	       kp_str_eq(kp_buf_str(&a->sent), kp_buf_str(&b->sent));
}

/* ---- the other parser ---- */

struct seen {
	struct kp_buf log;
	unsigned n;
	uint64_t bytes, hash;
	size_t url_at;
	bool stop;
};

static int other_begin(http_parser *p)
{
	struct seen *s = p->data;
	s->n++;
	s->bytes = 0;
	s->hash = UINT64_C(0xcbf29ce484222325);
	s->url_at = 0;
	return 0;
}
static int other_url(http_parser *p, const char *at, size_t n)
{
	struct seen *s = p->data;
	if (s->url_at == 0) {
		kp_buf_printf(&s->log, "%u request %s ", s->n,
			http_method_str((enum http_method)p->method));
		s->url_at = s->log.n;
	}
	kp_buf_add(&s->log, kp_str_n(at, n));
	return 0;
}
static int other_headers(http_parser *p)
{
	struct seen *s = p->data;
	kp_buf_lit(&s->log, "\n");
	return 0;
}
static int other_body(http_parser *p, const char *at, size_t n)
{
	struct seen *s = p->data;
	s->bytes += n;
	for (size_t i = 0; i < n; i++) {
		s->hash = (s->hash ^ (unsigned char)at[i]) * UINT64_C(0x100000001b3);
	}
	return 0;
}
static int other_complete(http_parser *p)
{
	struct seen *s = p->data;
	kp_buf_printf(&s->log, "%u body %llu %016llx\n", s->n, (unsigned long long)s->bytes,
		(unsigned long long)s->hash);
	return 0;
}

/* Our log without what the other does not tell: method and target of each request and its body. */
static void comparable(kp_str log, struct kp_buf *out)
{
	kp_str line;
	while (kp_str_split(&log, '\n', &line)) {
		kp_str rest = line, number, what, method, target;
		if (!kp_str_split(&rest, ' ', &number) || !kp_str_split(&rest, ' ', &what)) {
			continue;
		}
		if (kp_str_eq(what, KP_S("request")) && kp_str_split(&rest, ' ', &method) &&
			kp_str_split(&rest, ' ', &target)) {
			kp_buf_printf(out, "%" KP_FMT " request %" KP_FMT " %" KP_FMT "\n",
				KP_ARG(number), KP_ARG(method), KP_ARG(target));
		} else if (kp_str_eq(what, KP_S("body"))) {
			kp_buf_printf(out, "%" KP_FMT "\n", KP_ARG(line));
		}
	}
}

/* The log of one request to its body's end, from the front of *log; requests without such an end (refused at once, broken off) are cut. */
static bool next_request(kp_str *log, kp_str *ret)
{
	kp_str first, second, rest = *log;
	if (!kp_str_split(&rest, '\n', &first) || first.n == 0) {
		return false;
	}
	kp_str after = rest;
	if (kp_str_split(&after, '\n', &second) && kp_str_has(second, KP_S(" body "))) {
		*ret = kp_str_sub(*log, 0, first.n + 1 + second.n);
		*log = after;
	} else {
		*ret = first;
		*log = rest;
	}
	return true;
}

static void compare_with_other(kp_str in, const struct memory_server *m)
{
	struct seen s = { .n = 0 };
	kp_buf_init(&s.log, 64 << 20);
	http_parser_settings settings;
	http_parser_settings_init(&settings);
	settings.on_message_begin = other_begin;
	settings.on_url = other_url;
	settings.on_headers_complete = other_headers;
	settings.on_body = other_body;
	settings.on_message_complete = other_complete;
	http_parser parser;
	http_parser_init(&parser, HTTP_REQUEST);
	parser.data = &s;
	http_parser_execute(&parser, &settings, in.p, in.n);
	struct kp_buf ours;
	kp_buf_init(&ours, 64 << 20);
	comparable(kp_buf_str(&m->log), &ours);
	kp_str a = kp_buf_str(&ours), b = kp_buf_str(&s.log), x, y = KP_STR_NULL;
	/* It may refuse what we take (it knows a list of methods, "Transfer-Encodingx" is a Transfer-Encoding to it, a
	   tab behind a length an error); it must not read something else. */
	bool refuses = HTTP_PARSER_ERRNO(&parser) != HPE_OK;
	while (next_request(&a, &x)) {
		bool have = next_request(&b, &y);
		/* Ours may have been answered before its body (then the body is not in our log). */
		bool cut_short = refuses && !kp_str_has(y, KP_S(" body "));
		if (!(have && kp_str_starts(y, x)) && !(refuses && (!have || cut_short))) {
			show("input", in);
			show("ours", kp_buf_str(&ours));
			show("http-parser", kp_buf_str(&s.log));
			fail_msg("read differently: http-parser says %s",
				http_errno_name(HTTP_PARSER_ERRNO(&parser)));
		}
		if (!have) {
			break;
		}
	}
	kp_buf_fini(&ours);
	kp_buf_fini(&s.log);
}

static void test_http1(void **state)
{
	(void)state;
	kp_rng_seed(&rng, test_seed());
	unsigned taken = 0, refused = 0;
	for (int round = 0; round < 1500; round++) {
		struct kp_buf in;
		kp_buf_init(&in, 1 << 20);
		for (size_t i = 1 + below(5); i > 0; i--) {
			add_request(&in);
		}
		if (below(2)) {
			spoil(&in);
		}
		struct memory_server whole, other;
		play(&whole, kp_buf_str(&in), WHOLE);
		for (enum cut cut = BYTES; cut <= RANDOM; cut++) {
			if (cut == BYTES && round % 10 != 0) {
				continue;
			}
			play(&other, kp_buf_str(&in), cut);
			if (!kp_str_eq(kp_buf_str(&whole.log), kp_buf_str(&other.log)) ||
				!same_sent(&whole, &other)) {
				show("input", kp_buf_str(&in));
				show("whole", kp_buf_str(&whole.log));
				show("sent", kp_buf_str(&whole.sent));
				show("cut", kp_buf_str(&other.log));
				show("sent", kp_buf_str(&other.sent));
				fail_msg("the cuts made a difference");
			}
			memory_server_close(&other);
		}
		compare_with_other(kp_buf_str(&in), &whole);
		taken += whole.n_requests;
		refused += kp_str_has(kp_buf_str(&whole.sent), KP_S("HTTP/1.1 400"));
		memory_server_close(&whole);
		kp_buf_fini(&in);
	}
	assert_true(taken > 1000 && refused > 100); /* the generator makes both */
}

/* ---- HTTP/2 ---- */

struct upload {
	size_t left;
};

static ssize_t client_send(nghttp2_session *ng, const uint8_t *p, size_t n, int flags, void *user)
{
	(void)ng, (void)flags;
	kp_buf_add(user, kp_str_n(p, n));
	return (ssize_t)n;
}

static ssize_t client_read(nghttp2_session *ng, int32_t id, uint8_t *buf, size_t length,
	uint32_t *flags, nghttp2_data_source *source, void *user)
{
	struct upload *u = source->ptr;
	(void)ng, (void)id, (void)user;
	size_t n = KP_MIN(KP_MIN(u->left, length), 1 + below(3000));
	n = KP_MIN(n, u->left);
	memset(buf, 'a' + (int)(u->left % 26), n);
	u->left -= n;
	if (u->left == 0) {
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	}
	return (ssize_t)n;
}

#define NV(name, value)                                                               \
	{                                                                             \
		kp_unconst(name), kp_unconst(value), sizeof(name) - 1, strlen(value), \
			NGHTTP2_NV_FLAG_NONE                                          \
	}

/* What a client without answers sends: preface, settings, requests with bodies that fit into the first windows. */
static void http2_input(struct kp_buf *out)
{
	nghttp2_session_callbacks *callbacks;
	nghttp2_session *ng;
	struct upload uploads[8];
	size_t budget = 60000;
	nghttp2_session_callbacks_new(&callbacks);
	nghttp2_session_callbacks_set_send_callback(callbacks, client_send);
	nghttp2_session_client_new(&ng, callbacks, out);
	nghttp2_submit_settings(ng, NGHTTP2_FLAG_NONE, NULL, 0);
	for (size_t i = 0, n = 1 + below(8); i < n; i++) {
		char path[32];
		snprintf(path, sizeof(path), "/%u", (unsigned)below(1000));
		uploads[i].left = below(3) ? below(KP_MIN(budget, (size_t)4000)) : 0;
		budget -= uploads[i].left;
		const char *authority = below(5) ? "a.example" : "a b";
		nghttp2_nv nv[] = { NV(":method", "POST"), NV(":scheme", "http"), NV(":path", path),
			NV(":authority", authority), NV("x-y", "some value") };
		nghttp2_data_provider data = { .source.ptr = &uploads[i],
			.read_callback = client_read };
		nghttp2_submit_request(
			ng, NULL, nv, KP_LEN(nv), uploads[i].left ? &data : NULL, NULL);
		if (below(5) == 0) {
			nghttp2_submit_ping(ng, NGHTTP2_FLAG_NONE, NULL);
		}
		if (below(3) == 0) {
			nghttp2_session_send(ng);
		}
	}
	nghttp2_session_send(ng);
	nghttp2_session_del(ng);
	nghttp2_session_callbacks_del(callbacks);
}

/* The lines of each request together: how those of different streams mix may depend on when the loop had a turn. */
static void by_stream(const struct memory_server *m, struct kp_buf *out)
{
	for (unsigned i = 1; i <= m->n_requests; i++) {
		kp_str log = kp_buf_str(&m->log), line;
		char number[16];
		int n = snprintf(number, sizeof(number), "%u ", i);
		while (kp_str_split(&log, '\n', &line)) {
			if (kp_str_starts(line, kp_str_n(number, (size_t)n))) {
				kp_buf_printf(out, "%" KP_FMT "\n", KP_ARG(line));
			}
		}
	}
}

static void test_http2(void **state)
{
	(void)state;
	kp_rng_seed(&rng, test_seed());
	unsigned taken = 0;
	for (int round = 0; round < 400; round++) {
		struct kp_buf in;
		kp_buf_init(&in, 1 << 20);
		http2_input(&in);
		bool spoiled = below(4) == 0;
		if (spoiled) {
			spoil(&in);
		}
		struct memory_server whole, other;
		play(&whole, kp_buf_str(&in), WHOLE);
		play(&other, kp_buf_str(&in), round % 10 ? RANDOM : BYTES);
		struct kp_buf a, b;
		kp_buf_init(&a, 64 << 20);
		kp_buf_init(&b, 64 << 20);
		by_stream(&whole, &a);
		by_stream(&other, &b);
		/* What breaks the connection off finds answers at different stages; only the sound inputs must agree to the end. */
		if (!spoiled && !kp_str_eq(kp_buf_str(&a), kp_buf_str(&b))) {
			show("whole", kp_buf_str(&a));
			show("cut", kp_buf_str(&b));
			fail_msg("the cuts made a difference");
		}
		taken += whole.n_requests;
		kp_buf_fini(&a);
		kp_buf_fini(&b);
		memory_server_close(&whole);
		memory_server_close(&other);
		kp_buf_fini(&in);
	}
	assert_true(taken > 400);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_http1),
		cmocka_unit_test(test_http2),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The admin listener over real sockets: requests, queries, the feed and who may not open it. */
#include "admin/admin.h"
#include "base/clock.h"
#include "tests/test.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

enum { PATIENCE_S = 20 };

static struct kp_admin_answer show_query(
	void *ctx, const struct kp_admin_query *q, struct kp_buf *out)
{
	kp_buf_printf(out, "%s", (const char *)ctx);
	for (size_t i = 0; i < q->n; i++) {
		kp_buf_printf(out, "[%" KP_FMT "|%" KP_FMT "]", KP_ARG(q->args[i].name),
			KP_ARG(q->args[i].value));
	}
	kp_str v = kp_admin_arg(q, "v");
	kp_buf_printf(out, " %s", !v.p ? "absent" : v.n == 0 ? "empty" : "set");
	return (struct kp_admin_answer){ .status = 200, .type = "text/plain" };
}

static struct kp_admin_answer big(void *ctx, const struct kp_admin_query *q, struct kp_buf *out)
{
	uint64_t n = 0;
	char block[1024];
	(void)ctx;
	assert_true(kp_str_u64(kp_admin_arg(q, "kib"), 1 << 20, &n));
	memset(block, 'b', sizeof(block));
	for (uint64_t i = 0; i < n; i++) {
		kp_buf_add(out, kp_str_n(block, sizeof(block)));
	}
	return (struct kp_admin_answer){ .status = 200, .type = "text/plain" };
}

static struct kp_admin_answer page(void *ctx, const struct kp_admin_query *q, struct kp_buf *out)
{
	(void)ctx;
	(void)q;
	kp_buf_lit(out, "<p>");
	return (struct kp_admin_answer){
		.status = 200, .type = "text/html; charset=utf-8", .csp = "default-src 'none'"
	};
}

static const struct kp_admin_route routes[] = { { "/show", show_query, false },
	{ "/big", big, false }, { "/", page, false }, { "/act", page, true } };

static struct kp_admin_answer echo(void *ctx, kp_str body, struct kp_buf *out)
{
	(void)ctx;
	kp_buf_printf(out, "%zu:", body.n);
	kp_buf_add(out, body);
	return (struct kp_admin_answer){ .status = 200, .type = "text/plain" };
}

static const struct kp_admin_post posts[] = { { "/echo", echo, 100000 } };

static struct kp_admin *start(void)
{
	struct kp_admin *a = NULL;
	struct kp_err err;
	const struct kp_admin_opts opts = { .address = "127.0.0.1:0",
		.routes = routes,
		.n_routes = KP_LEN(routes),
		.posts = posts,
		.n_posts = KP_LEN(posts),
		.ctx = kp_unconst("ctx "),
		.feed_path = "/feed" };
	assert_int_equal(kp_admin_start(&opts, &a, &err), 0);
	return a;
}

/* --- a client ----------------------------------------------------------------------------------- */

static int dial(int port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){ .tv_sec = PATIENCE_S },
		sizeof(struct timeval));
	assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

static void say(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Everything until the server closes. */
static void drain(int fd, struct kp_buf *into)
{
	char piece[65536];
	ssize_t n;
	kp_buf_init(into, 64 << 20);
	while ((n = recv(fd, piece, sizeof(piece), 0)) > 0) {
		kp_buf_add(into, kp_str_n(piece, (size_t)n));
	}
	assert_true(n == 0);
	close(fd);
}

static void ask(struct kp_admin *a, const char *head, struct kp_buf *into)
{
	int fd = dial(kp_admin_port(a));
	say(fd, head);
	say(fd, "Connection: close\r\n\r\n");
	drain(fd, into);
}

static bool says(const struct kp_buf *answer, const char *part)
{
	bool has = kp_str_has(kp_buf_str(answer), kp_str_c(part));
	if (!has) {
		print_error("no `%s` in:\n%" KP_FMT "\n", part,
			KP_ARG(kp_str_sub(kp_buf_str(answer), 0, 2000)));
	}
	return has;
}

static void check(struct kp_admin *a, const char *head, const char *status, const char *part)
{
	KP_AUTO(buf) struct kp_buf answer = { 0 };
	ask(a, head, &answer);
	char line[64];
	snprintf(line, sizeof(line), "HTTP/1.1 %s ", status);
	assert_true(says(&answer, line));
	assert_true(kp_str_starts(kp_buf_str(&answer), kp_str_c(line)));
	assert_true(says(&answer, part));
}

static void read_fully(int fd, void *to, size_t n)
{
	for (size_t got = 0; got < n;) {
		ssize_t r = recv(fd, (char *)to + got, n - got, 0);
		assert_true(r > 0);
		got += (size_t)r;
	}
}

/* One head, byte by byte, so that no frame behind it is taken. */
static void read_head(int fd, struct kp_buf *into)
{
	kp_buf_init(into, 8192);
	while (!kp_str_ends(kp_buf_str(into), KP_S("\r\n\r\n"))) {
		char c;
		read_fully(fd, &c, 1);
		kp_buf_addc(into, c);
		assert_false(into->failed);
	}
}

static int open_feed(struct kp_admin *a, const char *path, const char *more, struct kp_buf *head)
{
	char request[1024];
	int fd = dial(kp_admin_port(a));
	snprintf(request, sizeof(request),
		"GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUpgrade: websocket\r\n"
		"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n%s\r\n",
		path, kp_admin_port(a), more);
	say(fd, request);
	read_head(fd, head);
	return fd;
}

static int open_good_feed(struct kp_admin *a)
{
	KP_AUTO(buf) struct kp_buf head = { 0 };
	int fd = open_feed(a, "/feed", "", &head);
	assert_true(says(&head, "HTTP/1.1 101 "));
	assert_true(says(&head, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")); /* RFC 6455, 1.3 */
	return fd;
}

/* The next text; pings are left out. */
static void read_text(int fd, struct kp_buf *into)
{
	unsigned char h[10];
	kp_buf_init(into, 1 << 20);
	do {
		read_fully(fd, h, 2);
		assert_int_equal(h[1] & 0x80, 0);
		size_t n = h[1] & 0x7f;
		if (n == 126) {
			read_fully(fd, h + 2, 2);
			n = (size_t)h[2] << 8 | h[3];
		} else if (n == 127) {
			read_fully(fd, h + 2, 8);
			n = (size_t)h[7] << 16 | (size_t)h[8] << 8 | h[9];
		}
		kp_buf_reset(into);
		assert_true(kp_buf_reserve(into, n));
		read_fully(fd, into->p, n);
		into->n = n;
	} while (h[0] == 0x89);
	assert_int_equal(h[0], 0x81);
}

static void expect_text(int fd, const char *want)
{
	KP_AUTO(buf) struct kp_buf got = { 0 };
	read_text(fd, &got);
	assert_str(kp_buf_str(&got), kp_str_c(want));
}

/* --- tests -------------------------------------------------------------------------------------- */

static void test_answers(void **state)
{
	struct kp_admin *a = start();
	(void)state;
	check(a, "GET /show HTTP/1.1\r\nHost: x\r\n", "200", "\r\n\r\nctx  absent");
	check(a, "GET /show?v HTTP/1.1\r\nHost: x\r\n", "200", "ctx [v|] empty");
	check(a, "GET /show?a=b%26c%3dd&v=x/y+z&&=q HTTP/1.1\r\nHost: x\r\n", "200",
		"ctx [a|b&c=d][v|x/y z][|q] set");
	check(a, "GET /show?1&2&3&4&5&6&7&8 HTTP/1.1\r\nHost: x\r\n", "200", "[8|]");
	check(a, "GET /show?1&2&3&4&5&6&7&8&9 HTTP/1.1\r\nHost: x\r\n", "400",
		"more than 8 parameters");
	check(a, "GET / HTTP/1.1\r\nHost: x\r\n", "200",
		"content-security-policy: default-src 'none'\r\n");
	check(a, "GET / HTTP/1.1\r\nHost: x\r\n", "200", "x-content-type-options: nosniff\r\n");
	check(a, "GET /else HTTP/1.1\r\nHost: x\r\n", "404", "no such path: `/else`");
	check(a, "GET /show/ HTTP/1.1\r\nHost: x\r\n", "404", "{\"error\":{\"message\":");
	check(a, "GET /feed HTTP/1.1\r\nHost: x\r\n", "400", "`/feed` is a WebSocket");
	check(a, "PUT /show HTTP/1.1\r\nHost: x\r\n", "405", "only GET and HEAD");
	check(a, "POST /show HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n", "405",
		"only GET and HEAD");
	kp_admin_stop(a);
}

static void test_head_has_no_body(void **state)
{
	struct kp_admin *a = start();
	KP_AUTO(buf) struct kp_buf answer = { 0 };
	(void)state;
	ask(a, "HEAD /show HTTP/1.1\r\nHost: x\r\n", &answer);
	assert_true(says(&answer, "content-length: 11\r\n"));
	assert_true(kp_str_ends(kp_buf_str(&answer), KP_S("\r\n\r\n")));
	kp_admin_stop(a);
}

static void test_large_answers(void **state)
{
	struct kp_admin *a = start();
	KP_AUTO(buf) struct kp_buf answer = { 0 };
	(void)state;
	ask(a, "GET /big?kib=16384 HTTP/1.1\r\nHost: x\r\n", &answer);
	assert_true(says(&answer, "content-length: 16777216\r\n"));
	assert_true(answer.n > 16777216);
	/* One byte more than fits is an error with a name, not half an answer. */
	check(a, "GET /big?kib=16385 HTTP/1.1\r\nHost: x\r\n", "500",
		"build `/big`: more than 16777216 bytes");
	kp_admin_stop(a);
}

static void test_keep_alive(void **state)
{
	struct kp_admin *a = start();
	int fd = dial(kp_admin_port(a));
	(void)state;
	for (int i = 0; i < 3; i++) {
		KP_AUTO(buf) struct kp_buf head = { 0 };
		char body[11];
		say(fd, "GET /show HTTP/1.1\r\nHost: x\r\n\r\n");
		read_head(fd, &head);
		read_fully(fd, body, sizeof(body));
		assert_memory_equal(body, "ctx  absent", sizeof(body));
	}
	close(fd);
	kp_admin_stop(a);
}

static void test_feed(void **state)
{
	struct kp_admin *a = start();
	(void)state;
	int early = open_good_feed(a);
	kp_admin_feed_publish(a, KP_S("one"));
	expect_text(early, "one");
	int late = open_good_feed(a);
	expect_text(late, "one");
	kp_admin_feed_publish(a, KP_S("two"));
	expect_text(early, "two");
	expect_text(late, "two");
	close(late);
	kp_admin_feed_publish(a, KP_S(""));
	expect_text(early, "");
	kp_admin_stop(a); /* with a client */
	close(early);
}

static void test_slow_client_gets_the_newest(void **state)
{
	enum { TEXTS = 2000, BYTES = KP_ADMIN_MAX_FEED_BYTES };
	struct kp_admin *a = start();
	static char text[BYTES];
	(void)state;
	int slow = open_good_feed(a), quick = open_good_feed(a);
	memset(text, '.', sizeof(text));
	for (int i = 1; i <= TEXTS; i++) {
		KP_AUTO(buf) struct kp_buf got = { 0 };
		snprintf(text, sizeof(text), "%d", i);
		kp_admin_feed_publish(a, kp_str_n(text, sizeof(text)));
		read_text(quick, &got); /* every one, since it keeps up */
		assert_true(got.n == BYTES && memcmp(got.p, text, 8) == 0);
	}
	int seen = 0, last = 0;
	while (last < TEXTS) {
		KP_AUTO(buf) struct kp_buf got = { 0 };
		read_text(slow, &got);
		int n = atoi(got.p);
		assert_true(n > last);
		last = n;
		seen++;
	}
	/* What the two sockets hold, one of lws's own, the newest: far from 128 MB. */
	assert_true(seen < TEXTS / 4);
	close(slow);
	close(quick);
	kp_admin_stop(a);
}

static void refused(struct kp_admin *a, const char *path, const char *more, const char *status,
	const char *message)
{
	KP_AUTO(buf) struct kp_buf head = { 0 };
	char body[600] = "";
	int fd = open_feed(a, path, more, &head);
	assert_true(says(&head, status));
	assert_true(recv(fd, body, sizeof(body) - 1, 0) > 0);
	if (!strstr(body, message)) {
		print_error("%s\n", body);
		fail();
	}
	close(fd);
}

static void test_who_may_open_the_feed(void **state)
{
	struct kp_admin *a = start();
	char more[128];
	(void)state;
	const char *const foreign[] = { "http://evil.example", "http://127.0.0.1:1", "null",
		"http://127.0.0.1", "file://", "://", "x" };
	for (size_t i = 0; i < KP_LEN(foreign); i++) {
		snprintf(more, sizeof(more), "Origin: %s\r\n", foreign[i]);
		refused(a, "/feed", more, "HTTP/1.1 403 ", "the page's origin is not this server");
	}
	/* Two of them are no origin either. */
	snprintf(more, sizeof(more), "Origin: http://127.0.0.1:%d\r\nOrigin: http://x\r\n",
		kp_admin_port(a));
	refused(a, "/feed", more, "HTTP/1.1 403 ", "the page's origin is not this server");
	refused(a, "/", "", "HTTP/1.1 404 ", "no WebSocket at `/`");
	refused(a, "/feed2", "", "HTTP/1.1 404 ", "no WebSocket at `/feed2`");
	snprintf(more, sizeof(more), "Origin: http://127.0.0.1:%d\r\n", kp_admin_port(a));
	KP_AUTO(buf) struct kp_buf head = { 0 };
	close(open_feed(a, "/feed", more, &head));
	assert_true(says(&head, "HTTP/1.1 101 "));
	check(a,
		"GET /show HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\n"
		"HTTP2-Settings: AAMAAABkAAQAAP__\r\n",
		"400", "upgrade to `h2c`");
	kp_admin_stop(a);
}

static void test_pages_of_others_may_not_act(void **state)
{
	static const char *const others[] = { "Origin: http://evil.example\r\n", "Origin: null\r\n",
		"Sec-Fetch-Site: cross-site\r\n", "Sec-Fetch-Site: same-site\r\n",
		"Origin: http://127.0.0.1\r\nSec-Fetch-Site: cross-site\r\n",
		"Sec-Fetch-Site: nonenonenonenonenonenonenonenonenone\r\n" };
	static const char *const ours[] = { "", "Origin: http://127.0.0.1\r\n",
		"Sec-Fetch-Site: none\r\n", "Sec-Fetch-Site: same-origin\r\n" };
	struct kp_admin *a = start();
	char head[256];
	(void)state;
	for (size_t i = 0; i < KP_LEN(others); i++) {
		snprintf(head, sizeof(head), "GET /act HTTP/1.1\r\nHost: 127.0.0.1\r\n%s",
			others[i]);
		check(a, head, "403", "`/act`: a page of another origin asks");
		snprintf(head, sizeof(head), "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n%s", others[i]);
		check(a, head, "200", "<p>");
	}
	for (size_t i = 0; i < KP_LEN(ours); i++) {
		snprintf(head, sizeof(head), "GET /act HTTP/1.1\r\nHost: 127.0.0.1\r\n%s", ours[i]);
		check(a, head, "200", "<p>");
	}
	kp_admin_stop(a);
}

static void test_feed_has_a_maximum_of_clients(void **state)
{
	struct kp_admin *a = start();
	int fds[KP_ADMIN_MAX_FEED_CLIENTS];
	(void)state;
	for (size_t i = 0; i < KP_LEN(fds); i++) {
		fds[i] = open_good_feed(a);
	}
	refused(a, "/feed", "", "HTTP/1.1 503 ", "64 clients follow it already");
	check(a, "GET /show HTTP/1.1\r\nHost: x\r\n", "200", "ctx");
	close(fds[0]);
	for (int64_t until = kp_now_ns() + PATIENCE_S * KP_NS_PER_S;;) {
		KP_AUTO(buf) struct kp_buf head = { 0 };
		fds[0] = open_feed(a, "/feed", "", &head);
		if (kp_str_starts(kp_buf_str(&head), KP_S("HTTP/1.1 101 "))) {
			break;
		}
		close(fds[0]);
		assert_true(kp_now_ns() < until);
	}
	for (size_t i = 0; i < KP_LEN(fds); i++) {
		close(fds[i]);
	}
	kp_admin_stop(a);
}

static void test_a_client_that_talks_is_closed(void **state)
{
	struct kp_admin *a = start();
	KP_AUTO(buf) struct kp_buf rest = { 0 };
	(void)state;
	int fd = open_good_feed(a);
	say(fd, "\x81\x82\x01\x01\x01\x01hi");
	drain(fd, &rest);
	assert_true(rest.n < 10); /* at most a close frame */
	kp_admin_feed_publish(a, KP_S("x"));
	int next = open_good_feed(a);
	expect_text(next, "x");
	close(next);
	kp_admin_stop(a);
}

static size_t open_files(void)
{
	size_t n = 0;
	DIR *d = opendir("/proc/self/fd");
	while (readdir(d)) {
		n++;
	}
	closedir(d);
	return n;
}

/* Connections that send half a head, or do not take their answers, take the places of each other: whoever asks is
   answered at once. */
static void test_slow_connections_delay_nobody(void **state)
{
	enum { CLIENTS = 800 };
	struct kp_admin *a = start();
	static int fds[CLIENTS];
	size_t before = open_files();
	(void)state;
	for (size_t i = 0; i < KP_LEN(fds); i++) {
		fds[i] = dial(kp_admin_port(a));
		say(fds[i], i % 40 ? "GET /show HTTP/1.1\r\nHost:"
				   : "GET /big?kib=8192 HTTP/1.1\r\nHost: x\r\n\r\n");
		if (i % 50 == 49) {
			int64_t began = kp_now_ns();
			check(a, "GET /show HTTP/1.1\r\nHost: x\r\n", "200", "ctx");
			assert_true(kp_now_ns() - began < KP_NS_PER_S);
		}
	}
	size_t accepted = open_files() - before - KP_LEN(fds);
	assert_in_range(accepted, 1, KP_ADMIN_MAX_CONNECTIONS);
	for (size_t i = 0; i < KP_LEN(fds); i++) {
		close(fds[i]);
	}
	check(a, "GET /show HTTP/1.1\r\nHost: x\r\n", "200", "ctx");
	kp_admin_stop(a);
}

/* Large answers that nobody takes are held for those on whose connections something happened last: the kernel may take more of an
   older one, but whoever asked last is not ended. */
static void test_answers_that_are_not_taken(void **state)
{
	enum { CLIENTS = 20, BYTES = 16000 << 10 };
	struct kp_admin *a = start();
	int fds[CLIENTS];
	size_t n_whole = 0;
	(void)state;
	for (size_t i = 0; i < KP_LEN(fds); i++) {
		KP_AUTO(buf) struct kp_buf head = { 0 };
		fds[i] = dial(kp_admin_port(a));
		say(fds[i], "GET /big?kib=16000 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
		read_head(fds[i], &head);
	}
	for (size_t i = 0; i < KP_LEN(fds); i++) {
		static char piece[1 << 20];
		size_t got = 0;
		for (ssize_t n; (n = recv(fds[i], piece, sizeof(piece), 0)) > 0;) {
			got += (size_t)n;
		}
		n_whole += got == BYTES;
		assert_true(i < KP_LEN(fds) - 1 || got == BYTES);
		close(fds[i]);
	}
	assert_in_range(n_whole, 4, 8);
	kp_admin_stop(a);
}

static void test_an_address_that_is_taken(void **state)
{
	struct kp_admin *a = start(), *b = NULL;
	struct kp_err err;
	char address[32];
	(void)state;
	snprintf(address, sizeof(address), "127.0.0.1:%d", kp_admin_port(a));
	struct kp_admin_opts opts = { .address = address };
	assert_int_equal(kp_admin_start(&opts, &b, &err), -1);
	assert_true(strstr(err.msg, address) && strstr(err.msg, "cannot be bound"));
	opts.address = "nonsense";
	assert_int_equal(kp_admin_start(&opts, &b, &err), -1);
	assert_true(strstr(err.msg, "admin listener: ") && strstr(err.msg, "`nonsense`"));
	kp_admin_stop(a);
}

/* A pod may have addresses of one kind only: no host is every address of both. */
static void test_every_address(void **state)
{
	struct kp_admin *a = NULL;
	struct kp_err err;
	const struct kp_admin_opts opts = { .address = ":0" };
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	(void)state;
	assert_int_equal(kp_admin_start(&opts, &a, &err), 0);
	close(dial(kp_admin_port(a)));
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	six.sin6_port = htons((uint16_t)kp_admin_port(a));
	if (fd >= 0 && connect(fd, (const struct sockaddr *)&six, sizeof(six)) != 0) {
		assert_int_not_equal(errno, ECONNREFUSED); /* the machine may have no ::1 */
	}
	close(fd);
	kp_admin_stop(a);
}

/* Sends all of `text` and gives what comes until the server closes. */
static void exchange(struct kp_admin *a, const char *text, const char *status, const char *part)
{
	KP_AUTO(buf) struct kp_buf answer = { 0 };
	int fd = dial(kp_admin_port(a));
	say(fd, text);
	drain(fd, &answer);
	assert_true(says(&answer, status));
	assert_true(says(&answer, part));
}

static void test_post(void **state)
{
	struct kp_admin *a = start();
	(void)state;
	exchange(a, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", "200 ",
		"5:hello");
	exchange(a, "POST /echo HTTP/1.1\r\nHost: x\r\n\r\n", "400 ",
		"a body with a Content-Length is needed");
	exchange(a, "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"400 ", "a body with a Content-Length is needed");
	exchange(a, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100001\r\n\r\n", "413 ",
		"a body of more than 100000 bytes");
	exchange(a,
		"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n",
		"400 ", "a body with a Content-Length is needed");
	exchange(a, "POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", "405 ",
		"only GET and HEAD are allowed here");
	check(a, "GET /echo HTTP/1.1\r\nHost: x\r\n", "405", "only POST is allowed here");
	kp_admin_stop(a);
}

/* lws answers twice when bytes follow a body: here the connection ends with the first answer. */
static void test_what_follows_a_body(void **state)
{
	struct kp_admin *a = start();
	KP_AUTO(buf) struct kp_buf answer = { 0 };
	(void)state;
	int fd = dial(kp_admin_port(a));
	say(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhelloGET /show HTTP/1.1\r\nHost: x\r\n\r\n");
	kp_buf_init(&answer, 1 << 20);
	char piece[4096];
	for (ssize_t n; (n = recv(fd, piece, sizeof(piece), 0)) > 0;) { /* a reset is an end, too */
		kp_buf_add(&answer, kp_str_n(piece, (size_t)n));
	}
	close(fd);
	assert_true(says(&answer, "5:hello"));
	assert_false(kp_str_has(kp_str_skip(kp_buf_str(&answer), 9), KP_S("HTTP/1.1")));
	kp_admin_stop(a);
}

static void test_post_in_pieces(void **state)
{
	struct kp_admin *a = start();
	KP_AUTO(buf) struct kp_buf answer = { 0 };
	char block[1001];
	(void)state;
	memset(block, 'x', 1000);
	block[1000] = 0;
	int fd = dial(kp_admin_port(a));
	say(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n");
	for (int i = 0; i < 100; i++) {
		say(fd, block);
		if (i % 20 == 0) {
			nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
		}
	}
	drain(fd, &answer);
	assert_true(says(&answer, "100000:xxx"));
	assert_true(answer.n > 100000);
	kp_admin_stop(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_head_has_no_body),
		cmocka_unit_test(test_large_answers),
		cmocka_unit_test(test_keep_alive),
		cmocka_unit_test(test_post),
		cmocka_unit_test(test_what_follows_a_body),
		cmocka_unit_test(test_post_in_pieces),
		cmocka_unit_test(test_feed),
		cmocka_unit_test(test_slow_client_gets_the_newest),
		cmocka_unit_test(test_who_may_open_the_feed),
		cmocka_unit_test(test_pages_of_others_may_not_act),
		cmocka_unit_test(test_feed_has_a_maximum_of_clients),
		cmocka_unit_test(test_a_client_that_talks_is_closed),
		cmocka_unit_test(test_slow_connections_delay_nobody),
		cmocka_unit_test(test_answers_that_are_not_taken),
		cmocka_unit_test(test_an_address_that_is_taken),
		cmocka_unit_test(test_every_address),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

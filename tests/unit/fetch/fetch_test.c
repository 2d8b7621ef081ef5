/* Requests against a scripted server: answers, limits, deadlines, redirects under the policy, what is not sent twice. */
#include "base/mem.h"
#include "fetch/fetch.h"
#include "tests/unit/fetch/script.h"

static const struct kp_fetch_policy private_too = { .allows_private = true };
static const struct kp_fetch_policy public_only = { 0 };

struct got {
	struct kp_loop *loop;
	struct kp_fetch *f;
	struct kp_fetch_call *call;
	struct kp_buf body;
	struct kp_fetch_result r;
	int status, n_data;
	char type[64];
	bool is_done, holds, cancels;
	struct kp_timer timer;
	size_t held_bytes;
};

static void release(struct kp_timer *t)
{
	struct got *g = KP_CONTAINER(t, struct got, timer);
	g->held_bytes = g->body.n;
	kp_fetch_hold(g->call, false);
}

static void on_head(void *ctx, int status)
{
	struct got *g = ctx;
	g->status = status;
	snprintf(
		g->type, sizeof(g->type), "%.*s", KP_ARG(kp_fetch_header(g->call, "content-type")));
}

static void on_data(void *ctx, kp_str bytes)
{
	struct got *g = ctx;
	kp_buf_add(&g->body, bytes);
	if (g->n_data++ == 0 && g->holds) {
		kp_fetch_hold(g->call, true);
		kp_timer_start(
			g->loop, &g->timer, kp_loop_now(g->loop) + 100 * KP_NS_PER_MS, release);
	}
	if (g->cancels) {
		kp_fetch_cancel(g->call);
		kp_loop_stop(g->loop);
	}
}

static void on_done(void *ctx, const struct kp_fetch_result *r)
{
	struct got *g = ctx;
	assert_false(g->is_done);
	g->is_done = true;
	g->r = *r;
	g->call = NULL;
	kp_loop_stop(g->loop);
}

struct job {
	struct kp_msg msg;
	struct got *g;
	const struct kp_fetch_request *r;
	struct kp_err err;
};

static void start(struct kp_msg *m)
{
	struct job *j = KP_CONTAINER(m, struct job, msg);
	j->err = KP_ERR_INIT;
	j->g->call = kp_fetch_send(j->g->f, j->r, &j->err);
	if (!j->g->call) {
		j->g->r.err = j->err;
		kp_loop_stop(j->g->loop);
	}
}

static void stop_soon(struct kp_timer *t)
{
	struct got *g = KP_CONTAINER(t, struct got, timer);
	kp_fetch_destroy(g->f);
	g->f = NULL;
	kp_loop_stop(g->loop);
}

static void begin(struct got *g, const struct kp_fetch_policy *p)
{
	const struct kp_fetch_opts opts = { .policy = p, .user_agent = "kelpie-test" };
	memset(g, 0, sizeof(*g));
	g->loop = kp_loop_create("test");
	g->f = kp_fetch_create(g->loop, &opts);
	kp_buf_init(&g->body, 64 << 20);
}

static void ask(struct got *g, struct kp_fetch_request r)
{
	r.head = on_head;
	r.data = on_data;
	r.done = on_done;
	r.ctx = g;
	r.method = r.method ? r.method : "GET";
	g->is_done = false;
	g->status = g->n_data = 0;
	kp_buf_reset(&g->body);
	struct job j = { .msg.run = start, .g = g, .r = &r };
	kp_mailbox_post(kp_loop_mailbox(g->loop), &j.msg);
	kp_loop_run(g->loop);
}

static void end(struct got *g)
{
	if (g->f) {
		kp_timer_start(g->loop, &g->timer, 0, stop_soon);
		kp_loop_run(g->loop);
	}
	kp_loop_destroy(g->loop);
	kp_buf_fini(&g->body);
}

static char url_text[128];
static kp_str url(const struct script *s, const char *path)
{
	snprintf(url_text, sizeof(url_text), "http://127.0.0.1:%u%s", s->port, path);
	return kp_str_c(url_text);
}

static void test_answers(void **state)
{
	(void)state;
	static const struct script_step steps[] = {
		{ .answer = "HTTP/1.1 200 OK\r\nContent-Type: text/a\r\nContent-Type: text/b\r\nContent-Length: 5\r\n\r\nhello",
			.wants = "X-Empty:\r\nX-A: b c\r\n" },
		{ .answer = "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-T: 1\r\n\r\n",
			.wants = "POST /p HTTP/1.1\r\n" },
		{ .answer = "HTTP/1.1 103 Early\r\nX: 1\r\n\r\nHTTP/1.1 204 No\r\n\r\n",
			.wants = "DELETE /d" },
	};
	struct script s;
	struct got g;
	script_begin(&s, steps, KP_LEN(steps));
	begin(&g, &private_too);
	const struct kp_fetch_header h[] = { { KP_S("X-Empty"), KP_S("") },
		{ KP_S("X-A"), KP_S("b c") } };
	ask(&g, (struct kp_fetch_request){ .url = url(&s, "/"), .headers = h, .n_headers = 2 });
	assert_int_equal(g.r.err.code, KP_OK);
	assert_int_equal(g.status, 200);
	assert_string_equal(g.type, "text/b");
	assert_str_lit(kp_buf_str(&g.body), "hello");
	ask(&g, (struct kp_fetch_request){
			.method = "POST", .url = url(&s, "/p"), .body = KP_S("{}") });
	assert_int_equal(g.r.status, 404);
	assert_str_lit(kp_buf_str(&g.body), "abc");
	ask(&g, (struct kp_fetch_request){ .method = "DELETE", .url = url(&s, "/d") });
	assert_int_equal(g.r.status, 204);
	end(&g);
	script_end(&s);
	assert_int_equal(s.n_connections, 1);
	assert_non_null(strstr(s.asked[1], "\r\n\r\n{}"));
	assert_null(strstr(s.asked[1], "Expect"));
	assert_non_null(strstr(s.asked[0], "User-Agent: kelpie-test\r\n"));
	script_free(&s);
}

static void test_mm_05_addresses_are_checked_when_connecting(void **state)
{
	(void)state;
	static const struct script_step steps[] = {
		{ .answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" }
	};
	struct script s;
	struct got g;
	char z[64];
	script_begin(&s, steps, KP_LEN(steps));
	begin(&g, &public_only);
	snprintf(z, sizeof(z), "http://localhost:%u/", s.port); /* a name that leads inside */
	ask(&g, (struct kp_fetch_request){ .url = kp_str_c(z) });
	assert_true(g.is_done);
	assert_int_equal(g.r.err.code, KP_PERMISSION_DENIED);
	assert_true(g.r.is_unsent);
	ask(&g, (struct kp_fetch_request){ .url = url(&s, "/") }); /* a number: at once */
	assert_false(g.is_done);
	assert_int_equal(g.r.err.code, KP_PERMISSION_DENIED);
	end(&g);
	script_end(&s);
	assert_int_equal(s.n_connections, 0);
	script_free(&s);
}

static void test_mm_06_redirects_are_checked(void **state)
{
	(void)state;
#define TO(where) "HTTP/1.1 302 Found\r\nLocation: " where "\r\nContent-Length: 4\r\n\r\nbody"
	static const struct script_step steps[] = {
		{ .answer = TO("/b") },
		{ .answer = TO("http://localhost:@/c"),
			.wants = "Authorization: secret",
			.closes = true },
		{ .answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
			.wants = "Accept: image/png",
			.closes = true },
		{ .answer = TO("http://169.254.169.254/") },
		{ .answer = TO("file:///etc/passwd") },
		{ .answer = TO("/1") },
		{ .answer = TO("/2") },
		{ .answer = TO("/3") },
		{ .answer = TO("http://localhost:@/") },
		{ .answer = "HTTP/1.1 307 T\r\nLocation: /r\r\nContent-Length: 0\r\n\r\n" },
		{ .answer = TO("/"), .wants = "POST /r" },
		{ .answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", .wants = "GET / " },
	};
	struct script s;
	struct got g;
	script_begin(&s, steps, KP_LEN(steps));
	begin(&g, &private_too);
	const struct kp_fetch_header h[] = { { KP_S("Authorization"), KP_S("secret") },
		{ KP_S("Accept"), KP_S("image/png") }, { KP_S("X-Key"), KP_S("k") } };
	ask(&g, (struct kp_fetch_request){
			.url = url(&s, "/a"), .headers = h, .n_headers = 3, .max_redirects = 3 });
	assert_int_equal(g.r.err.code, KP_OK);
	assert_int_equal(g.r.status, 200);
	assert_str_lit(kp_buf_str(&g.body), "ok");
	ask(&g, (struct kp_fetch_request){ .url = url(&s, "/"), .max_redirects = 3 });
	assert_int_equal(g.r.err.code, KP_PERMISSION_DENIED);
	ask(&g, (struct kp_fetch_request){ .url = url(&s, "/"), .max_redirects = 3 });
	assert_int_equal(g.r.err.code, KP_INVALID_ARGUMENT);
	ask(&g, (struct kp_fetch_request){ .url = url(&s, "/"), .max_redirects = 2 });
	assert_int_equal(g.r.err.code, KP_DATA_LOSS);
	ask(&g, (struct kp_fetch_request){
			.url = url(&s, "/"), .max_redirects = 2, .same_origin = true });
	assert_int_equal(g.r.err.code, KP_PERMISSION_DENIED);
	ask(&g, (struct kp_fetch_request){ .method = "POST",
			.url = url(&s, "/"),
			.body = KP_S("b"),
			.max_redirects = 2 });
	assert_int_equal(g.r.err.code, KP_OK);
	end(&g);
	script_end(&s);
	assert_null(strstr(s.asked[2], "secret")); /* another origin */
	assert_null(strstr(s.asked[2], "X-Key"));
	assert_non_null(strstr(s.asked[10], "\r\n\r\nb"));
	assert_null(strstr(s.asked[11], "\r\n\r\nb"));
	script_free(&s);
}

static void test_mm_07_limits(void **state)
{
	(void)state;
	static const struct script_step steps[] = {
		{ .answer = "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n",
			.filler = 100000,
			.closes = true },
		{ .answer = "HTTP/1.1 200 OK\r\n^\r\n", .closes = true },
		{ .answer = "HTTP/1.1 200 OK\r\nX: y", .closes = true },
		{ .answer = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx",
			.closes = true },
		{ .wait_ms = 300, .closes = true },
		{ .answer = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nx",
			.closes = true,
			.linger_ms = 300 },
		{ .answer = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nx",
			.closes = true,
			.linger_ms = 800 },
		{ .answer = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nx", .closes = true },
		{ .answer = "nonsense\r\n\r\n", .closes = true },
	};
	struct script s;
	struct got g;
	script_begin(&s, steps, KP_LEN(steps));
	begin(&g, &private_too);
	ask(&g, (struct kp_fetch_request){ .url = url(&s, "/"), .max_bytes = 99999 });
	assert_int_equal(g.r.err.code, KP_TOO_LARGE);
	ask(&g, (struct kp_fetch_request){ .url = url(&s, "/") });
	assert_int_equal(g.r.err.code, KP_TOO_LARGE);
	assert_non_null(strstr(g.r.err.msg, "the head of the answer"));
	ask(&g, (struct kp_fetch_request){ .url = url(&s, "/") });
	assert_int_equal(g.r.err.code, KP_DATA_LOSS);
	assert_non_null(strstr(g.r.err.msg, "is not complete"));
	ask(&g, (struct kp_fetch_request){ .url = url(&s, "/") });
	assert_int_equal(g.r.err.code, KP_DATA_LOSS);
	ask(&g, (struct kp_fetch_request){
			.url = url(&s, "/"), .first_byte_ns = 100 * KP_NS_PER_MS });
	assert_int_equal(g.r.err.code, KP_DEADLINE_EXCEEDED);
	assert_non_null(strstr(g.r.err.msg, "did not begin within 100 ms"));
	ask(&g, (struct kp_fetch_request){ .url = url(&s, "/"), .idle_ns = 100 * KP_NS_PER_MS });
	assert_int_equal(g.r.err.code, KP_DEADLINE_EXCEEDED);
	assert_non_null(strstr(g.r.err.msg, "said nothing for 100 ms"));
	ask(&g, (struct kp_fetch_request){ .url = url(&s, "/"), .total_ns = 400 * KP_NS_PER_MS });
	assert_int_equal(g.r.err.code, KP_DEADLINE_EXCEEDED);
	assert_non_null(strstr(g.r.err.msg, "not complete within 400 ms"));
	assert_str_lit(kp_buf_str(&g.body), "x");
	ask(&g, (struct kp_fetch_request){ .url = url(&s, "/") });
	assert_int_equal(g.r.err.code, KP_UNAVAILABLE);
	assert_int_equal(g.r.status, 200);
	assert_false(g.r.is_unsent);
	ask(&g, (struct kp_fetch_request){ .url = url(&s, "/") });
	assert_int_equal(g.r.err.code, KP_UNAVAILABLE);
	const struct kp_fetch_header bad[] = { { KP_S("A"), KP_S("b\r\nC: d") },
		{ KP_S("A:"), KP_S("b") }, { KP_S(""), KP_S("b") } };
	for (size_t i = 0; i < KP_LEN(bad); i++) {
		ask(&g, (struct kp_fetch_request){
				.url = url(&s, "/"), .headers = &bad[i], .n_headers = 1 });
		assert_int_equal(g.r.err.code, KP_INVALID_ARGUMENT);
	}
	end(&g);
	script_end(&s);
	script_free(&s);
}

static void test_who_holds_back_is_not_flooded(void **state)
{
	(void)state;
	static const struct script_step steps[] = {
		{ .answer = "HTTP/1.1 200 OK\r\nContent-Length: 8000000\r\n\r\n",
			.filler = 8000000 },
		{ .answer = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", .filler = 100 },
		{ .answer = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", .filler = 10 },
	};
	struct script s;
	struct got g;
	script_begin(&s, steps, KP_LEN(steps));
	begin(&g, &private_too);
	g.holds = true;
	ask(&g, (struct kp_fetch_request){ .url = url(&s, "/") });
	assert_int_equal(g.r.err.code, KP_OK);
	assert_int_equal(g.body.n, 8000000);
	assert_true(g.held_bytes < 2 << 20);
	ask(&g, (struct kp_fetch_request){ .url = url(&s, "/") }); /* over while it is held */
	assert_int_equal(g.body.n, 100);
	g.holds = false;
	g.cancels = true;
	ask(&g, (struct kp_fetch_request){ .url = url(&s, "/") });
	assert_false(g.is_done);
	end(&g);
	script_end(&s);
	script_free(&s);
}

static void test_mc_02_nothing_is_sent_twice(void **state)
{
	(void)state;
	static const struct script_step steps[] = {
		{ .answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" },
		{ .closes = true, .wants = "/once" },
		{ .answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", .wants = "/first" },
		{ .closes = true, .wants = "/often" },
		{ .answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", .wants = "/often" },
	};
	struct script s;
	struct got g;
	script_begin(&s, steps, KP_LEN(steps));
	begin(&g, &private_too);
	ask(&g, (struct kp_fetch_request){ .url = url(&s, "/first") });
	/* The kept connection is closed after the request came, without an answer. */
	ask(&g, (struct kp_fetch_request){ .method = "POST",
			.url = url(&s, "/once"),
			.body = KP_S("x"),
			.once = true });
	assert_int_equal(g.r.err.code, KP_UNAVAILABLE);
	assert_false(g.r.is_unsent);
	ask(&g, (struct kp_fetch_request){ .url = url(&s, "/first") });
	ask(&g, (struct kp_fetch_request){ .url = url(&s, "/often") });
	assert_int_equal(g.r.err.code, KP_OK);
	end(&g);
	script_end(&s);
	script_free(&s);
	/* Nobody listens there any more. */
	begin(&g, &private_too);
	ask(&g, (struct kp_fetch_request){
			.method = "POST", .url = url(&s, "/"), .body = KP_S("x"), .once = true });
	assert_int_equal(g.r.err.code, KP_UNAVAILABLE);
	assert_true(g.r.is_unsent);
	end(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_mm_05_addresses_are_checked_when_connecting),
		cmocka_unit_test(test_mm_06_redirects_are_checked),
		cmocka_unit_test(test_mm_07_limits),
		cmocka_unit_test(test_who_holds_back_is_not_flooded),
		cmocka_unit_test(test_mc_02_nothing_is_sent_twice),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The codecs and tables of gRPC over HTTP/2, and the deframer's borders. Any cut of the bytes: tests/prop/net/grpc_deframe_test.c. */
#include "net/grpc_wire.h"
#include "base/clock.h"
#include "tests/test.h"

#include <nghttp2/nghttp2.h>

static void timeouts_have_at_most_eight_digits(void **state)
{
	(void)state;
	static const struct {
		int64_t ns;
		const char *want;
	} cases[] = {
		{ INT64_MIN, "1n" },
		{ 0, "1n" },
		{ 1, "1n" },
		{ 99999999, "99999999n" },
		{ 100000000, "100000u" },
		{ 100000001, "100001u" },
		{ KP_NS_PER_S, "1000000u" },
		{ 99999999 * KP_NS_PER_US, "99999999u" },
		{ 99999999 * KP_NS_PER_US + 1, "100000m" },
		{ 600 * KP_NS_PER_S, "600000m" },
		{ 99999999 * KP_NS_PER_MS, "99999999m" },
		{ 99999999 * KP_NS_PER_MS + 1, "100000S" },
		{ 99999999 * KP_NS_PER_S, "99999999S" },
		{ 99999999 * KP_NS_PER_S + 1, "1666667M" },
	};
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		char out[KP_GRPC_TIMEOUT_MAX];
		size_t n = kp_grpc_timeout(cases[i].ns, out);
		assert_str(kp_str_n(out, n), kp_str_c(cases[i].want));
	}
	char out[KP_GRPC_TIMEOUT_MAX];
	size_t n = kp_grpc_timeout(INT64_MAX, out);
	assert_str_lit(kp_str_n(out, n), "2562048H");
}

static void timeouts_are_read_strictly(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int64_t ns;
	} good[] = { { "0n", 0 }, { "1n", 1 }, { "00000007u", 7000 }, { "30m", 30 * KP_NS_PER_MS },
		{ "99999999S", 99999999 * KP_NS_PER_S }, { "2M", 120 * KP_NS_PER_S },
		{ "3H", 10800 * KP_NS_PER_S }, { "99999999H", INT64_MAX / 2 } };
	static const char *const bad[] = { "", "1", "S", "1s", " 1S", "1 S", "1S ", "-1S", "+1S",
		"1.5S", "123456789n", "0x1S", "1SS", "1h" };
	int64_t ns;
	for (size_t i = 0; i < KP_LEN(good); i++) {
		assert_true(kp_grpc_timeout_parse(kp_str_c(good[i].text), &ns));
		assert_int_equal(ns, good[i].ns);
	}
	for (size_t i = 0; i < KP_LEN(bad); i++) {
		assert_false(kp_grpc_timeout_parse(kp_str_c(bad[i]), &ns));
	}
	/* What we send we read, never as less than was asked. */
	for (int64_t asked = 1; asked < INT64_MAX / 8; asked *= 7) {
		char text[KP_GRPC_TIMEOUT_MAX];
		assert_true(
			kp_grpc_timeout_parse(kp_str_n(text, kp_grpc_timeout(asked, text)), &ns));
		assert_true(ns >= asked && ns - asked <= asked / 100 + 1);
	}
}

static void messages_are_percent_encoded(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 5000);
	kp_grpc_percent_encode(&b, KP_S("caf\xc3\xa9 100%\n~\x7f"));
	assert_str_lit(kp_buf_str(&b), "caf%C3%A9 100%25%0A~%7F");
	KP_AUTO(buf) struct kp_buf all, back;
	kp_buf_init(&all, 5000);
	kp_buf_init(&back, 5000);
	for (int c = 1; c < 128; c++) {
		kp_buf_addc(&all, (char)c);
	}
	kp_buf_reset(&b);
	kp_grpc_percent_encode(&b, kp_buf_str(&all));
	kp_grpc_percent_decode(&back, kp_buf_str(&b));
	assert_str(kp_buf_str(&back), kp_buf_str(&all));
}

static void codes_of_ours_are_sent_as_the_nearest(void **state)
{
	(void)state;
	for (unsigned i = 0; i <= 16; i++) {
		assert_int_equal(kp_grpc_status_of((enum kp_code)i), i);
	}
	assert_int_equal(kp_grpc_status_of(KP_CONFLICT), KP_ABORTED);
	assert_int_equal(kp_grpc_status_of(KP_GONE), KP_NOT_FOUND);
	assert_int_equal(kp_grpc_status_of(KP_TOO_LARGE), KP_RESOURCE_EXHAUSTED);
	assert_int_equal(kp_grpc_status_of(KP_METHOD_NOT_ALLOWED), KP_UNIMPLEMENTED);
	assert_int_equal(kp_grpc_status_of(KP_UNSUPPORTED_MEDIA), KP_INVALID_ARGUMENT);
}

static void percent(const char *in, kp_str want)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 1000);
	kp_grpc_percent_decode(&b, kp_str_c(in));
	assert_str(kp_buf_str(&b), want);
}

static void messages_are_percent_decoded(void **state)
{
	(void)state;
	percent("", KP_S(""));
	percent("plain text", KP_S("plain text"));
	percent("caf%C3%A9 %e2%82%ac", KP_S("caf\xc3\xa9 \xe2\x82\xac"));
	percent("100%25", KP_S("100%"));
	/* What is no escape stands for itself. */
	percent("100%", KP_S("100%"));
	percent("%4", KP_S("%4"));
	percent("%zz%4x%", KP_S("%zz%4x%"));
	/* What is not UTF-8 is replaced, escaped or raw. */
	percent("a%FFb", KP_S("a\xef\xbf\xbd"
			      "b"));
	percent("a\xc3", KP_S("a\xef\xbf\xbd"));
}

static void statuses_outside_the_table_are_unknown(void **state)
{
	(void)state;
	for (unsigned i = 0; i <= 16; i++) {
		char z[8];
		snprintf(z, sizeof(z), "%u", i);
		assert_int_equal(kp_grpc_status(kp_str_c(z)), i);
	}
	static const char *const bad[] = { "", "17", "-1", "x", "1x", " 1",
		"99999999999999999999" };
	for (size_t i = 0; i < KP_LEN(bad); i++) {
		assert_int_equal(kp_grpc_status(kp_str_c(bad[i])), KP_UNKNOWN);
	}
}

static void http_and_h2_codes_map_as_grpc_says(void **state)
{
	(void)state;
	static const struct {
		int http;
		enum kp_code code;
	} http[] = { { 400, KP_INTERNAL }, { 401, KP_UNAUTHENTICATED },
		{ 403, KP_PERMISSION_DENIED }, { 404, KP_UNIMPLEMENTED }, { 429, KP_UNAVAILABLE },
		{ 502, KP_UNAVAILABLE }, { 503, KP_UNAVAILABLE }, { 504, KP_UNAVAILABLE },
		{ 500, KP_UNKNOWN }, { 200, KP_UNKNOWN }, { 0, KP_UNKNOWN } };
	for (size_t i = 0; i < KP_LEN(http); i++) {
		assert_int_equal(kp_grpc_code_of_http(http[i].http), http[i].code);
	}
	static const enum kp_code h2[] = { KP_INTERNAL, KP_INTERNAL, KP_INTERNAL, KP_INTERNAL,
		KP_INTERNAL, KP_UNKNOWN, KP_INTERNAL, KP_UNAVAILABLE, KP_CANCELLED, KP_INTERNAL,
		KP_INTERNAL, KP_RESOURCE_EXHAUSTED, KP_PERMISSION_DENIED, KP_INTERNAL,
		KP_INTERNAL };
	for (size_t i = 0; i < KP_LEN(h2); i++) {
		assert_int_equal(kp_grpc_code_of_h2((uint32_t)i), h2[i]);
	}
}

static void content_types(void **state)
{
	(void)state;
	static const char *const good[] = { "application/grpc", "application/grpc+proto",
		"application/grpc; charset=utf-8", "Application/gRPC" };
	static const char *const bad[] = { "", "application/grp", "application/grpc-web",
		"text/html", "application/json" };
	for (size_t i = 0; i < KP_LEN(good); i++) {
		assert_true(kp_grpc_is_content_type(kp_str_c(good[i])));
	}
	for (size_t i = 0; i < KP_LEN(bad); i++) {
		assert_false(kp_grpc_is_content_type(kp_str_c(bad[i])));
	}
}

static void metadata_is_checked(void **state)
{
	(void)state;
	struct kp_err err;
	static const char *const good[] = { "a", "x-request-id", "a.b_c-9", "trace-bin",
		"authorization" };
	for (size_t i = 0; i < KP_LEN(good); i++) {
		assert_int_equal(kp_grpc_metadata_check(kp_str_c(good[i]), KP_S("v ~"), &err), 0);
	}
	static const char *const bad[] = { "", "A", ":path", "a b", "grpc-timeout", "te",
		"content-type", "connection", "host", "k\xc3\xa9" };
	for (size_t i = 0; i < KP_LEN(bad); i++) {
		assert_int_equal(kp_grpc_metadata_check(kp_str_c(bad[i]), KP_S("v"), &err), -1);
		assert_int_equal(err.code, KP_INVALID_ARGUMENT);
	}
	assert_int_equal(kp_grpc_metadata_check(KP_S("x-key"), KP_S("a\nb"), &err), -1);
	assert_string_equal(
		err.msg, "send metadata `x-key`: byte 1 of the value is not printable ASCII");
	assert_int_equal(kp_grpc_metadata_check(KP_S("x-bin"), KP_S("a\n\xff"), &err), 0);
}

static void base64_there_and_back(void **state)
{
	(void)state;
	static const char *const want[] = { "", "Zg", "Zm8", "Zm9v", "Zm9vYg", "Zm9vYmE",
		"Zm9vYmFy" };
	static const char *const padded[] = { "", "Zg==", "Zm8=", "Zm9v",
		"Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy" };
	for (size_t i = 0; i < KP_LEN(want); i++) {
		kp_str bytes = kp_str_n("foobar", i);
		KP_AUTO(buf) struct kp_buf b, d;
		kp_buf_init(&b, 100);
		kp_buf_init(&d, 100);
		kp_grpc_base64(&b, bytes);
		assert_str(kp_buf_str(&b), kp_str_c(want[i]));
		assert_true(kp_grpc_base64_decode(&d, kp_str_c(want[i])));
		assert_str(kp_buf_str(&d), bytes);
		kp_buf_reset(&d);
		assert_true(kp_grpc_base64_decode(&d, kp_str_c(padded[i])));
		assert_str(kp_buf_str(&d), bytes);
	}
	static const char *const bad[] = { "Z", "Zm9vY", "Zg=", "=", "====", "Zg==Zg==", "Zh",
		"Zm9=", "Z g", "Zm-_" };
	for (size_t i = 0; i < KP_LEN(bad); i++) {
		KP_AUTO(buf) struct kp_buf d;
		kp_buf_init(&d, 100);
		kp_buf_lit(&d, "kept");
		assert_false(kp_grpc_base64_decode(&d, kp_str_c(bad[i])));
		assert_str_lit(kp_buf_str(&d), "kept");
	}
}

/* --- the deframer --- */

struct got {
	struct kp_grpc_deframer d;
	struct kp_buf text;   /* messages, each followed by '|' */
	const char *in_place; /* where the last message lay */
	int hold_at, stop_at; /* n-th message, 0: never */
	int n;
};

static bool on_message(void *user, kp_str m)
{
	struct got *g = user;
	kp_buf_add(&g->text, m);
	kp_buf_addc(&g->text, '|');
	g->in_place = m.p;
	g->n++;
	if (g->n == g->hold_at) {
		kp_grpc_deframer_hold(&g->d);
	}
	return g->n != g->stop_at;
}

static void got_init(struct got *g, size_t max_message)
{
	*g = (struct got){ .n = 0 };
	kp_grpc_deframer_init(&g->d, max_message, 1000);
	kp_buf_init(&g->text, 100000);
}

static void got_fini(struct got *g)
{
	kp_grpc_deframer_fini(&g->d);
	kp_buf_fini(&g->text);
}

static int feed(struct got *g, kp_str bytes, struct kp_err *err)
{
	return kp_grpc_deframer_feed(&g->d, bytes, on_message, g, err);
}

static void whole_messages_are_not_copied(void **state)
{
	(void)state;
	struct got g;
	struct kp_err err;
	got_init(&g, 100);
	kp_str bytes = KP_S("\0\0\0\0\2ab\0\0\0\0\0\0\0\0\0\3cde");
	assert_int_equal(feed(&g, bytes, &err), 0);
	assert_str_lit(kp_buf_str(&g.text), "ab||cde|");
	assert_ptr_equal(g.in_place, bytes.p + bytes.n - 3);
	assert_int_equal(g.d.in.cap, 0);
	got_fini(&g);
}

static void a_promise_takes_no_memory(void **state)
{
	(void)state;
	struct got g;
	struct kp_err err;
	got_init(&g, 64 << 20);
	assert_int_equal(feed(&g, KP_S("\0\3\xff\xff\xff"), &err), 0);
	assert_true(g.d.in.cap <= 512 << 10);
	got_fini(&g);
}

static void refusals(void **state)
{
	(void)state;
	static const struct {
		kp_str bytes;
		enum kp_code code;
		const char *msg;
	} cases[] = {
		{ { "\1\0\0\0\1x", 6 }, KP_INTERNAL,
			"read message: it is compressed, and no compression was offered" },
		{ { "\2\0\0\0\1x", 6 }, KP_INTERNAL,
			"read message: its flag byte is invalid, and no compression was offered" },
		{ { "\0\0\0\0\5", 5 }, KP_INTERNAL,
			"read message of 5 bytes: the limit is 4 bytes" },
		{ { "\0\xff\xff\xff\xff", 5 }, KP_INTERNAL,
			"read message of 4294967295 bytes: the limit is 4 bytes" },
	};
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		for (size_t cut = 0; cut <= cases[i].bytes.n; cut++) {
			struct got g;
			struct kp_err err;
			got_init(&g, 4);
			assert_int_equal(feed(&g, KP_S("\0\0\0\0\4okay"), &err), 0);
			int rc = feed(&g, kp_str_sub(cases[i].bytes, 0, cut), &err);
			if (rc == 0) {
				rc = feed(&g, kp_str_skip(cases[i].bytes, cut), &err);
			}
			assert_int_equal(rc, -1);
			assert_int_equal(err.code, cases[i].code);
			assert_string_equal(err.msg, cases[i].msg);
			assert_str_lit(kp_buf_str(&g.text), "okay|");
			got_fini(&g);
		}
	}
}

static void held_bytes_have_a_limit(void **state)
{
	(void)state;
	struct got g;
	struct kp_err err;
	got_init(&g, 10);
	kp_grpc_deframer_hold(&g.d);
	char bytes[1015] = { 0 };
	assert_int_equal(feed(&g, kp_str_n(bytes, sizeof(bytes)), &err), 0);
	assert_int_equal(g.n, 0);
	assert_int_equal(feed(&g, KP_S("x"), &err), -1);
	assert_int_equal(err.code, KP_RESOURCE_EXHAUSTED);
	got_fini(&g);
}

static void hold_and_release(void **state)
{
	(void)state;
	struct got g;
	struct kp_err err;
	got_init(&g, 100);
	g.hold_at = 1;
	assert_int_equal(feed(&g, KP_S("\0\0\0\0\1a\0\0\0\0\1b\0\0\0"), &err), 0);
	assert_str_lit(kp_buf_str(&g.text), "a|");
	assert_int_equal(feed(&g, KP_S("\0\1c\0\0\0\0\1d\0\0"), &err), 0);
	assert_str_lit(kp_buf_str(&g.text), "a|");
	g.hold_at = 3;
	assert_int_equal(kp_grpc_deframer_release(&g.d, on_message, &g, &err), 0);
	assert_str_lit(kp_buf_str(&g.text), "a|b|c|");
	assert_true(g.d.is_held);
	assert_int_equal(kp_grpc_deframer_release(&g.d, on_message, &g, &err), 0);
	assert_str_lit(kp_buf_str(&g.text), "a|b|c|d|");
	assert_int_equal(kp_grpc_deframer_left(&g.d), 2);
	assert_int_equal(feed(&g, KP_S("\0\0\1e"), &err), 0);
	assert_str_lit(kp_buf_str(&g.text), "a|b|c|d|e|");
	assert_int_equal(kp_grpc_deframer_left(&g.d), 0);
	got_fini(&g);
}

static void stop_means_stop(void **state)
{
	(void)state;
	struct got g;
	struct kp_err err;
	got_init(&g, 100);
	g.stop_at = 2;
	assert_int_equal(feed(&g, KP_S("\0\0\0\0\1a\0\0\0\0"), &err), 0);
	assert_int_equal(feed(&g, KP_S("\1b\0\0\0\0\1c"), &err), 0);
	assert_str_lit(kp_buf_str(&g.text), "a|b|");
	got_fini(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(timeouts_have_at_most_eight_digits),
		cmocka_unit_test(timeouts_are_read_strictly),
		cmocka_unit_test(messages_are_percent_encoded),
		cmocka_unit_test(codes_of_ours_are_sent_as_the_nearest),
		cmocka_unit_test(messages_are_percent_decoded),
		cmocka_unit_test(statuses_outside_the_table_are_unknown),
		cmocka_unit_test(http_and_h2_codes_map_as_grpc_says),
		cmocka_unit_test(content_types),
		cmocka_unit_test(metadata_is_checked),
		cmocka_unit_test(base64_there_and_back),
		cmocka_unit_test(whole_messages_are_not_copied),
		cmocka_unit_test(a_promise_takes_no_memory),
		cmocka_unit_test(refusals),
		cmocka_unit_test(held_bytes_have_a_limit),
		cmocka_unit_test(hold_and_release),
		cmocka_unit_test(stop_means_stop),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

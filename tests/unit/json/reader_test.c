/* The pull reader: what it accepts, and for everything else the error, its place and its offset. */
#include "json/reader.h"
#include "json/value.h"
#include "json/write.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

static struct kp_arena *arena;

static int setup(void **state)
{
	(void)state;
	arena = kp_arena_create(1 << 20);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kp_arena_destroy(arena);
	return 0;
}

static void test_reads_members_in_order(void **state)
{
	(void)state;
	struct kp_json j;
	struct kp_err err;
	kp_str key, s;
	int64_t i;
	double d;
	bool b;
	kp_json_init(&j,
		KP_S(" { \"a\" : \"x\\n\\u00e9\\ud83d\\ude00\" , \"n\":-12,\"f\":2.5e1,\"t\":true,\"z\":null,\"l\":[1,[],{}] } "),
		arena);
	assert_int_equal(kp_json_object(&j, &err), 0);
	assert_int_equal(kp_json_member(&j, &key, &err), 1);
	assert_true(kp_str_eq(key, KP_S("a")));
	assert_int_equal(kp_json_string(&j, &s, &err), 0);
	assert_true(kp_str_eq(s, KP_S("x\n\xc3\xa9\xf0\x9f\x98\x80")));
	assert_int_equal(kp_json_member(&j, &key, &err), 1);
	assert_int_equal(kp_json_i64(&j, -100, 100, &i, &err), 0);
	assert_int_equal(i, -12);
	assert_int_equal(kp_json_member(&j, &key, &err), 1);
	assert_int_equal(kp_json_f64(&j, 0, 100, &d, &err), 0);
	assert_true(d > 24.9 && d < 25.1);
	assert_int_equal(kp_json_member(&j, &key, &err), 1);
	assert_int_equal(kp_json_bool(&j, &b, &err), 0);
	assert_true(b);
	assert_int_equal(kp_json_member(&j, &key, &err), 1);
	assert_int_equal(kp_json_try_null(&j, &err), 1);
	assert_int_equal(kp_json_member(&j, &key, &err), 1);
	assert_int_equal(kp_json_skip(&j, &s, &err), 0);
	assert_true(kp_str_eq(s, KP_S("[1,[],{}]")));
	assert_int_equal(kp_json_member(&j, &key, &err), 0);
	assert_int_equal(kp_json_end(&j, &err), 0);
}

/* A string without escapes is a slice of the input. */
static void test_plain_strings_are_not_copied(void **state)
{
	(void)state;
	kp_str text = KP_S("\"plain \xe2\x82\xac\""), s;
	struct kp_json j;
	struct kp_err err;
	kp_json_init(&j, text, arena);
	assert_int_equal(kp_json_string(&j, &s, &err), 0);
	assert_ptr_equal(s.p, text.p + 1);
}

static void test_syntax_errors(void **state)
{
	(void)state;
	static const struct {
		const char *text, *msg;
	} bad[] = {
		{ "", "parse JSON: the text ends, expected a value, at byte 0" },
		{ "tru", "parse JSON: expected a value, got `t` at byte 0" },
		{ "[1 2]", "parse JSON: expected `,` or `]`, got `2` at byte 3 (in `[0]`)" },
		{ "{\"a\":1,}", "parse JSON: expected a member name in quotes, got `}` at byte 7" },
		{ "{\"a\" 1}", "parse JSON: expected `:`, got `1` at byte 5 (in `a`)" },
		{ "[1,]", "parse JSON: expected a value, got `]` at byte 3 (in `[1]`)" },
		{ "{\"a\":[0,{\"b\":\"\\x\"}]}",
			"parse JSON: invalid escape at byte 14 (in `a[1].b`)" },
		{ "\"\\ud83d\"", "parse JSON: lone surrogate escape at byte 1" },
		{ "\"\\ude00\"", "parse JSON: lone surrogate escape at byte 1" },
		{ "\"\\ud83d\\u0041\"", "parse JSON: lone surrogate escape at byte 1" },
		{ "\"a\tb\"", "parse JSON: control character in a string at byte 2" },
		{ "\"\\n\t\"", "parse JSON: control character in a string at byte 3" },
		{ "\"abc", "parse JSON: the text ends inside a string at byte 4" },
		{ "\"abc\\", "parse JSON: the text ends inside a string at byte 5" },
		{ "\"\xff\"", "parse JSON: invalid UTF-8 at byte 1" },
		{ "\"\xed\xa0\x80\"", "parse JSON: invalid UTF-8 at byte 1" },
		{ "01", "parse JSON: malformed number at byte 0" },
		{ "1.", "parse JSON: malformed number at byte 0" },
		{ "-", "parse JSON: malformed number at byte 0" },
		{ "1e+", "parse JSON: malformed number at byte 0" },
		{ "1 2", "parse JSON: expected the end, got `2` at byte 2" },
		{ "\xef\xbb\xbf{}", "parse JSON: expected a value, got byte 0xef at byte 0" },
	};
	for (size_t i = 0; i < KP_LEN(bad); i++) {
		struct kp_jv v;
		struct kp_err err;
		assert_int_equal(kp_json_check(kp_str_c(bad[i].text), arena, NULL, &err), -1);
		assert_string_equal(err.msg, bad[i].msg);
		assert_int_equal(kp_jv_parse(kp_str_c(bad[i].text), arena, &v, &err), -1);
		assert_string_equal(err.msg, bad[i].msg);
		assert_int_equal(err.code, KP_INVALID_ARGUMENT);
	}
}

static void test_wrong_types_name_the_place(void **state)
{
	(void)state;
	struct kp_json j;
	struct kp_err err;
	kp_str key, s;
	kp_json_init(&j, KP_S("{\"messages\":[{},{\"content\":5}]}"), arena);
	assert_int_equal(kp_json_object(&j, &err), 0);
	assert_int_equal(kp_json_member(&j, &key, &err), 1);
	assert_int_equal(kp_json_array(&j, &err), 0);
	assert_int_equal(kp_json_element(&j, &err), 1);
	assert_int_equal(kp_json_skip(&j, NULL, &err), 0);
	assert_int_equal(kp_json_element(&j, &err), 1);
	assert_int_equal(kp_json_object(&j, &err), 0);
	assert_int_equal(kp_json_member(&j, &key, &err), 1);
	assert_int_equal(kp_json_string(&j, &s, &err), -1);
	assert_string_equal(err.param, "messages[1].content");
	assert_string_equal(err.msg, "`messages[1].content`: expected a string, got a number");
}

static void test_integers(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int64_t min, max, value;
		const char *msg;
	} cases[] = {
		{ "3", 0, 5, 3, NULL },
		{ "3.0", 0, 5, 3, NULL },
		{ "3e0", 0, 5, 3, NULL },
		{ "-9223372036854775808", INT64_MIN, INT64_MAX, INT64_MIN, NULL },
		{ "3.5", 0, 5, 0, "expected an integer, got 3.5" },
		{ "6", 0, 5, 0, "must be between 0 and 5, got 6" },
		{ "-0", 0, 5, 0, NULL },
		{ "99999999999999999999", 0, 5, 0, "must be between 0 and 5" },
		{ "1e400", 0, 5, 0, "must be between 0 and 5" },
		{ "\"3\"", 0, 5, 0, "expected a number, got a string" },
	};
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		struct kp_json j;
		struct kp_err err;
		int64_t v = 77;
		kp_json_init(&j, kp_str_c(cases[i].text), arena);
		int r = kp_json_i64(&j, cases[i].min, cases[i].max, &v, &err);
		if (cases[i].msg) {
			assert_int_equal(r, -1);
			assert_string_equal(err.msg, cases[i].msg);
			assert_int_equal(v, 77);
		} else {
			assert_int_equal(r, 0);
			assert_int_equal(v, cases[i].value);
		}
	}
}

static void test_depth_limit(void **state)
{
	(void)state;
	char deep[KP_JSON_MAX_DEPTH * 2 + 2];
	struct kp_jv v;
	struct kp_err err;
	memset(deep, '[', KP_JSON_MAX_DEPTH);
	memset(deep + KP_JSON_MAX_DEPTH, ']', KP_JSON_MAX_DEPTH);
	assert_int_equal(kp_jv_parse(kp_str_n(deep, 2 * KP_JSON_MAX_DEPTH), arena, &v, &err), 0);
	memset(deep, '[', sizeof(deep));
	assert_int_equal(kp_jv_parse(kp_str_n(deep, sizeof(deep)), arena, &v, &err), -1);
	assert_non_null(strstr(err.msg, "nested more than 128 deep at byte 128"));
}

static void test_repeated_keys_follow_python(void **state)
{
	(void)state;
	struct kp_jv v;
	struct kp_err err;
	KP_AUTO(buf) struct kp_buf big;
	assert_int_equal(kp_jv_parse(KP_S("{\"a\":1,\"b\":2,\"a\":3}"), arena, &v, &err), 0);
	assert_int_equal(v.n, 2);
	assert_true(kp_str_eq(v.members[0].key, KP_S("a")));
	assert_true(kp_str_eq(v.members[0].value.s, KP_S("3")));
	/* The same through the map that large objects use. */
	kp_buf_init(&big, 1 << 16);
	kp_buf_addc(&big, '{');
	for (int i = 0; i < 400; i++) {
		kp_buf_printf(&big, "%s\"k%d\":%d", i ? "," : "", i % 100, i);
	}
	kp_buf_addc(&big, '}');
	assert_int_equal(kp_jv_parse(kp_buf_str(&big), arena, &v, &err), 0);
	assert_int_equal(v.n, 100);
	assert_true(kp_str_eq(kp_jv_get(&v, KP_S("k7"))->s, KP_S("307")));
	assert_true(kp_str_eq(v.members[7].key, KP_S("k7")));
}

static void test_value_budget(void **state)
{
	(void)state;
	struct kp_json j;
	struct kp_jv v;
	struct kp_err err;
	kp_json_init(&j, KP_S("[1,2,3]"), arena);
	assert_int_equal(kp_jv_read(&j, 3, &v, &err), -1);
	assert_int_equal(err.code, KP_RESOURCE_EXHAUSTED);
	assert_string_equal(err.msg, "read JSON: more than 3 values");
}

static void test_arena_limit_is_an_error(void **state)
{
	(void)state;
	struct kp_arena *small = kp_arena_create(64);
	struct kp_jv v;
	struct kp_err err;
	assert_int_equal(
		kp_jv_parse(
			KP_S("[[1,2,3,4],[5,6,7,8],\"\\n aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"]"),
			small, &v, &err),
		-1);
	assert_int_equal(err.code, KP_RESOURCE_EXHAUSTED);
	kp_arena_destroy(small);
}

static void test_writes_and_reads_back(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf out;
	kp_buf_init(&out, 4096);
	kp_json_w_str(&out, KP_S("a\"\\\n\x01\x7f\xe2\x82\xac\xff!"));
	assert_true(kp_str_eq(
		kp_buf_str(&out), KP_S("\"a\\\"\\\\\\n\\u0001\x7f\xe2\x82\xac\xef\xbf\xbd!\"")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_reads_members_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(test_plain_strings_are_not_copied, setup, teardown),
		cmocka_unit_test_setup_teardown(test_syntax_errors, setup, teardown),
		cmocka_unit_test_setup_teardown(test_wrong_types_name_the_place, setup, teardown),
		cmocka_unit_test_setup_teardown(test_integers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_depth_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(test_repeated_keys_follow_python, setup, teardown),
		cmocka_unit_test_setup_teardown(test_value_budget, setup, teardown),
		cmocka_unit_test_setup_teardown(test_arena_limit_is_an_error, setup, teardown),
		cmocka_unit_test_setup_teardown(test_writes_and_reads_back, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

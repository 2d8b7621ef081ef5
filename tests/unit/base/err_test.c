/* Errors: the code table, formatting, cutting at UTF-8 borders, wrapping. */
#include "base/err.h"
#include "base/utf8.h"
#include "tests/test.h"

#include <errno.h>

static void codes_are_grpc_s_and_complete(void **state)
{
	(void)state;
	/* grpc/grpc, doc/statuscodes.md: the numbers are on the wire. */
	static const char *const grpc[] = { "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT",
		"DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
		"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
		"UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED" };
	for (size_t i = 0; i < KP_LEN(grpc); i++) {
		assert_string_equal(kp_code_name((enum kp_code)i), grpc[i]);
	}
#define X(name, number, http, type, reason, retry)                 \
	assert_int_equal(KP_##name, number);                       \
	assert_string_equal(kp_code_name(KP_##name), #name);       \
	assert_string_equal(kp_code_reason(KP_##name), reason);    \
	assert_string_equal(kp_code_openai_type(KP_##name), type); \
	assert_int_equal(kp_code_http(KP_##name), http);           \
	assert_int_equal(kp_code_retryable(KP_##name), retry);
	KP_CODES(X)
#undef X
	/* A number from another program, as gRPC servers may send it, must not crash. */
	assert_string_equal(kp_code_name((enum kp_code)99), "UNKNOWN");
	assert_int_equal(kp_code_http((enum kp_code)99), 500);
	assert_false(kp_code_retryable((enum kp_code)99));
	assert_string_equal(kp_code_openai_type((enum kp_code)99), "server_error");
	assert_string_equal(kp_code_reason((enum kp_code)99), "Unknown");
}

static void table_is_consistent(void **state)
{
	(void)state;
	/* 4xx is the client's fault and never a server_error; a 5xx never an invalid request, but for UNIMPLEMENTED. */
#define X(name, number, http, type, reason, retry)                      \
	if (http >= 500 && number != KP_UNIMPLEMENTED) {                \
		assert_string_not_equal(type, "invalid_request_error"); \
	}                                                               \
	if (http == 400) {                                              \
		assert_string_equal(type, "invalid_request_error");     \
		assert_false(retry);                                    \
	}
	KP_CODES(X)
#undef X
}

static void set_fills_everything(void **state)
{
	(void)state;
	struct kp_err err;
	memset(&err, 0x5a, sizeof(err));
	assert_int_equal(kp_err_set(&err, KP_NOT_FOUND, "open `%s`", "x"), -1);
	assert_int_equal(err.code, KP_NOT_FOUND);
	assert_int_equal(err.sys, 0);
	assert_null(err.reason);
	assert_string_equal(err.param, "");
	assert_string_equal(err.msg, "open `x`");
}

static void the_zero_value_is_no_error(void **state)
{
	(void)state;
	struct kp_err err = KP_ERR_INIT;
	assert_int_equal(err.code, KP_OK);
	assert_string_equal(err.msg, "");
}

static void set_ok(void *arg)
{
	struct kp_err err;
	kp_err_set(&err, *(enum kp_code *)arg, "all is well");
}
static void setting_ok_is_a_bug(void **state)
{
	(void)state;
	enum kp_code ok = KP_OK;
	assert_dies(set_ok, &ok);
}

static void control_and_invalid_bytes_become_question_marks(void **state)
{
	(void)state;
	struct kp_err err;
	kp_err_set(&err, KP_INTERNAL, "a%cb\tc\r\nd%c%s", 1, 0x7f, "\xff\xc3)\xe2\x82\xac");
	assert_string_equal(err.msg, "a?b?c?" /* no trigraphs */ "?d?"
				     "?"
				     "?)\xe2\x82\xac");
}

/* Whatever the length, the message is valid UTF-8, at most KP_ERR_MSG - 1 bytes, and loses less than one character. */
static void long_messages_are_cut_at_a_character(void **state)
{
	(void)state;
	static const char *const chars[] = { "a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80" };
	char text[2 * KP_ERR_MSG];
	for (size_t c = 0; c < KP_LEN(chars); c++) {
		size_t k = strlen(chars[c]);
		for (size_t lead = 0; lead < 4; lead++) {
			memset(text, 'x', lead);
			size_t n = lead;
			while (n + k < sizeof(text)) {
				memcpy(text + n, chars[c], k);
				n += k;
			}
			text[n] = '\0';
			struct kp_err err;
			kp_err_set(&err, KP_INTERNAL, "%s", text);
			size_t got = strlen(err.msg);
			assert_in_range(got, KP_ERR_MSG - k, KP_ERR_MSG - 1);
			assert_true(kp_utf8_ok(kp_str_c(err.msg)));
			assert_memory_equal(err.msg, text, got);
		}
	}
}

static void wrap_puts_context_in_front(void **state)
{
	(void)state;
	struct kp_err err;
	kp_err_param(&err, "n", "read `n`: too big");
	err.reason = "some_reason";
	assert_int_equal(kp_err_wrap(&err, "pool `%s`", "p"), -1);
	assert_string_equal(err.msg, "pool `p`: read `n`: too big");
	assert_int_equal(err.code, KP_INVALID_ARGUMENT);
	assert_string_equal(err.param, "n");
	assert_string_equal(err.reason, "some_reason");
}

static void wrap_of_long_ones_clamps(void **state)
{
	(void)state;
	char text[KP_ERR_MSG + 100];
	memset(text, 'o', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (size_t n = KP_ERR_MSG - 8; n < KP_ERR_MSG + 4; n++) {
		struct kp_err err;
		kp_err_set(&err, KP_INTERNAL, "%s", "\xe2\x82\xac tail");
		kp_err_wrap(&err, "%.*s", (int)n, text);
		assert_in_range(strlen(err.msg), KP_ERR_MSG - 4, KP_ERR_MSG - 1);
		assert_true(kp_utf8_ok(kp_str_c(err.msg)));
		assert_int_equal(err.msg[0], 'o');
	}
}

static void an_error_may_be_built_from_itself(void **state)
{
	(void)state;
	struct kp_err err;
	kp_err_param(&err, "messages[0]", "first");
	kp_err_set(&err, KP_UNAVAILABLE, "second, after %s of %s", err.msg, err.param);
	assert_string_equal(err.msg, "second, after first of messages[0]");
	assert_string_equal(err.param, "");
	kp_err_param(&err, "a", "b");
	kp_err_param(&err, err.param, "again %s", err.msg);
	assert_string_equal(err.param, "a");
	assert_string_equal(err.msg, "again b");
}

static void param_is_cut_and_cleaned(void **state)
{
	(void)state;
	struct kp_err err;
	char text[300];
	for (size_t lead = 0; lead < 3; lead++) {
		memset(text, 'p', sizeof(text));
		for (size_t i = lead; i + 3 < sizeof(text); i += 3) {
			memcpy(text + i, "\xe2\x82\xac", 3);
		}
		text[sizeof(text) - 1] = '\0';
		assert_int_equal(kp_err_param(&err, text, "bad"), -1);
		assert_in_range(strlen(err.param), KP_ERR_PARAM - 4, KP_ERR_PARAM - 1);
		assert_true(kp_utf8_ok(kp_str_c(err.param)));
	}
	kp_err_param(&err, "a\nb", "bad");
	assert_string_equal(err.param, "a?b");
	assert_int_equal(err.code, KP_INVALID_ARGUMENT);
}

static void sys_keeps_errno_and_chooses_the_code(void **state)
{
	(void)state;
	static const struct {
		int e;
		enum kp_code code;
	} table[] = { { ENOENT, KP_NOT_FOUND }, { EACCES, KP_PERMISSION_DENIED },
		{ EEXIST, KP_ALREADY_EXISTS }, { EADDRINUSE, KP_ALREADY_EXISTS },
		{ EMFILE, KP_RESOURCE_EXHAUSTED }, { ENOSPC, KP_RESOURCE_EXHAUSTED },
		{ EISDIR, KP_INVALID_ARGUMENT }, { ETIMEDOUT, KP_DEADLINE_EXCEEDED },
		{ ECONNREFUSED, KP_UNAVAILABLE }, { ECONNRESET, KP_UNAVAILABLE },
		{ EIO, KP_INTERNAL } };
	for (size_t i = 0; i < KP_LEN(table); i++) {
		struct kp_err err;
		assert_int_equal(kp_err_sys(&err, table[i].e, "open `%d`", 7), -1);
		assert_int_equal(err.code, table[i].code);
		assert_int_equal(err.sys, table[i].e);
		assert_true(kp_str_starts(kp_str_c(err.msg), KP_S("open `7`: ")));
		assert_true(strlen(err.msg) > strlen("open `7`: "));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(codes_are_grpc_s_and_complete),
		cmocka_unit_test(table_is_consistent),
		cmocka_unit_test(set_fills_everything),
		cmocka_unit_test(the_zero_value_is_no_error),
		cmocka_unit_test(setting_ok_is_a_bug),
		cmocka_unit_test(control_and_invalid_bytes_become_question_marks),
		cmocka_unit_test(long_messages_are_cut_at_a_character),
		cmocka_unit_test(wrap_puts_context_in_front),
		cmocka_unit_test(wrap_of_long_ones_clamps),
		cmocka_unit_test(an_error_may_be_built_from_itself),
		cmocka_unit_test(param_is_cut_and_cleaned),
		cmocka_unit_test(sys_keeps_errno_and_chooses_the_code),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

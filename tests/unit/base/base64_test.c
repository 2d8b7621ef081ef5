/* Base64: RFC 4648's vectors, padding, what is refused. */
#include "base/base64.h"
#include "base/mem.h"
#include "tests/test.h"

static ptrdiff_t decode(const char *text, char *ret)
{
	kp_str s = kp_str_c(text);
	/* Exactly the room that it says it needs, so that a sanitizer sees one byte more. */
	uint8_t *p = kp_xmalloc(kp_base64_max(s.n) + !s.n);
	ptrdiff_t n = kp_base64_decode(s, p);
	if (n >= 0) {
		memcpy(ret, p, (size_t)n);
		ret[n] = '\0';
	}
	kp_mem_free(p);
	return n;
}

static void vectors(void **state)
{
	(void)state;
	static const struct {
		const char *text, *bytes;
	} cases[] = { { "", "" }, { "Zg==", "f" }, { "Zm8=", "fo" }, { "Zm9v", "foo" },
		{ "Zm9vYg==", "foob" }, { "Zm9vYmE=", "fooba" }, { "Zm9vYmFy", "foobar" },
		{ "+/+/", "\xfb\xff\xbf" } };
	char out[16];
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		assert_int_equal(decode(cases[i].text, out), strlen(cases[i].bytes));
		assert_string_equal(out, cases[i].bytes);
	}
}

static void refused(void **state)
{
	(void)state;
	static const char *const cases[] = { "Z", "Zg", "Zg=", "Zm9",
		"====", "Z===", "Zg==Zg==", "=g==", "Zm9v=", "Zm9\n", "Zm 9", "Zm9-", "Zm9_",
		"Z\xc3\xa4=", "Zg=a" };
	char out[16];
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		if (decode(cases[i], out) >= 0) {
			fail_msg("`%s` was taken", cases[i]);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(vectors), cmocka_unit_test(refused) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}

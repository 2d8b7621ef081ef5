/* What an API server says of a failure, and what is no Status. */
#include "base/clock.h"
#include "kube/status.h"
#include "tests/test.h"

static void is(
	int http, const char *body, enum kp_code code, const char *reason, const char *message)
{
	struct kp_kube_failure f;
	kp_kube_failure_init(&f, http, kp_str_c(body), "GET /x");
	assert_string_equal(f.err.msg, message);
	assert_int_equal(f.err.code, code);
	assert_string_equal(f.reason, reason);
	kp_kube_failure_fini(&f);
}

static void reasons_and_codes(void **state)
{
	(void)state;
	is(409, "{\"kind\":\"Status\",\"reason\":\"AlreadyExists\",\"message\":\"pods \\\"x\\\"\",\"code\":409}",
		KP_ALREADY_EXISTS, "AlreadyExists", "GET /x: pods \"x\" (409 AlreadyExists)");
	is(409, "{\"kind\":\"Status\",\"reason\":\"Conflict\"}", KP_CONFLICT, "Conflict",
		"GET /x: (409 Conflict)");
	is(410, "{\"kind\":\"Status\",\"reason\":\"Expired\",\"message\":\"old\"}", KP_GONE,
		"Expired", "GET /x: old (410 Expired)");
	is(403, "{\"kind\":\"Status\",\"message\":1,\"reason\":[]}", KP_PERMISSION_DENIED, "",
		"GET /x: (403)");
	/* The Status knows better than the head, as in a watch's 200. */
	is(500, "{\"kind\":\"Status\",\"code\":429}", KP_RESOURCE_EXHAUSTED, "", "GET /x: (429)");
	is(401, "{\"kind\":\"Status\",\"code\":200}", KP_UNAUTHENTICATED, "", "GET /x: (401)");
}

static void what_is_no_status_is_quoted(void **state)
{
	(void)state;
	is(503, "", KP_UNAVAILABLE, "", "GET /x: (503)");
	is(502, "<html>\n<p>", KP_UNAVAILABLE, "", "GET /x: <html> (502)");
	is(429, "Too many requests, please try again later.\n", KP_RESOURCE_EXHAUSTED, "",
		"GET /x: Too many requests, please try again later. (429)");
	is(404, "{\"kind\":\"Pod\"}", KP_NOT_FOUND, "", "GET /x: {\"kind\":\"Pod\"} (404)");
	is(500, "\xff\x01", KP_INTERNAL, "", "GET /x: \xef\xbf\xbd? (500)");
	is(302, "", KP_UNKNOWN, "", "GET /x: (302)");
	is(507, "", KP_UNAVAILABLE, "", "GET /x: (507)");
}

static void details_and_retry(void **state)
{
	(void)state;
	struct kp_kube_failure f;
	kp_kube_failure_init(&f, 429,
		KP_S("{\"kind\":\"Status\",\"details\":{\"retryAfterSeconds\":3,\"causes\":[{\"field\":\"spec\"}]}}"),
		"x");
	assert_int_equal(f.retry_after_ns, 3 * KP_NS_PER_S);
	assert_int_equal(json_array_size(json_object_get(f.details, "causes")), 1);
	kp_kube_failure_fini(&f);
	kp_kube_failure_fini(&f);
	kp_kube_failure_init(&f, 429,
		KP_S("{\"kind\":\"Status\",\"details\":{\"retryAfterSeconds\":999999999999}}"),
		"x");
	assert_int_equal(f.retry_after_ns, 600 * KP_NS_PER_S);
	kp_kube_failure_fini(&f);
}

static void expired(void **state)
{
	(void)state;
	struct kp_kube_failure f = { .http = 500, .reason = "Expired" };
	assert_true(kp_kube_failure_is_expired(&f));
	f = (struct kp_kube_failure){ .http = 410 };
	assert_true(kp_kube_failure_is_expired(&f));
	f = (struct kp_kube_failure){ .http = 409, .reason = "Conflict" };
	assert_false(kp_kube_failure_is_expired(&f));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reasons_and_codes),
		cmocka_unit_test(what_is_no_status_is_quoted),
		cmocka_unit_test(details_and_retry),
		cmocka_unit_test(expired),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* GET /status: valid JSON whatever is in it, with Kubernetes' names. */
#include "json/jansson.h"
#include "operator/status/status.h"
#include "tests/test.h"
#include "tests/unit/operator/world.h"

static json_t *json_of(const struct kp_status *s)
{
	KP_AUTO(buf) struct kp_buf b;
	json_error_t e;
	kp_buf_init(&b, 16 << 20);
	kp_status_json(s, KP_S("17.2"), &b);
	assert_false(b.failed);
	json_t *v = json_loadb(b.p, b.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
	if (!v) {
		print_error("%s at %d: %.300s\n", e.text, e.position, b.p);
	}
	assert_non_null(v);
	return v;
}

static void assert_at(const json_t *v, const char *path, const char *want)
{
	char part[64];
	for (kp_str rest = kp_str_c(path), word; kp_str_split(&rest, '.', &word);) {
		snprintf(part, sizeof(part), "%" KP_FMT, KP_ARG(word));
		v = json_is_array(v) ? json_array_get(v, (size_t)(part[0] - '0'))
				     : json_object_get(v, part);
	}
	char *got = json_dumps(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
	if (!want) {
		assert_null(v);
	} else if (!got || strcmp(got, want) != 0) {
		print_error("%s: got %s, want %s\n", path, got ? got : "nothing", want);
		fail();
	}
	free(got);
}

static void test_fields(void **state)
{
	struct kp_status *s = world(KP_S("x"));
	json_t *v = json_of(s);
	(void)state;
	assert_at(v, "resourceVersion", "\"17.2\"");
	assert_at(v, "operator.epoch", "\"1795960000000\"");
	assert_at(v, "operator.startTime", "\"2026-11-28T12:25:26Z\"");
	assert_at(v, "operator.ready", "false");
	assert_at(v, "manifests.errors", "[\"x\", \"second\"]");
	assert_at(v, "programs.0.revision",
		"{\"epoch\": \"1795960000000\", \"number\": \"7\", \"hash\": \"ab12\"}");
	assert_at(v, "programs.0.acknowledged", "1");
	assert_at(v, "pools.0.targetPorts", "[8080, 8081]");
	assert_at(v, "engines.0.conditions.0",
		"{\"type\": \"Ready\", \"status\": \"False\", \"reason\": \"NoEndpoints\", "
		"\"message\": \"x\", \"lastTransitionTime\": \"2026-11-29T15:12:06Z\", "
		"\"observedGeneration\": 3}");
	assert_at(v, "engines.0.conditions.1",
		"{\"type\": \"Reconciling\", \"status\": \"True\", \"reason\": \"Waiting\", "
		"\"message\": \"\"}");
	assert_at(v, "engines.0.endpoints.0.kvUsage", "0.25");
	assert_at(v, "engines.0.endpoints.1.address", "\"[::1]:50051\"");
	assert_at(v, "engines.0.endpoints.1.owner", NULL);
	assert_at(v, "engines.0.endpoints.1.since", NULL);
	assert_at(v, "gateways.0.refused", "{\"reason\": \"x\", \"message\": \"x\"}");
	assert_at(v, "gateways.0.errors", "5");
	assert_at(v, "gateways.1.id", "\"gw-b\"");
	assert_at(v, "gateways.1.revision", NULL);
	assert_at(v, "gateways.1.current", "true");
	json_decref(v);
	kp_status_destroy(s);
}

static void test_odd_text_stays_text(void **state)
{
	static const char odd[] = "a\"b\\c\n\x01\x7f</script>\xff\xe2\x82\0\xe2\x82\xac";
	struct kp_status *s = world(kp_str_n(odd, sizeof(odd) - 1));
	(void)state;
	json_t *v = json_of(s);
	assert_at(v, "gateways.0.node",
		"\"a\\\"b\\\\c\\n\\u0001\x7f</script>\xef\xbf\xbd\xef\xbf\xbd\\u0000\xe2\x82\xac\"");
	json_decref(v);
	kp_status_destroy(s);
}

static void test_nothing_is_known_yet(void **state)
{
	struct kp_status *s = kp_status_create();
	json_t *v = json_of(s);
	(void)state;
	assert_at(v, "engines", "[]");
	assert_at(v, "operator", "{\"epoch\": \"0\", \"ready\": true}");
	assert_at(v, "manifests", "{}");
	json_decref(v);
	kp_status_destroy(s);
	kp_status_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_odd_text_stays_text),
		cmocka_unit_test(test_nothing_is_known_yet),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

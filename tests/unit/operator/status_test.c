/* What is printed of a status: JSON that is valid whatever is in it, with Kubernetes' names; HTML in which
   nothing is more than text. */
#include "base/utf8.h"
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

static void html_of(const struct kp_status *s, struct kp_buf *b)
{
	kp_buf_init(b, 16 << 20);
	kp_status_html(s, KP_S("17.2"), WORLD_NOW, b);
	assert_false(b->failed);
	assert_true(kp_utf8_ok(kp_buf_str(b)));
}

static size_t count(kp_str in, const char *what)
{
	size_t n = 0, length = strlen(what);
	ptrdiff_t at;
	while ((at = kp_str_find(in, kp_str_c(what))) >= 0) {
		in = kp_str_skip(in, (size_t)at + length);
		n++;
	}
	return n;
}

static void test_html_escapes_everything(void **state)
{
	static const char odd[] = "<q x='1' y=\"2\">&amp;\x01\x7f\xff\xe2\x82\0\xe2\x82\xac";
	struct kp_status *s = world(kp_str_n(odd, sizeof(odd) - 1)), *plain = world(KP_S("plain"));
	KP_AUTO(buf) struct kp_buf b, want;
	(void)state;
	html_of(s, &b);
	html_of(plain, &want);
	size_t escaped = count(kp_buf_str(&b),
		"&lt;q x=&#39;1&#39; y=&quot;2&quot;&gt;&amp;amp;"
		"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xe2\x82\xac");
	assert_int_equal(escaped, count(kp_buf_str(&want), "plain"));
	assert_in_range(escaped, 20, 40);
	/* Of markup there is as much as without. */
	assert_int_equal(count(kp_buf_str(&b), "<"), count(kp_buf_str(&want), "<"));
	assert_int_equal(count(kp_buf_str(&b), "\""), count(kp_buf_str(&want), "\""));
	assert_int_equal(count(kp_buf_str(&b), "'"), 0);
	kp_status_destroy(s);
	kp_status_destroy(plain);
}

static void test_html_of_nothing(void **state)
{
	struct kp_status *s = kp_status_create();
	KP_AUTO(buf) struct kp_buf b;
	(void)state;
	html_of(s, &b);
	assert_int_equal(count(kp_buf_str(&b), "<p class=\"none\">None.</p>"), 5);
	assert_int_equal(count(kp_buf_str(&b), "<td"), 0);
	kp_status_destroy(s);
}

static void test_html_says_what_it_leaves_out(void **state)
{
	enum { ENGINES = 100, EACH = 30 };
	struct kp_status *s = kp_status_create();
	struct kp_status_endpoint *e = kp_arena_xalloc(s->arena, EACH * sizeof(*e));
	struct kp_status_engine *engines = kp_arena_xalloc(s->arena, ENGINES * sizeof(*engines));
	KP_AUTO(buf) struct kp_buf b;
	(void)state;
	for (size_t i = 0; i < ENGINES; i++) {
		engines[i].endpoints = e;
		engines[i].n_endpoints = EACH;
	}
	s->engines = engines;
	s->n_engines = ENGINES;
	html_of(s, &b);
	assert_int_equal(count(kp_buf_str(&b), "<td data-label=\"Endpoint\""), KP_STATUS_MAX_ROWS);
	assert_int_equal(count(kp_buf_str(&b), "1000 more are not shown here"), 1);
	assert_int_equal(count(kp_buf_str(&b), "<b>0</b> of 3000 endpoints routable"), 1);
	kp_status_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_odd_text_stays_text),
		cmocka_unit_test(test_nothing_is_known_yet),
		cmocka_unit_test(test_html_escapes_everything),
		cmocka_unit_test(test_html_of_nothing),
		cmocka_unit_test(test_html_says_what_it_leaves_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

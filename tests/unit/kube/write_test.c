/* Paths, queries, times, and JSON that YAML readers take too. */
#include "base/clock.h"
#include "kube/write.h"
#include "tests/test.h"

static void path_is(struct kp_kube_ref ref, const char *want)
{
	struct kp_buf b;
	kp_buf_init(&b, 4096);
	kp_kube_path(&b, &ref);
	assert_string_equal(kp_buf_cstr(&b), want);
	kp_buf_fini(&b);
}

static void paths(void **state)
{
	(void)state;
	static const struct kp_kube_kind pods = { "", "v1", "pods", "Pod", false },
					 nodes = { "", "v1", "nodes", "Node", true },
					 engines = { "kelpie.dev", "v1alpha1", "inferenceengines",
						 "InferenceEngine", false };
	path_is((struct kp_kube_ref){ .kind = &pods }, "/api/v1/pods");
	path_is((struct kp_kube_ref){ &pods, KP_S("ns"), KP_S("p"), "status" },
		"/api/v1/namespaces/ns/pods/p/status");
	path_is((struct kp_kube_ref){ &nodes, KP_S("ns"), KP_S("n"), NULL }, "/api/v1/nodes/n");
	path_is((struct kp_kube_ref){ &engines, KP_S("ns"), KP_S("e"), "scale" },
		"/apis/kelpie.dev/v1alpha1/namespaces/ns/inferenceengines/e/scale");
	/* Names are one segment each, whatever is in them. */
	path_is((struct kp_kube_ref){ &pods, KP_S("a/b?c"), KP_S(".."), NULL },
		"/api/v1/namespaces/a%2Fb%3Fc/pods/%2E%2E");
	path_is((struct kp_kube_ref){ &pods, KP_S("x"), KP_S("a.b..c"), NULL },
		"/api/v1/namespaces/x/pods/a.b..c");
}

static void queries(void **state)
{
	(void)state;
	struct kp_buf b;
	kp_buf_init(&b, 4096);
	kp_buf_lit(&b, "/x");
	kp_kube_query(&b, "labelSelector", KP_S("a in (b,c),d!=e"));
	kp_kube_query(&b, "continue", KP_S("+/=&"));
	assert_string_equal(kp_buf_cstr(&b),
		"/x?labelSelector=a%20in%20%28b%2Cc%29%2Cd%21%3De&continue=%2B%2F%3D%26");
	kp_buf_fini(&b);
}

static void times(void **state)
{
	(void)state;
	char z[KP_KUBE_TIME_MAX];
	kp_kube_time(0, z);
	assert_string_equal(z, "1970-01-01T00:00:00.000000Z");
	kp_kube_time(INT64_C(1764445926) * KP_NS_PER_S + 123456789, z);
	assert_string_equal(z, "2025-11-29T19:52:06.123456Z");
}

static void yaml_safe(void **state)
{
	(void)state;
	struct kp_buf b;
	struct kp_err err;
	kp_buf_init(&b, 4096);
	json_t *v = json_pack("{s:s}", "k",
		"\x01\n\x7f\xc2\x85\xc2\xa0\xe2\x80\xa8\xe2\x80\xa9\xef\xbb\xbf\xef\xbf\xbe\xf0\x9f\x98\x80\xe4\xb8\xad");
	assert_int_equal(kp_kube_write_yaml_safe(v, &b, &err), 0);
	assert_string_equal(kp_buf_cstr(&b),
		"{\"k\":\"\\u0001\\n\\u007f\\u0085\xc2\xa0\\u2028\\u2029\\ufeff\\ufffe\xf0\x9f\x98\x80\xe4\xb8\xad\"}");
	json_decref(v);
	kp_buf_fini(&b);
}

static kp_str user(const char *text, struct kp_err *err)
{
	static json_t *v;
	json_decref(v);
	*err = KP_ERR_INIT;
	v = text ? json_loads(text, 0, NULL) : NULL;
	return kp_kube_token_user(v, err);
}

static void tokens(void **state)
{
	(void)state;
	struct kp_err err;
	assert_str_lit(
		user("{\"status\":{\"authenticated\":true,\"user\":{\"username\":\"u\"}}}", &err),
		"u");
	assert_str_lit(
		user("{\"spec\":{\"audiences\":[\"a\",\"b\"]},\"status\":{\"authenticated\":true,"
		     "\"audiences\":[\"b\"],\"user\":{\"username\":\"u\"}}}",
			&err),
		"u");
	assert_null(user("{\"spec\":{\"audiences\":[\"a\"]},\"status\":{\"authenticated\":true,"
			 "\"audiences\":[\"b\"],\"user\":{\"username\":\"u\"}}}",
		&err)
			    .p);
	assert_string_equal(err.msg, "review token: it is for another audience");
	/* A server that knows no audiences answers none: that is not ours. */
	assert_null(user("{\"spec\":{\"audiences\":[\"a\"]},\"status\":{\"authenticated\":true,"
			 "\"user\":{\"username\":\"u\"}}}",
		&err)
			    .p);
	assert_null(user("{\"status\":{\"authenticated\":false,\"error\":\"no\"}}", &err).p);
	assert_string_equal(err.msg, "review token: no");
	assert_null(user(
		"{\"status\":{\"authenticated\":\"true\",\"user\":{\"username\":\"u\"}}}", &err)
			    .p);
	assert_null(
		user("{\"status\":{\"authenticated\":true,\"user\":{\"username\":\"\"}}}", &err).p);
	assert_int_equal(err.code, KP_UNAUTHENTICATED);
	user(NULL, &err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths),
		cmocka_unit_test(queries),
		cmocka_unit_test(times),
		cmocka_unit_test(yaml_safe),
		cmocka_unit_test(tokens),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

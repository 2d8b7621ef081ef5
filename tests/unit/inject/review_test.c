/* The webhook's function: what it answers to reviews, and to what is none. */
#include "common.h"

#include "inject/review.h"

static char asked[200];
static void find(void *ctx, kp_str ns, kp_str name, struct kp_inject_engine *ret)
{
	snprintf(asked, sizeof(asked), "%" KP_FMT "/%" KP_FMT, KP_ARG(ns), KP_ARG(name));
	*ret = *(const struct kp_inject_engine *)ctx;
}

static struct kp_buf out;
static struct kp_review review(kp_str body)
{
	struct kp_inject_settings s = kp_inject_defaults();
	kp_buf_reset(&out);
	return kp_inject_review(body, &s, find, kp_unconst(&plain), &out);
}

#define REVIEW(resource, more, object)                                                                       \
	"{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{\"uid\":\"u-1\"," \
	"\"resource\":{\"group\":\"\",\"version\":\"v1\",\"resource\":\"" resource                           \
	"\"},\"namespace\":\"prod\"" more ",\"object\":" object "}}"
#define CREATE ",\"operation\":\"CREATE\""
#define POD_JSON                                                                                                           \
	"{\"metadata\":{\"generateName\":\"vllm-\",\"labels\":{\"kelpie.dev/engine\":\"demo\"}},\"spec\":{\"containers\":" \
	"[{\"name\":\"vllm\"}]}}"

static json_t *answer(const char *body, enum kp_review_verdict want)
{
	struct kp_review r = review(kp_str_c(body));
	json_t *v = NULL;
	struct kp_err e = KP_ERR_INIT;
	assert_int_equal(r.http_status, 200);
	assert_int_equal(r.verdict, want);
	assert_int_equal(
		kp_doc_json(kp_buf_str(&out), "answer", &kp_doc_limits_manifest, &v, &e), 0);
	assert_str_lit(kp_doc_str(v, "apiVersion"), "admission.k8s.io/v1");
	assert_str_lit(kp_doc_str(v, "kind"), "AdmissionReview");
	assert_str_lit(kp_doc_str(json_object_get(v, "response"), "uid"), "u-1");
	return v;
}

static void a_pod(void **state)
{
	(void)state;
	json_t *v = answer(REVIEW("pods", CREATE ",\"dryRun\":true", POD_JSON), KP_REVIEW_INJECTED);
	const json_t *r = json_object_get(v, "response");
	is(json_object_get(r, "allowed"), "true");
	assert_str_lit(kp_doc_str(r, "patchType"), "JSONPatch");
	/* base64 of [{"op":"add", */
	assert_true(kp_str_starts(kp_doc_str(r, "patch"), KP_S("W3sib3AiOiJhZGQi")));
	assert_null(json_object_get(r, "warnings"));
	assert_string_equal(asked, "prod/demo");
	struct kp_review again = review(KP_S(REVIEW("pods", CREATE ",\"dryRun\":true", POD_JSON)));
	assert_true(again.is_dry_run);
	assert_string_equal(again.ns, "prod");
	assert_string_equal(again.pod, "vllm-");
	assert_string_equal(again.engine, "demo");
	json_decref(v);
}

static void not_ours(void **state)
{
	(void)state;
	static const char *const bodies[] = { REVIEW("deployments", CREATE, POD_JSON),
		REVIEW("pods", ",\"operation\":\"UPDATE\"", POD_JSON),
		REVIEW("pods", ",\"operation\":\"DELETE\"", "null"),
		REVIEW("pods", CREATE ",\"subResource\":\"eviction\"", POD_JSON),
		REVIEW("pods", CREATE, "{}"),
		REVIEW("pods", CREATE, "{\"metadata\":{\"labels\":{\"app\":\"x\"}}}") };
	for (size_t i = 0; i < KP_LEN(bodies); i++) {
		json_t *v = answer(bodies[i], KP_REVIEW_UNTOUCHED);
		is(json_object_get(v, "response"), "{\"uid\":\"u-1\",\"allowed\":true}");
		json_decref(v);
	}
}

static void refusal(void **state)
{
	(void)state;
	json_t *v = answer(
		REVIEW("pods", CREATE,
			"{\"metadata\":{\"labels\":{\"kelpie.dev/engine\":\"demo\"},\"annotations\":"
			"{\"kelpie.dev/shm\":\"x\\\"y\"}},\"spec\":{\"containers\":[{\"name\":\"v\"}]}}"),
		KP_REVIEW_REFUSED);
	is(json_object_get(v, "response"),
		"{\"uid\":\"u-1\",\"allowed\":false,\"status\":{\"code\":422,\"reason\":\"Invalid\",\"message\":"
		"\"kelpie: annotation `kelpie.dev/shm`: expected Share or None, got `x\\\"y`\"}}");
	json_decref(v);
}

static void warnings(void **state)
{
	(void)state;
	json_t *v = answer(
		REVIEW("pods", CREATE,
			"{\"metadata\":{\"labels\":{\"kelpie.dev/engine\":\"demo\"}},\"spec\":{\"hostNetwork\":true,"
			"\"containers\":[{\"name\":\"v\",\"lifecycle\":{\"preStop\":{\"exec\":{\"command\":[\"x\"]}}}}]}}"),
		KP_REVIEW_INJECTED);
	const json_t *w = kp_doc_at(v, "response.warnings");
	assert_int_equal(json_array_size(w), 2);
	assert_true(kp_str_starts(kp_str_c(json_string_value(json_array_get(w, 0))),
		KP_S("kelpie: demo: container `v` has a preStop")));
	for (size_t i = 0; i < 2; i++) {
		assert_true(json_string_length(json_array_get(w, i)) <=
			    256); /* an API server cuts there */
	}
	json_decref(v);
}

static void garbage(void **state)
{
	(void)state;
	static const struct {
		const char *body, *want;
	} table[] = { { "", "parse `AdmissionReview`" }, { "x", "line 1 column 1" },
		{ "[]", "expected an AdmissionReview" }, { "null", "expected an AdmissionReview" },
		{ "{\"kind\":\"AdmissionReview\"}", "expected an AdmissionReview" },
		{ "{\"apiVersion\":\"admission.k8s.io/v1beta1\",\"kind\":\"AdmissionReview\"}",
			"expected an AdmissionReview" },
		{ "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\"}",
			"no `request.uid`" },
		{ "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":[]}",
			"no `request.uid`" },
		{ "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{\"uid\":7}}",
			"no `request.uid`" },
		{ REVIEW("pods", CREATE, "[]"), "no `request.object`" },
		{ REVIEW("pods", CREATE, "{}") "}", "column" } };
	for (size_t i = 0; i < KP_LEN(table); i++) {
		struct kp_review r = review(kp_str_c(table[i].body));
		assert_int_equal(r.http_status, 400);
		assert_int_equal(r.verdict, KP_REVIEW_BAD);
		if (!kp_str_has(kp_buf_str(&out), kp_str_c(table[i].want))) {
			print_error("got %" KP_FMT ", want %s\n", KP_ARG(kp_buf_str(&out)),
				table[i].want);
			fail();
		}
	}
	KP_AUTO(buf) struct kp_buf body;
	kp_buf_init(&body, KP_REVIEW_MAX_BYTES + 1);
	for (int i = 0; i <= KP_REVIEW_MAX_BYTES; i++) {
		kp_buf_addc(&body, ' ');
	}
	assert_int_equal(review(kp_buf_str(&body)).http_status, 413);
	kp_buf_reset(&body);
	for (int i = 0; i < 100000; i++) {
		kp_buf_addc(&body, '[');
	}
	assert_int_equal(review(kp_buf_str(&body)).http_status, 413);
}

static int begin(void **state)
{
	kp_buf_init(&out, KP_REVIEW_MAX_ANSWER);
	return setup(state);
}
static int end(void **state)
{
	kp_buf_fini(&out);
	return teardown(state);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, begin, end)
	const struct CMUnitTest tests[] = { T(a_pod), T(not_ours), T(refusal), T(warnings),
		T(garbage) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What an API server says it has, as 1.34 writes it, and in other shapes. */
#include "kube/lookup.h"

#include "json/jansson.h"
#include "tests/test.h"

static const char list[] =
	"{\"kind\": \"APIResourceList\", \"groupVersion\": \"ray.io/v1\", \"resources\": ["
	"{\"name\": \"rayclusters/status\", \"kind\": \"RayCluster\", \"namespaced\": true},"
	"{\"name\": \"rayclusters\", \"singularName\": \"raycluster\", \"kind\": \"RayCluster\", "
	"\"namespaced\": true},"
	"{\"name\": \"quotas\", \"kind\": \"Quota\", \"namespaced\": false},"
	"{\"name\": \"../x\", \"kind\": \"Bad\", \"namespaced\": true}, 7, {\"kind\": \"RayJob\"}]}";

static void test_read(void **state)
{
	static const struct {
		const char *list, *kind, *expected;
	} cases[] = {
		{ list, "RayCluster", "rayclusters" }, /* and not its status */
		{ list, "Quota", "" },                 /* its objects have no namespace */
		{ list, "Bad", "" },                   /* would lead elsewhere in a path */
		{ list, "RayJob", "" },
		{ list, "raycluster", "" },
		{ "{\"resources\": {\"a\": 1}}", "RayCluster", "" },
		{ "[]", "RayCluster", "" },
	};
	(void)state;
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		json_t *v = json_loads(cases[i].list, 0, NULL);
		assert_non_null(v);
		assert_str(kp_kube_lookup_read(v, kp_str_c(cases[i].kind)),
			kp_str_c(cases[i].expected));
		json_decref(v);
	}
	assert_str(kp_kube_lookup_read(NULL, KP_S("RayCluster")), KP_S(""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

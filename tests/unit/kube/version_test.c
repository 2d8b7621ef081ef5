/* Which Kubernetes a server says it is. */
#include "kube/version.h"
#include "tests/test.h"

static void is(const char *said, unsigned wanted)
{
	json_t *v = json_loads(said, JSON_DECODE_ANY, NULL);
	assert_non_null(v);
	assert_int_equal(kp_kube_minor(v), wanted);
	json_decref(v);
}

static void versions(void **state)
{
	(void)state;
	is("{\"major\": \"1\", \"minor\": \"34\", \"gitVersion\": \"v1.34.2\"}", 34);
	is("{\"major\": \"1\", \"minor\": \"27+\", \"gitVersion\": \"v1.27.16-gke.1\"}", 27);
	is("{\"major\": \"2\", \"minor\": \"34\"}", 0);
	is("{\"major\": \"1\", \"minor\": \"\"}", 0);
	is("{\"major\": \"1\", \"minor\": \"+\"}", 0);
	is("{\"major\": \"1\", \"minor\": \"34++\"}", 0);
	is("{\"major\": \"1\", \"minor\": \"-3\"}", 0);
	is("{\"major\": \"1\", \"minor\": \"4294967330\"}", 0);
	is("{\"major\": 1, \"minor\": 34}", 0);
	is("{\"minor\": \"34\"}", 0);
	is("[]", 0);
	is("null", 0);
	assert_int_equal(kp_kube_minor(NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(versions),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

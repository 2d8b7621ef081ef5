/* What is said of pods that do not run; objects as API servers and kubelets of 1.34 write them, through trim. */
#include "operator/plan/obstacle.h"
#include "operator/source/trim.h"
#include "tests/test.h"

#define POD(status)                                                                               \
	"{\"metadata\": {\"namespace\": \"ns\", \"name\": \"p\", \"labels\": "                    \
	"{\"kelpie.dev/engine\": \"e\"}}, \"spec\": {\"containers\": [{\"name\": \"engine\"}]}, " \
	"\"status\": {" status "}}"
#define WAITING(list, container, more)                                       \
	"\"" list "\": [{\"name\": \"" container "\", \"restartCount\": 3, " \
	"\"state\": {\"waiting\": {" more

static json_t *object(const char *text, void (*trim)(json_t *))
{
	json_t *v = json_loads(text, 0, NULL);
	assert_non_null(v);
	trim(v);
	return v;
}

static void assert_pod(const char *text, const char *expected)
{
	struct kp_world *w = kp_world_create(NULL);
	json_t *v = object(text, kp_trim_pod);
	size_t n;
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	kp_world_add_pod(w, v);
	kp_world_sort(w);
	const struct kp_world_pod *pods = kp_world_pods(w, KP_S("ns"), KP_S("e"), &n);
	assert_int_equal(n, 1);
	assert_str(kp_obstacle_of_pod(pods, a), kp_str_c(expected));
	json_decref(v);
	kp_world_destroy(w);
}

static void test_pods(void **state)
{
	(void)state;
	assert_pod(POD(""), "");
	assert_pod(POD("\"conditions\": 7, \"containerStatuses\": {\"a\": 1}"), "");
	assert_pod(POD(WAITING(
			   "containerStatuses", "engine", "\"reason\": \"ContainerCreating\"}}}]")),
		"");
	assert_pod(
		POD("\"containerStatuses\": [{\"name\": \"engine\", \"state\": {\"running\": {}}, "
		    "\"lastState\": {\"terminated\": {\"exitCode\": 1}}}]"),
		"");
	assert_pod(POD("\"conditions\": [{\"type\": \"PodScheduled\", \"status\": \"False\", "
		       "\"reason\": \"Unschedulable\", \"message\": \"0/1 nodes are available\"}]"),
		"pod `p`: Unschedulable: 0/1 nodes are available");
	assert_pod(POD(WAITING("containerStatuses", "engine",
			   "\"reason\": \"ImagePullBackOff\", \"message\": \"no such image\"}}}]")),
		"pod `p`, container `engine`: ImagePullBackOff: no such image");
	/* The same while it is tried and until it is tried again. */
	assert_pod(
		POD(WAITING("containerStatuses", "engine",
			"\"reason\": \"ErrImagePull\", \"message\": \"pull `a:1`: not found\"}}}]")),
		"pod `p`, container `engine`: ErrImagePull: pull `a:1`: not found");
	assert_pod(
		POD(WAITING("containerStatuses", "engine",
			"\"reason\": \"ImagePullBackOff\", \"message\": \"Back-off pulling image "
			"\\\"a:1\\\": ErrImagePull: pull `a:1`: not found\"}}}]")),
		"pod `p`, container `engine`: ErrImagePull: pull `a:1`: not found");
	assert_pod(
		POD(WAITING("containerStatuses", "engine",
			"\"reason\": \"ImagePullBackOff\", \"message\": \"Back-off pulling image "
			"\\\"a:1\\\"\"}}}]")),
		"pod `p`, container `engine`: ImagePullBackOff: Back-off pulling image \"a:1\"");
	assert_pod(POD(WAITING("initContainerStatuses", "kelpie-gateway",
			   "\"reason\": \"ErrImageNeverPull\"}}}]")),
		"pod `p`, container `kelpie-gateway`: ErrImageNeverPull");
	assert_pod(POD(WAITING("containerStatuses", "engine",
			   "\"reason\": \"CrashLoopBackOff\", \"message\": \"back-off 40s\"}}, "
			   "\"lastState\": {\"terminated\": {\"exitCode\": 137, \"reason\": "
			   "\"OOMKilled\"}}}]")),
		"pod `p`, container `engine`: CrashLoopBackOff: it ended with 137 (OOMKilled)");
	/* One that ends is no obstacle. */
	assert_pod(POD("\"phase\": \"Failed\", " WAITING(
			   "containerStatuses", "engine", "\"reason\": \"ImagePullBackOff\"}}}]")),
		"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pods),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

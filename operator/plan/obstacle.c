/* DESIGN: only what Kubernetes says by itself in the statuses that are watched; its events are not read. */
#include "operator/plan/obstacle.h"

enum { SAID_MAX = 300 }; /* of others' words */

static kp_str words(const json_t *v, const char *key)
{
	kp_str s = kp_doc_str(v, key);
	return s.p ? kp_str_sub(s, 0, SAID_MAX) : KP_S("");
}

/* One that waits as each does at its beginning says nothing yet. */
static bool is_starting(kp_str reason)
{
	return reason.n == 0 || kp_str_eq(reason, KP_S("ContainerCreating")) ||
	       kp_str_eq(reason, KP_S("PodInitializing"));
}

/* Between two tries kubelets say `ImagePullBackOff` and what the last one failed with: `Back-off pulling image "x": ErrImagePull: WHY`;
   while they try, `ErrImagePull` and WHY. That is one obstacle and not two in turns: what the try failed with. */
static void say_the_try(kp_str *reason, kp_str *message)
{
	static const kp_str colon = KP_S_INIT(": ");
	ptrdiff_t at = kp_str_eq(*reason, KP_S("ImagePullBackOff"))
			       ? kp_str_find(*message, KP_S("\": "))
			       : -1;
	kp_str tried = at < 0 ? KP_S("") : kp_str_skip(*message, (size_t)at + 3);
	ptrdiff_t end = kp_str_find(tried, colon);
	if (end > 0 && kp_str_find_char(kp_str_sub(tried, 0, (size_t)end), ' ') < 0) {
		*reason = kp_str_sub(tried, 0, (size_t)end);
		*message = kp_str_skip(tried, (size_t)end + colon.n);
	}
}

static kp_str of_container(const struct kp_world_pod *pod, const json_t *status, struct kp_arena *a)
{
	const json_t *waiting = kp_doc_at(status, "state.waiting"),
		     *ended = kp_doc_at(status, "lastState.terminated");
	kp_str reason = kp_doc_str(waiting, "reason"), message = kp_doc_str(waiting, "message");
	say_the_try(&reason, &message);
	reason = kp_str_sub(reason, 0, SAID_MAX);
	message = kp_str_sub(message, 0, SAID_MAX);
	if (is_starting(reason)) {
		return KP_S("");
	}
	kp_str head = kp_arena_printf(a, "pod `%" KP_FMT "`, container `%" KP_FMT "`: %" KP_FMT,
		KP_ARG(pod->name), KP_ARG(words(status, "name")), KP_ARG(reason));
	if (!kp_str_eq(reason, KP_S("CrashLoopBackOff")) || !ended) {
		return message.n ? kp_arena_printf(a, "%" KP_FMT ": %" KP_FMT, KP_ARG(head),
					   KP_ARG(message))
				 : head;
	}
	/* Its message names only the pause before the next try. */
	message = words(ended, "message");
	return kp_arena_printf(a, "%" KP_FMT ": it ended with %lld (%" KP_FMT ")%s%" KP_FMT,
		KP_ARG(head), (long long)json_integer_value(json_object_get(ended, "exitCode")),
		KP_ARG(words(ended, "reason")), message.n ? ": " : "", KP_ARG(message));
}

kp_str kp_obstacle_of_pod(const struct kp_world_pod *pod, struct kp_arena *a)
{
	static const char *const lists[] = { "status.initContainerStatuses",
		"status.containerStatuses" };
	kp_str said = KP_S("");
	if (pod->is_ending || !pod->is_waiting) {
		return said;
	}
	const json_t *c = kp_world_condition(pod->json, KP_S("PodScheduled"), KP_S("False"));
	if (c) {
		return kp_arena_printf(a, "pod `%" KP_FMT "`: %" KP_FMT ": %" KP_FMT,
			KP_ARG(pod->name), KP_ARG(words(c, "reason")), KP_ARG(words(c, "message")));
	}
	for (size_t k = 0; k < KP_LEN(lists); k++) {
		const json_t *list = kp_doc_at(pod->json, lists[k]);
		for (size_t i = 0; i < json_array_size(list) && !said.n; i++) {
			said = of_container(pod, json_array_get(list, i), a);
		}
	}
	return said;
}

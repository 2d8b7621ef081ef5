/* DESIGN: see effort.h. The first steps are not timed, so a short text never asks for the clock. */
#include "token/effort.h"
#include "base/clock.h"

#ifdef KP_ASAN
enum { SLOWER = 5 }; /* than what ships */
#else
enum { SLOWER = 1 };
#endif
enum { STEPS = 16384 };
static const int64_t ALWAYS_NS = 5 * KP_NS_PER_MS, PER_BYTE_NS = 1500;

void kp_effort_begin(struct kp_effort *w, size_t bytes)
{
	int64_t n = (int64_t)KP_MIN(bytes, (size_t)1 << 40);
	*w = (struct kp_effort){ .left = STEPS,
		.limit_ns = SLOWER * (ALWAYS_NS + PER_BYTE_NS * n) };
}

bool kp_effort_look(struct kp_effort *w)
{
	if (w->is_over) {
		return false;
	}
	int64_t now = kp_cpu_ns();
	w->until_ns = w->until_ns ? w->until_ns : now + w->limit_ns;
	w->is_over = now >= w->until_ns;
	w->left = w->is_over ? 0 : STEPS;
	return !w->is_over;
}

int kp_effort_fail(const struct kp_effort *w, struct kp_err *err)
{
	return kp_err_set(err, KP_RESOURCE_EXHAUSTED,
		"the text takes more than %lld ms of computing",
		(long long)(w->limit_ns / KP_NS_PER_MS));
}

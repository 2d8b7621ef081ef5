/* How much computing one encode may take. Most of what a tokenizer does is linear in the text, whatever is in its files; where it
   is not (pieces found at each place of a text, patterns that look far ahead), the work is counted in steps, each some bytes looked at,
   and the thread's CPU clock is read once in a while. So a tokenizer that makes every character expensive ends in an error instead of
   holding a loop, and a busy machine does not. */
#ifndef KP_TOKEN_EFFORT_H
#define KP_TOKEN_EFFORT_H

#include "base/err.h"

struct kp_effort {
	uint64_t left;    /* steps until the clock is looked at */
	int64_t limit_ns; /* of CPU time */
	int64_t until_ns; /* 0: the clock was not looked at yet */
	bool is_over;
};

/* For so many bytes of text: 5 ms and 1.5 us for each, some ten times what the slowest tokenizers take. */
void kp_effort_begin(struct kp_effort *w, size_t bytes);
bool kp_effort_look(struct kp_effort *w);
/* false: enough, now and from then on. w NULL: no limit. */
static inline bool kp_effort_spend(struct kp_effort *w, size_t steps)
{
	if (!w) {
		return true;
	}
	if (KP_LIKELY(w->left > steps)) {
		w->left -= steps;
		return true;
	}
	return kp_effort_look(w);
}
static inline bool kp_effort_is_over(const struct kp_effort *w)
{
	return w && w->is_over;
}
/* RESOURCE_EXHAUSTED; -1. */
int kp_effort_fail(const struct kp_effort *w, struct kp_err *err);

#endif

/* Inside lib/prompt/anthropic*.c: values made in the turn's arena, and errors with their place. */
#ifndef KP_PROMPT_ANTHROPIC_INTERNAL_H
#define KP_PROMPT_ANTHROPIC_INTERNAL_H

#include "prompt/anthropic.h"

struct kp_anthropic_maker {
	struct kp_arena *a;
	struct kp_err *err;
};

/* INVALID_ARGUMENT "`place`: what"; reason may be NULL. */
int kp_anthropic_bad(struct kp_err *err, const char *reason, const char *what, const char *fmt, ...)
	KP_PRINTF(4, 5);
/* A member that is there and not null. */
static inline bool kp_anthropic_given(const struct kp_jv *v)
{
	return v && v->type != KP_JSON_NULL;
}
static inline struct kp_jv kp_anthropic_text(kp_str s)
{
	return (struct kp_jv){ .type = KP_JSON_STRING, .s = s };
}
/* A copy of these members as an object. */
int kp_anthropic_object(const struct kp_anthropic_maker *m, const struct kp_jmember *members,
	uint32_t n, struct kp_jv *ret) KP_MUST_USE;

int kp_anthropic_tools(struct kp_json *j, struct kp_turn *turn, struct kp_err *err) KP_MUST_USE;
int kp_anthropic_tool_choice(
	struct kp_json *j, struct kp_turn *turn, struct kp_err *err) KP_MUST_USE;

#endif

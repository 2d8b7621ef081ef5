/* Messages and tools of one API made into those of another: values in the turn's arena, and errors with their place. */
#ifndef KP_PROMPT_MAKE_H
#define KP_PROMPT_MAKE_H

#include "base/err.h"
#include "core/turn.h"

struct kp_maker {
	struct kp_arena *a;
	struct kp_err *err;
};
struct kp_made_list {
	struct kp_jv *items;
	uint32_t n, cap;
};

/* INVALID_ARGUMENT "`place`: what", the place as fmt says; reason may be NULL. */
int kp_make_bad(struct kp_err *err, const char *reason, const char *what, const char *fmt, ...)
	KP_PRINTF(4, 5);
/* No object: INVALID_ARGUMENT, `where`. One with other members than these (names between blanks): `where.NAME`, unknown_parameter. */
int kp_make_only(
	struct kp_err *err, const struct kp_jv *object, const char *names, const char *where);
/* A member that is there and not null. */
static inline bool kp_is_given(const struct kp_jv *v)
{
	return v && v->type != KP_JSON_NULL;
}
static inline struct kp_jv kp_made_text(kp_str s)
{
	return (struct kp_jv){ .type = KP_JSON_STRING, .s = s };
}
static inline struct kp_jv kp_made_array(const struct kp_made_list *l)
{
	return (struct kp_jv){ .type = KP_JSON_ARRAY, .n = l->n, .items = l->items };
}
/* A copy of these members as an object. */
int kp_make_object(const struct kp_maker *m, const struct kp_jmember *members, uint32_t n,
	struct kp_jv *ret) KP_MUST_USE;
int kp_make_push(
	const struct kp_maker *m, struct kp_made_list *l, const struct kp_jv *v) KP_MUST_USE;
/* Texts as a message's content: one is a string, several are parts, none is the empty string. */
int kp_make_content(
	const struct kp_maker *m, const struct kp_made_list *texts, struct kp_jv *ret) KP_MUST_USE;
/* Texts as one string. */
int kp_make_joined(
	const struct kp_maker *m, const struct kp_made_list *texts, struct kp_jv *ret) KP_MUST_USE;
/* A message of that role: an assistant's with calls alone has the content null. Lists may be NULL. */
int kp_make_message(const struct kp_maker *m, kp_str role, const struct kp_made_list *texts,
	const struct kp_made_list *thoughts, const struct kp_made_list *calls,
	struct kp_jv *ret) KP_MUST_USE;
/* An entry of tool_calls; arguments: a string of JSON, or an object. */
int kp_make_call(const struct kp_maker *m, kp_str id, kp_str name, const struct kp_jv *arguments,
	struct kp_jv *ret) KP_MUST_USE;
/* The message of role `tool` that answers it; name: KP_STR_NULL where it is not known. */
int kp_make_result(const struct kp_maker *m, kp_str id, const struct kp_jv *content, kp_str name,
	struct kp_jv *ret) KP_MUST_USE;

#endif

/* Changed copies of JSON values, in an arena: the parts that stay are shared. RESOURCE_EXHAUSTED when the arena is full. */
#ifndef KP_TEMPLATE_REWRITE_H
#define KP_TEMPLATE_REWRITE_H

#include "json/value.h"

/* `object` with another value of its member `key`, which it has. */
int kp_tpl_jv_replace(const struct kp_jv *object, kp_str key, const struct kp_jv *value,
	struct kp_arena *a, struct kp_jv *ret, struct kp_err *err) KP_MUST_USE;
/* A list's elements, to be written to. */
int kp_tpl_jv_copy_items(const struct kp_jv *list, struct kp_arena *a, struct kp_jv **ret,
	struct kp_err *err) KP_MUST_USE;

#endif

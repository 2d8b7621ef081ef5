/* DESIGN: one level is copied at a time. */
#include "template/rewrite.h"

int kp_tpl_jv_replace(const struct kp_jv *object, kp_str key, const struct kp_jv *value,
	struct kp_arena *a, struct kp_jv *ret, struct kp_err *err)
{
	struct kp_jmember *m = kp_arena_alloc(a, object->n * sizeof(*m));
	if (!m) {
		return kp_arena_full(err, "messages");
	}
	memcpy(m, object->members, object->n * sizeof(*m));
	for (uint32_t i = 0; i < object->n; i++) {
		if (kp_str_eq(m[i].key, key)) {
			m[i].value = *value;
		}
	}
	*ret = *object;
	ret->members = m;
	return 0;
}

int kp_tpl_jv_copy_items(
	const struct kp_jv *list, struct kp_arena *a, struct kp_jv **ret, struct kp_err *err)
{
	struct kp_jv *items = kp_arena_alloc(a, list->n * sizeof(*items));
	if (!items) {
		return kp_arena_full(err, "messages");
	}
	memcpy(items, list->items, list->n * sizeof(*items));
	*ret = items;
	return 0;
}

/* DESIGN: small steps on jansson's values. A pod is a few hundred values, so nothing here is indexed. */
#include "base/buf.h"
#include "inject/internal.h"

#include <stdarg.h>
#include <stdio.h>

enum { MAX_NOTE = 240 }; /* an API server cuts longer warnings */

void kp_inject_note(struct kp_inject_notes *notes, struct kp_arena *a, const char *fmt, ...)
{
	char text[MAX_NOTE];
	va_list ap;
	if (notes->n == KP_INJECT_MAX_NOTES) {
		return;
	}
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	notes->p[notes->n++] = kp_arena_strz(a, kp_str_c(text));
}

void kp_put(json_t *object, const char *key, json_t *v)
{
	KP_BUG_ON(json_object_set_new(object, key, v) != 0);
}

void kp_put_str(json_t *object, const char *key, const char *value)
{
	kp_put(object, key, json_string(value));
}

void kp_push(json_t *list, json_t *v)
{
	KP_BUG_ON(json_array_append_new(list, v) != 0);
}

json_t *kp_member_object(json_t *object, const char *key)
{
	json_t *v = json_object_get(object, key);
	if (!v || json_is_null(v)) {
		v = json_object();
		kp_put(object, key, v);
	}
	return json_is_object(v) ? v : NULL;
}

json_t *kp_member_list(json_t *object, const char *key)
{
	json_t *v = json_object_get(object, key);
	if (!v || json_is_null(v)) {
		v = json_array();
		kp_put(object, key, v);
	}
	return json_is_array(v) ? v : NULL;
}

ptrdiff_t kp_find_by(const json_t *list, const char *key, kp_str value)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		if (kp_str_eq(kp_doc_str(json_array_get(list, i), key), value)) {
			return (ptrdiff_t)i;
		}
	}
	return -1;
}

static bool is_exact(const char *key)
{
	static const char *const keys[] = { "args", "command", "resources" };
	for (size_t i = 0; i < KP_LEN(keys); i++) {
		if (kp_str_eq(kp_str_c(key), kp_str_c(keys[i]))) {
			return true;
		}
	}
	return false;
}

/* In any order: others may put theirs between. */
static bool list_covers(const json_t *theirs, const json_t *ours)
{
	for (size_t i = 0; i < json_array_size(ours); i++) {
		bool found = false;
		for (size_t k = 0; !found && k < json_array_size(theirs); k++) {
			found = kp_covers(json_array_get(theirs, k), json_array_get(ours, i));
		}
		if (!found) {
			return false;
		}
	}
	return true;
}

/* What ours has not any more must go: only to the environment others add. */
static bool may_have_more(const char *key, const json_t *theirs, const json_t *ours)
{
	return !json_is_array(ours) || json_array_size(theirs) == json_array_size(ours) ||
	       kp_str_eq(kp_str_c(key), KP_S("env"));
}

bool kp_covers(const json_t *theirs, const json_t *ours)
{
	const char *key;
	json_t *v;
	if (json_is_object(ours) && json_is_object(theirs)) {
		json_object_foreach((json_t *)kp_unconst(ours), key, v)
		{
			const json_t *other = json_object_get(theirs, key);
			bool same = is_exact(key) ? json_equal(other, v) : kp_covers(other, v);
			if (!same || !may_have_more(key, other, v)) {
				return false;
			}
		}
		return true;
	}
	return json_is_array(ours) && json_is_array(theirs) ? list_covers(theirs, ours)
							    : json_equal(theirs, ours);
}

/* DESIGN: from a valid object into C structs, along the same tables. Everything lands in the caller's arena, so nothing points into the
   json_t afterwards. What a valid object cannot be (a wrong type, a number out of range) is a bug here, not an error. */
#include "schema/schema.h"

static int decode_value(const struct kp_schema *s, const struct kp_schema_prop *p, const json_t *v,
	struct kp_arena *a, char *at, char *count, struct kp_err *err);

static int decode_str(const json_t *v, struct kp_arena *a, kp_str *ret, struct kp_err *err)
{
	return kp_arena_dup(a, kp_str_n(json_string_value(v), json_string_length(v)), ret, err);
}

static int enum_index(const struct kp_schema *s, const json_t *v)
{
	kp_str text = kp_str_n(json_string_value(v), json_string_length(v));
	int i = 0;
	while (!kp_str_eq(kp_str_c(s->enums[i]), text)) {
		KP_BUG_ON(!s->enums[++i]);
	}
	return i + 1;
}

static int64_t integer_of(const json_t *v)
{
	return json_is_real(v) ? (int64_t)json_real_value(v) : (int64_t)json_integer_value(v);
}

static int decode_list(const struct kp_schema *s, const json_t *v, struct kp_arena *a, char *at,
	size_t *count, struct kp_err *err)
{
	size_t n = json_array_size(v);
	char *items = kp_arena_calloc(a, KP_MAX(n, (size_t)1), s->c_size);
	if (!items) {
		return kp_arena_full(err, "list");
	}
	for (size_t i = 0; i < n; i++) {
		if (decode_value(s->items, NULL, json_array_get(v, i), a, items + i * s->c_size,
			    NULL, err)) {
			return -1;
		}
	}
	*(const void **)(void *)at = items;
	*count = n;
	return 0;
}

static int decode_map(
	const json_t *v, struct kp_arena *a, char *at, size_t *count, struct kp_err *err)
{
	json_t *object = json_incref(kp_unconst(v)); /* only its iterator is not const */
	struct kp_kv *kv = kp_arena_calloc(a, KP_MAX(json_object_size(v), (size_t)1), sizeof(*kv));
	int r = kv ? 0 : kp_arena_full(err, "map");
	size_t n = 0;
	for (void *it = json_object_iter(object); it && !r;
		it = json_object_iter_next(object, it), n++) {
		kp_str key = kp_str_n(json_object_iter_key(it), json_object_iter_key_len(it));
		r = kp_arena_dup(a, key, &kv[n].key, err) ||
		    decode_str(json_object_iter_value(it), a, &kv[n].value, err);
	}
	json_decref(object);
	if (r) {
		return -1;
	}
	*(const struct kp_kv **)(void *)at = kv;
	*count = n;
	return 0;
}

static int decode_struct(const struct kp_schema *s, bool pointer, const json_t *v,
	struct kp_arena *a, char *at, struct kp_err *err)
{
	if (!pointer) {
		return kp_schema_decode(s, v, a, at, err);
	}
	void *object = kp_arena_calloc(a, 1, s->c_size);
	if (!object) {
		return kp_arena_full(err, "object");
	}
	*(const void **)(void *)at = object;
	return kp_schema_decode(s, v, a, object, err);
}

/* `at` is where the value goes, `count` the member beside it (NULL: none). */
static int decode_value(const struct kp_schema *s, const struct kp_schema_prop *p, const json_t *v,
	struct kp_arena *a, char *at, char *count, struct kp_err *err)
{
	switch (s->c) {
	case KP_C_STR:
		return decode_str(v, a, (kp_str *)(void *)at, err);
	case KP_C_ENUM:
		*(int *)(void *)at = enum_index(s, v);
		return 0;
	case KP_C_I32:
	case KP_C_I64:
	case KP_C_BOOL:
		if (s->c == KP_C_I32) {
			KP_BUG_ON(integer_of(v) < INT32_MIN || integer_of(v) > INT32_MAX);
			*(int32_t *)(void *)at = (int32_t)integer_of(v);
		} else if (s->c == KP_C_I64) {
			*(int64_t *)(void *)at = integer_of(v);
		} else {
			*(bool *)at = json_is_true(v);
		}
		if (count) {
			*(bool *)count = true;
		}
		return 0;
	case KP_C_STRUCT:
		return decode_struct(s, p && p->pointer, v, a, at, err);
	case KP_C_LIST:
		return decode_list(s, v, a, at, (size_t *)(void *)count, err);
	case KP_C_MAP:
		return decode_map(v, a, at, (size_t *)(void *)count, err);
	case KP_C_PRESENT:
		*(bool *)at = true;
		return 0;
	case KP_C_NONE:
		break;
	}
	return 0;
}

int kp_schema_decode(const struct kp_schema *s, const json_t *v, struct kp_arena *a, void *ret,
	struct kp_err *err)
{
	char *base = ret;
	for (uint32_t i = 0; i < s->n_props; i++) {
		const struct kp_schema_prop *p = &s->props[i];
		const json_t *member = json_object_get(v, p->name);
		if (!member || json_is_null(member)) {
			continue;
		}
		if (decode_value(p->schema, p, member, a, base + p->offset,
			    p->n_offset ? base + p->n_offset : NULL, err)) {
			return -1;
		}
	}
	return 0;
}

/* DESIGN: children of an open container collect on one heap stack shared by all levels; when the
   container closes they move to the arena in one exact allocation. Repeated keys are found by
   comparing in small objects and through a map in large ones. Depth is the reader's limit. */
#include "json/value.h"
#include "base/map.h"
#include "base/vec.h"
#include "json/write.h"

struct builder {
	struct kp_json *j;
	uint32_t nodes, max_nodes;
	KP_VEC(struct kp_jmember)
	stack;
};

static int build(struct builder *b, struct kp_jv *ret, struct kp_err *err);

static int build_array(struct builder *b, struct kp_jv *ret, struct kp_err *err)
{
	size_t base = b->stack.n;
	int r;
	if (kp_json_array(b->j, err)) {
		return -1;
	}
	while ((r = kp_json_element(b->j, err)) > 0) {
		struct kp_jmember m = { .key = KP_STR_NULL };
		if (build(b, &m.value, err)) {
			return -1;
		}
		kp_vec_push(&b->stack, m);
	}
	if (r < 0) {
		return -1;
	}
	size_t n = b->stack.n - base;
	struct kp_jv *items = kp_arena_calloc(b->j->arena, n, sizeof(*items));
	if (!items) {
		return kp_arena_full(err, "JSON array");
	}
	for (size_t i = 0; i < n; i++) {
		items[i] = b->stack.p[base + i].value;
	}
	b->stack.n = base;
	*ret = (struct kp_jv){ .type = KP_JSON_ARRAY, .n = (uint32_t)n, .items = items };
	return 0;
}

enum { SMALL_OBJECT = 16 };

/* The member of that key on the stack from base on, or NULL. */
static struct kp_jmember *find_open(
	struct builder *b, size_t base, struct kp_map *index, kp_str key)
{
	size_t n = b->stack.n - base;
	if (n <= SMALL_OBJECT) {
		for (size_t i = base; i < b->stack.n; i++) {
			if (kp_str_eq_name(b->stack.p[i].key, key)) {
				return &b->stack.p[i];
			}
		}
		return NULL;
	}
	while (index->n < n) { /* catch up; values are positions + 1 as pointers */
		kp_map_set(
			index, b->stack.p[base + index->n].key, (void *)(uintptr_t)(index->n + 1));
	}
	uintptr_t at = (uintptr_t)kp_map_get(index, key);
	return at ? &b->stack.p[base + at - 1] : NULL;
}

static int build_members(struct builder *b, size_t base, struct kp_map *index, struct kp_err *err)
{
	kp_str key;
	int r;
	while ((r = kp_json_member(b->j, &key, err)) > 0) {
		struct kp_jmember m = { .key = key };
		if (build(b, &m.value, err)) {
			return -1;
		}
		struct kp_jmember *old = find_open(b, base, index, key);
		if (old) {
			old->value = m.value;
		} else {
			kp_vec_push(&b->stack, m);
		}
	}
	return r;
}

static int build_object(struct builder *b, struct kp_jv *ret, struct kp_err *err)
{
	size_t base = b->stack.n;
	struct kp_map index;
	if (kp_json_object(b->j, err)) {
		return -1;
	}
	kp_map_init(&index);
	int r = build_members(b, base, &index, err);
	kp_map_fini(&index, NULL);
	if (r < 0) {
		return -1;
	}
	size_t n = b->stack.n - base;
	struct kp_jmember *members = kp_arena_calloc(b->j->arena, n, sizeof(*members));
	if (!members) {
		return kp_arena_full(err, "JSON object");
	}
	if (n) {
		memcpy(members, b->stack.p + base, n * sizeof(*members));
	}
	b->stack.n = base;
	*ret = (struct kp_jv){ .type = KP_JSON_OBJECT, .n = (uint32_t)n, .members = members };
	return 0;
}

static int build(struct builder *b, struct kp_jv *ret, struct kp_err *err)
{
	enum kp_json_type t = kp_json_peek(b->j);
	bool flag;
	if (++b->nodes > b->max_nodes) {
		return kp_err_set(
			err, KP_RESOURCE_EXHAUSTED, "read JSON: more than %u values", b->max_nodes);
	}
	switch (t) {
	case KP_JSON_ARRAY:
		return build_array(b, ret, err);
	case KP_JSON_OBJECT:
		return build_object(b, ret, err);
	case KP_JSON_STRING:
		*ret = (struct kp_jv){ .type = t };
		return kp_json_string(b->j, &ret->s, err);
	case KP_JSON_NUMBER:
		*ret = (struct kp_jv){ .type = t };
		return kp_json_number(b->j, &ret->s, err);
	case KP_JSON_TRUE:
	case KP_JSON_FALSE:
		*ret = (struct kp_jv){ .type = t };
		return kp_json_bool(b->j, &flag, err);
	case KP_JSON_NULL:
		*ret = (struct kp_jv){ .type = t };
		return kp_json_null(b->j, err);
	case KP_JSON_NONE:
		break;
	}
	return kp_json_skip(b->j, NULL, err) ? -1 : kp_json_fail(b->j, err, "expected a value");
}

int kp_jv_read(struct kp_json *j, uint32_t max_nodes, struct kp_jv *ret, struct kp_err *err)
{
	struct builder b = { .j = j, .max_nodes = max_nodes };
	struct kp_jv v = { .type = KP_JSON_NONE };
	int r = build(&b, &v, err);
	kp_vec_fini(&b.stack);
	if (r == 0) {
		*ret = v;
	}
	return r;
}

static int build_elements(struct builder *b, struct kp_err *err)
{
	int r;
	while ((r = kp_json_element(b->j, err)) > 0) {
		struct kp_jmember m;
		(void)kp_json_peek(b->j); /* skips white space */
		const char *from = b->j->p;
		if (build(b, &m.value, err)) {
			return -1;
		}
		m.key = kp_str_n(from, (size_t)(b->j->p - from));
		kp_vec_push(&b->stack, m);
	}
	return r;
}

int kp_jv_read_elements(struct kp_json *j, uint32_t max_nodes, const struct kp_jmember **ret,
	uint32_t *ret_n, struct kp_err *err)
{
	struct builder b = { .j = j, .max_nodes = max_nodes };
	struct kp_jmember *m = NULL;
	int r = build_elements(&b, err);
	if (r == 0 && !(m = kp_arena_calloc(j->arena, b.stack.n, sizeof(*m)))) {
		r = kp_arena_full(err, "JSON array");
	}
	if (r == 0) {
		if (b.stack.n) {
			memcpy(m, b.stack.p, b.stack.n * sizeof(*m));
		}
		*ret = m;
		*ret_n = (uint32_t)b.stack.n;
	}
	kp_vec_fini(&b.stack);
	return r;
}

int kp_jv_read_as(struct kp_json *j, enum kp_json_type type, uint32_t max_nodes, struct kp_jv *ret,
	struct kp_err *err)
{
	enum kp_json_type t = kp_json_peek(j);
	if (t != type && t != KP_JSON_NONE) {
		return kp_json_fail(j, err, "expected %s, got %s",
			type == KP_JSON_ARRAY ? "an array" : "an object", kp_json_type_name(t));
	}
	return kp_jv_read(j, max_nodes, ret, err);
}

int kp_jv_parse(kp_str text, struct kp_arena *a, struct kp_jv *ret, struct kp_err *err)
{
	struct kp_json j;
	struct kp_jv v;
	kp_json_init(&j, text, a);
	if (kp_jv_read(&j, UINT32_MAX - 1, &v, err) || kp_json_end(&j, err)) {
		return -1;
	}
	*ret = v;
	return 0;
}

const struct kp_jv *kp_jv_get(const struct kp_jv *v, kp_str key)
{
	if (!kp_jv_is(v, KP_JSON_OBJECT)) {
		return NULL;
	}
	for (uint32_t i = 0; i < v->n; i++) {
		if (kp_str_eq_name(v->members[i].key, key)) {
			return &v->members[i].value;
		}
	}
	return NULL;
}

kp_str kp_jv_str(const struct kp_jv *object, kp_str key)
{
	const struct kp_jv *v = kp_jv_get(object, key);
	return kp_jv_is(v, KP_JSON_STRING) ? v->s : KP_STR_NULL;
}

bool kp_jv_eq(const struct kp_jv *a, const struct kp_jv *b)
{
	if (a->type != b->type || a->n != b->n) {
		return false;
	}
	if (a->type == KP_JSON_STRING || a->type == KP_JSON_NUMBER) {
		return kp_str_eq(a->s, b->s);
	}
	for (uint32_t i = 0; a->type == KP_JSON_ARRAY && i < a->n; i++) {
		if (!kp_jv_eq(&a->items[i], &b->items[i])) {
			return false;
		}
	}
	for (uint32_t i = 0; a->type == KP_JSON_OBJECT && i < a->n; i++) {
		const struct kp_jv *other = kp_jv_get(b, a->members[i].key);
		if (!other || !kp_jv_eq(&a->members[i].value, other)) {
			return false;
		}
	}
	return true;
}

static size_t up8(size_t n)
{
	return (n + 7) & ~(size_t)7;
}

static bool lies_in(kp_str s, kp_str text)
{
	return s.n && (uintptr_t)s.p >= (uintptr_t)text.p &&
	       (uintptr_t)s.p - (uintptr_t)text.p < text.n;
}

static size_t text_size(kp_str s, kp_str was)
{
	return lies_in(s, was) ? 0 : up8(s.n);
}

size_t kp_jv_pack_size(const struct kp_jv *v, uint32_t n, kp_str was)
{
	size_t size = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (v[i].type == KP_JSON_STRING || v[i].type == KP_JSON_NUMBER) {
			size += text_size(v[i].s, was);
		} else if (v[i].type == KP_JSON_ARRAY) {
			size += up8(v[i].n * sizeof(struct kp_jv)) +
				kp_jv_pack_size(v[i].items, v[i].n, was);
		} else if (v[i].type == KP_JSON_OBJECT) {
			size += up8(v[i].n * sizeof(struct kp_jmember));
			for (uint32_t k = 0; k < v[i].n; k++) {
				const struct kp_jmember *m = &v[i].members[k];
				size += text_size(m->key, was) + kp_jv_pack_size(&m->value, 1, was);
			}
		}
	}
	return size;
}

static char *pack_text(kp_str s, kp_str was, const char *is, kp_str *ret, char *block)
{
	if (lies_in(s, was)) {
		*ret = kp_str_n(is + (s.p - was.p), s.n);
		return block;
	}
	if (s.n) {
		memcpy(block, s.p, s.n);
	}
	*ret = kp_str_n(block, s.n);
	return block + up8(s.n);
}

char *kp_jv_pack(const struct kp_jv *v, uint32_t n, kp_str was, const char *is, struct kp_jv *items,
	char *block)
{
	for (uint32_t i = 0; i < n; i++) {
		items[i] = v[i];
		if (v[i].type == KP_JSON_STRING || v[i].type == KP_JSON_NUMBER) {
			block = pack_text(v[i].s, was, is, &items[i].s, block);
		} else if (v[i].type == KP_JSON_ARRAY) {
			struct kp_jv *below = (void *)block;
			items[i].items = below;
			block = kp_jv_pack(v[i].items, v[i].n, was, is, below,
				block + up8(v[i].n * sizeof(*below)));
		} else if (v[i].type == KP_JSON_OBJECT) {
			struct kp_jmember *m = (void *)block;
			items[i].members = m;
			block += up8(v[i].n * sizeof(*m));
			for (uint32_t k = 0; k < v[i].n; k++) {
				block = pack_text(v[i].members[k].key, was, is, &m[k].key, block);
				block = kp_jv_pack(
					&v[i].members[k].value, 1, was, is, &m[k].value, block);
			}
		}
	}
	return block;
}

void kp_jv_write(const struct kp_jv *v, struct kp_buf *out)
{
	switch (v->type) {
	case KP_JSON_NONE:
	case KP_JSON_NULL:
		kp_buf_lit(out, "null");
		break;
	case KP_JSON_FALSE:
		kp_buf_lit(out, "false");
		break;
	case KP_JSON_TRUE:
		kp_buf_lit(out, "true");
		break;
	case KP_JSON_NUMBER:
		kp_buf_add(out, v->s);
		break;
	case KP_JSON_STRING:
		kp_json_w_str(out, v->s);
		break;
	case KP_JSON_ARRAY:
		for (uint32_t i = 0; i < v->n; i++) {
			kp_buf_addc(out, i ? ',' : '[');
			kp_jv_write(&v->items[i], out);
		}
		kp_buf_add(out, v->n ? KP_S("]") : KP_S("[]"));
		break;
	case KP_JSON_OBJECT:
		for (uint32_t i = 0; i < v->n; i++) {
			kp_buf_addc(out, i ? ',' : '{');
			kp_json_w_str(out, v->members[i].key);
			kp_buf_addc(out, ':');
			kp_jv_write(&v->members[i].value, out);
		}
		kp_buf_add(out, v->n ? KP_S("}") : KP_S("{}"));
		break;
	}
}

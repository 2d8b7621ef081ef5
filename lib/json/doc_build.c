/* DESIGN: one builder for both loaders. It is fed open / key / scalar / alias / close in document
   order and makes json_t values, each put into its parent at once, so that dropping the root drops
   everything. Beside them grows the tree of marks, in the caller's arena. Containers are limited in
   depth, values and bytes in number; what an alias stands for counts each time, before it is
   copied, so an alias bomb costs nothing. Containers under an alias are copied (each place owns its
   own), scalars are shared.

   Merges (`<<: *a`, `<<: [*a, *b]`, `<<: {…}`) are applied as soon as their value is complete;
   earlier sources win over later ones, the mapping's own keys win over merged ones. A key that
   stands before the `<<` that brings it too is refused: kubectl's library lets the merge win there,
   YAML's merge specification the key. One thread, no global state. */
#include "json/doc.h"

#include <stdarg.h>

const struct kp_doc_limits kp_doc_limits_manifest = {
	.max_bytes = 1 << 20,
	.max_nodes = 100000,
	.max_depth = 64,
	.max_docs = 1000,
};

size_t kp_doc_arena_bytes(const struct kp_doc_limits *lim)
{
	/* Marks with the arena's own overhead, keys (with their merged copies), documents. */
	return lim->max_nodes * 3 * sizeof(struct kp_yaml_marks) + 4 * lim->max_bytes + (1 << 20);
}

int kp_doc_builder_init(struct kp_doc_builder *b, struct kp_arena *arena,
	const struct kp_doc_limits *lim, struct kp_err *err)
{
	KP_BUG_ON(lim->max_depth > KP_DOC_MAX_DEPTH);
	*b = (struct kp_doc_builder){ .arena = arena, .lim = lim, .scratch = json_array() };
	return b->scratch ? 0 : kp_err_set(err, KP_RESOURCE_EXHAUSTED, "out of memory");
}

static void close_frame(struct kp_doc_frame *f)
{
	if (f->merged) {
		kp_map_fini(f->merged, NULL);
		kp_free(&f->merged);
	}
}

void kp_doc_builder_fini(struct kp_doc_builder *b)
{
	while (b->depth) {
		close_frame(&b->stack[--b->depth]);
	}
	json_decref(b->root);
	json_decref(b->scratch);
	b->root = b->scratch = NULL;
}

int kp_doc_fail(struct kp_doc_builder *b, struct kp_doc_pos at, struct kp_err *err,
	enum kp_code code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	kp_err_setv(err, code, fmt, ap);
	va_end(ap);
	b->where = at;
	return -1;
}

static int no_memory(struct kp_doc_builder *b, struct kp_doc_pos at, struct kp_err *err)
{
	return kp_doc_fail(b, at, err, KP_RESOURCE_EXHAUSTED, "out of memory");
}

/* Counts `nodes` values of `height` levels with `bytes` bytes of text at the place that is open
 * now. */
static int charge(struct kp_doc_builder *b, struct kp_doc_pos at, size_t nodes, size_t height,
	size_t bytes, struct kp_err *err)
{
	if (b->depth + height > b->lim->max_depth) {
		return kp_doc_fail(b, at, err, KP_TOO_LARGE, "nested deeper than %u levels",
			b->lim->max_depth);
	}
	if (nodes > b->lim->max_nodes - b->nodes) {
		return kp_doc_fail(b, at, err, KP_TOO_LARGE,
			"more than %zu values (aliases count as what they stand for)",
			b->lim->max_nodes);
	}
	if (bytes > 4 * b->lim->max_bytes - b->bytes) {
		return kp_doc_fail(b, at, err, KP_TOO_LARGE,
			"more than %zu bytes of text after aliases are expanded",
			4 * b->lim->max_bytes);
	}
	b->nodes += nodes;
	b->bytes += bytes;
	return 0;
}

static struct kp_doc_frame *top(struct kp_doc_builder *b)
{
	return b->depth ? &b->stack[b->depth - 1] : NULL;
}

bool kp_doc_wants_key(const struct kp_doc_builder *b)
{
	return b->depth && json_is_object(b->stack[b->depth - 1].marks->value) &&
	       !b->stack[b->depth - 1].has_key;
}

/* Linear: only for the one message that ends the load. */
static struct kp_doc_pos key_pos(const struct kp_yaml_marks *m, kp_str key)
{
	for (const struct kp_yaml_marks *c = m->first; c; c = c->next) {
		if (kp_str_eq(c->key, key)) {
			return c->key_pos;
		}
	}
	return (struct kp_doc_pos){ 0 };
}

static void append_mark(struct kp_yaml_marks *parent, struct kp_yaml_marks *m)
{
	if (parent->last) {
		parent->last->next = m;
	} else {
		parent->first = m;
	}
	parent->last = m;
}

/* Puts the value into the open container (or makes it the root) and links its mark. Takes v. On
   success *ret_marks is where the mark is now. */
static int attach(struct kp_doc_builder *b, struct kp_yaml_marks *m, json_t *v,
	struct kp_yaml_marks **ret_marks, struct kp_err *err)
{
	struct kp_doc_frame *f = top(b);
	m->value = v;
	m->object = json_is_object(v);
	m->array = json_is_array(v);
	*ret_marks = m;
	if (!f) {
		KP_BUG_ON(b->root);
		b->root = v;
		b->root_marks = m;
		return 0;
	}
	json_t *parent = f->marks->value;
	if (json_is_array(parent)) {
		append_mark(f->marks, m);
		return json_array_append_new(parent, v) ? no_memory(b, m->pos, err) : 0;
	}
	KP_BUG_ON(!f->has_key);
	if (f->merge) { /* applied and dropped when it is complete */
		return json_array_append_new(b->scratch, v) ? no_memory(b, m->pos, err) : 0;
	}
	m->key = f->key;
	m->key_pos = f->key_pos;
	struct kp_yaml_marks *old = f->merged ? kp_map_del(f->merged, f->key) : NULL;
	if (old) { /* an own key over one that a merge brought: replaced where it stands */
		m->next = old->next;
		*old = *m;
		*ret_marks = old;
	} else {
		append_mark(f->marks, m);
	}
	return json_object_setn_new_nocheck(parent, f->key.p, f->key.n, v)
		       ? no_memory(b, m->pos, err)
		       : 0;
}

static json_t *copy_value(json_t *v)
{
	json_t *r = json_is_object(v)  ? json_object()
		    : json_is_array(v) ? json_array()
				       : json_incref(v);
	if (!r || r == v) {
		return r;
	}
	int failed = 0;
	if (json_is_object(v)) {
		for (void *it = json_object_iter(v); it && !failed;
			it = json_object_iter_next(v, it)) {
			failed = json_object_setn_new_nocheck(r, json_object_iter_key(it),
				json_object_iter_key_len(it),
				copy_value(json_object_iter_value(it)));
		}
	} else {
		for (size_t i = 0; i < json_array_size(v) && !failed; i++) {
			failed = json_array_append_new(r, copy_value(json_array_get(v, i)));
		}
	}
	if (failed) {
		json_decref(r);
		return NULL;
	}
	return r;
}

/* Brings one member of a merge source into the open mapping. */
static int merge_member(struct kp_doc_builder *b, struct kp_doc_frame *f,
	const struct kp_yaml_marks *src, struct kp_doc_pos at, struct kp_err *err)
{
	json_t *parent = f->marks->value;
	if (kp_map_get(f->merged, src->key)) {
		return 0; /* an earlier source wins */
	}
	if (json_object_getn(parent, src->key.p, src->key.n)) {
		return kp_doc_fail(b, key_pos(f->marks, src->key), err, KP_INVALID_ARGUMENT,
			"key `%" KP_FMT
			"` stands before the merge that brings it too; put `<<` first",
			KP_ARG(kp_str_sub(src->key, 0, 100)));
	}
	if (charge(b, at, src->nodes, src->height, src->bytes + src->key.n, err)) {
		return -1;
	}
	struct kp_yaml_marks *m = kp_arena_alloc(b->arena, sizeof(*m));
	json_t *v = m ? copy_value(src->value) : NULL;
	if (!v) {
		return no_memory(b, at, err);
	}
	*m = *src;
	m->next = NULL;
	m->value = v;
	append_mark(f->marks, m);
	kp_map_set(f->merged, m->key, m);
	return json_object_setn_new_nocheck(parent, m->key.p, m->key.n, v) ? no_memory(b, at, err)
									   : 0;
}

static int apply_merge(struct kp_doc_builder *b, const struct kp_yaml_marks *m, struct kp_err *err)
{
	struct kp_doc_frame *f = top(b);
	bool list = json_is_array(m->value) && !m->alias;
	const struct kp_yaml_marks *src = list ? m->first : m;
	f->has_key = f->merge = false;
	if (!f->merged) {
		f->merged = kp_new(struct kp_map);
		kp_map_init(f->merged);
	}
	for (; src; src = list ? src->next : NULL) {
		if (!json_is_object(src->value)) {
			return kp_doc_fail(b, src->pos, err, KP_INVALID_ARGUMENT,
				"a merge (`<<`) takes a mapping or a sequence of mappings");
		}
		for (const struct kp_yaml_marks *c = src->first; c; c = c->next) {
			if (merge_member(b, f, c, m->pos, err)) {
				return -1;
			}
		}
	}
	return 0;
}

/* The value is complete: its sums go up, a merge is applied, the parent waits for its next key. */
static int completed(struct kp_doc_builder *b, const struct kp_yaml_marks *m, struct kp_err *err)
{
	struct kp_doc_frame *f = top(b);
	if (!f) {
		return 0;
	}
	if (f->merge) {
		return apply_merge(b, m, err);
	}
	f->has_key = false;
	return 0;
}

static struct kp_yaml_marks *new_marks(struct kp_doc_builder *b, struct kp_doc_pos at)
{
	struct kp_yaml_marks *m = kp_arena_alloc(b->arena, sizeof(*m));
	if (m) {
		*m = (struct kp_yaml_marks){ .pos = at, .nodes = 1, .height = 1 };
	}
	return m;
}

int kp_doc_scalar(struct kp_doc_builder *b, json_t *v, struct kp_doc_pos at,
	struct kp_yaml_marks **ret_marks, struct kp_err *err)
{
	struct kp_yaml_marks *m = v ? new_marks(b, at) : NULL;
	if (!m) {
		json_decref(v);
		return no_memory(b, at, err);
	}
	m->bytes = json_string_length(v);
	if (charge(b, at, 1, 1, m->bytes, err)) {
		json_decref(v);
		return -1;
	}
	if (attach(b, m, v, &m, err) || completed(b, m, err)) {
		return -1;
	}
	if (ret_marks) {
		*ret_marks = m;
	}
	return 0;
}

int kp_doc_open(struct kp_doc_builder *b, bool object, struct kp_doc_pos at,
	struct kp_yaml_marks **ret_marks, struct kp_err *err)
{
	if (charge(b, at, 1, 1, 0, err)) {
		return -1;
	}
	struct kp_yaml_marks *m = new_marks(b, at);
	json_t *v = !m ? NULL : object ? json_object() : json_array();
	if (!v) {
		return no_memory(b, at, err);
	}
	if (attach(b, m, v, &m, err)) {
		return -1;
	}
	b->stack[b->depth++] = (struct kp_doc_frame){ .marks = m };
	if (ret_marks) {
		*ret_marks = m;
	}
	return 0;
}

int kp_doc_close(struct kp_doc_builder *b, struct kp_err *err)
{
	struct kp_yaml_marks *m = b->stack[--b->depth].marks;
	close_frame(&b->stack[b->depth]);
	for (const struct kp_yaml_marks *c = m->first; c; c = c->next) {
		m->nodes += c->nodes;
		m->height = KP_MAX(m->height, c->height + 1);
		m->bytes += c->bytes + c->key.n;
	}
	return completed(b, m, err);
}

int kp_doc_key(
	struct kp_doc_builder *b, kp_str key, struct kp_doc_pos at, bool merge, struct kp_err *err)
{
	struct kp_doc_frame *f = top(b);
	KP_BUG_ON(!kp_doc_wants_key(b));
	f->key_pos = at;
	f->merge = merge;
	f->has_key = true;
	if (merge) {
		return !f->merged
			       ? 0
			       : kp_doc_fail(b, at, err, KP_INVALID_ARGUMENT,
					 "key `<<` is already set; merge several mappings as a sequence");
	}
	if (json_object_getn(f->marks->value, key.p, key.n) &&
		!(f->merged && kp_map_get(f->merged, key))) {
		return kp_doc_fail(b, at, err, KP_INVALID_ARGUMENT,
			"key `%" KP_FMT "` is already set at line %u",
			KP_ARG(kp_str_sub(key, 0, 100)), key_pos(f->marks, key).line);
	}
	if (kp_str_find_char(key, '\0') >= 0) { /* half of jansson takes keys as C strings */
		return kp_doc_fail(b, at, err, KP_INVALID_ARGUMENT, "a key must not contain a NUL");
	}
	if (charge(b, at, 0, 0, key.n, err)) {
		return -1;
	}
	if (kp_arena_dup(b->arena, key, &f->key, err)) {
		b->where = at;
		return -1;
	}
	return 0;
}

int kp_doc_alias(struct kp_doc_builder *b, const struct kp_yaml_marks *anchor, struct kp_doc_pos at,
	struct kp_err *err)
{
	for (unsigned i = 0; i < b->depth; i++) {
		if (b->stack[i].marks == anchor) {
			return kp_doc_fail(b, at, err, KP_INVALID_ARGUMENT,
				"an alias stands inside the value of its own anchor");
		}
	}
	if (charge(b, at, anchor->nodes, anchor->height, anchor->bytes, err)) {
		return -1;
	}
	struct kp_yaml_marks *m = new_marks(b, at);
	json_t *v = m ? copy_value(anchor->value) : NULL;
	if (!v) {
		return no_memory(b, at, err);
	}
	m->first = anchor->first;
	m->last = anchor->last;
	m->nodes = anchor->nodes;
	m->height = anchor->height;
	m->bytes = anchor->bytes;
	m->alias = true;
	return attach(b, m, v, &m, err) || completed(b, m, err) ? -1 : 0;
}

json_t *kp_doc_take(struct kp_doc_builder *b, struct kp_yaml_marks **ret_marks)
{
	KP_BUG_ON(b->depth || !b->root);
	*ret_marks = b->root_marks;
	b->root_marks = NULL;
	json_array_clear(b->scratch);
	return kp_steal(b->root);
}

/* DESIGN: lookups in loaded documents, for error messages and small reads. Linear, no allocation.
 */
#include "json/doc.h"

#include <stdio.h>

const json_t *kp_doc_at(const json_t *v, const char *path)
{
	kp_str rest = kp_str_c(path), part;
	while (v && kp_str_split(&rest, '.', &part)) {
		v = json_object_getn(v, part.p, part.n);
	}
	return v;
}

kp_str kp_doc_str(const json_t *object, const char *key)
{
	const json_t *v = json_object_get(object, key);
	return json_is_string(v) ? kp_str_n(json_string_value(v), json_string_length(v))
				 : KP_STR_NULL;
}

/* Takes "[…]" off the front of the path: what is inside, p NULL when there is none. */
static kp_str take_bracket(kp_str *path)
{
	ptrdiff_t end = kp_str_starts(*path, KP_S("[")) ? kp_str_find_char(*path, ']') : -1;
	if (end < 0) {
		return KP_STR_NULL;
	}
	kp_str inside = kp_str_sub(*path, 1, (size_t)end);
	*path = kp_str_skip(*path, (size_t)end + 1);
	return inside;
}

static const struct kp_yaml_marks *element(const struct kp_yaml_marks *m, kp_str index)
{
	uint64_t i;
	const struct kp_yaml_marks *c = m->first;
	if (!kp_str_u64(index, UINT32_MAX, &i)) {
		return NULL;
	}
	while (c && i--) {
		c = c->next;
	}
	return c;
}

/* The member that the path starts with: the longest key, since keys may contain dots. *path moves
 * behind it. */
static const struct kp_yaml_marks *member(const struct kp_yaml_marks *m, kp_str *path)
{
	const struct kp_yaml_marks *best = NULL;
	kp_str inside = take_bracket(path);
	if (!inside.p && kp_str_starts(*path, KP_S("."))) {
		*path = kp_str_skip(*path, 1);
	}
	for (const struct kp_yaml_marks *c = m->first; c; c = c->next) {
		if (inside.p) {
			if (kp_str_eq(c->key, inside)) {
				return c;
			}
			continue;
		}
		bool ends = path->n == c->key.n ||
			    (path->n > c->key.n &&
				    (path->p[c->key.n] == '.' || path->p[c->key.n] == '['));
		if (ends && kp_str_starts(*path, c->key) && (!best || c->key.n > best->key.n)) {
			best = c;
		}
	}
	if (best) {
		*path = kp_str_skip(*path, best->key.n);
	}
	return best;
}

static const struct kp_yaml_marks *find(const struct kp_yaml_doc *doc, const char *path_z)
{
	kp_str path = kp_str_c(path_z);
	const struct kp_yaml_marks *m = doc->marks;
	while (m && path.n) {
		const struct kp_yaml_marks *next = NULL;
		if (m->object) {
			next = member(m, &path);
		} else if (m->array) {
			next = element(m, take_bracket(&path));
		}
		if (!next) {
			break;
		}
		m = next;
	}
	return m;
}

struct kp_doc_pos kp_yaml_pos(const struct kp_yaml_doc *doc, const char *path)
{
	const struct kp_yaml_marks *m = find(doc, path);
	return m ? m->pos : doc->pos;
}

struct kp_doc_pos kp_yaml_key_pos(const struct kp_yaml_doc *doc, const char *path)
{
	const struct kp_yaml_marks *m = find(doc, path);
	return !m ? doc->pos : m->key_pos.line ? m->key_pos : m->pos;
}

struct kp_yaml_doc kp_yaml_element(const struct kp_yaml_doc *list, size_t index)
{
	const struct kp_yaml_marks *c = list->marks->first;
	for (size_t i = 0; c && i < index; i++) {
		c = c->next;
	}
	return (struct kp_yaml_doc){
		.value = json_array_get(list->value, index),
		.pos = c ? c->pos : list->pos,
		.marks = c ? c : list->marks,
	};
}

struct kp_yaml_doc kp_yaml_member(const struct kp_yaml_doc *object, const char *key)
{
	const struct kp_yaml_marks *m = find(object, key);
	return (struct kp_yaml_doc){
		.value = json_object_get(object->value, key),
		.pos = m ? m->pos : object->pos,
		.marks = m ? m : object->marks,
	};
}

struct visit {
	void (*fn)(void *ctx, const char *path, struct kp_doc_pos pos);
	void *ctx;
	char path[1024]; /* longer ones are cut */
};

static void each_below(struct visit *v, const struct kp_yaml_marks *m, size_t n)
{
	size_t i = 0;
	for (const struct kp_yaml_marks *c = m->first; c; c = c->next, i++) {
		size_t room = sizeof(v->path) - n;
		int k = m->array ? snprintf(v->path + n, room, "[%zu]", i)
				 : snprintf(v->path + n, room, "%s%" KP_FMT, n ? "." : "",
					   KP_ARG(c->key));
		v->fn(v->ctx, v->path, c->pos);
		each_below(v, c, k < 0 || (size_t)k >= room ? sizeof(v->path) - 1 : n + (size_t)k);
	}
	v->path[n] = '\0';
}

void kp_yaml_each(const struct kp_yaml_doc *doc,
	void (*fn)(void *ctx, const char *path, struct kp_doc_pos pos), void *ctx)
{
	struct visit v = { .fn = fn, .ctx = ctx };
	each_below(&v, doc->marks, 0);
}

/* DESIGN: both values walked together. Objects by member. Lists from the front as far as both go, then the rest added at the end or, where
   the new one is shorter, the whole list anew: correct for any two values, small for those that differ by what injection adds. */
#include "inject/internal.h"

#include "base/buf.h"

#include <stdio.h>

enum { MAX_PATH = 32 << 20 }; /* an object is smaller */

struct diff {
	json_t *ops;
	struct kp_buf path;
};

static void add_op(struct diff *d, const char *op, const json_t *value)
{
	json_t *o = json_object();
	kp_put_str(o, "op", op);
	kp_put(o, "path", json_stringn(d->path.p, d->path.n));
	if (value) {
		kp_put(o, "value", json_deep_copy(value));
	}
	kp_push(d->ops, o);
}

static size_t enter(struct diff *d, kp_str key)
{
	size_t before = d->path.n;
	kp_buf_addc(&d->path, '/');
	for (size_t i = 0; i < key.n; i++) {
		if (key.p[i] == '~') {
			kp_buf_lit(&d->path, "~0");
		} else if (key.p[i] == '/') {
			kp_buf_lit(&d->path, "~1");
		} else {
			kp_buf_addc(&d->path, key.p[i]);
		}
	}
	return before;
}

static void leave(struct diff *d, size_t before)
{
	d->path.n = before;
}

static void walk(struct diff *d, const json_t *from, const json_t *to);

static void walk_object(struct diff *d, const json_t *from, const json_t *to)
{
	const char *key;
	json_t *v;
	json_object_foreach((json_t *)kp_unconst(from), key, v)
	{
		if (!json_object_get(to, key)) {
			size_t before = enter(d, kp_str_c(key));
			add_op(d, "remove", NULL);
			leave(d, before);
		}
	}
	json_object_foreach((json_t *)kp_unconst(to), key, v)
	{
		const json_t *old = json_object_get(from, key);
		size_t before = enter(d, kp_str_c(key));
		if (old) {
			walk(d, old, v);
		} else {
			add_op(d, "add", v);
		}
		leave(d, before);
	}
}

static void walk_list(struct diff *d, const json_t *from, const json_t *to)
{
	size_t n = json_array_size(from);
	for (size_t i = 0; i < json_array_size(to); i++) {
		char index[24];
		size_t before = enter(
			d, i < n ? kp_str_n(index, (size_t)snprintf(index, sizeof(index), "%zu", i))
				 : KP_S("-"));
		if (i < n) {
			walk(d, json_array_get(from, i), json_array_get(to, i));
		} else {
			add_op(d, "add", json_array_get(to, i));
		}
		leave(d, before);
	}
}

static void walk(struct diff *d, const json_t *from, const json_t *to)
{
	if (json_equal(from, to)) {
		return;
	}
	if (json_is_object(from) && json_is_object(to)) {
		walk_object(d, from, to);
	} else if (json_is_array(from) && json_is_array(to) &&
		   json_array_size(to) >= json_array_size(from)) {
		walk_list(d, from, to);
	} else {
		add_op(d, "replace", to);
	}
}

json_t *kp_json_diff(const json_t *from, const json_t *to)
{
	struct diff d = { .ops = json_array() };
	kp_buf_init(&d.path, MAX_PATH);
	walk(&d, from, to);
	KP_BUG_ON(d.path.failed);
	kp_buf_fini(&d.path);
	return d.ops;
}

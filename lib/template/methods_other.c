/* DESIGN: methods of dict, list, tuple, range, numbers, the loop variable and cycler, in one table by type. Methods that would change a
   list or dict never get here (attr.c refuses them). */
#include "template/exec.h"
#include "template/funcs.h"
#include "template/pynum.h"

#include <math.h>

#define METHOD(name)                                                                             \
	static int m_##name(struct kp_interp *I, const struct kp_tv *x, const struct kp_tv *arg, \
		struct kp_tv *ret)

static int view(struct kp_interp *I, const struct kp_tv *x, enum kp_tv_view what, struct kp_tv *ret)
{
	struct kp_tv *of = kp_tpl_alloc(I, 1, sizeof(*of));
	if (!of) {
		return -1;
	}
	*of = *x;
	*ret = (struct kp_tv){
		.type = KP_TV_VIEW, .origin = x->origin, .sub = (uint8_t)what, .of = of
	};
	return 0;
}

METHOD(keys)
{
	(void)arg;
	return view(I, x, KP_VIEW_KEYS, ret);
}

METHOD(values)
{
	(void)arg;
	return view(I, x, KP_VIEW_VALUES, ret);
}

METHOD(items)
{
	(void)arg;
	return view(I, x, KP_VIEW_ITEMS, ret);
}

METHOD(get)
{
	int r = kp_tv_dict_get(I, x, &arg[0], ret);
	if (r == 0) {
		*ret = arg[1].type == KP_TV_MISSING ? kp_tv_none() : arg[1];
	}
	return r < 0 ? -1 : 0;
}

METHOD(copy)
{
	(void)I;
	(void)arg;
	*ret = *x;
	return 0;
}

/* dict.fromkeys(keys, value), reached through any dict. */
METHOD(fromkeys)
{
	(void)x;
	struct kp_tpl_dict *d;
	struct kp_tpl_iter it;
	struct kp_tv k, v = arg[1].type == KP_TV_MISSING ? kp_tv_none() : arg[1];
	int r;
	if (kp_tpl_dict_new(I, 4, &d) || kp_tpl_iter_init(I, &arg[0], &it)) {
		return -1;
	}
	while ((r = kp_tpl_iter_next(I, &it, &k)) > 0) {
		if (kp_tpl_dict_set(I, d, &k, &v)) {
			return -1;
		}
	}
	*ret = (struct kp_tv){ .type = KP_TV_DICT, .dict = d };
	return r;
}

METHOD(count)
{
	struct kp_tpl_iter it;
	struct kp_tv v;
	int64_t n = 0;
	int r;
	if (kp_tpl_iter_init(I, x, &it)) {
		return -1;
	}
	while ((r = kp_tpl_iter_next(I, &it, &v)) > 0) {
		int e = kp_tv_eq(I, &v, &arg[0]);
		if (e < 0) {
			return -1;
		}
		n += e;
	}
	*ret = kp_tv_int(n, x->origin);
	return r;
}

METHOD(index)
{
	int64_t n = kp_tv_len(I, x), start, end;
	if (kp_tpl_arg_int(I, &arg[1], 0, &start) || kp_tpl_arg_int(I, &arg[2], INT64_MAX, &end)) {
		return -1;
	}
	start = start < 0 ? KP_MAX(start + n, (int64_t)0) : start;
	end = end < 0 ? end + n : KP_MIN(end, n);
	struct kp_tpl_iter it = { .src = *x, .pos = (uint64_t)start };
	struct kp_tv v;
	for (int64_t i = start; i < end; i++) {
		int r = kp_tpl_iter_next(I, &it, &v);
		r = r > 0 ? kp_tv_eq(I, &v, &arg[0]) : r;
		if (r) {
			*ret = kp_tv_int(i, x->origin);
			return r < 0 ? -1 : 0;
		}
	}
	return kp_tpl_fail(I, "value is not in the %s", kp_tv_type_name(x));
}

METHOD(bit_length)
{
	(void)I;
	(void)arg;
	uint64_t u = x->i < 0 ? 0 - (uint64_t)x->i : (uint64_t)x->i;
	*ret = kp_tv_int(u ? 64 - __builtin_clzll(u) : 0, x->origin);
	return 0;
}

METHOD(bit_count)
{
	(void)I;
	(void)arg;
	uint64_t u = x->i < 0 ? 0 - (uint64_t)x->i : (uint64_t)x->i;
	*ret = kp_tv_int(__builtin_popcountll(u), x->origin);
	return 0;
}

METHOD(conjugate)
{
	(void)I;
	(void)arg;
	*ret = *x;
	ret->type = x->type == KP_TV_BOOL ? KP_TV_INT : x->type;
	return 0;
}

/* (numerator, denominator) of an integer. */
METHOD(ratio)
{
	(void)arg;
	struct kp_tv pair[2] = { kp_tv_int(x->i, x->origin), kp_tv_int(1, x->origin) };
	return kp_tpl_list_new(I, KP_TV_TUPLE, pair, 2, ret);
}

static int v_no_call(struct kp_interp *I, const struct kp_tv *x, const struct kp_tpl_args *args,
	struct kp_tv *ret)
{
	(void)x;
	(void)args;
	(void)ret;
	return kp_tpl_fail(I, "bytes, hexadecimal floats and fractions are not supported");
}

METHOD(is_integer)
{
	(void)I;
	(void)arg;
	*ret = kp_tv_bool(isfinite(x->f) && !(floor(x->f) < x->f));
	return 0;
}

static int v_cycle(struct kp_interp *I, const struct kp_tv *x, const struct kp_tpl_args *args,
	struct kp_tv *ret)
{
	if (!args->n_pos || args->n_kw) {
		return kp_tpl_fail(I, "no items for cycling given");
	}
	*ret = args->pos[x->loop->index0 % args->n_pos];
	return 0;
}

static int v_changed(struct kp_interp *I, const struct kp_tv *x, const struct kp_tpl_args *args,
	struct kp_tv *ret)
{
	struct kp_tv now;
	if (args->n_kw || kp_tpl_list_new(I, KP_TV_TUPLE, args->pos, args->n_pos, &now)) {
		return args->n_kw ? kp_tpl_fail(I, "changed() takes no keyword arguments") : -1;
	}
	int same = x->loop->changed.type == KP_TV_TUPLE ? kp_tv_eq(I, &x->loop->changed, &now) : 0;
	if (same < 0) {
		return -1;
	}
	x->loop->changed = now;
	*ret = kp_tv_bool(!same);
	return 0;
}

METHOD(next)
{
	(void)I;
	(void)arg;
	struct kp_tpl_cycler *c = x->cycler;
	*ret = c->items[c->pos];
	c->pos = (c->pos + 1) % c->n;
	return 0;
}

METHOD(reset)
{
	(void)I;
	(void)arg;
	x->cycler->pos = 0;
	*ret = kp_tv_none();
	return 0;
}

static const struct {
	uint8_t type;
	struct kp_tpl_def def;
} methods[] = {
	{ KP_TV_DICT, { .name = "get",
			      .fn = m_get,
			      .n_required = 1,
			      .n_positional = 2,
			      .params = { "key", "default" } } },
	{ KP_TV_DICT, { .name = "items", .fn = m_items } },
	{ KP_TV_DICT, { .name = "keys", .fn = m_keys } },
	{ KP_TV_DICT, { .name = "values", .fn = m_values } },
	{ KP_TV_DICT, { .name = "copy", .fn = m_copy } },
	{ KP_TV_DICT, { .name = "fromkeys",
			      .fn = m_fromkeys,
			      .n_required = 1,
			      .n_positional = 2,
			      .params = { "iterable", "value" } } },
	{ KP_TV_LIST, { .name = "copy", .fn = m_copy } },
	{ KP_TV_LIST, { .name = "count",
			      .fn = m_count,
			      .n_required = 1,
			      .n_positional = 1,
			      .params = { "value" } } },
	{ KP_TV_LIST, { .name = "index",
			      .fn = m_index,
			      .n_required = 1,
			      .n_positional = 3,
			      .params = { "value", "start", "stop" } } },
	{ KP_TV_TUPLE, { .name = "count",
			       .fn = m_count,
			       .n_required = 1,
			       .n_positional = 1,
			       .params = { "value" } } },
	{ KP_TV_TUPLE, { .name = "index",
			       .fn = m_index,
			       .n_required = 1,
			       .n_positional = 3,
			       .params = { "value", "start", "stop" } } },
	{ KP_TV_RANGE, { .name = "count",
			       .fn = m_count,
			       .n_required = 1,
			       .n_positional = 1,
			       .params = { "value" } } },
	{ KP_TV_RANGE, { .name = "index",
			       .fn = m_index,
			       .n_required = 1,
			       .n_positional = 1,
			       .params = { "value" } } },
	{ KP_TV_INT, { .name = "bit_length", .fn = m_bit_length } },
	{ KP_TV_BOOL, { .name = "bit_length", .fn = m_bit_length } },
	{ KP_TV_INT, { .name = "bit_count", .fn = m_bit_count } },
	{ KP_TV_BOOL, { .name = "bit_count", .fn = m_bit_count } },
	{ KP_TV_INT, { .name = "conjugate", .fn = m_conjugate } },
	{ KP_TV_BOOL, { .name = "conjugate", .fn = m_conjugate } },
	{ KP_TV_FLOAT, { .name = "conjugate", .fn = m_conjugate } },
	{ KP_TV_INT, { .name = "as_integer_ratio", .fn = m_ratio } },
	{ KP_TV_BOOL, { .name = "as_integer_ratio", .fn = m_ratio } },
	{ KP_TV_FLOAT, { .name = "as_integer_ratio", .vfn = v_no_call } },
	{ KP_TV_INT, { .name = "to_bytes", .vfn = v_no_call } },
	{ KP_TV_BOOL, { .name = "to_bytes", .vfn = v_no_call } },
	{ KP_TV_INT, { .name = "from_bytes", .vfn = v_no_call } },
	{ KP_TV_BOOL, { .name = "from_bytes", .vfn = v_no_call } },
	{ KP_TV_FLOAT, { .name = "hex", .vfn = v_no_call } },
	{ KP_TV_FLOAT, { .name = "fromhex", .vfn = v_no_call } },
	{ KP_TV_FLOAT, { .name = "is_integer", .fn = m_is_integer } },
	{ KP_TV_LOOP, { .name = "cycle", .vfn = v_cycle } },
	{ KP_TV_LOOP, { .name = "changed", .vfn = v_changed } },
	{ KP_TV_CYCLER, { .name = "next", .fn = m_next } },
	{ KP_TV_CYCLER, { .name = "reset", .fn = m_reset } },
};

const struct kp_tpl_def *kp_tpl_other_method(const struct kp_tv *obj, kp_str name)
{
	for (size_t i = 0; i < KP_LEN(methods); i++) {
		if (methods[i].type == obj->type &&
			kp_str_eq(name, kp_str_c(methods[i].def.name))) {
			return &methods[i].def;
		}
	}
	/* The global function dict has one method of its own. */
	if (obj->type == KP_TV_FUNC && kp_str_eq(kp_str_c(obj->def->name), KP_S("dict")) &&
		kp_str_eq(name, KP_S("fromkeys"))) {
		return kp_tpl_other_method(&(struct kp_tv){ .type = KP_TV_DICT }, name);
	}
	return NULL;
}

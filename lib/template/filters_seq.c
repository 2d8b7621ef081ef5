/* DESIGN: filters on sequences. Those that are generators in jinja2 (map, select, reject, their attr forms, items, unique, batch, slice) are
   lazy here too: they keep their arguments, do nothing until someone walks over them, and are empty the second time. What they would
   complain about is complained about then. */
#include "template/ast.h"
#include "template/funcs.h"

#define FILTER(name)                                                                             \
	static int f_##name(struct kp_interp *I, const struct kp_tv *x, const struct kp_tv *arg, \
		struct kp_tv *ret)

/* --- attribute paths ------------------------------------------------------------------------------------------------------------------ */

static bool all_digits(kp_str s)
{
	for (size_t i = 0; i < s.n; i++) {
		if (!kp_is_digit(s.p[i])) {
			return false;
		}
	}
	return s.n > 0;
}

/* item.a.b.0 through the environment's item lookup; an Undefined on the way becomes `missing` when that is given. */
int kp_tpl_attr_path(struct kp_interp *I, const struct kp_tv *item, const struct kp_tv *path,
	const struct kp_tv *missing, struct kp_tv *ret)
{
	struct kp_tv v = *item, key;
	if (path->type == KP_TV_NONE || path->type == KP_TV_MISSING) {
		*ret = v;
		return 0;
	}
	if (path->type != KP_TV_STR) {
		if (kp_tpl_getitem(I, &v, path, ret)) {
			return -1;
		}
		*ret = ret->type == KP_TV_UNDEF && !kp_tv_absent(missing) ? *missing : *ret;
		return 0;
	}
	kp_str rest = kp_tv_bytes(path);
	for (bool more = true; more;) {
		ptrdiff_t dot = kp_str_find_char(rest, '.');
		kp_str part = dot < 0 ? rest : kp_str_sub(rest, 0, (size_t)dot);
		more = dot >= 0;
		rest = more ? kp_str_skip(rest, (size_t)dot + 1) : rest;
		key = kp_tv_str(part, path->origin);
		int64_t i;
		if (all_digits(part) && kp_str_i64(part, 0, INT64_MAX, &i)) {
			key = kp_tv_int(i, path->origin);
		}
		struct kp_tv of = v;
		if (kp_tpl_charge(I, 1) || kp_tpl_getitem(I, &of, &key, &v)) {
			return -1;
		}
		if (v.type == KP_TV_UNDEF && !kp_tv_absent(missing)) {
			v = *missing;
		}
	}
	*ret = v;
	return 0;
}

int kp_tpl_ignore_case(struct kp_interp *I, struct kp_tv *v)
{
	struct kp_tv s = *v;
	return v->type == KP_TV_STR ? kp_tpl_str_map(I, &s, KP_UCD_TO_LOWER, v) : 0;
}

/* --- plain ---------------------------------------------------------------------------------------------------------------------------- */

FILTER(length)
{
	(void)arg;
	int64_t n = kp_tv_len(I, x);
	if (n < 0) {
		return x->type == KP_TV_LOOP ? -1
					     : kp_tpl_fail(I, "object of type '%s' has no len()",
						       kp_tv_type_name(x));
	}
	*ret = kp_tv_int(n, x->origin);
	return 0;
}

FILTER(list)
{
	(void)arg;
	struct kp_tv *items;
	uint32_t n;
	if (kp_tpl_collect(I, x, &items, &n)) {
		return -1;
	}
	*ret = (struct kp_tv){ .type = KP_TV_LIST, .origin = x->origin, .n = n, .items = items };
	return 0;
}

FILTER(first)
{
	(void)arg;
	struct kp_tpl_iter it;
	if (kp_tpl_iter_init(I, x, &it)) {
		return -1;
	}
	int r = kp_tpl_iter_next(I, &it, ret);
	if (r == 0) {
		*ret = kp_tv_undef(KP_UNDEF_HINT, KP_S("No first item, sequence was empty."));
	}
	return r < 0 ? -1 : 0;
}

FILTER(last)
{
	(void)arg;
	struct kp_tv back;
	int64_t n = x->type == KP_TV_STR ? kp_tv_len(I, x) : 0;
	if (n > 0) {
		struct kp_tv at = kp_tv_int(n - 1, KP_ORIGIN_TRUSTED);
		return kp_tpl_getitem(I, x, &at, ret);
	}
	if (x->type == KP_TV_STR || x->type == KP_TV_UNDEF) {
		/* reversed() of an Undefined reads its length and finds nothing. */
		*ret = kp_tv_undef(KP_UNDEF_HINT, KP_S("No last item, sequence was empty."));
		return 0;
	}
	if (kp_tpl_reversed(I, x, &back)) {
		return kp_tpl_fail(I, "'%s' object is not reversible", kp_tv_type_name(x));
	}
	struct kp_tpl_iter it = { .src = back };
	int r = kp_tpl_iter_next(I, &it, ret);
	if (r == 0) {
		*ret = kp_tv_undef(KP_UNDEF_HINT, KP_S("No last item, sequence was empty."));
	}
	return r < 0 ? -1 : 0;
}

FILTER(reverse)
{
	(void)arg;
	struct kp_tv *items;
	uint32_t n;
	if (x->type == KP_TV_STR) {
		const struct kp_tv bounds[3] = { kp_tv_none(), kp_tv_none(),
			kp_tv_int(-1, KP_ORIGIN_TRUSTED) };
		return kp_tpl_slice(I, x, bounds, ret);
	}
	if (!kp_tpl_reversed(I, x, ret)) {
		return 0;
	}
	if (!kp_tv_iterable(x)) {
		return kp_tpl_fail(I, "argument must be iterable");
	}
	if (kp_tpl_collect(I, x, &items, &n)) {
		return -1;
	}
	for (uint32_t i = 0; i < n / 2; i++) {
		struct kp_tv t = items[i];
		items[i] = items[n - 1 - i];
		items[n - 1 - i] = t;
	}
	*ret = (struct kp_tv){ .type = KP_TV_LIST, .origin = x->origin, .n = n, .items = items };
	return 0;
}

FILTER(default)
{
	(void)I;
	bool use = x->type == KP_TV_UNDEF || (kp_tv_truth(&arg[1]) && !kp_tv_truth(x));
	*ret = !use                           ? *x
	       : arg[0].type == KP_TV_MISSING ? kp_tv_str(KP_S(""), KP_ORIGIN_TRUSTED)
					      : arg[0];
	return 0;
}

/* foo|attr("bar"): the attribute only, never the item. */
FILTER(attr)
{
	if (arg[0].type != KP_TV_STR) {
		return kp_tpl_fail(
			I, "attribute name must be string, not '%s'", kp_tv_type_name(&arg[0]));
	}
	kp_str name = kp_tv_bytes(&arg[0]);
	if (x->type == KP_TV_DICT && !kp_tpl_find_method(x, name) && !kp_tpl_is_dunder(name)) {
		*ret = kp_tpl_undef_attr(x, name);
		return 0;
	}
	return kp_tpl_getattr(I, x, name, ret);
}

/* --- sorted --------------------------------------------------------------------------------------------------------------------------- */

/* The sort keys of items: the attribute (multi: a list of one or several, separated by commas, which compares as lists do:
   equal ones before ordered ones), lower case unless case_sensitive. */
static int sort_keys(struct kp_interp *I, const struct kp_tv *items, uint32_t n,
	const struct kp_tv *attribute, const struct kp_tv *missing, bool case_sensitive, bool multi,
	struct kp_tv **ret)
{
	struct kp_tv *keys = kp_tpl_alloc(I, n, sizeof(*keys));
	if (!keys) {
		return -1;
	}
	bool several = multi && attribute->type == KP_TV_STR &&
		       kp_str_find_char(kp_tv_bytes(attribute), ',') >= 0;
	for (uint32_t i = 0; i < n; i++) {
		struct kp_tv part[16];
		uint32_t n_parts = 0;
		kp_str rest = several ? kp_tv_bytes(attribute) : KP_STR_NULL, name;
		do {
			struct kp_tv path = *attribute;
			if (several && kp_str_split(&rest, ',', &name)) {
				path = kp_tv_str(name, attribute->origin);
			}
			if (n_parts == KP_LEN(part)) {
				return kp_tpl_fail(
					I, "sort by more than %zu attributes", KP_LEN(part));
			}
			if (kp_tpl_attr_path(I, &items[i], &path, missing, &part[n_parts]) ||
				(!case_sensitive && kp_tpl_ignore_case(I, &part[n_parts]))) {
				return -1;
			}
			n_parts++;
		} while (several && rest.p);
		keys[i] = part[0];
		if (multi && kp_tpl_list_new(I, KP_TV_LIST, part, n_parts, &keys[i])) {
			return -1;
		}
	}
	*ret = keys;
	return 0;
}

/* sort(reverse=False, case_sensitive=False, attribute=None) */
FILTER(sort)
{
	struct kp_tv *items, *keys, missing = { 0 };
	uint32_t n;
	bool reverse;
	if (kp_tpl_collect(I, x, &items, &n) || kp_tpl_arg_flag(I, &arg[0], &reverse) ||
		sort_keys(I, items, n, &arg[2], &missing, kp_tv_truth(&arg[1]), true, &keys) ||
		kp_tv_sort(I, keys, items, n, reverse)) {
		return -1;
	}
	*ret = (struct kp_tv){ .type = KP_TV_LIST, .origin = x->origin, .n = n, .items = items };
	return 0;
}

/* dictsort(case_sensitive=False, by='key', reverse=False) */
FILTER(dictsort)
{
	bool by_value = arg[1].type == KP_TV_STR && kp_str_eq(kp_tv_bytes(&arg[1]), KP_S("value"));
	if (arg[1].type != KP_TV_MISSING && !by_value &&
		!(arg[1].type == KP_TV_STR && kp_str_eq(kp_tv_bytes(&arg[1]), KP_S("key")))) {
		return kp_tpl_fail(I, "You can only sort by either \"key\" or \"value\"");
	}
	if (x->type != KP_TV_DICT) {
		return x->type == KP_TV_UNDEF
			       ? kp_tpl_fail_undef(I, x)
			       : kp_tpl_fail(I, "'%s' object has no attribute 'items'",
					 kp_tv_type_name(x));
	}
	bool reverse;
	uint32_t n = kp_tv_dict_n(x);
	struct kp_tv *items = kp_tpl_alloc(I, n, sizeof(*items)),
		     *keys = kp_tpl_alloc(I, n, sizeof(*keys)), kv[2];
	if (!items || !keys || kp_tpl_arg_flag(I, &arg[2], &reverse)) {
		return -1;
	}
	for (uint32_t i = 0; i < n; i++) {
		kp_tv_dict_at(x, i, &kv[0], &kv[1]);
		keys[i] = kv[by_value];
		if ((!kp_tv_truth(&arg[0]) && kp_tpl_ignore_case(I, &keys[i])) ||
			kp_tpl_list_new(I, KP_TV_TUPLE, kv, 2, &items[i])) {
			return -1;
		}
	}
	*ret = (struct kp_tv){ .type = KP_TV_LIST, .origin = x->origin, .n = n, .items = items };
	return kp_tv_sort(I, keys, items, n, reverse);
}

/* min and max: (case_sensitive=False, attribute=None) */
static int extreme(struct kp_interp *I, const struct kp_tv *x, const struct kp_tv *arg, bool max,
	struct kp_tv *ret)
{
	struct kp_tv *items, *keys, missing = { 0 };
	uint32_t n, best = 0;
	if (kp_tpl_collect(I, x, &items, &n)) {
		return -1;
	}
	if (!n) {
		*ret = kp_tv_undef(KP_UNDEF_HINT, KP_S("No aggregated item, sequence was empty."));
		return 0;
	}
	if (sort_keys(I, items, n, &arg[1], &missing, kp_tv_truth(&arg[0]), false, &keys)) {
		return -1;
	}
	for (uint32_t i = 1; i < n; i++) {
		int r = max ? kp_tv_lt(I, &keys[best], &keys[i])
			    : kp_tv_lt(I, &keys[i], &keys[best]);
		if (r < 0) {
			return -1;
		}
		best = r ? i : best;
	}
	*ret = items[best];
	return 0;
}

FILTER(min)
{
	return extreme(I, x, arg, false, ret);
}

FILTER(max)
{
	return extreme(I, x, arg, true, ret);
}

/* groupby(attribute, default=None, case_sensitive=False) */
FILTER(groupby)
{
	struct kp_tv *items, *keys, *groups;
	uint32_t n, n_groups = 0;
	bool case_sensitive = kp_tv_truth(&arg[2]);
	if (kp_tpl_collect(I, x, &items, &n) ||
		sort_keys(I, items, n, &arg[0], &arg[1], case_sensitive, false, &keys) ||
		kp_tv_sort(I, keys, items, n, false)) {
		return -1;
	}
	groups = kp_tpl_alloc(I, n, sizeof(*groups));
	for (uint32_t start = 0, end; groups && start < n; start = end) {
		struct kp_tv kv[2] = { keys[start] };
		for (end = start + 1; end < n; end++) {
			int r = kp_tv_eq(I, &keys[start], &keys[end]);
			if (r < 0) {
				return -1;
			}
			if (!r) {
				break;
			}
		}
		kv[1] = (struct kp_tv){ .type = KP_TV_LIST,
			.origin = x->origin,
			.n = end - start,
			.items = items + start };
		if ((!case_sensitive &&
			    kp_tpl_attr_path(I, &items[start], &arg[0], &arg[1], &kv[0])) ||
			kp_tpl_list_new(I, KP_TV_TUPLE, kv, 2, &groups[n_groups])) {
			return -1;
		}
		groups[n_groups++].flags |= KP_TVF_GROUP;
	}
	*ret = (struct kp_tv){
		.type = KP_TV_LIST, .origin = x->origin, .n = n_groups, .items = groups
	};
	return groups ? 0 : -1;
}

/* --- lazy ----------------------------------------------------------------------------------------------------------------------------- */

static int gen_start(struct kp_interp *I, struct kp_tpl_gen *g)
{
	g->started = true;
	return kp_tpl_iter_init(I, &g->x, &g->it);
}

static const struct kp_tv *keyword(const struct kp_tpl_args *args, const char *name)
{
	for (uint32_t i = 0; i < args->n_kw; i++) {
		if (kp_str_eq(args->kw[i].name, kp_str_c(name))) {
			return &args->kw[i].v;
		}
	}
	return NULL;
}

/* The filter or test that map, select and their kin name by argument `at`; the arguments behind it are its own. */
static int named_def(struct kp_interp *I, struct kp_tpl_gen *g, uint32_t at,
	const struct kp_tpl_def *(*find)(kp_str), const char *what)
{
	const struct kp_tv *name = &g->args.pos[at];
	g->def = name->type == KP_TV_STR ? find(kp_tv_bytes(name)) : NULL;
	return g->def ? 0
		      : kp_tpl_fail(I, "No %s named '%" KP_FMT "'.", what,
				KP_ARG(name->type == KP_TV_STR ? kp_tv_bytes(name) : KP_STR_NULL));
}

static int apply(struct kp_interp *I, struct kp_tpl_gen *g, uint32_t skip, const struct kp_tv *item,
	struct kp_tv *ret)
{
	struct kp_tpl_args args = { .pos = g->args.pos + skip,
		.n_pos = g->args.n_pos - skip,
		.kw = g->args.kw,
		.n_kw = g->args.n_kw };
	return kp_tpl_invoke(I, g->def, item, &args, ret);
}

/* map(attribute=..., default=...) or map('filter', ...) */
static int next_map(struct kp_interp *I, struct kp_tpl_gen *g, struct kp_tv *ret)
{
	static const struct kp_tv none = { 0 };
	const struct kp_tv *attribute = g->args.n_pos ? NULL : keyword(&g->args, "attribute"),
			   *missing = keyword(&g->args, "default");
	if (!g->started) {
		if (!kp_tv_truth(&g->x)) {
			return 0;
		}
		if (attribute && g->args.n_kw > 1U + (missing != NULL)) {
			return kp_tpl_fail(I, "map: unexpected keyword argument");
		}
		if (!attribute && !g->args.n_pos) {
			return kp_tpl_fail(I, "map requires a filter argument");
		}
		if (gen_start(I, g)) {
			return -1;
		}
	}
	struct kp_tv item;
	int r = kp_tpl_iter_next(I, &g->it, &item);
	if (r <= 0) {
		return r;
	}
	if (attribute) {
		return kp_tpl_attr_path(I, &item, attribute, missing ? missing : &none, ret) ? -1
											     : 1;
	}
	return (!g->def && named_def(I, g, 0, kp_tpl_filter, "filter")) ||
			       apply(I, g, 1, &item, ret)
		       ? -1
		       : 1;
}

static int v_map(struct kp_interp *I, const struct kp_tv *x, const struct kp_tpl_args *args,
	struct kp_tv *ret)
{
	struct kp_tpl_gen *g;
	return kp_tpl_gen_new(I, next_map, x, args, &g, ret);
}

/* select, reject, selectattr, rejectattr */
static int next_select(struct kp_interp *I, struct kp_tpl_gen *g, struct kp_tv *ret)
{
	static const struct kp_tv none = { 0 };
	uint32_t off = g->by_attr;
	struct kp_tv ok;
	int r;
	if (!g->started) {
		if (!kp_tv_truth(&g->x)) {
			return 0;
		}
		if (g->args.n_pos < off) {
			return kp_tpl_fail(I, "Missing parameter for attribute name");
		}
		if (gen_start(I, g)) {
			return -1;
		}
	}
	while ((r = kp_tpl_iter_next(I, &g->it, ret)) > 0) {
		ok = *ret;
		if (g->by_attr && kp_tpl_attr_path(I, ret, &g->args.pos[0], &none, &ok)) {
			return -1;
		}
		if (g->args.n_pos > off) {
			struct kp_tv item = ok;
			if ((!g->def && named_def(I, g, off, kp_tpl_test, "test")) ||
				apply(I, g, off + 1, &item, &ok)) {
				return -1;
			}
		}
		if (kp_tv_truth(&ok) != g->negate) {
			return 1;
		}
	}
	return r;
}

static int select_gen(struct kp_interp *I, const struct kp_tv *x, const struct kp_tpl_args *args,
	bool negate, bool by_attr, struct kp_tv *ret)
{
	struct kp_tpl_gen *g;
	if (kp_tpl_gen_new(I, next_select, x, args, &g, ret)) {
		return -1;
	}
	g->negate = negate;
	g->by_attr = by_attr;
	return 0;
}

static int v_select(struct kp_interp *I, const struct kp_tv *x, const struct kp_tpl_args *args,
	struct kp_tv *ret)
{
	return select_gen(I, x, args, false, false, ret);
}

static int v_reject(struct kp_interp *I, const struct kp_tv *x, const struct kp_tpl_args *args,
	struct kp_tv *ret)
{
	return select_gen(I, x, args, true, false, ret);
}

static int v_selectattr(struct kp_interp *I, const struct kp_tv *x, const struct kp_tpl_args *args,
	struct kp_tv *ret)
{
	return select_gen(I, x, args, false, true, ret);
}

static int v_rejectattr(struct kp_interp *I, const struct kp_tv *x, const struct kp_tpl_args *args,
	struct kp_tv *ret)
{
	return select_gen(I, x, args, true, true, ret);
}

/* A lazy filter whose arguments were bound by name: they are kept in order as positional ones. */
static int bound_gen(struct kp_interp *I,
	int (*next)(struct kp_interp *, struct kp_tpl_gen *, struct kp_tv *), const struct kp_tv *x,
	const struct kp_tv *arg, uint32_t n, struct kp_tv *ret)
{
	struct kp_tpl_gen *g;
	struct kp_tpl_args args = { .pos = arg, .n_pos = n };
	return kp_tpl_gen_new(I, next, x, &args, &g, ret);
}

static int next_items(struct kp_interp *I, struct kp_tpl_gen *g, struct kp_tv *ret)
{
	if (!g->started) {
		if (g->x.type == KP_TV_UNDEF) {
			return 0;
		}
		if (g->x.type != KP_TV_DICT) {
			return kp_tpl_fail(I, "Can only get item pairs from a mapping.");
		}
		g->started = true;
		g->it = (struct kp_tpl_iter){
			.src = { .type = KP_TV_VIEW, .sub = KP_VIEW_ITEMS, .of = &g->x }
		};
	}
	return kp_tpl_iter_next(I, &g->it, ret);
}

FILTER(items)
{
	return bound_gen(I, next_items, x, arg, 0, ret);
}

/* unique(case_sensitive=False, attribute=None) */
static int next_unique(struct kp_interp *I, struct kp_tpl_gen *g, struct kp_tv *ret)
{
	static const struct kp_tv none = { 0 };
	struct kp_tv key, hit, yes = kp_tv_bool(true);
	int r;
	if (!g->started && (gen_start(I, g) || kp_tpl_dict_new(I, 8, &g->seen))) {
		return -1;
	}
	while ((r = kp_tpl_iter_next(I, &g->it, ret)) > 0) {
		struct kp_tv seen = { .type = KP_TV_DICT, .dict = g->seen };
		if (kp_tpl_attr_path(I, ret, &g->args.pos[1], &none, &key) ||
			(!kp_tv_truth(&g->args.pos[0]) && kp_tpl_ignore_case(I, &key))) {
			return -1;
		}
		r = kp_tv_dict_get(I, &seen, &key, &hit);
		if (r < 0 || (r == 0 && kp_tpl_dict_set(I, g->seen, &key, &yes))) {
			return -1;
		}
		if (r == 0) {
			return 1;
		}
	}
	return r;
}

FILTER(unique)
{
	return bound_gen(I, next_unique, x, arg, 2, ret);
}

/* batch(linecount, fill_with=None) */
static int next_batch(struct kp_interp *I, struct kp_tpl_gen *g, struct kp_tv *ret)
{
	int64_t size;
	struct kp_tv item, *items = NULL;
	uint32_t n = 0, cap = 0;
	int r;
	if ((!g->started && gen_start(I, g)) || kp_tpl_arg_int(I, &g->args.pos[0], 0, &size)) {
		return -1;
	}
	/* jinja2 yields before it looks at the item that would be one too many: with a size of 0 or less never. */
	while ((size <= 0 || (int64_t)n < size) && (r = kp_tpl_iter_next(I, &g->it, &item)) != 0) {
		if (r < 0) {
			return -1;
		}
		if (n == cap) {
			cap = cap ? cap * 2 : 8;
			items = kp_arena_grow(
				I->a, items, n * sizeof(*items), cap * sizeof(*items));
			if (!items) {
				return kp_tpl_fail_memory(I);
			}
		}
		items[n++] = item;
	}
	if (!n) {
		return 0;
	}
	const struct kp_tv *fill = &g->args.pos[1];
	int64_t more = !kp_tv_absent(fill) && size > (int64_t)n ? size - (int64_t)n : 0;
	if (more) {
		if (kp_tpl_charge(I, (uint64_t)more)) {
			return -1;
		}
		items = kp_arena_grow(I->a, items, cap * sizeof(*items),
			((size_t)n + (size_t)more) * sizeof(*items));
		if (!items) {
			return kp_tpl_fail_memory(I);
		}
		for (int64_t i = 0; i < more; i++) {
			items[n++] = *fill;
		}
	}
	*ret = (struct kp_tv){ .type = KP_TV_LIST, .origin = g->x.origin, .n = n, .items = items };
	return 1;
}

FILTER(batch)
{
	return bound_gen(I, next_batch, x, arg, 2, ret);
}

/* slice(slices, fill_with=None) */
static int next_slice(struct kp_interp *I, struct kp_tpl_gen *g, struct kp_tv *ret)
{
	int64_t slices;
	if (kp_tpl_arg_int(I, &g->args.pos[0], 0, &slices)) {
		return -1;
	}
	if (!g->started) {
		struct kp_tv *items;
		uint32_t n;
		if (kp_tpl_collect(I, &g->x, &items, &n)) {
			return -1;
		}
		if (slices == 0) {
			return kp_tpl_fail(I, "integer division or modulo by zero");
		}
		g->x = (struct kp_tv){
			.type = KP_TV_LIST, .origin = g->x.origin, .n = n, .items = items
		};
		g->started = true;
	}
	if (g->i >= slices) {
		return 0;
	}
	int64_t each = g->x.n / slices, extra = g->x.n % slices,
		at = g->i * each + KP_MIN(g->i, extra), n = each + (g->i < extra);
	const struct kp_tv *fill = &g->args.pos[1];
	bool filled = !kp_tv_absent(fill) && g->i >= extra;
	struct kp_tv *items = kp_tpl_alloc(I, (size_t)n + 1, sizeof(*items));
	if (!items || kp_tpl_charge(I, (uint64_t)n / 8)) {
		return -1;
	}
	memcpy(items, g->x.items + at, (size_t)n * sizeof(*items));
	if (filled) {
		items[n++] = *fill;
	}
	g->i++;
	*ret = (struct kp_tv){
		.type = KP_TV_LIST, .origin = g->x.origin, .n = (uint32_t)n, .items = items
	};
	return 1;
}

FILTER(slice)
{
	return bound_gen(I, next_slice, x, arg, 2, ret);
}

#define F0(n)                           \
	{                               \
		.name = #n, .fn = f_##n \
	}
#define FP(n, req, ...)                                                               \
	{                                                                             \
		.name = #n, .fn = f_##n, .n_required = req, .params = { __VA_ARGS__ } \
	}
const struct kp_tpl_def kp_tpl_filters_seq[] = {
	F0(length),
	{ .name = "count", .fn = f_length },
	F0(list),
	F0(first),
	F0(last),
	FP(default, 0, "default_value", "boolean"),
	{ .name = "d", .fn = f_default, .params = { "default_value", "boolean" } },
	F0(items),
	{ .name = "map", .vfn = v_map },
	{ .name = "select", .vfn = v_select },
	{ .name = "reject", .vfn = v_reject },
	{ .name = "selectattr", .vfn = v_selectattr },
	{ .name = "rejectattr", .vfn = v_rejectattr },
	FP(sort, 0, "reverse", "case_sensitive", "attribute"),
	FP(dictsort, 0, "case_sensitive", "by", "reverse"),
	FP(unique, 0, "case_sensitive", "attribute"),
	FP(groupby, 1, "attribute", "default", "case_sensitive"),
	FP(min, 0, "case_sensitive", "attribute"),
	FP(max, 0, "case_sensitive", "attribute"),
	F0(reverse),
	FP(batch, 1, "linecount", "fill_with"),
	FP(slice, 1, "slices", "fill_with"),
	FP(attr, 1, "name"),
};
const size_t kp_tpl_n_filters_seq = KP_LEN(kp_tpl_filters_seq);

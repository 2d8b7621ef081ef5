/* DESIGN: obj.name and obj[key] with the lookup order of jinja2's sandbox: a dot asks for the attribute first and the item second, brackets
   the other way round, and what is not there is Undefined, which remembers what was asked for. Only the attributes listed here exist;
   names that Python objects answer to internally (__class__, ...) and methods that would change a list or dict are Undefined too,
   with an error when used, as in ImmutableSandboxedEnvironment. */
#include "template/ast.h"
#include "template/exec.h"

/* Python's names that every object has. */
bool kp_tpl_is_dunder(kp_str name)
{
	static const char *const names[] = { "class", "delattr", "dir", "doc", "eq", "format", "ge",
		"getattribute", "gt", "hash", "init", "init_subclass", "le", "lt", "ne", "new",
		"reduce", "reduce_ex", "repr", "setattr", "sizeof", "str", "subclasshook",
		"getstate", "len", "getitem", "contains", "iter", "add", "mul", "rmul", "call",
		"self", "name", "qualname", "module", "dict", "bool", "int", "float" };
	if (name.n < 5 || !kp_str_starts(name, KP_S("__")) || !kp_str_ends(name, KP_S("__"))) {
		return false;
	}
	kp_str inner = kp_str_sub(name, 2, name.n - 2);
	for (size_t i = 0; i < KP_LEN(names); i++) {
		if (kp_str_eq(inner, kp_str_c(names[i]))) {
			return true;
		}
	}
	return false;
}

const struct kp_tpl_def kp_tpl_method_unsafe = { .name = "" };

static bool one_of(kp_str name, const char *const *names)
{
	for (; *names; names++) {
		if (kp_str_eq(name, kp_str_c(*names))) {
			return true;
		}
	}
	return false;
}

const struct kp_tpl_def *kp_tpl_find_method(const struct kp_tv *obj, kp_str name)
{
	static const char *const list_unsafe[] = { "append", "clear", "pop", "reverse", "insert",
		"sort", "extend", "remove", NULL };
	static const char *const dict_unsafe[] = { "clear", "pop", "popitem", "setdefault",
		"update", NULL };
	if (obj->type == KP_TV_STR) {
		for (size_t i = 0; i < kp_tpl_n_str_methods; i++) {
			if (kp_str_eq(name, kp_str_c(kp_tpl_str_methods[i].name))) {
				return &kp_tpl_str_methods[i];
			}
		}
		return NULL;
	}
	if ((obj->type == KP_TV_LIST && one_of(name, list_unsafe)) ||
		(obj->type == KP_TV_DICT && one_of(name, dict_unsafe))) {
		return &kp_tpl_method_unsafe;
	}
	return kp_tpl_other_method(obj, name);
}

struct kp_tv kp_tpl_undef_attr(const struct kp_tv *obj, kp_str name)
{
	struct kp_tv u = kp_tv_undef(KP_UNDEF_ATTR, name);
	u.flags = obj->type;
	return u;
}

static int bind_method(struct kp_interp *I, const struct kp_tv *obj, const struct kp_tpl_def *def,
	kp_str name, struct kp_tv *ret)
{
	if (def == &kp_tpl_method_unsafe) {
		*ret = kp_tpl_undef_attr(obj, name);
		ret->sub = KP_UNDEF_UNSAFE;
		return 1;
	}
	struct kp_tpl_method *m = kp_tpl_alloc(I, 1, sizeof(*m));
	if (!m) {
		return -1;
	}
	*m = (struct kp_tpl_method){ .def = def, .self = *obj };
	*ret = (struct kp_tv){ .type = KP_TV_METHOD, .method = m };
	return 1;
}

static bool range_attr(const struct kp_tpl_range *r, kp_str name, struct kp_tv *ret)
{
	const struct {
		const char *name;
		int64_t v;
	} all[] = { { "start", r->start }, { "stop", r->stop }, { "step", r->step } };
	for (size_t i = 0; i < KP_LEN(all); i++) {
		if (kp_str_eq(name, kp_str_c(all[i].name))) {
			*ret = kp_tv_int(all[i].v, KP_ORIGIN_TRUSTED);
			return true;
		}
	}
	return false;
}

static bool number_attr(const struct kp_tv *v, kp_str name, struct kp_tv *ret)
{
	bool real = kp_str_eq(name, KP_S("real")), integer = v->type != KP_TV_FLOAT;
	if (real || (integer && kp_str_eq(name, KP_S("numerator")))) {
		*ret = *v;
		ret->type = v->type == KP_TV_BOOL ? KP_TV_INT : v->type;
		return true;
	}
	if (kp_str_eq(name, KP_S("imag"))) {
		*ret = integer ? kp_tv_int(0, v->origin) : kp_tv_float(0, v->origin);
		return true;
	}
	*ret = kp_tv_int(1, v->origin);
	return integer && kp_str_eq(name, KP_S("denominator"));
}

static int macro_attr(struct kp_interp *I, const struct kp_tv *v, kp_str name, struct kp_tv *ret)
{
	const struct kp_node *n = v->macro->node;
	if (kp_str_eq(name, KP_S("name"))) {
		*ret = n->op == KP_OP_MACRO ? kp_tv_str(n->name, KP_ORIGIN_TRUSTED) : kp_tv_none();
		return 1;
	}
	if (kp_str_eq(name, KP_S("arguments"))) {
		struct kp_tv *items = kp_tpl_alloc(I, n->sig->n_args, sizeof(*items));
		if (!items) {
			return -1;
		}
		for (uint32_t i = 0; i < n->sig->n_args; i++) {
			items[i] = kp_tv_str(n->sig->args[i]->name, KP_ORIGIN_TRUSTED);
		}
		*ret = (struct kp_tv){ .type = KP_TV_TUPLE, .n = n->sig->n_args, .items = items };
		return 1;
	}
	const struct {
		const char *name;
		unsigned flag;
	} flags[] = { { "catch_kwargs", KP_NF_KWARGS }, { "catch_varargs", KP_NF_VARARGS },
		{ "caller", KP_NF_CALLER } };
	for (size_t i = 0; i < KP_LEN(flags); i++) {
		if (kp_str_eq(name, kp_str_c(flags[i].name))) {
			*ret = kp_tv_bool(n->flags & flags[i].flag);
			return 1;
		}
	}
	return 0;
}

/* Python's getattr, sandboxed: 1 found (perhaps Undefined), 0 AttributeError, -1. */
static int attribute(struct kp_interp *I, const struct kp_tv *obj, kp_str name, struct kp_tv *ret)
{
	if (obj->type == KP_TV_NS) {
		if (!kp_tv_dict_get_str(obj, name, ret)) {
			return 0;
		}
		if (name.n && name.p[0] == '_') {
			*ret = kp_tpl_undef_attr(obj, name);
			ret->sub = KP_UNDEF_UNSAFE;
		}
		return 1;
	}
	if (kp_tpl_is_dunder(name)) {
		*ret = kp_tpl_undef_attr(obj, name);
		ret->sub = KP_UNDEF_UNSAFE;
		return 1;
	}
	const struct kp_tpl_def *def = kp_tpl_find_method(obj, name);
	if (def) {
		return bind_method(I, obj, def, name, ret);
	}
	switch (obj->type) {
	case KP_TV_BOOL:
	case KP_TV_INT:
	case KP_TV_BIG:
	case KP_TV_FLOAT:
		return number_attr(obj, name, ret);
	case KP_TV_RANGE:
		return range_attr(obj->range, name, ret);
	case KP_TV_LOOP:
		return kp_tpl_loop_attr(I, obj, name, ret);
	case KP_TV_MACRO:
		return macro_attr(I, obj, name, ret);
	case KP_TV_TUPLE:
		if ((obj->flags & KP_TVF_GROUP) &&
			(kp_str_eq(name, KP_S("grouper")) || kp_str_eq(name, KP_S("list")))) {
			*ret = obj->items[name.p[0] == 'l'];
			return 1;
		}
		return 0;
	case KP_TV_CYCLER:
		*ret = obj->cycler->items[obj->cycler->pos];
		return kp_str_eq(name, KP_S("current"));
	default:
		return 0;
	}
}

int kp_tpl_getattr(struct kp_interp *I, const struct kp_tv *obj, kp_str name, struct kp_tv *ret)
{
	if (obj->type == KP_TV_UNDEF && !kp_tpl_is_dunder(name)) {
		return kp_tpl_fail_undef(I, obj);
	}
	int r = attribute(I, obj, name, ret);
	if (r) {
		return r < 0 ? -1 : 0;
	}
	if (obj->type != KP_TV_DICT || !kp_tv_dict_get_str(obj, name, ret)) {
		*ret = kp_tpl_undef_attr(obj, name);
	}
	return 0;
}

/* Sequence element `i`, counted from the end when negative: 1, 0 out of range, -1. */
static int element(struct kp_interp *I, const struct kp_tv *obj, int64_t i, struct kp_tv *ret)
{
	if (obj->type == KP_TV_STR) {
		kp_str s = kp_tv_bytes(obj);
		bool ascii = kp_tpl_is_ascii(s);
		int64_t n = ascii ? (int64_t)s.n : (int64_t)kp_tpl_cp_count(s);
		i += i < 0 ? n : 0;
		if (i < 0 || i >= n || kp_tpl_charge(I, s.n / 64)) {
			return i < 0 || i >= n ? 0 : -1;
		}
		uint32_t from = ascii ? (uint32_t)i : kp_tpl_cp_offset(s, (size_t)i), to = from + 1;
		while (to < s.n && ((unsigned char)s.p[to] & 0xc0) == 0x80) {
			to++;
		}
		return kp_tpl_str_sub(I, obj, from, to, ret) ? -1 : 1;
	}
	int64_t n = kp_tv_len(I, obj);
	i += i < 0 ? n : 0;
	if (i < 0 || i >= n) {
		return 0;
	}
	*ret = obj->type == KP_TV_RANGE
		       ? kp_tv_int(obj->range->start + i * obj->range->step, obj->origin)
		       : kp_tv_item(obj, (uint32_t)i);
	return 1;
}

/* Python's obj[key]: 1 found, 0 TypeError or LookupError, -1. */
static int item(
	struct kp_interp *I, const struct kp_tv *obj, const struct kp_tv *key, struct kp_tv *ret)
{
	switch (obj->type) {
	case KP_TV_UNDEF:
		return kp_tpl_fail_undef(I, obj);
	case KP_TV_DICT:
		return key->type == KP_TV_LIST || key->type == KP_TV_DICT
			       ? 0
			       : kp_tv_dict_get(I, obj, key, ret);
	case KP_TV_STR:
	case KP_TV_LIST:
	case KP_TV_TUPLE:
	case KP_TV_RANGE:
		return kp_tv_is_int(key) ? element(I, obj, key->i, ret) : 0;
	default:
		return 0;
	}
}

int kp_tpl_getitem(
	struct kp_interp *I, const struct kp_tv *obj, const struct kp_tv *key, struct kp_tv *ret)
{
	int r = item(I, obj, key, ret);
	if (r) {
		return r < 0 ? -1 : 0;
	}
	if (key->type == KP_TV_STR) {
		kp_str name = kp_tv_bytes(key);
		r = attribute(I, obj, name, ret);
		if (r == 0) {
			*ret = kp_tpl_undef_attr(obj, name);
		}
		return r < 0 ? -1 : 0;
	}
	struct kp_tv text;
	struct kp_tpl_buf *b;
	if (kp_tpl_buf_new(I, 0, &b) || kp_tpl_repr(I, b, key, 0)) {
		return -1;
	}
	text = kp_tpl_buf_value(b);
	*ret = kp_tpl_undef_attr(obj, kp_tv_bytes(&text));
	ret->sub = KP_UNDEF_ITEM;
	return 0;
}

/* --- slices ------------------------------------------------------------------------------------------------------------------------- */

struct slice {
	int64_t start, stop, step;
	int64_t n; /* elements */
};

/* Python's slice.indices, and the number of elements. Integers beyond 64 bits are as good as the largest. */
static int slice_indices(
	struct kp_interp *I, const struct kp_tv bounds[3], int64_t n, struct slice *ret)
{
	int64_t v[3] = { 0, 0, 1 };
	bool given[3];
	for (int i = 0; i < 3; i++) {
		given[i] = bounds[i].type != KP_TV_NONE;
		if (given[i] && bounds[i].type == KP_TV_UNDEF) {
			return kp_tpl_fail(I,
				"slice indices must be integers or None or have an __index__ method");
		}
		if (given[i] && bounds[i].type == KP_TV_BIG) {
			v[i] = kp_tv_bytes(&bounds[i]).p[0] == '-' ? -INT64_MAX : INT64_MAX;
			continue;
		}
		if (given[i] && !kp_tv_is_int(&bounds[i])) {
			return kp_tpl_fail(I, "slice indices must be integers or None, not %s",
				kp_tv_type_name(&bounds[i]));
		}
		v[i] = given[i] ? bounds[i].i : v[i];
	}
	int64_t step = v[2];
	if (step == 0) {
		return kp_tpl_fail(I, "slice step cannot be zero");
	}
	step = KP_MAX(step, -INT64_MAX);
	int64_t low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;
	for (int i = 0; i < 2; i++) {
		if (!given[i]) {
			v[i] = (i == 0) == (step > 0) ? low : high;
		} else if (v[i] < 0) {
			v[i] = v[i] < -n ? low : KP_MAX(v[i] + n, low);
		} else {
			v[i] = KP_MIN(v[i], high);
		}
	}
	int64_t span = step > 0 ? v[1] - v[0] : v[0] - v[1], by = step > 0 ? step : -step;
	*ret = (struct slice){ v[0], v[1], step, span > 0 ? (span - 1) / by + 1 : 0 };
	return 0;
}

static int slice_str(struct kp_interp *I, const struct kp_tv *s, int64_t start, int64_t step,
	int64_t n, struct kp_tv *ret)
{
	kp_str t = kp_tv_bytes(s);
	bool ascii = kp_tpl_is_ascii(t);
	if (n == 0) {
		return kp_tpl_str_sub(I, s, 0, 0, ret);
	}
	if (step == 1) {
		uint32_t from = ascii ? (uint32_t)start : kp_tpl_cp_offset(t, (size_t)start);
		uint32_t to = ascii ? (uint32_t)(start + n)
				    : from + kp_tpl_cp_offset(kp_str_skip(t, from), (size_t)n);
		return kp_tpl_str_sub(I, s, from, to, ret);
	}
	uint32_t *at = kp_tpl_alloc(I, t.n + 1, sizeof(*at)), k = 0;
	struct kp_tpl_buf *b;
	if (!at || kp_tpl_buf_new(I, 0, &b)) {
		return -1;
	}
	for (uint32_t i = 0; i < t.n; i++) {
		if (((unsigned char)t.p[i] & 0xc0) != 0x80) {
			at[k++] = i;
		}
	}
	at[k] = (uint32_t)t.n;
	for (int64_t i = 0; i < n; i++) {
		int64_t cp = start + i * step;
		if (kp_tpl_buf_add_sub(I, b, s, at[cp], at[cp + 1])) {
			return -1;
		}
	}
	*ret = kp_tpl_buf_value(b);
	ret->flags |= s->flags & KP_TVF_MARKUP;
	return 0;
}

/* A range of a range. It prints the stop that was asked for, not where its last element is. */
static int slice_range(
	struct kp_interp *I, const struct kp_tv *obj, const struct slice *c, struct kp_tv *ret)
{
	const struct kp_tpl_range *r = obj->range;
	struct kp_tpl_range *s = kp_tpl_alloc(I, 1, sizeof(*s));
	if (!s) {
		return -1;
	}
	int64_t stop;
	if (c->step == INT64_MAX || c->step == -INT64_MAX ||
		__builtin_mul_overflow(r->step, c->step, &s->step) ||
		__builtin_mul_overflow(r->step, c->stop, &stop) ||
		__builtin_add_overflow(r->start, stop, &s->stop)) {
		return kp_tpl_fail(I, "slice of a range: integers have 64 bits here");
	}
	s->len = c->n;
	s->start = r->start + c->start * r->step;
	*ret = *obj;
	ret->range = s;
	return 0;
}

int kp_tpl_slice(struct kp_interp *I, const struct kp_tv *obj, const struct kp_tv bounds[3],
	struct kp_tv *ret)
{
	struct slice c = { .step = 1 };
	if (obj->type == KP_TV_UNDEF) {
		return kp_tpl_fail_undef(I, obj);
	}
	if (obj->type != KP_TV_STR && obj->type != KP_TV_LIST && obj->type != KP_TV_TUPLE &&
		obj->type != KP_TV_RANGE) {
		return kp_tpl_fail(I,
			obj->type == KP_TV_DICT ? "unhashable type: 'slice' in '%s'"
						: "'%s' object is not subscriptable",
			kp_tv_type_name(obj));
	}
	if (slice_indices(I, bounds, kp_tv_len(I, obj), &c) ||
		kp_tpl_charge(I, (uint64_t)c.n / 8)) {
		return -1;
	}
	if (obj->type == KP_TV_STR) {
		return slice_str(I, obj, c.start, c.step, c.n, ret);
	}
	if (obj->type == KP_TV_RANGE) {
		return slice_range(I, obj, &c, ret);
	}
	*ret = *obj;
	ret->n = (uint32_t)c.n;
	if (c.step == 1 || c.n == 0) { /* shares the elements */
		if (obj->flags & KP_TVF_JV) {
			ret->jitems = obj->jitems + (c.n ? c.start : 0);
		} else if (c.n) {
			ret->items = obj->items + c.start;
		}
		return 0;
	}
	struct kp_tv *items = kp_tpl_alloc(I, (size_t)c.n, sizeof(*items));
	if (!items) {
		return -1;
	}
	for (int64_t i = 0; i < c.n; i++) {
		items[i] = kp_tv_item(obj, (uint32_t)(c.start + i * c.step));
	}
	ret->items = items;
	ret->flags &= (uint8_t) ~(KP_TVF_JV | KP_TVF_ROLES | KP_TVF_GROUP);
	return 0;
}

/* DESIGN: what Python's data model says of values: truth, length, lookup, equality, order, identity, hashing. JSON containers are read where
   they lie; a number becomes a Python int or float when it is looked at. Recursion over nested values stops at
   KP_TPL_MAX_VALUE_DEPTH with an error, as Python's own does. Dicts made by a template keep insertion order, with a hash index once
   they pass 8 entries. */
#include "template/interp.h"
#include "template/pynum.h"

#include "base/map.h"

#include <math.h>

const char *kp_tv_type_name(const struct kp_tv *v)
{
	static const char *const names[] = { "missing", "Undefined", "NoneType", "bool", "int",
		"int", "float", "str", "list", "tuple", "dict", "dict_items", "range", "generator",
		"Namespace", "Macro", "LoopContext", "function", "builtin_function_or_method",
		"Cycler", "Joiner" };
	if (v->type == KP_TV_VIEW) {
		return v->sub == KP_VIEW_KEYS     ? "dict_keys"
		       : v->sub == KP_VIEW_VALUES ? "dict_values"
						  : "dict_items";
	}
	return v->type == KP_TV_STR && (v->flags & KP_TVF_MARKUP) ? "Markup" : names[v->type];
}

static struct kp_tv number_from_jv(kp_str s, uint8_t origin)
{
	struct kp_tv v = { .type = KP_TV_INT, .origin = origin };
	bool is_float = false;
	for (size_t i = 0; i < s.n; i++) {
		is_float |= s.p[i] == '.' || s.p[i] == 'e' || s.p[i] == 'E';
	}
	if (is_float) {
		v.type = KP_TV_FLOAT;
		if (!kp_str_f64(s, &v.f)) {
			v.f = s.p[0] == '-' ? -(double)INFINITY : (double)INFINITY;
		}
	} else if (!kp_str_i64(s, INT64_MIN, INT64_MAX, &v.i)) {
		v = (struct kp_tv){
			.type = KP_TV_BIG, .origin = origin, .n = (uint32_t)s.n, .s = s.p
		};
	}
	return v;
}

struct kp_tv kp_tv_from_jv(const struct kp_jv *j, uint8_t origin)
{
	struct kp_tv v = { .origin = origin };
	switch (j->type) {
	case KP_JSON_STRING:
		v.type = KP_TV_STR;
		v.n = (uint32_t)j->s.n;
		v.s = j->s.p;
		break;
	case KP_JSON_NUMBER:
		return number_from_jv(j->s, origin);
	case KP_JSON_ARRAY:
		v.type = KP_TV_LIST;
		v.flags = KP_TVF_JV;
		v.n = j->n;
		v.jitems = j->items;
		break;
	case KP_JSON_OBJECT:
		v.type = KP_TV_DICT;
		v.flags = KP_TVF_JV;
		v.n = j->n;
		v.jmembers = j->members;
		break;
	case KP_JSON_TRUE:
	case KP_JSON_FALSE:
		v.type = KP_TV_BOOL;
		v.i = j->type == KP_JSON_TRUE;
		break;
	case KP_JSON_NULL:
	case KP_JSON_NONE:
	default:
		v.type = KP_TV_NONE;
		break;
	}
	return v;
}

/* A message is the assistant's when its role says so; everything else is the client's. */
static uint8_t message_origin(const struct kp_jv *m)
{
	bool is_first = m->type == KP_JSON_OBJECT && m->n &&
			m->members[0].value.type == KP_JSON_STRING &&
			kp_str_eq_name(m->members[0].key, KP_S("role"));
	kp_str role = is_first ? m->members[0].value.s : kp_jv_str(m, KP_S("role"));
	return kp_str_eq_name(role, KP_S("assistant")) ? KP_ORIGIN_ASSISTANT : KP_ORIGIN_CLIENT;
}

struct kp_tv kp_tv_item(const struct kp_tv *list, uint32_t i)
{
	if (!(list->flags & KP_TVF_JV)) {
		return list->items[i];
	}
	const struct kp_jv *j = &list->jitems[i];
	return kp_tv_from_jv(j, list->flags & KP_TVF_ROLES ? message_origin(j) : list->origin);
}

uint32_t kp_tv_dict_n(const struct kp_tv *dict)
{
	return dict->flags & KP_TVF_JV ? dict->n : dict->dict->n;
}

void kp_tv_dict_at(
	const struct kp_tv *dict, uint32_t i, struct kp_tv *ret_key, struct kp_tv *ret_value)
{
	if (dict->flags & KP_TVF_JV) {
		const struct kp_jmember *m = &dict->jmembers[i];
		*ret_key = kp_tv_str(m->key, dict->origin);
		*ret_value = kp_tv_from_jv(&m->value, dict->origin);
	} else {
		*ret_key = dict->dict->entries[i].key;
		*ret_value = dict->dict->entries[i].value;
	}
}

bool kp_tv_truth(const struct kp_tv *v)
{
	switch (v->type) {
	case KP_TV_MISSING:
	case KP_TV_UNDEF:
	case KP_TV_NONE:
		return false;
	case KP_TV_BOOL:
	case KP_TV_INT:
		return v->i != 0;
	case KP_TV_FLOAT:
		return fpclassify(v->f) != FP_ZERO;
	case KP_TV_STR:
	case KP_TV_LIST:
	case KP_TV_TUPLE:
		return v->n != 0;
	case KP_TV_DICT:
		return kp_tv_dict_n(v) != 0;
	case KP_TV_VIEW:
		return kp_tv_dict_n(v->of) != 0;
	case KP_TV_RANGE:
		return v->range->len != 0;
	case KP_TV_LOOP: /* has a length, and is asked inside the loop only: never 0 there */
	case KP_TV_BIG:
	case KP_TV_GEN:
	case KP_TV_NS:
	case KP_TV_MACRO:
	case KP_TV_FUNC:
	case KP_TV_METHOD:
	case KP_TV_CYCLER:
	case KP_TV_JOINER:
	default:
		return true;
	}
}

bool kp_tv_same(const struct kp_tv *a, const struct kp_tv *b)
{
	if (a->type != b->type) {
		return false;
	}
	switch (a->type) {
	case KP_TV_NONE:
		return true;
	case KP_TV_BOOL:
	case KP_TV_INT:
		return a->i == b->i;
	case KP_TV_FLOAT:
		return false;
	case KP_TV_STR: /* Python shares equal constants, and all strings of at most one Latin-1 character */
		return a->n == b->n &&
		       (a->n == 0 || kp_tv_bytes(a).p == kp_tv_bytes(b).p ||
			       (a->n == 1 && kp_tv_bytes(a).p[0] == kp_tv_bytes(b).p[0]));
	case KP_TV_LIST:
		return a->n == b->n && a->items == b->items && a->n != 0;
	case KP_TV_TUPLE:
		return a->n == b->n && (a->items == b->items || a->n == 0);
	default:
		return a->gen == b->gen && a->n == b->n;
	}
}

/* --- equality and order ---------------------------------------------------------------------------------------------------------- */

static int cmp_double(double a, double b)
{
	return a < b ? -1 : a > b ? 1 : 0;
}

/* An integer against a double, exactly. */
static int cmp_int_double(int64_t i, double f)
{
	if (f >= 9223372036854775808.0) {
		return -1;
	}
	if (f < -9223372036854775808.0) {
		return 1;
	}
	int64_t whole = (int64_t)f;
	return i < whole ? -1 : i > whole ? 1 : cmp_double(0.0, f - (double)whole);
}

/* -1, 0, 1; 2: one of them is NaN. */
static int cmp_numbers(const struct kp_tv *a, const struct kp_tv *b)
{
	if ((a->type == KP_TV_FLOAT && isnan(a->f)) || (b->type == KP_TV_FLOAT && isnan(b->f))) {
		return 2;
	}
	if (a->type == KP_TV_BIG || b->type == KP_TV_BIG) {
		return kp_pynum_cmp_big(a, b);
	}
	if (a->type == KP_TV_FLOAT && b->type == KP_TV_FLOAT) {
		return cmp_double(a->f, b->f);
	}
	if (a->type == KP_TV_FLOAT) {
		return -cmp_int_double(b->i, a->f);
	}
	if (b->type == KP_TV_FLOAT) {
		return cmp_int_double(a->i, b->f);
	}
	return a->i < b->i ? -1 : a->i > b->i;
}

static bool numeric(const struct kp_tv *v)
{
	return kp_tv_is_num(v) || v->type == KP_TV_BIG;
}

static int eq_at(struct kp_interp *I, const struct kp_tv *a, const struct kp_tv *b, uint32_t depth);

static int eq_items(
	struct kp_interp *I, const struct kp_tv *a, const struct kp_tv *b, uint32_t depth)
{
	if (a->n != b->n) {
		return 0;
	}
	for (uint32_t i = 0; i < a->n; i++) {
		struct kp_tv x = kp_tv_item(a, i), y = kp_tv_item(b, i);
		int r = eq_at(I, &x, &y, depth + 1);
		if (r <= 0) {
			return r;
		}
	}
	return 1;
}

static int eq_dicts(
	struct kp_interp *I, const struct kp_tv *a, const struct kp_tv *b, uint32_t depth)
{
	uint32_t n = kp_tv_dict_n(a);
	if (n != kp_tv_dict_n(b)) {
		return 0;
	}
	for (uint32_t i = 0; i < n; i++) {
		struct kp_tv k, x, y;
		kp_tv_dict_at(a, i, &k, &x);
		int r = kp_tv_dict_get(I, b, &k, &y);
		r = r > 0 ? eq_at(I, &x, &y, depth + 1) : r;
		if (r <= 0) {
			return r;
		}
	}
	return 1;
}

static int eq_at(struct kp_interp *I, const struct kp_tv *a, const struct kp_tv *b, uint32_t depth)
{
	if (depth > KP_TPL_MAX_VALUE_DEPTH) {
		return kp_tpl_fail(
			I, "values nested deeper than %d in a comparison", KP_TPL_MAX_VALUE_DEPTH);
	}
	if (kp_tpl_charge(I, 1)) {
		return -1;
	}
	if (numeric(a) && numeric(b)) {
		return cmp_numbers(a, b) == 0;
	}
	if (a->type != b->type) {
		return 0;
	}
	switch (a->type) {
	case KP_TV_UNDEF:
	case KP_TV_NONE:
		return 1;
	case KP_TV_STR:
		return a->n == b->n && kp_str_eq(kp_tv_bytes(a), kp_tv_bytes(b));
	case KP_TV_LIST:
	case KP_TV_TUPLE:
		return eq_items(I, a, b, depth);
	case KP_TV_DICT:
		return eq_dicts(I, a, b, depth);
	case KP_TV_RANGE:
		return a->range->len == b->range->len &&
		       (!a->range->len ||
			       (a->range->start == b->range->start &&
				       (a->range->len == 1 || a->range->step == b->range->step)));
	default:
		return kp_tv_same(a, b);
	}
}

int kp_tv_eq(struct kp_interp *I, const struct kp_tv *a, const struct kp_tv *b)
{
	return eq_at(I, a, b, 0);
}

static int lt_items(
	struct kp_interp *I, const struct kp_tv *a, const struct kp_tv *b, uint32_t depth);

static int lt_at(struct kp_interp *I, const struct kp_tv *a, const struct kp_tv *b, uint32_t depth)
{
	if (depth > KP_TPL_MAX_VALUE_DEPTH) {
		return kp_tpl_fail(
			I, "values nested deeper than %d in a comparison", KP_TPL_MAX_VALUE_DEPTH);
	}
	if (kp_tpl_charge(I, 1)) {
		return -1;
	}
	if (numeric(a) && numeric(b)) {
		return cmp_numbers(a, b) == -1;
	}
	if (a->type == KP_TV_UNDEF || b->type == KP_TV_UNDEF) {
		return kp_tpl_fail_undef(I, a->type == KP_TV_UNDEF ? a : b);
	}
	if (a->type == b->type && a->type == KP_TV_STR) { /* UTF-8 sorts as its code points do */
		return kp_str_cmp(kp_tv_bytes(a), kp_tv_bytes(b)) < 0;
	}
	if (a->type == b->type && (a->type == KP_TV_LIST || a->type == KP_TV_TUPLE)) {
		return lt_items(I, a, b, depth);
	}
	return kp_tpl_fail(I, "'<' not supported between instances of '%s' and '%s'",
		kp_tv_type_name(a), kp_tv_type_name(b));
}

static int lt_items(
	struct kp_interp *I, const struct kp_tv *a, const struct kp_tv *b, uint32_t depth)
{
	for (uint32_t i = 0; i < KP_MIN(a->n, b->n); i++) {
		struct kp_tv x = kp_tv_item(a, i), y = kp_tv_item(b, i);
		int r = eq_at(I, &x, &y, depth + 1);
		if (r < 0) {
			return -1;
		}
		if (r == 0) {
			return lt_at(I, &x, &y, depth + 1);
		}
	}
	return a->n < b->n;
}

int kp_tv_lt(struct kp_interp *I, const struct kp_tv *a, const struct kp_tv *b)
{
	return lt_at(I, a, b, 0);
}

int kp_tv_in(struct kp_interp *I, const struct kp_tv *x, const struct kp_tv *y)
{
	struct kp_tv item;
	if (y->type == KP_TV_STR) {
		if (x->type != KP_TV_STR) {
			return x->type == KP_TV_UNDEF
				       ? kp_tpl_fail(I,
						 "'in <string>' requires string as left operand, not Undefined")
				       : kp_tpl_fail(I,
						 "'in <string>' requires string as left operand, not %s",
						 kp_tv_type_name(x));
		}
		return kp_tpl_charge(I, y->n / 32) ? -1
						   : kp_str_has(kp_tv_bytes(y), kp_tv_bytes(x));
	}
	if (y->type == KP_TV_DICT) {
		return kp_tv_dict_get(I, y, x, &item);
	}
	if (y->type == KP_TV_VIEW && y->sub == KP_VIEW_KEYS) {
		return kp_tv_dict_get(I, y->of, x, &item);
	}
	if (!kp_tv_iterable(y)) {
		return kp_tpl_fail(I, "argument of type '%s' is not iterable", kp_tv_type_name(y));
	}
	struct kp_tpl_iter it;
	int r;
	if (kp_tpl_iter_init(I, y, &it)) {
		return -1;
	}
	while ((r = kp_tpl_iter_next(I, &it, &item)) > 0) {
		r = kp_tv_eq(I, &item, x);
		if (r) {
			return r;
		}
	}
	return r;
}

/* --- dicts ------------------------------------------------------------------------------------------------------------------------- */

/* Equal values hash equal: 1, 1.0 and True are one key. -1: not hashable. */
static int hash_of(struct kp_interp *I, const struct kp_tv *v, uint64_t *ret, uint32_t depth)
{
	switch (v->type) {
	case KP_TV_STR:
		kp_tpl_spend_bytes(I, v->n);
		*ret = kp_hash(kp_tv_bytes(v));
		return 0;
	case KP_TV_BOOL:
	case KP_TV_INT:
		*ret = kp_hash(kp_str_n(&v->i, sizeof(v->i)));
		return 0;
	case KP_TV_FLOAT: {
		int64_t i = v->f >= -9e18 && v->f <= 9e18 ? (int64_t)v->f : 0;
		*ret = cmp_int_double(i, v->f) == 0 ? kp_hash(kp_str_n(&i, sizeof(i)))
						    : kp_hash(kp_str_n(&v->f, sizeof(v->f)));
		return 0;
	}
	case KP_TV_TUPLE:
		*ret = 7;
		for (uint32_t i = 0; i < v->n; i++) {
			uint64_t h;
			if (depth > KP_TPL_MAX_VALUE_DEPTH ||
				hash_of(I, &v->items[i], &h, depth + 1)) {
				return depth > KP_TPL_MAX_VALUE_DEPTH
					       ? kp_tpl_fail(I, "values nested deeper than %d",
							 KP_TPL_MAX_VALUE_DEPTH)
					       : -1;
			}
			*ret = *ret * 31 + h;
		}
		return 0;
	case KP_TV_LIST:
	case KP_TV_DICT:
		return kp_tpl_fail(I, "unhashable type: '%s'", kp_tv_type_name(v));
	default: /* compared by identity or by type: one bucket each */
		*ret = v->type;
		return 0;
	}
}

/* Index of key, or -1: absent, -2: error. */
static int64_t dict_find(
	struct kp_interp *I, const struct kp_tpl_dict *d, const struct kp_tv *key, uint64_t hash)
{
	if (!d->slots) {
		for (uint32_t i = 0; i < d->n; i++) {
			int r = kp_tv_eq(I, &d->entries[i].key, key);
			if (r) {
				return r < 0 ? -2 : (int64_t)i;
			}
		}
		return -1;
	}
	for (uint32_t at = (uint32_t)hash & (d->n_slots - 1); d->slots[at];
		at = (at + 1) & (d->n_slots - 1)) {
		int r = kp_tv_eq(I, &d->entries[d->slots[at] - 1].key, key);
		if (r) {
			return r < 0 ? -2 : (int64_t)d->slots[at] - 1;
		}
	}
	return -1;
}

bool kp_tv_dict_get_str(const struct kp_tv *dict, kp_str key, struct kp_tv *ret)
{
	if (dict->flags & KP_TVF_JV) {
		for (uint32_t i = 0; i < dict->n; i++) {
			if (kp_str_eq_name(dict->jmembers[i].key, key)) {
				*ret = kp_tv_from_jv(&dict->jmembers[i].value, dict->origin);
				return true;
			}
		}
		return false;
	}
	const struct kp_tpl_dict *d = dict->dict;
	uint32_t mask = d->n_slots - 1, at = d->slots ? (uint32_t)kp_hash(key) & mask : 0;
	for (uint32_t i = 0; d->slots ? d->slots[at] != 0 : i < d->n; i++) {
		const struct kp_tpl_entry *e = &d->entries[d->slots ? d->slots[at] - 1 : i];
		if (e->key.type == KP_TV_STR && kp_str_eq_name(kp_tv_bytes(&e->key), key)) {
			*ret = e->value;
			return true;
		}
		at = (at + 1) & mask;
	}
	return false;
}

int kp_tv_dict_get(
	struct kp_interp *I, const struct kp_tv *dict, const struct kp_tv *key, struct kp_tv *ret)
{
	if (key->type == KP_TV_STR) {
		return kp_tpl_charge_lookup(I, dict)
			       ? -1
			       : kp_tv_dict_get_str(dict, kp_tv_bytes(key), ret);
	}
	uint64_t hash;
	if (hash_of(I, key, &hash, 0)) {
		return -1;
	}
	if (dict->flags & KP_TVF_JV) {
		return 0;
	}
	int64_t i = dict_find(I, dict->dict, key, hash);
	if (i >= 0) {
		*ret = dict->dict->entries[i].value;
	}
	return i == -2 ? -1 : i >= 0;
}

int kp_tpl_dict_new(struct kp_interp *I, uint32_t cap, struct kp_tpl_dict **ret)
{
	struct kp_tpl_dict *d = kp_tpl_alloc(I, 1, sizeof(*d));
	struct kp_tpl_entry *e = kp_tpl_alloc(I, cap, sizeof(*e));
	if (!d || !e) {
		return -1;
	}
	*d = (struct kp_tpl_dict){ .entries = e, .cap = cap };
	*ret = d;
	return 0;
}

static int dict_index(struct kp_interp *I, struct kp_tpl_dict *d)
{
	uint32_t n = 32;
	while (n < d->cap * 2) {
		n *= 2;
	}
	uint32_t *slots = kp_tpl_alloc(I, n, sizeof(*slots));
	if (!slots) {
		return -1;
	}
	memset(slots, 0, n * sizeof(*slots));
	for (uint32_t i = 0; i < d->n; i++) {
		uint64_t h;
		if (hash_of(I, &d->entries[i].key, &h, 0)) {
			return -1;
		}
		uint32_t at = (uint32_t)h & (n - 1);
		while (slots[at]) {
			at = (at + 1) & (n - 1);
		}
		slots[at] = i + 1;
	}
	d->slots = slots;
	d->n_slots = n;
	return 0;
}

int kp_tpl_dict_set(struct kp_interp *I, struct kp_tpl_dict *d, const struct kp_tv *key,
	const struct kp_tv *value)
{
	uint64_t hash = 0;
	bool looked_through = !d->slots && key->type == KP_TV_STR; /* then nobody asks the hash */
	if ((!looked_through && hash_of(I, key, &hash, 0)) || kp_tpl_charge(I, 1)) {
		return -1;
	}
	int64_t i = dict_find(I, d, key, hash);
	if (i != -1) {
		if (i >= 0) {
			d->entries[i].value = *value;
		}
		return i >= 0 ? 0 : -1;
	}
	if (d->n == d->cap) {
		uint32_t cap = KP_MAX(d->cap * 2, 8U);
		struct kp_tpl_entry *e =
			kp_arena_grow(I->a, d->entries, d->cap * sizeof(*e), cap * sizeof(*e));
		if (!e) {
			return kp_tpl_fail_memory(I);
		}
		d->entries = e;
		d->cap = cap;
		d->slots = NULL;
	}
	d->entries[d->n++] = (struct kp_tpl_entry){ *key, *value };
	if (!d->slots) {
		return d->n > 8 ? dict_index(I, d) : 0;
	}
	uint32_t at = (uint32_t)hash & (d->n_slots - 1);
	while (d->slots[at]) {
		at = (at + 1) & (d->n_slots - 1);
	}
	d->slots[at] = d->n;
	return 0;
}

int kp_tpl_dict_merge(struct kp_interp *I, struct kp_tpl_dict *d, const struct kp_tv *from)
{
	uint32_t n = kp_tv_dict_n(from);
	for (uint32_t i = 0; i < n; i++) {
		struct kp_tv k, v;
		kp_tv_dict_at(from, i, &k, &v);
		if (kp_tpl_dict_set(I, d, &k, &v)) {
			return -1;
		}
	}
	return 0;
}

/* --- sorting ------------------------------------------------------------------------------------------------------------------------ */

/* Must b come before a? Reversed: Python sorts descending but keeps equal ones in their order. */
static int before(struct kp_interp *I, const struct kp_tv *b, const struct kp_tv *a, bool reverse)
{
	return reverse ? kp_tv_lt(I, a, b) : kp_tv_lt(I, b, a);
}

static int merge(struct kp_interp *I, struct kp_tv *src[2], struct kp_tv *dst[2], uint32_t lo,
	uint32_t mid, uint32_t hi, bool reverse)
{
	uint32_t i = lo, j = mid;
	for (uint32_t k = lo; k < hi; k++) {
		int r = i >= mid ? 1 : j >= hi ? 0 : before(I, &src[0][j], &src[0][i], reverse);
		if (r < 0) {
			return -1;
		}
		uint32_t from = r ? j++ : i++;
		dst[0][k] = src[0][from];
		dst[1][k] = src[1][from];
	}
	return 0;
}

int kp_tv_sort(struct kp_interp *I, struct kp_tv *keys, struct kp_tv *v, uint32_t n, bool reverse)
{
	struct kp_tv *spare = kp_tpl_alloc(I, (size_t)n * 2, sizeof(*spare));
	if (!spare) {
		return -1;
	}
	struct kp_tv *src[2] = { keys, v }, *dst[2] = { spare, spare + n };
	for (uint64_t width = 1; width < n; width *= 2) {
		for (uint64_t lo = 0; lo < n; lo += 2 * width) {
			uint32_t mid = (uint32_t)KP_MIN(lo + width, (uint64_t)n),
				 hi = (uint32_t)KP_MIN(lo + 2 * width, (uint64_t)n);
			if (merge(I, src, dst, (uint32_t)lo, mid, hi, reverse)) {
				return -1;
			}
		}
		for (int k = 0; k < 2; k++) {
			struct kp_tv *t = src[k];
			src[k] = dst[k];
			dst[k] = t;
		}
	}
	if (n && src[0] != keys) {
		memcpy(keys, src[0], n * sizeof(*keys));
		memcpy(v, src[1], n * sizeof(*v));
	}
	return 0;
}

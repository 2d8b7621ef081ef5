/* DESIGN: values that outlive their render: scalars, strings with the origins of their bytes, and lists, tuples and dicts of such, copied into one allocation of a kept round. A copy of JSON is a list
   or dict as a template makes them; no template can tell (`sameas`, which could, keeps loops from being replayed). Comparing is finer than Python's ==: 1, 1.0 and true differ, and so do
   equal texts of different origins, because a body could print them. Limits: MAX_BYTES and MAX_NODES of one value, which bound both. */
#include "template/rounds.h"

enum { MAX_BYTES = 64 << 10, MAX_NODES = 512, MAX_NESTED = 32 };

struct weight {
	size_t bytes;
	uint32_t nodes;
};

static bool weigh(const struct kp_tv *v, struct weight *w, uint32_t depth)
{
	struct kp_tv key, item;
	if (++w->nodes > MAX_NODES || depth > MAX_NESTED) {
		return false;
	}
	switch (v->type) {
	case KP_TV_MISSING:
	case KP_TV_NONE:
	case KP_TV_BOOL:
	case KP_TV_INT:
	case KP_TV_FLOAT:
		return true;
	case KP_TV_UNDEF:
	case KP_TV_BIG:
	case KP_TV_STR:
		w->bytes += v->n;
		return w->bytes <= MAX_BYTES;
	case KP_TV_LIST:
	case KP_TV_TUPLE:
		for (uint32_t i = 0; i < v->n; i++) {
			item = kp_tv_item(v, i);
			if (!weigh(&item, w, depth + 1)) {
				return false;
			}
		}
		return true;
	case KP_TV_DICT:
		for (uint32_t i = 0; i < kp_tv_dict_n(v); i++) {
			kp_tv_dict_at(v, i, &key, &item);
			if (!weigh(&key, w, depth + 1) || !weigh(&item, w, depth + 1)) {
				return false;
			}
		}
		return true;
	default:
		return false;
	}
}

bool kp_tpl_can_keep(const struct kp_tv *v)
{
	struct weight w = { 0 };
	return weigh(v, &w, 0);
}

/* --- copying ----------------------------------------------------------------------------------------------------------------------------- */

void *kp_tpl_pack_take(struct kp_tpl_pack *to, size_t n)
{
	size_t at = to->n;
	to->n += (n + 7) & ~(size_t)7;
	return to->p ? to->p + at : NULL;
}

void *kp_tpl_pack_copy(struct kp_tpl_pack *to, const void *from, size_t n)
{
	void *p = kp_tpl_pack_take(to, n);
	if (p && n) {
		memcpy(p, from, n);
	}
	return p;
}

/* A string of several origins: a buffer that cannot grow. */
static struct kp_tpl_buf *pack_buf(struct kp_tpl_pack *to, const struct kp_tv *v)
{
	uint32_t n_runs = 1;
	while (v->buf->runs[n_runs - 1].end < v->n) {
		n_runs++;
	}
	struct kp_tpl_buf *b = kp_tpl_pack_take(to, sizeof(*b));
	struct kp_run *runs = kp_tpl_pack_copy(to, v->buf->runs, n_runs * sizeof(*runs));
	char *p = kp_tpl_pack_copy(to, v->buf->p, v->n);
	if (b) {
		runs[n_runs - 1].end = v->n;
		*b = (struct kp_tpl_buf){ .p = p, .n = v->n, .runs = runs, .n_runs = n_runs };
	}
	return b;
}

static const struct kp_tv *pack_items(struct kp_tpl_pack *to, const struct kp_tv *v)
{
	struct kp_tv *items = kp_tpl_pack_take(to, v->n * sizeof(*items));
	for (uint32_t i = 0; i < v->n; i++) {
		struct kp_tv item = kp_tv_item(v, i);
		item = kp_tpl_pack_value(to, &item);
		if (items) {
			items[i] = item;
		}
	}
	return items;
}

static struct kp_tpl_dict *pack_dict(struct kp_tpl_pack *to, const struct kp_tv *v)
{
	uint32_t n = kp_tv_dict_n(v);
	struct kp_tpl_dict *d = kp_tpl_pack_take(to, sizeof(*d));
	struct kp_tpl_entry *entries = kp_tpl_pack_take(to, n * sizeof(*entries));
	for (uint32_t i = 0; i < n; i++) {
		struct kp_tv key, item;
		kp_tv_dict_at(v, i, &key, &item);
		key = kp_tpl_pack_value(to, &key);
		item = kp_tpl_pack_value(to, &item);
		if (entries) {
			entries[i] = (struct kp_tpl_entry){ key, item };
		}
	}
	if (d) {
		*d = (struct kp_tpl_dict){ .entries = entries, .n = n, .cap = n };
	}
	return d;
}

struct kp_tv kp_tpl_pack_value(struct kp_tpl_pack *to, const struct kp_tv *v)
{
	struct kp_tv own = *v;
	switch (v->type) {
	case KP_TV_STR:
		if (v->flags & KP_TVF_MIXED) {
			own.buf = pack_buf(to, v);
			break;
		}
		own.s = kp_tpl_pack_copy(to, v->s, v->n);
		break;
	case KP_TV_BIG:
	case KP_TV_UNDEF:
		own.s = kp_tpl_pack_copy(to, v->s, v->n);
		break;
	case KP_TV_LIST:
	case KP_TV_TUPLE:
		own.items = pack_items(to, v);
		own.flags &= (uint8_t) ~(KP_TVF_JV | KP_TVF_ROLES);
		break;
	case KP_TV_DICT:
		own.dict = pack_dict(to, v);
		own.flags &= (uint8_t)~KP_TVF_JV;
		own.n = 0;
		break;
	default: /* the value is all there is of it */
		break;
	}
	return own;
}

/* --- comparing --------------------------------------------------------------------------------------------------------------------------- */

static bool same_text(const struct kp_tv *a, const struct kp_tv *b)
{
	if (!kp_str_eq(kp_tv_bytes(a), kp_tv_bytes(b))) {
		return false;
	}
	for (uint32_t r = 0, from = 0; (a->flags & KP_TVF_MIXED) && from < a->n; r++) {
		const struct kp_run *x = &a->buf->runs[r], *y = &b->buf->runs[r];
		if (x->origin != y->origin || KP_MIN(x->end, a->n) != KP_MIN(y->end, b->n)) {
			return false;
		}
		from = x->end;
	}
	return true;
}

static bool same_items(const struct kp_tv *a, const struct kp_tv *b)
{
	for (uint32_t i = 0; i < a->n; i++) {
		struct kp_tv now = kp_tv_item(b, i);
		if (!kp_tpl_same_value(&a->items[i], &now)) {
			return false;
		}
	}
	return true;
}

static bool same_dict(const struct kp_tv *a, const struct kp_tv *b)
{
	if (a->dict->n != kp_tv_dict_n(b)) {
		return false;
	}
	for (uint32_t i = 0; i < a->dict->n; i++) {
		struct kp_tv key, item;
		kp_tv_dict_at(b, i, &key, &item);
		if (!kp_tpl_same_value(&a->dict->entries[i].key, &key) ||
			!kp_tpl_same_value(&a->dict->entries[i].value, &item)) {
			return false;
		}
	}
	return true;
}

bool kp_tpl_same_value(const struct kp_tv *then, const struct kp_tv *now)
{
	enum { OTHER = (uint8_t) ~(KP_TVF_JV | KP_TVF_ROLES) };
	bool is_dict = then->type == KP_TV_DICT;
	if (then->type != now->type || then->origin != now->origin || then->sub != now->sub ||
		((then->flags ^ now->flags) & OTHER) || (!is_dict && then->n != now->n)) {
		return false;
	}
	switch (then->type) {
	case KP_TV_MISSING:
	case KP_TV_NONE:
		return true;
	case KP_TV_BOOL:
	case KP_TV_INT:
	case KP_TV_FLOAT: /* bit by bit */
		return then->i == now->i;
	case KP_TV_UNDEF:
	case KP_TV_BIG:
		return kp_str_eq(kp_str_n(then->s, then->n), kp_str_n(now->s, now->n));
	case KP_TV_STR:
		return same_text(then, now);
	case KP_TV_LIST:
	case KP_TV_TUPLE:
		return same_items(then, now);
	case KP_TV_DICT:
		return same_dict(then, now);
	default:
		return false;
	}
}

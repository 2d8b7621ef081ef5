/* DESIGN: walking over values. An iterator is a copy of the value and a position, on the caller's stack; only generators have state of
   their own, in the arena, shared by all who hold them. Strings give code points, dicts their keys, ranges are never made into
   lists unless a template asks for one. Each step costs one from the budget. */
#include "template/rounds.h"
#include "template/ucd.h"

bool kp_tv_iterable(const struct kp_tv *v)
{
	switch (v->type) {
	case KP_TV_UNDEF:
	case KP_TV_STR:
	case KP_TV_LIST:
	case KP_TV_TUPLE:
	case KP_TV_DICT:
	case KP_TV_VIEW:
	case KP_TV_RANGE:
	case KP_TV_GEN:
		return true;
	default:
		return false;
	}
}

int kp_tpl_iter_init(struct kp_interp *I, const struct kp_tv *v, struct kp_tpl_iter *it)
{
	if (!kp_tv_iterable(v)) {
		return kp_tpl_fail(I, "'%s' object is not iterable", kp_tv_type_name(v));
	}
	*it = (struct kp_tpl_iter){ .src = *v };
	return 0;
}

static int next_view(struct kp_interp *I, const struct kp_tv *view, uint32_t i, struct kp_tv *ret)
{
	struct kp_tv kv[2];
	kp_tv_dict_at(view->of, i, &kv[0], &kv[1]);
	if (view->sub != KP_VIEW_ITEMS) {
		*ret = kv[view->sub];
		return 1;
	}
	return kp_tpl_list_new(I, KP_TV_TUPLE, kv, 2, ret) ? -1 : 1;
}

static int next_char(struct kp_interp *I, struct kp_tpl_iter *it, struct kp_tv *ret)
{
	kp_str s = kp_tv_bytes(&it->src);
	uint32_t from = (uint32_t)it->pos, to = from + 1;
	if (from >= s.n) {
		return 0;
	}
	while (to < s.n && ((unsigned char)s.p[to] & 0xc0) == 0x80) {
		to++;
	}
	it->pos = to;
	if (kp_tpl_str_sub(I, &it->src, from, to, ret)) {
		return -1;
	}
	ret->flags &= (uint8_t)~KP_TVF_MARKUP;
	return 1;
}

/* Generators may stand on generators, so this counts as recursion. */
static int next_of_gen(struct kp_interp *I, struct kp_tpl_gen *g, struct kp_tv *ret)
{
	if (g->done) {
		return 0;
	}
	if (I->depth >= KP_TPL_MAX_DEPTH) {
		return kp_tpl_fail_depth(I);
	}
	if (KP_UNLIKELY(I->ask) && g->born != I->ask && kp_tpl_used_up(I)) {
		return -1;
	}
	I->depth++;
	int r = g->next(I, g, ret);
	I->depth--;
	g->done = r <= 0;
	return r;
}

int kp_tpl_iter_next(struct kp_interp *I, struct kp_tpl_iter *it, struct kp_tv *ret)
{
	struct kp_tv ignored;
	const struct kp_tv *v = &it->src;
	if (kp_tpl_charge(I, 1)) {
		return -1;
	}
	switch (v->type) {
	case KP_TV_LIST:
	case KP_TV_TUPLE:
		if (it->pos >= v->n) {
			return 0;
		}
		*ret = kp_tv_item(v, (uint32_t)it->pos++);
		return 1;
	case KP_TV_DICT:
		if (it->pos >= kp_tv_dict_n(v)) {
			return 0;
		}
		kp_tv_dict_at(v, (uint32_t)it->pos++, ret, &ignored);
		return 1;
	case KP_TV_VIEW:
		return it->pos >= kp_tv_dict_n(v->of) ? 0
						      : next_view(I, v, (uint32_t)it->pos++, ret);
	case KP_TV_RANGE:
		if ((int64_t)it->pos >= v->range->len) {
			return 0;
		}
		*ret = kp_tv_int(v->range->start + (int64_t)it->pos++ * v->range->step, v->origin);
		return 1;
	case KP_TV_STR:
		return next_char(I, it, ret);
	case KP_TV_GEN: {
		return next_of_gen(I, v->gen, ret);
	}
	default:
		return 0; /* UNDEF: empty */
	}
}

int64_t kp_tv_len(struct kp_interp *I, const struct kp_tv *v)
{
	int64_t n;
	switch (v->type) {
	case KP_TV_UNDEF:
		return 0;
	case KP_TV_STR:
		kp_tpl_spend_bytes(I, v->n);
		return (int64_t)kp_tpl_cp_count(kp_tv_bytes(v));
	case KP_TV_LIST:
	case KP_TV_TUPLE:
		return v->n;
	case KP_TV_DICT:
		return kp_tv_dict_n(v);
	case KP_TV_VIEW:
		return kp_tv_dict_n(v->of);
	case KP_TV_RANGE:
		return v->range->len;
	case KP_TV_LOOP:
		return kp_tpl_loop_len(I, v->loop, &n) ? -1 : n;
	default:
		return -1;
	}
}

int kp_tpl_list_new(struct kp_interp *I, enum kp_tv_type type, const struct kp_tv *items,
	uint32_t n, struct kp_tv *ret)
{
	struct kp_tv *p = n ? kp_tpl_alloc(I, n, sizeof(*p)) : NULL;
	if (n && !p) {
		return -1;
	}
	if (n) {
		memcpy(p, items, n * sizeof(*p));
	}
	*ret = (struct kp_tv){ .type = (uint8_t)type, .n = n, .items = p };
	return 0;
}

int kp_tpl_collect(
	struct kp_interp *I, const struct kp_tv *v, struct kp_tv **ret_items, uint32_t *ret_n)
{
	struct kp_tpl_iter it;
	int64_t known = v->type == KP_TV_STR || v->type == KP_TV_LOOP ? -1 : kp_tv_len(I, v);
	uint32_t n = 0, cap = known > 0 ? (uint32_t)known : 8;
	struct kp_tv item, *items;
	int r;
	if (kp_tpl_iter_init(I, v, &it) || !(items = kp_tpl_alloc(I, cap, sizeof(*items)))) {
		return -1;
	}
	while ((r = kp_tpl_iter_next(I, &it, &item)) > 0) {
		if (n == cap) {
			struct kp_tv *grown = kp_arena_grow(I->a, items, cap * sizeof(*items),
				(size_t)cap * 2 * sizeof(*items));
			if (!grown || cap > UINT32_MAX / 4) {
				return kp_tpl_fail_memory(I);
			}
			items = grown;
			cap *= 2;
		}
		items[n++] = item;
	}
	*ret_items = items;
	*ret_n = n;
	return r;
}

int kp_tpl_gen_new(struct kp_interp *I,
	int (*next)(struct kp_interp *, struct kp_tpl_gen *, struct kp_tv *), const struct kp_tv *x,
	const struct kp_tpl_args *args, struct kp_tpl_gen **ret_gen, struct kp_tv *ret)
{
	struct kp_tpl_gen *g = kp_tpl_alloc(I, 1, sizeof(*g));
	if (!g) {
		return -1;
	}
	*g = (struct kp_tpl_gen){ .next = next, .type_name = "generator", .x = *x, .born = I->ask };
	if (args) {
		struct kp_tv *pos = kp_tpl_alloc(I, args->n_pos, sizeof(*pos));
		struct kp_tpl_kw *kw = kp_tpl_alloc(I, args->n_kw, sizeof(*kw));
		if (!pos || !kw) {
			return -1;
		}
		memcpy(pos, args->n_pos ? args->pos : pos, args->n_pos * sizeof(*pos));
		memcpy(kw, args->n_kw ? args->kw : kw, args->n_kw * sizeof(*kw));
		g->args = (struct kp_tpl_args){
			.pos = pos, .n_pos = args->n_pos, .kw = kw, .n_kw = args->n_kw
		};
	}
	*ret_gen = g;
	*ret = (struct kp_tv){ .type = KP_TV_GEN, .origin = x->origin, .gen = g };
	return 0;
}

static int next_reversed(struct kp_interp *I, struct kp_tpl_gen *g, struct kp_tv *ret)
{
	if (g->i <= 0) {
		return 0;
	}
	g->it = (struct kp_tpl_iter){ .src = g->x, .pos = (uint64_t)--g->i };
	return kp_tpl_iter_next(I, &g->it, ret);
}

int kp_tpl_reversed(struct kp_interp *I, const struct kp_tv *v, struct kp_tv *ret)
{
	struct kp_tpl_gen *g;
	switch (v->type) {
	case KP_TV_LIST:
	case KP_TV_TUPLE:
	case KP_TV_DICT:
	case KP_TV_VIEW:
	case KP_TV_RANGE:
	case KP_TV_UNDEF: /* has a length, 0 */
		break;
	default:
		return -1;
	}
	if (kp_tpl_gen_new(I, next_reversed, v, NULL, &g, ret)) {
		return -1;
	}
	static const char *const views[] = { [KP_VIEW_KEYS] = "dict_reversekeyiterator",
		[KP_VIEW_VALUES] = "dict_reversevalueiterator",
		[KP_VIEW_ITEMS] = "dict_reverseitemiterator" };
	g->type_name = v->type == KP_TV_LIST    ? "list_reverseiterator"
		       : v->type == KP_TV_TUPLE ? "reversed"
		       : v->type == KP_TV_UNDEF ? "reversed"
		       : v->type == KP_TV_RANGE ? "range_iterator"
		       : v->type == KP_TV_DICT  ? views[KP_VIEW_KEYS]
						: views[v->sub];
	g->i = kp_tv_len(I, v);
	return 0;
}

/* DESIGN: for loops and the special variable `loop`. A loop reads its elements one by one from a source, which applies the
   loop's own `if` lazily, as the generator that jinja2 writes for it does. Only a body that uses `loop` pays for one
   (KP_NF_EXTENDED): it looks one element ahead for `last` and `nextitem`, and reads to the end when a length is asked that the
   iterable does not know. A recursive loop is a function that returns its text. */
#include "template/exec.h"
#include "template/rounds.h"

/* What the loop's filter yields: the target again, built from what was unpacked. */
static int target_value(
	struct kp_interp *I, struct kp_act *act, const struct kp_node *target, struct kp_tv *ret)
{
	if (target->op == KP_OP_NAME) {
		*ret = *kp_tpl_slot(act, target->ref);
		return 0;
	}
	struct kp_tv *items = kp_tpl_alloc(I, target->n, sizeof(*items));
	if (!items) {
		return -1;
	}
	for (uint32_t i = 0; i < target->n; i++) {
		if (target_value(I, act, target->items[i], &items[i])) {
			return -1;
		}
	}
	*ret = (struct kp_tv){ .type = KP_TV_TUPLE, .n = target->n, .items = items };
	return 0;
}

static int source_next(struct kp_interp *I, struct kp_tpl_source *s, struct kp_tv *ret)
{
	struct kp_tv ok;
	int r;
	if (KP_LIKELY(!s->loop)) {
		r = kp_tpl_iter_next(I, &s->it, ret);
		if (KP_UNLIKELY(s->rest) && I->note && r >= 0) {
			kp_tpl_note_rest(I, s, r ? ret : NULL);
		}
		return r;
	}
	if (!s->entered) {
		s->entered = true;
		kp_tpl_enter(I, &s->test, s->loop->frame3);
	}
	while ((r = kp_tpl_iter_next(I, &s->it, ret)) > 0) {
		if (kp_tpl_assign(I, &s->test, s->loop->items[2], ret) ||
			kp_tpl_eval(I, &s->test, s->loop->items[1], &ok)) {
			return -1;
		}
		if (kp_tv_truth(&ok)) {
			return target_value(I, &s->test, s->loop->items[2], ret) ? -1 : 1;
		}
	}
	return r;
}

/* The next element of an extended loop, without moving on. */
static int loop_peek(struct kp_interp *I, struct kp_tpl_loop *l, struct kp_tv *ret)
{
	if (l->has_rest) {
		*ret = l->rest_pos < l->n_rest ? l->rest[l->rest_pos] : (struct kp_tv){ 0 };
		return l->rest_pos < l->n_rest;
	}
	if (l->after.type == KP_TV_MISSING && !l->ended) {
		int r = source_next(I, l->source, &l->after);
		if (r <= 0) {
			l->ended = true;
			l->after.type = KP_TV_MISSING;
			return r;
		}
	}
	*ret = l->after;
	return l->after.type != KP_TV_MISSING;
}

static int loop_next(struct kp_interp *I, struct kp_tpl_loop *l, struct kp_tv *ret)
{
	int r = loop_peek(I, l, ret);
	if (r > 0) {
		l->rest_pos += l->has_rest;
		l->after.type = KP_TV_MISSING;
		l->index0++;
		l->before = l->current;
		l->current = *ret;
	}
	return r;
}

int kp_tpl_loop_len(struct kp_interp *I, struct kp_tpl_loop *l, int64_t *ret)
{
	if (l->source->rest) {
		kp_tpl_note_bad(I);
	}
	if (l->length < 0 && !l->source->loop && l->iterable.type != KP_TV_GEN) {
		l->length = kp_tv_len(I, &l->iterable);
	}
	if (l->length < 0) { /* reads to the end */
		struct kp_tv v, *rest = NULL;
		uint32_t n = 0, cap = 0;
		int r;
		while ((r = loop_peek(I, l, &v)) > 0) {
			if (n == cap) {
				cap = cap ? cap * 2 : 16;
				rest = kp_arena_grow(
					I->a, rest, n * sizeof(*rest), cap * sizeof(*rest));
				if (!rest) {
					return kp_tpl_fail_memory(I);
				}
			}
			rest[n++] = v;
			l->after.type = KP_TV_MISSING;
		}
		if (r < 0) {
			return -1;
		}
		l->has_rest = true;
		l->rest = rest;
		l->n_rest = n;
		l->length = l->index0 + 1 + n;
	}
	*ret = l->length;
	return 0;
}

enum kp_loop_attr kp_tpl_loop_attr_id(kp_str name)
{
	static const char *const names[] = { "index", "index0", "first", "last", "length",
		"revindex", "revindex0", "previtem", "nextitem", "depth", "depth0" };
	for (size_t i = 0; i < KP_LEN(names); i++) {
		if (kp_str_eq(name, kp_str_c(names[i]))) {
			return (enum kp_loop_attr)(KP_LOOP_INDEX + i);
		}
	}
	return KP_LOOP_NONE;
}

int kp_tpl_loop_get(
	struct kp_interp *I, struct kp_tpl_loop *l, enum kp_loop_attr attr, struct kp_tv *ret)
{
	int64_t n = 0;
	int r = 0;
	if (attr >= KP_LOOP_LENGTH && attr <= KP_LOOP_REVINDEX0 && kp_tpl_loop_len(I, l, &n)) {
		return -1;
	}
	switch ((int)attr) {
	case KP_LOOP_FIRST:
		*ret = kp_tv_bool(l->index0 == 0);
		return 0;
	case KP_LOOP_LAST:
		r = loop_peek(I, l, ret);
		*ret = kp_tv_bool(r == 0);
		return r < 0 ? -1 : 0;
	case KP_LOOP_PREVITEM:
		*ret = l->index0 > 0
			       ? l->before
			       : kp_tv_undef(KP_UNDEF_HINT, KP_S("there is no previous item"));
		return 0;
	case KP_LOOP_NEXTITEM:
		r = loop_peek(I, l, ret);
		if (r == 0) {
			*ret = kp_tv_undef(KP_UNDEF_HINT, KP_S("there is no next item"));
		}
		return r < 0 ? -1 : 0;
	case KP_LOOP_INDEX:
	case KP_LOOP_INDEX0:
		n = l->index0 + (attr == KP_LOOP_INDEX);
		break;
	case KP_LOOP_REVINDEX:
	case KP_LOOP_REVINDEX0:
		n -= l->index0 + (attr == KP_LOOP_REVINDEX0);
		break;
	case KP_LOOP_DEPTH:
	case KP_LOOP_DEPTH0:
		n = l->depth0 + (attr == KP_LOOP_DEPTH);
		break;
	default: /* length */
		break;
	}
	*ret = kp_tv_int(n, KP_ORIGIN_TRUSTED);
	return 0;
}

int kp_tpl_loop_attr(struct kp_interp *I, const struct kp_tv *v, kp_str name, struct kp_tv *ret)
{
	enum kp_loop_attr attr = kp_tpl_loop_attr_id(name);
	return attr == KP_LOOP_NONE ? 0 : kp_tpl_loop_get(I, v->loop, attr, ret) ? -1 : 1;
}

static int source_init(struct kp_interp *I, struct kp_act *act, const struct kp_node *n,
	const struct kp_tv *iterable, struct kp_tpl_source *s)
{
	*s = (struct kp_tpl_source){ .loop = n->items[1] ? n : NULL };
	if (kp_tpl_iter_init(I, iterable, &s->it)) {
		return -1;
	}
	if (I->note && (n->flags & KP_NF_PART) && kp_tpl_note_slice(I, act, n->b, s)) {
		return -1;
	}
	/* The filter is written beside the loop, so its function's parent is the one around a recursive loop's own. */
	struct kp_act *parent = n->flags & KP_NF_RECURSIVE ? act->parent : act;
	return s->loop ? kp_tpl_act_new(I, parent, n->frame3->n_slots, &s->test) : 0;
}

static int loop_new(struct kp_interp *I, struct kp_act *act, const struct kp_node *n,
	const struct kp_tv *iterable, int64_t depth0, struct kp_tpl_source *local,
	struct kp_tpl_loop **ret)
{
	struct kp_tpl_loop *l = kp_tpl_alloc(I, 1, sizeof(*l));
	struct kp_tpl_source *s = kp_tpl_alloc(I, 1, sizeof(*s));
	if (!l || !s) {
		return -1;
	}
	*s = *local; /* the loop variable may outlive the loop */
	*l = (struct kp_tpl_loop){ .source = s,
		.iterable = *iterable,
		.index0 = -1,
		.length = -1,
		.depth0 = depth0,
		.node = n->flags & KP_NF_RECURSIVE ? n : NULL,
		.parent = act->parent };
	*ret = l;
	return 0;
}

/* Behind a round of a loop with a latch: would the others do nothing? 1, 0, -1. What is iterated over must be nobody's who would go on with it. */
static int is_over(struct kp_interp *I, struct kp_act *act, const struct kp_node *n,
	const struct kp_tv *iterable)
{
	if (iterable->type != KP_TV_LIST && iterable->type != KP_TV_RANGE) {
		return 0;
	}
	int r = kp_tpl_is_true(I, act, n->latch);
	return r < 0 ? r : !r;
}

/* Runs the loop's body over the elements. `act` holds the loop's variables. */
static int run_loop(struct kp_interp *I, struct kp_act *act, const struct kp_node *n,
	const struct kp_tv *iterable, int64_t depth0, enum kp_exec *ret)
{
	struct kp_tpl_source source;
	struct kp_tpl_loop *l = NULL;
	struct kp_tv item;
	struct kp_tpl_rounds rounds;
	bool ran = false, noted = I->replay && kp_tpl_rounds_of(I, n, iterable, &rounds);
	int r;
	*ret = KP_EXEC_OK;
	if (source_init(I, act, n, iterable, &source) ||
		((n->flags & KP_NF_EXTENDED) &&
			loop_new(I, act, n, iterable, depth0, &source, &l))) {
		return -1;
	}
	while ((r = l ? loop_next(I, l, &item) : source_next(I, &source, &item)) > 0) {
		if (l) {
			act->slots[n->ref.slot] = (struct kp_tv){ .type = KP_TV_LOOP, .loop = l };
		}
		if (kp_tpl_assign(I, act, n->a, &item)) {
			return -1;
		}
		enum kp_exec e;
		if (noted) {
			e = kp_tpl_round(I, act, n, &rounds, &item);
		} else {
			kp_tpl_enter(I, act, n->frame);
			e = kp_tpl_exec(I, act, n->c);
		}
		if (e == KP_EXEC_ERR) {
			return -1;
		}
		if (e == KP_EXEC_BREAK) {
			break;
		}
		/* jinja2 notes at the end of the body that it ran, so a `continue` in every round lets the else branch run. */
		ran |= e == KP_EXEC_OK;
		if (n->latch && (r = is_over(I, act, n, iterable)) != 0) {
			break;
		}
	}
	if (r < 0) {
		return -1;
	}
	if (!(n->flags & KP_NF_RECURSIVE) || n->items[0]) {
		kp_tpl_leave(act, n->frame);
	}
	if (n->items[0] && !ran) {
		kp_tpl_enter(I, act, n->frame2);
		*ret = kp_tpl_exec(I, act, n->items[0]);
		kp_tpl_leave(act, n->frame2);
	}
	return *ret == KP_EXEC_ERR ? -1 : 0;
}

/* A recursive loop is a function that returns its text. */
static int run_recursive(struct kp_interp *I, struct kp_act *parent, const struct kp_node *n,
	const struct kp_tv *iterable, int64_t depth0, struct kp_tv *ret)
{
	struct kp_tpl_buf *saved = I->out, *b;
	struct kp_act *act = kp_tpl_alloc(I, 1, sizeof(*act));
	enum kp_exec e;
	if (!act || kp_tpl_act_new(I, parent, n->loop_slots, act) || kp_tpl_buf_new(I, 0, &b)) {
		return -1;
	}
	I->out = b;
	int r = run_loop(I, act, n, iterable, depth0, &e);
	I->out = saved;
	*ret = kp_tpl_buf_value(b);
	return r;
}

int kp_tpl_loop_recurse(
	struct kp_interp *I, struct kp_tpl_loop *l, const struct kp_tv *iterable, struct kp_tv *ret)
{
	if (!l->node) {
		return kp_tpl_fail(
			I, "The loop must have the 'recursive' marker to be called recursively.");
	}
	return run_recursive(I, l->parent, l->node, iterable, l->depth0 + 1, ret);
}

enum kp_exec kp_tpl_exec_for(struct kp_interp *I, struct kp_act *act, const struct kp_node *n)
{
	struct kp_tv iterable, text;
	enum kp_exec e = KP_EXEC_OK;
	if (kp_tpl_eval(I, act, n->b, &iterable)) {
		return KP_EXEC_ERR;
	}
	if (n->flags & KP_NF_RECURSIVE) {
		return run_recursive(I, act, n, &iterable, 0, &text) ||
				       kp_tpl_buf_add_str(I, I->out, &text)
			       ? KP_EXEC_ERR
			       : KP_EXEC_OK;
	}
	return run_loop(I, act, n, &iterable, 0, &e) ? KP_EXEC_ERR : e;
}

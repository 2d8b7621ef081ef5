/* DESIGN: variables and statements. A statement prints into I->out; what captures text (a macro, a block set, a filter block, a
   recursive loop) puts its own buffer there and takes it back. break and continue are results that travel up to their loop. A
   "function" (see ast.h) has its variables in a kp_act in the arena, so that macros that outlive their surroundings still see
   them. */
#include "template/exec.h"
#include "template/rounds.h"

int kp_tpl_act_new(struct kp_interp *I, struct kp_act *parent, uint32_t n_slots, struct kp_act *ret)
{
	ret->parent = parent;
	ret->slots = kp_tpl_alloc(I, n_slots, sizeof(*ret->slots));
	if (!ret->slots) {
		return -1;
	}
	memset(ret->slots, 0, n_slots * sizeof(*ret->slots)); /* MISSING */
	return 0;
}

void kp_tpl_enter(struct kp_interp *I, struct kp_act *act, const struct kp_frame *f)
{
	for (uint32_t i = 0; i < f->n_loads; i++) {
		const struct kp_load *l = &f->loads[i];
		struct kp_tv *slot = &act->slots[l->slot];
		if (l->action == KP_LOAD_PARAM) {
			continue;
		}
		*slot = l->has_from ? *kp_tpl_slot(act, l->from)
				    : (struct kp_tv){ .type = KP_TV_MISSING };
		if (l->action == KP_LOAD_CONTEXT && slot->type == KP_TV_MISSING) {
			*slot = I->context[l->context];
		}
		if (KP_UNLIKELY(I->note) && l->asked) {
			kp_tpl_note_load(I, l, slot);
		}
	}
}

void kp_tpl_leave(struct kp_act *act, const struct kp_frame *f)
{
	for (uint32_t i = 0; i < f->n_loads; i++) {
		act->slots[f->loads[i].slot] = (struct kp_tv){ .type = KP_TV_MISSING };
	}
}

static int assign_namespace(struct kp_interp *I, struct kp_act *act, const struct kp_node *target,
	const struct kp_tv *v)
{
	struct kp_tv *ns = kp_tpl_slot(act, target->ref),
		     key = kp_tv_str(target->attr, KP_ORIGIN_TRUSTED);
	if (ns->type != KP_TV_NS) {
		return kp_tpl_fail(I, "cannot assign attribute on non-namespace object");
	}
	if (key.n && key.s[0] == '_') {
		return kp_tpl_fail(I, "underscore-prefixed attribute '%" KP_FMT "' on a namespace",
			KP_ARG(target->attr));
	}
	if (I->note && (target->flags & KP_NF_OUTER)) {
		kp_tpl_note_store(I, target, ns, v);
	}
	return kp_tpl_dict_set(I, ns->dict, &key, v);
}

int kp_tpl_assign(struct kp_interp *I, struct kp_act *act, const struct kp_node *target,
	const struct kp_tv *v)
{
	if (KP_LIKELY(target->op == KP_OP_NAME)) {
		*kp_tpl_slot(act, target->ref) = *v;
		return 0;
	}
	if (target->op == KP_OP_NSREF) {
		return assign_namespace(I, act, target, v);
	}
	struct kp_tpl_iter it;
	struct kp_tv item;
	int r;
	if (kp_tpl_iter_init(I, v, &it)) {
		return -1;
	}
	struct kp_tv *items = kp_tpl_alloc(I, target->n, sizeof(*items));
	uint32_t n = 0;
	if (!items) {
		return -1;
	}
	while ((r = kp_tpl_iter_next(I, &it, &item)) > 0) {
		if (n == target->n) {
			return kp_tpl_fail(I, "too many values to unpack (expected %u)", target->n);
		}
		items[n++] = item;
	}
	if (r < 0 || n < target->n) {
		return r < 0 ? -1
			     : kp_tpl_fail(I, "not enough values to unpack (expected %u, got %u)",
				       target->n, n);
	}
	for (uint32_t i = 0; i < n; i++) {
		if (kp_tpl_assign(I, act, target->items[i], &items[i])) {
			return -1;
		}
	}
	return 0;
}

/* --- statements ---------------------------------------------------------------------------------------------------------------------- */

static enum kp_exec exec_output(struct kp_interp *I, struct kp_act *act, const struct kp_node *n)
{
	for (uint32_t i = 0; i < n->n; i++) {
		I->line = n->items[i]->line;
		if (kp_tpl_emit(I, act, n->items[i])) {
			return KP_EXEC_ERR;
		}
	}
	return KP_EXEC_OK;
}

static enum kp_exec exec_if(struct kp_interp *I, struct kp_act *act, const struct kp_node *n)
{
	int r = kp_tpl_is_true(I, act, n->a);
	if (r) {
		return r < 0 ? KP_EXEC_ERR : kp_tpl_exec(I, act, n->b);
	}
	for (uint32_t i = 0; i < n->n; i++) {
		const struct kp_node *elif = n->items[i];
		I->line = elif->line;
		r = kp_tpl_is_true(I, act, elif->a);
		if (r) {
			return r < 0 ? KP_EXEC_ERR : kp_tpl_exec(I, act, elif->b);
		}
	}
	return n->c ? kp_tpl_exec(I, act, n->c) : KP_EXEC_OK;
}

static enum kp_exec exec_set(struct kp_interp *I, struct kp_act *act, const struct kp_node *n)
{
	struct kp_tv v;
	if (n->a->op == KP_OP_NSREF &&
		kp_tpl_slot(act, n->a->ref)->type != KP_TV_NS) { /* before the value is computed */
		kp_tpl_fail(I, "cannot assign attribute on non-namespace object");
		return KP_EXEC_ERR;
	}
	return kp_tpl_eval(I, act, n->b, &v) || kp_tpl_assign(I, act, n->a, &v) ? KP_EXEC_ERR
										: KP_EXEC_OK;
}

/* Block set and filter block: the body's text in its own scope, through the filters. */
static enum kp_exec exec_capture(struct kp_interp *I, struct kp_act *act, const struct kp_node *n)
{
	struct kp_tpl_buf *saved = I->out, *b;
	const struct kp_node *filters = n->op == KP_OP_SETBLOCK ? n->b : n->a;
	struct kp_tv v;
	if (kp_tpl_buf_new(I, 0, &b)) {
		return KP_EXEC_ERR;
	}
	kp_tpl_enter(I, act, n->frame);
	I->out = b;
	enum kp_exec e = kp_tpl_exec(I, act, n->c);
	I->out = saved;
	if (e != KP_EXEC_OK) {
		return e;
	}
	v = kp_tpl_buf_value(b);
	if (filters && kp_tpl_eval_filters(I, act, filters, &v, &v)) {
		return KP_EXEC_ERR;
	}
	if (n->op == KP_OP_SETBLOCK ? kp_tpl_assign(I, act, n->a, &v) : kp_tpl_print_block(I, &v)) {
		return KP_EXEC_ERR;
	}
	kp_tpl_leave(act, n->frame);
	return KP_EXEC_OK;
}

static enum kp_exec exec_with(struct kp_interp *I, struct kp_act *act, const struct kp_node *n)
{
	struct kp_tv v;
	kp_tpl_enter(I, act, n->frame);
	for (uint32_t i = 0; i < n->n; i += 2) {
		if (kp_tpl_eval(I, act, n->items[i + 1], &v) ||
			kp_tpl_assign(I, act, n->items[i], &v)) {
			return KP_EXEC_ERR;
		}
	}
	enum kp_exec e = kp_tpl_exec(I, act, n->c);
	kp_tpl_leave(act, n->frame);
	return e;
}

static enum kp_exec exec_block(struct kp_interp *I, struct kp_act *act, const struct kp_node *n)
{
	if (n->flags & KP_NF_SCOPED) {
		kp_tpl_enter(I, act, n->frame);
		enum kp_exec e = kp_tpl_exec(I, act, n->c);
		kp_tpl_leave(act, n->frame);
		return e;
	}
	struct kp_act *own = kp_tpl_alloc(I, 1, sizeof(*own));
	if (!own || kp_tpl_act_new(I, I->root, n->frame2->n_slots, own)) {
		return KP_EXEC_ERR;
	}
	kp_tpl_enter(I, own, n->frame2);
	return kp_tpl_exec(I, own, n->c);
}

static enum kp_exec exec_seq(struct kp_interp *I, struct kp_act *act, const struct kp_node *n)
{
	for (uint32_t i = 0; i < n->n; i++) {
		enum kp_exec e = kp_tpl_exec(I, act, n->items[i]);
		if (e != KP_EXEC_OK) {
			return e;
		}
	}
	return KP_EXEC_OK;
}

static enum kp_exec exec_one(struct kp_interp *I, struct kp_act *act, const struct kp_node *n)
{
	switch (n->op) {
	case KP_OP_OUTPUT:
		return exec_output(I, act, n);
	case KP_OP_IF:
		return exec_if(I, act, n);
	case KP_OP_FOR:
		return kp_tpl_exec_for(I, act, n);
	case KP_OP_SET:
		return exec_set(I, act, n);
	case KP_OP_SETBLOCK:
	case KP_OP_FILTERBLOCK:
		return exec_capture(I, act, n);
	case KP_OP_MACRO:
		return kp_tpl_exec_macro(I, act, n);
	case KP_OP_CALLBLOCK:
		return kp_tpl_exec_call_block(I, act, n);
	case KP_OP_WITH:
		return exec_with(I, act, n);
	case KP_OP_BLOCK:
		return exec_block(I, act, n);
	case KP_OP_BREAK:
		return KP_EXEC_BREAK;
	case KP_OP_CONTINUE:
		return KP_EXEC_CONTINUE;
	default:
		return exec_seq(I, act, n);
	}
}

enum kp_exec kp_tpl_exec(struct kp_interp *I, struct kp_act *act, const struct kp_node *n)
{
	if (KP_UNLIKELY(I->depth >= KP_TPL_MAX_DEPTH)) {
		kp_tpl_fail_depth(I);
		return KP_EXEC_ERR;
	}
	if (kp_tpl_charge(I, 1)) {
		return KP_EXEC_ERR;
	}
	while (n->op == KP_OP_SEQ && n->n == 1) {
		n = n->items[0];
	}
	I->depth++;
	I->line = n->line;
	enum kp_exec e = exec_one(I, act, n);
	I->depth--;
	return e;
}

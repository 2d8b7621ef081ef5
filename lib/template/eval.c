/* DESIGN: expressions. One recursive function over the tree; every evaluated node takes a step from the budget, and the depth of the C stack is
   counted (KP_TPL_MAX_DEPTH), since macros recurse. Rare or bulky cases are in functions of their own to keep the frame of the
   recursion small. kp_tpl_emit prints an expression without building what `+` and `~` would join first: a text that is only printed is
   copied once. */
#include "template/exec.h"
#include "template/rounds.h"

static int eval_compare(
	struct kp_interp *I, struct kp_act *act, const struct kp_node *n, struct kp_tv *ret);

/* Is what the node asks for just a member of a JSON object? */
static inline bool is_json(const struct kp_tv *obj, const struct kp_node *n)
{
	return obj->type == KP_TV_DICT && (obj->flags & KP_TVF_JV) && !n->dict_method &&
	       !(n->flags & KP_NF_DUNDER);
}

/* A variable's attribute: a member of a JSON object, as a message's mostly is, of a namespace or of `loop`; else through kp_tpl_eval. */
static int eval_member(
	struct kp_interp *I, struct kp_act *act, const struct kp_node *n, struct kp_tv *ret)
{
	const struct kp_tv *obj = kp_tpl_slot(act, n->a->ref);
	if (obj->type == KP_TV_LOOP && n->n_ops) {
		return kp_tpl_charge(I, 1)
			       ? -1
			       : kp_tpl_loop_get(I, obj->loop, (enum kp_loop_attr)n->n_ops, ret);
	}
	if (obj->type == KP_TV_NS && n->attr.p[0] != '_' && kp_tv_dict_get_str(obj, n->attr, ret)) {
		return kp_tpl_charge(I, 1);
	}
	if (!is_json(obj, n)) {
		return kp_tpl_eval(I, act, n, ret);
	}
	for (uint32_t i = 0; i < obj->n; i++) {
		const struct kp_jmember *m = &obj->jmembers[i];
		if (kp_str_eq_name(m->key, n->attr)) {
			*ret = m->value.type == KP_JSON_STRING
				       ? kp_tv_str(m->value.s, obj->origin)
				       : kp_tv_from_jv(&m->value, obj->origin);
			return kp_tpl_charge(I, 1 + i / 16);
		}
	}
	*ret = kp_tpl_undef_attr(obj, n->attr);
	return kp_tpl_charge(I, 1 + obj->n / 16);
}

/* A variable that no scope stores. */
static inline void eval_context(struct kp_interp *I, const struct kp_node *n, struct kp_tv *ret)
{
	*ret = I->context[n->ref.slot];
	if (KP_UNLIKELY(ret->type == KP_TV_MISSING)) {
		*ret = kp_tv_undef(KP_UNDEF_NAME, n->name);
	}
}

/* Leaves without a call; everything else through kp_tpl_eval. */
static inline int eval(
	struct kp_interp *I, struct kp_act *act, const struct kp_node *n, struct kp_tv *ret)
{
	if (KP_UNLIKELY(n->op == KP_OP_ASK)) {
		if (KP_UNLIKELY(I->note)) {
			return kp_tpl_note_ask(I, act, n, ret);
		}
		n = n->a;
	}
	if (n->op == KP_OP_CONST) {
		*ret = n->k;
		return 0;
	}
	if (n->op == KP_OP_GETATTR && n->a->op == KP_OP_NAME) {
		return eval_member(I, act, n, ret);
	}
	if (n->op == KP_OP_NAME) {
		*ret = *kp_tpl_slot(act, n->ref);
		if (KP_UNLIKELY(ret->type == KP_TV_MISSING)) {
			*ret = kp_tv_undef(KP_UNDEF_NAME, n->name);
		}
		return 0;
	}
	if (n->op == KP_OP_CONTEXT) {
		eval_context(I, n, ret);
		return 0;
	}
	return kp_tpl_eval(I, act, n, ret);
}

static int eval_items(
	struct kp_interp *I, struct kp_act *act, const struct kp_node *n, struct kp_tv *ret)
{
	struct kp_tv *items = kp_tpl_alloc(I, n->n, sizeof(*items));
	if (!items) {
		return -1;
	}
	for (uint32_t i = 0; i < n->n; i++) {
		if (eval(I, act, n->items[i], &items[i])) {
			return -1;
		}
	}
	*ret = (struct kp_tv){
		.type = n->op == KP_OP_LIST ? KP_TV_LIST : KP_TV_TUPLE, .n = n->n, .items = items
	};
	return 0;
}

static int eval_dict(
	struct kp_interp *I, struct kp_act *act, const struct kp_node *n, struct kp_tv *ret)
{
	struct kp_tpl_dict *d;
	if (kp_tpl_dict_new(I, n->n / 2, &d)) {
		return -1;
	}
	for (uint32_t i = 0; i < n->n; i += 2) {
		struct kp_tv k, v;
		if (eval(I, act, n->items[i], &k) || eval(I, act, n->items[i + 1], &v) ||
			kp_tpl_dict_set(I, d, &k, &v)) {
			return -1;
		}
	}
	*ret = (struct kp_tv){ .type = KP_TV_DICT, .dict = d };
	return 0;
}

static int eval_slice(
	struct kp_interp *I, struct kp_act *act, const struct kp_node *n, struct kp_tv *ret)
{
	struct kp_tv obj, bounds[3];
	if (eval(I, act, n->a, &obj)) {
		return -1;
	}
	for (uint32_t i = 0; i < 3; i++) {
		bounds[i] = kp_tv_none();
		if (n->items[i] && eval(I, act, n->items[i], &bounds[i])) {
			return -1;
		}
	}
	return kp_tpl_slice(I, &obj, bounds, ret);
}

/* a + b + c from the left. */
static int eval_sum(
	struct kp_interp *I, struct kp_act *act, const struct kp_node *n, struct kp_tv *ret)
{
	struct kp_tv acc, v;
	if (eval(I, act, n->items[0], &acc)) {
		return -1;
	}
	for (uint32_t i = 1; i < n->n; i++) {
		if (eval(I, act, n->items[i], &v) || kp_tpl_binary(I, KP_OP_ADD, &acc, &v, &acc)) {
			return -1;
		}
	}
	*ret = acc;
	return 0;
}

/* All parts are evaluated before any is joined in jinja2, but joining has no effect that could be seen. */
static int eval_concat(
	struct kp_interp *I, struct kp_act *act, const struct kp_node *n, struct kp_tv *ret)
{
	struct kp_tv acc = kp_tv_str(KP_S(""), KP_ORIGIN_TRUSTED), v;
	for (uint32_t i = 0; i < n->n; i++) {
		if (eval(I, act, n->items[i], &v) || kp_tpl_to_str(I, &v, &v) ||
			kp_tpl_str_concat(I, &acc, &v, &acc)) {
			return -1;
		}
	}
	*ret = acc;
	return 0;
}

static int eval_binary(
	struct kp_interp *I, struct kp_act *act, const struct kp_node *n, struct kp_tv *ret)
{
	struct kp_tv a, b;
	if (eval(I, act, n->a, &a) || eval(I, act, n->b, &b)) {
		return -1;
	}
	return kp_tpl_binary(I, n->op, &a, &b, ret);
}

static int eval_getattr(
	struct kp_interp *I, struct kp_act *act, const struct kp_node *n, struct kp_tv *ret)
{
	struct kp_tv obj;
	if (eval(I, act, n->a, &obj)) {
		return -1;
	}
	if (KP_LIKELY(obj.type == KP_TV_DICT && !n->dict_method && !(n->flags & KP_NF_DUNDER))) {
		if (!kp_tv_dict_get_str(&obj, n->attr, ret)) {
			*ret = kp_tpl_undef_attr(&obj, n->attr);
		}
		return kp_tpl_charge_lookup(I, &obj);
	}
	if (obj.type == KP_TV_LOOP && n->n_ops) {
		return kp_tpl_loop_get(I, obj.loop, (enum kp_loop_attr)n->n_ops, ret);
	}
	return kp_tpl_getattr(I, &obj, n->attr, ret);
}

static int eval_getitem(
	struct kp_interp *I, struct kp_act *act, const struct kp_node *n, struct kp_tv *ret)
{
	struct kp_tv obj, key;
	bool noted = I->note && (n->flags & KP_NF_PART);
	if ((noted ? kp_tpl_answer(I, act, n, &obj) : eval(I, act, n->a, &obj)) ||
		eval(I, act, n->b, &key)) {
		return -1;
	}
	if (key.type == KP_TV_STR && obj.type == KP_TV_DICT &&
		kp_tv_dict_get_str(&obj, kp_tv_bytes(&key), ret)) {
		if (kp_tpl_charge_lookup(I, &obj)) {
			return -1;
		}
	} else if (kp_tpl_getitem(I, &obj, &key, ret)) {
		return -1;
	}
	if (noted) {
		kp_tpl_note_item(I, n, &obj, &key, ret);
	}
	return 0;
}

static int eval_filter(
	struct kp_interp *I, struct kp_act *act, const struct kp_node *n, struct kp_tv *ret)
{
	struct kp_tv x;
	struct kp_tpl_args args;
	if (!n->def) {
		return kp_tpl_fail(I, "no %s named `%" KP_FMT "` found",
			n->op == KP_OP_FILTER ? "filter" : "test", KP_ARG(n->name));
	}
	if (eval(I, act, n->a, &x) || kp_tpl_eval_args(I, act, n->call, NULL, &args)) {
		return -1;
	}
	return kp_tpl_invoke(I, n->def, &x, &args, ret);
}

static int eval_logic(
	struct kp_interp *I, struct kp_act *act, const struct kp_node *n, struct kp_tv *ret)
{
	if (eval(I, act, n->a, ret)) {
		return -1;
	}
	return kp_tv_truth(ret) == (n->op == KP_OP_OR) ? 0 : eval(I, act, n->b, ret);
}

static int eval_cond(
	struct kp_interp *I, struct kp_act *act, const struct kp_node *n, struct kp_tv *ret)
{
	if (eval(I, act, n->a, ret)) {
		return -1;
	}
	if (kp_tv_truth(ret)) {
		return eval(I, act, n->b, ret);
	}
	if (n->c) {
		return eval(I, act, n->c, ret);
	}
	*ret = kp_tv_undef(KP_UNDEF_HINT,
		KP_S("the inline if-expression evaluated to false and no else section was defined."));
	return 0;
}

static int eval_unary(
	struct kp_interp *I, struct kp_act *act, const struct kp_node *n, struct kp_tv *ret)
{
	if (eval(I, act, n->a, ret)) {
		return -1;
	}
	if (n->op == KP_OP_NOT) {
		*ret = kp_tv_bool(!kp_tv_truth(ret));
		return 0;
	}
	struct kp_tv v = *ret;
	return kp_tpl_unary(I, n->op, &v, ret);
}

static inline bool is_leaf(const struct kp_node *n)
{
	return n->op == KP_OP_CONST || n->op == KP_OP_NAME || n->op == KP_OP_CONTEXT;
}

int kp_tpl_eval(struct kp_interp *I, struct kp_act *act, const struct kp_node *n, struct kp_tv *ret)
{
	int r;
	if (n->op == KP_OP_ASK) {
		if (KP_UNLIKELY(I->note)) { /* what is asked comes here again, but for a leaf */
			return is_leaf(n->a) && kp_tpl_charge(I, 1)
				       ? -1
				       : kp_tpl_note_ask(I, act, n, ret);
		}
		n = n->a;
	}
	if (kp_tpl_charge(I, 1)) {
		return -1;
	}
	if (is_leaf(n)) {
		return eval(I, act, n, ret);
	}
	if (KP_UNLIKELY(I->depth >= KP_TPL_MAX_DEPTH)) {
		return kp_tpl_fail_depth(I);
	}
	I->depth++;
	switch (n->op) {
	case KP_OP_GETATTR:
		r = eval_getattr(I, act, n, ret);
		break;
	case KP_OP_GETITEM:
		r = eval_getitem(I, act, n, ret);
		break;
	case KP_OP_SLICE:
		r = eval_slice(I, act, n, ret);
		break;
	case KP_OP_CALL:
		r = kp_tpl_eval_call(I, act, n, NULL, ret);
		break;
	case KP_OP_FILTER:
	case KP_OP_TEST:
		r = eval_filter(I, act, n, ret);
		break;
	case KP_OP_NOT:
	case KP_OP_NEG:
	case KP_OP_POS:
		r = eval_unary(I, act, n, ret);
		break;
	case KP_OP_AND:
	case KP_OP_OR:
		r = eval_logic(I, act, n, ret);
		break;
	case KP_OP_COND:
		r = eval_cond(I, act, n, ret);
		break;
	case KP_OP_COMPARE:
		r = eval_compare(I, act, n, ret);
		break;
	case KP_OP_ADD:
		r = eval_sum(I, act, n, ret);
		break;
	case KP_OP_CONCAT:
		r = eval_concat(I, act, n, ret);
		break;
	case KP_OP_LIST:
	case KP_OP_TUPLE:
		r = eval_items(I, act, n, ret);
		break;
	case KP_OP_DICT:
		r = eval_dict(I, act, n, ret);
		break;
	default:
		r = eval_binary(I, act, n, ret);
		break;
	}
	I->depth--;
	return r;
}

/* --- comparisons -------------------------------------------------------------------------------------------------------------------- */

/* 1, 0, -1 */
static int compare(struct kp_interp *I, uint8_t op, const struct kp_tv *a, const struct kp_tv *b)
{
	int r;
	switch (op) {
	case KP_CMP_EQ:
	case KP_CMP_NE:
		if (KP_LIKELY(a->type == KP_TV_STR && b->type == KP_TV_STR)) {
			kp_tpl_spend_bytes(I, a->n);
			return kp_str_eq_name(kp_tv_bytes(a), kp_tv_bytes(b)) == (op == KP_CMP_EQ);
		}
		r = kp_tv_eq(I, a, b);
		return r < 0 ? r : r == (op == KP_CMP_EQ);
	case KP_CMP_LT:
	case KP_CMP_GT:
		if (a->type == KP_TV_INT && b->type == KP_TV_INT) {
			return op == KP_CMP_LT ? a->i < b->i : a->i > b->i;
		}
		return op == KP_CMP_LT ? kp_tv_lt(I, a, b) : kp_tv_lt(I, b, a);
	case KP_CMP_LE: /* not (b < a), but a NaN is in no order */
	case KP_CMP_GE:
		r = op == KP_CMP_LE ? kp_tv_lt(I, a, b) : kp_tv_lt(I, b, a);
		return r ? r : kp_tv_eq(I, a, b);
	case KP_CMP_IN:
		return kp_tv_in(I, a, b);
	case KP_CMP_NOTIN:
	default:
		r = kp_tv_in(I, a, b);
		return r < 0 ? r : !r;
	}
}

static int eval_compare(
	struct kp_interp *I, struct kp_act *act, const struct kp_node *n, struct kp_tv *ret)
{
	struct kp_tv a, b;
	if (eval(I, act, n->items[0], &a)) {
		return -1;
	}
	for (uint32_t i = 0; i < n->n_ops; i++) {
		if (eval(I, act, n->items[i + 1], &b)) {
			return -1;
		}
		int r = compare(I, n->ops[i], &a, &b);
		if (r < 0) {
			return -1;
		}
		*ret = kp_tv_bool(r);
		if (!r) {
			return 0;
		}
		a = b;
	}
	return 0;
}

/* --- calls -------------------------------------------------------------------------------------------------------------------------- */

/* f(*list, **dict): behind the arguments that were written out. */
static int add_dynamic(struct kp_interp *I, struct kp_act *act, const struct kp_tpl_call *c,
	struct kp_tv **pos, struct kp_tpl_kw **kw, struct kp_tpl_args *ret)
{
	struct kp_tv v, *items;
	uint32_t n;
	if (c->dyn_args) {
		if (eval(I, act, c->dyn_args, &v) || kp_tpl_collect(I, &v, &items, &n)) {
			return -1;
		}
		*pos = kp_arena_grow(I->a, *pos, ret->n_pos * sizeof(**pos),
			((size_t)ret->n_pos + n) * sizeof(**pos));
		if (!*pos) {
			return kp_tpl_fail_memory(I);
		}
		memcpy(*pos + ret->n_pos, items, n * sizeof(**pos));
		ret->n_pos += n;
	}
	if (!c->dyn_kwargs) {
		return 0;
	}
	if (eval(I, act, c->dyn_kwargs, &v)) {
		return -1;
	}
	if (v.type != KP_TV_DICT) {
		return kp_tpl_fail(
			I, "argument after ** must be a mapping, not %s", kp_tv_type_name(&v));
	}
	n = kp_tv_dict_n(&v);
	*kw = kp_arena_grow(
		I->a, *kw, ret->n_kw * sizeof(**kw), ((size_t)ret->n_kw + n) * sizeof(**kw));
	if (!*kw) {
		return kp_tpl_fail_memory(I);
	}
	for (uint32_t i = 0; i < n; i++) {
		struct kp_tv key, value;
		kp_tv_dict_at(&v, i, &key, &value);
		if (key.type != KP_TV_STR) {
			return kp_tpl_fail(I, "keywords must be strings");
		}
		for (uint32_t k = 0; k < ret->n_kw; k++) {
			if (kp_str_eq((*kw)[k].name, kp_tv_bytes(&key))) {
				return kp_tpl_fail(I,
					"got multiple values for keyword argument '%" KP_FMT "'",
					KP_ARG((*kw)[k].name));
			}
		}
		(*kw)[ret->n_kw++] = (struct kp_tpl_kw){ kp_tv_bytes(&key), value };
	}
	return kp_tpl_charge(I, (uint64_t)n * ret->n_kw / 4);
}

int kp_tpl_eval_args(struct kp_interp *I, struct kp_act *act, const struct kp_tpl_call *c,
	const struct kp_tv *caller, struct kp_tpl_args *ret)
{
	*ret = (struct kp_tpl_args){ 0 };
	uint32_t n_args = c ? c->n_args : 0, n_kw = (c ? c->n_kw : 0) + (caller != NULL);
	if (!n_args && !n_kw && (!c || (!c->dyn_args && !c->dyn_kwargs))) {
		return 0;
	}
	struct kp_tv *pos = kp_tpl_alloc(I, n_args, sizeof(*pos));
	struct kp_tpl_kw *kw = n_kw ? kp_tpl_alloc(I, n_kw, sizeof(*kw)) : NULL;
	if (!pos || (n_kw && !kw)) {
		return -1;
	}
	for (uint32_t i = 0; i < n_args; i++) {
		if (eval(I, act, c->args[i], &pos[i])) {
			return -1;
		}
	}
	ret->n_pos = n_args;
	for (uint32_t i = 0; c && i < c->n_kw; i++) {
		kw[i].name = c->kw_names[i];
		if (eval(I, act, c->kw_values[i], &kw[i].v)) {
			return -1;
		}
		ret->n_kw++;
	}
	if (caller) {
		kw[ret->n_kw++] = (struct kp_tpl_kw){ KP_S("caller"), *caller };
	}
	if (c && (c->dyn_args || c->dyn_kwargs) && add_dynamic(I, act, c, &pos, &kw, ret)) {
		return -1;
	}
	ret->pos = pos;
	ret->kw = kw;
	return 0;
}

/* --- conditions --------------------------------------------------------------------------------------------------------------------- */

static int is_true(struct kp_interp *I, struct kp_act *act, const struct kp_node *n);

/* NOT, AND, OR: what is asked is whether it is true, so its value is not made. */
static int logic_is_true(struct kp_interp *I, struct kp_act *act, const struct kp_node *n)
{
	if (kp_tpl_charge(I, 1)) {
		return -1;
	}
	if (KP_UNLIKELY(I->depth >= KP_TPL_MAX_DEPTH)) {
		return kp_tpl_fail_depth(I);
	}
	I->depth++;
	int r = is_true(I, act, n->a);
	if (n->op == KP_OP_NOT) {
		r = r < 0 ? r : !r;
	} else if (r == (n->op == KP_OP_AND)) {
		r = is_true(I, act, n->b);
	}
	I->depth--;
	return r;
}

/* `message.role == "user"`, where that is a string: 1, 0; -2: it is something else. */
static inline int member_is(struct kp_interp *I, struct kp_act *act, const struct kp_node *n)
{
	const struct kp_node *x = n->items[0], *y = n->items[1];
	if (x->op != KP_OP_GETATTR || x->a->op != KP_OP_NAME || y->op != KP_OP_CONST ||
		y->k.type != KP_TV_STR || n->ops[0] > KP_CMP_NE) {
		return -2;
	}
	const struct kp_tv *obj = kp_tpl_slot(act, x->a->ref);
	if (!is_json(obj, x)) {
		return -2;
	}
	for (uint32_t i = 0; i < obj->n; i++) {
		const struct kp_jmember *m = &obj->jmembers[i];
		if (kp_str_eq_name(m->key, x->attr)) {
			if (m->value.type != KP_JSON_STRING) {
				return -2;
			}
			kp_tpl_spend_bytes(I, y->k.n + 2 * i);
			return kp_str_eq_name(m->value.s, kp_tv_bytes(&y->k)) ==
			       (n->ops[0] == KP_CMP_EQ);
		}
	}
	return -2;
}

static int is_true(struct kp_interp *I, struct kp_act *act, const struct kp_node *n)
{
	struct kp_tv v, b;
	int r;
	if (n->op == KP_OP_ASK && KP_LIKELY(!I->note)) {
		n = n->a;
	}
	switch (n->op) {
	case KP_OP_NOT:
	case KP_OP_AND:
	case KP_OP_OR:
		return logic_is_true(I, act, n);
	case KP_OP_COMPARE:
		if (n->n_ops == 1) {
			r = kp_tpl_charge(I, 1) ? -1 : member_is(I, act, n);
			if (r != -2) {
				return r;
			}
			return eval(I, act, n->items[0], &v) || eval(I, act, n->items[1], &b)
				       ? -1
				       : compare(I, n->ops[0], &v, &b);
		}
		return eval(I, act, n, &v) ? -1 : kp_tv_truth(&v);
	case KP_OP_TEST:
		if (n->def && !n->call) {
			return kp_tpl_charge(I, 1) || eval(I, act, n->a, &v) ||
					       kp_tpl_invoke(I, n->def, &v,
						       &(struct kp_tpl_args){ 0 }, &v)
				       ? -1
				       : kp_tv_truth(&v);
		}
		return eval(I, act, n, &v) ? -1 : kp_tv_truth(&v);
	default:
		return eval(I, act, n, &v) ? -1 : kp_tv_truth(&v);
	}
}

int kp_tpl_is_true(struct kp_interp *I, struct kp_act *act, const struct kp_node *n)
{
	return is_true(I, act, n);
}

int kp_tpl_answer(
	struct kp_interp *I, struct kp_act *act, const struct kp_node *n, struct kp_tv *ret)
{
	int r;
	I->ask = ++I->n_asks;
	if (n->flags & KP_NF_TRUTH) {
		r = is_true(I, act, n->a);
		*ret = kp_tv_bool(r > 0);
		r = r < 0 ? -1 : 0;
	} else {
		r = eval(I, act, n->a, ret);
	}
	I->ask = 0;
	return r;
}

int kp_tpl_call_value(struct kp_interp *I, const struct kp_tv *callee,
	const struct kp_tpl_args *args, struct kp_tv *ret)
{
	switch (callee->type) {
	case KP_TV_MACRO:
		return kp_tpl_call_macro(I, callee->macro, args, ret);
	case KP_TV_METHOD:
		return kp_tpl_invoke(I, callee->method->def, &callee->method->self, args, ret);
	case KP_TV_FUNC:
		return kp_tpl_invoke(I, callee->def, NULL, args, ret);
	case KP_TV_LOOP:
		if (args->n_pos != 1 || args->n_kw) {
			return kp_tpl_fail(I, "loop() takes exactly one argument");
		}
		return kp_tpl_loop_recurse(I, callee->loop, &args->pos[0], ret);
	case KP_TV_JOINER:
		if (args->n_pos || args->n_kw) {
			return kp_tpl_fail(I, "joiner takes no arguments when it is called");
		}
		*ret = callee->cycler->pos ? callee->cycler->items[0]
					   : kp_tv_str(KP_S(""), KP_ORIGIN_TRUSTED);
		callee->cycler->pos = 1;
		return 0;
	case KP_TV_UNDEF:
		return kp_tpl_fail_undef(I, callee);
	default:
		return kp_tpl_fail(I, "'%s' object is not callable", kp_tv_type_name(callee));
	}
}

int kp_tpl_eval_call(struct kp_interp *I, struct kp_act *act, const struct kp_node *n,
	const struct kp_tv *caller, struct kp_tv *ret)
{
	const struct kp_node *f = n->a;
	struct kp_tv callee, obj;
	struct kp_tpl_args args;
	const struct kp_tpl_def *method = NULL;
	if (f->op == KP_OP_GETATTR) { /* a method call needs no bound method */
		if (eval(I, act, f->a, &obj)) {
			return -1;
		}
		method = obj.type == KP_TV_STR    ? f->def
			 : obj.type == KP_TV_DICT ? f->dict_method
						  : NULL;
		method = method == &kp_tpl_method_unsafe ? NULL : method;
		if (!method && kp_tpl_getattr(I, &obj, f->attr, &callee)) {
			return -1;
		}
	} else if (eval(I, act, f, &callee)) {
		return -1;
	}
	if (!method && callee.type == KP_TV_UNDEF) { /* before the arguments are looked at */
		return kp_tpl_fail_undef(I, &callee);
	}
	if (kp_tpl_eval_args(I, act, n->call, caller, &args)) {
		return -1;
	}
	return method ? kp_tpl_invoke(I, method, &obj, &args, ret)
		      : kp_tpl_call_value(I, &callee, &args, ret);
}

/* Filters written around a block: the innermost one gets the block's text. */
int kp_tpl_eval_filters(struct kp_interp *I, struct kp_act *act, const struct kp_node *filters,
	const struct kp_tv *text, struct kp_tv *ret)
{
	struct kp_tv x = *text;
	struct kp_tpl_args args;
	if (filters->a && kp_tpl_eval_filters(I, act, filters->a, text, &x)) {
		return -1;
	}
	if (!filters->def) {
		return kp_tpl_fail(I, "no filter named `%" KP_FMT "` found", KP_ARG(filters->name));
	}
	if (kp_tpl_eval_args(I, act, filters->call, NULL, &args)) {
		return -1;
	}
	return kp_tpl_invoke(I, filters->def, &x, &args, ret);
}

/* --- printing ------------------------------------------------------------------------------------------------------------------------ */

/* Takes back what was printed from byte `mark` on. */
static int take_back(struct kp_interp *I, uint32_t mark, struct kp_tv *ret)
{
	struct kp_tpl_buf *out = I->out, *b;
	struct kp_tv all = { .type = KP_TV_STR, .flags = KP_TVF_MIXED, .n = out->n, .buf = out };
	if (kp_tpl_buf_new(I, 0, &b) || kp_tpl_buf_add_sub(I, b, &all, mark, out->n)) {
		return -1;
	}
	*ret = kp_tpl_buf_value(b);
	out->n = mark;
	while (out->n_runs && (out->n_runs > 1 ? out->runs[out->n_runs - 2].end : 0) >= mark) {
		out->n_runs--;
	}
	if (out->n_runs) {
		out->runs[out->n_runs - 1].end = mark;
	}
	return 0;
}

/* Prints strings one by one; what is no plain string makes it an ordinary sum. */
static int emit_sum(struct kp_interp *I, struct kp_act *act, const struct kp_node *n)
{
	struct kp_tv acc, v;
	uint32_t i = 1, mark = I->out->n;
	if (eval(I, act, n->items[0], &acc)) {
		return -1;
	}
	if (acc.type == KP_TV_STR && !(acc.flags & KP_TVF_MARKUP)) {
		for (v = acc;; i++) {
			if (kp_tpl_buf_add_str(I, I->out, &v)) {
				return -1;
			}
			if (i == n->n) {
				return 0;
			}
			if (eval(I, act, n->items[i], &v)) {
				return -1;
			}
			if (v.type != KP_TV_STR || (v.flags & KP_TVF_MARKUP)) {
				break;
			}
		}
		if (take_back(I, mark, &acc) || kp_tpl_binary(I, KP_OP_ADD, &acc, &v, &acc)) {
			return -1;
		}
		i++;
	}
	for (; i < n->n; i++) {
		if (eval(I, act, n->items[i], &v) || kp_tpl_binary(I, KP_OP_ADD, &acc, &v, &acc)) {
			return -1;
		}
	}
	return kp_tpl_print(I, I->out, &acc);
}

int kp_tpl_emit(struct kp_interp *I, struct kp_act *act, const struct kp_node *n)
{
	struct kp_tv v;
	if (n->op == KP_OP_ASK && KP_LIKELY(!I->note)) {
		n = n->a;
	}
	if (n->op == KP_OP_CONST && n->k.type == KP_TV_STR) {
		return kp_tpl_buf_add(I, I->out, kp_tv_bytes(&n->k), KP_ORIGIN_TRUSTED);
	}
	if (n->op == KP_OP_ADD) {
		return emit_sum(I, act, n);
	}
	if (n->op == KP_OP_CONCAT) {
		for (uint32_t i = 0; i < n->n; i++) {
			if (eval(I, act, n->items[i], &v) || kp_tpl_print(I, I->out, &v)) {
				return -1;
			}
		}
		return 0;
	}
	return eval(I, act, n, &v) || kp_tpl_print(I, I->out, &v) ? -1 : 0;
}

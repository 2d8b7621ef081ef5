/* DESIGN: macros and call blocks: functions whose value is what their body printed. Arguments are bound as jinja2's
   Macro.__call__ binds them: by position, by keyword, then `caller`, then what is left to kwargs and varargs if the body uses
   them. Defaults are evaluated at the call, in order, in the macro's own scope. */
#include "template/exec.h"

/* One argument by keyword, taken out of the list. */
static bool take_kw(struct kp_tpl_kw *kw, uint32_t *n, kp_str name, struct kp_tv *ret)
{
	for (uint32_t i = 0; i < *n; i++) {
		if (kp_str_eq(kw[i].name, name)) {
			*ret = kw[i].v;
			memmove(kw + i, kw + i + 1, (*n - i - 1) * sizeof(*kw));
			--*n;
			return true;
		}
	}
	return false;
}

static int bind_rest(struct kp_interp *I, const struct kp_node *n, struct kp_act *act,
	const struct kp_tpl_args *args, const struct kp_tpl_kw *kw, uint32_t n_kw)
{
	const struct kp_signature *sig = n->sig;
	if (n->flags & KP_NF_KWARGS) {
		struct kp_tpl_dict *d;
		if (kp_tpl_dict_new(I, n_kw, &d)) {
			return -1;
		}
		for (uint32_t i = 0; i < n_kw; i++) {
			struct kp_tv k = kp_tv_str(kw[i].name, KP_ORIGIN_TRUSTED);
			if (kp_tpl_dict_set(I, d, &k, &kw[i].v)) {
				return -1;
			}
		}
		act->slots[sig->kwargs.slot] = (struct kp_tv){ .type = KP_TV_DICT, .dict = d };
	} else if (n_kw) {
		return kp_tpl_fail(I, "macro '%" KP_FMT "' takes no keyword argument '%" KP_FMT "'",
			KP_ARG(n->name), KP_ARG(kw[0].name));
	}
	uint32_t extra = args->n_pos > sig->n_args ? args->n_pos - sig->n_args : 0;
	if (n->flags & KP_NF_VARARGS) {
		return kp_tpl_list_new(I, KP_TV_TUPLE, args->pos + (args->n_pos - extra), extra,
			&act->slots[sig->varargs.slot]);
	}
	return extra ? kp_tpl_fail(I, "macro '%" KP_FMT "' takes not more than %u argument(s)",
			       KP_ARG(n->name), sig->n_args)
		     : 0;
}

/* Arguments to parameters as jinja2's Macro.__call__ does it. */
static int bind_macro(struct kp_interp *I, const struct kp_node *n, struct kp_act *act,
	const struct kp_tpl_args *args)
{
	const struct kp_signature *sig = n->sig;
	struct kp_tpl_kw *kw = args->n_kw ? kp_tpl_alloc(I, args->n_kw, sizeof(*kw)) : NULL;
	uint32_t n_kw = args->n_kw;
	bool explicit_caller = false;
	if (n_kw && !kw) {
		return -1;
	}
	if (n_kw) {
		memcpy(kw, args->kw, n_kw * sizeof(*kw));
	}
	for (uint32_t i = 0; i < sig->n_args; i++) {
		struct kp_tv *slot = &act->slots[sig->args[i]->ref.slot];
		kp_str name = sig->args[i]->name;
		explicit_caller |= kp_str_eq(name, KP_S("caller"));
		if (i < args->n_pos) {
			*slot = args->pos[i];
		} else {
			take_kw(kw, &n_kw, name, slot);
		}
	}
	if ((n->flags & KP_NF_CALLER) && !explicit_caller) {
		struct kp_tv caller = kp_tv_none();
		take_kw(kw, &n_kw, KP_S("caller"), &caller);
		act->slots[sig->caller.slot] =
			caller.type == KP_TV_NONE
				? kp_tv_undef(KP_UNDEF_HINT, KP_S("No caller defined"))
				: caller;
	}
	return bind_rest(I, n, act, args, kw, n_kw);
}

int kp_tpl_call_macro(struct kp_interp *I, struct kp_tpl_macro *m, const struct kp_tpl_args *args,
	struct kp_tv *ret)
{
	const struct kp_node *n = m->node;
	const struct kp_signature *sig = n->sig;
	struct kp_tpl_buf *saved = I->out, *b;
	struct kp_act *act = kp_tpl_alloc(I, 1, sizeof(*act));
	uint32_t line = I->line;
	if (!act || kp_tpl_act_new(I, m->parent, n->frame2->n_slots, act) ||
		bind_macro(I, n, act, args) || kp_tpl_buf_new(I, 0, &b)) {
		return -1;
	}
	kp_tpl_enter(I, act, n->frame2);
	for (uint32_t i = 0; i < sig->n_args; i++) {
		struct kp_tv *slot = &act->slots[sig->args[i]->ref.slot];
		uint32_t first = sig->n_args - sig->n_defaults;
		if (slot->type != KP_TV_MISSING) {
			continue;
		}
		if (i >= first) {
			struct kp_tv v;
			if (kp_tpl_eval(I, act, sig->defaults[i - first], &v)) {
				return -1;
			}
			*slot = v;
		} else {
			*slot = kp_tv_undef(KP_UNDEF_NAME, sig->args[i]->name);
		}
	}
	I->out = b;
	enum kp_exec e = kp_tpl_exec(I, act, n->c);
	I->out = saved;
	I->line = line;
	*ret = kp_tpl_buf_value(b);
	return e == KP_EXEC_ERR ? -1 : 0;
}

static int make_macro(
	struct kp_interp *I, struct kp_act *act, const struct kp_node *n, struct kp_tv *ret)
{
	struct kp_tpl_macro *m = kp_tpl_alloc(I, 1, sizeof(*m));
	if (!m) {
		return -1;
	}
	*m = (struct kp_tpl_macro){ .node = n, .parent = act };
	*ret = (struct kp_tv){ .type = KP_TV_MACRO, .macro = m };
	return 0;
}

/* What a filter or call block came to: jinja2 joins it to the output as it is, so it must be text. */
int kp_tpl_print_block(struct kp_interp *I, const struct kp_tv *v)
{
	if (v->type != KP_TV_STR) {
		return kp_tpl_fail(I, "expected str instance, %s found", kp_tv_type_name(v));
	}
	return kp_tpl_buf_add_str(I, I->out, v);
}

enum kp_exec kp_tpl_exec_macro(struct kp_interp *I, struct kp_act *act, const struct kp_node *n)
{
	struct kp_tv v;
	if (make_macro(I, act, n, &v)) {
		return KP_EXEC_ERR;
	}
	*kp_tpl_slot(act, n->ref) = v;
	return KP_EXEC_OK;
}

enum kp_exec kp_tpl_exec_call_block(
	struct kp_interp *I, struct kp_act *act, const struct kp_node *n)
{
	struct kp_tv caller, v;
	if (make_macro(I, act, n, &caller)) {
		return KP_EXEC_ERR;
	}
	int r = n->flags & KP_NF_GENERATION
			? kp_tpl_call_macro(I, caller.macro, &(struct kp_tpl_args){ 0 }, &v)
			: kp_tpl_eval_call(I, act, n->a, &caller, &v);
	return r || kp_tpl_print_block(I, &v) ? KP_EXEC_ERR : KP_EXEC_OK;
}

/* What evaluation, statements and attribute lookup share of macros and loops. */
#ifndef KP_TEMPLATE_EXEC_H
#define KP_TEMPLATE_EXEC_H

#include "template/ast.h"

struct kp_tpl_macro {
	const struct kp_node *node; /* MACRO or CALLBLOCK */
	struct kp_act *parent;      /* the function it is written in */
};

/* Where a loop's elements come from: a value, filtered by the loop's `if`. */
struct kp_tpl_source {
	struct kp_tpl_iter it;
	const struct kp_node *loop; /* with a filter, else NULL */
	struct kp_act test;         /* the filter's variables */
	bool entered;
	/* Of a round that is noted: the slice whose elements are noted one by one, from which on (rounds.h). */
	const struct kp_node *rest;
	int64_t rest_from;
};
/* The special variable `loop`. */
struct kp_tpl_loop {
	struct kp_tpl_source *source;
	struct kp_tv iterable;
	struct kp_tv after, current, before; /* MISSING: none */
	struct kp_tv changed; /* TUPLE of the last call of loop.changed(), or MISSING */
	struct kp_tv *rest;   /* elements read ahead to find the length */
	uint32_t n_rest, rest_pos;
	bool has_rest, ended;
	int64_t index0, length; /* length -1: not asked yet */
	int64_t depth0;
	const struct kp_node *node; /* of a recursive loop, else NULL */
	struct kp_act *parent;
};

enum kp_exec { KP_EXEC_ERR = -1, KP_EXEC_OK = 0, KP_EXEC_BREAK, KP_EXEC_CONTINUE };
enum kp_exec kp_tpl_exec(struct kp_interp *I, struct kp_act *act, const struct kp_node *n);
enum kp_exec kp_tpl_exec_for(struct kp_interp *I, struct kp_act *act, const struct kp_node *n);
enum kp_exec kp_tpl_exec_macro(struct kp_interp *I, struct kp_act *act, const struct kp_node *n);
enum kp_exec kp_tpl_exec_call_block(
	struct kp_interp *I, struct kp_act *act, const struct kp_node *n);
int kp_tpl_print_block(struct kp_interp *I, const struct kp_tv *v);
/* Runs the scope's loads; leaves by setting its slots to MISSING. */
void kp_tpl_enter(struct kp_interp *I, struct kp_act *act, const struct kp_frame *f);
void kp_tpl_leave(struct kp_act *act, const struct kp_frame *f);
int kp_tpl_assign(struct kp_interp *I, struct kp_act *act, const struct kp_node *target,
	const struct kp_tv *v);
int kp_tpl_act_new(
	struct kp_interp *I, struct kp_act *parent, uint32_t n_slots, struct kp_act *ret);
/* Positional and keyword arguments of a call, evaluated. `first` != NULL goes in front, `caller` as keyword. */
int kp_tpl_eval_args(struct kp_interp *I, struct kp_act *act, const struct kp_tpl_call *c,
	const struct kp_tv *caller, struct kp_tpl_args *ret);
/* Applies the filter chain of a block to its text. */
int kp_tpl_eval_filters(struct kp_interp *I, struct kp_act *act, const struct kp_node *filters,
	const struct kp_tv *text, struct kp_tv *ret);
/* Whether it is true: 1, 0, -1. As kp_tpl_eval and kp_tv_truth. */
int kp_tpl_is_true(struct kp_interp *I, struct kp_act *act, const struct kp_node *n);
/* What an ASK node asks. */
int kp_tpl_answer(
	struct kp_interp *I, struct kp_act *act, const struct kp_node *n, struct kp_tv *ret);
/* Evaluates and prints. */
int kp_tpl_emit(struct kp_interp *I, struct kp_act *act, const struct kp_node *n);
int kp_tpl_eval_call(struct kp_interp *I, struct kp_act *act, const struct kp_node *n,
	const struct kp_tv *caller, struct kp_tv *ret);
static inline struct kp_tv *kp_tpl_slot(struct kp_act *act, struct kp_ref ref)
{
	for (uint32_t up = ref.up; up; up--) {
		act = act->parent;
	}
	return &act->slots[ref.slot];
}

#endif

/* DESIGN: templates look for something before they begin (the last question of a conversation, say) in a loop over all messages, and turn a switch of a
   namespace when they have found it, since a loop cannot set variables outside and mostly knows no `break`. From then on its rounds do nothing but look at the switch. Which
   loops are so is found when the template is compiled; a render leaves them when the switch is turned.

   A loop is so if what stands in its body is only: assignments to its own variables of numbers that cannot fail (steady, below), nothing printed, and
   `if`s that all look at one switch first, without `elif` and `else`: `if ns.open and ...`, `if ns.open`, `if not ns.found and ...`. Inside of these anything may stand that keeps
   neither the loop nor a scope of its own for later. Of what such a round did with the switch turned, nothing can be seen afterwards, and it cannot turn it back. */
#include "template/exec.h"
#include "template/parse.h"

enum {
	SMALL = 1
		<< 20, /* of constants in a sum: as many of them as a body may have are no overflow */
	MAX_NODES = 1000 /* of a body that is looked at, since it is walked more than once */
};

struct latch {
	const struct kp_node *loop;
	const struct kp_node *test; /* `ns.open` or `not ns.open` */
};

static bool is_name(const struct kp_node *n, kp_str name)
{
	return n->op == KP_OP_NAME && kp_str_eq(n->name, name);
}

/* --- what the body may have -------------------------------------------------------------------------------------------------------------- */

/* Stops (1) at what could keep the loop or a variable of it, print from elsewhere, or leave the body in another way. */
static int refused(void *ctx, struct kp_node *n)
{
	uint32_t *nodes = ctx;
	bool is_loop_attr = n->op == KP_OP_GETATTR && n->n_ops && is_name(n->a, KP_S("loop"));
	if (++*nodes > MAX_NODES) {
		return 1;
	}
	switch (n->op) {
	case KP_OP_FOR:
	case KP_OP_SETBLOCK:
	case KP_OP_MACRO:
	case KP_OP_CALLBLOCK:
	case KP_OP_FILTERBLOCK:
	case KP_OP_WITH:
	case KP_OP_BREAK:
	case KP_OP_CONTINUE:
	case KP_OP_BLOCK:
		return 1;
	case KP_OP_NAME:
		return is_name(n, KP_S("loop"));
	default:
		return is_loop_attr ? 0 : kp_node_children(n, refused, ctx);
	}
}

static int assigns_target(const struct kp_node *target, kp_str name)
{
	if (target->op == KP_OP_NAME) {
		return kp_str_eq(target->name, name);
	}
	for (uint32_t i = 0; target->op != KP_OP_NSREF && i < target->n; i++) {
		if (assigns_target(target->items[i], name)) {
			return 1;
		}
	}
	return 0;
}

static int assigns(void *ctx, struct kp_node *n)
{
	const kp_str *name = ctx;
	return n->op == KP_OP_SET && assigns_target(n->a, *name)
		       ? 1
		       : kp_node_children(n, assigns, ctx);
}

/* A variable from outside of the loop: the same in each round. */
static bool is_outer(const struct latch *l, const struct kp_node *n)
{
	kp_str name = n->name;
	return n->op == KP_OP_NAME && !is_name(n, KP_S("loop")) && !is_name(l->loop->a, name) &&
	       !assigns(&name, l->loop->c);
}

/* --- numbers that cannot fail ----------------------------------------------------------------------------------------------------------- */

static bool is_length(const struct latch *l, const struct kp_node *n)
{
	return n->op == KP_OP_FILTER && n->a && n->def && is_outer(l, n->a) &&
	       (!n->call || (!n->call->n_args && !n->call->n_kw && !n->call->dyn_args &&
				    !n->call->dyn_kwargs)) &&
	       (kp_str_eq(n->name, KP_S("length")) || kp_str_eq(n->name, KP_S("count")));
}

/* A sum of small constants, lengths of outer variables and numbers of the loop: a whole number in each round, if it was one in the first. */
static bool is_steady(const struct latch *l, const struct kp_node *n)
{
	switch (n->op) {
	case KP_OP_CONST:
		return n->k.type == KP_TV_INT && n->k.i >= -SMALL && n->k.i <= SMALL;
	case KP_OP_GETATTR:
		return is_name(n->a, KP_S("loop")) &&
		       (n->n_ops == KP_LOOP_INDEX || n->n_ops == KP_LOOP_INDEX0 ||
			       n->n_ops == KP_LOOP_LENGTH || n->n_ops == KP_LOOP_REVINDEX ||
			       n->n_ops == KP_LOOP_REVINDEX0);
	case KP_OP_FILTER:
		return is_length(l, n);
	case KP_OP_SUB:
		return is_steady(l, n->a) && is_steady(l, n->b);
	case KP_OP_ADD:
		for (uint32_t i = 0; i < n->n; i++) {
			if (!is_steady(l, n->items[i])) {
				return false;
			}
		}
		return true;
	default:
		return false;
	}
}

/* --- the switch -------------------------------------------------------------------------------------------------------------------------- */

static const struct kp_node *attribute_of(const struct kp_node *test)
{
	return test->op == KP_OP_NOT ? test->a : test;
}

/* The first thing that the condition looks at: NULL where it is no switch, or not the one that is known. */
static const struct kp_node *switch_of(const struct latch *l, const struct kp_node *cond)
{
	while (cond->op == KP_OP_AND) {
		cond = cond->a;
	}
	const struct kp_node *attr = attribute_of(cond), *known = l->test;
	if (attr->op != KP_OP_GETATTR || !is_outer(l, attr->a)) {
		return NULL;
	}
	return !known || (known->op == cond->op &&
				 kp_str_eq(attribute_of(known)->attr, attr->attr) &&
				 kp_str_eq(attribute_of(known)->a->name, attr->a->name))
		       ? cond
		       : NULL;
}

static bool prints_nothing(const struct kp_node *n)
{
	for (uint32_t i = 0; i < n->n; i++) {
		const struct kp_node *x = n->items[i];
		if (x->op != KP_OP_CONST || x->k.type != KP_TV_STR || x->k.n) {
			return false;
		}
	}
	return true;
}

/* A statement of the loop's body; notes the switch. */
static bool is_idle(struct latch *l, const struct kp_node *n)
{
	switch (n->op) {
	case KP_OP_SEQ:
		for (uint32_t i = 0; i < n->n; i++) {
			if (!is_idle(l, n->items[i])) {
				return false;
			}
		}
		return true;
	case KP_OP_OUTPUT:
		return prints_nothing(n);
	case KP_OP_SET:
		return n->a->op == KP_OP_NAME && is_steady(l, n->b);
	case KP_OP_IF:
		l->test = n->n || n->c ? NULL : switch_of(l, n->a);
		return l->test != NULL;
	default:
		return false;
	}
}

const struct kp_node *kp_tpl_latch(const struct kp_node *loop)
{
	struct latch l = { .loop = loop };
	uint32_t nodes = 0;
	if ((loop->flags & KP_NF_RECURSIVE) || loop->items[0] || loop->items[1] ||
		loop->a->op != KP_OP_NAME || refused(&nodes, loop->c) || !is_idle(&l, loop->c)) {
		return NULL;
	}
	return l.test;
}

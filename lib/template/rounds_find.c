/* DESIGN: the compiler's part of replaying (rounds.c). What stands in the body of a loop at the template's own level, and in macros, which such bodies call, is told apart: an expression that sees only what
   is outside of a round (`loop`, namespaces, variables of the surroundings and of the render) becomes a question (ASK); what sees the message or a variable of the body stays. A question is as large as can be:
   of `loop.index0 > ns.last` only whether it is so matters. Where it is a condition, what is asked is its truth. Calls are no questions, since they could do something; what they
   are given is. Variables that a scope stores and that begin with a value from outside are asked when the scope is entered (kp_load.asked).

   Variables outside are those of the template's own function that the loop's scopes do not own (first_slot, end_slot; macros see all of them), and CONTEXT. Each function's level is known, so a
   question can be answered again without the macro that asked it. */
#include "template/parse.h"
#include "template/rounds.h"

enum { MAX_LOOKED = 100000 }; /* nodes, for who stores first */

struct finder {
	struct kp_parser *p;
	const struct kp_node *loop; /* whose body this is, or NULL */
	uint32_t depth;             /* functions around */
	uint32_t n_loops, looked;
	bool refused; /* something here makes replaying wrong */
};
struct seen {
	struct finder *f;
	unsigned flags;
};

static int walk(struct finder *f, struct kp_node *n);

static bool active(const struct finder *f)
{
	return f->loop || f->depth;
}

static bool is_outer(const struct finder *f, struct kp_ref ref)
{
	if (ref.up != f->depth) {
		return false;
	}
	if (!f->loop) {
		return true;
	}
	const struct kp_frame *own = f->loop->frame;
	return ref.slot < own->first_slot || ref.slot >= own->end_slot ||
	       ((f->loop->flags & KP_NF_EXTENDED) && ref.slot == f->loop->ref.slot);
}

/* --- expressions ------------------------------------------------------------------------------------------------------------------------- */

/* What an expression sees, noted in it and in all below. */
static int see(void *ctx, struct kp_node *n)
{
	struct seen *above = ctx, own = { .f = above->f };
	kp_node_children(n, see, &own);
	switch (n->op) {
	case KP_OP_NAME:
		own.flags |= is_outer(above->f, n->ref) ? KP_NF_OUTER : KP_NF_INNER;
		break;
	case KP_OP_CONTEXT:
		own.flags |= KP_NF_OUTER;
		break;
	case KP_OP_CALL:
		own.flags |= KP_NF_INNER | KP_NF_CALLS;
		break;
	case KP_OP_FILTER:
	case KP_OP_TEST:
		own.flags |= n->def ? 0 : KP_NF_INNER;
		/* Copies are equal, not the same. */
		above->f->refused |= n->op == KP_OP_TEST && kp_str_eq(n->name, KP_S("sameas"));
		break;
	default:
		break;
	}
	n->flags |= (uint16_t)own.flags;
	above->flags |= own.flags;
	return 0;
}

/* The node becomes a question for what it was. */
static int wrap(struct finder *f, struct kp_node *n, bool truth)
{
	struct kp_node *own = kp_arena_alloc(f->p->a, sizeof(*own));
	if (!own) {
		return kp_parse_full(f->p);
	}
	*own = *n;
	*n = (struct kp_node){ .op = KP_OP_ASK,
		.flags = KP_NF_OUTER | (truth ? KP_NF_TRUTH : 0),
		.height = own->height,
		.n_ops = (uint16_t)f->depth,
		.line = own->line,
		.a = own };
	return 0;
}

static bool sees_only_outer(const struct kp_node *n)
{
	return (n->flags & KP_NF_OUTER) && !(n->flags & KP_NF_INNER);
}

static int place(struct finder *f, struct kp_node *n, bool truth);

static int place_value(void *ctx, struct kp_node *n)
{
	return place(ctx, n, false);
}

static int place(struct finder *f, struct kp_node *n, bool truth)
{
	bool is_list = n->op == KP_OP_LIST || n->op == KP_OP_TUPLE || n->op == KP_OP_DICT;
	if (!(n->flags & KP_NF_OUTER)) {
		return 0;
	}
	if (sees_only_outer(n) && !is_list) {
		return wrap(f, n, truth);
	}
	switch (n->op) {
	case KP_OP_NOT:
		return place(f, n->a, true);
	case KP_OP_AND:
	case KP_OP_OR:
		return place(f, n->a, truth) || place(f, n->b, truth) ? -1 : 0;
	case KP_OP_COND:
		return place(f, n->a, true) || place(f, n->b, truth) ||
				       (n->c && place(f, n->c, truth))
			       ? -1
			       : 0;
	case KP_OP_CALL: {
		struct kp_node args = { .op = KP_OP_CALL, .call = n->call };
		struct kp_node *callee = n->a->op == KP_OP_GETATTR ? n->a->a : n->a;
		return place(f, callee, false) || kp_node_children(&args, place_value, f) ? -1 : 0;
	}
	case KP_OP_GETITEM:
		if (sees_only_outer(n->a) && !(n->b->flags & KP_NF_CALLS)) {
			n->flags |= KP_NF_PART;
			n->n_ops = (uint16_t)f->depth;
			return place(f, n->b, false);
		}
		return kp_node_children(n, place_value, f);
	default:
		return kp_node_children(n, place_value, f);
	}
}

static int expr(struct finder *f, struct kp_node *n, bool truth)
{
	struct seen s = { .f = f };
	if (!n) {
		return 0;
	}
	see(&s, n);
	return active(f) ? place(f, n, truth) : 0;
}

/* The filters around a block are no expression of their own, since the innermost works on the block's text; their arguments are. */
static int filters(struct finder *f, struct kp_node *n)
{
	for (; n; n = n->a) {
		struct kp_node args = { .op = KP_OP_CALL, .call = n->call };
		struct seen s = { .f = f };
		kp_node_children(&args, see, &s);
		if (active(f) && kp_node_children(&args, place_value, f)) {
			return -1;
		}
	}
	return 0;
}

/* --- statements -------------------------------------------------------------------------------------------------------------------------- */

static void target(struct finder *f, struct kp_node *n)
{
	if (n->op == KP_OP_NSREF) {
		n->flags |= active(f) && is_outer(f, n->ref) ? KP_NF_OUTER : 0;
		n->n_ops = (uint16_t)f->depth;
	} else if (n->op != KP_OP_NAME) {
		for (uint32_t i = 0; i < n->n; i++) {
			target(f, n->items[i]);
		}
	}
}

struct mention {
	struct finder *f;
	const char *name;
};

static int mentions(void *ctx, struct kp_node *n)
{
	struct mention *m = ctx;
	bool named = n->op == KP_OP_NAME || n->op == KP_OP_CONTEXT || n->op == KP_OP_NSREF ||
		     n->op == KP_OP_MACRO;
	if (++m->f->looked > MAX_LOOKED || (named && n->name.p == m->name)) {
		return 1;
	}
	return kp_node_children(n, mentions, m);
}

/* Is the variable stored before anything in the scope could read it? */
static bool is_stored_first(struct finder *f, struct kp_node *body, const char *name)
{
	struct mention m = { f, name };
	uint32_t n = body->op == KP_OP_SEQ ? body->n : 1;
	for (uint32_t i = 0; i < n; i++) {
		struct kp_node *x = body->op == KP_OP_SEQ ? body->items[i] : body;
		if (x->op == KP_OP_SET && x->a->op == KP_OP_NAME && x->a->name.p == name) {
			return !mentions(&m, x->b);
		}
		if (mentions(&m, x)) {
			return false;
		}
	}
	return false;
}

/* body NULL: something else is evaluated in the scope before it. */
static void loads(struct finder *f, struct kp_frame *frame, struct kp_node *body)
{
	for (uint32_t i = 0; active(f) && i < frame->n_loads; i++) {
		struct kp_load *l = &frame->loads[i];
		l->asked =
			l->stored && (l->action == KP_LOAD_CONTEXT ||
					     (l->action == KP_LOAD_ALIAS && is_outer(f, l->from)));
		l->asked = l->asked && !(body && is_stored_first(f, body, l->name));
		l->depth = (uint8_t)f->depth;
	}
}

static int walk_function(struct finder *f, struct kp_node *n)
{
	f->depth++;
	f->refused |= f->depth >= KP_TPL_MAX_FUNCTIONS;
	loads(f, n->frame2, n->sig->n_defaults ? NULL : n->c);
	for (uint32_t i = 0; i < n->sig->n_defaults; i++) {
		if (expr(f, n->sig->defaults[i], false)) {
			return -1;
		}
	}
	int r = walk(f, n->c);
	f->depth--;
	return r;
}

static int walk_filter(struct finder *f, struct kp_node *n)
{
	f->depth++;
	f->refused |= f->depth >= KP_TPL_MAX_FUNCTIONS;
	loads(f, n->frame3, NULL);
	int r = expr(f, n->items[1], true);
	f->depth--;
	return r;
}

/* `for later in messages[at:]` mostly ends early: what matters is the elements that it gets. */
static int iterable(struct finder *f, struct kp_node *n)
{
	struct kp_node *b = n->b, *of = b->op == KP_OP_SLICE ? b->a : NULL;
	struct seen s = { .f = f };
	if (!active(f) || !of || b->items[1] || b->items[2] || n->items[1] ||
		(n->flags & KP_NF_RECURSIVE)) {
		return expr(f, b, false);
	}
	see(&s, b);
	bool is_variable = of->op == KP_OP_NAME || of->op == KP_OP_CONTEXT ||
			   (of->op == KP_OP_GETATTR && of->a->op == KP_OP_NAME);
	if (!is_variable || !sees_only_outer(of) || (s.flags & KP_NF_CALLS)) {
		return place(f, b, false);
	}
	n->flags |= KP_NF_PART;
	b->n_ops = (uint16_t)f->depth;
	return b->items[0] ? place(f, b->items[0], false) : 0;
}

static int walk_for(struct finder *f, struct kp_node *n)
{
	bool recursive = n->flags & KP_NF_RECURSIVE,
	     own = !active(f) && !recursive && !n->items[1] && !n->latch;
	if (iterable(f, n) || (n->items[1] && walk_filter(f, n))) {
		return -1;
	}
	if (own) {
		f->loop = n;
		n->loop_slots = ++f->n_loops;
	}
	f->depth += recursive;
	f->refused |= f->depth >= KP_TPL_MAX_FUNCTIONS;
	loads(f, n->frame, n->c);
	if (walk(f, n->c)) {
		return -1;
	}
	f->loop = own ? NULL : f->loop;
	if (n->items[0]) {
		loads(f, n->frame2, n->items[0]);
		if (walk(f, n->items[0])) {
			return -1;
		}
	}
	f->depth -= recursive;
	return 0;
}

static int walk_inner(struct finder *f, struct kp_node *n)
{
	for (uint32_t i = 1; n->op == KP_OP_WITH && i < n->n; i += 2) {
		target(f, n->items[i - 1]);
		if (expr(f, n->items[i], false)) {
			return -1;
		}
	}
	loads(f, n->frame, n->op == KP_OP_WITH ? NULL : n->c);
	if (n->op == KP_OP_SETBLOCK) {
		target(f, n->a);
	}
	if (n->op != KP_OP_WITH && filters(f, n->op == KP_OP_SETBLOCK ? n->b : n->a)) {
		return -1;
	}
	return walk(f, n->c);
}

static int each(struct finder *f, struct kp_node *n, bool statements)
{
	for (uint32_t i = 0; i < n->n; i++) {
		if (statements ? walk(f, n->items[i]) : expr(f, n->items[i], false)) {
			return -1;
		}
	}
	return 0;
}

static int walk(struct finder *f, struct kp_node *n)
{
	switch (n->op) {
	case KP_OP_SEQ:
		return each(f, n, true);
	case KP_OP_OUTPUT:
		return each(f, n, false);
	case KP_OP_IF:
		return expr(f, n->a, true) || walk(f, n->b) || each(f, n, true) ||
				       (n->c && walk(f, n->c))
			       ? -1
			       : 0;
	case KP_OP_FOR:
		return walk_for(f, n);
	case KP_OP_SET:
		target(f, n->a);
		return expr(f, n->b, false);
	case KP_OP_MACRO:
		return walk_function(f, n);
	case KP_OP_CALLBLOCK:
		return expr(f, n->a, false) || walk_function(f, n) ? -1 : 0;
	case KP_OP_SETBLOCK:
	case KP_OP_FILTERBLOCK:
	case KP_OP_WITH:
		return walk_inner(f, n);
	case KP_OP_BLOCK: /* runs elsewhere than it stands */
		f->refused = true;
		return 0;
	default:
		return 0;
	}
}

int kp_tpl_find_rounds(struct kp_parser *p)
{
	struct finder f = { .p = p };
	if (walk(&f, p->t->root)) {
		return -1;
	}
	p->t->has_rounds = f.n_loops && !f.refused;
	return 0;
}

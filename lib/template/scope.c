/* DESIGN: gives every name a place. jinja2 compiles a template to Python functions whose local variables are (nesting level, name); what
   a name means follows from three facts found before any code runs: which names a scope stores, which it only reads, and what the
   scopes around it know. This file finds the same facts with one walk per scope (analyze) and then assigns slots (gen).

   The rules, from jinja2's idtracking and compiler modules: a scope that stores a name has its own variable, which starts as a copy of the
   surrounding scope's (ALIAS), or unset (MISSING), or, when the store is inside an `if`, as what the render's variables say (CONTEXT).
   A name that is only read and that no scope around knows is read from the render's variables at scope entry. Loops analyze their body,
   filter and else separately; a filter, a macro, a call block, a block and a recursive loop are functions with variables of their own.

   `binds` holds, per interned name, the stack of scopes that know it; scopes are left in reverse order, so its top is the innermost.
   Everything here is scratch but the frames. Limits: 65,535 slots a function. */
#include "template/parse.h"

#include "base/map.h"

struct fn {
	struct fn *parent;
	uint32_t n_slots;
};
struct scope {
	struct fn *fn;
	struct scope *parent;
	struct bind *own; /* linked by next_own, newest first */
	uint32_t n_own;
	bool soft; /* inside an `if`: unknown filters are an error at run time only */
};
struct bind {
	struct bind *outer, *next_own;
	struct scope *scope;
	struct fn *fn;
	uint32_t name, slot, action;
	struct bind *from; /* ALIAS */
	bool stored;
};
struct gen {
	struct kp_parser *p;
	struct bind **binds;            /* by name id */
	uint32_t *context, context_cap; /* by name id: index + 1 in t->context_names */
	uint32_t conds;                 /* `if`s around, within the scope being analyzed */
	struct scope *scope;            /* being analyzed */
	struct fn *root;
	struct bind **root_binds; /* by name id: what the template's own scope knew, for blocks */
	struct kp_node **blocks;
	uint32_t n_blocks, blocks_cap;
	bool in_block, failed;
};

static int gen_node(struct gen *g, struct scope *s, struct kp_node *n);
static int analyze(struct gen *g, struct kp_node *n);

static void *scratch(struct gen *g, size_t size)
{
	void *p = kp_arena_calloc(g->p->scratch, 1, size);
	if (!p) {
		kp_parse_full(g->p);
	}
	return p;
}

static uint32_t name_id(struct gen *g, kp_str s)
{
	struct kp_parser *p = g->p;
	uint32_t at = (uint32_t)kp_hash(s) & (p->n_name_slots - 1);
	while (p->t->names[p->name_slots[at] - 1].s.p != s.p) {
		at = (at + 1) & (p->n_name_slots - 1);
	}
	return p->name_slots[at] - 1;
}

/* --- children in the order of jinja2's node fields --------------------------------------------------------------------------------- */

typedef int visit_fn(void *ctx, struct kp_node *child);

static int each(struct kp_node *const *items, uint32_t n, visit_fn *fn, void *ctx)
{
	for (uint32_t i = 0; i < n; i++) {
		int r = items[i] ? fn(ctx, items[i]) : 0;
		if (r) {
			return r;
		}
	}
	return 0;
}

static int one(struct kp_node *n, visit_fn *fn, void *ctx)
{
	return n ? fn(ctx, n) : 0;
}

static int call_children(const struct kp_tpl_call *c, visit_fn *fn, void *ctx)
{
	int r = 0;
	if (c) {
		r = each(c->args, c->n_args, fn, ctx);
		r = r ? r : each(c->kw_values, c->n_kw, fn, ctx);
		r = r ? r : one(c->dyn_args, fn, ctx);
		r = r ? r : one(c->dyn_kwargs, fn, ctx);
	}
	return r;
}

static int signature_children(const struct kp_signature *s, visit_fn *fn, void *ctx)
{
	int r = each(s->args, s->n_args, fn, ctx);
	return r ? r : each(s->defaults, s->n_defaults, fn, ctx);
}

int kp_node_children(struct kp_node *n, visit_fn *fn, void *ctx)
{
	int r = 0;
	switch (n->op) {
	case KP_OP_CALL:
	case KP_OP_FILTER:
	case KP_OP_TEST:
		r = one(n->a, fn, ctx);
		return r ? r : call_children(n->call, fn, ctx);
	case KP_OP_FOR:
		r = one(n->a, fn, ctx);
		r = r ? r : one(n->b, fn, ctx);
		r = r ? r : one(n->c, fn, ctx);
		return r ? r : each(n->items, 2, fn, ctx);
	case KP_OP_IF:
		r = one(n->a, fn, ctx);
		r = r ? r : one(n->b, fn, ctx);
		r = r ? r : each(n->items, n->n, fn, ctx);
		return r ? r : one(n->c, fn, ctx);
	case KP_OP_MACRO:
	case KP_OP_CALLBLOCK:
		r = one(n->a, fn, ctx);
		r = r ? r : signature_children(n->sig, fn, ctx);
		return r ? r : one(n->c, fn, ctx);
	case KP_OP_FILTERBLOCK:
		r = one(n->c, fn, ctx);
		return r ? r : one(n->a, fn, ctx);
	case KP_OP_WITH:
		for (uint32_t start = 0; start < 2; start++) { /* all targets, then all values */
			for (uint32_t i = start; !r && i < n->n; i += 2) {
				r = fn(ctx, n->items[i]);
			}
		}
		return r ? r : one(n->c, fn, ctx);
	default:
		r = one(n->a, fn, ctx);
		r = r ? r : one(n->b, fn, ctx);
		r = r ? r : one(n->c, fn, ctx);
		return r ? r : each(n->items, n->n, fn, ctx);
	}
}

/* --- who is mentioned without being declared ---------------------------------------------------------------------------------------- */

struct undeclared {
	const char *names[3];
	unsigned alive, found; /* bit i: names[i] */
};

/* A store ends the search for a name, as it does in jinja2, whatever the order of execution. */
static int visit_undeclared(void *ctx, struct kp_node *n)
{
	struct undeclared *u = ctx;
	if (n->op == KP_OP_BLOCK) {
		return 0;
	}
	if (n->op == KP_OP_NAME) {
		for (unsigned i = 0; i < 3 && u->names[i]; i++) {
			if (!(u->alive & 1U << i) || !kp_str_eq(n->name, kp_str_c(u->names[i]))) {
				continue;
			}
			if (n->ctx == KP_CTX_LOAD) {
				u->found |= 1U << i;
			} else {
				u->alive &= ~(1U << i);
			}
		}
		return 0;
	}
	return kp_node_children(n, visit_undeclared, u);
}

static unsigned find_undeclared(struct kp_node *n, const char *a, const char *b, const char *c)
{
	struct undeclared u = { .names = { a, b, c }, .alive = 7 };
	visit_undeclared(&u, n);
	return u.found;
}

static int visit_loop_store(void *ctx, struct kp_node *n)
{
	if (n->op == KP_OP_NAME && n->ctx == KP_CTX_STORE && kp_str_eq(n->name, KP_S("loop"))) {
		return 1;
	}
	return kp_node_children(n, visit_loop_store, ctx);
}

/* --- binding ------------------------------------------------------------------------------------------------------------------------ */

static struct bind *define(
	struct gen *g, struct scope *s, uint32_t name, uint32_t action, struct bind *from)
{
	struct bind *b = scratch(g, sizeof(*b));
	if (!b) {
		return NULL;
	}
	if (s->fn->n_slots == UINT16_MAX) {
		kp_tpl_compile_fail(g->p->err, 1, "more than %d variables", UINT16_MAX);
		return NULL;
	}
	*b = (struct bind){ .outer = g->binds[name],
		.next_own = s->own,
		.scope = s,
		.fn = s->fn,
		.name = name,
		.slot = s->fn->n_slots++,
		.action = action,
		.from = from };
	g->binds[name] = s->own = b;
	s->n_own++;
	return b;
}

static int bind_load(struct gen *g, struct scope *s, kp_str name)
{
	uint32_t id = name_id(g, name);
	return g->binds[id] || define(g, s, id, KP_LOAD_CONTEXT, NULL) ? 0 : -1;
}

static int bind_store(struct gen *g, struct scope *s, kp_str name)
{
	uint32_t id = name_id(g, name);
	struct bind *b = g->binds[id];
	if (!b || b->scope != s) {
		b = define(g, s, id,
			b          ? KP_LOAD_ALIAS
			: g->conds ? KP_LOAD_CONTEXT
				   : KP_LOAD_MISSING,
			b);
	}
	if (!b) {
		return -1;
	}
	b->stored = true;
	return 0;
}

static struct bind *bind_param(struct gen *g, struct scope *s, kp_str name)
{
	uint32_t id = name_id(g, name);
	struct bind *b = g->binds[id];
	if (!b || b->scope != s) {
		b = define(g, s, id, KP_LOAD_PARAM, NULL);
	}
	if (b) {
		b->action = KP_LOAD_PARAM;
		b->stored = true;
	}
	return b;
}

static void scope_leave(struct gen *g, struct scope *s)
{
	for (struct bind *b = s->own; b; b = b->next_own) {
		g->binds[b->name] = b->outer;
	}
}

static int special_param(struct gen *g, struct scope *s, const char *name, struct kp_ref *ret)
{
	kp_str interned;
	if (kp_parse_intern(g->p, kp_str_c(name), false, false, &interned)) {
		return -1;
	}
	struct bind *b = bind_param(g, s, interned);
	if (!b) {
		return -1;
	}
	*ret = (struct kp_ref){ 0, b->slot };
	return 0;
}

/* --- analyze: what does a scope store and read? -------------------------------------------------------------------------------------- */

static int visit_analyze(void *ctx, struct kp_node *n)
{
	return analyze(ctx, n);
}

static int analyze_if(struct gen *g, struct kp_node *n)
{
	if (analyze(g, n->a)) {
		return -1;
	}
	g->conds++;
	int r = analyze(g, n->b) || each(n->items, n->n, visit_analyze, g) ||
				(n->c && analyze(g, n->c))
			? -1
			: 0;
	g->conds--;
	return r;
}

/* Inside nested scopes only what is evaluated in this one is looked at. */
static int analyze(struct gen *g, struct kp_node *n)
{
	switch (n->op) {
	case KP_OP_NAME:
		return n->ctx == KP_CTX_LOAD    ? bind_load(g, g->scope, n->name)
		       : n->ctx == KP_CTX_STORE ? bind_store(g, g->scope, n->name)
						: -(bind_param(g, g->scope, n->name) == NULL);
	case KP_OP_NSREF:
		return bind_load(g, g->scope, n->name);
	case KP_OP_IF:
		return analyze_if(g, n);
	case KP_OP_FOR:
		return analyze(g, n->b);
	case KP_OP_MACRO:
		return bind_store(g, g->scope, n->name);
	case KP_OP_CALLBLOCK:
		return n->a ? analyze(g, n->a) : 0;
	case KP_OP_FILTERBLOCK:
		return analyze(g, n->a);
	case KP_OP_WITH:
		for (uint32_t i = 1; i < n->n; i += 2) {
			if (analyze(g, n->items[i])) {
				return -1;
			}
		}
		return 0;
	case KP_OP_SET:
		return analyze(g, n->b) || analyze(g, n->a) ? -1 : 0;
	case KP_OP_SETBLOCK:
		return analyze(g, n->a);
	case KP_OP_BLOCK:
		return 0;
	default:
		return kp_node_children(n, visit_analyze, g);
	}
}

static int analyze_in(struct gen *g, struct scope *s, struct kp_node *n)
{
	if (!n) {
		return 0;
	}
	struct scope *saved = g->scope;
	uint32_t conds = g->conds;
	g->scope = s;
	g->conds = 0;
	int r = analyze(g, n);
	g->scope = saved;
	g->conds = conds;
	return r;
}

/* Loop targets are parameters of the scope they are analyzed in, though their nodes say "store". */
static int analyze_target(struct gen *g, struct scope *s, struct kp_node *n)
{
	if (n->op == KP_OP_NAME) {
		return bind_param(g, s, n->name) ? 0 : -1;
	}
	for (uint32_t i = 0; i < n->n; i++) {
		if (analyze_target(g, s, n->items[i])) {
			return -1;
		}
	}
	return 0;
}

/* --- gen: slots into the nodes ------------------------------------------------------------------------------------------------------- */

static int ref_to(struct gen *g, const struct fn *here, const struct bind *b, uint32_t line,
	kp_str name, struct kp_ref *ret)
{
	if (!b) {
		return kp_tpl_compile_fail(g->p->err, line,
			"name `%" KP_FMT "` is not known in this scope", KP_ARG(name));
	}
	uint32_t up = 0;
	for (; here != b->fn; here = here->parent) {
		up++;
	}
	*ret = (struct kp_ref){ up, b->slot };
	return 0;
}

static int context_index(struct gen *g, uint32_t name, uint32_t *ret)
{
	struct kp_template *t = g->p->t;
	if (!g->context[name]) {
		if (t->n_context == g->context_cap) {
			uint32_t cap = g->context_cap ? g->context_cap * 2 : 16;
			kp_str *grown = kp_arena_grow(g->p->a, t->context_names,
				g->context_cap * sizeof(*grown), cap * sizeof(*grown));
			if (!grown) {
				return kp_parse_full(g->p);
			}
			t->context_names = grown;
			g->context_cap = cap;
		}
		t->context_names[t->n_context++] = t->names[name].s;
		g->context[name] = t->n_context;
	}
	*ret = g->context[name] - 1;
	return 0;
}

/* A variable of the render that is read in one scope alone, and stored nowhere that it could be seen from. */
static bool needs_no_slot(const struct gen *g, const struct bind *b)
{
	return b->action == KP_LOAD_CONTEXT && !b->stored && b->scope->parent && !g->in_block;
}

/* The scope's loads, in the order the names were met. */
static struct kp_frame *frame_of(struct gen *g, struct scope *s)
{
	struct kp_frame *f = kp_arena_calloc(g->p->a, 1, sizeof(*f));
	struct kp_load *loads = kp_arena_calloc(g->p->a, (size_t)s->n_own + 1, sizeof(*loads));
	if (!f || !loads) {
		kp_parse_full(g->p);
		return NULL;
	}
	f->loads = loads;
	f->n_loads = s->n_own;
	uint32_t i = s->n_own;
	for (struct bind *b = s->own; b; b = b->next_own) {
		struct kp_load *l = &loads[--i];
		l->action = b->action;
		l->stored = b->stored;
		l->name = g->p->t->names[b->name].s.p;
		l->slot = b->slot;
		struct bind *from = b->action == KP_LOAD_ALIAS  ? b->from
				    : g->in_block && !s->parent ? g->root_binds[b->name]
								: NULL;
		if (b->action == KP_LOAD_ALIAS && needs_no_slot(g, from)) {
			l->action = KP_LOAD_CONTEXT;
			from = NULL;
		}
		if (l->action == KP_LOAD_CONTEXT && context_index(g, b->name, &l->context)) {
			return NULL;
		}
		if (from && ref_to(g, s->fn, from, 1, KP_STR_NULL, &l->from)) {
			return NULL;
		}
		l->has_from = from != NULL;
	}
	return f;
}

static int gen_seq(struct gen *g, struct scope *s, struct kp_node *const *items, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (items[i] && gen_node(g, s, items[i])) {
			return -1;
		}
	}
	return 0;
}

static int gen_soft(struct gen *g, struct scope *s, struct kp_node *n)
{
	bool soft = s->soft;
	s->soft = true;
	int r = n ? gen_node(g, s, n) : 0;
	s->soft = soft;
	return r;
}

static int gen_call(struct gen *g, struct scope *s, const struct kp_tpl_call *c)
{
	if (!c) {
		return 0;
	}
	return gen_seq(g, s, c->args, c->n_args) || gen_seq(g, s, c->kw_values, c->n_kw) ||
			       (c->dyn_args && gen_node(g, s, c->dyn_args)) ||
			       (c->dyn_kwargs && gen_node(g, s, c->dyn_kwargs))
		       ? -1
		       : 0;
}

static int gen_filter_or_test(struct gen *g, struct scope *s, struct kp_node *n)
{
	if (!n->def && !s->soft) {
		return kp_tpl_compile_fail(g->p->err, n->line, "no %s named `%" KP_FMT "`",
			n->op == KP_OP_FILTER ? "filter" : "test", KP_ARG(n->name));
	}
	return (n->a && gen_node(g, s, n->a)) || gen_call(g, s, n->call) ? -1 : 0;
}

static int gen_name(struct gen *g, struct scope *s, struct kp_node *n)
{
	const struct bind *b = g->binds[name_id(g, n->name)];
	if (b && n->ctx == KP_CTX_LOAD && needs_no_slot(g, b)) {
		n->op = KP_OP_CONTEXT;
		n->ref.up = 0;
		return context_index(g, b->name, &n->ref.slot);
	}
	return ref_to(g, s->fn, b, n->line, n->name, &n->ref);
}

/* The body of a loop in its scope, the else branch in its own. */
static int gen_loop_scopes(struct gen *g, struct scope *s, struct kp_node *n, struct fn *fn)
{
	struct scope body = { .fn = fn, .parent = s }, other = { .fn = fn, .parent = s };
	uint32_t first = fn->n_slots;
	if (n->flags & KP_NF_EXTENDED) {
		if (special_param(g, &body, "loop", &n->ref)) {
			return -1;
		}
	}
	if (analyze_target(g, &body, n->a) || analyze_in(g, &body, n->c) ||
		!(n->frame = frame_of(g, &body)) || gen_node(g, &body, n->a) ||
		gen_node(g, &body, n->c)) {
		return -1;
	}
	n->frame->first_slot = first;
	n->frame->end_slot = fn->n_slots;
	scope_leave(g, &body);
	if (n->items[0]) {
		if (analyze_in(g, &other, n->items[0]) || !(n->frame2 = frame_of(g, &other)) ||
			gen_node(g, &other, n->items[0])) {
			return -1;
		}
		scope_leave(g, &other);
	}
	return 0;
}

static int gen_for(struct gen *g, struct scope *s, struct kp_node *n)
{
	if ((n->flags & KP_NF_RECURSIVE) || find_undeclared(n->c, "loop", NULL, NULL)) {
		n->flags |= KP_NF_EXTENDED;
	}
	if (visit_loop_store(NULL, n)) {
		return kp_tpl_compile_fail(g->p->err, n->line,
			"can't assign to the special variable `loop` in a loop");
	}
	if (gen_node(g, s, n->b)) {
		return -1;
	}
	if (n->items[1]) {
		struct fn fn = { .parent = s->fn };
		struct scope test = { .fn = &fn, .parent = s };
		if (analyze_target(g, &test, n->items[2]) || analyze_in(g, &test, n->items[1]) ||
			!(n->frame3 = frame_of(g, &test)) || gen_node(g, &test, n->items[2]) ||
			gen_node(g, &test, n->items[1])) {
			return -1;
		}
		scope_leave(g, &test);
		n->frame3->n_slots = fn.n_slots;
	}
	if (!(n->flags & KP_NF_RECURSIVE)) {
		n->latch = kp_tpl_latch(n);
		return gen_loop_scopes(g, s, n, s->fn);
	}
	struct fn fn = { .parent = s->fn };
	int r = gen_loop_scopes(g, s, n, &fn);
	n->loop_slots = fn.n_slots;
	return r;
}

static int has_default(const struct kp_signature *sig, uint32_t arg)
{
	return arg + sig->n_defaults >= sig->n_args;
}

/* caller, kwargs and varargs are parameters when the body uses them. */
static int special_params(struct gen *g, struct scope *s, struct kp_node *n)
{
	struct kp_signature *sig = n->sig;
	unsigned used = find_undeclared(n->c, "caller", "kwargs", "varargs"), named = 0;
	for (uint32_t i = 0; i < sig->n_args; i++) {
		kp_str a = sig->args[i]->name;
		named |= kp_str_eq(a, KP_S("caller"))    ? 1
			 : kp_str_eq(a, KP_S("kwargs"))  ? 2
			 : kp_str_eq(a, KP_S("varargs")) ? 4
							 : 0;
		if ((used & 1) && kp_str_eq(a, KP_S("caller")) && !has_default(sig, i)) {
			return kp_tpl_compile_fail(g->p->err, n->line,
				"argument `caller` of a macro must have a default");
		}
	}
	n->flags |= used & 1 ? KP_NF_CALLER : 0;
	n->flags |= used & ~named & 2 ? KP_NF_KWARGS : 0;
	n->flags |= used & ~named & 4 ? KP_NF_VARARGS : 0;
	return ((used & ~named & 1) && special_param(g, s, "caller", &sig->caller)) ||
			       ((n->flags & KP_NF_KWARGS) &&
				       special_param(g, s, "kwargs", &sig->kwargs)) ||
			       ((n->flags & KP_NF_VARARGS) &&
				       special_param(g, s, "varargs", &sig->varargs))
		       ? -1
		       : 0;
}

static int gen_function(struct gen *g, struct scope *outer, struct kp_node *n)
{
	struct fn fn = { .parent = outer->fn };
	struct scope s = { .fn = &fn, .parent = outer };
	struct kp_signature *sig = n->sig;
	for (uint32_t i = 0; i < sig->n_args; i++) {
		if (analyze_in(g, &s, sig->args[i])) {
			return -1;
		}
	}
	if (special_params(g, &s, n)) {
		return -1;
	}
	for (uint32_t i = 0; i < sig->n_defaults; i++) {
		if (analyze_in(g, &s, sig->defaults[i])) {
			return -1;
		}
	}
	if (analyze_in(g, &s, n->c) || !(n->frame2 = frame_of(g, &s)) ||
		gen_seq(g, &s, sig->args, sig->n_args) ||
		gen_seq(g, &s, sig->defaults, sig->n_defaults) || gen_node(g, &s, n->c)) {
		return -1;
	}
	n->frame2->n_slots = fn.n_slots;
	scope_leave(g, &s);
	return 0;
}

/* with, filter block, block set: a scope in the same function. */
static int gen_inner(struct gen *g, struct scope *outer, struct kp_node *n)
{
	struct scope s = { .fn = outer->fn, .parent = outer };
	bool with = n->op == KP_OP_WITH;
	struct kp_node *filters = n->op == KP_OP_SETBLOCK      ? n->b
				  : n->op == KP_OP_FILTERBLOCK ? n->a
							       : NULL;
	for (uint32_t i = 1; with && i < n->n; i += 2) {
		if (gen_node(g, outer, n->items[i])) {
			return -1;
		}
	}
	for (uint32_t i = 0; with && i < n->n; i += 2) {
		if (analyze_in(g, &s, n->items[i])) {
			return -1;
		}
	}
	if (analyze_in(g, &s, n->c) || (n->op == KP_OP_FILTERBLOCK && analyze_in(g, &s, filters)) ||
		!(n->frame = frame_of(g, &s))) {
		return -1;
	}
	for (uint32_t i = 0; with && i < n->n; i += 2) {
		if (gen_node(g, &s, n->items[i])) {
			return -1;
		}
	}
	if (gen_node(g, &s, n->c) || (filters && gen_node(g, &s, filters))) {
		return -1;
	}
	scope_leave(g, &s);
	return n->op == KP_OP_SETBLOCK ? gen_node(g, outer, n->a) : 0;
}

/* A scoped block sees the variables around it; any other is a function that sees the template's own only, made at the end. */
static int gen_block(struct gen *g, struct scope *s, struct kp_node *n)
{
	for (uint32_t i = 0; i < g->n_blocks; i++) {
		if (g->blocks[i]->name.p == n->name.p) {
			return kp_tpl_compile_fail(g->p->err, n->line,
				"block `%" KP_FMT "` defined twice", KP_ARG(n->name));
		}
	}
	if (kp_parse_push(g->p, &g->blocks, &g->n_blocks, &g->blocks_cap, n)) {
		return -1;
	}
	return n->flags & KP_NF_SCOPED ? gen_inner(g, s, n) : 0;
}

static int gen_node(struct gen *g, struct scope *s, struct kp_node *n)
{
	switch (n->op) {
	case KP_OP_CONST:
	case KP_OP_BREAK:
	case KP_OP_CONTINUE:
		return 0;
	case KP_OP_NAME:
		return gen_name(g, s, n);
	case KP_OP_NSREF:
		return ref_to(g, s->fn, g->binds[name_id(g, n->name)], n->line, n->name, &n->ref);
	case KP_OP_FILTER:
	case KP_OP_TEST:
		return gen_filter_or_test(g, s, n);
	case KP_OP_CALL:
		return gen_node(g, s, n->a) || gen_call(g, s, n->call) ? -1 : 0;
	case KP_OP_COND:
		return gen_soft(g, s, n->a) || gen_soft(g, s, n->b) || gen_soft(g, s, n->c) ? -1
											    : 0;
	case KP_OP_IF:
		for (uint32_t i = 0; i < n->n; i++) {
			if (gen_soft(g, s, n->items[i])) {
				return -1;
			}
		}
		return gen_soft(g, s, n->a) || gen_soft(g, s, n->b) || gen_soft(g, s, n->c) ? -1
											    : 0;
	case KP_OP_FOR:
		return gen_for(g, s, n);
	case KP_OP_MACRO:
		return ref_to(g, s->fn, g->binds[name_id(g, n->name)], n->line, n->name, &n->ref) ||
				       gen_function(g, s, n)
			       ? -1
			       : 0;
	case KP_OP_CALLBLOCK:
		return gen_function(g, s, n) || (n->a && gen_node(g, s, n->a)) ? -1 : 0;
	case KP_OP_WITH:
	case KP_OP_SETBLOCK:
	case KP_OP_FILTERBLOCK:
		return gen_inner(g, s, n);
	case KP_OP_BLOCK:
		return gen_block(g, s, n);
	default:
		return (n->a && gen_node(g, s, n->a)) || (n->b && gen_node(g, s, n->b)) ||
				       (n->c && gen_node(g, s, n->c)) ||
				       gen_seq(g, s, n->items, n->n)
			       ? -1
			       : 0;
	}
}

static int gen_blocks(struct gen *g)
{
	g->in_block = true;
	for (uint32_t i = 0; i < g->n_blocks; i++) {
		struct kp_node *n = g->blocks[i];
		if (n->flags & KP_NF_SCOPED) {
			continue;
		}
		struct fn fn = { .parent = g->root };
		struct scope s = { .fn = &fn };
		if (analyze_in(g, &s, n->c) || !(n->frame2 = frame_of(g, &s)) ||
			gen_node(g, &s, n->c)) {
			return -1;
		}
		n->frame2->n_slots = fn.n_slots;
		scope_leave(g, &s);
	}
	return 0;
}

int kp_tpl_scope(struct kp_parser *p)
{
	kp_str ignored; /* names that this pass asks for must exist before the tables are sized */
	static const char *const special[] = { "loop", "caller", "kwargs", "varargs" };
	for (size_t i = 0; i < KP_LEN(special); i++) {
		if (kp_parse_intern(p, kp_str_c(special[i]), false, false, &ignored)) {
			return -1;
		}
	}
	struct kp_template *t = p->t;
	struct fn root = { 0 };
	struct scope s = { .fn = &root };
	struct gen g = { .p = p, .root = &root };
	g.binds = kp_arena_calloc(p->scratch, t->n_names, sizeof(*g.binds));
	g.root_binds = kp_arena_calloc(p->scratch, t->n_names, sizeof(*g.root_binds));
	g.context = kp_arena_calloc(p->scratch, t->n_names, sizeof(*g.context));
	if (!g.binds || !g.root_binds || !g.context) {
		return kp_parse_full(p);
	}
	if (find_undeclared(t->root, "self", "super", NULL)) {
		return kp_tpl_compile_fail(p->err, 1, "`self` and `super` are not supported");
	}
	if (analyze_in(&g, &s, t->root) || !(t->frame = frame_of(&g, &s)) ||
		gen_node(&g, &s, t->root)) {
		return -1;
	}
	memcpy(g.root_binds, g.binds, t->n_names * sizeof(*g.binds));
	scope_leave(&g, &s);
	if (gen_blocks(&g)) {
		return -1;
	}
	t->frame->n_slots = root.n_slots;
	return kp_tpl_find_rounds(p);
}

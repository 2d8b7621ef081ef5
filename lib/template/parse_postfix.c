/* DESIGN: what follows an operand: attributes, subscripts and slices, calls, filters, tests. Filters and tests bind tighter than
   arithmetic. Method and filter names are resolved to their definitions here, once. */
#include "template/parse.h"

static int call_fail(struct kp_parser *p, uint32_t line)
{
	return kp_tpl_compile_fail(p->err, line, "invalid syntax for function call expression");
}

static int parse_keyword(struct kp_parser *p, struct kp_tpl_call *c, uint32_t cap[2])
{
	kp_str key, *names = c->kw_names;
	if (kp_parse_intern(p, p->tok->s, false, false, &key)) {
		return -1;
	}
	for (uint32_t i = 0; i < c->n_kw; i++) {
		if (names[i].p == key.p) {
			return kp_tpl_compile_fail(p->err, p->tok->line,
				"keyword argument `%" KP_FMT "` repeated", KP_ARG(key));
		}
	}
	p->tok += 2;
	struct kp_node *v = kp_parse_expression(p, true);
	uint32_t n = c->n_kw;
	if (!v || kp_parse_push(p, &c->kw_values, &n, &cap[1], v)) {
		return -1;
	}
	if (c->n_kw == KP_TPL_MAX_KEYWORDS) {
		return kp_tpl_compile_fail(p->err, p->tok->line,
			"more than %d keyword arguments in one call", KP_TPL_MAX_KEYWORDS);
	}
	if (c->n_kw % 8 == 0) {
		names = kp_arena_grow(
			p->a, names, c->n_kw * sizeof(*names), (c->n_kw + 8) * sizeof(*names));
		if (!names) {
			return kp_parse_full(p);
		}
		c->kw_names = names;
	}
	c->kw_names[c->n_kw++] = key;
	return 0;
}

static int parse_argument(
	struct kp_parser *p, struct kp_tpl_call *c, uint32_t cap[2], uint32_t line)
{
	if (kp_parse_skip(p, KP_TOK_MUL)) {
		if (c->dyn_args || c->dyn_kwargs) {
			return call_fail(p, line);
		}
		c->dyn_args = kp_parse_expression(p, true);
		return c->dyn_args ? 0 : -1;
	}
	if (kp_parse_skip(p, KP_TOK_POW)) {
		if (c->dyn_kwargs) {
			return call_fail(p, line);
		}
		c->dyn_kwargs = kp_parse_expression(p, true);
		return c->dyn_kwargs ? 0 : -1;
	}
	if (kp_parse_is(p, KP_TOK_NAME) && p->tok[1].type == KP_TOK_ASSIGN) {
		return c->dyn_kwargs ? call_fail(p, line) : parse_keyword(p, c, cap);
	}
	if (c->dyn_args || c->dyn_kwargs || c->n_kw) {
		return call_fail(p, line);
	}
	struct kp_node *v = kp_parse_expression(p, true);
	return !v || kp_parse_push(p, &c->args, &c->n_args, &cap[0], v) ? -1 : 0;
}

/* "(...)" into n->call. */
static int parse_call_args(struct kp_parser *p, struct kp_node *n)
{
	uint32_t line = p->tok->line, cap[2] = { 0, 0 };
	struct kp_tpl_call *c = kp_arena_calloc(p->a, 1, sizeof(*c));
	if (!c) {
		return kp_parse_full(p);
	}
	n->call = c;
	if (kp_parse_expect(p, KP_TOK_LPAREN)) {
		return -1;
	}
	for (bool more = false; !kp_parse_is(p, KP_TOK_RPAREN); more = true) {
		if (more && kp_parse_expect(p, KP_TOK_COMMA)) {
			return -1;
		}
		if (more && kp_parse_is(p, KP_TOK_RPAREN)) {
			break;
		}
		if (parse_argument(p, c, cap, line)) {
			return -1;
		}
	}
	for (uint32_t i = 0; i < c->n_args; i++) {
		if (kp_parse_height(p, n, c->args[i])) {
			return -1;
		}
	}
	for (uint32_t i = 0; i < c->n_kw; i++) {
		if (kp_parse_height(p, n, c->kw_values[i])) {
			return -1;
		}
	}
	if ((c->dyn_args && kp_parse_height(p, n, c->dyn_args)) ||
		(c->dyn_kwargs && kp_parse_height(p, n, c->dyn_kwargs))) {
		return -1;
	}
	return kp_parse_expect(p, KP_TOK_RPAREN);
}

static struct kp_node *parse_call(struct kp_parser *p, struct kp_node *callee)
{
	struct kp_node *n = kp_parse_unary_node(p, KP_OP_CALL, callee, p->tok->line);
	if (!n || parse_call_args(p, n)) {
		return NULL;
	}
	/* x.get('name') asks for a key. */
	if (callee->op == KP_OP_GETATTR && kp_str_eq(callee->attr, KP_S("get")) &&
		n->call->n_args && n->call->args[0]->op == KP_OP_CONST &&
		n->call->args[0]->k.type == KP_TV_STR) {
		kp_str s;
		return kp_parse_intern(p, kp_tv_bytes(&n->call->args[0]->k), true, true, &s) ? NULL
											     : n;
	}
	return n;
}

static struct kp_node *parse_attr(struct kp_parser *p, struct kp_node *on, uint32_t line)
{
	if (kp_parse_is(p, KP_TOK_INT)) {
		struct kp_node *key = kp_parse_number(p);
		return kp_parse_binary_node(p, KP_OP_GETITEM, on, key, line);
	}
	if (!kp_parse_is(p, KP_TOK_NAME)) {
		kp_parse_unexpected(p, "a name or number");
		return NULL;
	}
	struct kp_node *n = kp_parse_unary_node(p, KP_OP_GETATTR, on, line);
	if (!n || kp_parse_intern(p, p->tok->s, true, false, &n->attr)) {
		return NULL;
	}
	n->n_ops = (uint16_t)kp_tpl_loop_attr_id(n->attr);
	n->def = kp_tpl_find_method(&(struct kp_tv){ .type = KP_TV_STR }, n->attr);
	n->dict_method = kp_tpl_find_method(&(struct kp_tv){ .type = KP_TV_DICT }, n->attr);
	n->flags |= kp_tpl_is_dunder(n->attr) ? KP_NF_DUNDER : 0;
	p->tok++;
	return n;
}

/* The inside of [ ]: one expression, or start:stop:step as a SLICE without its object. */
static struct kp_node *parse_subscribed(struct kp_parser *p)
{
	uint32_t line = p->tok->line;
	struct kp_node *first = NULL;
	if (!kp_parse_is(p, KP_TOK_COLON)) {
		first = kp_parse_expression(p, true);
		if (!first || !kp_parse_is(p, KP_TOK_COLON)) {
			return first;
		}
	}
	p->tok++;
	struct kp_node *n = kp_parse_node(p, KP_OP_SLICE, line);
	if (!n || !(n->items = kp_arena_calloc(p->a, 3, sizeof(*n->items)))) {
		kp_parse_full(p);
		return NULL;
	}
	n->n = 3;
	n->items[0] = first;
	if (first && kp_parse_height(p, n, first)) {
		return NULL;
	}
	for (int i = 1; i <= 2; i++) {
		if (i == 2 && !kp_parse_skip(p, KP_TOK_COLON)) {
			break;
		}
		if (kp_parse_is(p, KP_TOK_COLON) || kp_parse_is(p, KP_TOK_RBRACKET) ||
			kp_parse_is(p, KP_TOK_COMMA)) {
			continue;
		}
		n->items[i] = kp_parse_expression(p, true);
		if (!n->items[i] || kp_parse_height(p, n, n->items[i])) {
			return NULL;
		}
	}
	return n;
}

static struct kp_node *parse_subscript(struct kp_parser *p, struct kp_node *on)
{
	uint32_t line = p->tok->line;
	if (kp_parse_skip(p, KP_TOK_DOT)) {
		return parse_attr(p, on, line);
	}
	p->tok++;
	struct kp_parse_list l = { .node = kp_parse_node(p, KP_OP_TUPLE, line) };
	while (l.node && !kp_parse_is(p, KP_TOK_RBRACKET)) {
		if (l.node->n && kp_parse_expect(p, KP_TOK_COMMA)) {
			return NULL;
		}
		struct kp_node *item = parse_subscribed(p);
		if (kp_parse_list_add(p, &l, item)) {
			return NULL;
		}
		if (item->op == KP_OP_SLICE && !item->a && l.node->n > 1) {
			break; /* a slice in a tuple is no Python */
		}
	}
	if (!l.node || kp_parse_expect(p, KP_TOK_RBRACKET)) {
		return NULL;
	}
	struct kp_node *key = l.node->n == 1 ? l.node->items[0] : l.node;
	for (uint32_t i = 0; key == l.node && i < key->n; i++) {
		if (key->items[i]->op == KP_OP_SLICE && !key->items[i]->a) {
			kp_tpl_compile_fail(p->err, line, "slice inside a tuple");
			return NULL;
		}
	}
	if (key->op == KP_OP_SLICE && !key->a) {
		key->a = on;
		return kp_parse_height(p, key, on) ? NULL : key;
	}
	if (key->op == KP_OP_CONST && key->k.type == KP_TV_STR) {
		kp_str s;
		if (kp_parse_intern(p, kp_tv_bytes(&key->k), true, true, &s)) {
			return NULL;
		}
	}
	return kp_parse_binary_node(p, KP_OP_GETITEM, on, key, line);
}

struct kp_node *kp_parse_postfix(struct kp_parser *p, struct kp_node *n)
{
	for (;;) {
		if (!n) {
			return NULL;
		}
		if (kp_parse_is(p, KP_TOK_DOT) || kp_parse_is(p, KP_TOK_LBRACKET)) {
			n = parse_subscript(p, n);
		} else if (kp_parse_is(p, KP_TOK_LPAREN)) {
			n = parse_call(p, n);
		} else {
			return n;
		}
	}
}

/* "name.name" after | or `is`. */
static int dotted_name(struct kp_parser *p, struct kp_node *n)
{
	if (!kp_parse_is(p, KP_TOK_NAME)) {
		return kp_parse_unexpected(p, "a name");
	}
	kp_str s = p->tok->s;
	p->tok++;
	if (kp_parse_is(p, KP_TOK_DOT)) { /* no filter or test of ours has a dot in its name */
		return kp_tpl_compile_fail(p->err, n->line,
			"no filter or test named `%" KP_FMT ".%" KP_FMT "`", KP_ARG(s),
			KP_ARG(p->tok[1].s));
	}
	return kp_parse_intern(p, s, false, false, &n->name);
}

/* Unknown names are found in scope.c, which knows whether an `if` guards them. */
static void find_def(struct kp_node *n)
{
	n->def = n->op == KP_OP_FILTER ? kp_tpl_filter(n->name) : kp_tpl_test(n->name);
}

struct kp_node *kp_parse_filters(struct kp_parser *p, struct kp_node *on, bool start_inline)
{
	struct kp_node *n = on;
	while (start_inline || kp_parse_is(p, KP_TOK_PIPE)) {
		p->tok += !start_inline;
		start_inline = false;
		struct kp_node *f = kp_parse_node(p, KP_OP_FILTER, p->tok->line);
		if (!f || dotted_name(p, f)) {
			return NULL;
		}
		f->a = n;
		if ((n && kp_parse_height(p, f, n)) ||
			(kp_parse_is(p, KP_TOK_LPAREN) && parse_call_args(p, f))) {
			return NULL;
		}
		find_def(f);
		n = f;
	}
	return n;
}

static bool test_argument_follows(const struct kp_parser *p)
{
	switch (p->tok->type) {
	case KP_TOK_STRING:
	case KP_TOK_INT:
	case KP_TOK_FLOAT:
	case KP_TOK_LBRACKET:
	case KP_TOK_LBRACE:
		return true;
	case KP_TOK_NAME:
		return !kp_parse_is_name(p, "else") && !kp_parse_is_name(p, "or") &&
		       !kp_parse_is_name(p, "and");
	default:
		return false;
	}
}

static struct kp_node *parse_test(struct kp_parser *p, struct kp_node *on)
{
	uint32_t line = p->tok->line;
	p->tok++;
	bool negated = kp_parse_skip_name(p, "not");
	struct kp_node *n = kp_parse_unary_node(p, KP_OP_TEST, on, line);
	if (!n || dotted_name(p, n)) {
		return NULL;
	}
	if (kp_parse_is(p, KP_TOK_LPAREN)) {
		if (parse_call_args(p, n)) {
			return NULL;
		}
	} else if (test_argument_follows(p)) {
		if (kp_parse_is_name(p, "is")) {
			kp_tpl_compile_fail(
				p->err, p->tok->line, "tests cannot be chained with `is`");
			return NULL;
		}
		struct kp_node *arg = kp_parse_postfix(p, kp_parse_primary(p, false));
		uint32_t cap = 0;
		n->call = arg ? kp_arena_calloc(p->a, 1, sizeof(*n->call)) : NULL;
		if (!n->call || kp_parse_push(p, &n->call->args, &n->call->n_args, &cap, arg) ||
			kp_parse_height(p, n, arg)) {
			return arg && !n->call ? kp_parse_full(p), NULL : NULL;
		}
	}
	find_def(n);
	return negated ? kp_parse_unary_node(p, KP_OP_NOT, n, line) : n;
}

struct kp_node *kp_parse_filter_expr(struct kp_parser *p, struct kp_node *n)
{
	for (;;) {
		if (!n) {
			return NULL;
		}
		if (kp_parse_is(p, KP_TOK_PIPE)) {
			n = kp_parse_filters(p, n, false);
		} else if (kp_parse_is_name(p, "is")) {
			n = parse_test(p, n);
		} else if (kp_parse_is(p, KP_TOK_LPAREN)) {
			n = parse_call(p, n);
		} else {
			return n;
		}
	}
}

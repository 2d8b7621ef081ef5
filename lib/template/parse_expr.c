/* DESIGN: operators, recursive descent with jinja2's grammar and its oddities: `**` binds to the left and weaker than a unary
   minus, `~` sits between + and *, comparisons chain, a conditional may lack its else. Nesting is limited twice:
   KP_TPL_MAX_NESTING for what recurses here, KP_TPL_MAX_HEIGHT for the tree that comes out (a.b.c.d... recurses only when it
   is evaluated). Sums and concatenations of any length are one node. */
#include "template/parse.h"

static struct kp_node *parse_or(struct kp_parser *p);
static struct kp_node *parse_unary(struct kp_parser *p, bool with_filter);

static struct kp_node *parse_unary(struct kp_parser *p, bool with_filter)
{
	uint32_t line = p->tok->line;
	struct kp_node *n;
	if (p->depth == KP_TPL_MAX_NESTING) {
		kp_tpl_compile_fail(p->err, line, "nesting deeper than %d", KP_TPL_MAX_NESTING);
		return NULL;
	}
	p->depth++;
	if (kp_parse_is(p, KP_TOK_SUB) || kp_parse_is(p, KP_TOK_ADD)) {
		enum kp_op op = kp_parse_is(p, KP_TOK_SUB) ? KP_OP_NEG : KP_OP_POS;
		p->tok++;
		n = kp_parse_unary_node(p, op, parse_unary(p, false), line);
	} else {
		n = kp_parse_primary(p, false);
	}
	n = kp_parse_postfix(p, n);
	if (with_filter) {
		n = kp_parse_filter_expr(p, n);
	}
	p->depth--;
	return n;
}

static struct kp_node *parse_pow(struct kp_parser *p)
{
	uint32_t line = p->tok->line;
	struct kp_node *n = parse_unary(p, true);
	while (n && kp_parse_skip(p, KP_TOK_POW)) {
		n = kp_parse_binary_node(p, KP_OP_POW, n, parse_unary(p, true), line);
	}
	return n;
}

static struct kp_node *parse_math2(struct kp_parser *p)
{
	uint32_t line = p->tok->line;
	struct kp_node *n = parse_pow(p);
	while (n) {
		enum kp_op op = kp_parse_is(p, KP_TOK_MUL)        ? KP_OP_MUL
				: kp_parse_is(p, KP_TOK_DIV)      ? KP_OP_DIV
				: kp_parse_is(p, KP_TOK_FLOORDIV) ? KP_OP_FLOORDIV
				: kp_parse_is(p, KP_TOK_MOD)      ? KP_OP_MOD
								  : KP_OP_NONE;
		if (op == KP_OP_NONE) {
			break;
		}
		p->tok++;
		n = kp_parse_binary_node(p, op, n, parse_pow(p), line);
	}
	return n;
}

/* first sep next sep next ... as one node with items; first alone when no sep follows. */
static struct kp_node *parse_chain(struct kp_parser *p, enum kp_op op, enum kp_tok sep,
	struct kp_node *first, struct kp_node *(*next)(struct kp_parser *))
{
	if (!first || !kp_parse_is(p, sep)) {
		return first;
	}
	struct kp_parse_list l = { .node = kp_parse_node(p, op, first->line) };
	if (!l.node || kp_parse_list_add(p, &l, first)) {
		return NULL;
	}
	while (kp_parse_skip(p, sep)) {
		if (kp_parse_list_add(p, &l, next(p))) {
			return NULL;
		}
	}
	return l.node;
}

static struct kp_node *parse_concat(struct kp_parser *p)
{
	return parse_chain(p, KP_OP_CONCAT, KP_TOK_TILDE, parse_math2(p), parse_math2);
}

static struct kp_node *parse_math1(struct kp_parser *p)
{
	uint32_t line = p->tok->line;
	struct kp_node *n = parse_concat(p);
	for (;;) {
		n = parse_chain(p, KP_OP_ADD, KP_TOK_ADD, n, parse_concat);
		if (!n || !kp_parse_skip(p, KP_TOK_SUB)) {
			return n;
		}
		n = kp_parse_binary_node(p, KP_OP_SUB, n, parse_concat(p), line);
	}
}

static bool compare_op(struct kp_parser *p, uint8_t *ret)
{
	static const struct {
		uint8_t tok, op;
	} ops[] = { { KP_TOK_EQ, KP_CMP_EQ }, { KP_TOK_NE, KP_CMP_NE }, { KP_TOK_LT, KP_CMP_LT },
		{ KP_TOK_LE, KP_CMP_LE }, { KP_TOK_GT, KP_CMP_GT }, { KP_TOK_GE, KP_CMP_GE } };
	for (size_t i = 0; i < KP_LEN(ops); i++) {
		if (kp_parse_skip(p, ops[i].tok)) {
			*ret = ops[i].op;
			return true;
		}
	}
	if (kp_parse_skip_name(p, "in")) {
		*ret = KP_CMP_IN;
		return true;
	}
	if (kp_parse_is_name(p, "not") && p->tok[1].type == KP_TOK_NAME &&
		kp_str_eq(p->tok[1].s, KP_S("in"))) {
		p->tok += 2;
		*ret = KP_CMP_NOTIN;
		return true;
	}
	return false;
}

static struct kp_node *parse_compare(struct kp_parser *p)
{
	uint32_t line = p->tok->line;
	struct kp_node *first = parse_math1(p);
	uint8_t op, *ops = NULL;
	size_t cap = 0;
	struct kp_parse_list l = { 0 };
	while (first && compare_op(p, &op)) {
		if (!l.node && (!(l.node = kp_parse_node(p, KP_OP_COMPARE, line)) ||
				       kp_parse_list_add(p, &l, first))) {
			return NULL;
		}
		if (l.node->n_ops == cap) {
			ops = kp_arena_grow(p->a, ops, cap, 2 * cap + 8);
			cap = 2 * cap + 8;
		}
		if (!ops) {
			kp_parse_full(p);
			return NULL;
		}
		if (l.node->n_ops == UINT16_MAX) {
			kp_tpl_compile_fail(
				p->err, line, "more than %d comparisons in a chain", UINT16_MAX);
			return NULL;
		}
		ops[l.node->n_ops++] = op;
		l.node->ops = ops;
		if (kp_parse_list_add(p, &l, parse_math1(p))) {
			return NULL;
		}
		struct kp_node *left = l.node->items[0];
		if (op >= KP_CMP_IN && left->op == KP_OP_CONST &&
			left->k.type == KP_TV_STR) { /* 'name' in x asks for a key */
			kp_str s;
			if (kp_parse_intern(p, kp_tv_bytes(&left->k), true, true, &s)) {
				return NULL;
			}
		}
	}
	return l.node ? l.node : first;
}

static struct kp_node *parse_not(struct kp_parser *p)
{
	uint32_t line = p->tok->line, n = 0;
	while (kp_parse_skip_name(p, "not")) {
		n++;
	}
	struct kp_node *e = parse_compare(p);
	while (e && n--) {
		e = kp_parse_unary_node(p, KP_OP_NOT, e, line);
	}
	return e;
}

static struct kp_node *parse_and(struct kp_parser *p)
{
	uint32_t line = p->tok->line;
	struct kp_node *n = parse_not(p);
	while (n && kp_parse_skip_name(p, "and")) {
		n = kp_parse_binary_node(p, KP_OP_AND, n, parse_not(p), line);
	}
	return n;
}

static struct kp_node *parse_or(struct kp_parser *p)
{
	uint32_t line = p->tok->line;
	struct kp_node *n = parse_and(p);
	while (n && kp_parse_skip_name(p, "or")) {
		n = kp_parse_binary_node(p, KP_OP_OR, n, parse_and(p), line);
	}
	return n;
}

/* "if test else other" behind `then`. */
static struct kp_node *parse_cond(struct kp_parser *p, struct kp_node *then, uint32_t line)
{
	struct kp_node *n = kp_parse_unary_node(p, KP_OP_COND, parse_or(p), line);
	if (!n) {
		return NULL;
	}
	n->b = then;
	if (kp_parse_height(p, n, then)) {
		return NULL;
	}
	if (!kp_parse_skip_name(p, "else")) {
		return n;
	}
	if (p->depth == KP_TPL_MAX_NESTING) {
		kp_tpl_compile_fail(p->err, line, "nesting deeper than %d", KP_TPL_MAX_NESTING);
		return NULL;
	}
	p->depth++;
	n->c = kp_parse_expression(p, true);
	p->depth--;
	return n->c && !kp_parse_height(p, n, n->c) ? n : NULL;
}

struct kp_node *kp_parse_expression(struct kp_parser *p, bool with_cond)
{
	uint32_t line = p->tok->line;
	struct kp_node *n = parse_or(p);
	while (n && with_cond && kp_parse_skip_name(p, "if")) {
		n = parse_cond(p, n, line);
	}
	return n;
}

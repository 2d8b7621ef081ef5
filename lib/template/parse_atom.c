/* DESIGN: what stands alone in an expression (names, literals, tuples, lists, dicts), and the making of nodes. Equal names and
   strings are one slice of memory (interned), so that they compare by pointer and each is reported once as a literal. */
#include "template/parse.h"

struct kp_node *kp_parse_unary_node(
	struct kp_parser *p, enum kp_op op, struct kp_node *a, uint32_t line)
{
	struct kp_node *n = a ? kp_parse_node(p, op, line) : NULL;
	if (!n) {
		return NULL;
	}
	n->a = a;
	return kp_parse_height(p, n, a) ? NULL : n;
}

struct kp_node *kp_parse_binary_node(
	struct kp_parser *p, enum kp_op op, struct kp_node *a, struct kp_node *b, uint32_t line)
{
	struct kp_node *n = b ? kp_parse_unary_node(p, op, a, line) : NULL;
	if (!n) {
		return NULL;
	}
	n->b = b;
	return kp_parse_height(p, n, b) ? NULL : n;
}

int kp_parse_list_add(struct kp_parser *p, struct kp_parse_list *l, struct kp_node *item)
{
	return !item || kp_parse_push(p, &l->node->items, &l->node->n, &l->cap, item) ||
			       kp_parse_height(p, l->node, item)
		       ? -1
		       : 0;
}

static struct kp_node *parse_list(struct kp_parser *p)
{
	struct kp_parse_list l = { .node = kp_parse_node(p, KP_OP_LIST, p->tok->line) };
	p->tok++;
	while (l.node && !kp_parse_is(p, KP_TOK_RBRACKET)) {
		if (l.node->n && kp_parse_expect(p, KP_TOK_COMMA)) {
			return NULL;
		}
		if (kp_parse_is(p, KP_TOK_RBRACKET)) {
			break;
		}
		if (kp_parse_list_add(p, &l, kp_parse_expression(p, true))) {
			return NULL;
		}
	}
	return l.node && !kp_parse_expect(p, KP_TOK_RBRACKET) ? l.node : NULL;
}

static struct kp_node *parse_dict(struct kp_parser *p)
{
	struct kp_parse_list l = { .node = kp_parse_node(p, KP_OP_DICT, p->tok->line) };
	p->tok++;
	while (l.node && !kp_parse_is(p, KP_TOK_RBRACE)) {
		if (l.node->n && kp_parse_expect(p, KP_TOK_COMMA)) {
			return NULL;
		}
		if (kp_parse_is(p, KP_TOK_RBRACE)) {
			break;
		}
		if (kp_parse_list_add(p, &l, kp_parse_expression(p, true)) ||
			kp_parse_expect(p, KP_TOK_COLON) ||
			kp_parse_list_add(p, &l, kp_parse_expression(p, true))) {
			return NULL;
		}
	}
	return l.node && !kp_parse_expect(p, KP_TOK_RBRACE) ? l.node : NULL;
}

static bool tuple_end(const struct kp_parser *p, enum kp_tuple_end end)
{
	return kp_parse_is(p, KP_TOK_VAR_END) || kp_parse_is(p, KP_TOK_BLOCK_END) ||
	       kp_parse_is(p, KP_TOK_RPAREN) ||
	       (end == KP_TUPLE_END_IN && kp_parse_is_name(p, "in")) ||
	       (end == KP_TUPLE_END_RECURSIVE && kp_parse_is_name(p, "recursive"));
}

struct kp_node *kp_parse_tuple(struct kp_parser *p, bool simplified, bool with_cond,
	enum kp_tuple_end end, bool parens, bool with_namespace)
{
	struct kp_parse_list l = { .node = kp_parse_node(p, KP_OP_TUPLE, p->tok->line) };
	bool is_tuple = false;
	while (l.node) {
		if (l.node->n && kp_parse_expect(p, KP_TOK_COMMA)) {
			return NULL;
		}
		if (tuple_end(p, end)) {
			break;
		}
		if (kp_parse_list_add(p, &l,
			    simplified ? kp_parse_primary(p, with_namespace)
				       : kp_parse_expression(p, with_cond))) {
			return NULL;
		}
		if (!kp_parse_is(p, KP_TOK_COMMA)) {
			break;
		}
		is_tuple = true;
	}
	if (!l.node || is_tuple) {
		return l.node;
	}
	if (l.node->n) {
		return l.node->items[0];
	}
	if (!parens) {
		kp_parse_unexpected(p, "an expression");
		return NULL;
	}
	return l.node;
}

static struct kp_node *constant(struct kp_parser *p, struct kp_tv v)
{
	struct kp_node *n = kp_parse_node(p, KP_OP_CONST, p->tok->line);
	if (n) {
		n->k = v;
	}
	return n;
}

static struct kp_node *parse_name(struct kp_parser *p, bool with_namespace)
{
	static const struct {
		const char *name;
		struct kp_tv v;
	} known[] = {
		{ "true", { .type = KP_TV_BOOL, .i = 1 } },
		{ "True", { .type = KP_TV_BOOL, .i = 1 } },
		{ "false", { .type = KP_TV_BOOL } },
		{ "False", { .type = KP_TV_BOOL } },
		{ "none", { .type = KP_TV_NONE } },
		{ "None", { .type = KP_TV_NONE } },
	};
	for (size_t i = 0; i < KP_LEN(known); i++) {
		if (kp_parse_is_name(p, known[i].name)) {
			struct kp_node *n = constant(p, known[i].v);
			p->tok++;
			return n;
		}
	}
	struct kp_node *n = kp_parse_node(p, KP_OP_NAME, p->tok->line);
	if (!n || kp_parse_intern(p, p->tok->s, true, false, &n->name)) {
		return NULL;
	}
	p->tok++;
	if (with_namespace && kp_parse_skip(p, KP_TOK_DOT)) {
		n->op = KP_OP_NSREF;
		if (!kp_parse_is(p, KP_TOK_NAME)) {
			kp_parse_unexpected(p, "a name");
			return NULL;
		}
		if (kp_parse_intern(p, p->tok->s, true, false, &n->attr)) {
			return NULL;
		}
		p->tok++;
	}
	return n;
}

/* Neighbouring string literals are one. */
static struct kp_node *parse_string(struct kp_parser *p)
{
	kp_str s = p->tok->s;
	uint32_t line = p->tok->line;
	size_t bytes = 0;
	const struct kp_token *first = p->tok;
	for (; kp_parse_is(p, KP_TOK_STRING); p->tok++) {
		bytes += p->tok->s.n;
	}
	if (p->tok > first + 1) {
		char *all = kp_arena_alloc(p->scratch, bytes), *at = all;
		if (!all) {
			kp_parse_full(p);
			return NULL;
		}
		for (const struct kp_token *t = first; t < p->tok; t++) {
			memcpy(at, t->s.n ? t->s.p : "", t->s.n);
			at += t->s.n;
		}
		s = kp_str_n(all, bytes);
	}
	struct kp_node *n = kp_parse_node(p, KP_OP_CONST, line);
	if (!n || kp_parse_intern(p, s, false, true, &s)) {
		return NULL;
	}
	n->k = kp_tv_str(s, KP_ORIGIN_TRUSTED);
	return n;
}

struct kp_node *kp_parse_number(struct kp_parser *p)
{
	kp_str s = p->tok->s;
	struct kp_tv v = { .type = KP_TV_INT };
	if (kp_parse_is(p, KP_TOK_FLOAT)) {
		v.type = KP_TV_FLOAT;
		if (!kp_str_f64(s, &v.f)) { /* beyond the range of a double */
			v.f = __builtin_inf();
		}
	} else if (s.n > 1 && s.p[0] == '0' && s.p[1] != '0') {
		unsigned shift = kp_lower(s.p[1]) == 'x' ? 4 : kp_lower(s.p[1]) == 'o' ? 3 : 1;
		for (size_t i = 2; i < s.n; i++) {
			char c = kp_lower(s.p[i]);
			if (v.i >> (63 - shift)) {
				kp_tpl_compile_fail(p->err, p->tok->line,
					"integer `%" KP_FMT "` is too large", KP_ARG(s));
				return NULL;
			}
			v.i = v.i << shift | (kp_is_digit(c) ? c - '0' : c - 'a' + 10);
		}
	} else if (!kp_str_i64(s, 0, INT64_MAX, &v.i)) {
		kp_str digits;
		if (kp_parse_intern(p, s, false, false, &digits)) {
			return NULL;
		}
		v = (struct kp_tv){ .type = KP_TV_BIG, .n = (uint32_t)digits.n, .s = digits.p };
	}
	struct kp_node *n = constant(p, v);
	p->tok++;
	return n;
}

struct kp_node *kp_parse_primary(struct kp_parser *p, bool with_namespace)
{
	switch (p->tok->type) {
	case KP_TOK_NAME:
		return parse_name(p, with_namespace);
	case KP_TOK_STRING:
		return parse_string(p);
	case KP_TOK_INT:
	case KP_TOK_FLOAT:
		return kp_parse_number(p);
	case KP_TOK_LPAREN: {
		p->tok++;
		struct kp_node *n = kp_parse_tuple(p, false, true, KP_TUPLE_END, true, false);
		return n && !kp_parse_expect(p, KP_TOK_RPAREN) ? n : NULL;
	}
	case KP_TOK_LBRACKET:
		return parse_list(p);
	case KP_TOK_LBRACE:
		return parse_dict(p);
	default:
		kp_parse_unexpected(p, NULL);
		return NULL;
	}
}

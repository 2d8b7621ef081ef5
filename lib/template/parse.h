/* From source to tree: tokens (lex.c), the parser (parse*.c), scopes (scope.c). Used while compiling only. */
#ifndef KP_TEMPLATE_PARSE_H
#define KP_TEMPLATE_PARSE_H

#include "template/ast.h"

/* --- lexing (lex.c) */
enum kp_tok {
	KP_TOK_EOF = 0,
	KP_TOK_DATA,
	KP_TOK_VAR_BEGIN,
	KP_TOK_VAR_END,
	KP_TOK_BLOCK_BEGIN,
	KP_TOK_BLOCK_END,
	KP_TOK_NAME,
	KP_TOK_STRING,
	KP_TOK_INT,
	KP_TOK_FLOAT,
	KP_TOK_ADD,
	KP_TOK_SUB,
	KP_TOK_DIV,
	KP_TOK_FLOORDIV,
	KP_TOK_MUL,
	KP_TOK_MOD,
	KP_TOK_POW,
	KP_TOK_TILDE,
	KP_TOK_LBRACKET,
	KP_TOK_RBRACKET,
	KP_TOK_LPAREN,
	KP_TOK_RPAREN,
	KP_TOK_LBRACE,
	KP_TOK_RBRACE,
	KP_TOK_EQ,
	KP_TOK_NE,
	KP_TOK_GT,
	KP_TOK_GE,
	KP_TOK_LT,
	KP_TOK_LE,
	KP_TOK_ASSIGN,
	KP_TOK_DOT,
	KP_TOK_COLON,
	KP_TOK_PIPE,
	KP_TOK_COMMA,
	KP_TOK_SEMICOLON,
};
struct kp_token {
	uint32_t type, line;
	kp_str s; /* NAME, DATA; STRING unescaped; INT, FLOAT without underscores */
};
const char *kp_tok_name(enum kp_tok t);
/* "compile template: line L: ..." */
int kp_tpl_compile_fail(struct kp_err *err, uint32_t line, const char *fmt, ...) KP_PRINTF(3, 4);
/* The memory that compiling may take is used up there. */
int kp_tpl_compile_full(struct kp_err *err, uint32_t line);
/* Normalized source in, tokens out (both in a). The last one is EOF. */
int kp_tpl_lex(struct kp_arena *a, kp_str source, struct kp_token **ret, uint32_t *ret_n,
	struct kp_err *err) KP_MUST_USE;

/* --- parsing (parse.c, parse_expr.c), scopes (scope.c) */
struct kp_parser {
	struct kp_arena *a; /* the template's */
	struct kp_template *t;
	const struct kp_token *tok; /* current */
	struct kp_err *err;
	uint32_t depth, n_names_cap;
	uint32_t *name_slots; /* hash of t->names */
	uint32_t n_name_slots;
	struct kp_arena *scratch;
	uint32_t loop_depth; /* loops of the function being parsed: break and continue */
};
enum { KP_TPL_MAX_NESTING = 200, KP_TPL_MAX_HEIGHT = 400, KP_TPL_MAX_KEYWORDS = 1000 };
/* All give NULL (or -1) with p->err set. */
struct kp_node *kp_parse_node(struct kp_parser *p, enum kp_op op, uint32_t line);
int kp_parse_height(struct kp_parser *p, struct kp_node *n, const struct kp_node *child);
int kp_parse_expect(struct kp_parser *p, enum kp_tok t);
bool kp_parse_is_name(const struct kp_parser *p, const char *name);
bool kp_parse_skip_name(struct kp_parser *p, const char *name);
static inline int kp_parse_full(struct kp_parser *p)
{
	return kp_tpl_compile_full(p->err, p->tok->line);
}
int kp_parse_unexpected(struct kp_parser *p, const char *expected);
int kp_parse_intern(struct kp_parser *p, kp_str s, bool mentioned, bool literal, kp_str *ret);
int kp_parse_push(struct kp_parser *p, struct kp_node ***items, uint32_t *n, uint32_t *cap,
	struct kp_node *item);
struct kp_node *kp_parse_expression(struct kp_parser *p, bool with_cond);
struct kp_node *kp_parse_primary(struct kp_parser *p, bool with_namespace);
enum kp_tuple_end { KP_TUPLE_END = 0, KP_TUPLE_END_IN, KP_TUPLE_END_RECURSIVE };
/* simplified: only names and literals (assignment targets). */
struct kp_node *kp_parse_tuple(struct kp_parser *p, bool simplified, bool with_cond,
	enum kp_tuple_end end, bool parens, bool with_namespace);
struct kp_node *kp_parse_filters(struct kp_parser *p, struct kp_node *on, bool start_inline);
struct kp_node *kp_parse_template(struct kp_parser *p);
/* Token tests: is it the current one, and step over it if so. */
static inline bool kp_parse_is(const struct kp_parser *p, enum kp_tok t)
{
	return p->tok->type == t;
}
static inline bool kp_parse_skip(struct kp_parser *p, enum kp_tok t)
{
	bool is = p->tok->type == t;
	p->tok += is;
	return is;
}
struct kp_node *kp_parse_clone(struct kp_parser *p, const struct kp_node *target);
/* Resolves every name below the root. */
int kp_tpl_scope(struct kp_parser *p) KP_MUST_USE;
/* What says that the rounds of a loop that are left would do nothing, or NULL (latch.c). */
const struct kp_node *kp_tpl_latch(const struct kp_node *loop);
/* Finds what rounds of loops ask, once every name is resolved (rounds_find.c). */
int kp_tpl_find_rounds(struct kp_parser *p) KP_MUST_USE;
/* Calls fn on each child in jinja2's field order; stops at the first non-zero result and returns it. */
int kp_node_children(struct kp_node *n, int (*fn)(void *ctx, struct kp_node *child), void *ctx);

/* --- building (parse_atom.c, parse_postfix.c): each gives NULL for a NULL operand */
struct kp_node *kp_parse_unary_node(
	struct kp_parser *p, enum kp_op op, struct kp_node *a, uint32_t line);
struct kp_node *kp_parse_binary_node(
	struct kp_parser *p, enum kp_op op, struct kp_node *a, struct kp_node *b, uint32_t line);
/* A node whose items are collected while parsing. */
struct kp_parse_list {
	struct kp_node *node;
	uint32_t cap;
};
int kp_parse_list_add(struct kp_parser *p, struct kp_parse_list *l, struct kp_node *item);
struct kp_node *kp_parse_number(struct kp_parser *p);
struct kp_node *kp_parse_postfix(struct kp_parser *p, struct kp_node *n);
struct kp_node *kp_parse_filter_expr(struct kp_parser *p, struct kp_node *n);

#endif

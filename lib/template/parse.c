/* DESIGN: statements. Reads the whole token array into one tree; owns nothing but the interning table of names and strings (in the
   scratch arena; the strings themselves lie in the template's). What needs another template (include, import, extends) and what
   changes how text is printed (autoescape) is refused here by name. Nesting shares its limit with expressions. */
#include "template/parse.h"

#include "base/map.h"

#include <stdio.h>

struct kp_node *kp_parse_node(struct kp_parser *p, enum kp_op op, uint32_t line)
{
	struct kp_node *n = kp_arena_calloc(p->a, 1, sizeof(*n));
	if (!n) {
		kp_parse_full(p);
		return NULL;
	}
	n->op = (uint8_t)op;
	n->line = line;
	n->height = 1;
	return n;
}

int kp_parse_height(struct kp_parser *p, struct kp_node *n, const struct kp_node *child)
{
	if (child->height >= KP_TPL_MAX_HEIGHT) {
		return kp_tpl_compile_fail(
			p->err, n->line, "expression deeper than %d", KP_TPL_MAX_HEIGHT);
	}
	n->height = child->height >= n->height ? (uint16_t)(child->height + 1) : n->height;
	return 0;
}

int kp_parse_push(struct kp_parser *p, struct kp_node ***items, uint32_t *n, uint32_t *cap,
	struct kp_node *item)
{
	if (*n == *cap) {
		uint32_t want = *cap ? *cap * 2 : 4;
		struct kp_node **grown =
			kp_arena_grow(p->a, *items, *cap * sizeof(*grown), want * sizeof(*grown));
		if (!grown) {
			return kp_parse_full(p);
		}
		*items = grown;
		*cap = want;
	}
	(*items)[(*n)++] = item;
	return 0;
}

int kp_parse_unexpected(struct kp_parser *p, const char *expected)
{
	const struct kp_token *t = p->tok;
	char got[64];
	if (t->type == KP_TOK_NAME) {
		snprintf(got, sizeof(got), "%.*s", (int)KP_MIN(t->s.n, (size_t)40), t->s.p);
	} else {
		snprintf(got, sizeof(got), "%s", kp_tok_name((enum kp_tok)t->type));
	}
	return expected ? kp_tpl_compile_fail(
				  p->err, t->line, "expected %s, got `%s`", expected, got)
			: kp_tpl_compile_fail(p->err, t->line, "unexpected `%s`", got);
}

int kp_parse_expect(struct kp_parser *p, enum kp_tok t)
{
	if (p->tok->type != t) {
		char want[48];
		snprintf(want, sizeof(want), "`%s`", kp_tok_name(t));
		return kp_parse_unexpected(p, want);
	}
	p->tok++;
	return 0;
}

bool kp_parse_is_name(const struct kp_parser *p, const char *name)
{
	return p->tok->type == KP_TOK_NAME && kp_str_eq(p->tok->s, kp_str_c(name));
}

bool kp_parse_skip_name(struct kp_parser *p, const char *name)
{
	if (!kp_parse_is_name(p, name)) {
		return false;
	}
	p->tok++;
	return true;
}

/* --- names and strings ---------------------------------------------------------------------------------------------------------- */

static int grow_names(struct kp_parser *p)
{
	struct kp_template *t = p->t;
	uint32_t cap = p->n_names_cap ? p->n_names_cap * 2 : 64, n_slots = cap * 2;
	struct kp_tpl_name *names =
		kp_arena_grow(p->a, t->names, t->n_names * sizeof(*names), cap * sizeof(*names));
	uint32_t *slots = kp_arena_calloc(p->scratch, n_slots, sizeof(*slots));
	if (!names || !slots) {
		return kp_parse_full(p);
	}
	t->names = names;
	p->n_names_cap = cap;
	p->name_slots = slots;
	p->n_name_slots = n_slots;
	for (uint32_t i = 0; i < t->n_names; i++) {
		uint32_t at = (uint32_t)kp_hash(names[i].s) & (n_slots - 1);
		while (slots[at]) {
			at = (at + 1) & (n_slots - 1);
		}
		slots[at] = i + 1;
	}
	return 0;
}

int kp_parse_intern(struct kp_parser *p, kp_str s, bool mentioned, bool literal, kp_str *ret)
{
	struct kp_template *t = p->t;
	if (t->n_names == p->n_names_cap && grow_names(p)) {
		return -1;
	}
	uint32_t at = (uint32_t)kp_hash(s) & (p->n_name_slots - 1);
	while (p->name_slots[at] && !kp_str_eq(t->names[p->name_slots[at] - 1].s, s)) {
		at = (at + 1) & (p->n_name_slots - 1);
	}
	if (!p->name_slots[at]) {
		struct kp_tpl_name *n = &t->names[t->n_names];
		*n = (struct kp_tpl_name){ .s = s };
		bool in_source = s.n && s.p >= t->source.p && s.p < t->source.p + t->source.n;
		if (!in_source && kp_arena_dup(p->a, s, &n->s, p->err)) {
			return kp_parse_full(p);
		}
		p->name_slots[at] = ++t->n_names;
	}
	struct kp_tpl_name *n = &t->names[p->name_slots[at] - 1];
	n->mentioned |= mentioned;
	n->literal |= literal;
	*ret = n->s;
	return 0;
}

/* --- targets -------------------------------------------------------------------------------------------------------------------- */

static const char *op_name(const struct kp_node *n)
{
	switch (n->op) {
	case KP_OP_CONST:
		return "const";
	case KP_OP_LIST:
		return "list";
	case KP_OP_DICT:
		return "dict";
	default:
		return "expression";
	}
}

static int set_ctx(struct kp_parser *p, struct kp_node *n, enum kp_ctx ctx)
{
	if (n->op == KP_OP_TUPLE) {
		for (uint32_t i = 0; i < n->n; i++) {
			if (set_ctx(p, n->items[i], ctx)) {
				return -1;
			}
		}
	} else if (n->op != KP_OP_NAME && n->op != KP_OP_NSREF) {
		return kp_tpl_compile_fail(p->err, n->line, "can't assign to `%s`", op_name(n));
	}
	n->ctx = (uint8_t)ctx;
	return 0;
}

static struct kp_node *parse_target(
	struct kp_parser *p, enum kp_tuple_end end, bool with_namespace, enum kp_ctx ctx)
{
	struct kp_node *n = kp_parse_tuple(p, true, true, end, false, with_namespace);
	return n && !set_ctx(p, n, ctx) ? n : NULL;
}

static struct kp_node *parse_name_target(struct kp_parser *p, enum kp_ctx ctx)
{
	if (p->tok->type != KP_TOK_NAME) {
		kp_parse_unexpected(p, "a name");
		return NULL;
	}
	struct kp_node *n = kp_parse_primary(p, false);
	return n && !set_ctx(p, n, ctx) ? n : NULL;
}

struct kp_node *kp_parse_clone(struct kp_parser *p, const struct kp_node *target)
{
	struct kp_node *n = kp_parse_node(p, (enum kp_op)target->op, target->line);
	if (!n) {
		return NULL;
	}
	n->ctx = target->ctx;
	n->name = target->name;
	n->n = target->n;
	n->items = target->n ? kp_arena_calloc(p->a, target->n, sizeof(*n->items)) : NULL;
	for (uint32_t i = 0; i < target->n; i++) {
		if (!n->items || !(n->items[i] = kp_parse_clone(p, target->items[i]))) {
			kp_parse_full(p);
			return NULL;
		}
	}
	return n;
}

/* --- statements ----------------------------------------------------------------------------------------------------------------- */

static struct kp_node *parse_body(struct kp_parser *p, const char *const *ends);

/* ":"? "%}" statements until one of the NULL-ended names; the current token is that name afterwards. */
static struct kp_node *parse_statements(struct kp_parser *p, const char *const *ends)
{
	if (p->tok->type == KP_TOK_COLON) {
		p->tok++;
	}
	if (kp_parse_expect(p, KP_TOK_BLOCK_END)) {
		return NULL;
	}
	if (p->depth >= KP_TPL_MAX_NESTING) {
		kp_tpl_compile_fail(
			p->err, p->tok->line, "nesting deeper than %d", KP_TPL_MAX_NESTING);
		return NULL;
	}
	p->depth++;
	struct kp_node *n = parse_body(p, ends);
	p->depth--;
	if (n && p->tok->type == KP_TOK_EOF) {
		kp_tpl_compile_fail(p->err, p->tok->line,
			"unexpected end of template, looking for `%s`", ends[0]);
		return NULL;
	}
	return n;
}

/* parse_statements with one end, which is taken too. */
static struct kp_node *parse_block(struct kp_parser *p, const char *end)
{
	struct kp_node *n = parse_statements(p, (const char *const[]){ end, NULL });
	p->tok += n != NULL;
	return n;
}

static struct kp_node *parse_set(struct kp_parser *p, uint32_t line)
{
	struct kp_node *n = kp_parse_node(p, KP_OP_SET, line);
	if (!n || !(n->a = parse_target(p, KP_TUPLE_END, true, KP_CTX_STORE))) {
		return NULL;
	}
	if (p->tok->type == KP_TOK_ASSIGN) {
		p->tok++;
		n->b = kp_parse_tuple(p, false, true, KP_TUPLE_END, false, false);
		return n->b && !kp_parse_height(p, n, n->b) ? n : NULL;
	}
	n->op = KP_OP_SETBLOCK;
	if (p->tok->type == KP_TOK_PIPE && !(n->b = kp_parse_filters(p, NULL, false))) {
		return NULL;
	}
	n->c = parse_block(p, "endset");
	return n->c ? n : NULL;
}

static struct kp_node *parse_for(struct kp_parser *p, uint32_t line)
{
	struct kp_node *n = kp_parse_node(p, KP_OP_FOR, line);
	if (!n || !(n->a = parse_target(p, KP_TUPLE_END_IN, false, KP_CTX_STORE))) {
		return NULL;
	}
	if (!kp_parse_skip_name(p, "in")) {
		kp_parse_unexpected(p, "`in`");
		return NULL;
	}
	n->n = 3;
	n->items = kp_arena_calloc(p->a, 3, sizeof(*n->items));
	n->b = n->items ? kp_parse_tuple(p, false, false, KP_TUPLE_END_RECURSIVE, false, false)
			: NULL;
	if (!n->b) {
		return n->items ? NULL : (kp_parse_full(p), NULL);
	}
	if (kp_parse_skip_name(p, "if")) {
		n->items[1] = kp_parse_expression(p, true);
		n->items[2] = n->items[1] ? kp_parse_clone(p, n->a) : NULL;
		if (!n->items[2]) {
			return NULL;
		}
	}
	n->flags |= kp_parse_skip_name(p, "recursive") ? KP_NF_RECURSIVE : 0;
	p->loop_depth++;
	n->c = parse_statements(p, (const char *const[]){ "endfor", "else", NULL });
	p->loop_depth--;
	if (!n->c) {
		return NULL;
	}
	if (!kp_parse_skip_name(p, "endfor")) {
		p->tok++;
		/* The else branch is written behind the loop: a break in it belongs to the loop around, which a recursive loop hides. */
		uint32_t outer = p->loop_depth;
		p->loop_depth = n->flags & KP_NF_RECURSIVE ? 0 : outer;
		n->items[0] = parse_block(p, "endfor");
		p->loop_depth = outer;
		return n->items[0] ? n : NULL;
	}
	return n;
}

static struct kp_node *parse_if(struct kp_parser *p, uint32_t line)
{
	static const char *const ends[] = { "elif", "else", "endif", NULL };
	struct kp_node *first = NULL;
	uint32_t cap = 0;
	for (;;) {
		struct kp_node *n = kp_parse_node(p, KP_OP_IF, line);
		if (!n || !(n->a = kp_parse_tuple(p, false, false, KP_TUPLE_END, false, false)) ||
			!(n->b = parse_statements(p, ends))) {
			return NULL;
		}
		if (first && kp_parse_push(p, &first->items, &first->n, &cap, n)) {
			return NULL;
		}
		first = first ? first : n;
		if (kp_parse_skip_name(p, "elif")) {
			line = p->tok->line;
			continue;
		}
		if (kp_parse_skip_name(p, "else")) {
			first->c = parse_block(p, "endif");
			return first->c ? first : NULL;
		}
		p->tok++; /* endif */
		return first;
	}
}

static struct kp_node *parse_with(struct kp_parser *p, uint32_t line)
{
	struct kp_node *n = kp_parse_node(p, KP_OP_WITH, line);
	uint32_t cap = 0;
	while (n && p->tok->type != KP_TOK_BLOCK_END) {
		if (n->n && kp_parse_expect(p, KP_TOK_COMMA)) {
			return NULL;
		}
		struct kp_node *target = parse_target(p, KP_TUPLE_END, false, KP_CTX_PARAM);
		if (!target || kp_parse_expect(p, KP_TOK_ASSIGN)) {
			return NULL;
		}
		struct kp_node *value = kp_parse_expression(p, true);
		if (!value || kp_parse_push(p, &n->items, &n->n, &cap, target) ||
			kp_parse_push(p, &n->items, &n->n, &cap, value)) {
			return NULL;
		}
	}
	if (n) {
		n->c = parse_block(p, "endwith");
	}
	return n && n->c ? n : NULL;
}

/* "(a, b=1)" */
static int parse_signature(struct kp_parser *p, struct kp_signature *sig)
{
	uint32_t cap[2] = { 0, 0 };
	if (kp_parse_expect(p, KP_TOK_LPAREN)) {
		return -1;
	}
	while (p->tok->type != KP_TOK_RPAREN) {
		if (sig->n_args && kp_parse_expect(p, KP_TOK_COMMA)) {
			return -1;
		}
		struct kp_node *arg = parse_name_target(p, KP_CTX_PARAM);
		if (!arg) {
			return -1;
		}
		for (uint32_t i = 0; i < sig->n_args; i++) {
			if (sig->args[i]->name.p == arg->name.p) {
				return kp_tpl_compile_fail(p->err, arg->line,
					"duplicate argument `%" KP_FMT "`", KP_ARG(arg->name));
			}
		}
		if (p->tok->type == KP_TOK_ASSIGN) {
			p->tok++;
			struct kp_node *v = kp_parse_expression(p, true);
			if (!v || kp_parse_push(p, &sig->defaults, &sig->n_defaults, &cap[1], v)) {
				return -1;
			}
		} else if (sig->n_defaults) {
			return kp_tpl_compile_fail(
				p->err, arg->line, "non-default argument follows default argument");
		}
		if (kp_parse_push(p, &sig->args, &sig->n_args, &cap[0], arg)) {
			return -1;
		}
	}
	p->tok++;
	return 0;
}

/* The body of a function of its own: loops outside do not count for break. */
static struct kp_node *parse_function_body(struct kp_parser *p, const char *end)
{
	uint32_t loops = p->loop_depth;
	p->loop_depth = 0;
	struct kp_node *n = parse_block(p, end);
	p->loop_depth = loops;
	return n;
}

static struct kp_node *function_node(struct kp_parser *p, enum kp_op op, uint32_t line)
{
	struct kp_node *n = kp_parse_node(p, op, line);
	if (n && !(n->sig = kp_arena_calloc(p->a, 1, sizeof(*n->sig)))) {
		kp_parse_full(p);
		return NULL;
	}
	return n;
}

static struct kp_node *parse_macro(struct kp_parser *p, uint32_t line)
{
	struct kp_node *n = function_node(p, KP_OP_MACRO, line),
		       *name = n ? parse_name_target(p, KP_CTX_STORE) : NULL;
	if (!name) {
		return NULL;
	}
	n->name = name->name;
	if (parse_signature(p, n->sig)) {
		return NULL;
	}
	n->c = parse_function_body(p, "endmacro");
	return n->c ? n : NULL;
}

static struct kp_node *parse_call_block(struct kp_parser *p, uint32_t line)
{
	struct kp_node *n = function_node(p, KP_OP_CALLBLOCK, line);
	if (!n || (p->tok->type == KP_TOK_LPAREN && parse_signature(p, n->sig)) ||
		!(n->a = kp_parse_expression(p, true))) {
		return NULL;
	}
	if (n->a->op != KP_OP_CALL) {
		kp_tpl_compile_fail(p->err, line, "expected a call");
		return NULL;
	}
	n->c = parse_function_body(p, "endcall");
	return n->c ? n : NULL;
}

/* transformers' {% generation %}: a call block whose function returns what the body printed. */
static struct kp_node *parse_generation(struct kp_parser *p, uint32_t line)
{
	struct kp_node *n = function_node(p, KP_OP_CALLBLOCK, line);
	if (n) {
		n->flags |= KP_NF_GENERATION;
		n->c = parse_function_body(p, "endgeneration");
	}
	return n && n->c ? n : NULL;
}

static struct kp_node *parse_filter_block(struct kp_parser *p, uint32_t line)
{
	struct kp_node *n = kp_parse_node(p, KP_OP_FILTERBLOCK, line);
	if (!n || !(n->a = kp_parse_filters(p, NULL, true))) {
		return NULL;
	}
	n->c = parse_block(p, "endfilter");
	return n->c ? n : NULL;
}

static struct kp_node *parse_print(struct kp_parser *p, uint32_t line)
{
	struct kp_node *n = kp_parse_node(p, KP_OP_OUTPUT, line);
	uint32_t cap = 0;
	while (n && p->tok->type != KP_TOK_BLOCK_END) {
		if (n->n && kp_parse_expect(p, KP_TOK_COMMA)) {
			return NULL;
		}
		struct kp_node *e = kp_parse_expression(p, true);
		if (!e || kp_parse_push(p, &n->items, &n->n, &cap, e)) {
			return NULL;
		}
	}
	return n;
}

static struct kp_node *parse_named_block(struct kp_parser *p, uint32_t line)
{
	struct kp_node *n = kp_parse_node(p, KP_OP_BLOCK, line);
	if (!n || p->tok->type != KP_TOK_NAME) {
		return n ? (kp_parse_unexpected(p, "a name"), NULL) : NULL;
	}
	if (kp_parse_intern(p, p->tok->s, false, false, &n->name)) {
		return NULL;
	}
	p->tok++;
	n->flags |= kp_parse_skip_name(p, "scoped") ? KP_NF_SCOPED : 0;
	if (kp_parse_is_name(p, "required")) {
		kp_tpl_compile_fail(p->err, line,
			"required block `%" KP_FMT "` cannot be filled: there is no inheritance",
			KP_ARG(n->name));
		return NULL;
	}
	n->c = parse_function_body(p, "endblock");
	if (n->c && p->tok->type == KP_TOK_NAME && kp_str_eq(p->tok->s, n->name)) {
		p->tok++;
	}
	return n->c ? n : NULL;
}

static struct kp_node *parse_jump(
	struct kp_parser *p, enum kp_op op, const char *name, uint32_t line)
{
	if (!p->loop_depth) {
		kp_tpl_compile_fail(p->err, line, "`%s` outside of a loop", name);
		return NULL;
	}
	return kp_parse_node(p, op, line);
}

static struct kp_node *parse_break(struct kp_parser *p, uint32_t line)
{
	return parse_jump(p, KP_OP_BREAK, "break", line);
}

static struct kp_node *parse_continue(struct kp_parser *p, uint32_t line)
{
	return parse_jump(p, KP_OP_CONTINUE, "continue", line);
}

/* Escaping is off in a chat template: turning it off again is a scope and nothing more. */
static struct kp_node *parse_autoescape(struct kp_parser *p, uint32_t line)
{
	struct kp_node *n = kp_parse_node(p, KP_OP_WITH, line);
	struct kp_node *on = n ? kp_parse_expression(p, true) : NULL;
	if (on && (on->op != KP_OP_CONST || kp_tv_truth(&on->k))) {
		kp_tpl_compile_fail(p->err, line, "`autoescape` is not allowed in a chat template");
		return NULL;
	}
	n = on ? n : NULL;
	if (n) {
		n->c = parse_block(p, "endautoescape");
	}
	return n && n->c ? n : NULL;
}

static struct kp_node *parse_statement(struct kp_parser *p)
{
	static const struct {
		const char *name;
		struct kp_node *(*parse)(struct kp_parser *, uint32_t line);
	} tags[] = {
		{ "set", parse_set },
		{ "if", parse_if },
		{ "for", parse_for },
		{ "macro", parse_macro },
		{ "call", parse_call_block },
		{ "generation", parse_generation },
		{ "filter", parse_filter_block },
		{ "with", parse_with },
		{ "print", parse_print },
		{ "break", parse_break },
		{ "continue", parse_continue },
		{ "block", parse_named_block },
		{ "autoescape", parse_autoescape },
	};
	static const char *const refused[] = { "include", "import", "from", "extends" };
	uint32_t line = p->tok->line;
	if (p->tok->type != KP_TOK_NAME) {
		kp_parse_unexpected(p, "the name of a tag");
		return NULL;
	}
	for (size_t i = 0; i < KP_LEN(tags); i++) {
		if (kp_parse_skip_name(p, tags[i].name)) {
			return tags[i].parse(p, line);
		}
	}
	for (size_t i = 0; i < KP_LEN(refused); i++) {
		if (kp_parse_is_name(p, refused[i])) {
			kp_tpl_compile_fail(
				p->err, line, "`%s` is not allowed in a chat template", refused[i]);
			return NULL;
		}
	}
	kp_tpl_compile_fail(p->err, line, "unknown tag `%" KP_FMT "`", KP_ARG(p->tok->s));
	return NULL;
}

static int parse_output(struct kp_parser *p, struct kp_node *out, uint32_t *cap)
{
	struct kp_node *n;
	if (p->tok->type == KP_TOK_DATA) {
		kp_str s;
		n = kp_parse_node(p, KP_OP_CONST, p->tok->line);
		if (!n || kp_parse_intern(p, p->tok->s, false, true, &s)) {
			return -1;
		}
		n->k = kp_tv_str(s, KP_ORIGIN_TRUSTED);
		n->flags |= KP_NF_DATA;
		p->tok++;
	} else {
		p->tok++;
		n = kp_parse_tuple(p, false, true, KP_TUPLE_END, false, false);
		if (!n || kp_parse_expect(p, KP_TOK_VAR_END)) {
			return -1;
		}
	}
	return kp_parse_push(p, &out->items, &out->n, cap, n);
}

static bool is_end(const struct kp_parser *p, const char *const *ends)
{
	for (; ends && *ends; ends++) {
		if (kp_parse_is_name(p, *ends)) {
			return true;
		}
	}
	return false;
}

/* Statements and text until one of `ends` opens a tag (then current), or the end of the template. */
static struct kp_node *parse_body(struct kp_parser *p, const char *const *ends)
{
	struct kp_node *seq = kp_parse_node(p, KP_OP_SEQ, p->tok->line), *out = NULL;
	uint32_t cap = 0, out_cap = 0;
	while (seq && p->tok->type != KP_TOK_EOF) {
		struct kp_node *n;
		if (p->tok->type != KP_TOK_BLOCK_BEGIN) {
			if (!out) {
				out_cap = 0;
				out = kp_parse_node(p, KP_OP_OUTPUT, p->tok->line);
				if (!out || kp_parse_push(p, &seq->items, &seq->n, &cap, out)) {
					return NULL;
				}
			}
			if (parse_output(p, out, &out_cap)) {
				return NULL;
			}
			continue;
		}
		p->tok++;
		out = NULL;
		if (is_end(p, ends)) {
			return seq;
		}
		n = parse_statement(p);
		if (!n || kp_parse_push(p, &seq->items, &seq->n, &cap, n) ||
			kp_parse_expect(p, KP_TOK_BLOCK_END)) {
			return NULL;
		}
	}
	return seq;
}

struct kp_node *kp_parse_template(struct kp_parser *p)
{
	return parse_body(p, NULL);
}

/* The compiled template: a tree of nodes, variables resolved to slots, in one arena with the source; immutable afterwards.

   Variables follow jinja2's own rules (its idtracking module): each scope (template, loop, macro, with, block set, ...) has its own
   variable of a name it stores, initialised from the surrounding scope's at entry, and scopes of one "function" share one slot
   per (nesting level, name). `ref` = how many functions up, which slot there. */
#ifndef KP_TEMPLATE_AST_H
#define KP_TEMPLATE_AST_H

#include "template/interp.h"

enum kp_op {
	KP_OP_NONE = 0,
	/* expressions */
	KP_OP_CONST,
	KP_OP_NAME,
	KP_OP_GETATTR,
	KP_OP_GETITEM,
	KP_OP_SLICE,
	KP_OP_CALL,
	KP_OP_FILTER,
	KP_OP_TEST,
	KP_OP_NOT,
	KP_OP_NEG,
	KP_OP_POS,
	KP_OP_AND,
	KP_OP_OR,
	KP_OP_COND,
	KP_OP_COMPARE,
	KP_OP_ADD,
	KP_OP_SUB,
	KP_OP_MUL,
	KP_OP_DIV,
	KP_OP_FLOORDIV,
	KP_OP_MOD,
	KP_OP_POW,
	KP_OP_CONCAT,
	KP_OP_LIST,
	KP_OP_TUPLE,
	KP_OP_DICT,
	KP_OP_NSREF,
	KP_OP_CONTEXT,
	KP_OP_ASK,
	/* statements */
	KP_OP_SEQ,
	KP_OP_OUTPUT,
	KP_OP_IF,
	KP_OP_FOR,
	KP_OP_SET,
	KP_OP_SETBLOCK,
	KP_OP_MACRO,
	KP_OP_CALLBLOCK,
	KP_OP_FILTERBLOCK,
	KP_OP_WITH,
	KP_OP_BREAK,
	KP_OP_CONTINUE,
	KP_OP_BLOCK,
};
enum kp_cmp {
	KP_CMP_EQ = 0,
	KP_CMP_NE,
	KP_CMP_LT,
	KP_CMP_LE,
	KP_CMP_GT,
	KP_CMP_GE,
	KP_CMP_IN,
	KP_CMP_NOTIN
};
enum kp_ctx { KP_CTX_LOAD = 0, KP_CTX_STORE, KP_CTX_PARAM };
enum {                       /* node flags */
	KP_NF_DATA = 1,      /* CONST: template text, not an expression */
	KP_NF_DUNDER = 4,    /* GETATTR: every object answers to this name */
	KP_NF_RECURSIVE = 8, /* FOR */
	KP_NF_EXTENDED = 16, /* FOR: the body uses `loop` */
	KP_NF_CALLER = 32,   /* MACRO: the body uses `caller` (so of the next two) */
	KP_NF_KWARGS = 64,
	KP_NF_VARARGS = 128,
	KP_NF_GENERATION = 256, /* CALLBLOCK */
	KP_NF_SCOPED = 512,     /* BLOCK */
	KP_NF_REQUIRED = 1024,
	KP_NF_OUTER = 2048, /* expressions, NSREF: sees what is outside of a round (rounds.h) */
	KP_NF_INNER = 4096, /* expressions: sees what is inside */
	KP_NF_TRUTH = 8192, /* ASK: what is asked is whether it is true */
	KP_NF_PART =
		16384, /* GETITEM, FOR over a SLICE: of what `a` gives, an element by a number or key from inside */
	KP_NF_CALLS = 32768, /* expressions: there is a call in it */
};

struct kp_ref {
	uint32_t up, slot;
};
enum kp_load_action { KP_LOAD_PARAM = 0, KP_LOAD_CONTEXT, KP_LOAD_ALIAS, KP_LOAD_MISSING };
struct kp_load {
	uint32_t action, slot;
	struct kp_ref from; /* ALIAS, and CONTEXT in a block: the variable asked first */
	uint32_t context;   /* CONTEXT: index in the table of free names */
	bool has_from, stored;
	const char *name; /* interned */
	bool asked;       /* the scope's first value comes from outside of a round (rounds.h) */
	uint8_t depth;    /* of the scope's function, in functions */
};
/* What happens when a scope is entered (loads) and left (the same slots become MISSING). */
struct kp_frame {
	struct kp_load *loads;
	uint32_t n_loads,
		n_slots; /* n_slots: of the whole function, in the frame that starts one */
	uint32_t first_slot, end_slot; /* FOR body: the slots of its scopes in its function */
};

struct kp_tpl_call { /* arguments as written */
	struct kp_node **args, **kw_values;
	kp_str *kw_names;
	uint32_t n_args, n_kw;
	struct kp_node *dyn_args, *dyn_kwargs;
};
/* A macro's or call block's parameters. */
struct kp_signature {
	struct kp_node **args; /* NAME, PARAM */
	struct kp_node **defaults;
	uint32_t n_args, n_defaults;
	struct kp_ref caller, kwargs, varargs; /* where the special ones go */
};

struct kp_node {
	uint8_t op, ctx;
	uint16_t flags, height;
	uint16_t n_ops;
	uint32_t line, n;
	/* The children, by op:
	   GETATTR a.attr, n_ops what `loop` answers (kp_loop_attr); GETITEM a[b]; SLICE a[items0:items1:items2], each may be NULL; CALL a(call); FILTER a|name(call), a NULL: the
	   block's text; TEST a is name(call); NOT NEG POS a; AND OR SUB.. a, b; COND b if a else c (c may be NULL);
	   COMPARE items, n_ops = n - 1 operators in ops; ADD CONCAT LIST TUPLE items; DICT items: key, value, ...; NSREF name.attr, n_ops the
	   function's depth; CONTEXT a NAME that no scope stores, ref.slot its place in the table of free names; ASK a, n_ops the function's depth
	   SEQ items; OUTPUT items; IF a then b, items the elifs (IF), else c; FOR a in b, body c, items0 else, items1 filter, items2 its target;
	   SET a = b; SETBLOCK a, filters b, body c; MACRO name sig body c; CALLBLOCK a sig body c; FILTERBLOCK filters a, body c;
	   WITH items target, value, ..., body c; BLOCK name body c */
	struct kp_node *a, *b, *c;
	struct kp_node **items;
	kp_str name, attr; /* interned: equal names have equal pointers */
	union {
		struct kp_tv k;    /* CONST */
		struct kp_ref ref; /* NAME, NSREF, MACRO, FOR (loop) */
	};
	union {
		struct kp_tpl_call *call;
		struct kp_signature *sig;
		const uint8_t *ops;
		struct kp_frame *frame; /* FOR body, WITH, SETBLOCK, FILTERBLOCK */
		const struct kp_tpl_def
			*dict_method; /* GETATTR: what a dict answers to this name */
	};
	union {
		const struct kp_tpl_def
			*def; /* FILTER, TEST; GETATTR: what a string answers to this name */
		struct kp_frame *
			frame2; /* MACRO, CALLBLOCK, BLOCK: the function's; FOR: the else branch's */
	};
	struct kp_frame *frame3; /* FOR: the filter's */
	uint32_t
		loop_slots; /* FOR, recursive: slots of its function; else its number as a loop with rounds (rounds.h), or 0 */
	/* FOR: once this is false behind a round, all others would do nothing (latch.c); NULL: nobody knows */
	const struct kp_node *latch;
};

struct kp_tpl_name {
	kp_str s;
	bool mentioned; /* as a variable, attribute or key */
	bool literal;   /* as text or string constant */
};
struct kp_template {
	struct kp_arena *a;
	kp_str source;        /* newlines normalized */
	struct kp_node *root; /* SEQ */
	struct kp_frame *frame;
	kp_str *context_names;
	uint32_t n_context;
	struct kp_tpl_name *names;
	uint32_t n_names;
	uint64_t serial; /* no other template of the process has it */
	bool has_rounds; /* of loops that may be replayed */
};

#endif

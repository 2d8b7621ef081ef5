/* The running render and what its parts offer each other. One kp_interp lives on the C stack of kp_template_render; all memory is
   the caller's arena. Functions return 0 or -1 with I->err set, unless they say otherwise. */
#ifndef KP_TEMPLATE_INTERP_H
#define KP_TEMPLATE_INTERP_H

#include "template/template.h"
#include "template/text.h"

struct kp_node;
struct kp_tpl_call;

enum {
	KP_TPL_MAX_DEPTH = 1200,      /* of C recursion, in evaluated nodes */
	KP_TPL_MAX_VALUE_DEPTH = 200, /* of nested values that are printed or compared */
	KP_TPL_MAX_RANGE = 100000,    /* jinja2's sandbox */
};

/* The variables of one Python function: the template itself, a macro, a recursive loop, a loop's filter. */
struct kp_act {
	struct kp_act *parent; /* of the function that this one is written in */
	struct kp_tv *slots;
};

struct kp_interp {
	const struct kp_template *t;
	struct kp_arena *a;
	struct kp_err *err;
	struct kp_tpl_buf *out; /* where output goes now */
	struct kp_act *root;
	const struct kp_tv *context; /* by the template's table of free names */
	uint64_t steps,
		later_steps; /* left of a slice, after which the clock is looked at; and beyond */
	int64_t (*now_ns)(void), deadline_ns, now_wall_ns; /* now_ns NULL: no deadline */
	uint32_t depth, line, max_ms;
	size_t max_output;
	struct kp_tpl_replay *replay; /* rounds.h; NULL: nothing is remembered of messages */
	struct kp_tpl_note *note;     /* of the round that is being noted, or NULL */
	uint64_t ask, n_asks;         /* the question being answered, or 0; how many there were */
};

/* Arguments of a call. */
struct kp_tpl_kw {
	kp_str name;
	struct kp_tv v;
};
struct kp_tpl_args {
	const struct kp_tv *pos;
	uint32_t n_pos, n_kw;
	const struct kp_tpl_kw *kw;
};

/* A filter, test, method or global function. Exactly one of fn and vfn is set: fn gets one value per parameter (MISSING: not given),
   vfn the arguments as they were written. `x` is what the filter, test or method works on; NULL for a global function. */
enum { KP_TPL_MAX_PARAMS = 7 };
struct kp_tpl_def {
	const char *name;
	int (*fn)(struct kp_interp *I, const struct kp_tv *x, const struct kp_tv *arg,
		struct kp_tv *ret);
	int (*vfn)(struct kp_interp *I, const struct kp_tv *x, const struct kp_tpl_args *args,
		struct kp_tv *ret);
	uint8_t n_required, n_positional; /* positional-only parameters come first */
	const char *params[KP_TPL_MAX_PARAMS];
};
struct kp_tpl_method {
	const struct kp_tpl_def *def;
	struct kp_tv self;
};
const struct kp_tpl_def *kp_tpl_filter(kp_str name);
const struct kp_tpl_def *kp_tpl_test(kp_str name);
const struct kp_tpl_def *kp_tpl_global(kp_str name);
int kp_tpl_invoke(struct kp_interp *I, const struct kp_tpl_def *d, const struct kp_tv *x,
	const struct kp_tpl_args *args, struct kp_tv *ret);

/* Failing. All return -1. kp_tpl_fail: INVALID_ARGUMENT "render template: line L: ..." */
int kp_tpl_fail(struct kp_interp *I, const char *fmt, ...) KP_PRINTF(2, 3);
int kp_tpl_fail_undef(struct kp_interp *I, const struct kp_tv *undef); /* jinja2's UndefinedError */
int kp_tpl_fail_memory(struct kp_interp *I), kp_tpl_fail_depth(struct kp_interp *I),
	kp_tpl_fail_steps(struct kp_interp *I);
/* The next slice of the budget, n steps at least. Fails when steps or time are used up. */
int kp_tpl_more_steps(struct kp_interp *I, uint64_t n);
/* Takes n steps from the budget. */
static inline int kp_tpl_charge(struct kp_interp *I, uint64_t n)
{
	if (KP_UNLIKELY(I->steps < n) && kp_tpl_more_steps(I, n)) {
		return -1;
	}
	I->steps -= n;
	return 0;
}
/* The same where failing now is no use: the next charge fails. For reading or writing n bytes once. */
static inline void kp_tpl_spend_bytes(struct kp_interp *I, size_t n)
{
	uint64_t steps = KP_MIN((uint64_t)n / 32, I->steps);
	I->later_steps -= KP_MIN(n / 32 - steps, I->later_steps);
	I->steps -= steps;
}
/* Looking a key up in a JSON object reads through it: large ones cost steps. */
static inline int kp_tpl_charge_lookup(struct kp_interp *I, const struct kp_tv *dict)
{
	return KP_UNLIKELY((dict->flags & KP_TVF_JV) && dict->n > 32)
		       ? kp_tpl_charge(I, dict->n / 16)
		       : 0;
}
/* count*size bytes from the arena, not zeroed, or NULL with the error set. */
void *kp_tpl_alloc(struct kp_interp *I, size_t count, size_t size);

/* --- printing (repr.c, json.c) */
int kp_tpl_print(struct kp_interp *I, struct kp_tpl_buf *b, const struct kp_tv *v); /* str(v) */
int kp_tpl_repr(struct kp_interp *I, struct kp_tpl_buf *b, const struct kp_tv *v, uint32_t depth);
int kp_tpl_to_str(
	struct kp_interp *I, const struct kp_tv *v, struct kp_tv *ret); /* str(v) as a value */
int kp_tpl_filter_tojson(
	struct kp_interp *I, const struct kp_tv *x, const struct kp_tv *arg, struct kp_tv *ret);

/* --- iteration (iter.c). Of what cannot be walked over: -1, "'X' object is not iterable". */
struct kp_tpl_iter {
	struct kp_tv src;
	uint64_t pos;
};
int kp_tpl_iter_init(struct kp_interp *I, const struct kp_tv *v, struct kp_tpl_iter *it);
int kp_tpl_iter_next(
	struct kp_interp *I, struct kp_tpl_iter *it, struct kp_tv *ret); /* 1, 0 the end, -1 */
bool kp_tv_iterable(const struct kp_tv *v);
/* len(v); -1 with no error set when v has none. */
int64_t kp_tv_len(struct kp_interp *I, const struct kp_tv *v);
/* list(v) into a new array. */
int kp_tpl_collect(
	struct kp_interp *I, const struct kp_tv *v, struct kp_tv **ret_items, uint32_t *ret_n);
int kp_tpl_list_new(struct kp_interp *I, enum kp_tv_type type, const struct kp_tv *items,
	uint32_t n, struct kp_tv *ret);

/* A lazy iterator, like Python's generators: next gives 1, 0 at the end (for ever after), -1. Filters keep what they need in it. */
struct kp_tpl_gen {
	int (*next)(struct kp_interp *I, struct kp_tpl_gen *g, struct kp_tv *ret);
	const char *type_name;
	struct kp_tv x;          /* what the filter was applied to */
	struct kp_tpl_args args; /* as written, kept alive */
	const struct kp_tpl_def *def;
	struct kp_tpl_iter it; /* over x, once started */
	bool started, done, negate, by_attr;
	int64_t i;
	uint64_t born; /* I->ask then */
	struct kp_tpl_dict *seen;
	struct kp_tv *items;
};
int kp_tpl_gen_new(struct kp_interp *I,
	int (*next)(struct kp_interp *, struct kp_tpl_gen *, struct kp_tv *), const struct kp_tv *x,
	const struct kp_tpl_args *args, struct kp_tpl_gen **ret_gen, struct kp_tv *ret);
/* reversed(v); -1 with no error set (I->err untouched) when v cannot be. */
int kp_tpl_reversed(struct kp_interp *I, const struct kp_tv *v, struct kp_tv *ret);

/* --- attributes and items (attr.c, slice.c) */
int kp_tpl_getattr(struct kp_interp *I, const struct kp_tv *obj, kp_str name, struct kp_tv *ret);
int kp_tpl_getitem(
	struct kp_interp *I, const struct kp_tv *obj, const struct kp_tv *key, struct kp_tv *ret);
int kp_tpl_slice(struct kp_interp *I, const struct kp_tv *obj, const struct kp_tv bounds[3],
	struct kp_tv *ret);
/* Method `name` of obj's type, NULL when it has none. kp_tpl_method_unsafe stands for all that would change their object. */
const struct kp_tpl_def *kp_tpl_find_method(const struct kp_tv *obj, kp_str name);
extern const struct kp_tpl_def kp_tpl_method_unsafe, kp_tpl_str_methods[];
extern const size_t kp_tpl_n_str_methods;
const struct kp_tpl_def *kp_tpl_other_method(const struct kp_tv *obj, kp_str name);
struct kp_tv kp_tpl_undef_attr(const struct kp_tv *obj, kp_str name);
/* A Python name like __class__ that every object answers to. */
bool kp_tpl_is_dunder(kp_str name);

/* --- operators (ops.c), evaluation (eval.c, exec.c) */
int kp_tpl_binary(struct kp_interp *I, int op, const struct kp_tv *a, const struct kp_tv *b,
	struct kp_tv *ret);
int kp_tpl_unary(struct kp_interp *I, int op, const struct kp_tv *a, struct kp_tv *ret);
int kp_tpl_eval(
	struct kp_interp *I, struct kp_act *act, const struct kp_node *n, struct kp_tv *ret);
int kp_tpl_call_value(struct kp_interp *I, const struct kp_tv *callee,
	const struct kp_tpl_args *args, struct kp_tv *ret);
int kp_tpl_call_macro(struct kp_interp *I, struct kp_tpl_macro *m, const struct kp_tpl_args *args,
	struct kp_tv *ret);
int kp_tpl_loop_recurse(struct kp_interp *I, struct kp_tpl_loop *loop, const struct kp_tv *iterable,
	struct kp_tv *ret);
enum kp_loop_attr {
	KP_LOOP_NONE = 0,
	KP_LOOP_INDEX,
	KP_LOOP_INDEX0,
	KP_LOOP_FIRST,
	KP_LOOP_LAST,
	KP_LOOP_LENGTH,
	KP_LOOP_REVINDEX,
	KP_LOOP_REVINDEX0,
	KP_LOOP_PREVITEM,
	KP_LOOP_NEXTITEM,
	KP_LOOP_DEPTH,
	KP_LOOP_DEPTH0,
};
enum kp_loop_attr kp_tpl_loop_attr_id(kp_str name);
int kp_tpl_loop_get(
	struct kp_interp *I, struct kp_tpl_loop *loop, enum kp_loop_attr attr, struct kp_tv *ret);
int kp_tpl_loop_attr(struct kp_interp *I, const struct kp_tv *loop, kp_str name,
	struct kp_tv *ret); /* 1 found, 0, -1 */
int kp_tpl_loop_len(struct kp_interp *I, struct kp_tpl_loop *loop, int64_t *ret);

#endif

/* Template values: Python's objects as far as a chat template can meet them, 16 bytes each, passed by value, immutable (but for
   namespaces, iterators, cycler and joiner). Everything they point to lies in the render's arena, in the compiled template or
   in the caller's JSON; nothing is counted or freed. One thread.

   Provenance: `origin` is where a value's bytes come from when it is printed. A string whose bytes have several origins is
   MIXED: it points to a kp_tpl_buf with runs (core/text.h) and covers its first n bytes. Appending to the newest holder of a
   buffer works in place, so that building a text piece by piece in a loop is linear; older holders see their own prefix only. */
#ifndef KP_TEMPLATE_VALUE_H
#define KP_TEMPLATE_VALUE_H

#include "core/text.h"
#include "json/value.h"

struct kp_interp;
struct kp_tpl_gen;
struct kp_tpl_loop;
struct kp_tpl_macro;
struct kp_tpl_method;

enum kp_tv_type {
	KP_TV_MISSING =
		0, /* no value: a variable not assigned yet, an argument not given. Never seen by a template */
	KP_TV_UNDEF, /* jinja2's Undefined: sub says why, s/n the name or hint, flags the type of the object asked */
	KP_TV_NONE,
	KP_TV_BOOL,
	KP_TV_INT,
	KP_TV_BIG, /* an integer beyond 64 bits: s/n its decimal text. Prints and compares; arithmetic on it is an error */
	KP_TV_FLOAT,
	KP_TV_STR,
	KP_TV_LIST,
	KP_TV_TUPLE,
	KP_TV_DICT,
	KP_TV_VIEW, /* dict.keys(), values(), items(): sub */
	KP_TV_RANGE,
	KP_TV_GEN, /* an iterator: can be walked once */
	KP_TV_NS,  /* namespace(): dict with mutable content */
	KP_TV_MACRO,
	KP_TV_LOOP,
	KP_TV_FUNC,   /* a global function */
	KP_TV_METHOD, /* a method bound to its object */
	KP_TV_CYCLER,
	KP_TV_JOINER,
};
enum {                     /* flags */
	KP_TVF_JV = 1,     /* LIST, DICT: JSON, read in place */
	KP_TVF_ROLES = 2,  /* LIST of messages: the origin of each follows from its role */
	KP_TVF_MIXED = 4,  /* STR: points to a buffer with runs */
	KP_TVF_MARKUP = 8, /* STR: result of `safe` or `escape` (markupsafe.Markup) */
	KP_TVF_GROUP = 16, /* TUPLE of groupby: .grouper and .list */
};
enum kp_tv_undef {
	KP_UNDEF_NAME = 0,
	KP_UNDEF_ATTR,
	KP_UNDEF_ITEM,
	KP_UNDEF_HINT,
	KP_UNDEF_UNSAFE
};
enum kp_tv_view { KP_VIEW_KEYS = 0, KP_VIEW_VALUES, KP_VIEW_ITEMS };

struct kp_tpl_buf {
	char *p;
	uint32_t n, cap; /* cap 0: shares somebody's bytes, cannot grow in place */
	struct kp_run *runs;
	uint32_t n_runs, cap_runs;
};
struct kp_tpl_range {
	int64_t start, stop, step, len;
};

struct kp_tv {
	uint8_t type;   /* enum kp_tv_type */
	uint8_t origin; /* enum kp_origin */
	uint8_t flags, sub;
	uint32_t n; /* bytes of a string, elements of a list, members of a JSON object */
	union {
		int64_t i; /* INT, BOOL */
		double f;
		const char *s; /* STR not MIXED, BIG, UNDEF */
		struct kp_tpl_buf *buf;
		const struct kp_tv *items;
		const struct kp_jv *jitems;
		const struct kp_jmember *jmembers;
		struct kp_tpl_dict *dict; /* DICT, NS; of a VIEW: `of` */
		const struct kp_tv *of;   /* VIEW: the dict */
		const struct kp_tpl_range *range;
		struct kp_tpl_gen *gen;
		struct kp_tpl_loop *loop;
		struct kp_tpl_macro *macro;
		struct kp_tpl_method *method;
		const struct kp_tpl_def *def;
		struct kp_tpl_cycler *cycler;
	};
};
struct kp_tpl_entry {
	struct kp_tv key, value;
};
struct kp_tpl_dict {
	struct kp_tpl_entry *entries; /* insertion order */
	uint32_t *slots;              /* hash index, entry + 1; NULL while small */
	uint32_t n, cap, n_slots;
};
struct kp_tpl_cycler { /* cycler() and joiner() */
	const struct kp_tv *items;
	uint32_t n, pos;
};

/* Least trusted of two: CLIENT, then ASSISTANT, then TRUSTED. */
static inline uint8_t kp_origin_mix(uint8_t a, uint8_t b)
{
	if (a == KP_ORIGIN_CLIENT || b == KP_ORIGIN_CLIENT) {
		return KP_ORIGIN_CLIENT;
	}
	return a ? a : b;
}

static inline struct kp_tv kp_tv_none(void)
{
	return (struct kp_tv){ .type = KP_TV_NONE };
}
static inline struct kp_tv kp_tv_bool(bool b)
{
	return (struct kp_tv){ .type = KP_TV_BOOL, .i = b };
}
static inline struct kp_tv kp_tv_int(int64_t i, uint8_t origin)
{
	return (struct kp_tv){ .type = KP_TV_INT, .origin = origin, .i = i };
}
static inline struct kp_tv kp_tv_float(double f, uint8_t origin)
{
	return (struct kp_tv){ .type = KP_TV_FLOAT, .origin = origin, .f = f };
}
static inline struct kp_tv kp_tv_str(kp_str s, uint8_t origin)
{
	return (struct kp_tv){ .type = KP_TV_STR, .origin = origin, .n = (uint32_t)s.n, .s = s.p };
}
static inline struct kp_tv kp_tv_undef(enum kp_tv_undef why, kp_str name)
{
	return (struct kp_tv){
		.type = KP_TV_UNDEF, .sub = (uint8_t)why, .n = (uint32_t)name.n, .s = name.p
	};
}
static inline bool kp_tv_is(const struct kp_tv *v, enum kp_tv_type t)
{
	return v->type == t;
}
static inline bool kp_tv_is_num(const struct kp_tv *v) /* int, bool or float of machine size */
{
	return v->type == KP_TV_INT || v->type == KP_TV_BOOL || v->type == KP_TV_FLOAT;
}
static inline bool kp_tv_is_int(const struct kp_tv *v)
{
	return v->type == KP_TV_INT || v->type == KP_TV_BOOL;
}
/* The bytes of a STR (or of a BIG). */
static inline kp_str kp_tv_bytes(const struct kp_tv *v)
{
	return (kp_str){ v->flags & KP_TVF_MIXED ? v->buf->p : v->s, v->n };
}

const char *kp_tv_type_name(
	const struct kp_tv *v); /* Python's: "str", "NoneType", "dict_items", ... */
/* A JSON value as it lies; `origin` for all of it. */
struct kp_tv kp_tv_from_jv(const struct kp_jv *j, uint8_t origin);
/* As Python's truth value. */
bool kp_tv_truth(const struct kp_tv *v);
/* Element i (< n) of a LIST or TUPLE. */
struct kp_tv kp_tv_item(const struct kp_tv *list, uint32_t i);
uint32_t kp_tv_dict_n(const struct kp_tv *dict);
/* Entry i of a DICT (or NS) in insertion order. */
void kp_tv_dict_at(
	const struct kp_tv *dict, uint32_t i, struct kp_tv *ret_key, struct kp_tv *ret_value);
/* 1 found, 0 not, -1 error (the key cannot be hashed). */
int kp_tv_dict_get(
	struct kp_interp *I, const struct kp_tv *dict, const struct kp_tv *key, struct kp_tv *ret);
/* The same for a string key: no error possible. */
bool kp_tv_dict_get_str(const struct kp_tv *dict, kp_str key, struct kp_tv *ret);
int kp_tpl_dict_new(struct kp_interp *I, uint32_t cap, struct kp_tpl_dict **ret);
int kp_tpl_dict_set(struct kp_interp *I, struct kp_tpl_dict *d, const struct kp_tv *key,
	const struct kp_tv *value);
/* Copies the members of a DICT into d. */
int kp_tpl_dict_merge(struct kp_interp *I, struct kp_tpl_dict *d, const struct kp_tv *from);

/* Python's ==: 1 equal, 0 not, -1 error (too deep). */
int kp_tv_eq(struct kp_interp *I, const struct kp_tv *a, const struct kp_tv *b);
/* Python's <: 1, 0, -1 error (types that have no order). */
int kp_tv_lt(struct kp_interp *I, const struct kp_tv *a, const struct kp_tv *b);
/* Python's `x in y`: 1, 0, -1. */
int kp_tv_in(struct kp_interp *I, const struct kp_tv *x, const struct kp_tv *y);
bool kp_tv_same(const struct kp_tv *a, const struct kp_tv *b); /* `is` */
/* Python's sorted(): stable, in place. keys[i] belongs to v[i]; both are permuted. */
int kp_tv_sort(struct kp_interp *I, struct kp_tv *keys, struct kp_tv *v, uint32_t n, bool reverse);

#endif

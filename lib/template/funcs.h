/* The tables of filters, tests, methods and global functions, and what their files share. */
#ifndef KP_TEMPLATE_FUNCS_H
#define KP_TEMPLATE_FUNCS_H

#include "template/interp.h"
#include "template/ucd.h"

extern const struct kp_tpl_def kp_tpl_filters_text[], kp_tpl_filters_seq[], kp_tpl_filters_num[],
	kp_tpl_filters_layout[], kp_tpl_tests[], kp_tpl_globals[];
extern const size_t kp_tpl_n_filters_text, kp_tpl_n_filters_seq, kp_tpl_n_filters_num,
	kp_tpl_n_filters_layout, kp_tpl_n_tests, kp_tpl_n_globals;

static inline bool kp_tv_given(const struct kp_tv *v)
{
	return v->type != KP_TV_MISSING;
}
static inline bool kp_tv_absent(const struct kp_tv *v) /* not given, or None */
{
	return v->type == KP_TV_MISSING || v->type == KP_TV_NONE;
}
/* An integer argument (a bool is one), `missing` when not given. */
int kp_tpl_arg_int(struct kp_interp *I, const struct kp_tv *v, int64_t missing, int64_t *ret);
/* A flag of Python's own functions, false when missing: TypeError unless v is an integer, OverflowError unless a C int holds it. */
int kp_tpl_arg_flag(struct kp_interp *I, const struct kp_tv *v, bool *ret);
/* TypeError unless v is a string. */
int kp_tpl_arg_str(struct kp_interp *I, const struct kp_tv *v);

/* --- Python's str methods on bytes with origins (str_case.c, str_split.c, ...) */
int kp_tpl_str_map(struct kp_interp *I, const struct kp_tv *s, enum kp_ucd_map how,
	struct kp_tv *ret); /* upper, lower, casefold */
int kp_tpl_str_capitalize(struct kp_interp *I, const struct kp_tv *s, struct kp_tv *ret);
/* strip(chars): left and right say which ends; chars MISSING or NONE: white space. */
int kp_tpl_str_strip(struct kp_interp *I, const struct kp_tv *s, const struct kp_tv *chars,
	bool left, bool right, struct kp_tv *ret);
/* count < 0: all. */
int kp_tpl_str_replace(struct kp_interp *I, const struct kp_tv *s, const struct kp_tv *old,
	const struct kp_tv *new, int64_t count, struct kp_tv *ret);
int kp_tpl_str_join(struct kp_interp *I, const struct kp_tv *sep, const struct kp_tv *items,
	bool any_type, struct kp_tv *ret);
int kp_tpl_str_splitlines(
	struct kp_interp *I, const struct kp_tv *s, bool keep_ends, struct kp_tv *ret);
int kp_tpl_str_rsplit(struct kp_interp *I, const struct kp_tv *s, const struct kp_tv *sep,
	int64_t max, struct kp_tv *ret);
/* 'c' l(eft), r(ight) or c(enter) justified. */
int kp_tpl_str_justify(struct kp_interp *I, const struct kp_tv *s, int64_t width,
	const struct kp_tv *fill, char side, struct kp_tv *ret);
bool kp_tpl_str_all_case(kp_str s, unsigned want, unsigned other); /* islower, isupper */

/* --- attribute paths of filters: "a.b.0" */
int kp_tpl_attr_path(struct kp_interp *I, const struct kp_tv *item, const struct kp_tv *path,
	const struct kp_tv *missing, struct kp_tv *ret);
int kp_tpl_ignore_case(struct kp_interp *I, struct kp_tv *v);
int kp_tpl_strftime(struct kp_interp *I, const struct kp_tv *format, struct kp_tv *ret);

/* What a JSON text says; a string that is none as it is. For native templates, which stand for code that reads JSON. */
int kp_tpl_filter_from_json(
	struct kp_interp *I, const struct kp_tv *x, const struct kp_tv *arg, struct kp_tv *ret);

#endif

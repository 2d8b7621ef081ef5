/* DESIGN: calling what is written in C: arguments to parameters by Python's rules (positional-only ones first, keywords by name, no argument
   twice, none missing), then one function call. Filters and tests are found by name in sorted tables; their order is checked by a unit
   test. */
#include "template/funcs.h"

static int too_many(struct kp_interp *I, const struct kp_tpl_def *d, uint32_t n)
{
	return kp_tpl_fail(I, "%s() takes at most %u arguments (%u given)", d->name, n, n + 1);
}

static int bind(struct kp_interp *I, const struct kp_tpl_def *d, const struct kp_tpl_args *args,
	struct kp_tv out[KP_TPL_MAX_PARAMS])
{
	uint32_t n = 0;
	while (n < KP_TPL_MAX_PARAMS && d->params[n]) {
		out[n++] = (struct kp_tv){ .type = KP_TV_MISSING };
	}
	if (args->n_pos > n) {
		return too_many(I, d, n);
	}
	for (uint32_t i = 0; i < args->n_pos; i++) {
		out[i] = args->pos[i];
	}
	for (uint32_t k = 0; k < args->n_kw; k++) {
		uint32_t i = d->n_positional;
		while (i < n && !kp_str_eq(args->kw[k].name, kp_str_c(d->params[i]))) {
			i++;
		}
		if (i >= n) {
			return kp_tpl_fail(I,
				"%s() got an unexpected keyword argument '%" KP_FMT "'", d->name,
				KP_ARG(args->kw[k].name));
		}
		if (out[i].type != KP_TV_MISSING) {
			return kp_tpl_fail(I, "%s() got multiple values for argument '%s'", d->name,
				d->params[i]);
		}
		out[i] = args->kw[k].v;
	}
	for (uint32_t i = 0; i < d->n_required; i++) {
		if (out[i].type == KP_TV_MISSING) {
			return kp_tpl_fail(
				I, "%s() missing a required argument: '%s'", d->name, d->params[i]);
		}
	}
	return 0;
}

int kp_tpl_invoke(struct kp_interp *I, const struct kp_tpl_def *d, const struct kp_tv *x,
	const struct kp_tpl_args *args, struct kp_tv *ret)
{
	struct kp_tv out[KP_TPL_MAX_PARAMS], self;
	if (x) { /* ret may be where x lies */
		self = *x;
		x = &self;
	}
	if (d->vfn) {
		return d->vfn(I, x, args, ret);
	}
	return bind(I, d, args, out) ? -1 : d->fn(I, x, out, ret);
}

static const struct kp_tpl_def *find(const struct kp_tpl_def *defs, size_t n, kp_str name)
{
	for (size_t i = 0; i < n; i++) {
		if (kp_str_eq(name, kp_str_c(defs[i].name))) {
			return &defs[i];
		}
	}
	return NULL;
}

const struct kp_tpl_def *kp_tpl_filter(kp_str name)
{
	const struct kp_tpl_def *d = find(kp_tpl_filters_text, kp_tpl_n_filters_text, name);
	d = d ? d : find(kp_tpl_filters_seq, kp_tpl_n_filters_seq, name);
	d = d ? d : find(kp_tpl_filters_num, kp_tpl_n_filters_num, name);
	return d ? d : find(kp_tpl_filters_layout, kp_tpl_n_filters_layout, name);
}

const struct kp_tpl_def *kp_tpl_test(kp_str name)
{
	return find(kp_tpl_tests, kp_tpl_n_tests, name);
}

const struct kp_tpl_def *kp_tpl_global(kp_str name)
{
	return find(kp_tpl_globals, kp_tpl_n_globals, name);
}

/* --- reading arguments ------------------------------------------------------------------------------------------------------------- */

int kp_tpl_arg_int(struct kp_interp *I, const struct kp_tv *v, int64_t missing, int64_t *ret)
{
	if (v->type == KP_TV_MISSING) {
		*ret = missing;
		return 0;
	}
	if (v->type == KP_TV_UNDEF) {
		return kp_tpl_fail_undef(I, v);
	}
	if (!kp_tv_is_int(v)) {
		return kp_tpl_fail(
			I, "'%s' object cannot be interpreted as an integer", kp_tv_type_name(v));
	}
	*ret = v->i;
	return 0;
}

int kp_tpl_arg_flag(struct kp_interp *I, const struct kp_tv *v, bool *ret)
{
	int64_t i = 0;
	if (kp_tpl_arg_int(I, v, 0, &i)) {
		return -1;
	}
	if (i != (int32_t)i) {
		return kp_tpl_fail(I, "Python int too large to convert to C int");
	}
	*ret = i != 0;
	return 0;
}

int kp_tpl_arg_str(struct kp_interp *I, const struct kp_tv *v)
{
	if (v->type == KP_TV_STR) {
		return 0;
	}
	return v->type == KP_TV_UNDEF ? kp_tpl_fail(I, "expected str, got Undefined")
				      : kp_tpl_fail(I, "expected str, got %s", kp_tv_type_name(v));
}

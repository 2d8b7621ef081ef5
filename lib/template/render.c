/* DESIGN: kp_template_render, the budgets, and how a render fails. The interpreter's state lives on this file's stack frame; the
   render's variables are looked up once, by the template's table of free names. The depth limit keeps the C stack of the
   deepest render below 768 KiB (release flags). */
#include "template/exec.h"
#include "template/rounds.h"

#include "base/clock.h"

#include <stdarg.h>

int kp_tpl_fail(struct kp_interp *I, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	kp_err_setv(I->err, KP_INVALID_ARGUMENT, fmt, ap);
	va_end(ap);
	return kp_err_wrap(I->err, "render template: line %u", I->line);
}

int kp_tpl_fail_undef(struct kp_interp *I, const struct kp_tv *u)
{
	struct kp_tv of = { .type = u->flags };
	kp_str name = { u->s, u->n };
	const char *type = u->flags == KP_TV_NONE ? "None" : kp_tv_type_name(&of),
		   *object = u->flags == KP_TV_NONE ? "" : " object";
	switch (u->sub) {
	case KP_UNDEF_NAME:
		return kp_tpl_fail(I, "'%" KP_FMT "' is undefined", KP_ARG(name));
	case KP_UNDEF_ATTR:
		return kp_tpl_fail(
			I, "'%s%s' has no attribute '%" KP_FMT "'", type, object, KP_ARG(name));
	case KP_UNDEF_ITEM:
		return kp_tpl_fail(I, "%s%s has no element %" KP_FMT, type, object, KP_ARG(name));
	case KP_UNDEF_UNSAFE:
		return kp_tpl_fail(I, "access to attribute '%" KP_FMT "' of '%s' object is unsafe.",
			KP_ARG(name), type);
	case KP_UNDEF_HINT:
	default:
		return kp_tpl_fail(I, "%" KP_FMT, KP_ARG(name));
	}
}

int kp_tpl_fail_memory(struct kp_interp *I)
{
	kp_arena_full(I->err, "template");
	return kp_err_wrap(I->err, "render template: line %u", I->line);
}

int kp_tpl_fail_depth(struct kp_interp *I)
{
	return kp_err_set(I->err, KP_RESOURCE_EXHAUSTED,
		"render template: line %u: recursion deeper than %d", I->line, KP_TPL_MAX_DEPTH);
}

int kp_tpl_fail_steps(struct kp_interp *I)
{
	I->steps = I->later_steps = 0;
	return kp_err_set(
		I->err, KP_RESOURCE_EXHAUSTED, "render template: line %u: too many steps", I->line);
}

int kp_tpl_more_steps(struct kp_interp *I, uint64_t n)
{
	enum { SLICE = 10000 }; /* a tenth of a millisecond, or a few */
	if (I->now_ns && I->now_ns() > I->deadline_ns) {
		I->steps = I->later_steps = 0;
		return kp_err_set(I->err, KP_RESOURCE_EXHAUSTED,
			"render template: line %u: not done after %u ms", I->line, I->max_ms);
	}
	uint64_t more = KP_MIN(KP_MAX(n, (uint64_t)SLICE) - I->steps, I->later_steps);
	I->steps += more;
	I->later_steps -= more;
	return I->steps < n ? kp_tpl_fail_steps(I) : 0;
}

void *kp_tpl_alloc(struct kp_interp *I, size_t count, size_t size)
{
	size_t n;
	void *p = kp_size_mul(count, size, &n) ? kp_arena_alloc(I->a, n) : NULL;
	if (KP_UNLIKELY(!p)) {
		kp_tpl_fail_memory(I);
		return NULL;
	}
	kp_tpl_spend_bytes(I, n); /* it will be written */
	return p;
}

static struct kp_tv lookup(const struct kp_template_opts *opts, kp_str name)
{
	for (size_t i = opts->n_vars; i-- > 0;) {
		const struct kp_template_var *var = &opts->vars[i];
		if (!var->value || !kp_str_eq(var->name, name)) {
			continue;
		}
		struct kp_tv v = kp_tv_from_jv(var->value, (uint8_t)var->origin);
		if (v.type == KP_TV_LIST && var->origin != KP_ORIGIN_TRUSTED &&
			kp_str_eq(name, KP_S("messages"))) {
			v.flags |= KP_TVF_ROLES;
		}
		return v;
	}
	const struct kp_tpl_def *d = kp_tpl_global(name);
	return d ? (struct kp_tv){ .type = KP_TV_FUNC, .def = d }
		 : (struct kp_tv){ .type = KP_TV_MISSING };
}

/* About how long the text will be: what the messages say, and some room. Growing moves it, so a good guess saves copies. */
static size_t guess_output(const struct kp_template_opts *opts)
{
	enum { ROOM = 4 << 10 };
	size_t n = ROOM;
	for (size_t i = 0; i < opts->n_vars; i++) {
		const struct kp_jv *list = opts->vars[i].value;
		for (uint32_t k = 0; kp_jv_is(list, KP_JSON_ARRAY) && k < list->n; k++) {
			const struct kp_jv *m = &list->items[k];
			for (uint32_t j = 0; m->type == KP_JSON_OBJECT && j < m->n; j++) {
				const struct kp_jv *v = &m->members[j].value;
				n += v->type == KP_JSON_STRING ? v->s.n + 16 : 16;
			}
		}
	}
	return n;
}

int kp_template_render(const struct kp_template *t, const struct kp_template_opts *opts,
	struct kp_arena *a, struct kp_text *ret, struct kp_err *err)
{
	enum { MAX_STEPS = 50000000, MAX_MS = 2000, MAX_OUTPUT = 64 << 20, MAX_FIRST = 8 << 20 };
	struct kp_act root;
	struct kp_interp I = { .t = t,
		.a = a,
		.err = err,
		.root = &root,
		.line = 1,
		.now_wall_ns = opts->now_wall_ns,
		.later_steps = opts->max_steps ? opts->max_steps : MAX_STEPS,
		.now_ns = opts->now_ns,
		.max_ms = opts->max_ms ? opts->max_ms : MAX_MS };
	I.deadline_ns = I.now_ns ? I.now_ns() + I.max_ms * KP_NS_PER_MS : 0;
	I.max_output =
		KP_MIN(opts->max_output ? opts->max_output : MAX_OUTPUT, (size_t)UINT32_MAX / 2);
	struct kp_tv *context = kp_tpl_alloc(&I, t->n_context, sizeof(*context));
	if (!context || kp_tpl_act_new(&I, NULL, t->frame->n_slots, &root)) {
		return -1;
	}
	for (uint32_t i = 0; i < t->n_context; i++) {
		context[i] = lookup(opts, t->context_names[i]);
	}
	I.context = context;
	if (kp_tpl_buf_new(&I, KP_MIN(KP_MIN(guess_output(opts), (size_t)MAX_FIRST), I.max_output),
		    &I.out)) {
		return -1;
	}
	if (opts->n_remembered && kp_tpl_replay_start(&I, opts)) {
		return -1;
	}
	kp_tpl_enter(&I, &root, t->frame);
	if (kp_tpl_exec(&I, &root, t->root) == KP_EXEC_ERR) {
		return -1;
	}
	*ret = (struct kp_text){
		.s = { I.out->p, I.out->n }, .runs = I.out->runs, .n_runs = I.out->n_runs
	};
	return 0;
}

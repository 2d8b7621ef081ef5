/* DESIGN: the functions every chat template may call: jinja2's range, dict, namespace, cycler and joiner, transformers' raise_exception and
   strftime_now. lipsum is left out: it is random. The clock is the render's argument, in UTC. */
#include "template/funcs.h"
#include "template/rounds.h"

static int v_range(struct kp_interp *I, const struct kp_tv *x, const struct kp_tpl_args *args,
	struct kp_tv *ret)
{
	(void)x;
	int64_t v[3] = { 0, 0, 1 };
	uint8_t origin = KP_ORIGIN_TRUSTED;
	if (args->n_kw || args->n_pos < 1 || args->n_pos > 3) {
		return kp_tpl_fail(I,
			args->n_kw ? "range() takes no keyword arguments"
				   : "range expected 1 to 3 arguments, got %u",
			args->n_pos);
	}
	for (uint32_t i = 0; i < args->n_pos; i++) {
		origin = kp_origin_mix(origin, args->pos[i].origin);
		if (args->pos[i].type == KP_TV_BIG) {
			return kp_tpl_fail(I, "range: integers have 64 bits here");
		}
		if (kp_tpl_arg_int(I, &args->pos[i], 0, &v[args->n_pos == 1 ? 1 : i])) {
			return -1;
		}
	}
	if (v[2] == 0) {
		return kp_tpl_fail(I, "range() arg 3 must not be zero");
	}
	/* Unsigned, so that the widest range does not overflow. */
	bool up = v[2] > 0;
	uint64_t span = up ? (uint64_t)v[1] - (uint64_t)v[0] : (uint64_t)v[0] - (uint64_t)v[1],
		 by = up ? (uint64_t)v[2] : 0 - (uint64_t)v[2];
	uint64_t n = (up ? v[0] < v[1] : v[0] > v[1]) ? (span - 1) / by + 1 : 0;
	if (n > KP_TPL_MAX_RANGE) {
		return kp_tpl_fail(I,
			"Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).",
			KP_TPL_MAX_RANGE);
	}
	struct kp_tpl_range *r = kp_tpl_alloc(I, 1, sizeof(*r));
	if (!r) {
		return -1;
	}
	*r = (struct kp_tpl_range){ .start = v[0], .stop = v[1], .step = v[2], .len = (int64_t)n };
	*ret = (struct kp_tv){ .type = KP_TV_RANGE, .origin = origin, .range = r };
	return 0;
}

/* dict(mapping or pairs, **more) into d. */
static int fill_dict(struct kp_interp *I, const struct kp_tpl_args *args, struct kp_tpl_dict *d)
{
	struct kp_tpl_iter it, pair;
	struct kp_tv item, kv[3];
	int r = 0;
	if (args->n_pos > 1) {
		return kp_tpl_fail(I, "dict expected at most 1 argument, got %u", args->n_pos);
	}
	if (args->n_pos && args->pos[0].type == KP_TV_DICT) {
		if (kp_tpl_dict_merge(I, d, &args->pos[0])) {
			return -1;
		}
	} else if (args->n_pos) {
		if (args->pos[0].type == KP_TV_UNDEF) { /* is asked for its keys */
			return kp_tpl_fail_undef(I, &args->pos[0]);
		}
		if (kp_tpl_iter_init(I, &args->pos[0], &it)) {
			return -1;
		}
		while ((r = kp_tpl_iter_next(I, &it, &item)) > 0) {
			uint32_t n = 0;
			if (kp_tpl_iter_init(I, &item, &pair)) {
				return -1;
			}
			while (n < 3 && (r = kp_tpl_iter_next(I, &pair, &kv[n])) > 0) {
				n++;
			}
			if (r < 0 || n != 2 || kp_tpl_dict_set(I, d, &kv[0], &kv[1])) {
				return r < 0 || n == 2
					       ? -1
					       : kp_tpl_fail(I,
							 "dictionary update sequence element has length %u; 2 is required",
							 n);
			}
		}
	}
	for (uint32_t i = 0; r == 0 && i < args->n_kw; i++) {
		struct kp_tv k = kp_tv_str(args->kw[i].name, KP_ORIGIN_TRUSTED);
		r = kp_tpl_dict_set(I, d, &k, &args->kw[i].v);
	}
	return r;
}

static int v_dict(struct kp_interp *I, const struct kp_tv *x, const struct kp_tpl_args *args,
	struct kp_tv *ret)
{
	(void)x;
	struct kp_tpl_dict *d;
	if (kp_tpl_dict_new(I, args->n_kw, &d) || fill_dict(I, args, d)) {
		return -1;
	}
	*ret = (struct kp_tv){ .type = KP_TV_DICT, .dict = d };
	return 0;
}

static int v_namespace(struct kp_interp *I, const struct kp_tv *x, const struct kp_tpl_args *args,
	struct kp_tv *ret)
{
	if (v_dict(I, x, args, ret)) {
		return -1;
	}
	for (uint32_t i = 0; i < ret->dict->n; i++) {
		const struct kp_tv *k = &ret->dict->entries[i].key;
		if (k->type == KP_TV_STR && k->n && kp_tv_bytes(k).p[0] == '_') {
			return kp_tpl_fail(I,
				"underscore-prefixed attribute '%" KP_FMT "' on a namespace",
				KP_ARG(kp_tv_bytes(k)));
		}
	}
	ret->type = KP_TV_NS;
	return 0;
}

static int cycle(struct kp_interp *I, enum kp_tv_type type, const struct kp_tv *items, uint32_t n,
	struct kp_tv *ret)
{
	struct kp_tpl_cycler *c = kp_tpl_alloc(I, 1, sizeof(*c));
	struct kp_tv list;
	if (!c || kp_tpl_list_new(I, KP_TV_TUPLE, items, n, &list)) {
		return -1;
	}
	*c = (struct kp_tpl_cycler){ .items = list.items, .n = n };
	*ret = (struct kp_tv){ .type = (uint8_t)type, .cycler = c };
	return 0;
}

static int v_cycler(struct kp_interp *I, const struct kp_tv *x, const struct kp_tpl_args *args,
	struct kp_tv *ret)
{
	(void)x;
	if (!args->n_pos || args->n_kw) {
		return kp_tpl_fail(I, "at least one item has to be provided");
	}
	return cycle(I, KP_TV_CYCLER, args->pos, args->n_pos, ret);
}

static int f_joiner(
	struct kp_interp *I, const struct kp_tv *x, const struct kp_tv *arg, struct kp_tv *ret)
{
	(void)x;
	struct kp_tv sep =
		arg[0].type == KP_TV_MISSING ? kp_tv_str(KP_S(", "), KP_ORIGIN_TRUSTED) : arg[0];
	return cycle(I, KP_TV_JOINER, &sep, 1, ret);
}

/* The template refuses the conversation: its own text is the whole message. A NUL ends no message: it becomes what errors make of any
   control character. */
static int f_raise_exception(
	struct kp_interp *I, const struct kp_tv *x, const struct kp_tv *arg, struct kp_tv *ret)
{
	(void)x;
	(void)ret;
	struct kp_tv text;
	if (kp_tpl_to_str(I, &arg[0], &text)) {
		return -1;
	}
	kp_str s = kp_str_sub(kp_tv_bytes(&text), 0, KP_ERR_MSG);
	char msg[KP_ERR_MSG];
	memcpy(msg, s.p, s.n);
	for (size_t i = 0; i < s.n; i++) {
		msg[i] = msg[i] ? msg[i] : '?';
	}
	return kp_err_set(I->err, KP_INVALID_ARGUMENT, "%.*s", (int)s.n, msg);
}

static int f_strftime_now(
	struct kp_interp *I, const struct kp_tv *x, const struct kp_tv *arg, struct kp_tv *ret)
{
	(void)x;
	kp_tpl_note_bad(I);
	return kp_tpl_arg_str(I, &arg[0]) ? -1 : kp_tpl_strftime(I, &arg[0], ret);
}

const struct kp_tpl_def kp_tpl_globals[] = {
	{ .name = "namespace", .vfn = v_namespace },
	{ .name = "raise_exception",
		.fn = f_raise_exception,
		.n_required = 1,
		.params = { "message" } },
	{ .name = "range", .vfn = v_range },
	{ .name = "strftime_now", .fn = f_strftime_now, .n_required = 1, .params = { "format" } },
	{ .name = "dict", .vfn = v_dict },
	{ .name = "cycler", .vfn = v_cycler },
	{ .name = "joiner", .fn = f_joiner, .params = { "sep" } },
};
const size_t kp_tpl_n_globals = KP_LEN(kp_tpl_globals);

/* DESIGN: filters on text. Most are a str method behind str(x); `soft_str` of jinja2 keeps Markup, which is what with_text does. */
#include "template/ast.h"
#include "template/format.h"
#include "template/funcs.h"
#include "template/pynum.h"

#include "base/utf8.h"

#define FILTER(name)                                                                             \
	static int f_##name(struct kp_interp *I, const struct kp_tv *x, const struct kp_tv *arg, \
		struct kp_tv *ret)

/* x as a string, Markup kept. */
static int with_text(struct kp_interp *I, const struct kp_tv *x, struct kp_tv *ret)
{
	if (x->type == KP_TV_STR) {
		*ret = *x;
		return 0;
	}
	return kp_tpl_to_str(I, x, ret);
}

FILTER(upper)
{
	(void)arg;
	struct kp_tv s;
	return with_text(I, x, &s) || kp_tpl_str_map(I, &s, KP_UCD_TO_UPPER, ret) ? -1 : 0;
}

FILTER(lower)
{
	(void)arg;
	struct kp_tv s;
	return with_text(I, x, &s) || kp_tpl_str_map(I, &s, KP_UCD_TO_LOWER, ret) ? -1 : 0;
}

FILTER(capitalize)
{
	(void)arg;
	struct kp_tv s;
	return with_text(I, x, &s) || kp_tpl_str_capitalize(I, &s, ret) ? -1 : 0;
}

FILTER(string)
{
	(void)arg;
	return with_text(I, x, ret);
}

FILTER(trim)
{
	struct kp_tv s;
	return with_text(I, x, &s) || kp_tpl_str_strip(I, &s, &arg[0], true, true, ret) ? -1 : 0;
}

FILTER(center)
{
	struct kp_tv s, none = { 0 };
	int64_t width;
	return with_text(I, x, &s) || kp_tpl_arg_int(I, &arg[0], 80, &width) ||
			       kp_tpl_str_justify(I, &s, width, &none, 'c', ret)
		       ? -1
		       : 0;
}

FILTER(replace)
{
	struct kp_tv s, old, new, absent = { 0 };
	int64_t count;
	if (kp_tpl_to_str(I, x, &s) || kp_tpl_to_str(I, &arg[0], &old) ||
		kp_tpl_to_str(I, &arg[1], &new) ||
		kp_tpl_arg_int(I, kp_tv_absent(&arg[2]) ? &absent : &arg[2], -1, &count)) {
		return -1;
	}
	return kp_tpl_str_replace(I, &s, &old, &new, count < 0 ? -1 : count, ret);
}

FILTER(join)
{
	struct kp_tv sep = kp_tv_str(KP_S(""), KP_ORIGIN_TRUSTED), list = *x;
	if (kp_tv_given(&arg[0]) && kp_tpl_to_str(I, &arg[0], &sep)) {
		return -1;
	}
	if (!kp_tv_absent(&arg[1])) {
		struct kp_tv *items, missing = { 0 };
		uint32_t n;
		if (kp_tpl_collect(I, x, &items, &n)) {
			return -1;
		}
		for (uint32_t i = 0; i < n; i++) {
			if (kp_tpl_attr_path(I, &items[i], &arg[1], &missing, &items[i])) {
				return -1;
			}
		}
		list = (struct kp_tv){ .type = KP_TV_LIST, .n = n, .items = items };
	}
	return kp_tpl_str_join(I, &sep, &list, true, ret);
}

/* Letters after a start, white space or one of -({[< are upper case, all others lower. */
FILTER(title)
{
	(void)arg;
	struct kp_tv s;
	struct kp_tpl_buf *b;
	if (with_text(I, x, &s) || kp_tpl_charge(I, s.n / 8) || kp_tpl_buf_new(I, s.n, &b)) {
		return -1;
	}
	kp_str t = kp_tv_bytes(&s);
	for (uint32_t i = 0; i < t.n;) {
		uint32_t start = i, cp = 0, first = 0;
		bool separators = false;
		while (i < t.n) { /* a run of separators, or of everything else */
			uint32_t len = (uint32_t)kp_utf8_decode(t.p + i, t.n - i, &cp);
			bool sep =
				kp_ucd_space(cp) || (cp < 0x80 && cp && strchr("-({[<", (int)cp));
			if (i > start && sep != separators) {
				break;
			}
			separators = sep;
			first = i == start ? len : first;
			i += len;
		}
		struct kp_tv word[2];
		if (kp_tpl_str_sub(I, &s, start, start + first, &word[0]) ||
			kp_tpl_str_map(I, &word[0], KP_UCD_TO_UPPER, &word[0]) ||
			kp_tpl_str_sub(I, &s, start + first, i, &word[1]) ||
			kp_tpl_str_map(I, &word[1], KP_UCD_TO_LOWER, &word[1]) ||
			kp_tpl_buf_add_str(I, b, &word[0]) || kp_tpl_buf_add_str(I, b, &word[1])) {
			return -1;
		}
	}
	*ret = kp_tpl_buf_value(b);
	return 0;
}

/* indent(s, width=4, first=False, blank=False); width may be the indentation itself. */
FILTER(indent)
{
	struct kp_tv ind = kp_tv_str(KP_S("    "), x->origin), lines, s = *x;
	struct kp_tpl_buf *b;
	if (x->type != KP_TV_STR) {
		return x->type == KP_TV_UNDEF
			       ? kp_tpl_fail_undef(I, x)
			       : kp_tpl_fail(I,
					 "unsupported operand type(s) for +=: '%s' and 'str'",
					 kp_tv_type_name(x));
	}
	if (arg[0].type == KP_TV_STR) {
		ind = arg[0];
	} else if (kp_tv_given(&arg[0])) {
		struct kp_tpl_buf *w;
		int64_t width;
		if (kp_tpl_arg_int(I, &arg[0], 4, &width)) {
			return -1;
		}
		width = KP_MAX(width, (int64_t)0);
		if (kp_tpl_charge(I, (uint64_t)width / 16) || kp_tpl_buf_new(I, 0, &w) ||
			kp_tpl_buf_fill(I, w, ' ', (size_t)width, x->origin)) {
			return -1;
		}
		ind = kp_tpl_buf_value(w);
	}
	bool first = kp_tv_truth(&arg[1]), blank = kp_tv_truth(&arg[2]);
	struct kp_tv newline = kp_tv_str(KP_S("\n"), x->origin);
	if (kp_tpl_str_concat(I, &s, &newline, &s) || kp_tpl_str_splitlines(I, &s, false, &lines) ||
		kp_tpl_buf_new(I, s.n, &b)) {
		return -1;
	}
	for (uint32_t i = 0; i < lines.n; i++) {
		const struct kp_tv *line = &lines.items[i];
		bool indented = i == 0 ? first : blank || line->n;
		if ((i && kp_tpl_buf_add_str(I, b, &newline)) ||
			(indented && kp_tpl_buf_add_str(I, b, &ind)) ||
			kp_tpl_buf_add_str(I, b, line)) {
			return -1;
		}
	}
	*ret = kp_tpl_buf_value(b);
	ret->flags |= x->flags & KP_TVF_MARKUP;
	return 0;
}

/* A length that is only compared: floats and large integers will do. */
static int length_arg(struct kp_interp *I, const struct kp_tv *v, double missing, double *ret)
{
	int64_t i = 0;
	if (v->type == KP_TV_MISSING) {
		*ret = missing;
	} else if (v->type == KP_TV_FLOAT) {
		*ret = v->f;
	} else if (v->type == KP_TV_BIG) {
		return kp_pynum_to_double(v, ret) ? 0 : kp_tpl_fail(I, "int too large");
	} else {
		if (kp_tpl_arg_int(I, v, 0, &i)) {
			return -1;
		}
		*ret = (double)i;
	}
	return 0;
}

/* truncate(s, length=255, killwords=False, end='...', leeway=5) */
FILTER(truncate)
{
	double length, leeway;
	struct kp_tv end = arg[2].type == KP_TV_MISSING ? kp_tv_str(KP_S("..."), KP_ORIGIN_TRUSTED)
							: arg[2],
		     absent = { 0 }, cut;
	if (length_arg(I, &arg[0], 255, &length) ||
		length_arg(I, kp_tv_absent(&arg[3]) ? &absent : &arg[3], 5, &leeway) ||
		kp_tpl_arg_str(I, &end)) {
		return -1;
	}
	int64_t end_n = (int64_t)kp_tpl_cp_count(kp_tv_bytes(&end)), n = kp_tv_len(I, x);
	if (!(length >= (double)end_n && leeway >= 0)) {
		return kp_tpl_fail(I,
			"truncate: length must be at least that of the end, leeway not negative");
	}
	bool fits = (double)n <= length + leeway;
	if (n < 0 || (x->type != KP_TV_STR && !fits)) {
		return kp_tpl_fail(I, "truncate: expected str, got %s", kp_tv_type_name(x));
	}
	if (fits) {
		*ret = *x;
		return 0;
	}
	int64_t keep;
	if (kp_tpl_arg_int(I, &arg[0], 255, &keep) ||
		kp_tpl_str_sub(
			I, x, 0, kp_tpl_cp_offset(kp_tv_bytes(x), (size_t)(keep - end_n)), &cut)) {
		return -1;
	}
	if (!kp_tv_truth(&arg[1])) { /* back to the last space */
		ptrdiff_t space = kp_str_rfind_char(kp_tv_bytes(&cut), ' ');
		if (space >= 0 && kp_tpl_str_sub(I, &cut, 0, (uint32_t)space, &cut)) {
			return -1;
		}
	}
	return kp_tpl_binary(I, KP_OP_ADD, &cut, &end, ret);
}

/* Runs of \w characters. */
FILTER(wordcount)
{
	(void)arg;
	struct kp_tv s;
	uint32_t cp;
	int64_t n = 0;
	bool in_word = false;
	if (with_text(I, x, &s) || kp_tpl_charge(I, s.n / 8)) {
		return -1;
	}
	kp_str t = kp_tv_bytes(&s);
	for (size_t i = 0; i < t.n;) {
		i += kp_utf8_decode(t.p + i, t.n - i, &cp);
		bool word = cp == '_' || kp_ucd_is(cp, KP_UCD_ALNUM);
		n += word && !in_word;
		in_word = word;
	}
	*ret = kp_tv_int(n, s.origin);
	return 0;
}

FILTER(escape)
{
	(void)arg;
	return kp_tpl_escape(I, x, ret);
}

/* Escapes what is Markup too. */
FILTER(forceescape)
{
	(void)arg;
	struct kp_tv s;
	return kp_tpl_to_str(I, x, &s) || kp_tpl_escape(I, &s, ret) ? -1 : 0;
}

FILTER(safe)
{
	(void)arg;
	if (kp_tpl_to_str(I, x, ret)) {
		return -1;
	}
	ret->flags |= KP_TVF_MARKUP;
	return 0;
}

static int v_format(struct kp_interp *I, const struct kp_tv *x, const struct kp_tpl_args *args,
	struct kp_tv *ret)
{
	struct kp_tv s, values = { .type = KP_TV_TUPLE, .n = args->n_pos, .items = args->pos };
	if (args->n_pos && args->n_kw) {
		return kp_tpl_fail(
			I, "can't handle positional and keyword arguments at the same time");
	}
	if (args->n_kw) {
		struct kp_tpl_dict *d;
		if (kp_tpl_dict_new(I, args->n_kw, &d)) {
			return -1;
		}
		for (uint32_t i = 0; i < args->n_kw; i++) {
			struct kp_tv k = kp_tv_str(args->kw[i].name, KP_ORIGIN_TRUSTED);
			if (kp_tpl_dict_set(I, d, &k, &args->kw[i].v)) {
				return -1;
			}
		}
		values = (struct kp_tv){ .type = KP_TV_DICT, .dict = d };
	}
	return with_text(I, x, &s) || kp_tpl_percent(I, &s, &values, ret) ? -1 : 0;
}

/* --- URLs ---------------------------------------------------------------------------------------------------------------------------- */

static int quote(struct kp_interp *I, struct kp_tpl_buf *b, const struct kp_tv *v, bool query)
{
	static const char hex[] = "0123456789ABCDEF";
	struct kp_tv s;
	uint32_t cursor = 0;
	if (kp_tpl_to_str(I, v, &s) || kp_tpl_charge(I, s.n / 8)) {
		return -1;
	}
	kp_str t = kp_tv_bytes(&s);
	for (uint32_t i = 0; i < t.n; i++) {
		unsigned char c = (unsigned char)t.p[i];
		bool plain = kp_is_digit((char)c) ||
			     (kp_lower((char)c) >= 'a' && kp_lower((char)c) <= 'z') ||
			     (c && strchr("_.-~", c)) || (c == '/' && !query);
		char out[3] = { '%', hex[c >> 4], hex[c & 15] };
		kp_str piece = plain               ? kp_str_n(t.p + i, 1)
			       : query && c == ' ' ? KP_S("+")
						   : kp_str_n(out, 3);
		if (kp_tpl_buf_add(I, b, piece, kp_tpl_str_origin(&s, i, &cursor))) {
			return -1;
		}
	}
	return 0;
}

/* A string is quoted, a mapping or pairs become a query. */
FILTER(urlencode)
{
	(void)arg;
	struct kp_tpl_buf *b;
	struct kp_tpl_iter it, pair;
	struct kp_tv list = *x, item, kv[3], view_of = *x;
	int r;
	if (kp_tpl_buf_new(I, 0, &b)) {
		return -1;
	}
	if (x->type == KP_TV_STR || !kp_tv_iterable(x)) {
		r = quote(I, b, x, false);
		*ret = kp_tpl_buf_value(b);
		return r;
	}
	if (x->type == KP_TV_DICT) {
		list = (struct kp_tv){ .type = KP_TV_VIEW, .sub = KP_VIEW_ITEMS, .of = &view_of };
	}
	if (kp_tpl_iter_init(I, &list, &it)) {
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
		if (r < 0 || n != 2) {
			return r < 0 ? -1
				     : kp_tpl_fail(I, "urlencode: expected pairs of key and value");
		}
		if ((b->n && kp_tpl_buf_add(I, b, KP_S("&"), x->origin)) ||
			quote(I, b, &kv[0], true) || kp_tpl_buf_add(I, b, KP_S("="), x->origin) ||
			quote(I, b, &kv[1], true)) {
			return -1;
		}
	}
	*ret = kp_tpl_buf_value(b);
	return r;
}

#define F0(n)                           \
	{                               \
		.name = #n, .fn = f_##n \
	}
#define FP(n, ...)                                                 \
	{                                                          \
		.name = #n, .fn = f_##n, .params = { __VA_ARGS__ } \
	}
const struct kp_tpl_def kp_tpl_filters_text[] = {
	{ .name = "tojson",
		.fn = kp_tpl_filter_tojson,
		.params = { "ensure_ascii", "indent", "separators", "sort_keys" } },
	{ .name = "kelpie_from_json", .fn = kp_tpl_filter_from_json },
	FP(trim, "chars"),
	F0(string),
	FP(join, "d", "attribute"),
	F0(lower),
	F0(upper),
	F0(safe),
	{ .name = "replace",
		.fn = f_replace,
		.n_required = 2,
		.params = { "old", "new", "count" } },
	FP(indent, "width", "first", "blank"),
	F0(capitalize),
	F0(title),
	FP(center, "width"),
	FP(truncate, "length", "killwords", "end", "leeway"),
	F0(wordcount),
	F0(escape),
	{ .name = "e", .fn = f_escape },
	F0(forceescape),
	{ .name = "format", .vfn = v_format },
	F0(urlencode),
};
const size_t kp_tpl_n_filters_text = KP_LEN(kp_tpl_filters_text);

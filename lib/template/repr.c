/* DESIGN: str() and repr() as Python writes them, into a buffer. Strings inside containers get Python's quotes and escapes; what a value's
   own characters became keeps that value's origin, punctuation has the container's. Recursion stops at KP_TPL_MAX_VALUE_DEPTH. */
#include "template/interp.h"
#include "template/pynum.h"
#include "template/ucd.h"

#include "base/utf8.h"

#include <stdio.h>

static int add(struct kp_interp *I, struct kp_tpl_buf *b, const char *z, uint8_t origin)
{
	return kp_tpl_buf_add(I, b, kp_str_c(z), origin);
}

/* One character that repr does not leave as it is; 0 length: it does. */
static int escaped(uint32_t cp, char quote, char out[16])
{
	if (cp == (uint32_t)quote || cp == '\\') {
		return snprintf(out, 16, "\\%c", (char)cp);
	}
	if (cp == '\n' || cp == '\r' || cp == '\t') {
		return snprintf(out, 16, "\\%c", cp == '\n' ? 'n' : cp == '\r' ? 'r' : 't');
	}
	if (cp < 0x7f ? cp >= 0x20 : kp_ucd_is(cp, KP_UCD_PRINTABLE)) {
		return 0;
	}
	return snprintf(out, 16, cp < 0x100 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x", cp);
}

static int repr_str(struct kp_interp *I, struct kp_tpl_buf *b, const struct kp_tv *v)
{
	kp_str s = kp_tv_bytes(v);
	char quote = kp_str_find_char(s, '\'') >= 0 && kp_str_find_char(s, '"') < 0 ? '"' : '\'',
	     out[16];
	uint32_t done = 0, cursor = 0;
	if (kp_tpl_charge(I, s.n / 8) || kp_tpl_buf_add(I, b, kp_str_n(&quote, 1), v->origin)) {
		return -1;
	}
	for (uint32_t i = 0; i < s.n;) {
		uint32_t cp;
		size_t len = kp_utf8_decode(s.p + i, s.n - i, &cp);
		int n = escaped(cp, quote, out);
		if (n && (kp_tpl_buf_add_sub(I, b, v, done, i) ||
				 kp_tpl_buf_add(I, b, kp_str_n(out, (size_t)n),
					 kp_tpl_str_origin(v, i, &cursor)))) {
			return -1;
		}
		i += (uint32_t)len;
		done = n ? i : done;
	}
	return kp_tpl_buf_add_sub(I, b, v, done, v->n) ||
			       kp_tpl_buf_add(I, b, kp_str_n(&quote, 1), v->origin)
		       ? -1
		       : 0;
}

static int repr_items(
	struct kp_interp *I, struct kp_tpl_buf *b, const struct kp_tv *v, uint32_t depth)
{
	bool tuple = v->type == KP_TV_TUPLE;
	if (add(I, b, tuple ? "(" : "[", v->origin)) {
		return -1;
	}
	for (uint32_t i = 0; i < v->n; i++) {
		struct kp_tv x = kp_tv_item(v, i);
		if ((i && add(I, b, ", ", v->origin)) || kp_tpl_repr(I, b, &x, depth + 1)) {
			return -1;
		}
	}
	return add(I, b, !tuple ? "]" : v->n == 1 ? ",)" : ")", v->origin);
}

static int repr_dict(
	struct kp_interp *I, struct kp_tpl_buf *b, const struct kp_tv *v, uint32_t depth)
{
	if (add(I, b, "{", v->origin)) {
		return -1;
	}
	for (uint32_t i = 0; i < kp_tv_dict_n(v); i++) {
		struct kp_tv k, x;
		kp_tv_dict_at(v, i, &k, &x);
		if ((i && add(I, b, ", ", v->origin)) || kp_tpl_repr(I, b, &k, depth + 1) ||
			add(I, b, ": ", v->origin) || kp_tpl_repr(I, b, &x, depth + 1)) {
			return -1;
		}
	}
	return add(I, b, "}", v->origin);
}

static int repr_view(
	struct kp_interp *I, struct kp_tpl_buf *b, const struct kp_tv *v, uint32_t depth)
{
	struct kp_tv *items;
	uint32_t n;
	if (kp_tpl_collect(I, v, &items, &n)) {
		return -1;
	}
	struct kp_tv list = { .type = KP_TV_LIST, .origin = v->origin, .n = n, .items = items };
	return add(I, b, kp_tv_type_name(v), v->origin) || add(I, b, "(", v->origin) ||
			       repr_items(I, b, &list, depth) || add(I, b, ")", v->origin)
		       ? -1
		       : 0;
}

static int repr_range(struct kp_interp *I, struct kp_tpl_buf *b, const struct kp_tv *v)
{
	char text[96];
	const struct kp_tpl_range *r = v->range;
	snprintf(text, sizeof(text), r->step == 1 ? "range(%lld, %lld)" : "range(%lld, %lld, %lld)",
		(long long)r->start, (long long)r->stop, (long long)r->step);
	return add(I, b, text, v->origin);
}

/* Objects that Python prints with an address: without one. */
static int repr_object(struct kp_interp *I, struct kp_tpl_buf *b, const struct kp_tv *v)
{
	char text[96];
	snprintf(text, sizeof(text), "<%s object>",
		v->type == KP_TV_GEN ? v->gen->type_name : kp_tv_type_name(v));
	return add(I, b, text, v->origin);
}

static int repr_loop(struct kp_interp *I, struct kp_tpl_buf *b, const struct kp_tv *v)
{
	struct kp_tv index, length;
	char text[96];
	if (kp_tpl_loop_attr(I, v, KP_S("index"), &index) < 0 ||
		kp_tpl_loop_attr(I, v, KP_S("length"), &length) < 0) {
		return -1;
	}
	snprintf(text, sizeof(text), "<LoopContext %lld/%lld>", (long long)index.i,
		(long long)length.i);
	return add(I, b, text, v->origin);
}

static int repr_number(struct kp_interp *I, struct kp_tpl_buf *b, const struct kp_tv *v)
{
	char text[KP_PYNUM_TEXT];
	kp_str s = v->type == KP_TV_FLOAT ? kp_str_n(text, kp_pynum_repr(v->f, text))
					  : kp_pynum_digits(v, text);
	return kp_tpl_buf_add(I, b, s, v->origin);
}

/* What str() and repr() share. */
static int repr_other(
	struct kp_interp *I, struct kp_tpl_buf *b, const struct kp_tv *v, uint32_t depth)
{
	struct kp_tv name;
	switch (v->type) {
	case KP_TV_NONE:
		return add(I, b, "None", v->origin);
	case KP_TV_BOOL:
		return add(I, b, v->i ? "True" : "False", v->origin);
	case KP_TV_INT:
	case KP_TV_BIG:
	case KP_TV_FLOAT:
		return repr_number(I, b, v);
	case KP_TV_LIST:
	case KP_TV_TUPLE:
		return repr_items(I, b, v, depth);
	case KP_TV_DICT:
		return repr_dict(I, b, v, depth);
	case KP_TV_NS:
		return add(I, b, "<Namespace ", v->origin) || repr_dict(I, b, v, depth) ||
				       add(I, b, ">", v->origin)
			       ? -1
			       : 0;
	case KP_TV_VIEW:
		return repr_view(I, b, v, depth);
	case KP_TV_RANGE:
		return repr_range(I, b, v);
	case KP_TV_LOOP:
		return repr_loop(I, b, v);
	case KP_TV_MACRO:
		if (kp_tpl_getattr(I, v, KP_S("name"), &name) || add(I, b, "<Macro ", v->origin)) {
			return -1;
		}
		return (name.type == KP_TV_STR ? repr_str(I, b, &name)
					       : add(I, b, "anonymous", v->origin)) ||
				       add(I, b, ">", v->origin)
			       ? -1
			       : 0;
	default:
		return repr_object(I, b, v);
	}
}

int kp_tpl_repr(struct kp_interp *I, struct kp_tpl_buf *b, const struct kp_tv *v, uint32_t depth)
{
	if (depth > KP_TPL_MAX_VALUE_DEPTH) {
		return kp_tpl_fail(I, "values nested deeper than %d", KP_TPL_MAX_VALUE_DEPTH);
	}
	if (kp_tpl_charge(I, 1)) {
		return -1;
	}
	if (v->type == KP_TV_STR) {
		if (v->flags & KP_TVF_MARKUP) {
			return add(I, b, "Markup(", v->origin) || repr_str(I, b, v) ||
					       add(I, b, ")", v->origin)
				       ? -1
				       : 0;
		}
		return repr_str(I, b, v);
	}
	return v->type == KP_TV_UNDEF ? add(I, b, "Undefined", v->origin)
				      : repr_other(I, b, v, depth);
}

int kp_tpl_print(struct kp_interp *I, struct kp_tpl_buf *b, const struct kp_tv *v)
{
	if (KP_LIKELY(v->type == KP_TV_STR)) {
		return kp_tpl_buf_add_str(I, b, v);
	}
	return v->type == KP_TV_UNDEF ? 0 : repr_other(I, b, v, 0);
}

int kp_tpl_to_str(struct kp_interp *I, const struct kp_tv *v, struct kp_tv *ret)
{
	if (v->type == KP_TV_STR) {
		*ret = *v;
		ret->flags &= (uint8_t)~KP_TVF_MARKUP;
		return 0;
	}
	struct kp_tpl_buf *b;
	if (kp_tpl_buf_new(I, 0, &b) || kp_tpl_print(I, b, v)) {
		return -1;
	}
	*ret = kp_tpl_buf_value(b);
	return 0;
}

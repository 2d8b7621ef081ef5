/* DESIGN: str.format with Python's format specification, as jinja2's sandbox runs it: string.Formatter, fields looked up through the
   environment's own attribute and item lookup. Replacement fields nest one level inside a specification, as there. */
#include "template/format.h"
#include "template/pynum.h"

#include "base/utf8.h"

struct format {
	struct kp_interp *I;
	const struct kp_tpl_args *args;
	const struct kp_tv *map; /* format_map */
	int64_t next;            /* automatic numbering: -1 manual is in use, 0 nothing yet */
	bool escape;             /* the format is a Markup */
};

static int format_into(struct format *f, struct kp_tpl_buf *b, const struct kp_tv *fmt, int depth);

/* --- one value ----------------------------------------------------------------------------------------------------------------------- */

static bool is_align(char c)
{
	return c == '<' || c == '>' || c == '=' || c == '^';
}

static int64_t spec_number(kp_str s, size_t *pos)
{
	int64_t v = 0;
	while (*pos < s.n && kp_is_digit(s.p[*pos])) {
		v = KP_MIN(v * 10 + (s.p[*pos] - '0'), (int64_t)INT32_MAX);
		++*pos;
	}
	return v;
}

/* [[fill]align][sign][z][#][0][width][group][.precision][type] */
static int parse_spec(struct kp_interp *I, kp_str s, bool number, struct kp_numspec *ret)
{
	struct kp_numspec n = { .precision = -1 };
	size_t at = 0;
	uint32_t cp;
	size_t first = s.n ? kp_utf8_decode(s.p, s.n, &cp) : 0;
	if (first && first < s.n && is_align(s.p[first])) {
		n.fill = kp_str_sub(s, 0, first);
		n.align = s.p[first];
		at = first + 1;
	} else if (s.n && is_align(s.p[0])) {
		n.align = s.p[at++];
	}
	if (at < s.n && (s.p[at] == '+' || s.p[at] == '-' || s.p[at] == ' ')) {
		n.sign = s.p[at++];
	}
	if (at < s.n && s.p[at] == 'z') {
		n.no_neg_zero = true;
		at++;
	}
	if (at < s.n && s.p[at] == '#') {
		n.alt = true;
		at++;
	}
	if (!n.fill.n && at < s.n && s.p[at] == '0') {
		n.fill = KP_S("0");
		n.zero_flag = true;
		n.align = !n.align && number ? '=' : n.align;
		at++;
	}
	n.width = spec_number(s, &at);
	if (at < s.n && (s.p[at] == ',' || s.p[at] == '_')) {
		n.group = s.p[at++];
		if (at < s.n && (s.p[at] == ',' || s.p[at] == '_')) {
			return kp_tpl_fail(I, "Cannot specify both ',' and '_'.");
		}
	}
	if (at < s.n && s.p[at] == '.') {
		size_t start = ++at;
		n.precision = spec_number(s, &at);
		if (at == start) {
			return kp_tpl_fail(I, "Format specifier missing precision");
		}
	}
	if (s.n - at > 1) {
		return kp_tpl_fail(I, "Invalid format specifier '%" KP_FMT "'", KP_ARG(s));
	}
	n.type = at < s.n ? s.p[at] : 0;
	*ret = n;
	return 0;
}

static int unknown_code(struct kp_interp *I, const struct kp_numspec *n, const struct kp_tv *v)
{
	return kp_tpl_fail(I, "Unknown format code '%c' for object of type '%s'",
		n->type >= 0x20 && n->type < 0x7f ? n->type : '?', kp_tv_type_name(v));
}

static int format_str(struct kp_interp *I, struct kp_tpl_buf *b, const struct kp_tv *v, kp_str spec)
{
	struct kp_numspec n;
	struct kp_tv s = *v;
	if (parse_spec(I, spec, false, &n)) {
		return -1;
	}
	if (n.type && n.type != 's') {
		return unknown_code(I, &n, v);
	}
	if (n.sign || n.alt || n.group || n.align == '=' || n.no_neg_zero) {
		return kp_tpl_fail(I,
			"sign, '#', ',', '_', '=' and 'z' are not allowed in a string format specifier");
	}
	if (n.precision >= 0 && (uint64_t)n.precision < s.n &&
		kp_tpl_str_sub(
			I, &s, 0, kp_tpl_cp_offset(kp_tv_bytes(&s), (size_t)n.precision), &s)) {
		return -1;
	}
	int64_t len = n.width ? (int64_t)kp_tpl_cp_count(kp_tv_bytes(&s)) : 0,
		pad = KP_MAX(n.width - len, (int64_t)0);
	int64_t before = n.align == '>' ? pad : n.align == '^' ? pad / 2 : 0;
	kp_str fill = n.fill.n ? n.fill : KP_S(" ");
	if (kp_tpl_charge(I, (uint64_t)pad / 16)) {
		return -1;
	}
	for (int64_t i = 0; i <= pad; i++) {
		if ((i == before && kp_tpl_buf_add_str(I, b, &s)) ||
			(i < pad && kp_tpl_buf_add(I, b, fill, v->origin))) {
			return -1;
		}
	}
	return 0;
}

static int format_char(struct kp_interp *I, struct kp_tpl_buf *b, const struct kp_tv *v,
	const struct kp_numspec *n)
{
	char out[4];
	if (n->sign || n->alt || n->precision >= 0 || n->group) {
		return kp_tpl_fail(I,
			"sign, '#', precision and grouping are not allowed with integer format specifier 'c'");
	}
	if (v->type == KP_TV_BIG || v->i < 0 || v->i > 0x10ffff ||
		(v->i >= 0xd800 && v->i < 0xe000)) {
		return kp_tpl_fail(I, "%%c arg not in range(0x110000)");
	}
	struct kp_numspec pad = *n;
	pad.align = n->align ? n->align : '<';
	return kp_pynum_pad(I, b, KP_STR_NULL, KP_STR_NULL,
		kp_str_n(out, kp_utf8_encode((uint32_t)v->i, out)), v->origin, &pad);
}

static int format_number(
	struct kp_interp *I, struct kp_tpl_buf *b, const struct kp_tv *v, kp_str spec)
{
	struct kp_numspec n;
	double f;
	if (parse_spec(I, spec, true, &n)) {
		return -1;
	}
	bool floating = v->type == KP_TV_FLOAT, as_float = n.type && strchr("eEfFgG%", n.type);
	if (n.type && !strchr(floating ? "eEfFgGn%" : "bcdoxXneEfFgG%", n.type)) {
		return unknown_code(I, &n, v);
	}
	if (n.group && (n.type == 'n' || (n.group == ',' && n.type && strchr("boxX", n.type)))) {
		return kp_tpl_fail(I, "Cannot specify '%c' with '%c'.", n.group, n.type);
	}
	if (floating || as_float) {
		return kp_pynum_to_double(v, &f)
			       ? kp_pynum_format_float(I, b, f, v->origin, &n)
			       : kp_tpl_fail(I, "int too large to convert to float");
	}
	if (n.precision >= 0 || n.no_neg_zero) {
		return kp_tpl_fail(I, "Precision not allowed in integer format specifier");
	}
	return n.type == 'c' ? format_char(I, b, v, &n) : kp_pynum_format_int(I, b, v, &n);
}

int kp_tpl_format_value(
	struct kp_interp *I, struct kp_tpl_buf *b, const struct kp_tv *v, kp_str spec)
{
	if (!spec.n) {
		return kp_tpl_print(I, b, v);
	}
	if (v->type == KP_TV_STR) {
		return format_str(I, b, v, spec);
	}
	if (kp_tv_is_num(v) || v->type == KP_TV_BIG) {
		return format_number(I, b, v, spec);
	}
	return kp_tpl_fail(
		I, "unsupported format string passed to %s.__format__", kp_tv_type_name(v));
}

/* --- fields -------------------------------------------------------------------------------------------------------------------------- */

static bool all_digits(kp_str s)
{
	for (size_t i = 0; i < s.n; i++) {
		if (!kp_is_digit(s.p[i])) {
			return false;
		}
	}
	return s.n > 0;
}

static int positional(struct format *f, int64_t i, struct kp_tv *ret)
{
	if (f->map || i >= f->args->n_pos) {
		return kp_tpl_fail(f->I,
			"Replacement index %lld out of range for positional args tuple",
			(long long)i);
	}
	*ret = f->args->pos[i];
	return 0;
}

static int first_value(struct format *f, kp_str name, struct kp_tv *ret)
{
	struct kp_tv key = kp_tv_str(name, KP_ORIGIN_TRUSTED);
	if (all_digits(name)) {
		uint64_t i;
		if (f->next > 0) {
			return kp_tpl_fail(f->I,
				"cannot switch from manual field specification to automatic field numbering");
		}
		f->next = -1;
		return kp_str_u64(name, INT32_MAX, &i)
			       ? positional(f, (int64_t)i, ret)
			       : kp_tpl_fail(f->I, "Too many decimal digits in format string");
	}
	if (f->map) {
		int r = f->map->type == KP_TV_DICT ? kp_tv_dict_get(f->I, f->map, &key, ret) : 0;
		return r > 0   ? 0
		       : r < 0 ? -1
			       : kp_tpl_fail(f->I, "KeyError: '%" KP_FMT "'", KP_ARG(name));
	}
	for (uint32_t i = 0; i < f->args->n_kw; i++) {
		if (kp_str_eq(f->args->kw[i].name, name)) {
			*ret = f->args->kw[i].v;
			return 0;
		}
	}
	return kp_tpl_fail(f->I, "KeyError: '%" KP_FMT "'", KP_ARG(name));
}

/* name(.attr | [index])* */
static int field_value(struct format *f, kp_str name, struct kp_tv *ret)
{
	size_t at = 0;
	if (!name.n) {
		if (f->next < 0) {
			return kp_tpl_fail(f->I,
				"cannot switch from manual field specification to automatic field numbering");
		}
		return positional(f, f->next++, ret);
	}
	while (at < name.n && name.p[at] != '.' && name.p[at] != '[') {
		at++;
	}
	if (first_value(f, kp_str_sub(name, 0, at), ret)) {
		return -1;
	}
	while (at < name.n) {
		char open = name.p[at++];
		size_t start = at;
		while (at < name.n && (open == '[' ? name.p[at] != ']'
						   : name.p[at] != '.' && name.p[at] != '[')) {
			at++;
		}
		kp_str part = kp_str_sub(name, start, at);
		if (open == '[') {
			if (at == name.n || (at + 1 < name.n && name.p[at + 1] != '.' &&
						    name.p[at + 1] != '[')) {
				return kp_tpl_fail(f->I, "malformed field name in format string");
			}
			at++;
		}
		if (!part.n || (open != '[' && open != '.')) {
			return kp_tpl_fail(f->I, "Empty attribute in format string");
		}
		struct kp_tv obj = *ret, key = kp_tv_str(part, KP_ORIGIN_TRUSTED);
		int64_t i;
		if (open == '[' && all_digits(part)) {
			if (!kp_str_i64(part, 0, INT64_MAX, &i)) {
				return kp_tpl_fail(
					f->I, "Too many decimal digits in format string");
			}
			key = kp_tv_int(i, KP_ORIGIN_TRUSTED);
		}
		if (open == '.' ? kp_tpl_getattr(f->I, &obj, part, ret)
				: kp_tpl_getitem(f->I, &obj, &key, ret)) {
			return -1;
		}
	}
	return 0;
}

static int convert(struct kp_interp *I, char how, struct kp_tv *v)
{
	struct kp_tpl_buf *b;
	switch (how) {
	case 0:
		return 0;
	case 's':
		return kp_tpl_to_str(I, v, v);
	case 'a':
		return kp_tpl_ascii(I, v, v);
	case 'r':
		if (kp_tpl_buf_new(I, 0, &b) || kp_tpl_repr(I, b, v, 0)) {
			return -1;
		}
		*v = kp_tpl_buf_value(b);
		return 0;
	default:
		return kp_tpl_fail(I, "Unknown conversion specifier '%c'",
			how >= 0x20 && how < 0x7f ? how : '?');
	}
}

/* In a Markup: what is none itself is escaped once it is formatted. */
static int escaped_value(
	struct format *f, struct kp_tpl_buf *b, const struct kp_tv *v, const struct kp_tv *spec)
{
	struct kp_tpl_buf *own;
	struct kp_tv text;
	if (v->type == KP_TV_STR && (v->flags & KP_TVF_MARKUP)) {
		return spec->n ? kp_tpl_fail(f->I, "Format specifier given to a Markup")
			       : kp_tpl_buf_add_str(f->I, b, v);
	}
	if (kp_tpl_buf_new(f->I, 0, &own) || kp_tpl_format_value(f->I, own, v, kp_tv_bytes(spec))) {
		return -1;
	}
	text = kp_tpl_buf_value(own);
	return kp_tpl_escape(f->I, &text, &text) ? -1 : kp_tpl_buf_add_str(f->I, b, &text);
}

/* The inside of one {...}: bytes [from, to) of fmt. */
static int field(struct format *f, struct kp_tpl_buf *b, const struct kp_tv *fmt, uint32_t from,
	uint32_t to, int depth)
{
	kp_str s = kp_str_sub(kp_tv_bytes(fmt), from, to);
	size_t end = 0;
	for (bool bracket = false; end < s.n && (bracket || (s.p[end] != '!' && s.p[end] != ':'));
		end++) {
		bracket = s.p[end] == '[' || (bracket && s.p[end] != ']');
	}
	kp_str name = kp_str_sub(s, 0, end);
	char how = 0;
	if (kp_str_has(name, KP_S("{"))) {
		return kp_tpl_fail(f->I, "unexpected '{' in field name");
	}
	if (end < s.n && s.p[end] == '!') {
		if (end + 1 >= s.n || (end + 2 < s.n && s.p[end + 2] != ':')) {
			return kp_tpl_fail(f->I,
				end + 1 >= s.n
					? "end of string while looking for conversion specifier"
					: "expected ':' after conversion specifier");
		}
		how = s.p[end + 1];
		end += 2;
	}
	struct kp_tv v, spec = kp_tv_str(KP_S(""), KP_ORIGIN_TRUSTED);
	if (field_value(f, name, &v) || convert(f->I, how, &v)) {
		return -1;
	}
	if (end < s.n) { /* the specification may contain fields */
		struct kp_tv inner;
		struct kp_tpl_buf *sb;
		if (kp_tpl_str_sub(f->I, fmt, from + (uint32_t)end + 1, to, &inner) ||
			kp_tpl_buf_new(f->I, 0, &sb) || format_into(f, sb, &inner, depth + 1)) {
			return -1;
		}
		spec = kp_tpl_buf_value(sb);
		v.origin = kp_origin_mix(v.origin, spec.origin); /* the fill comes from there */
	}
	return f->escape ? escaped_value(f, b, &v, &spec)
			 : kp_tpl_format_value(f->I, b, &v, kp_tv_bytes(&spec));
}

static int format_into(struct format *f, struct kp_tpl_buf *b, const struct kp_tv *fmt, int depth)
{
	kp_str s = kp_tv_bytes(fmt);
	uint32_t done = 0;
	if (depth > 2) {
		return kp_tpl_fail(f->I, "Max string recursion exceeded");
	}
	for (uint32_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		if (c != '{' && c != '}') {
			continue;
		}
		if (kp_tpl_charge(f->I, 1) || kp_tpl_buf_add_sub(f->I, b, fmt, done, i)) {
			return -1;
		}
		if (i + 1 < s.n && s.p[i + 1] == c) { /* doubled: itself */
			if (kp_tpl_buf_add_sub(f->I, b, fmt, i, i + 1)) {
				return -1;
			}
			done = ++i + 1;
			continue;
		}
		if (c == '}') {
			return kp_tpl_fail(f->I, "Single '}' encountered in format string");
		}
		uint32_t end = i + 1;
		int open = 1;
		for (; end < s.n && open; end++) {
			open += (s.p[end] == '{') - (s.p[end] == '}');
		}
		if (open) {
			return kp_tpl_fail(f->I, i + 1 == s.n
							 ? "Single '{' encountered in format string"
							 : "expected '}' before end of string");
		}
		if (field(f, b, fmt, i + 1, end - 1, depth)) {
			return -1;
		}
		done = end;
		i = end - 1;
	}
	return kp_tpl_buf_add_sub(f->I, b, fmt, done, (uint32_t)s.n);
}

int kp_tpl_str_format(struct kp_interp *I, const struct kp_tv *fmt, const struct kp_tpl_args *args,
	const struct kp_tv *map, struct kp_tv *ret)
{
	struct format f = {
		.I = I, .args = args, .map = map, .escape = fmt->flags & KP_TVF_MARKUP
	};
	struct kp_tpl_buf *b;
	if (kp_tpl_charge(I, fmt->n / 16) || kp_tpl_buf_new(I, fmt->n, &b) ||
		format_into(&f, b, fmt, 1)) {
		return -1;
	}
	*ret = kp_tpl_buf_value(b);
	ret->flags |= fmt->flags & KP_TVF_MARKUP;
	return 0;
}

/* DESIGN: the table of str methods and their thin ends: arguments in, one call of str_text.c, str_split.c or format.c. Signatures are CPython
   3.11's; encode, maketrans and translate are there but cannot be called (bytes and tables have no use in a chat template). */
#include "template/format.h"
#include "template/methods.h"

#include "base/utf8.h"

#define METHOD(name)                                                                             \
	static int m_##name(struct kp_interp *I, const struct kp_tv *x, const struct kp_tv *arg, \
		struct kp_tv *ret)

METHOD(upper)
{
	(void)arg;
	return kp_tpl_str_map(I, x, KP_UCD_TO_UPPER, ret);
}

METHOD(lower)
{
	(void)arg;
	return kp_tpl_str_map(I, x, KP_UCD_TO_LOWER, ret);
}

METHOD(casefold)
{
	(void)arg;
	return kp_tpl_str_map(I, x, KP_UCD_FOLD, ret);
}

METHOD(capitalize)
{
	(void)arg;
	return kp_tpl_str_capitalize(I, x, ret);
}

METHOD(title)
{
	(void)arg;
	return kp_tpl_str_title(I, x, ret);
}

METHOD(swapcase)
{
	(void)arg;
	return kp_tpl_str_swapcase(I, x, ret);
}

METHOD(strip)
{
	return kp_tpl_str_strip(I, x, &arg[0], true, true, ret);
}

METHOD(lstrip)
{
	return kp_tpl_str_strip(I, x, &arg[0], true, false, ret);
}

METHOD(rstrip)
{
	return kp_tpl_str_strip(I, x, &arg[0], false, true, ret);
}

METHOD(split)
{
	int64_t max;
	return kp_tpl_arg_int(I, &arg[1], -1, &max)
		       ? -1
		       : kp_tpl_str_split(I, x, &arg[0], max < 0 ? -1 : max, ret);
}

METHOD(rsplit)
{
	int64_t max;
	return kp_tpl_arg_int(I, &arg[1], -1, &max)
		       ? -1
		       : kp_tpl_str_rsplit(I, x, &arg[0], max < 0 ? -1 : max, ret);
}

METHOD(splitlines)
{
	bool keep;
	return kp_tpl_arg_flag(I, &arg[0], &keep) ? -1 : kp_tpl_str_splitlines(I, x, keep, ret);
}

METHOD(partition)
{
	return kp_tpl_str_partition(I, x, &arg[0], false, ret);
}

METHOD(rpartition)
{
	return kp_tpl_str_partition(I, x, &arg[0], true, ret);
}

METHOD(replace)
{
	int64_t count;
	struct kp_tv old = arg[0], new = arg[1];
	if (kp_tpl_arg_str(I, &old) || kp_tpl_arg_str(I, &new) ||
		kp_tpl_arg_int(I, &arg[2], -1, &count)) {
		return -1;
	}
	if ((x->flags & KP_TVF_MARKUP) && kp_tpl_escape(I, &new, &new)) {
		return -1;
	}
	return kp_tpl_str_replace(I, x, &old, &new, count < 0 ? -1 : count, ret);
}

METHOD(join)
{
	return kp_tpl_str_join(I, x, &arg[0], false, ret);
}

/* start and end of find and its kin: None and absent are the whole string. */
static int bounds(
	struct kp_interp *I, const struct kp_tv *arg, int64_t *ret_start, int64_t *ret_end)
{
	struct kp_tv none = { 0 };
	return kp_tpl_arg_int(I, kp_tv_absent(&arg[0]) ? &none : &arg[0], 0, ret_start) ||
			       kp_tpl_arg_int(I, kp_tv_absent(&arg[1]) ? &none : &arg[1], INT64_MAX,
				       ret_end)
		       ? -1
		       : 0;
}

/* startswith and endswith take one string or a tuple of them. */
static int affix(struct kp_interp *I, const struct kp_tv *x, const struct kp_tv *arg, bool ends,
	struct kp_tv *ret)
{
	int64_t start, end;
	size_t from, to;
	if (bounds(I, arg + 1, &start, &end)) {
		return -1;
	}
	bool whole = kp_tv_absent(&arg[1]) && kp_tv_absent(&arg[2]);
	from = 0;
	to = x->n;
	bool possible = whole || kp_tpl_str_range(kp_tv_bytes(x), start, end, &from, &to);
	kp_str s = possible ? kp_str_sub(kp_tv_bytes(x), from, to) : KP_STR_NULL;
	uint32_t n = arg[0].type == KP_TV_TUPLE ? arg[0].n : 1;
	bool found = false;
	for (uint32_t i = 0; i < n; i++) {
		const struct kp_tv *a = arg[0].type == KP_TV_TUPLE ? &arg[0].items[i] : &arg[0];
		if (a->type != KP_TV_STR) {
			return kp_tpl_fail(I, "%s first arg must be str or a tuple of str, not %s",
				ends ? "endswith" : "startswith", kp_tv_type_name(a));
		}
		kp_tpl_spend_bytes(I, a->n);
		found |= possible &&
			 (ends ? kp_str_ends(s, kp_tv_bytes(a)) : kp_str_starts(s, kp_tv_bytes(a)));
	}
	*ret = kp_tv_bool(found);
	return 0;
}

METHOD(startswith)
{
	return affix(I, x, arg, false, ret);
}

METHOD(endswith)
{
	return affix(I, x, arg, true, ret);
}

static int find(struct kp_interp *I, const struct kp_tv *x, const struct kp_tv *arg, bool last,
	bool must, struct kp_tv *ret)
{
	int64_t start, end;
	kp_str s = kp_tv_bytes(x);
	if (kp_tpl_arg_str(I, &arg[0]) || bounds(I, arg + 1, &start, &end) ||
		kp_tpl_charge(I, last ? s.n / 64 * arg[0].n : s.n / 16)) {
		return -1;
	}
	int64_t at = kp_tpl_str_find(s, kp_tv_bytes(&arg[0]), start, end, last);
	if (at < 0 && must) {
		return kp_tpl_fail(I, "substring not found");
	}
	*ret = kp_tv_int(at, x->origin);
	return 0;
}

METHOD(find)
{
	return find(I, x, arg, false, false, ret);
}

METHOD(rfind)
{
	return find(I, x, arg, true, false, ret);
}

METHOD(index)
{
	return find(I, x, arg, false, true, ret);
}

METHOD(rindex)
{
	return find(I, x, arg, true, true, ret);
}

METHOD(count)
{
	int64_t start, end, n = 0;
	size_t from, to;
	kp_str s = kp_tv_bytes(x);
	if (kp_tpl_arg_str(I, &arg[0]) || bounds(I, arg + 1, &start, &end) ||
		kp_tpl_charge(I, s.n / 16)) {
		return -1;
	}
	kp_str needle = kp_tv_bytes(&arg[0]);
	if (kp_tpl_str_range(s, start, end, &from, &to)) {
		kp_str in = kp_str_sub(s, from, to);
		ptrdiff_t hit;
		while (needle.n && (hit = kp_str_find(in, needle)) >= 0) {
			n++;
			in = kp_str_skip(in, (size_t)hit + needle.n);
		}
		n = needle.n ? n : (int64_t)kp_tpl_cp_count(in) + 1;
	}
	*ret = kp_tv_int(n, x->origin);
	return 0;
}

static int justify(struct kp_interp *I, const struct kp_tv *x, const struct kp_tv *arg, char side,
	struct kp_tv *ret)
{
	int64_t width;
	return kp_tpl_arg_int(I, &arg[0], 0, &width)
		       ? -1
		       : kp_tpl_str_justify(I, x, width, &arg[1], side, ret);
}

METHOD(ljust)
{
	return justify(I, x, arg, 'l', ret);
}

METHOD(rjust)
{
	return justify(I, x, arg, 'r', ret);
}

METHOD(center)
{
	return justify(I, x, arg, 'c', ret);
}

METHOD(zfill)
{
	int64_t width;
	struct kp_tpl_buf *b;
	kp_str s = kp_tv_bytes(x);
	uint32_t sign = s.n && (s.p[0] == '-' || s.p[0] == '+');
	if (kp_tpl_arg_int(I, &arg[0], 0, &width)) {
		return -1;
	}
	kp_tpl_spend_bytes(I, s.n);
	int64_t pad = width - (int64_t)kp_tpl_cp_count(s);
	if (pad <= 0) {
		*ret = *x;
		return 0;
	}
	if (kp_tpl_charge(I, (uint64_t)pad / 16) || kp_tpl_buf_new(I, 0, &b) ||
		kp_tpl_buf_add_sub(I, b, x, 0, sign) ||
		kp_tpl_buf_fill(I, b, '0', (size_t)pad, x->origin) ||
		kp_tpl_buf_add_sub(I, b, x, sign, x->n)) {
		return -1;
	}
	*ret = kp_tpl_buf_value(b);
	ret->flags |= x->flags & KP_TVF_MARKUP;
	return 0;
}

METHOD(expandtabs)
{
	int64_t size;
	struct kp_tpl_buf *b;
	kp_str s = kp_tv_bytes(x);
	uint32_t done = 0;
	int64_t column = 0;
	if (kp_tpl_arg_int(I, &arg[0], 8, &size) || kp_tpl_charge(I, s.n / 8) ||
		kp_tpl_buf_new(I, s.n, &b)) {
		return -1;
	}
	for (uint32_t i = 0; i < s.n; i++) {
		if (s.p[i] == '\t') {
			int64_t pad = size > 0 ? size - column % size : 0;
			if (kp_tpl_buf_add_sub(I, b, x, done, i) ||
				kp_tpl_charge(I, (uint64_t)pad / 16) ||
				kp_tpl_buf_fill(I, b, ' ', (size_t)pad, x->origin)) {
				return -1;
			}
			column += pad;
			done = i + 1;
		} else if (s.p[i] == '\n' || s.p[i] == '\r') {
			column = 0;
		} else {
			column += ((unsigned char)s.p[i] & 0xc0) != 0x80;
		}
	}
	if (kp_tpl_buf_add_sub(I, b, x, done, x->n)) {
		return -1;
	}
	*ret = kp_tpl_buf_value(b);
	ret->flags |= x->flags & KP_TVF_MARKUP;
	return 0;
}

METHOD(removeprefix)
{
	if (kp_tpl_arg_str(I, &arg[0])) {
		return -1;
	}
	bool has = kp_str_starts(kp_tv_bytes(x), kp_tv_bytes(&arg[0]));
	return kp_tpl_str_sub(I, x, has ? arg[0].n : 0, x->n, ret);
}

METHOD(removesuffix)
{
	if (kp_tpl_arg_str(I, &arg[0])) {
		return -1;
	}
	bool has = kp_str_ends(kp_tv_bytes(x), kp_tv_bytes(&arg[0]));
	return kp_tpl_str_sub(I, x, 0, x->n - (has ? arg[0].n : 0), ret);
}

static int v_no_call(struct kp_interp *I, const struct kp_tv *x, const struct kp_tpl_args *args,
	struct kp_tv *ret)
{
	(void)x;
	(void)args;
	(void)ret;
	return kp_tpl_fail(I, "bytes and translation tables are not supported");
}

static int v_format(struct kp_interp *I, const struct kp_tv *x, const struct kp_tpl_args *args,
	struct kp_tv *ret)
{
	return kp_tpl_str_format(I, x, args, NULL, ret);
}

METHOD(format_map)
{
	return kp_tpl_str_format(I, x, &(struct kp_tpl_args){ 0 }, &arg[0], ret);
}

/* Every character has one of the flags, and there is one (unless `empty`). */
static int all_chars(const struct kp_tv *x, unsigned flags, bool empty, struct kp_tv *ret)
{
	kp_str s = kp_tv_bytes(x);
	uint32_t cp;
	bool ok = s.n || empty;
	for (size_t i = 0; ok && i < s.n;) {
		i += kp_utf8_decode(s.p + i, s.n - i, &cp);
		ok = kp_ucd_is(cp, flags);
	}
	*ret = kp_tv_bool(ok);
	return 0;
}

#define ALL_CHARS(name, flags, empty)                                                     \
	METHOD(name)                                                                      \
	{                                                                                 \
		(void)arg;                                                                \
		return kp_tpl_charge(I, x->n / 8) ? -1 : all_chars(x, flags, empty, ret); \
	}
ALL_CHARS(isalpha, KP_UCD_ALPHA, false)
ALL_CHARS(isalnum, KP_UCD_ALNUM, false)
ALL_CHARS(isdecimal, KP_UCD_DECIMAL, false)
ALL_CHARS(isdigit, KP_UCD_DIGIT, false)
ALL_CHARS(isnumeric, KP_UCD_NUMERIC, false)
ALL_CHARS(isspace, KP_UCD_SPACE, false)
ALL_CHARS(isprintable, KP_UCD_PRINTABLE, true)

METHOD(isascii)
{
	(void)arg;
	*ret = kp_tv_bool(kp_tpl_is_ascii(kp_tv_bytes(x)));
	return kp_tpl_charge(I, x->n / 64);
}

METHOD(islower)
{
	(void)arg;
	*ret = kp_tv_bool(kp_tpl_str_all_case(kp_tv_bytes(x), KP_UCD_LOWER, KP_UCD_UPPER));
	return kp_tpl_charge(I, x->n / 8);
}

METHOD(isupper)
{
	(void)arg;
	*ret = kp_tv_bool(kp_tpl_str_all_case(kp_tv_bytes(x), KP_UCD_UPPER, KP_UCD_LOWER));
	return kp_tpl_charge(I, x->n / 8);
}

METHOD(istitle)
{
	(void)arg;
	kp_str s = kp_tv_bytes(x);
	uint32_t cp;
	bool ok = true, cased = false, previous = false;
	for (size_t i = 0; ok && i < s.n;) {
		i += kp_utf8_decode(s.p + i, s.n - i, &cp);
		bool upper = kp_ucd_is(cp, KP_UCD_UPPER | KP_UCD_TITLE),
		     lower = kp_ucd_is(cp, KP_UCD_LOWER);
		ok = upper ? !previous : !lower || previous;
		previous = upper || lower;
		cased |= previous;
	}
	*ret = kp_tv_bool(ok && cased);
	return kp_tpl_charge(I, x->n / 8);
}

METHOD(isidentifier)
{
	(void)arg;
	kp_str s = kp_tv_bytes(x);
	uint32_t cp;
	bool ok = s.n > 0;
	for (size_t i = 0; ok && i < s.n;) {
		bool first = i == 0;
		i += kp_utf8_decode(s.p + i, s.n - i, &cp);
		ok = cp == '_' || kp_ucd_is(cp, first ? KP_UCD_XID_START : KP_UCD_XID_CONTINUE);
	}
	*ret = kp_tv_bool(ok);
	return kp_tpl_charge(I, x->n / 8);
}

#define M0(n)                           \
	{                               \
		.name = #n, .fn = m_##n \
	}
#define MP(n, required, ...)                                     \
	{                                                        \
		.name = #n, .fn = m_##n, .n_required = required, \
		.n_positional = KP_TPL_MAX_PARAMS, .params = {   \
			__VA_ARGS__                              \
		}                                                \
	}
const struct kp_tpl_def kp_tpl_str_methods[] = {
	MP(strip, 0, "chars"),
	MP(lstrip, 0, "chars"),
	MP(rstrip, 0, "chars"),
	MP(startswith, 1, "prefix", "start", "end"),
	MP(endswith, 1, "suffix", "start", "end"),
	{ .name = "split", .fn = m_split, .params = { "sep", "maxsplit" } },
	MP(replace, 2, "old", "new", "count"),
	{ .name = "format", .vfn = v_format },
	{ .name = "encode", .vfn = v_no_call },
	{ .name = "maketrans", .vfn = v_no_call },
	{ .name = "translate", .vfn = v_no_call },
	M0(lower),
	M0(upper),
	M0(title),
	MP(join, 1, "iterable"),
	MP(find, 1, "sub", "start", "end"),
	M0(capitalize),
	M0(casefold),
	MP(center, 1, "width", "fillchar"),
	MP(count, 1, "sub", "start", "end"),
	{ .name = "expandtabs", .fn = m_expandtabs, .params = { "tabsize" } },
	MP(format_map, 1, "mapping"),
	MP(index, 1, "sub", "start", "end"),
	M0(isalnum),
	M0(isalpha),
	M0(isascii),
	M0(isdecimal),
	M0(isdigit),
	M0(isidentifier),
	M0(islower),
	M0(isnumeric),
	M0(isprintable),
	M0(isspace),
	M0(istitle),
	M0(isupper),
	MP(ljust, 1, "width", "fillchar"),
	MP(partition, 1, "sep"),
	MP(removeprefix, 1, "prefix"),
	MP(removesuffix, 1, "suffix"),
	MP(rfind, 1, "sub", "start", "end"),
	MP(rindex, 1, "sub", "start", "end"),
	MP(rjust, 1, "width", "fillchar"),
	MP(rpartition, 1, "sep"),
	{ .name = "rsplit", .fn = m_rsplit, .params = { "sep", "maxsplit" } },
	{ .name = "splitlines", .fn = m_splitlines, .params = { "keepends" } },
	M0(swapcase),
	MP(zfill, 1, "width"),
};
const size_t kp_tpl_n_str_methods = KP_LEN(kp_tpl_str_methods);

/* DESIGN: Python's str methods that rewrite or search text. Positions that templates see count code points; inside, everything is bytes. Bytes
   keep the origin they had, padding and other additions get the worst origin of the string. Case follows Unicode as the reference's
   Python knows it (ucd.h), with the final sigma. */
#include "template/methods.h"

#include "base/utf8.h"

static bool ascii_map(kp_str s, enum kp_ucd_map how, char *out)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		if ((unsigned char)c >= 0x80) {
			return false;
		}
		out[i] = how == KP_UCD_TO_UPPER ? (c >= 'a' && c <= 'z' ? (char)(c - 32) : c)
						: kp_lower(c);
	}
	return true;
}

/* Is the capital sigma at byte i (of `len` bytes) the last letter of a word? */
static bool final_sigma(kp_str s, size_t i, size_t len)
{
	uint32_t cp = 0;
	size_t before = i, n;
	bool cased = false;
	while ((n = kp_utf8_decode_last(s.p, before, &cp))) {
		before -= n;
		if (!kp_ucd_is(cp, KP_UCD_IGNORABLE)) {
			cased = kp_ucd_is(cp, KP_UCD_CASED);
			break;
		}
	}
	for (size_t after = i + len; cased && after < s.n; after += n) {
		n = kp_utf8_decode(s.p + after, s.n - after, &cp);
		if (!kp_ucd_is(cp, KP_UCD_IGNORABLE)) {
			return !kp_ucd_is(cp, KP_UCD_CASED);
		}
	}
	return cased;
}

/* One character, converted, into b. */
static int add_mapped(struct kp_interp *I, struct kp_tpl_buf *b, kp_str s, size_t i, size_t len,
	uint32_t cp, enum kp_ucd_map how, uint8_t origin)
{
	uint32_t out[3];
	unsigned n = kp_ucd_convert(cp, how, out);
	if (cp == 0x3a3 && how == KP_UCD_TO_LOWER && final_sigma(s, i, len)) {
		out[0] = 0x3c2;
	}
	for (unsigned k = 0; k < n; k++) {
		if (kp_tpl_buf_cp(I, b, out[k], origin)) {
			return -1;
		}
	}
	return 0;
}

static struct kp_tv with_markup(struct kp_tv v, const struct kp_tv *s)
{
	v.flags |= s->flags & KP_TVF_MARKUP;
	return v;
}

int kp_tpl_str_map(
	struct kp_interp *I, const struct kp_tv *s, enum kp_ucd_map how, struct kp_tv *ret)
{
	kp_str t = kp_tv_bytes(s);
	struct kp_tpl_buf *b;
	uint32_t cursor = 0, cp;
	if (kp_tpl_charge(I, t.n / 16)) {
		return -1;
	}
	if (!(s->flags & KP_TVF_MIXED)) {
		char *p = kp_tpl_alloc(I, t.n, 1);
		if (!p) {
			return -1;
		}
		if (ascii_map(t, how, p)) {
			*ret = with_markup(kp_tv_str(kp_str_n(p, t.n), s->origin), s);
			return 0;
		}
	}
	if (kp_tpl_buf_new(I, t.n, &b)) {
		return -1;
	}
	for (size_t i = 0, len; i < t.n; i += len) {
		len = kp_utf8_decode(t.p + i, t.n - i, &cp);
		if (add_mapped(
			    I, b, t, i, len, cp, how, kp_tpl_str_origin(s, (uint32_t)i, &cursor))) {
			return -1;
		}
	}
	*ret = with_markup(kp_tpl_buf_value(b), s);
	return 0;
}

/* The first character in title case, the others in lower case; each word's first with words (str.title). */
static int capitalize(struct kp_interp *I, const struct kp_tv *s, bool words, struct kp_tv *ret)
{
	kp_str t = kp_tv_bytes(s);
	struct kp_tpl_buf *b;
	uint32_t cursor = 0, cp;
	bool first = true;
	if (kp_tpl_charge(I, t.n / 8) || kp_tpl_buf_new(I, t.n, &b)) {
		return -1;
	}
	for (size_t i = 0, len; i < t.n; i += len) {
		len = kp_utf8_decode(t.p + i, t.n - i, &cp);
		if (add_mapped(I, b, t, i, len, cp, first ? KP_UCD_TO_TITLE : KP_UCD_TO_LOWER,
			    kp_tpl_str_origin(s, (uint32_t)i, &cursor))) {
			return -1;
		}
		first = words && !kp_ucd_is(cp, KP_UCD_CASED);
	}
	*ret = with_markup(kp_tpl_buf_value(b), s);
	return 0;
}

int kp_tpl_str_capitalize(struct kp_interp *I, const struct kp_tv *s, struct kp_tv *ret)
{
	return capitalize(I, s, false, ret);
}

int kp_tpl_str_title(struct kp_interp *I, const struct kp_tv *s, struct kp_tv *ret)
{
	return capitalize(I, s, true, ret);
}

int kp_tpl_str_swapcase(struct kp_interp *I, const struct kp_tv *s, struct kp_tv *ret)
{
	kp_str t = kp_tv_bytes(s);
	struct kp_tpl_buf *b;
	uint32_t cursor = 0, cp;
	if (kp_tpl_charge(I, t.n / 8) || kp_tpl_buf_new(I, t.n, &b)) {
		return -1;
	}
	for (size_t i = 0, len; i < t.n; i += len) {
		len = kp_utf8_decode(t.p + i, t.n - i, &cp);
		uint8_t origin = kp_tpl_str_origin(s, (uint32_t)i, &cursor);
		int r = kp_ucd_is(cp, KP_UCD_UPPER)
				? add_mapped(I, b, t, i, len, cp, KP_UCD_TO_LOWER, origin)
			: kp_ucd_is(cp, KP_UCD_LOWER)
				? add_mapped(I, b, t, i, len, cp, KP_UCD_TO_UPPER, origin)
				: kp_tpl_buf_cp(I, b, cp, origin);
		if (r) {
			return -1;
		}
	}
	*ret = with_markup(kp_tpl_buf_value(b), s);
	return 0;
}

static bool strips(kp_str chars, bool space, const char *p, size_t len, uint32_t cp)
{
	return space ? kp_ucd_space(cp) : kp_str_find(chars, kp_str_n(p, len)) >= 0;
}

int kp_tpl_str_strip(struct kp_interp *I, const struct kp_tv *s, const struct kp_tv *chars,
	bool left, bool right, struct kp_tv *ret)
{
	bool space = chars->type == KP_TV_MISSING || chars->type == KP_TV_NONE;
	if (!space && kp_tpl_arg_str(I, chars)) {
		return kp_tpl_fail(I, "strip arg must be None or str");
	}
	kp_str t = kp_tv_bytes(s), set = space ? KP_STR_NULL : kp_tv_bytes(chars);
	size_t from = 0, to = t.n, len;
	uint32_t cp;
	while (left && from < to && (len = kp_utf8_decode(t.p + from, to - from, &cp)) &&
		strips(set, space, t.p + from, len, cp)) {
		from += len;
	}
	while (right && to > from && (len = kp_utf8_decode_last(t.p, to, &cp)) &&
		strips(set, space, t.p + to - len, len, cp)) {
		to -= len;
	}
	if (kp_tpl_charge(I, (t.n - (to - from)) * (set.n + 1) / 16)) {
		return -1;
	}
	return kp_tpl_str_sub(I, s, (uint32_t)from, (uint32_t)to, ret);
}

/* Between all characters, at both ends too: what replacing the empty string means. */
static int replace_empty(struct kp_interp *I, const struct kp_tv *s, const struct kp_tv *new,
	int64_t count, struct kp_tpl_buf *b)
{
	kp_str t = kp_tv_bytes(s);
	uint32_t i = 0;
	while (count != 0) {
		uint32_t next = i + 1;
		while (next < t.n && ((unsigned char)t.p[next] & 0xc0) == 0x80) {
			next++;
		}
		if (kp_tpl_charge(I, 1) || kp_tpl_buf_add_str(I, b, new) ||
			(i < t.n && kp_tpl_buf_add_sub(I, b, s, i, next))) {
			return -1;
		}
		count--;
		if (i >= t.n) {
			return 0;
		}
		i = next;
	}
	return kp_tpl_buf_add_sub(I, b, s, i, (uint32_t)t.n);
}

int kp_tpl_str_replace(struct kp_interp *I, const struct kp_tv *s, const struct kp_tv *old,
	const struct kp_tv *new, int64_t count, struct kp_tv *ret)
{
	kp_str t = kp_tv_bytes(s), needle = kp_tv_bytes(old);
	struct kp_tpl_buf *b;
	uint32_t at = 0;
	ptrdiff_t hit;
	if (kp_tpl_charge(I, t.n / 16)) {
		return -1;
	}
	if (needle.n && (count == 0 || kp_str_find(t, needle) < 0)) {
		*ret = *s;
		return 0;
	}
	if (kp_tpl_buf_new(I, t.n, &b)) {
		return -1;
	}
	if (!needle.n) {
		if (replace_empty(I, s, new, count, b)) {
			return -1;
		}
	} else {
		while (count != 0 && (hit = kp_str_find(kp_str_skip(t, at), needle)) >= 0) {
			if (kp_tpl_charge(I, 1) ||
				kp_tpl_buf_add_sub(I, b, s, at, at + (uint32_t)hit) ||
				kp_tpl_buf_add_str(I, b, new)) {
				return -1;
			}
			at += (uint32_t)hit + (uint32_t)needle.n;
			count--;
		}
		if (kp_tpl_buf_add_sub(I, b, s, at, (uint32_t)t.n)) {
			return -1;
		}
	}
	*ret = with_markup(kp_tpl_buf_value(b), s);
	return 0;
}

int kp_tpl_str_join(struct kp_interp *I, const struct kp_tv *sep, const struct kp_tv *items,
	bool any_type, struct kp_tv *ret)
{
	struct kp_tpl_iter it;
	struct kp_tpl_buf *b;
	struct kp_tv v;
	int r;
	bool first = true, markup = !any_type && (sep->flags & KP_TVF_MARKUP);
	if (kp_tpl_iter_init(I, items, &it) || kp_tpl_buf_new(I, 0, &b)) {
		return -1;
	}
	for (; (r = kp_tpl_iter_next(I, &it, &v)) > 0; first = false) {
		if (!any_type && !markup && v.type != KP_TV_STR) {
			return kp_tpl_fail(I, "sequence item: expected str instance, %s found",
				kp_tv_type_name(&v));
		}
		if ((!first && kp_tpl_buf_add_str(I, b, sep)) ||
			(markup && kp_tpl_escape(I, &v, &v)) || kp_tpl_print(I, b, &v)) {
			return -1;
		}
	}
	*ret = kp_tpl_buf_value(b);
	ret->flags |= markup ? KP_TVF_MARKUP : 0;
	return r;
}

int kp_tpl_str_justify(struct kp_interp *I, const struct kp_tv *s, int64_t width,
	const struct kp_tv *fill, char side, struct kp_tv *ret)
{
	kp_str with = KP_S(" ");
	struct kp_tpl_buf *b;
	if (fill->type != KP_TV_MISSING) {
		if (kp_tpl_arg_str(I, fill)) {
			return -1;
		}
		with = kp_tv_bytes(fill);
		if (kp_tpl_cp_count(with) != 1) {
			return kp_tpl_fail(
				I, "The fill character must be exactly one character long");
		}
	}
	kp_tpl_spend_bytes(I, s->n);
	int64_t n = (int64_t)kp_tpl_cp_count(kp_tv_bytes(s)), pad = width - n;
	if (pad <= 0) {
		*ret = *s;
		return 0;
	}
	/* As CPython: an odd space goes to the left when the width is odd too. */
	int64_t before = side == 'l' ? 0 : side == 'r' ? pad : pad / 2 + (pad & width & 1);
	if (pad > (int64_t)I->max_output || kp_tpl_charge(I, (uint64_t)pad / 16) ||
		kp_tpl_buf_new(I, 0, &b)) {
		return pad > (int64_t)I->max_output ? kp_tpl_fail(I, "width too large") : -1;
	}
	uint8_t origin =
		fill->type == KP_TV_STR ? kp_origin_mix(s->origin, fill->origin) : s->origin;
	for (int64_t i = 0; i <= pad; i++) {
		if ((i == before && kp_tpl_buf_add_str(I, b, s)) ||
			(i < pad && kp_tpl_buf_add(I, b, with, origin))) {
			return -1;
		}
	}
	*ret = with_markup(kp_tpl_buf_value(b), s);
	return 0;
}

/* At least one cased character and none of the other case. */
bool kp_tpl_str_all_case(kp_str s, unsigned want, unsigned other)
{
	bool found = false;
	uint32_t cp;
	for (size_t i = 0; i < s.n;) {
		i += kp_utf8_decode(s.p + i, s.n - i, &cp);
		if (kp_ucd_is(cp, other | KP_UCD_TITLE)) {
			return false;
		}
		found |= kp_ucd_is(cp, want);
	}
	return found;
}

/* DESIGN: Python's str methods that cut text: split, rsplit, splitlines, partition. Parts are slices of the string, with its origins; nothing is
   copied. A list of parts is bounded by the step budget. */
#include "template/methods.h"

#include "base/utf8.h"

struct parts {
	struct kp_interp *I;
	const struct kp_tv *s;
	struct kp_tv *items;
	uint32_t n, cap;
};

static int part(struct parts *p, size_t from, size_t to)
{
	if (kp_tpl_charge(p->I, 1)) {
		return -1;
	}
	if (p->n == p->cap) {
		uint32_t cap = p->cap ? p->cap * 2 : 4;
		struct kp_tv *grown = kp_arena_grow(
			p->I->a, p->items, p->cap * sizeof(*grown), cap * sizeof(*grown));
		if (!grown) {
			return kp_tpl_fail_memory(p->I);
		}
		p->items = grown;
		p->cap = cap;
	}
	return kp_tpl_str_sub(p->I, p->s, (uint32_t)from, (uint32_t)to, &p->items[p->n++]);
}

static int finish(struct parts *p, struct kp_tv *ret)
{
	*ret = (struct kp_tv){
		.type = KP_TV_LIST, .origin = p->s->origin, .n = p->n, .items = p->items
	};
	return 0;
}

static int finish_reversed(struct parts *p, struct kp_tv *ret)
{
	for (uint32_t i = 0; i < p->n / 2; i++) {
		struct kp_tv t = p->items[i];
		p->items[i] = p->items[p->n - 1 - i];
		p->items[p->n - 1 - i] = t;
	}
	return finish(p, ret);
}

/* End of the run of characters at `at` that are (or are not) white space. */
static size_t skip(kp_str s, size_t at, bool space)
{
	uint32_t cp;
	size_t n;
	while (at < s.n && (n = kp_utf8_decode(s.p + at, s.n - at, &cp)) &&
		kp_ucd_space(cp) == space) {
		at += n;
	}
	return at;
}

static size_t skip_back(kp_str s, size_t at, bool space)
{
	uint32_t cp;
	size_t n;
	while (at > 0 && (n = kp_utf8_decode_last(s.p, at, &cp)) && kp_ucd_space(cp) == space) {
		at -= n;
	}
	return at;
}

static int split_space(struct parts *p, int64_t max)
{
	kp_str s = kp_tv_bytes(p->s);
	for (size_t at = skip(s, 0, true); at < s.n; max--) {
		size_t end = max == 0 ? skip_back(s, s.n, true) : skip(s, at, false);
		if (part(p, at, max == 0 ? s.n : end)) {
			return -1;
		}
		at = max == 0 ? s.n : skip(s, end, true);
	}
	return 0;
}

static int rsplit_space(struct parts *p, int64_t max)
{
	kp_str s = kp_tv_bytes(p->s);
	for (size_t end = skip_back(s, s.n, true); end > 0; max--) {
		size_t from = max == 0 ? 0 : skip_back(s, end, false);
		if (part(p, from, end)) {
			return -1;
		}
		end = max == 0 ? 0 : skip_back(s, from, true);
	}
	return 0;
}

/* Offset of the last occurrence, or -1. */
static ptrdiff_t rfind(kp_str s, kp_str needle)
{
	for (size_t i = s.n - KP_MIN(needle.n, s.n) + 1; needle.n <= s.n && i-- > 0;) {
		if (memcmp(s.p + i, needle.p, needle.n) == 0) {
			return (ptrdiff_t)i;
		}
	}
	return -1;
}

static int separator(struct kp_interp *I, const struct kp_tv *sep, kp_str *ret)
{
	if (kp_tpl_arg_str(I, sep)) {
		return kp_tpl_fail(I, "must be str or None, not %s", kp_tv_type_name(sep));
	}
	*ret = kp_tv_bytes(sep);
	return ret->n ? 0 : kp_tpl_fail(I, "empty separator");
}

int kp_tpl_str_split(struct kp_interp *I, const struct kp_tv *s, const struct kp_tv *sep,
	int64_t max, struct kp_tv *ret)
{
	struct parts p = { .I = I, .s = s };
	kp_str t = kp_tv_bytes(s), by;
	if (kp_tpl_charge(I, t.n / 16)) {
		return -1;
	}
	if (kp_tv_absent(sep)) {
		return split_space(&p, max) ? -1 : finish(&p, ret);
	}
	if (separator(I, sep, &by)) {
		return -1;
	}
	size_t at = 0;
	for (; max != 0; max--) {
		ptrdiff_t hit = kp_str_find(kp_str_skip(t, at), by);
		if (hit < 0) {
			break;
		}
		if (part(&p, at, at + (size_t)hit)) {
			return -1;
		}
		at += (size_t)hit + by.n;
	}
	return part(&p, at, t.n) ? -1 : finish(&p, ret);
}

int kp_tpl_str_rsplit(struct kp_interp *I, const struct kp_tv *s, const struct kp_tv *sep,
	int64_t max, struct kp_tv *ret)
{
	struct parts p = { .I = I, .s = s };
	kp_str t = kp_tv_bytes(s), by;
	if (kp_tpl_charge(I, t.n / 4)) {
		return -1;
	}
	if (kp_tv_absent(sep)) {
		return rsplit_space(&p, max) ? -1 : finish_reversed(&p, ret);
	}
	if (separator(I, sep, &by) ||
		kp_tpl_charge(I, t.n / 64 * by.n)) { /* searching backwards is not linear */
		return -1;
	}
	size_t end = t.n;
	for (; max != 0; max--) {
		ptrdiff_t hit = rfind(kp_str_sub(t, 0, end), by);
		if (hit < 0) {
			break;
		}
		if (part(&p, (size_t)hit + by.n, end)) {
			return -1;
		}
		end = (size_t)hit;
	}
	return part(&p, 0, end) ? -1 : finish_reversed(&p, ret);
}

/* Length of the line end at p: \n \r \r\n \v \f \x1c-\x1e \x85 U+2028 U+2029. 0: none. */
static size_t line_end(kp_str s, size_t at, size_t *ret_len)
{
	uint32_t cp;
	*ret_len = kp_utf8_decode(s.p + at, s.n - at, &cp);
	if (cp == '\r' && at + 1 < s.n && s.p[at + 1] == '\n') {
		return 2;
	}
	bool end = (cp >= 0x0a && cp <= 0x0d) || (cp >= 0x1c && cp <= 0x1e) || cp == 0x85 ||
		   cp == 0x2028 || cp == 0x2029;
	return end ? *ret_len : 0;
}

int kp_tpl_str_splitlines(
	struct kp_interp *I, const struct kp_tv *s, bool keep_ends, struct kp_tv *ret)
{
	struct parts p = { .I = I, .s = s };
	kp_str t = kp_tv_bytes(s);
	size_t from = 0, len;
	if (kp_tpl_charge(I, t.n / 8)) {
		return -1;
	}
	for (size_t at = 0; at < t.n;) {
		size_t end = line_end(t, at, &len);
		if (end && part(&p, from, keep_ends ? at + end : at)) {
			return -1;
		}
		at += end ? end : len;
		from = end ? at : from;
	}
	return from < t.n && part(&p, from, t.n) ? -1 : finish(&p, ret);
}

int kp_tpl_str_partition(struct kp_interp *I, const struct kp_tv *s, const struct kp_tv *sep,
	bool last, struct kp_tv *ret)
{
	struct parts p = { .I = I, .s = s };
	kp_str t = kp_tv_bytes(s), by;
	if (kp_tpl_arg_str(I, sep)) {
		return kp_tpl_fail(I, "must be str, not %s", kp_tv_type_name(sep));
	}
	if (separator(I, sep, &by) || kp_tpl_charge(I, last ? t.n / 64 * by.n : t.n / 16)) {
		return -1;
	}
	ptrdiff_t hit = last ? rfind(t, by) : kp_str_find(t, by);
	int r;
	if (hit < 0) {
		r = last ? part(&p, 0, 0) || part(&p, 0, 0) || part(&p, 0, t.n)
			 : part(&p, 0, t.n) || part(&p, 0, 0) || part(&p, 0, 0);
	} else {
		size_t at = (size_t)hit;
		r = part(&p, 0, at) || part(&p, at, at + by.n) || part(&p, at + by.n, t.n);
		if (!r) {
			p.items[1] = *sep; /* Python gives back the argument */
			p.items[1].flags |= s->flags & KP_TVF_MARKUP;
		}
	}
	if (r) {
		return -1;
	}
	finish(&p, ret);
	ret->type = KP_TV_TUPLE;
	return 0;
}

/* Substring positions: s[start:end] as find, index, count and startswith take it. false: the slice is impossible (start > len). */
bool kp_tpl_str_range(kp_str s, int64_t start, int64_t end, size_t *ret_from, size_t *ret_to)
{
	int64_t n = (int64_t)kp_tpl_cp_count(s);
	start = start < 0 ? KP_MAX(start + n, (int64_t)0) : start;
	end = end < 0 ? KP_MAX(end + n, (int64_t)0) : KP_MIN(end, n);
	if (start > n || start > end) {
		return false;
	}
	*ret_from = kp_tpl_cp_offset(s, (size_t)start);
	*ret_to = kp_tpl_cp_offset(s, (size_t)end);
	return true;
}

/* Code point index of needle in s[start:end], -1: not there. */
int64_t kp_tpl_str_find(kp_str s, kp_str needle, int64_t start, int64_t end, bool last)
{
	size_t from, to;
	if (!kp_tpl_str_range(s, start, end, &from, &to)) {
		return -1;
	}
	kp_str in = kp_str_sub(s, from, to);
	ptrdiff_t hit = last ? rfind(in, needle) : kp_str_find(in, needle);
	return hit < 0 ? -1 : (int64_t)kp_tpl_cp_count(kp_str_sub(s, 0, from + (size_t)hit));
}

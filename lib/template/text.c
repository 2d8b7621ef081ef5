/* DESIGN: string bytes with their origins. A kp_tpl_buf is bytes and runs in the render's arena, growing by doubling; it is the output, a
   captured block, or a string under construction. A finished string is (buffer, n): the newest holder may append in place, since older
   ones see only their first n bytes; a run that grows past n is cut by the reader. Slices share bytes and copy runs, and a slice of
   one origin becomes a plain string. No buffer passes I->max_output, which also bounds every string (RESOURCE_EXHAUSTED). */
#include "template/interp.h"
#include "template/ucd.h"

#include "base/utf8.h"

int kp_tpl_buf_new(struct kp_interp *I, size_t cap, struct kp_tpl_buf **ret)
{
	struct kp_tpl_buf *b = kp_tpl_alloc(I, 1, sizeof(*b));
	if (!b) {
		return -1;
	}
	*b = (struct kp_tpl_buf){ 0 };
	*ret = b;
	return cap ? kp_tpl_buf_grow(I, b, cap) : 0;
}

int kp_tpl_buf_grow(struct kp_interp *I, struct kp_tpl_buf *b, size_t n)
{
	if (n > I->max_output - b->n) {
		return kp_err_set(I->err, KP_RESOURCE_EXHAUSTED,
			"render template: line %u: text of more than %zu bytes", I->line,
			I->max_output);
	}
	size_t cap = KP_MAX((size_t)b->n + n, (size_t)b->cap * 2);
	cap = KP_MIN(KP_MAX((cap + 63) & ~(size_t)63, (size_t)64), (size_t)UINT32_MAX);
	char *p = b->cap ? kp_arena_grow(I->a, b->p, b->cap, cap) : kp_arena_alloc(I->a, cap);
	if (!p) {
		return kp_tpl_fail_memory(I);
	}
	kp_tpl_spend_bytes(I, cap); /* it will be written */
	if (!b->cap && b->n) {
		memcpy(p, b->p, b->n);
	}
	b->p = p;
	b->cap = (uint32_t)cap;
	return 0;
}

int kp_tpl_buf_grow_runs(struct kp_interp *I, struct kp_tpl_buf *b, uint32_t n)
{
	uint32_t cap = b->cap_runs ? b->cap_runs * 2 : 4;
	cap = KP_MAX(cap, b->n_runs + n);
	struct kp_run *runs =
		kp_arena_grow(I->a, b->runs, b->cap_runs * sizeof(*runs), cap * sizeof(*runs));
	if (!runs) {
		return kp_tpl_fail_memory(I);
	}
	b->runs = runs;
	b->cap_runs = cap;
	return 0;
}

int kp_tpl_buf_run(struct kp_interp *I, struct kp_tpl_buf *b, uint32_t end, uint8_t origin)
{
	if (b->n_runs == b->cap_runs && kp_tpl_buf_grow_runs(I, b, 1)) {
		return -1;
	}
	b->runs[b->n_runs++] = (struct kp_run){ .end = end, .origin = origin };
	return 0;
}

/* Index of the run that covers byte i. */
static uint32_t run_at(const struct kp_tpl_buf *b, uint32_t i)
{
	uint32_t lo = 0, hi = b->n_runs - 1;
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		if (b->runs[mid].end <= i) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo;
}

int kp_tpl_buf_add_sub(struct kp_interp *I, struct kp_tpl_buf *b, const struct kp_tv *s,
	uint32_t from, uint32_t to)
{
	if (!(s->flags & KP_TVF_MIXED)) {
		return kp_tpl_buf_add(I, b, kp_str_n(s->s + from, to - from), s->origin);
	}
	const struct kp_tpl_buf *src = s->buf;
	for (uint32_t r = from < to ? run_at(src, from) : 0; from < to; r++) {
		uint32_t end = KP_MIN(src->runs[r].end, to);
		uint8_t origin = (uint8_t)src->runs[r].origin;
		if (kp_tpl_buf_add(I, b, kp_str_n(src->p + from, end - from), origin)) {
			return -1;
		}
		from = end;
	}
	return 0;
}

int kp_tpl_buf_fill(struct kp_interp *I, struct kp_tpl_buf *b, char c, size_t n, uint8_t origin)
{
	char block[64];
	memset(block, c, sizeof(block));
	while (n) {
		size_t k = KP_MIN(n, sizeof(block));
		if (kp_tpl_buf_add(I, b, kp_str_n(block, k), origin)) {
			return -1;
		}
		n -= k;
	}
	return 0;
}

int kp_tpl_buf_cp(struct kp_interp *I, struct kp_tpl_buf *b, uint32_t cp, uint8_t origin)
{
	char out[4];
	return kp_tpl_buf_add(I, b, kp_str_n(out, kp_utf8_encode(cp, out)), origin);
}

static uint8_t worst(const struct kp_tpl_buf *b)
{
	uint8_t o = KP_ORIGIN_TRUSTED;
	for (uint32_t i = 0; i < b->n_runs && o != KP_ORIGIN_CLIENT; i++) {
		o = kp_origin_mix(o, (uint8_t)b->runs[i].origin);
	}
	return o;
}

struct kp_tv kp_tpl_buf_value(struct kp_tpl_buf *b)
{
	if (!b->n) {
		return kp_tv_str(KP_S(""), KP_ORIGIN_TRUSTED);
	}
	return (struct kp_tv){
		.type = KP_TV_STR, .origin = worst(b), .flags = KP_TVF_MIXED, .n = b->n, .buf = b
	};
}

int kp_tpl_str_dup(struct kp_interp *I, kp_str s, uint8_t origin, struct kp_tv *ret)
{
	char *p = kp_tpl_alloc(I, s.n, 1);
	if (!p) {
		return -1;
	}
	memcpy(p, s.n ? s.p : "", s.n);
	*ret = kp_tv_str(kp_str_n(p, s.n), origin);
	return 0;
}

int kp_tpl_str_sub(
	struct kp_interp *I, const struct kp_tv *s, uint32_t from, uint32_t to, struct kp_tv *ret)
{
	uint8_t markup = s->flags & KP_TVF_MARKUP;
	if (from >= to) {
		*ret = kp_tv_str(KP_S(""), s->origin);
	} else if (!(s->flags & KP_TVF_MIXED)) {
		*ret = kp_tv_str(kp_str_n(s->s + from, to - from), s->origin);
	} else {
		const struct kp_tpl_buf *src = s->buf;
		uint32_t first = run_at(src, from), last = run_at(src, to - 1);
		if (first == last) {
			*ret = kp_tv_str(kp_str_n(src->p + from, to - from),
				(uint8_t)src->runs[first].origin);
		} else if (from == 0) {
			*ret = *s;
			ret->n = to;
		} else {
			struct kp_tpl_buf *b;
			if (kp_tpl_buf_new(I, 0, &b)) {
				return -1;
			}
			b->p = src->p + from;
			b->n = to - from;
			for (uint32_t r = first; r <= last; r++) {
				if (kp_tpl_buf_run(I, b, KP_MIN(src->runs[r].end, to) - from,
					    (uint8_t)src->runs[r].origin)) {
					return -1;
				}
			}
			*ret = kp_tpl_buf_value(b);
		}
	}
	ret->flags |= markup;
	return 0;
}

int kp_tpl_str_concat(
	struct kp_interp *I, const struct kp_tv *a, const struct kp_tv *b, struct kp_tv *ret)
{
	if (!a->n || !b->n) {
		*ret = a->n ? *a : *b;
		return 0;
	}
	struct kp_tv joined = *a;
	if (!(a->flags & KP_TVF_MIXED) || a->buf->n != a->n || !a->buf->cap) {
		struct kp_tpl_buf *buf;
		if (kp_tpl_buf_new(I, (size_t)a->n + b->n + 16, &buf) ||
			kp_tpl_buf_add_str(I, buf, a)) {
			return -1;
		}
		joined = (struct kp_tv){
			.type = KP_TV_STR, .origin = a->origin, .flags = KP_TVF_MIXED, .buf = buf
		};
	}
	/* b may be a part of the very buffer that grows; its bytes move with it. */
	struct kp_tv part = *b;
	if (part.flags & KP_TVF_MIXED) {
		if (joined.buf->cap - joined.buf->n < part.n &&
			kp_tpl_buf_grow(I, joined.buf, part.n)) {
			return -1;
		}
	}
	if (kp_tpl_buf_add_str(I, joined.buf, &part)) {
		return -1;
	}
	joined.n = joined.buf->n;
	joined.origin = kp_origin_mix(a->origin, b->origin);
	joined.flags &= (uint8_t)~KP_TVF_MARKUP;
	*ret = joined;
	return 0;
}

uint8_t kp_tpl_str_origin(const struct kp_tv *s, uint32_t i, uint32_t *cursor)
{
	if (!(s->flags & KP_TVF_MIXED)) {
		return s->origin;
	}
	while (s->buf->runs[*cursor].end <= i) {
		++*cursor;
	}
	return (uint8_t)s->buf->runs[*cursor].origin;
}

bool kp_tpl_is_ascii(kp_str s)
{
	uint64_t w, all = 0;
	size_t i = 0;
	for (; i + 8 <= s.n; i += 8) {
		memcpy(&w, s.p + i, 8);
		all |= w;
	}
	for (; i < s.n; i++) {
		all |= (unsigned char)s.p[i];
	}
	return !(all & UINT64_C(0x8080808080808080));
}

size_t kp_tpl_cp_count(kp_str s)
{
	size_t n = 0;
	for (size_t i = 0; i < s.n; i++) {
		n += ((unsigned char)s.p[i] & 0xc0) != 0x80;
	}
	return n;
}

uint32_t kp_tpl_cp_offset(kp_str s, size_t cp)
{
	size_t i = 0;
	while (i < s.n && (((unsigned char)s.p[i] & 0xc0) == 0x80 || cp-- > 0)) {
		i++;
	}
	return (uint32_t)i;
}

int kp_tpl_escape(struct kp_interp *I, const struct kp_tv *v, struct kp_tv *ret)
{
	static const struct {
		char c;
		const char *as;
	} map[] = { { '&', "&amp;" }, { '<', "&lt;" }, { '>', "&gt;" }, { '\'', "&#39;" },
		{ '"', "&#34;" } };
	struct kp_tv s;
	struct kp_tpl_buf *b;
	if (kp_tpl_to_str(I, v, &s)) {
		return -1;
	}
	if (v->type == KP_TV_STR && (v->flags & KP_TVF_MARKUP)) {
		*ret = *v;
		return 0;
	}
	kp_str t = kp_tv_bytes(&s);
	uint32_t done = 0, cursor = 0;
	if (kp_tpl_charge(I, s.n / 16) || kp_tpl_buf_new(I, s.n, &b)) {
		return -1;
	}
	for (uint32_t i = 0; i < t.n; i++) {
		for (size_t k = 0; k < KP_LEN(map); k++) {
			if (t.p[i] != map[k].c) {
				continue;
			}
			if (kp_tpl_buf_add_sub(I, b, &s, done, i) ||
				kp_tpl_buf_add(I, b, kp_str_c(map[k].as),
					kp_tpl_str_origin(&s, i, &cursor))) {
				return -1;
			}
			done = i + 1;
		}
	}
	if (kp_tpl_buf_add_sub(I, b, &s, done, s.n)) {
		return -1;
	}
	*ret = kp_tpl_buf_value(b);
	ret->flags |= KP_TVF_MARKUP;
	return 0;
}

/* DESIGN: each step reads one of two buffers and writes the other. A step that changes characters one by one walks over the text and writes what
   changes with kp_norm_put, the rest in stretches with kp_norm_copy; both keep the map, and the count of bytes that the reference aligns
   with the begin of the text (Metaspace's `first` asks for it). Time is linear but for the regular expressions (find.h). */
#include "token/norm.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "token/unicode.h"

#include <string.h>

enum { PAD = 16 };

void kp_norm_fini(struct kp_norm *n)
{
	for (size_t i = 0; i < n->n; i++) {
		kp_pattern_fini(&n->step[i].pattern);
	}
	n->n = 0;
}

void kp_norm_work_init(struct kp_norm_work *w)
{
	*w = (struct kp_norm_work){ .n_maps = 0 };
	kp_buf_init(&w->text[0], SIZE_MAX / 2);
	kp_buf_init(&w->text[1], SIZE_MAX / 2);
}

void kp_norm_work_fini(struct kp_norm_work *w)
{
	for (size_t i = 0; i < KP_NORM_MAX; i++) {
		kp_free(&w->map[i].p);
	}
	kp_buf_fini(&w->text[0]);
	kp_buf_fini(&w->text[1]);
	kp_nfc_work_fini(&w->nfc);
	kp_find_work_fini(&w->find);
	kp_norm_work_init(w);
}

static void note(struct kp_norm_out *o, struct kp_nfc_change c)
{
	struct kp_norm_map *m = o->map;
	if (!m || o->failed) {
		return;
	}
	if (m->n == m->cap) {
		size_t cap = KP_MAX(m->cap * 2, (size_t)64);
		void *p = kp_try_realloc(m->p, cap * sizeof(*m->p));
		if (!p) {
			o->failed = true;
			return;
		}
		m->p = p;
		m->cap = cap;
	}
	m->p[m->n++] = c;
}

void kp_norm_copy(struct kp_norm_out *o, size_t from, size_t to)
{
	if (from == to) {
		return;
	}
	if (o->first_open) {
		o->first += from < o->first_in ? KP_MIN(to, o->first_in) - from : 0;
		o->first_open = to <= o->first_in;
	}
	kp_buf_add(o->out, kp_str_sub(o->s, from, to));
}

void kp_norm_put(struct kp_norm_out *o, size_t from, size_t to, kp_str text, size_t align)
{
	note(o, (struct kp_nfc_change){
			.raw_at = from, .raw_n = to - from, .at = o->out->n, .n = text.n });
	if (o->first_open && text.n) {
		o->first += align < o->first_in ? text.n : 0;
		o->first_open = align < o->first_in;
	}
	kp_buf_add(o->out, text);
}

/* --- character by character ---------------------------------------------------------------------------------------- */

static void put_points(struct kp_norm_out *o, size_t at, size_t len, const uint32_t *cp, size_t n)
{
	char text[64];
	size_t bytes = 0;
	for (size_t i = 0; i < n && bytes + 4 <= sizeof(text); i++) {
		bytes += kp_utf8_encode(cp[i], text + bytes);
	}
	kp_norm_put(o, at, at + len, kp_str_n(text, bytes), at);
}

static bool is_nmt_control(uint32_t cp)
{
	return (cp >= 1 && cp <= 8) || cp == 0xb || (cp >= 0xe && cp <= 0x1f) || cp == 0x7f ||
	       cp == 0x8f || cp == 0x9f;
}

static bool is_nmt_space(uint32_t cp)
{
	return cp == 9 || cp == 10 || cp == 12 || cp == 13 || cp == 0x1680 ||
	       (cp >= 0x200b && cp <= 0x200f) || cp == 0x2028 || cp == 0x2029 || cp == 0x2581 ||
	       cp == 0xfeff || cp == 0xfffd;
}

/* What the character becomes: false, it stays; else n code points. */
static bool change_one(enum kp_norm_kind kind, uint32_t cp, uint32_t ret[4], size_t *ret_n)
{
	uint32_t more = kp_uc_more(cp);
	*ret_n = 0;
	switch ((unsigned)kind) {
	case KP_NORM_LOWER: {
		const struct kp_uc_decomposition *d = kp_uc_find(kp_uc_lower, kp_uc_lower_n, cp);
		*ret_n = d ? KP_MIN((size_t)d->n, (size_t)4) : 0;
		for (size_t i = 0; i < *ret_n; i++) {
			ret[i] = kp_uc_lower_pool[d->at + i];
		}
		return d;
	}
	case KP_NORM_ACCENTS:
		return more & KP_UC_ACCENT;
	case KP_NORM_NONSPACING:
		return more & KP_UC_NONSPACING;
	case KP_NORM_CHINESE:
		ret[0] = ret[2] = ' ';
		ret[1] = cp;
		*ret_n = 3;
		return more & KP_UC_CHINESE;
	default:
		break;
	}
	bool gone = kind == KP_NORM_CLEAN ? (more & KP_UC_CONTROL) != 0 : is_nmt_control(cp);
	bool space =
		kind == KP_NORM_CLEAN ? (kp_uc_class(cp) & KP_UC_SPACE) != 0 : is_nmt_space(cp);
	ret[0] = ' ';
	*ret_n = gone ? 0 : 1;
	return gone || (space && cp != ' ');
}

/* ASCII that the step leaves alone? */
static inline bool is_safe(enum kp_norm_kind kind, uint8_t c)
{
	if (kind == KP_NORM_LOWER) {
		return c < 0x80 && (c < 'A' || c > 'Z');
	}
	return c >= 0x20 && c < 0x7f;
}

static void each(enum kp_norm_kind kind, struct kp_norm_out *o)
{
	const uint8_t *p = (const uint8_t *)o->s.p;
	size_t done = 0, len, n;
	uint32_t points[4];
	for (size_t at = 0; at < o->s.n; at += len) {
		if (is_safe(kind, p[at])) {
			len = 1;
			continue;
		}
		if (change_one(kind, kp_uc_get(p + at, &len), points, &n)) {
			kp_norm_copy(o, done, at);
			put_points(o, at, len, points, n);
			done = at + len;
		}
	}
	kp_norm_copy(o, done, o->s.n);
}

static void bytes(struct kp_norm_out *o)
{
	KP_AUTO(buf) struct kp_buf one;
	kp_buf_init(&one, 16);
	size_t len;
	for (size_t at = 0; at < o->s.n; at += len) {
		(void)kp_uc_get((const uint8_t *)o->s.p + at, &len);
		kp_buf_reset(&one);
		kp_bytelevel_encode(kp_str_sub(o->s, at, at + len), &one);
		kp_norm_put(o, at, at + len, kp_buf_str(&one), at);
	}
}

/* --- whole text ----------------------------------------------------------------------------------------------------- */

static bool is_space_at(kp_str s, size_t at, size_t *ret_len)
{
	return kp_uc_class(kp_uc_get((const uint8_t *)s.p + at, ret_len)) & KP_UC_SPACE;
}

static void strip(const struct kp_norm_step *st, struct kp_norm_out *o)
{
	size_t from = 0, to = o->s.n, len;
	uint32_t cp;
	while (st->left && from < to && is_space_at(o->s, from, &len)) {
		from += len;
	}
	while (st->right && to > from && (len = kp_utf8_decode_last(o->s.p, to, &cp)) &&
		(kp_uc_class(cp) & KP_UC_SPACE)) {
		to -= len;
	}
	if (from) {
		kp_norm_put(o, 0, from, KP_S(""), 0);
	}
	kp_norm_copy(o, from, to);
	if (to < o->s.n) {
		kp_norm_put(o, to, o->s.n, KP_S(""), to);
	}
}

static void prepend(const struct kp_norm_step *st, struct kp_norm_out *o)
{
	if (o->s.n) {
		kp_norm_put(o, 0, 0, st->text, 0);
		kp_norm_copy(o, 0, o->s.n);
	}
}

static int replace(const struct kp_norm_step *st, struct kp_norm_out *o, struct kp_find_work *work,
	struct kp_err *err)
{
	struct kp_find f = kp_find_begin(&st->pattern, work, o->s);
	size_t done = 0, from, to;
	int r;
	if (o->s.n == 0) {
		return 0;
	}
	while ((r = kp_find_next(&f, &from, &to, err)) > 0) {
		kp_norm_copy(o, done, from);
		/* The reference aligns with the byte before the end of the match. */
		kp_norm_put(o, from, to, st->text, to ? to - 1 : 0);
		done = to;
		if (o->out->failed) {
			return 0;
		}
	}
	kp_norm_copy(o, done, o->s.n);
	return r;
}

static int form(const struct kp_norm_step *st, struct kp_norm_out *o, struct kp_nfc_work *w,
	struct kp_err *err)
{
	if (kp_normalize((enum kp_unicode_form)st->kind, st->young, o->s, w, o->out, err)) {
		return -1;
	}
	for (size_t i = 0; i < w->n_change; i++) {
		note(o, w->change[i]);
	}
	o->first = KP_MIN(o->first_in, o->s.n);
	if (w->n_change == 0 || w->change[0].raw_at >= o->first_in) {
		return 0;
	}
	/* As many characters of the result are aligned with the begin as it has by itself. */
	KP_AUTO(buf) struct kp_buf head;
	kp_buf_init(&head, SIZE_MAX / 2);
	if (kp_normalize((enum kp_unicode_form)st->kind, st->young,
		    kp_str_sub(o->s, 0, o->first_in), w, &head, err)) {
		return -1;
	}
	size_t n = kp_utf8_count(kp_buf_str(&head)), at = 0, len;
	for (; n && at < o->out->n; n--, at += len) {
		(void)kp_uc_get((const uint8_t *)o->out->p + at, &len);
	}
	o->first = at;
	return 0;
}

static int run_step(const struct kp_norm_step *st, struct kp_norm_out *o, struct kp_norm_work *w,
	struct kp_err *err)
{
	switch ((unsigned)st->kind) {
	case KP_NORM_NFC:
	case KP_NORM_NFD:
	case KP_NORM_NFKC:
	case KP_NORM_NFKD:
		return form(st, o, &w->nfc, err);
	case KP_NORM_STRIP:
		strip(st, o);
		return 0;
	case KP_NORM_PREPEND:
		prepend(st, o);
		return 0;
	case KP_NORM_REPLACE:
		return replace(st, o, &w->find, err);
	case KP_NORM_CHARSMAP:
		kp_norm_charsmap(&st->map, o);
		return 0;
	case KP_NORM_BYTES:
		bytes(o);
		return 0;
	case KP_NORM_SPM:
		kp_norm_spm(st, o, w);
		return 0;
	case KP_NORM_UGM:
		kp_norm_ugm(st, o);
		return 0;
	case KP_NORM_WPM:
		kp_norm_wpm(st, o);
		return 0;
	default:
		each(st->kind, o);
		return 0;
	}
}

int kp_norm_run(const struct kp_norm *n, kp_str s, bool maps, size_t max_bytes,
	struct kp_norm_work *w, kp_str *ret, struct kp_err *err)
{
	size_t len = 0;
	if (s.n) {
		(void)kp_uc_get((const uint8_t *)s.p, &len);
	}
	w->first = len;
	w->n_maps = n->n;
	for (size_t i = 0; i < n->n; i++) {
		struct kp_buf *out = &w->text[i & 1];
		kp_buf_reset(out);
		out->max = max_bytes;
		w->map[i].n = 0;
		struct kp_norm_out o = { .out = out,
			.map = maps ? &w->map[i] : NULL,
			.s = s,
			.first_in = w->first,
			.first_open = true,
			.effort = w->find.effort };
		if (run_step(&n->step[i], &o, w, err)) {
			return -1;
		}
		size_t used = out->n;
		if (!kp_effort_spend(o.effort, (s.n + used) / 16)) {
			return kp_effort_fail(o.effort, err);
		}
		if (out->failed || o.failed) {
			out->failed = true;
			return kp_buf_finish(out, "normalized text", err);
		}
		out->max = SIZE_MAX / 2;
		if (!kp_buf_reserve(out, PAD)) {
			return kp_buf_finish(out, "normalized text", err);
		}
		memset(out->p + used, 0, PAD);
		w->first = KP_MIN(o.first, used);
		s = kp_buf_str(out);
	}
	*ret = s;
	return 0;
}

/* DESIGN: text is copied up to the first place where the quick check of UAX #15 fails (a character that NFC may change or compose
   backwards, or a mark whose class is lower than the one before it); from the last border before it to the next
   one it is decomposed, reordered and composed. A border stands before a character that is a starter and never takes part in a
   change. Marks are put in order by counting, so a megabyte of marks takes linear time. Working memory: 5 bytes per code point of
   the longest such stretch. */
#include "token/nfc.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "token/unicode.h"

#include <string.h>

static bool in_ranges(const uint32_t (*table)[2], size_t n, uint32_t cp)
{
	size_t lo = 0, hi = n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (table[mid][1] < cp) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo < n && table[lo][0] <= cp;
}

bool kp_uc_is_word(uint32_t cp)
{
	return in_ranges(kp_uc_word, kp_uc_word_n, cp);
}

bool kp_uc_find_young(uint32_t cp)
{
	return in_ranges(kp_uc_young_any, kp_uc_young_any_n, cp);
}

void kp_nfc_work_fini(struct kp_nfc_work *w)
{
	kp_free(&w->cp);
	kp_free(&w->ccc);
	kp_free(&w->change);
	*w = (struct kp_nfc_work){ 0 };
}

/* Skips characters of kind 0. Most are told by their first byte (below 0xCC: up to U+02FF) or by a table over 64 neighbours. */
static size_t skip_plain(const uint8_t *p, size_t at, size_t n)
{
	while (at < n) {
		uint8_t c = p[at];
		size_t block, len;
		if (c < 0x80) {
			uint64_t x;
			at++;
			while (n - at >= 8 &&
				(memcpy(&x, p + at, 8), !(x & UINT64_C(0x8080808080808080)))) {
				at += 8;
			}
			continue;
		}
		if (c < 0xe0) {
			block = c & 31;
			len = 2;
		} else if (c < 0xf0) {
			block = (size_t)(c & 15) << 6 | (p[at + 1] & 63);
			len = 3;
		} else if (kp_uc_nfc(kp_uc_get(p + at, &len)) == 0) {
			at += len;
			continue;
		} else {
			break;
		}
		if (!kp_uc_nfc_plain[block] && kp_uc_nfc(kp_uc_get(p + at, &len))) {
			break;
		}
		at += len;
	}
	return at;
}

/* First place at or after `at` where the check fails; n when it does not. *ret_border: the last border before that place.
   `at` must be a border. */
static size_t find_change(const uint8_t *p, size_t at, size_t n, size_t *ret_border)
{
	size_t border = at;
	unsigned last = 0;
	for (;;) {
		size_t from = at;
		at = skip_plain(p, at, n);
		if (at != from) {
			last = 0;
			border = at - 1;
			while ((p[border] & 0xc0) == 0x80) {
				border--;
			}
		}
		if (at >= n) {
			*ret_border = n;
			return n;
		}
		size_t len;
		uint8_t kind = kp_uc_nfc(kp_uc_get(p + at, &len));
		unsigned ccc = kp_uc_nfc_ccc[kind];
		if (kp_uc_nfc_check[kind] || (ccc && ccc < last)) {
			*ret_border = border;
			return at;
		}
		last = ccc;
		at += len;
	}
}

bool kp_nfc_quick(kp_str s)
{
	size_t border;
	return find_change((const uint8_t *)s.p, 0, s.n, &border) == s.n;
}

/* The next border after `at`, which is not one. */
static size_t next_border(const uint8_t *p, size_t at, size_t n)
{
	while (at < n) {
		size_t len;
		if (kp_uc_nfc(kp_uc_get(p + at, &len)) == 0) {
			break;
		}
		at += len;
	}
	return at;
}

/* --- one stretch ------------------------------------------------------------------------------------------------- */

enum {
	S_BASE = 0xac00,
	L_BASE = 0x1100,
	V_BASE = 0x1161,
	T_BASE = 0x11a7,
	L_N = 19,
	V_N = 21,
	T_N = 28
};

const struct kp_uc_decomposition *kp_uc_find(
	const struct kp_uc_decomposition *table, size_t n, uint32_t cp)
{
	size_t lo = 0, hi = n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (table[mid].cp < cp) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo < n && table[lo].cp == cp ? &table[lo] : NULL;
}

static uint32_t find_pair(const struct kp_uc_composition *table, size_t n, uint32_t a, uint32_t b)
{
	size_t lo = 0, hi = n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		const struct kp_uc_composition *c = &table[mid];
		if (c->first < a || (c->first == a && c->second < b)) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo < n && table[lo].first == a && table[lo].second == b ? table[lo].cp : 0;
}

/* 0: the two do not compose. */
static uint32_t compose(uint32_t a, uint32_t b, bool young)
{
	if (a >= L_BASE && a < L_BASE + L_N && b >= V_BASE && b < V_BASE + V_N) {
		return S_BASE + ((a - L_BASE) * V_N + (b - V_BASE)) * T_N;
	}
	if (a >= S_BASE && a < S_BASE + L_N * V_N * T_N && (a - S_BASE) % T_N == 0 && b > T_BASE &&
		b < T_BASE + T_N) {
		return a + (b - T_BASE);
	}
	uint32_t c = young ? find_pair(kp_uc_young_compose, kp_uc_young_compose_n, a, b) : 0;
	return c ? c : find_pair(kp_uc_compose, kp_uc_compose_n, a, b);
}

static uint8_t class_of(uint32_t cp, bool young)
{
	size_t lo = 0, hi = young ? kp_uc_young_ccc_n : 0;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		const struct kp_uc_young *y = &kp_uc_young_ccc[mid];
		if (y->from <= cp && cp <= y->to) {
			return (uint8_t)y->value;
		}
		if (y->to < cp) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return kp_uc_nfc_ccc[kp_uc_nfc(cp)];
}

static bool is_compatible(enum kp_unicode_form form)
{
	return form == KP_NFKC || form == KP_NFKD;
}

static bool is_composed(enum kp_unicode_form form)
{
	return form == KP_NFC || form == KP_NFKC;
}

/* What tokenizers 1.0 decomposes and the older tables do not; 0: nothing. */
static size_t decompose_young(enum kp_unicode_form form, uint32_t cp, uint32_t *out)
{
	const struct kp_uc_decomposition *d =
		kp_uc_find(kp_uc_young_decompose, kp_uc_young_decompose_n, cp);
	const uint32_t *pool = kp_uc_young_decompose_pool;
	if (!d && is_compatible(form)) {
		d = kp_uc_find(kp_uc_young_compat, kp_uc_young_compat_n, cp);
		pool = kp_uc_young_compat_pool;
	}
	if (!d) {
		return 0;
	}
	memcpy(out, pool + d->at, d->n * sizeof(*out));
	return d->n;
}

static size_t decompose_one(enum kp_unicode_form form, bool young, uint32_t cp, uint32_t *out)
{
	size_t n = young ? decompose_young(form, cp, out) : 0;
	if (n) {
		return n;
	}
	if (is_compatible(form)) {
		const struct kp_uc_decomposition *k = kp_uc_find(kp_uc_compat, kp_uc_compat_n, cp);
		if (k) {
			memcpy(out, kp_uc_compat_pool + k->at, k->n * sizeof(*out));
			return k->n;
		}
	}
	if (cp >= S_BASE && cp < S_BASE + L_N * V_N * T_N) {
		uint32_t s = cp - S_BASE, t = s % T_N;
		out[0] = L_BASE + s / (V_N * T_N);
		out[1] = V_BASE + s % (V_N * T_N) / T_N;
		out[2] = T_BASE + t;
		return t ? 3 : 2;
	}
	const struct kp_uc_decomposition *d = kp_uc_find(kp_uc_decompose, kp_uc_decompose_n, cp);
	if (!d) {
		out[0] = cp;
		return 1;
	}
	memcpy(out, kp_uc_decompose_pool + d->at, d->n * sizeof(*out));
	return d->n;
}

/* Stable order by class of the marks [from, to); the upper half of the arrays is scratch. */
static void order_marks(struct kp_nfc_work *w, size_t from, size_t to, size_t half)
{
	if (to - from < 2) {
		return;
	}
	if (to - from <= 16) {
		for (size_t i = from + 1; i < to; i++) {
			uint32_t cp = w->cp[i];
			uint8_t ccc = w->ccc[i];
			size_t k = i;
			for (; k > from && w->ccc[k - 1] > ccc; k--) {
				w->cp[k] = w->cp[k - 1];
				w->ccc[k] = w->ccc[k - 1];
			}
			w->cp[k] = cp;
			w->ccc[k] = ccc;
		}
		return;
	}
	size_t start[257] = { 0 };
	for (size_t i = from; i < to; i++) {
		start[w->ccc[i] + 1]++;
	}
	for (size_t c = 0; c < 256; c++) {
		start[c + 1] += start[c];
	}
	for (size_t i = from; i < to; i++) {
		size_t k = half + start[w->ccc[i]]++;
		w->cp[k] = w->cp[i];
		w->ccc[k] = w->ccc[i];
	}
	memcpy(w->cp + from, w->cp + half, (to - from) * sizeof(*w->cp));
	memcpy(w->ccc + from, w->ccc + half, to - from);
}

static size_t compose_all(struct kp_nfc_work *w, size_t n, bool young)
{
	size_t out = 0, starter = SIZE_MAX;
	unsigned last = 0; /* class of the last mark kept behind the starter; 0: none */
	for (size_t i = 0; i < n; i++) {
		uint32_t cp = w->cp[i];
		unsigned ccc = w->ccc[i];
		bool reachable = starter != SIZE_MAX && (last == 0 || last < ccc);
		uint32_t c = reachable ? compose(w->cp[starter], cp, young) : 0;
		if (c) {
			w->cp[starter] = c;
			continue;
		}
		if (ccc == 0) {
			starter = out;
			last = 0;
		} else if (starter != SIZE_MAX) {
			last = ccc;
		}
		w->cp[out++] = cp;
	}
	return out;
}

static int reserve(struct kp_nfc_work *w, size_t points, struct kp_err *err)
{
	if (points <= w->cap) {
		return 0;
	}
	size_t bytes;
	if (!kp_size_mul(points, sizeof(*w->cp), &bytes)) {
		return kp_err_set(
			err, KP_RESOURCE_EXHAUSTED, "normalize `%zu` code points", points);
	}
	kp_free(&w->cp);
	kp_free(&w->ccc);
	w->cap = 0;
	w->cp = kp_try_malloc(bytes);
	w->ccc = kp_try_malloc(points);
	if (!w->cp || !w->ccc) {
		return kp_err_set(
			err, KP_RESOURCE_EXHAUSTED, "normalize `%zu` code points", points);
	}
	w->cap = points;
	return 0;
}

static int stretch(enum kp_unicode_form form, bool young, kp_str s, struct kp_nfc_work *w,
	struct kp_buf *out, struct kp_err *err)
{
	/* A code point decomposes into at most 2 per byte (U+0390 and the like: 3 from 2 bytes; Hangul: 3 from 3); with compatibility
	   6 (U+FDFA: 18 from 3). */
	size_t half = (is_compatible(form) ? 6 : 2) * s.n + 4;
	if (reserve(w, 2 * half, err)) {
		return -1;
	}
	size_t n = 0, marks = 0; /* marks: where the current run of marks began */
	for (size_t at = 0, len; at < s.n; at += len) {
		size_t k = decompose_one(
			form, young, kp_uc_get((const uint8_t *)s.p + at, &len), w->cp + n);
		for (size_t i = 0; i < k; i++, n++) {
			w->ccc[n] = class_of(w->cp[n], young);
			if (w->ccc[n] == 0) {
				order_marks(w, marks, n, half);
				marks = n + 1;
			}
		}
	}
	order_marks(w, marks, n, half);
	n = is_composed(form) ? compose_all(w, n, young) : n;
	for (size_t i = 0; i < n; i++) {
		kp_utf8_add(out, w->cp[i]);
	}
	return 0;
}

static int note_change(struct kp_nfc_work *w, struct kp_nfc_change c, struct kp_err *err)
{
	if (w->n_change == w->cap_change) {
		size_t cap = KP_MAX(w->cap_change * 2, (size_t)64);
		void *p = kp_try_realloc(w->change, cap * sizeof(c));
		if (!p) {
			return kp_err_set(
				err, KP_RESOURCE_EXHAUSTED, "normalize `%zu` stretches", cap);
		}
		w->change = p;
		w->cap_change = cap;
	}
	w->change[w->n_change++] = c;
	return 0;
}

int kp_nfc(kp_str s, struct kp_nfc_work *w, struct kp_buf *out, struct kp_err *err)
{
	const uint8_t *p = (const uint8_t *)s.p;
	w->n_change = 0;
	for (size_t at = 0; at < s.n;) {
		size_t border;
		size_t found = find_change(p, at, s.n, &border);
		kp_buf_add(out, kp_str_sub(s, at, found == s.n ? s.n : border));
		if (found == s.n) {
			break;
		}
		size_t end = next_border(p, found, s.n);
		struct kp_nfc_change c = { .raw_at = border, .raw_n = end - border, .at = out->n };
		if (stretch(KP_NFC, false, kp_str_sub(s, border, end), w, out, err)) {
			return -1;
		}
		c.n = out->n - c.at;
		if (note_change(w, c, err)) {
			return -1;
		}
		at = end;
	}
	return kp_buf_finish(out, "normalized text", err);
}

/* Neither changed by the form, nor composed backwards, nor moved. */
static inline bool is_plain(enum kp_unicode_form form, bool young, uint32_t cp)
{
	if (cp < 0x80 || young) { /* young text is rare: all that is not ASCII goes the long way */
		return cp < 0x80;
	}
	uint8_t kind = kp_uc_nfc(cp);
	uint32_t more = kp_uc_more(cp);
	if (is_compatible(form) && (more & KP_UC_COMPATIBLE)) {
		return false;
	}
	if (is_composed(form)) {
		return kind == 0;
	}
	bool hangul = cp >= S_BASE && cp < S_BASE + L_N * V_N * T_N;
	return kp_uc_nfc_ccc[kind] == 0 && !(more & KP_UC_CANONICAL) && !hangul;
}

static bool is_young(kp_str s)
{
	size_t len;
	for (size_t at = 0; at < s.n; at += len) {
		len = 1;
		if ((uint8_t)s.p[at] >= 0x80 &&
			kp_uc_is_young(kp_uc_get((const uint8_t *)s.p + at, &len))) {
			return true;
		}
	}
	return false;
}

int kp_normalize(enum kp_unicode_form form, bool young, kp_str s, struct kp_nfc_work *w,
	struct kp_buf *out, struct kp_err *err)
{
	young = young && is_young(s);
	if (form == KP_NFC && !young) {
		return kp_nfc(s, w, out, err);
	}
	const uint8_t *p = (const uint8_t *)s.p;
	w->n_change = 0;
	size_t done = 0, at = 0, len, last = 0; /* last: where the last plain character begins */
	while (at < s.n) {
		if (is_plain(form, young, kp_uc_get(p + at, &len))) {
			last = at;
			at += len;
			continue;
		}
		size_t from = last >= done ? last : at; /* what follows may compose with it */
		while (at < s.n && !is_plain(form, young, kp_uc_get(p + at, &len))) {
			at += len;
		}
		kp_buf_add(out, kp_str_sub(s, done, from));
		struct kp_nfc_change c = { .raw_at = from, .raw_n = at - from, .at = out->n };
		if (stretch(form, young, kp_str_sub(s, from, at), w, out, err)) {
			return -1;
		}
		c.n = out->n - c.at;
		if (!out->failed && note_change(w, c, err)) {
			return -1;
		}
		done = last = at;
	}
	kp_buf_add(out, kp_str_skip(s, done));
	return kp_buf_finish(out, "normalized text", err);
}

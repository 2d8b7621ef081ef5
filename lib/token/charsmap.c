/* DESIGN: Hugging Face's reading of SentencePiece's precompiled map (crate spm_precompiled): text is cut into grapheme clusters; one shorter than six bytes is
   looked up as a whole, any other, and one that is not there, character by character. A look-up takes the shortest entry that begins the
   cluster, and replaces all of it. The double array comes from a file, so every unit's place is checked. Clusters are those of Unicode 17
   (crate unicode-segmentation 1.13.3). */
#include "token/added.h"
#include "token/norm.h"
#include "base/utf8.h"
#include "token/unicode.h"

#include <string.h>

enum { CLUSTER_MAX = 6 };
#define MARK "\xe2\x96\x81" /* U+2581 */

int kp_charsmap_init(struct kp_charsmap *m, kp_str blob, struct kp_err *err)
{
	uint32_t bytes = 0;
	if (blob.n >= 4) {
		for (unsigned i = 0; i < 4; i++) {
			bytes |= (uint32_t)(uint8_t)blob.p[i] << 8 * i;
		}
	}
	size_t units = bytes / 4;
	if (blob.n < 4 || units > (blob.n - 4) / 4 || units == 0) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"load precompiled map: `%zu` bytes, which are no map", blob.n);
	}
	m->blob = blob;
	m->trie = (const uint8_t *)blob.p + 4;
	m->n = units;
	m->texts = kp_str_skip(blob, 4 + units * 4);
	if (!kp_utf8_ok(m->texts)) {
		return kp_err_set(
			err, KP_INVALID_ARGUMENT, "load precompiled map: its texts are no UTF-8");
	}
	return 0;
}

static uint32_t unit(const struct kp_charsmap *m, size_t at)
{
	const uint8_t *p = m->trie + 4 * at;
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static size_t offset(uint32_t u)
{
	return (size_t)(u >> 10) << ((u & (1U << 9)) >> 6);
}

/* What an entry that begins `key` becomes, the shortest one or (longest) the longest; *ret_n: its length. false: none. */
static bool look_up(const struct kp_charsmap *m, kp_str key, bool longest, struct kp_effort *effort,
	kp_str *ret, size_t *ret_n)
{
	size_t node = m->n ? offset(unit(m, 0)) : 0;
	bool found = false;
	for (size_t i = 0; i < key.n && key.p[i] && kp_effort_spend(effort, 1); i++) {
		uint8_t c = (uint8_t)key.p[i];
		node ^= c;
		uint32_t u = node < m->n ? unit(m, node) : 0;
		if (node >= m->n || (u & (UINT32_C(1) << 31 | 0xff)) != c) {
			return found;
		}
		node ^= offset(u);
		if (!(u >> 8 & 1)) {
			continue;
		}
		size_t at = node < m->n ? unit(m, node) & 0x7fffffff : SIZE_MAX;
		if (at > m->texts.n) {
			return found;
		}
		kp_str rest = kp_str_skip(m->texts, at);
		ptrdiff_t end = kp_str_find_char(rest, 0);
		kp_str text = end < 0 ? rest : kp_str_sub(rest, 0, (size_t)end);
		(void)kp_effort_spend(effort, (text.n + i) / 16);
		/* An entry that begins or ends inside a character is none. */
		if (kp_utf8_ok(text) && kp_utf8_ok(kp_str_sub(key, 0, i + 1))) {
			*ret = text;
			*ret_n = i + 1;
			found = true;
		}
		if (!longest) {
			return found;
		}
	}
	return found;
}

bool kp_charsmap_longest(
	const struct kp_charsmap *m, kp_str s, struct kp_effort *effort, kp_str *ret, size_t *ret_n)
{
	return m->n && look_up(m, s, true, effort, ret, ret_n);
}

/* --- clusters ------------------------------------------------------------------------------------------------------- */

struct state { /* of what was read of a cluster */
	enum kp_uc_grapheme last;
	bool pictographic; /* a pictograph and marks, then perhaps a joiner */
	bool joined;       /* ... and the joiner was just there */
	bool linker;       /* a consonant, then marks with a linker among them */
	bool consonant;
	bool odd_regional;
};

static bool is_l_follower(enum kp_uc_grapheme g)
{
	return g == KP_GC_L || g == KP_GC_V || g == KP_GC_LV || g == KP_GC_LVT;
}

static bool breaks(const struct state *s, enum kp_uc_grapheme g)
{
	enum kp_uc_grapheme b = s->last;
	if (b == KP_GC_CR && g == KP_GC_LF) {
		return false;
	}
	if (b == KP_GC_CONTROL || b == KP_GC_CR || b == KP_GC_LF || g == KP_GC_CONTROL ||
		g == KP_GC_CR || g == KP_GC_LF) {
		return true;
	}
	if (b == KP_GC_L && is_l_follower(g)) {
		return false;
	}
	if ((b == KP_GC_LV || b == KP_GC_V) && (g == KP_GC_V || g == KP_GC_T)) {
		return false;
	}
	if ((b == KP_GC_LVT || b == KP_GC_T) && g == KP_GC_T) {
		return false;
	}
	if (g == KP_GC_EXTEND || g == KP_GC_ZWJ || g == KP_GC_SPACING || b == KP_GC_PREPEND) {
		return false;
	}
	if (g == KP_GC_CONSONANT) {
		return !(s->consonant && s->linker);
	}
	if (b == KP_GC_ZWJ && g == KP_GC_PICTOGRAPHIC) {
		return !s->joined;
	}
	if (b == KP_GC_REGIONAL && g == KP_GC_REGIONAL) {
		return !s->odd_regional;
	}
	return true;
}

static void advance(struct state *s, enum kp_uc_grapheme g, uint32_t more)
{
	s->joined = g == KP_GC_ZWJ && s->pictographic;
	s->pictographic = g == KP_GC_PICTOGRAPHIC || (g == KP_GC_EXTEND && s->pictographic);
	if (g == KP_GC_CONSONANT) {
		s->consonant = true;
		s->linker = false;
	} else if (more & KP_UC_INCB_LINKER) {
		s->linker = true;
	} else if (!(more & KP_UC_INCB_EXTEND)) {
		s->consonant = s->linker = false;
	}
	s->odd_regional = g == KP_GC_REGIONAL && !(s->last == KP_GC_REGIONAL && s->odd_regional);
	s->last = g;
}

/* End of the cluster that begins at `at`. */
static size_t cluster_end(kp_str s, size_t at)
{
	const uint8_t *p = (const uint8_t *)s.p;
	struct state st = { .last = KP_GC_ANY };
	for (size_t i = at, len; i < s.n; i += len) {
		uint32_t more = kp_uc_more(kp_uc_get(p + i, &len));
		enum kp_uc_grapheme g = kp_uc_grapheme(more);
		if (i > at && breaks(&st, g)) {
			return i;
		}
		advance(&st, g, more);
	}
	return s.n;
}

/* The reference forgets how many characters vanished at the begin: what comes first is aligned with the begin nevertheless. */
static void copy(struct kp_norm_out *o, size_t from, size_t to)
{
	if (o->out->n == 0 && from && from < to) {
		size_t len;
		(void)kp_uc_get((const uint8_t *)o->s.p + from, &len);
		kp_norm_put(o, from, from + len, kp_str_sub(o->s, from, from + len), 0);
		from += len;
	}
	kp_norm_copy(o, from, to);
}

void kp_norm_charsmap(const struct kp_charsmap *m, struct kp_norm_out *o)
{
	size_t done = 0, end, len, used;
	kp_str to;
	for (size_t at = 0; at < o->s.n; at = end) {
		end = cluster_end(o->s, at);
		if (end - at < CLUSTER_MAX &&
			look_up(m, kp_str_sub(o->s, at, end), false, o->effort, &to, &len)) {
			copy(o, done, at);
			kp_norm_put(o, at, end, to, o->out->n ? at : 0);
			done = end;
			continue;
		}
		for (size_t i = at; i < end; i += len) {
			(void)kp_uc_get((const uint8_t *)o->s.p + i, &len);
			if (look_up(m, kp_str_sub(o->s, i, i + len), false, o->effort, &to,
				    &used)) {
				copy(o, done, i);
				kp_norm_put(o, i, i + len, to, o->out->n ? i : 0);
				done = i + len;
			}
		}
	}
	copy(o, done, o->s.n);
}

/* --- SentencePiece itself ------------------------------------------------------------------------------------------------ */

static kp_str spm_prefix(const struct kp_norm_step *st, const struct kp_norm_work *w, kp_str s,
	size_t at, size_t *ret_n)
{
	kp_str to;
	*ret_n = w->protect ? kp_matcher_at(w->protect, w->origins, s, at) : 0;
	if (*ret_n) {
		return kp_str_sub(s, at, at + *ret_n);
	}
	if (st->map.n && look_up(&st->map, kp_str_skip(s, at), true, w->find.effort, &to, ret_n)) {
		return to;
	}
	(void)kp_uc_get((const uint8_t *)s.p + at, ret_n);
	return kp_str_sub(s, at, at + *ret_n);
}

/* Writes text with its blanks as marks. */
static void spm_put(struct kp_norm_out *o, size_t at, size_t len, kp_str text)
{
	char marked[256];
	size_t n = 0;
	if (kp_str_eq(text, kp_str_sub(o->s, at, at + len)) && kp_str_find_char(text, ' ') < 0) {
		kp_norm_copy(o, at, at + len);
		return;
	}
	for (size_t i = 0; i < text.n; i++) {
		if (n + 3 > sizeof(marked)) {
			kp_norm_put(o, at, at, kp_str_n(marked, n), at);
			n = 0;
		}
		if (text.p[i] == ' ') {
			memcpy(marked + n, MARK, 3);
			n += 3;
		} else {
			marked[n++] = text.p[i];
		}
	}
	kp_norm_put(o, at, at + len, kp_str_n(marked, n), at);
}

void kp_norm_spm(const struct kp_norm_step *st, struct kp_norm_out *o, const struct kp_norm_work *w)
{
	size_t at = 0, len;
	bool blank = st->right;
	while (blank && at < o->s.n && kp_str_eq(spm_prefix(st, w, o->s, at, &len), KP_S(" "))) {
		kp_norm_put(o, at, at + len, KP_S(""), at);
		at += len;
	}
	if (at == o->s.n) {
		return;
	}
	if (st->left) {
		kp_norm_put(o, at, at, KP_S(MARK), at);
	}
	for (; at < o->s.n; at += len) {
		kp_str text = spm_prefix(st, w, o->s, at, &len);
		while (blank && kp_str_starts(text, KP_S(" "))) {
			text = kp_str_skip(text, 1);
		}
		if (text.n) {
			blank = text.p[text.n - 1] == ' ';
		}
		spm_put(o, at, len, text);
		blank = blank && st->right;
	}
	while (st->right && kp_str_ends(kp_buf_str(o->out), KP_S(MARK))) {
		o->out->n -= 3;
	}
}

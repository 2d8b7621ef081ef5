/* DESIGN: the tokens are sorted by their bytes; at a place where one may begin (its first two bytes say so) the range of tokens
   that agree with the text is narrowed byte by byte, and the longest one that the policy allows there wins. The leftmost match
   wins, and a match that single_word rejects is skipped whole; lstrip and rstrip widen a match over white space after that. A token that
   begins in white space which the match before it has swallowed counts all the same, unless lstrip leaves nothing of it. This is what
   Aho-Corasick with leftmost-longest semantics gives, but the policy can be asked per candidate. Cost: some instructions for 64 bytes of
   text without candidates; where tokens agree with the text far, their bytes at each place, which is counted (effort.h). */
#include "token/added.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "token/ascii.h"
#include "token/unicode.h"

#include <stdlib.h>

static int by_text(const void *a, const void *b, void *ctx)
{
	const struct kp_added *added = ctx;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	int c = kp_str_cmp(added[x].text, added[y].text);
	if (c == 0) { /* normalization made two equal: special ones first, as in the reference */
		c = (int)(added[y].flags & KP_ADDED_SPECIAL) -
		    (int)(added[x].flags & KP_ADDED_SPECIAL);
	}
	return c ? c : (x > y) - (x < y);
}

static void list_firsts(struct kp_matcher *m)
{
	m->n_firsts = 0;
	for (size_t i = 0; i < 256; i++) {
		if (m->first[i] && m->n_firsts < KP_ADDED_FIRSTS) {
			memset(m->firsts[m->n_firsts], (int)i, sizeof(*m->firsts));
		}
		m->n_firsts += m->first[i];
	}
}

int kp_matcher_init(struct kp_matcher *m, const struct kp_added *added, size_t n, bool normalized,
	struct kp_err *err)
{
	*m = (struct kp_matcher){ .added = added };
	m->order = kp_try_malloc((n + 1) * sizeof(*m->order));
	if (!m->order) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "index `%zu` added tokens", n);
	}
	for (size_t i = 0; i < n; i++) {
		kp_str t = added[i].text;
		if (t.n == 0 || !(added[i].flags & KP_ADDED_NORMALIZED) == normalized) {
			continue;
		}
		m->order[m->n++] = (uint32_t)i;
		uint8_t c = (uint8_t)t.p[0];
		m->first[c] = true;
		if (t.n > 1) {
			m->pair[c][(uint8_t)t.p[1] >> 6] |= UINT64_C(1) << ((uint8_t)t.p[1] & 63);
		} else {
			m->alone[c] = true;
		}
	}
	list_firsts(m);
	qsort_r(m->order, m->n, sizeof(*m->order), by_text, (void *)(uintptr_t)added);
	for (uint32_t i = 0; i < m->n; i++) {
		uint8_t c = (uint8_t)added[m->order[i]].text.p[0];
		m->begin[c][0] = m->begin[c][1] ? m->begin[c][0] : i;
		m->begin[c][1] = i + 1;
	}
	return 0;
}

void kp_matcher_leave_out(struct kp_matcher *m, uint8_t c)
{
	m->first[c] = false;
	list_firsts(m);
}

void kp_matcher_fini(struct kp_matcher *m)
{
	kp_free(&m->order);
	m->n = 0;
}

/* Does a token begin with the first byte of s and go on with its second? */
static inline bool goes_on(const struct kp_matcher *m, kp_str s)
{
	unsigned second = s.n > 1 ? (uint8_t)s.p[1] : 0;
	return s.n > 1 && (m->pair[(uint8_t)s.p[0]][second >> 6] >> (second & 63) & 1);
}

/* Looks at the next bytes of text, which has some. */
static void look(const struct kp_matcher *m, kp_str text, size_t at, struct kp_match_state *state)
{
	size_t n = KP_MIN(text.n - at, (size_t)64);
	const uint8_t *p = (const uint8_t *)text.p + at;
	uint8_t last[64] = { 0 };
	if (n < 64) {
		memcpy(last, p, n);
		p = last;
	}
	state->from = at;
	state->seen = at + n;
	state->firsts = kp_ascii_any(p, m->firsts, m->n_firsts) & UINT64_MAX >> (64 - n);
}

/* The next of the m->firsts at or after `at`, or the text's end. */
static size_t skip(const struct kp_matcher *m, kp_str text, size_t at, struct kp_match_state *state)
{
	if (m->n_firsts == 1) {
		const char *q = memchr(text.p + at, m->firsts[0][0], text.n - at);
		return q ? (size_t)(q - text.p) : text.n;
	}
	for (; at < text.n; at = state->seen) {
		if (at >= state->seen || at < state->from) {
			look(m, text, at, state);
		}
		uint64_t here = state->firsts >> (at - state->from);
		if (here) {
			return at + (size_t)__builtin_ctzll(here);
		}
	}
	return text.n;
}

/* Next place at or after `at` where a token may begin. */
static size_t candidate(
	const struct kp_matcher *m, kp_str text, size_t at, struct kp_match_state *state)
{
	bool few = m->n_firsts <= KP_ADDED_FIRSTS;
	for (; at < text.n; at++) {
		at = few ? skip(m, text, at, state) : at;
		if (at == text.n) {
			break;
		}
		unsigned c = (uint8_t)text.p[at];
		if (m->first[c] && (m->alone[c] || goes_on(m, kp_str_skip(text, at)))) {
			break;
		}
	}
	return at;
}

static unsigned byte_at(const struct kp_matcher *m, size_t i, size_t d)
{
	return (uint8_t)m->added[m->order[i]].text.p[d];
}

/* First position in [lo, hi) whose byte at depth d is >= c; all of them are longer than d. */
static size_t narrow(const struct kp_matcher *m, size_t lo, size_t hi, size_t d, unsigned c)
{
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (byte_at(m, mid, d) < c) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo;
}

/* The longest allowed token at `at` of fewer than `below` bytes: its index, or SIZE_MAX. */
static size_t longest(const struct kp_matcher *m, const struct kp_origins *o, kp_str text,
	size_t at, size_t below)
{
	const uint32_t *begin = m->begin[(uint8_t)text.p[at]];
	if (m->alone[(uint8_t)text.p[at]] && !o->policy && !goes_on(m, kp_str_skip(text, at))) {
		(void)kp_effort_spend(o->effort, 1);
		return below > 1 ? m->order[begin[0]] : SIZE_MAX;
	}
	size_t lo = begin[0], hi = begin[1], best = SIZE_MAX, d = 1;
	for (; lo < hi && d < below; d++) {
		bool taken = false; /* of tokens with one text the first counts */
		for (; lo < hi && m->added[m->order[lo]].text.n == d; lo++) {
			if (!taken && kp_policy_allows(o, m->order[lo], at, at + d)) {
				best = m->order[lo];
				taken = true;
			}
		}
		if (lo == hi || at + d == text.n) {
			break;
		}
		unsigned c = (uint8_t)text.p[at + d];
		unsigned least = byte_at(m, lo, d), most = byte_at(m, hi - 1, d);
		if (c < least || c > most) {
			break;
		}
		if (least != c || most != c) {
			lo = narrow(m, lo, hi, d, c);
			hi = narrow(m, lo, hi, d, c + 1);
		}
	}
	(void)kp_effort_spend(o->effort, d);
	return best;
}

size_t kp_matcher_at(const struct kp_matcher *m, const struct kp_origins *o, kp_str text, size_t at)
{
	if (m->n == 0 || !m->first[(uint8_t)text.p[at]]) {
		return 0;
	}
	size_t index = longest(m, o, text, at, SIZE_MAX);
	return index == SIZE_MAX ? 0 : m->added[index].text.n;
}

/* longest_first: is there a longer token at `from` < q < `to` that stays? Those are longer each time, so this ends. */
static bool gives_way(
	const struct kp_matcher *m, const struct kp_origins *o, kp_str text, size_t from, size_t to)
{
	for (size_t q = from + 1; q < to && !kp_effort_is_over(o->effort); q++) {
		if (!m->first[(uint8_t)text.p[q]]) {
			continue;
		}
		size_t index = longest(m, o, text, q, SIZE_MAX), n;
		while (index != SIZE_MAX && (n = m->added[index].text.n) > to - from) {
			if (!gives_way(m, o, text, q, q + n)) {
				return true;
			}
			index = longest(m, o, text, q, n);
		}
	}
	return false;
}

/* The token that stands at `at`. */
static size_t choose(const struct kp_matcher *m, const struct kp_origins *o, kp_str text, size_t at)
{
	size_t index = longest(m, o, text, at, SIZE_MAX), n;
	while (m->longest_first && index != SIZE_MAX &&
		gives_way(m, o, text, at, at + (n = m->added[index].text.n))) {
		index = longest(m, o, text, at, n);
	}
	return index;
}

static bool is_word_alone(kp_str text, size_t from, size_t to)
{
	uint32_t cp;
	if (from && kp_utf8_decode_last(text.p, from, &cp) && kp_uc_is_word(cp)) {
		return false;
	}
	return to == text.n || !kp_utf8_decode(text.p + to, text.n - to, &cp) || !kp_uc_is_word(cp);
}

static bool is_space(uint32_t cp, bool ascii)
{
	return (kp_uc_class(cp) & KP_UC_SPACE) && (!ascii || cp < 0x80);
}

static size_t skip_space_left(kp_str text, size_t least, size_t at, bool ascii)
{
	uint32_t cp;
	size_t len;
	while (at > least && (len = kp_utf8_decode_last(text.p, at, &cp)) && is_space(cp, ascii)) {
		at -= len;
	}
	return at;
}

static size_t skip_space_right(kp_str text, size_t at, bool ascii)
{
	uint32_t cp;
	size_t len;
	while (at < text.n && (len = kp_utf8_decode(text.p + at, text.n - at, &cp)) &&
		is_space(cp, ascii)) {
		at += len;
	}
	return at;
}

size_t kp_matcher_skip_space(kp_str text, size_t at)
{
	return skip_space_right(text, at, false);
}

bool kp_matcher_next(const struct kp_matcher *m, const struct kp_origins *o, kp_str text,
	struct kp_match_state *state, struct kp_match *ret)
{
	while (m->n && !kp_effort_is_over(o->effort)) {
		size_t at = candidate(m, text, state->at, state);
		if (at == text.n) {
			state->at = at;
			return false;
		}
		size_t index = choose(m, o, text, at);
		if (index == SIZE_MAX) {
			state->at = at + 1;
			continue;
		}
		const struct kp_added *a = &m->added[index];
		size_t from = at, to = at + a->text.n;
		bool ascii = a->flags & KP_ADDED_ASCII;
		state->at = to;
		if ((a->flags & KP_ADDED_WORD) && !is_word_alone(text, from, to)) {
			continue;
		}
		if (a->flags & KP_ADDED_LSTRIP) {
			from = at < state->done ? state->done
						: skip_space_left(text, state->done, at, ascii);
		}
		if (a->flags & KP_ADDED_RSTRIP) {
			/* What lies in what the match before swallowed is white space. */
			size_t past = ascii ? to : KP_MAX(to, state->done);
			to = skip_space_right(text, past, ascii);
			(void)kp_effort_spend(o->effort, to - past);
		}
		if (from >= to) {
			continue; /* all of it was swallowed by the match before */
		}
		*ret = (struct kp_match){
			.from = from, .to = to, .end = at + a->text.n, .token = a
		};
		return true;
	}
	return false;
}

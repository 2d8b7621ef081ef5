/* DESIGN: finds, once at load, the added tokens behind which a text can be cut: the ids of what stands before the end of such a token's text, its own among them,
   are the same however the text goes on. (An encode may then begin there, with ids that an earlier one gave for the same text up to that place.)

   Text is encoded from left to right: the tokens matched raw first, over the whole text, then what lies between two of them by itself. So only the search for added
   tokens can look beyond an added token X, and X is safe when nothing that is found there could have kept X from being found:
   - X is not single_word, which looks at the next character, and swallows white space as tokenizer.json says, if any.
   - X is matched raw: no other token matched raw has X in it anywhere but at its end. (One that begins before X or with it and goes on behind it would win;
     one that ends with X wins over it, or is skipped with it, whatever follows.) rstrip is fine: the white space behind X is looked for anew.
   - X is matched after normalization: there is none, since what follows could change X's own characters; X does not strip on the right, where the next raw token ends
     what it may take; its last character is neither white space, which a raw token behind it could swallow (lstrip), nor a word character, which the next token could look
     at (single_word); and no raw token overlaps with the end of X and goes on behind it, or ends there with single_word.
   - X is none of the rows that are not searched for (rows.c).
   Everything else (normalizers, "first" of Metaspace, prefixes of SentencePiece, pre-tokenizers, the model) sees one stretch between two tokens at a time, and whether
   it begins at the text's begin. A post-processor's tokens go in front of everything and behind it.

   Work is bounded: tokenizers whose tokens would need more than WORK steps get no cuts. One thread, at load. */
#include "token/internal.h"
#include "base/utf8.h"
#include "token/unicode.h"

enum { WORK = 1 << 24 };

/* The tokens of m, as a range of m->order, that agree with s: those that begin with all of it, or end in it. */
struct range {
	size_t lo, hi;
};

static size_t bound(const struct kp_matcher *m, struct range r, size_t d, unsigned c)
{
	while (r.lo < r.hi) {
		size_t mid = (r.lo + r.hi) / 2;
		if ((uint8_t)m->added[m->order[mid]].text.p[d] < c) {
			r.lo = mid + 1;
		} else {
			r.hi = mid;
		}
	}
	return r.lo;
}

/* Of r, whose texts agree in their first d bytes and are longer: those with c next. */
static struct range narrow(const struct kp_matcher *m, struct range r, size_t d, unsigned c)
{
	size_t lo = bound(m, r, d, c);
	return (struct range){ lo, bound(m, (struct range){ lo, r.hi }, d, c + 1) };
}

/* Takes the flag from every token of m that stands in `by` from `at` on and ends before its end, or at it if at_end. */
static void deny_inside(
	struct kp_tokenizer *t, const struct kp_matcher *m, kp_str by, size_t at, bool at_end)
{
	struct range r = { 0, m->n };
	for (size_t d = 0; r.lo < r.hi; d++) {
		for (; r.lo < r.hi && m->added[m->order[r.lo]].text.n == d; r.lo++) {
			if (at + d < by.n || at_end) {
				t->added[m->order[r.lo]].flags &= (uint8_t)~KP_ADDED_CUT;
			}
		}
		if (at + d == by.n) {
			break;
		}
		r = narrow(m, r, d, (uint8_t)by.p[at + d]);
	}
}

/* Does a token of m begin with s and go on, or is it s and single_word? */
static bool goes_on(const struct kp_matcher *m, kp_str s)
{
	struct range r = { 0, m->n };
	for (size_t d = 0; d < s.n && r.lo < r.hi; d++) {
		while (r.lo < r.hi && m->added[m->order[r.lo]].text.n == d) {
			r.lo++;
		}
		r = narrow(m, r, d, (uint8_t)s.p[d]);
	}
	for (size_t i = r.lo; i < r.hi; i++) {
		const struct kp_added *a = &m->added[m->order[i]];
		if (a->text.n > s.n || (a->flags & KP_ADDED_WORD)) {
			return true;
		}
	}
	return false;
}

/* What can be said of a token alone, and for one that is matched last, of how raw tokens overlap with its end. */
static bool is_safe(const struct kp_tokenizer *t, const struct kp_added *a)
{
	uint32_t last;
	if (a->text.n == 0 || (a->flags & (KP_ADDED_WORD | KP_ADDED_ASCII))) {
		return false;
	}
	if (!(a->flags & KP_ADDED_NORMALIZED)) {
		return true;
	}
	if (t->nfc || t->norm.n || (a->flags & KP_ADDED_RSTRIP) ||
		!kp_utf8_decode_last(a->text.p, a->text.n, &last) || kp_uc_is_word(last) ||
		(kp_uc_class(last) & KP_UC_SPACE)) {
		return false;
	}
	for (size_t from = 1; from < a->text.n; from++) {
		if (goes_on(&t->raw, kp_str_skip(a->text, from))) {
			return false;
		}
	}
	return true;
}

void kp_cuts_find(struct kp_tokenizer *t)
{
	size_t work = 0;
	t->info.n_cuts = 0;
	for (size_t i = 0; i < t->n_added; i++) {
		t->added[i].flags &= (uint8_t)~KP_ADDED_CUT;
	}
	if (t->longest_first) { /* a token may give way to one that begins in it */
		return;
	}
	for (size_t i = 0; i < t->n_added; i++) {
		work += KP_MIN(t->added[i].text.n * t->added[i].text.n, (size_t)WORK);
		if (work > WORK) {
			return;
		}
	}
	for (size_t i = 0; i < t->n_added; i++) {
		bool is_found = !kp_rows_has(t, t->added[i].text) && is_safe(t, &t->added[i]);
		t->added[i].flags |= is_found ? KP_ADDED_CUT : 0;
	}
	for (size_t i = 0; i < t->n_added; i++) {
		const struct kp_added *a = &t->added[i];
		bool is_raw = !(a->flags & KP_ADDED_NORMALIZED), word = a->flags & KP_ADDED_WORD;
		for (size_t at = 0; at < a->text.n; at++) {
			if (is_raw) {
				deny_inside(t, &t->raw, a->text, at, false);
			}
			deny_inside(t, &t->normalized, a->text, at, is_raw && word);
		}
	}
	for (size_t i = 0; i < t->n_added; i++) {
		t->info.n_cuts += (t->added[i].flags & KP_ADDED_CUT) != 0;
	}
}

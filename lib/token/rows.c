/* DESIGN: finds, at load, the characters of which 1 to so many in a row are added tokens (Gemma: line ends, tabs), and that pieces of text find as well as a search for added tokens
   would, which then passes over them: text is not taken apart at each line's end. That needs:
   - text that is cut (borders.h), no token that is matched after normalization or takes white space beside it, and none that holds the character but the rows;
   - a row of 1 to `most` merges to just its added token, so a row is a piece like any other; and no token of the vocabulary has the character and another one, so nothing joins a row to
     what stands beside it.
   A longer row is what the search gives, the longest token again and again, and not what merging gives: such pieces are long ones, and are looked for where the cache does not
   know a long piece (span.c). Where a policy says who may write one of these tokens, all are searched for. */
#include "token/internal.h"

#include <string.h>

static bool is_row(kp_str s, uint8_t c)
{
	for (size_t i = 0; i < s.n; i++) {
		if ((uint8_t)s.p[i] != c) {
			return false;
		}
	}
	return s.n != 0;
}

static bool has(kp_str s, uint8_t c)
{
	return s.n && memchr(s.p, c, s.n);
}

static kp_id find_row(const struct kp_tokenizer *t, uint8_t c, size_t n)
{
	char row[KP_ROW_MAX];
	memset(row, c, n);
	return kp_vocab_find(&t->vocab, kp_str_n(row, n));
}

/* How long a row of added tokens of c is, from 1 on; 0: some token with c is none, or there is a gap. */
static size_t added_rows(const struct kp_tokenizer *t, uint8_t c)
{
	uint64_t there = 1;
	for (size_t i = 0; i < t->n_added; i++) {
		const struct kp_added *a = &t->added[i];
		if (!has(a->text, c)) {
			continue;
		}
		if (!is_row(a->text, c) || a->text.n > KP_ROW_MAX ||
			(a->flags & (KP_ADDED_SPECIAL | KP_ADDED_WORD)) ||
			find_row(t, c, a->text.n) != a->id ||
			!(t->vocab.tok[a->id].flags & KP_TOK_SELF)) {
			return 0;
		}
		there |= UINT64_C(1) << a->text.n;
	}
	return there & (there + 1) ? 0 : (size_t)__builtin_ctzll(~there) - 1;
}

static bool is_apart(const struct kp_tokenizer *t, uint8_t c)
{
	for (kp_id id = 0; id < t->vocab.n; id++) {
		kp_str s = kp_vocab_bytes(&t->vocab, id);
		if ((t->vocab.tok[id].flags & KP_TOK_WORD) && has(s, c) && !is_row(s, c)) {
			return false;
		}
	}
	return true;
}

void kp_rows_find(struct kp_tokenizer *t)
{
	t->n_rows = 0;
	if (!t->cut_text || t->odd || t->longest_first) {
		return;
	}
	bool first[128] = { false };
	for (size_t i = 0; i < t->n_added; i++) {
		const struct kp_added *a = &t->added[i];
		if (a->flags & (KP_ADDED_NORMALIZED | KP_ADDED_LSTRIP | KP_ADDED_RSTRIP)) {
			return;
		}
		if (a->text.n == 1 && (uint8_t)a->text.p[0] < 128) {
			first[(uint8_t)a->text.p[0]] = true;
		}
	}
	for (uint8_t c = 1; c < 128 && t->n_rows < KP_ROWS; c++) {
		bool letter = (c | 32) >= 'a' && (c | 32) <= 'z';
		size_t most = first[c] && !letter && c != ' ' ? added_rows(t, c) : 0;
		if (most >= KP_ROW_MIN && is_apart(t, c)) {
			t->rows[t->n_rows++] = (struct kp_row){ c, (uint8_t)most };
		}
	}
}

bool kp_rows_has(const struct kp_tokenizer *t, kp_str token)
{
	for (size_t i = 0; i < t->n_rows; i++) {
		if (is_row(token, t->rows[i].c)) {
			return true;
		}
	}
	return false;
}

const struct kp_row *kp_rows_long(
	const struct kp_tokenizer *t, kp_str s, size_t *ret_at, size_t *ret_n)
{
	for (size_t at = 0, n; t->n_rows && at < s.n; at += n) {
		for (n = 1; at + n < s.n && s.p[at + n] == s.p[at]; n++) {
		}
		for (size_t i = 0; n > KP_ROW_MIN && i < t->n_rows; i++) {
			if ((uint8_t)s.p[at] == t->rows[i].c && n > t->rows[i].most) {
				*ret_at = at;
				*ret_n = n;
				return &t->rows[i];
			}
		}
	}
	return NULL;
}

void kp_rows_add(
	const struct kp_tokenizer *t, const struct kp_row *row, size_t n, struct kp_ids *ids)
{
	/* Each is a token: kp_rows_find saw to it. */
	kp_id longest = find_row(t, row->c, row->most);
	for (; n > row->most; n -= row->most) {
		kp_ids_add(ids, longest);
	}
	kp_ids_add(ids, find_row(t, row->c, n));
}

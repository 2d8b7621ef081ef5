/* The slow and obvious way to encode with a tokenizer of made.h, which the tests compare the library with, and text to try it on. */
#ifndef KP_TESTS_UNIT_TOKEN_NAIVE_H
#define KP_TESTS_UNIT_TOKEN_NAIVE_H

#include "tests/unit/token/made.h"

/* One piece: again and again the pair of the lowest rank, the leftmost of equal ones. */
KP_UNUSED static void made_bpe(const struct made *m, kp_str piece, struct kp_ids *out)
{
	uint32_t *sym = kp_xmalloc((piece.n + 1) * sizeof(*sym));
	size_t n = piece.n;
	for (size_t i = 0; i < n; i++) {
		sym[i] = (uint8_t)piece.p[i];
	}
	for (;;) {
		size_t best = m->n_merges, at = 0;
		for (size_t i = 0; i + 1 < n; i++) {
			for (size_t k = 0; k < best; k++) {
				if (m->merge[k].left == sym[i] && m->merge[k].right == sym[i + 1]) {
					best = k;
					at = i;
				}
			}
		}
		if (best == m->n_merges) {
			break;
		}
		sym[at] = m->merge[best].product;
		memmove(sym + at + 1, sym + at + 2, (n - at - 2) * sizeof(*sym));
		n--;
	}
	for (size_t i = 0; i < n; i++) {
		kp_ids_add(out, sym[i]);
	}
	kp_free(&sym);
}

/* A whole text without added tokens, pieces by the scalar half of the pre-tokenizer. */
KP_UNUSED static void made_encode(
	const struct made *m, const struct kp_tokenizer *t, kp_str text, struct kp_ids *out)
{
	const uint8_t *p = (const uint8_t *)text.p, *end = p + text.n;
	while (p < end) {
		size_t n = t->pretok.piece(p, end), k = m->n_tokens;
		for (k = 0; t->ignore_merges && k < m->n_tokens &&
			    !kp_str_eq(m->token[k], kp_str_n(p, n));
			k++) {
		}
		if (t->ignore_merges && k < m->n_tokens) {
			kp_ids_add(out, (kp_id)k);
		} else {
			made_bpe(m, kp_str_n(p, n), out);
		}
		p += n;
	}
}

/* Text of the kinds that pre-tokenizers tell apart. */
KP_UNUSED static void made_text(struct kp_rng *r, size_t n, struct kp_buf *out)
{
	static const char *const part[] = { " ", "  ", "\n", "\r\n", "\t", "'s", "'LL", "'", "''",
		"a", "abc", "bca", "cab", "ABC", "aB", "Ab", "\n/", "//\n", "(a", "1", "12",
		"123456", "=", "==", "!", "?!", "/", "é", "中", "中文", "а", "аа", "٣", "\u00a0",
		"\u3000", "\u0301", "ſ", "👍", "\u2028", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		"                    ", "====================", "\x01" };
	size_t focus = kp_rng_below(r, KP_LEN(part));
	while (out->n < n) {
		kp_buf_addz(out, part[kp_rng_below(r, 3) ? kp_rng_below(r, KP_LEN(part)) : focus]);
	}
}

KP_UNUSED static void assert_ids(const struct kp_ids *got, const struct kp_ids *want, kp_str text)
{
	size_t i = 0;
	while (i < got->n && i < want->n && got->p[i] == want->p[i]) {
		i++;
	}
	if (i < got->n || i < want->n) {
		print_error("ids differ at %zu (%zu and %zu) for \"%" KP_FMT "\"\n", i, got->n,
			want->n, KP_ARG(text));
		fail();
	}
}

#endif

/* DESIGN: what llama.cpp does to text before its models `t5` and `bert` (llama-vocab.cpp, llm_tokenizer_ugm_session::normalize, llm_tokenizer_wpm_session::preprocess), which
   is not quite what SentencePiece and BertNormalizer do: SentencePiece's map with blanks of its own, and a first character of each decomposition with
   classes of Unicode 15.1. One pass over the text each; a character of the result comes from one of the input. */
#include "token/norm.h"
#include "base/utf8.h"
#include "token/unicode.h"

#include <string.h>

#define MARK "\xe2\x96\x81" /* U+2581 */

void kp_norm_ugm(const struct kp_norm_step *st, struct kp_norm_out *o)
{
	KP_AUTO(buf) struct kp_buf one; /* what a stretch becomes */
	kp_buf_init(&one, SIZE_MAX / 2);
	bool in_word = false, marked = false;
	size_t len;
	for (size_t at = 0; at < o->s.n; at += len) {
		kp_str text;
		if (!kp_charsmap_longest(&st->map, kp_str_skip(o->s, at), o->effort, &text, &len)) {
			(void)kp_uc_get((const uint8_t *)o->s.p + at, &len);
			text = kp_str_sub(o->s, at, at + len);
		}
		kp_buf_reset(&one);
		for (size_t i = 0; i < text.n; i++) {
			bool blank = text.p[i] == ' ';
			if (blank ? !st->right : !in_word && (st->right || (st->left && !marked))) {
				kp_buf_lit(&one, MARK);
				marked = marked || !blank;
			}
			if (!blank) {
				kp_buf_addc(&one, text.p[i]);
			}
			in_word = !blank;
		}
		if (kp_str_eq(kp_buf_str(&one), kp_str_sub(o->s, at, at + len))) {
			kp_norm_copy(o, at, at + len);
		} else {
			kp_norm_put(o, at, at + len, kp_buf_str(&one), at);
		}
		o->failed = o->failed || one.failed;
	}
}

enum wpm_kind { GONE, BLANK, ALONE, PART };

/* Index into KP_UC_CATEGORIES. */
enum {
	CATEGORY_PC = 11,
	CATEGORY_PO = 17,
	CATEGORY_CC = 25,
	CATEGORY_CF,
	CATEGORY_CN,
	CATEGORY_CO
};

/* What becomes of a character, and to what. */
static enum wpm_kind wpm_char(const struct kp_norm_step *st, uint32_t *cp)
{
	const struct kp_uc_decomposition *d = NULL;
	if (st->right && *cp >= 0xac00 && *cp <= 0xd7a3) {
		*cp = 0x1100 + (*cp - 0xac00) / 588;
	} else if (st->right && *cp == 0x11938) { /* younger than the table */
		*cp = 0x11935;
	} else if (st->right) {
		d = kp_uc_find(kp_uc_decompose, kp_uc_decompose_n, *cp);
		*cp = d ? kp_uc_decompose_pool[d->at] : *cp;
	}
	unsigned class = kp_uc_class(*cp), category = kp_uc_category(kp_uc_more(*cp));
	if (class & KP_UC_NEW) {
		return PART;
	}
	if (class & KP_UC_SPACE) {
		return BLANK;
	}
	if (*cp == 0 || *cp == 0xfffd || category == CATEGORY_CC || category == CATEGORY_CF ||
		category == CATEGORY_CO || (st->right && (class & KP_UC_M))) {
		return GONE;
	}
	bool alone = (category >= CATEGORY_PC && category <= CATEGORY_PO) ||
		     (*cp < 0x7f && (class & KP_UC_PS)) || (kp_uc_more(*cp) & KP_UC_CHINESE);
	d = st->left && category != CATEGORY_CN ? kp_uc_find(kp_uc_lower, kp_uc_lower_n, *cp)
						: NULL;
	*cp = d ? kp_uc_lower_pool[d->at] : *cp;
	return alone ? ALONE : PART;
}

void kp_norm_wpm(const struct kp_norm_step *st, struct kp_norm_out *o)
{
	bool in_word = false;
	size_t len;
	for (size_t at = 0; at < o->s.n; at += len) {
		char text[12];
		size_t n = 0;
		uint32_t cp = kp_uc_get((const uint8_t *)o->s.p + at, &len);
		enum wpm_kind kind = wpm_char(st, &cp);
		if (kind == GONE) {
			kp_norm_put(o, at, at + len, KP_S(""), at);
			continue;
		}
		if (kind != PART) {
			text[n++] = ' ';
		}
		if (kind == ALONE || (kind == PART && !in_word)) {
			memcpy(text + n, MARK, 3);
			n += 3;
		}
		if (kind != BLANK) {
			n += kp_utf8_encode(cp, text + n);
		}
		if (kind == ALONE) {
			text[n++] = ' ';
		}
		in_word = kind == PART;
		if (kp_str_eq(kp_str_n(text, n), kp_str_sub(o->s, at, at + len))) {
			kp_norm_copy(o, at, at + len);
		} else {
			kp_norm_put(o, at, at + len, kp_str_n(text, n), at);
		}
	}
}

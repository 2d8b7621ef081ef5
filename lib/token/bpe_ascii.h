/* Long pieces of ASCII by what is known of letters side by side: faster than bpe.h's ways where merges are local, as in random letters, base64 or sequences of proteins; the same
   ids. Part of struct kp_bpe (`ascii`), with its life. */
#ifndef KP_TOKEN_BPE_ASCII_H
#define KP_TOKEN_BPE_ASCII_H

#include "token/bpe.h"

enum {
	KP_ASCII_SET_BITS = 19,
	/* In `ascii`, behind an entry for each two letters: what they give; the set of borders; and how many words there are. */
	KP_ASCII_PRODUCT = 128 * 128,
	KP_ASCII_SET = 2 * KP_ASCII_PRODUCT,
	KP_ASCII_WORDS = KP_ASCII_SET + (1 << (KP_ASCII_SET_BITS - 5)),
};

/* Fills b->ascii from all merges that ever happen, in rank order: 192 KiB. blank: a blank in a text stands for another character. */
int kp_bpe_find_ascii(struct kp_bpe *b, const struct kp_merge *merges, bool blank,
	struct kp_err *err) KP_MUST_USE;
/* Is all that merges give a token? */
bool kp_bpe_ascii_ok(const struct kp_bpe *b);
/* As long as the n bytes at p are ASCII, and no long stretch of them can be joined everywhere: appends the ids of the first *ret_done. Of those behind them
   *ret_apart, 1 or more unless all are done, can be encoded apart from what follows. RESOURCE_EXHAUSTED as kp_bpe_long. */
int kp_bpe_ascii(const struct kp_bpe *b, const uint8_t *p, size_t n, struct kp_ids *work,
	size_t *ret_done, size_t *ret_apart, struct kp_err *err) KP_MUST_USE;

#endif

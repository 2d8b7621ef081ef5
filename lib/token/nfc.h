/* The normalization forms with the data of Unicode 9, as Hugging Face tokenizers 0.23.3 does them. */
#ifndef KP_TOKEN_NFC_H
#define KP_TOKEN_NFC_H

#include "base/buf.h"

/* Where a stretch of text that NFC changed lies, before and after. */
struct kp_nfc_change {
	size_t raw_at, raw_n, at, n;
};
/* Grown as needed, in the caller's hands between calls; kp_nfc_work_fini frees. */
struct kp_nfc_work {
	uint32_t *cp;
	uint8_t *ccc;
	size_t cap;
	struct kp_nfc_change *change;
	size_t n_change, cap_change;
};
void kp_nfc_work_fini(struct kp_nfc_work *w);

/* Is valid UTF-8 already in NFC? About 4 GB/s over ASCII. */
bool kp_nfc_quick(kp_str s);
/* Appends the NFC of valid UTF-8 to out and lists what changed in w->change. RESOURCE_EXHAUSTED at out's maximum. */
int kp_nfc(kp_str s, struct kp_nfc_work *w, struct kp_buf *out, struct kp_err *err) KP_MUST_USE;

enum kp_unicode_form { KP_NFC, KP_NFD, KP_NFKC, KP_NFKD };
/* The same for any form. young: with the data of tokenizers 1.0. */
int kp_normalize(enum kp_unicode_form form, bool young, kp_str s, struct kp_nfc_work *w,
	struct kp_buf *out, struct kp_err *err) KP_MUST_USE;

#endif

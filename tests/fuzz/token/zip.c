/* Any bytes as a zip archive of a tokenizer. */
#include "token/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_tokenizer *t = NULL;
	if (kp_tokenizer_from_zip(kp_str_n(data, n), &t, &err)) {
		KP_BUG_ON(!err.msg[0] || t);
	}
	kp_tokenizer_unref(t);
	return 0;
}

/* Any bytes as a GGUF file: an error or a tokenizer that encodes, never more. */
#include "base/mem.h"
#include "token/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_tokenizer *t = NULL;
	if (kp_tokenizer_from_gguf(kp_str_n(data, n), &t, &err)) {
		KP_BUG_ON(!err.msg[0] || t);
		return 0;
	}
	struct kp_token_scratch *s = kp_token_scratch_create(0);
	struct kp_ids ids;
	struct kp_buf out;
	kp_ids_init(&ids, 1 << 16);
	kp_buf_init(&out, 1 << 20);
	struct kp_text text =
		kp_text_trusted(KP_S("It's 12 tokens\n\n of <|text|> and 中文 é\xcc\x81."));
	/* A text may need the unknown token, which is not there; else it has ids. */
	int r = kp_tokenizer_encode(
		t, s, &text, &(struct kp_encode_opts){ .add_special = true }, &ids, &err);
	KP_BUG_ON(r != 0 && (!err.msg[0] || err.code == KP_INTERNAL));
	KP_BUG_ON(kp_tokenizer_decode(t, ids.p, ids.n, true, &out, &err) != 0);
	kp_buf_fini(&out);
	kp_ids_fini(&ids);
	kp_token_scratch_destroy(s);
	kp_tokenizer_unref(t);
	return 0;
}

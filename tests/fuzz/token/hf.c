/* Any text as a tokenizer.json, and behind a NUL byte as its tokenizer_config.json: an error or a tokenizer that encodes, never more. */
#include "base/mem.h"
#include "token/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_tokenizer *t = NULL;
	kp_str json = kp_str_n(data, n), config = KP_STR_NULL;
	ptrdiff_t cut = kp_str_find_char(json, 0);
	if (cut >= 0) {
		config = kp_str_skip(json, (size_t)cut + 1);
		json = kp_str_sub(json, 0, (size_t)cut);
	}
	if (kp_tokenizer_from_hf(json, config, &t, &err)) {
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
	/* A model without its unknown token, or a pattern that takes too long, may refuse the text. */
	struct kp_encode_opts opts = { .add_special = true, .file_limits = n % 2 };
	if (kp_tokenizer_encode(t, s, &text, &opts, &ids, &err)) {
		KP_BUG_ON(err.code != KP_INVALID_ARGUMENT && err.code != KP_RESOURCE_EXHAUSTED);
		ids.n = 0;
	}
	/* Padding may name an id that is no token. */
	err = KP_ERR_INIT;
	if (kp_tokenizer_decode(t, ids.p, ids.n, true, &out, &err)) {
		KP_BUG_ON(err.code != KP_OUT_OF_RANGE);
	}
	kp_buf_fini(&out);
	kp_ids_fini(&ids);
	kp_token_scratch_destroy(s);
	kp_tokenizer_unref(t);
	return 0;
}

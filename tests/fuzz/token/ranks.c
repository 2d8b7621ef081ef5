/* Any bytes as a tekken.json and as a tiktoken file of OpenAI's, Qwen's or Kimi's: an error or a tokenizer that encodes and decodes, never more. */
#include "token/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct kp_err err = KP_ERR_INIT;
	struct kp_tokenizer *t = NULL;
	static const kp_str names[] = { KP_S_INIT("cl100k_base.tiktoken"),
		KP_S_INIT("qwen.tiktoken"), KP_S_INIT("tiktoken.model") };
	const struct kp_tokenizer_file files[] = {
		{ n && data[0] == '{' ? KP_S("tekken.json") : names[n % 3], kp_str_n(data, n) },
		{ KP_S("tokenizer_config.json"),
			KP_S("{\"auto_map\":{\"AutoTokenizer\":[\"tokenization_kimi.TikTokenTokenizer\"]},"
			     "\"added_tokens_decoder\":{\"256\":{\"content\":\"</s>\"}}}") }
	};
	if (kp_tokenizer_from_files(files, KP_LEN(files), &t, &err)) {
		KP_BUG_ON(!err.msg[0] || t);
		return 0;
	}
	struct kp_token_scratch *s = kp_token_scratch_create(0);
	struct kp_ids ids;
	struct kp_buf out;
	kp_ids_init(&ids, 1 << 16);
	kp_buf_init(&out, 1 << 20);
	struct kp_text text = kp_text_trusted(KP_S("  the ab [INST] 123½\n\n中文 </s>"));
	struct kp_encode_opts opts = { .add_special = true };
	if (kp_tokenizer_encode(t, s, &text, &opts, &ids, &err)) {
		KP_BUG_ON(err.code != KP_RESOURCE_EXHAUSTED);
		ids.n = 0;
	}
	KP_BUG_ON(kp_tokenizer_decode(t, ids.p, ids.n, false, &out, &err) != 0);
	kp_buf_fini(&out);
	kp_ids_fini(&ids);
	kp_token_scratch_destroy(s);
	kp_tokenizer_unref(t);
	return 0;
}

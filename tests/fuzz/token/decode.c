/* Any ids through the decoders of five tokenizers: what comes out token by token adds up to what comes out at once, is valid UTF-8, and an id that is
   none is an error. The first byte picks the tokenizer and whether special tokens are skipped; each further byte is an id. */
#include "base/mem.h"
#include "base/utf8.h"
#include "token/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define REPLACE "{\"type\":\"Replace\",\"pattern\":{\"String\":\"_\"},\"content\":\" \"}"
#define STRIP(what, start, stop) \
	"{\"type\":\"Strip\",\"content\":\"" what "\",\"start\":" start ",\"stop\":" stop "}"
#define SEQUENCE(list) "{\"type\":\"Sequence\",\"decoders\":[" list "]}"
#define FALLBACK       REPLACE ",{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}," STRIP(" ", "1", "0")
#define JOINED                                                                                                   \
	"{\"type\":\"Fuse\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\"abab\"},\"content\":\"c\"}," STRIP( \
		"a", "2", "2")
static const char *const decoders[] = {
	"{\"type\":\"ByteLevel\"}",
	SEQUENCE(FALLBACK),
	"{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}",
	SEQUENCE(JOINED),
	"{\"type\":\"BPEDecoder\",\"suffix\":\"_\"}",
};
/* Texts of the tokens 0 to 15, after them <0x00> to <0xFF> in steps of 3. */
static const char *const texts[] = { "a", "b", "ab", "_", "_a", " ", "##b", "n't", ".", "aba", "Ã",
	"©", "ð", "Ł", "é", "abab" };

static struct kp_tokenizer *make(const char *decoder)
{
	KP_AUTO(buf) struct kp_buf b;
	struct kp_tokenizer *t = NULL;
	struct kp_err err = KP_ERR_INIT;
	kp_buf_init(&b, 1 << 20);
	kp_buf_printf(&b,
		"{\"added_tokens\":[{\"id\":102,\"content\":\"<s>\",\"special\":true,\"normalized\":false,\"lstrip\":false,\"rstrip\":false,\"single_word\":false}],"
		"\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},\"decoder\":%s,\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"a\",\"vocab\":{",
		decoder);
	for (unsigned i = 0; i < KP_LEN(texts); i++) {
		kp_buf_printf(&b, "\"%s\":%u,", texts[i], i);
	}
	for (unsigned i = 0; i < 86; i++) {
		kp_buf_printf(&b, "\"<0x%02X>\":%u%s", 3 * i, 16 + i, i < 85 ? "," : "}}}");
	}
	KP_BUG_ON(kp_tokenizer_from_hf(kp_buf_str(&b), KP_STR_NULL, &t, &err) != 0);
	return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static struct kp_tokenizer *tokenizer[KP_LEN(decoders)];
	for (size_t i = 0; i < KP_LEN(decoders) && !tokenizer[i]; i++) {
		tokenizer[i] = make(decoders[i]);
	}
	if (n == 0) {
		return 0;
	}
	size_t which = data[0] % KP_LEN(decoders);
	const struct kp_tokenizer *t = tokenizer[which];
	bool skip = data[0] & 0x80, valid = true;
	kp_id *ids = kp_xmalloc(n * sizeof(*ids));
	struct kp_buf whole, parts;
	struct kp_detok d;
	struct kp_err err = KP_ERR_INIT, again = KP_ERR_INIT;
	kp_buf_init(&whole, 1 << 20);
	kp_buf_init(&parts, 1 << 20);
	kp_detok_init(&d, t, skip);
	for (size_t i = 1; i < n; i++) {
		ids[i - 1] = data[i];
	}
	int r = kp_tokenizer_decode(t, ids, n - 1, skip, &whole, &err);
	for (size_t i = 0; i + 1 < n && valid; i++) {
		valid = kp_detok_feed(&d, ids[i], &parts, &again) == 0;
	}
	KP_BUG_ON((r == 0) != valid);
	KP_BUG_ON(r != 0 && (err.code != KP_OUT_OF_RANGE || again.code != KP_OUT_OF_RANGE));
	if (r == 0) {
		kp_detok_finish(&d, &parts);
		KP_BUG_ON(!kp_utf8_ok(kp_buf_str(&whole)) || !kp_utf8_ok(kp_buf_str(&parts)));
		/* A row of byte tokens that is broken further on: a stream keeps the characters that came before. */
		bool broken = which == 1 && kp_str_has(kp_buf_str(&whole), KP_S("\xef\xbf\xbd"));
		KP_BUG_ON(!broken && !kp_str_eq(kp_buf_str(&whole), kp_buf_str(&parts)));
	}
	kp_free(&ids);
	kp_buf_fini(&whole);
	kp_buf_fini(&parts);
	return 0;
}

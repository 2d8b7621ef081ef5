/* Images that were tampered with: a tokenizer's image, patched, is refused with a reason or encodes and decodes without harm. First byte of the
   input: which tokenizer, and whether the rest is patches (a place of three bytes and eight bytes each) or replaces the block from its begin on. */
#include "base/mem.h"
#include "token/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define ADDED                                                                                               \
	"{\"added_tokens\":[{\"id\":0,\"content\":\"<u>\",\"special\":true},{\"id\":1,\"content\":\"a b\"," \
	"\"special\":false,\"normalized\":true,\"rstrip\":true}],"
#define TEXTS \
	"\"<u>\":0,\"a b\":1,\"a\":2,\"b\":3,\"ab\":4,\"\xe2\x96\x81\":5,\"\xe4\xb8\xad\":6,\"aa\":7,\"abaa\":8,\"##a\":9"
#define PIECES \
	"[[\"<u>\",0],[\"a b\",0],[\"a\",-1],[\"b\",-2],[\"ab\",-2.5],[\"\xe2\x96\x81\",-3],[\"\xe4\xb8\xad\",-4]]"
#define SPACES \
	"{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\",\"prepend_scheme\":\"always\",\"split\":true}"
static const char *const sources[] = {
	ADDED
	"\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFD\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"x+\"},"
	"\"content\":\"b\"}]},\"pre_tokenizer\":" SPACES ",\"decoder\":" SPACES
	",\"model\":{\"type\":\"BPE\",\"unk_token\":\"<u>\",\"vocab\":{" TEXTS
	"},\"merges\":[\"a b\",\"a a\",\"ab aa\"]}}",
	ADDED "\"normalizer\":{\"type\":\"Lowercase\"},\"pre_tokenizer\":" SPACES
	      ",\"decoder\":" SPACES
	      ",\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":" PIECES "}}",
	ADDED
	"\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,\"strip_accents\":null,"
	"\"lowercase\":true},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\","
	"\"cleanup\":true},\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"<u>\",\"continuing_subword_prefix\":\"##\","
	"\"max_input_chars_per_word\":100,\"vocab\":{" TEXTS "}}}",
	ADDED
	"\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"Whitespace\"},\"decoder\":null,\"model\":{\"type\":\"WordLevel\","
	"\"unk_token\":\"<u>\",\"vocab\":{" TEXTS "}}}",
	"{\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true},"
	"\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"\xc4\xa0\":2,\"ab\":3,\"aa\":4,"
	"\"abaa\":5,\"aaaa\":6,\"\xc3\xa4\":7,\"\xc2\xb8\":8,\"\xc4\x83\":9,\"\xc3\xa4\xc2\xb8\":10,\"\xc3\xa4\xc2\xb8\xc5\x83\":11},"
	"\"merges\":[\"a b\",\"a a\",\"ab aa\",\"aa aa\",\"\xc3\xa4 \xc2\xb8\"]}}",
};
static struct kp_tokenizer *base[KP_LEN(sources)];
static struct kp_token_scratch *scratch;

static void load(void)
{
	for (size_t k = 0; k < KP_LEN(sources); k++) {
		struct kp_err err = KP_ERR_INIT;
		if (kp_tokenizer_from_hf(kp_str_c(sources[k]), KP_STR_NULL, &base[k], &err)) {
			fprintf(stderr, "%zu: %s\n", k, err.msg);
			abort();
		}
	}
	scratch = kp_token_scratch_create(64 << 10);
}

static void use(const struct kp_tokenizer *t)
{
	static char many[1200];
	memset(many, 'a', sizeof(many));
	const kp_str texts[] = { KP_S("aab a b\xe4\xb8\xad <u> aabaa \xc3\xa4 zz"),
		KP_S("##a  a bxx"), kp_str_n(many, sizeof(many)), kp_str_n(many, 40) };
	struct kp_err err;
	struct kp_ids ids;
	struct kp_buf out;
	kp_ids_init(&ids, 1 << 14);
	kp_buf_init(&out, 8 << 20);
	for (size_t i = 0; i < KP_LEN(texts); i++) {
		struct kp_text text = kp_text_trusted(texts[i]);
		err = KP_ERR_INIT;
		kp_ids_reset(&ids);
		kp_buf_reset(&out);
		struct kp_encode_opts opts = { .add_special = i & 1, .file_limits = i == 3 };
		if (kp_tokenizer_encode(t, scratch, &text, &opts, &ids, &err) == 0 &&
			kp_tokenizer_decode(t, ids.p, ids.n, i & 1, &out, &err)) {
			KP_BUG_ON(!err.msg[0]);
		}
	}
	for (kp_id id = 0; id < kp_tokenizer_info(t)->vocab_size + 2; id++) {
		kp_str s = kp_tokenizer_token_bytes(t, id);
		err = KP_ERR_INIT;
		kp_buf_reset(&out);
		kp_buf_add(&out, s);
		if (kp_tokenizer_decode(t, &id, 1, false, &out, &err)) {
			KP_BUG_ON(!err.msg[0]);
		}
	}
	(void)kp_tokenizer_find(t, KP_S("ab"));
	kp_buf_fini(&out);
	kp_ids_fini(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	if (!scratch) {
		load();
	}
	if (n == 0) {
		return 0;
	}
	const struct kp_token_image *from = &base[(data[0] & 0x7f) % KP_LEN(sources)]->image;
	struct kp_token_image image = { mmap(NULL, from->n, PROT_READ | PROT_WRITE,
						MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
		from->n };
	KP_BUG_ON(image.p == MAP_FAILED);
	memcpy(image.p, from->p, from->n);
	bool raw = data[0] & 0x80;
	data++;
	n--;
	if (raw) {
		memcpy(image.p, data, KP_MIN(n, image.n));
	}
	for (; !raw && n >= 11; data += 11, n -= 11) {
		/* Half of the places lie in head and facts, which are small beside the tables. */
		size_t place = data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16;
		size_t span = data[0] & 1 ? KP_MIN(image.n, (size_t)8192) : image.n;
		place %= span - 8;
		memcpy(image.p + place, data + 3, 8);
	}
	struct kp_err err = KP_ERR_INIT;
	struct kp_tokenizer *t = NULL;
	if (kp_token_image_open(image, &t, &err)) {
		KP_BUG_ON(!err.msg[0] || t);
		kp_token_image_fini(&image);
		return 0;
	}
	use(t);
	kp_tokenizer_unref(t);
	return 0;
}

/* Any text, cut into runs of any origins, through four small tokenizers: invalid UTF-8 is refused with its place; the ids are the same from a
   scratch that has seen everything and from a new one; they decode to the text (to its NFC where that is asked for); a control token
   stands only where trusted bytes are. First byte of the input: tokenizer and origins; the second one: length of the runs. */
#include "base/mem.h"
#include "base/utf8.h"
#include "json/write.h"
#include "token/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { END = 268, N_TOKENIZERS = 4 };
static struct kp_tokenizer *tokenizer[N_TOKENIZERS];
static struct kp_token_policy *policy[N_TOKENIZERS];
static struct kp_token_scratch *scratch;

static const char head[] =
	"{\"added_tokens\":[{\"id\":268,\"content\":\"<e>\",\"special\":true,\"normalized\":false},"
	"{\"id\":269,\"content\":\"<t>\",\"special\":false,\"normalized\":false},"
	"{\"id\":270,\"content\":\"\xe4\xb8\xad>\",\"special\":false,\"normalized\":true}],\"normalizer\":";
#define SPLIT(n)                                                                                                                          \
	"{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":\"(?i:'s|'t|'re|" \
	"'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|" n                                                                       \
	"| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"}}," BYTES(                                \
		"false") "]}"
#define BYTES(regex) "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":" regex "}"
static const char *const parts[N_TOKENIZERS] = {
	"{\"type\":\"NFC\"},\"pre_tokenizer\":" SPLIT("\\\\p{N}"),
	"null,\"pre_tokenizer\":" SPLIT("\\\\p{N}{1,3}"),
	"null,\"pre_tokenizer\":" BYTES("true"),
	"null,\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":true}," BYTES(
		"true") "]}",
};
static const char tail[] =
	"\"Ġt\":256,\"he\":257,\"Ġthe\":258,\"aa\":259,\"aaaa\":260,\"ĠĠ\":261,\"ä¸\":262,\"ä¸Ń\":263,\"==\":264,\"Ã©\":265,"
	"\"ab\":266,\"ba\":267},\"merges\":[\"Ġ t\",\"h e\",\"Ġt he\",\"a a\",\"aa aa\",\"Ġ Ġ\",\"ä ¸\",\"ä¸ Ń\",\"= =\","
	"\"Ã ©\",\"a b\",\"b a\"]}}";

static void load(void)
{
	for (int k = 0; k < N_TOKENIZERS; k++) {
		struct kp_err err = KP_ERR_INIT;
		struct kp_buf b;
		kp_buf_init(&b, 1 << 20);
		kp_buf_addz(&b, head);
		kp_buf_addz(&b, parts[k]);
		kp_buf_lit(&b,
			",\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{");
		unsigned next = 256;
		for (unsigned c = 0; c < 256; c++) {
			bool shown = (c >= 33 && c <= 126) || (c >= 161 && c <= 172) || c >= 174;
			char text[4];
			size_t n = kp_utf8_encode(shown ? c : next++, text);
			kp_json_w_str(&b, kp_str_n(text, n));
			kp_buf_printf(&b, ":%u,", c);
		}
		kp_buf_addz(&b, tail);
		KP_BUG_ON(kp_tokenizer_from_hf(kp_buf_str(&b), KP_STR_NULL, &tokenizer[k], &err) !=
			  0);
		KP_BUG_ON(kp_token_policy_create(tokenizer[k], KP_POLICY_MARKERS, NULL, 0, NULL, 0,
				  &policy[k], &err) != 0);
		kp_buf_fini(&b);
	}
	scratch = kp_token_scratch_create(1 << 20);
}

static int encode(int k, struct kp_token_scratch *s, const struct kp_text *text, struct kp_ids *ids,
	struct kp_err *err)
{
	return kp_tokenizer_encode(
		tokenizer[k], s, text, &(struct kp_encode_opts){ .policy = policy[k] }, ids, err);
}

/* Every control id's text is there in trusted bytes that many times at least. */
static void check_control(const struct kp_text *text, const struct kp_ids *ids)
{
	size_t seen = 0, written = 0;
	for (size_t i = 0; i < ids->n; i++) {
		seen += ids->p[i] == END;
	}
	for (size_t i = 0, r = 0; i + 3 <= text->s.n; i++) {
		while (text->runs[r].end <= i) {
			r++;
		}
		size_t last = r;
		while (text->runs[last].end < i + 3 &&
			text->runs[last].origin == KP_ORIGIN_TRUSTED) {
			last++;
		}
		bool trusted = text->runs[last].origin == KP_ORIGIN_TRUSTED &&
			       text->runs[r].origin == KP_ORIGIN_TRUSTED;
		written += trusted && memcmp(text->s.p + i, "<e>", 3) == 0;
	}
	KP_BUG_ON(seen != written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	if (!scratch) {
		load();
	}
	if (n < 3) {
		return 0;
	}
	int k = data[0] & 3;
	size_t step = (size_t)data[1] + 1, n_runs = 0;
	struct kp_text text = { .s = kp_str_n(data + 2, n - 2) };
	struct kp_run *runs = kp_xmalloc((text.s.n / step + 1) * sizeof(*runs));
	for (size_t at = 0; at < text.s.n; at += step, n_runs++) {
		runs[n_runs] = (struct kp_run){ (uint32_t)KP_MIN(text.s.n, at + step),
			(uint32_t)((data[0] >> 2) + n_runs) % 3 };
	}
	text.runs = runs;
	text.n_runs = n_runs;
	struct kp_err err = KP_ERR_INIT;
	struct kp_ids ids, again;
	kp_ids_init(&ids, 1 << 24);
	kp_ids_init(&again, 1 << 24);
	int r = encode(k, scratch, &text, &ids, &err);
	KP_BUG_ON((r == 0) != kp_utf8_ok(text.s));
	if (r == 0) {
		struct kp_token_scratch *fresh = kp_token_scratch_create(0);
		KP_BUG_ON(encode(k, fresh, &text, &again, &err) != 0);
		KP_BUG_ON(ids.n != again.n ||
			  (ids.n && memcmp(ids.p, again.p, ids.n * sizeof(kp_id)) != 0));
		check_control(&text, &ids);
		struct kp_buf out;
		kp_buf_init(&out, 1 << 24);
		KP_BUG_ON(kp_tokenizer_decode(tokenizer[k], ids.p, ids.n, false, &out, &err) != 0);
		KP_BUG_ON(k != 0 && !kp_str_eq(kp_buf_str(&out), text.s));
		kp_buf_fini(&out);
		kp_token_scratch_destroy(fresh);
	}
	kp_ids_fini(&ids);
	kp_ids_fini(&again);
	kp_free(&runs);
	return 0;
}

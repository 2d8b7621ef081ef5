/* A tokenizer: text to ids and ids to bytes, exactly as its reference does it (Hugging Face
   tokenizers 0.23.3: Unicode 16 classes, Unicode 9 normalization). Immutable after loading, shared
   by all loops by reference; a component this code does not know is refused at load with its name,
   never approximated.

   Formats: Hugging Face `tokenizer.json`, GGUF metadata (`tokenizer.ggml.*`), SentencePiece models, tekken.json, tiktoken
   files; docs/tokenizers.md says which parts of them, and whose ids. */
#ifndef KP_TOKEN_TOKENIZER_H
#define KP_TOKEN_TOKENIZER_H

#include "core/ids.h"
#include "core/text.h"

struct kp_tokenizer;

/* Limits at load: 256 MiB of input, ids below 2^20 - 2, 2^23 - 2 merges, 65,535 bytes per token. `bytes` need not outlive the
   call. Errors: UNIMPLEMENTED names what is not known, INVALID_ARGUMENT and TOO_LARGE what is wrong. */
int kp_tokenizer_from_gguf(kp_str bytes, struct kp_tokenizer **ret, struct kp_err *err) KP_MUST_USE;
/* config_json: tokenizer_config.json's text, or KP_STR_NULL: special tokens' roles (bos, eos),
 * add_bos_token. */
int kp_tokenizer_from_hf(kp_str tokenizer_json, kp_str config_json, struct kp_tokenizer **ret,
	struct kp_err *err) KP_MUST_USE;
/* What an engine's GetTokenizer or a directory holds: names and contents; picks the format by what
 * is there. */
struct kp_tokenizer_file {
	kp_str name, bytes;
};
int kp_tokenizer_from_files(const struct kp_tokenizer_file *files, size_t n,
	struct kp_tokenizer **ret, struct kp_err *err) KP_MUST_USE;
/* A zip archive as GetTokenizer sends it, at most 256 MiB unpacked, no paths followed. */
int kp_tokenizer_from_zip(kp_str zip, struct kp_tokenizer **ret, struct kp_err *err) KP_MUST_USE;
/* A directory or a .gguf file. Blocking. */
int kp_tokenizer_from_path(
	const char *path, struct kp_tokenizer **ret, struct kp_err *err) KP_MUST_USE;
struct kp_tokenizer *kp_tokenizer_ref(struct kp_tokenizer *t);
void kp_tokenizer_unref(struct kp_tokenizer *t); /* NULL is fine; any thread */
KP_AUTO_DEFINE(struct kp_tokenizer, tokenizer, kp_tokenizer_unref);

/* Facts, valid as long as the tokenizer. */
#define KP_NO_ID UINT32_MAX
struct kp_tokenizer_info {
	size_t vocab_size;        /* highest id + 1 */
	kp_id bos, eos, pad, unk; /* KP_NO_ID: none */
	const kp_id *
		eog; /* all end-of-generation ids, eos among them; GGUF: also eot, eom and the control tokens
				     that end a turn or text; tokenizer.json: those of generation_config.json */
	size_t n_eog;
	bool add_bos;         /* an encode with special tokens puts bos first */
	kp_str chat_template; /* KP_STR_NULL: none. Jinja source */
	kp_str bos_text, eos_text, pad_text,
		unk_text;     /* for the template's variables; empty when absent */
	size_t n_cuts;        /* added tokens behind which a text can be cut (struct kp_cut) */
	kp_str kind;          /* "gguf:smollm", "hf:bpe", for `explain` and logs */
	uint64_t fingerprint; /* of everything that changes ids */
};
const struct kp_tokenizer_info *kp_tokenizer_info(const struct kp_tokenizer *t);
/* The bytes that the token decodes to; KP_STR_NULL when id is no token. For an added token mostly its text, but the reference
   decodes one whose characters all belong to the byte alphabet from it ("č" gives "\r"); kp_tokenizer_added has the text. */
kp_str kp_tokenizer_token_bytes(const struct kp_tokenizer *t, kp_id id);
bool kp_tokenizer_is_special(
	const struct kp_tokenizer *t, kp_id id); /* skipped by skip_special_tokens */
/* Id of an added or ordinary token with exactly this text, KP_NO_ID when there is none. */
kp_id kp_tokenizer_find(const struct kp_tokenizer *t, kp_str text);
/* Added tokens in id order, i from 0; false past the end. */
bool kp_tokenizer_added(
	const struct kp_tokenizer *t, size_t i, kp_id *ret_id, kp_str *ret_text, bool *ret_special);

/* Which added tokens are matched inside text of which origin. Built once per (tokenizer, template,
   policy), immutable. control: ids that count as control tokens (special tokens are always among
   them). */
enum kp_text_policy { KP_POLICY_MARKERS = 0, KP_POLICY_PLAIN, KP_POLICY_TRUSTED };
struct kp_token_policy;
int kp_token_policy_create(const struct kp_tokenizer *t, enum kp_text_policy policy,
	const kp_id *control, size_t n_control, const kp_id *markers, size_t n_markers,
	struct kp_token_policy **ret, struct kp_err *err) KP_MUST_USE;
/* Of this token, whatever the policy: only trusted text makes it. False: it is no added token. Before anybody uses the policy. */
bool kp_token_policy_guard(
	struct kp_token_policy *p, const struct kp_tokenizer *t, kp_id id) KP_MUST_USE;
void kp_token_policy_destroy(struct kp_token_policy *p);
/* The same for policies that match the same tokens in the same places of a tokenizer's text; p may be NULL. */
uint64_t kp_token_policy_digest(const struct kp_token_policy *p);
KP_AUTO_DEFINE(struct kp_token_policy, token_policy, kp_token_policy_destroy);

/* Scratch memory of one thread's encodes: piece caches and work arrays, at most max_bytes (64 KiB at least) between encodes;
   one encode may need more for a while: its normalized text, and 4 to 40 bytes per byte of a piece longer than 256 bytes. The
   caches fill as they are used. 4 MiB serve one language well; new text gains little from more, text that comes
   again much. Not shared. */
struct kp_token_scratch;
struct kp_token_scratch *kp_token_scratch_create(size_t max_bytes);
void kp_token_scratch_destroy(struct kp_token_scratch *s);

/* A place in a text behind an added token, such that the ids of the text before it do not depend on what follows. ids: how many
   there are before it in the array. (Tokenizers whose added tokens can run into each other have fewer such places, or none.) */
struct kp_cut {
	uint32_t text, ids;
};
struct kp_cuts {
	struct kp_cut *p;
	size_t n, max; /* room for max; those that come later are left out */
};

struct kp_encode_opts {
	bool add_special;                     /* bos/eos as the tokenizer's post-processor says */
	const struct kp_token_policy *policy; /* NULL: TRUSTED everywhere */
	bool file_limits; /* apply the file's `truncation` and `padding`, as the reference's encode does; serving never does */
	struct kp_cuts *cuts; /* NULL, or where to note the cuts that were met */
	struct kp_cut
		from; /* begin at this cut of a text with the same bytes and origins up to it; `ids` has what it gave up to there
			       and nothing more. Same tokenizer, policy and add_special. Zero: the begin */
};
/* Appends the ids of a text. INVALID_ARGUMENT names the byte where it is no UTF-8. RESOURCE_EXHAUSTED when ids->max is reached (stops early).
   Linear in the input, O(n log n) for one long piece. Any thread, one scratch per thread (a scratch
   serves any tokenizer). */
int kp_tokenizer_encode(const struct kp_tokenizer *t, struct kp_token_scratch *s,
	const struct kp_text *text, const struct kp_encode_opts *opts, struct kp_ids *ids,
	struct kp_err *err) KP_MUST_USE;
/* Whole decode: U+FFFD for invalid bytes, as the reference. */
int kp_tokenizer_decode(const struct kp_tokenizer *t, const kp_id *ids, size_t n, bool skip_special,
	struct kp_buf *out, struct kp_err *err) KP_MUST_USE;

/* Incremental detokenizer, one per choice, of fixed size. It holds back what the tokenizer's decoders may still change: mostly at most 3 bytes of an
   incomplete character, for some decoders the beginning of a text they replace or the last token. The concatenation of all outputs
   equals kp_tokenizer_decode of all ids; but where byte tokens (<0xNN>) in a row are no valid UTF-8 as a whole, it keeps the characters that
   were complete before the bad byte, while the reference, and kp_tokenizer_decode, give U+FFFD for each byte of the row. */
struct kp_detok {
	const struct kp_tokenizer *t;
	bool skip_special;
	uint8_t n_pending;
	char pending[4];
	bool begun, waiting, broken; /* decode.c */
	kp_id last;
	struct {
		uint32_t count;
		uint8_t matched;
		bool done;
	} op[16];
};
void kp_detok_init(struct kp_detok *d, const struct kp_tokenizer *t, bool skip_special);
/* Appends the valid UTF-8 that id completes. OUT_OF_RANGE for an id that is no token. */
int kp_detok_feed(struct kp_detok *d, kp_id id, struct kp_buf *out, struct kp_err *err) KP_MUST_USE;
/* What was held back; U+FFFD for bytes that are no character. */
void kp_detok_finish(struct kp_detok *d, struct kp_buf *out);

#endif

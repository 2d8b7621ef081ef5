/* What the files of lib/token share: the tokenizer's parts and the loaders' common back half. */
#ifndef KP_TOKEN_INTERNAL_H
#define KP_TOKEN_INTERNAL_H

#include "base/map.h"
#include "base/ref.h"
#include "base/vec.h"
#include "token/added.h"
#include "token/bpe.h"
#include "token/decoder.h"
#include "token/image.h"
#include "token/model.h"
#include "token/norm.h"
#include "token/split.h"
#include "token/tokenizer.h"
#include "token/words.h"

enum {
	KP_TOKEN_MAX_INPUT = 256 << 20, /* bytes of a tokenizer's files */
	KP_TOKEN_MAX_TEXT = UINT16_MAX, /* bytes of one token */
	KP_TOKEN_MAX_ADDED = 1 << 16,
	KP_TOKEN_MAX_EOG = 64,
	KP_TOKEN_MAX_TEMPLATE = 8, /* tokens that a post-processor puts before or after a text */
};

struct kp_span; /* encode.c */
/* Splits s into pieces and encodes them; one function per known pattern (pretok_*.c). s is whole between added tokens. */
typedef void kp_pretok_fn(
	struct kp_span *e, const uint8_t *p, const uint8_t *end, const uint8_t *readable);

struct kp_pretok {
	const char *name; /* "gpt2", ... part of the fingerprint */
	kp_pretok_fn *run;
	/* Length of the piece that begins at p < end, a character at a time; run gives the same pieces. */
	size_t (*piece)(const uint8_t *p, const uint8_t *end);
};

/* `truncation` and `padding` of a tokenizer.json; max_length SIZE_MAX, pad_length 0: none. */
struct kp_file_limits {
	size_t max_length, stride;
	size_t pad_length, pad_multiple;
	kp_id pad;
	bool truncates, only_second, left, pads, pad_left;
};

/* Characters that a tokenizer's reference takes otherwise than its scanner. */
enum kp_odd {
	KP_ODD_NONE = 0,
	KP_ODD_LLAMA, /* newer than llama.cpp's tables, or folding to an ASCII letter */
	KP_ODD_HF_1,  /* other in tokenizers 1.0 */
};

/* A character of which 1 to `most` in a row are added tokens that pieces find by themselves (rows.c). */
enum { KP_ROWS = 4, KP_ROW_MIN = 15, KP_ROW_MAX = 62 };
struct kp_row {
	uint8_t c, most; /* KP_ROW_MIN to KP_ROW_MAX */
};

/* A member more? It goes into the image too: image_facts.c, or the list of tables in image.c and what is relied on in image_check.c. */
struct kp_tokenizer {
	struct kp_refcount ref;
	uint32_t serial;        /* never reused in a process: keys of scratch caches */
	struct kp_arena *arena; /* small things: added tokens, strings, eog */
	struct kp_token_image
		image; /* where the tables and texts lie; none while it is being built */
	bool borrows;  /* from the image: the tables are not freed one by one */
	struct kp_vocab vocab;
	struct kp_bpe bpe;
	struct kp_words words; /* whole pieces that are one token */
	bool cut_text; /* a BPE of text whose pieces need neither normalizing nor splitting, only cutting (pretok_text.c) */
	struct kp_added *added; /* in id order */
	size_t n_added;
	struct kp_matcher raw, normalized;
	struct kp_matcher sparse; /* raw without what `rows` are found for */
	struct kp_row rows[KP_ROWS];
	size_t n_rows;
	bool nfc; /* the normalizer is NFC alone, which has a short way */
	bool ignore_merges;
	bool keeps_symbols; /* SentencePiece: normalization leaves the tokens of `normalized` as they are */
	struct kp_norm norm;     /* the normalizers otherwise */
	struct kp_pretok pretok; /* run is NULL: see split */
	bool longest_first;      /* of added tokens, see kp_matcher */
	enum kp_odd odd;         /* which text the scanner does not know; it has split for it */
	struct kp_split split;
	struct kp_model model;     /* text models; bpe otherwise */
	struct kp_decoder decoder; /* n == 0: ByteLevel over a byte-level vocabulary */
	struct kp_vocab
		decoded; /* what tokens read as; the same arrays as vocab when the decoder is ByteLevel over such a vocabulary */
	char *decoded_blob;           /* NULL: not its own */
	struct kp_file_limits limits; /* truncation, padding */
	kp_id prefix[KP_TOKEN_MAX_TEMPLATE], suffix[KP_TOKEN_MAX_TEMPLATE];
	size_t n_prefix, n_suffix;
	struct kp_tokenizer_info info;
};

/* An empty one: one reference, a serial number, an arena. NULL and RESOURCE_EXHAUSTED when there are no numbers left. */
struct kp_tokenizer *kp_tokenizer_new(struct kp_err *err);
/* Index in t->added of the token with this id, SIZE_MAX when it is no added token. */
size_t kp_added_index(const struct kp_tokenizer *t, kp_id id);

/* cut.c: sets KP_ADDED_CUT where it may stand. Once, after the matchers exist. */
void kp_cuts_find(struct kp_tokenizer *t);

/* rows.c: sets `rows`. Once, when all else is there. */
void kp_rows_find(struct kp_tokenizer *t);
/* Is the added token a row? */
bool kp_rows_has(const struct kp_tokenizer *t, kp_str token);
/* The first row in s that is longer than any token, and where; NULL: none. */
const struct kp_row *kp_rows_long(
	const struct kp_tokenizer *t, kp_str s, size_t *ret_at, size_t *ret_n);
/* Appends the ids of a row of n > 0. */
void kp_rows_add(
	const struct kp_tokenizer *t, const struct kp_row *row, size_t n, struct kp_ids *ids);

/* The pre-tokenizers; see pretok.h. */
extern const struct kp_pretok kp_pretok_gpt2, kp_pretok_gpt2_digits, kp_pretok_smollm,
	kp_pretok_cl100k_1, kp_pretok_cl100k_3, kp_pretok_cl100k_marks, kp_pretok_o200k,
	kp_pretok_deepseek, kp_pretok_text;

/* gguf_pre.c: does it have such a character? */
bool kp_text_is_odd(kp_str s, enum kp_odd odd);

/* GPT-2's byte alphabet. Appends the bytes that valid UTF-8 text stands for; false (nothing appended) when a character is none of it. */
struct kp_bytelevel {
	int16_t byte[0x144]; /* by code point; -1: not of the alphabet */
};
void kp_bytelevel_init(struct kp_bytelevel *b);
bool kp_bytelevel_decode(const struct kp_bytelevel *b, kp_str text, struct kp_buf *out);

/* --- loading: build.c ----------------------------------------------------------------------------------------------
   A loader gives the tokens, calls kp_build_index, gives merges and added tokens, sets what it knows in b->t, and calls
   kp_build_finish, which makes the tables. On failure kp_build_fini frees everything (it is fine after success too). */
enum { KP_MERGES_WAIT = 32 };
struct kp_merge_wait {
	kp_str left, right;  /* as in the file */
	uint32_t at, cut, n; /* the bytes of both, in wait_bytes */
	bool ok;             /* they could be decoded */
	uint64_t hash[2];
};
struct kp_build {
	struct kp_tokenizer *t;
	struct kp_bytelevel alphabet;
	struct kp_buf blob, pair; /* bytes of all tokens; of one merge */
	struct kp_buf parts;      /* what the loader read of all other parts: for the fingerprint */
	struct kp_map odd; /* ids + 1 of the vocabulary's texts that are outside of the alphabet */
	size_t cap_tok;
	KP_VEC(struct kp_merge)
	merges;
	struct kp_merge_wait wait[KP_MERGES_WAIT]; /* the last merges, not looked up yet */
	size_t n_wait;
	struct kp_buf wait_bytes;
	KP_VEC(struct kp_added)
	added; /* texts in t->arena */
	KP_VEC(kp_id)
	eog;
	bool keep_last, drop_gaps;
	bool raw;        /* tokens are bytes as they are, none of them in the alphabet */
	bool by_product; /* a merge's rank is its product's id, see kp_bpe */
	bool text;       /* tokens are text, not bytes in the alphabet; set before the first one */
	struct kp_effort effort; /* what running the file's patterns over its own tokens may take */
	size_t strip_prefix; /* bytes that a merge takes off its right side (continuing_subword_prefix) */
};
int kp_build_init(struct kp_build *b, struct kp_err *err) KP_MUST_USE;
void kp_build_fini(struct kp_build *b);
/* A token of the vocabulary, text in the byte alphabet; another text is kept as it is and never comes out of a merge. */
int kp_build_token(struct kp_build *b, kp_id id, kp_str text, struct kp_err *err) KP_MUST_USE;
int kp_build_index(struct kp_build *b, struct kp_err *err) KP_MUST_USE;
/* The next merge in rank order, sides as in the file; they must stay until kp_build_finish. INVALID_ARGUMENT, perhaps later than this
   call, when a side or the product is no token. */
int kp_build_merge(struct kp_build *b, kp_str left, kp_str right, struct kp_err *err) KP_MUST_USE;
/* flags: KP_ADDED_*. in_vocab: the id is a vocabulary token's already. The text is copied. */
int kp_build_added(
	struct kp_build *b, kp_id id, kp_str text, uint8_t flags, struct kp_err *err) KP_MUST_USE;
/* Vocabulary token with this text as it stands in the file (KP_NO_ID: none). After kp_build_index. */
kp_id kp_build_find(struct kp_build *b, kp_str text);
/* An end-of-generation token; repeated ones count once. */
int kp_build_eog(struct kp_build *b, kp_id id, struct kp_err *err) KP_MUST_USE;
int kp_build_finish(struct kp_build *b, struct kp_tokenizer **ret, struct kp_err *err) KP_MUST_USE;

#endif

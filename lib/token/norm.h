/* The normalizers of a tokenizer as a list of steps, each of which writes a new text and says where it changed the old one, so that a place in
   the result can be led back to the bytes it came from (the provenance of control tokens hangs on that). Immutable after loading;
   working memory belongs to the caller. */
#ifndef KP_TOKEN_NORM_H
#define KP_TOKEN_NORM_H

#include "base/arena.h"
#include "token/find.h"
#include "token/nfc.h"

struct kp_matcher;
struct kp_origins;
enum { KP_NORM_MAX = 24 };
enum kp_norm_kind {
	KP_NORM_NFC = KP_NFC, /* the forms as in enum kp_unicode_form */
	KP_NORM_NFD = KP_NFD,
	KP_NORM_NFKC = KP_NFKC,
	KP_NORM_NFKD = KP_NFKD,
	KP_NORM_LOWER,
	KP_NORM_ACCENTS,    /* StripAccents */
	KP_NORM_NONSPACING, /* the accents BertNormalizer strips */
	KP_NORM_STRIP,
	KP_NORM_NMT,
	KP_NORM_CLEAN,   /* BertNormalizer's clean_text */
	KP_NORM_CHINESE, /* blanks around Chinese characters */
	KP_NORM_PREPEND,
	KP_NORM_REPLACE,
	KP_NORM_CHARSMAP,
	KP_NORM_BYTES, /* ByteLevel: each byte as a character of GPT-2's alphabet */
	KP_NORM_UGM,   /* what llama.cpp does instead, left and right likewise */
	KP_NORM_WPM, /* its BertNormalizer (left: lower case, right: no accents): words with a mark before and a blank behind */
	KP_NORM_SPM, /* all that SentencePiece does: its map, blanks (left: add_dummy_prefix, right: remove_extra_whitespaces) */
};

/* SentencePiece's precompiled map: a double-array trie over texts and the texts they become. Borrowed slices. */
struct kp_charsmap {
	kp_str blob;         /* all of it */
	const uint8_t *trie; /* n units of 32 bits, little-endian */
	size_t n;
	kp_str texts; /* each ended by a NUL */
};
/* INVALID_ARGUMENT when the blob is none. The blob must outlive the map. */
int kp_charsmap_init(struct kp_charsmap *m, kp_str blob, struct kp_err *err) KP_MUST_USE;

struct kp_norm_step {
	enum kp_norm_kind kind;
	bool left, right; /* STRIP */
	bool young;       /* the forms: with the data of tokenizers 1.0 */
	kp_str text;      /* PREPEND, REPLACE */
	struct kp_pattern pattern;
	struct kp_charsmap map;
};
struct kp_norm {
	struct kp_norm_step step[KP_NORM_MAX];
	size_t n;
};
void kp_norm_fini(struct kp_norm *n);

/* What one step changed, in order. */
struct kp_norm_map {
	struct kp_nfc_change *p;
	size_t n, cap;
};
struct kp_norm_work {
	struct kp_buf text[2];
	struct kp_norm_map map[KP_NORM_MAX];
	size_t n_maps; /* of the last run */
	struct kp_nfc_work nfc;
	struct kp_find_work find;
	/* SPM: the added tokens that stay as they are in the text to come, and where that comes from; NULL: none. */
	const struct kp_matcher *protect;
	const struct kp_origins *origins;
	size_t first; /* how many bytes at the begin of the last result stand for the first byte of its input, as the reference
			 counts; 0 when that was cut off */
};
void kp_norm_work_init(struct kp_norm_work *w);
void kp_norm_work_fini(struct kp_norm_work *w);

/* Runs all steps over valid UTF-8. *ret points into w or is s; 16 bytes behind it are readable when it points into w. maps: also fill
   w->map. RESOURCE_EXHAUSTED beyond max_bytes. */
int kp_norm_run(const struct kp_norm *n, kp_str s, bool maps, size_t max_bytes,
	struct kp_norm_work *w, kp_str *ret, struct kp_err *err) KP_MUST_USE;

/* --- between the files of the steps ------------------------------------------------------------------------------- */

/* A step's output: stretches copied and stretches written anew, in order. */
struct kp_norm_out {
	struct kp_buf *out;
	struct kp_norm_map *map; /* NULL: not asked for */
	kp_str s;
	size_t first_in, first; /* see kp_norm_work */
	bool first_open;
	bool failed;
	struct kp_effort *effort;
};
void kp_norm_copy(struct kp_norm_out *o, size_t from, size_t to);
/* s[from, to) becomes `text`, which the reference aligns with the byte `align` of s. */
void kp_norm_put(struct kp_norm_out *o, size_t from, size_t to, kp_str text, size_t align);
/* charsmap.c. The longest entry that begins s; false: none. */
bool kp_charsmap_longest(const struct kp_charsmap *m, kp_str s, struct kp_effort *effort,
	kp_str *ret, size_t *ret_n);
void kp_norm_charsmap(const struct kp_charsmap *m, struct kp_norm_out *o);
void kp_norm_spm(
	const struct kp_norm_step *st, struct kp_norm_out *o, const struct kp_norm_work *w);
/* norm_llama.c */
void kp_norm_ugm(const struct kp_norm_step *st, struct kp_norm_out *o);
void kp_norm_wpm(const struct kp_norm_step *st, struct kp_norm_out *o);
/* bytelevel.c: appends the characters of GPT-2's alphabet that stand for the bytes. */
void kp_bytelevel_encode(kp_str bytes, struct kp_buf *out);

#endif

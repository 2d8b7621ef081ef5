/* Models whose vocabulary is text: BPE over characters, Unigram, WordPiece, WordLevel. (Byte-level BPE, bpe.h, has a way of its own.) What a piece
   becomes depends on its bytes alone. Immutable after loading; working memory belongs to the caller. */
#ifndef KP_TOKEN_MODEL_H
#define KP_TOKEN_MODEL_H

#include "token/bpe.h"
#include "token/borders.h"
#include "token/effort.h"
#include "token/trie.h"

enum kp_model_kind {
	KP_MODEL_BYTES = 0, /* byte-level BPE */
	KP_MODEL_BPE,
	KP_MODEL_UNIGRAM,
	KP_MODEL_WORDPIECE,
	KP_MODEL_WORDLEVEL,
	KP_MODEL_SPM_BPE, /* SentencePiece's own, spm.c */
	KP_MODEL_SPM_UNIGRAM,
};

struct kp_model {
	enum kp_model_kind kind;
	kp_id unk;      /* KP_BPE_NO_ID: none */
	bool unk_named; /* BPE: an unk_token is given; an error when it is needed and no token */
	bool fuse_unk, byte_fallback, ignore_merges;
	bool whole_lines; /* BPE: a piece of line ends alone may be one token, whatever merges say (llama.cpp's gemma4) */
	kp_id byte[256];       /* <0xNN>; KP_BPE_NO_ID: none */
	kp_str prefix, suffix; /* continuing_subword_prefix, end_of_word_suffix */
	size_t max_chars;      /* WORDPIECE */
	/* UNIGRAM, WORDPIECE */
	struct kp_trie trie;
	double *score;   /* by id */
	uint32_t *rank;  /* by id, SPM_BPE: place of its score among all, the highest 0 */
	size_t n_scores; /* of score and rank */
	double unk_score;
	uint32_t
		prefix_node; /* WORDPIECE: where the trie goes on behind the prefix; KP_TRIE_NONE: nowhere */
	/* BPE */
	kp_id *char_id; /* by code point below KP_MODEL_DIRECT */
	bool blank; /* set before kp_model_create: text is given as it was before its blanks became "▁" */
	struct kp_borders borders;
};
enum { KP_MODEL_DIRECT = 1 << 16 };

/* User-defined pieces of a Unigram model, where not everybody may write them. */
struct kp_spm_symbols {
	/* May this piece stand at [from, to) of the text that is being encoded? */
	bool (*allows)(const void *ctx, kp_id id, size_t from, size_t to);
	const void *ctx;
};
struct kp_spm_work {
	void *block;
	size_t cap;
	const struct kp_spm_symbols *symbols; /* NULL: all pieces may stand anywhere */
};
struct kp_model_work {
	struct kp_effort *effort; /* the caller's; NULL: no limit */
	struct kp_ids syms;
	struct kp_spm_work spm;
	struct kp_model_node *node; /* UNIGRAM */
	size_t cap;
};
void kp_model_work_fini(struct kp_model_work *w);

/* Builds what kind, unk, byte, prefix and the like ask for. */
int kp_model_create(
	struct kp_model *m, struct kp_vocab *v, struct kp_bpe *b, struct kp_err *err) KP_MUST_USE;
void kp_model_fini(struct kp_model *m);
/* Appends the ids of a piece. INVALID_ARGUMENT when it needs an unknown token that the model does not have. */
int kp_model_encode(const struct kp_model *m, const struct kp_vocab *v, const struct kp_bpe *b,
	kp_str piece, struct kp_model_work *w, struct kp_ids *ids, struct kp_err *err) KP_MUST_USE;
/* What merging a piece starts from, where pieces are cut (borders.set); sym has room for n. Returns how many. */
size_t kp_model_symbols(
	const struct kp_model *m, const struct kp_vocab *v, const uint8_t *p, size_t n, kp_id *sym);
/* BPE whose pieces are cut: at most KP_BPE_SMALL bytes; out has room for n ids. Returns how many. */
size_t kp_model_small(const struct kp_model *m, const struct kp_vocab *v, const struct kp_bpe *b,
	const uint8_t *p, size_t n, kp_id *out);
/* spm.c */
void kp_spm_work_fini(struct kp_spm_work *w);
/* Scores to ranks, the highest 0; equal scores are one rank. NULL: no memory. */
uint32_t *kp_spm_ranks(const double *score, size_t n) KP_MUST_USE;
int kp_spm_encode(const struct kp_model *m, const struct kp_vocab *v, kp_str piece,
	struct kp_spm_work *w, struct kp_effort *effort, struct kp_ids *ids,
	struct kp_err *err) KP_MUST_USE;
/* How many bytes of the piece can be encoded apart from what follows; all of it when it cannot be cut. */
size_t kp_model_cut(const struct kp_model *m, kp_str piece);

#endif

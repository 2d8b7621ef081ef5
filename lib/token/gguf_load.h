/* Between the files that make a tokenizer of GGUF metadata: load_gguf.c (the keys, and the kinds), gguf_vocab.c (the tokens and what they are for)
   and gguf_pre.c (pre-tokenizers). */
#ifndef KP_TOKEN_GGUF_LOAD_H
#define KP_TOKEN_GGUF_LOAD_H

#include "token/gguf.h"
#include "token/internal.h"
#include "token/load.h"

/* llama.cpp's five models. */
enum kp_gguf_kind {
	KP_GGUF_BPE,    /* gpt2 */
	KP_GGUF_SPM,    /* llama */
	KP_GGUF_WPM,    /* bert */
	KP_GGUF_UGM,    /* t5 */
	KP_GGUF_GEMMA4, /* BPE over text with byte tokens */
};

/* What the metadata says. Ids: KP_NO_ID where the key is missing. */
struct kp_gguf_meta {
	enum kp_gguf_kind kind;
	kp_str model, pre, chat_template, architecture, name;
	struct kp_gguf_array tokens, types, merges, scores, charsmap;
	bool has_types, has_merges, has_scores, has_add_bos, has_add_eos, has_accents, has_prefix;
	bool add_bos, add_eos, add_prefix, merge_spaces, lowercase, strip_accents;
	kp_id bos, eos, eot, eom, pad, unk, sep, mask;
	kp_id fim_pre, fim_suf, fim_mid, fim_pad, fim_rep, fim_sep;
};

/* Adds all tokens, and which of them are cut out of text, are shown, end a generation. Ends with kp_build_index. `score` has one
   for each token, or is NULL. */
int kp_gguf_tokens(
	struct kp_build *b, struct kp_gguf_meta *m, double *score, struct kp_err *err) KP_MUST_USE;
/* The roles, and what stands before and behind a text. */
int kp_gguf_roles(struct kp_build *b, const struct kp_gguf_meta *m, bool add_bos,
	struct kp_err *err) KP_MUST_USE;

/* The pre-tokenizer of a gpt2 model with this name. */
int kp_gguf_pre(struct kp_build *b, kp_str pre, bool *ret_add_bos, struct kp_err *err) KP_MUST_USE;
/* Patterns one behind the other, each isolating what it matches; the list ends with NULL. */
int kp_gguf_patterns(
	struct kp_tokenizer *t, const char *const *patterns, struct kp_err *err) KP_MUST_USE;

#endif

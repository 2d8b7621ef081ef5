/* Between the files that read a tokenizer.json: load_hf.c (the whole and the model), load_hf_norm.c, load_hf_split.c, load_hf_decoder.c (the chains),
   load_hf_parts.c (post-processor, added tokens, limits) and load_hf_config.c (companion files). */
#ifndef KP_TOKEN_LOAD_HF_H
#define KP_TOKEN_LOAD_HF_H

#include "json/value.h"
#include "token/load.h"

struct kp_hf {
	struct kp_build b;
	struct kp_arena *parts; /* for the duration of the load */
	size_t n_vocab;         /* entries of model.vocab */
	size_t n_new;           /* added tokens that are not in it, so far */
	bool has_type, has_unk, has_template;
	bool version_1;   /* see kp_hf_files */
	kp_str unk_token; /* BPE, WordPiece, WordLevel */
	kp_id unk_id;     /* Unigram; KP_NO_ID: none */
	kp_str added, normalizer, pre_tokenizer, post_processor, decoder, truncation, padding,
		version, model, vocab, merges; /* raw JSON */
};

/* Model: everything but vocabulary and merges. */
int kp_hf_model_option(
	struct kp_hf *h, struct kp_json *j, kp_str key, struct kp_err *err) KP_MUST_USE;
/* The chains, once the model's options are known and before its vocabulary. kp_hf_decoder may ask for text (h->b.text). */
int kp_hf_normalizer(struct kp_hf *h, struct kp_err *err) KP_MUST_USE;
int kp_hf_pre_tokenizer(struct kp_hf *h, struct kp_err *err) KP_MUST_USE;
int kp_hf_decoder(struct kp_hf *h, struct kp_err *err) KP_MUST_USE;
/* Post-processor, added tokens, truncation, padding; after the vocabulary. */
int kp_hf_parts(struct kp_hf *h, struct kp_err *err) KP_MUST_USE;
/* tokenizer_config.json, generation_config.json, chat_template.jinja. */
int kp_hf_config(struct kp_hf *h, const struct kp_hf_files *files, struct kp_err *err) KP_MUST_USE;

/* --- helpers ---------------------------------------------------------------------------------------------------------- */

/* UNIMPLEMENTED: "load tokenizer.json: what `name`". */
int kp_hf_refuse(struct kp_err *err, const char *what, kp_str name);
bool kp_hf_null(const struct kp_jv *v); /* absent or null */
/* A boolean member; `missing` when it is absent. */
bool kp_hf_flag(const struct kp_jv *v, kp_str key, bool missing);
bool kp_hf_is(const struct kp_jv *v, kp_str type);
kp_str kp_hf_type(const struct kp_jv *v); /* "(no type)" when there is none */
int kp_hf_parse(struct kp_hf *h, kp_str raw, struct kp_jv *ret, struct kp_err *err) KP_MUST_USE;
/* version_1: refuses what is not among the types (space-separated) that are known to be the same there. */
int kp_hf_same(const struct kp_hf *h, const struct kp_jv *v, const char *what, const char *types,
	struct kp_err *err) KP_MUST_USE;
/* A copy of a string member in the tokenizer's arena; refused as `what` when it is none. */
int kp_hf_text(struct kp_hf *h, const struct kp_jv *v, const char *key, kp_str *ret,
	struct kp_err *err) KP_MUST_USE;
/* A member that the reference wants: true or false; a number. */
int kp_hf_bool(const struct kp_jv *v, const char *key, bool *ret, struct kp_err *err) KP_MUST_USE;
int kp_hf_size(const struct kp_jv *v, const char *key, size_t *ret, struct kp_err *err) KP_MUST_USE;
/* {"String": "..."} or {"Regex": "..."}. */
int kp_hf_pattern(struct kp_hf *h, const struct kp_jv *v, struct kp_pattern *ret,
	struct kp_err *err) KP_MUST_USE;
/* Calls each for the components of nested Sequences, in order; `member` is the list's name. */
typedef int kp_hf_component(struct kp_hf *h, const struct kp_jv *v, struct kp_err *err);
int kp_hf_each(struct kp_hf *h, const struct kp_jv *v, kp_str member, kp_hf_component *each,
	struct kp_err *err) KP_MUST_USE;

#endif

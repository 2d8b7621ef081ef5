/* Between load_hf.c (the big parts of a tokenizer.json) and load_hf_parts.c (the small ones). */
#ifndef KP_TOKEN_LOAD_HF_H
#define KP_TOKEN_LOAD_HF_H

#include "json/value.h"
#include "token/load.h"

struct kp_hf {
	struct kp_build b;
	struct kp_arena *parts; /* for the duration of the load */
	size_t n_vocab;         /* entries of model.vocab */
	bool has_vocab, is_bpe, has_unk;
	kp_str added, normalizer, pre_tokenizer, post_processor, decoder, truncation, padding,
		version; /* raw JSON */
};

/* One member of `model` other than vocab and merges. */
int kp_hf_model_option(
	struct kp_hf *h, struct kp_json *j, kp_str key, struct kp_err *err) KP_MUST_USE;
/* Everything beside the model. */
int kp_hf_parts(struct kp_hf *h, struct kp_err *err) KP_MUST_USE;
/* tokenizer_config.json, generation_config.json, chat_template.jinja. */
int kp_hf_config(struct kp_hf *h, const struct kp_hf_files *files, struct kp_err *err) KP_MUST_USE;

#endif

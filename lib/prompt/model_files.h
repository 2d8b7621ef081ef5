/* What a model's files say besides the tokenizer: which architecture it is, which version of Mistral's format, templates with names, and how images are prepared.
   Hints: what cannot be read says nothing, and is no error (config.json of many models has NaN and Infinity in it). Blocking. */
#ifndef KP_PROMPT_MODEL_FILES_H
#define KP_PROMPT_MODEL_FILES_H

#include "base/arena.h"

enum { KP_MAX_NAMED_TEMPLATES = 16 };

struct kp_named_template {
	kp_str name; /* "tool_use", "rag", never "default" */
	kp_str source;
};
struct kp_model_files {
	kp_str architecture; /* "Qwen3ForCausalLM", or a GGUF's "llama"; "": not known, as below */
	kp_str model_type;   /* "qwen3" */
	kp_str tekken;       /* "v13" */
	kp_str efforts; /* of tekken's version 15, as a template's text: sets `efforts`, those it takes, and `effort`, the one that holds without */
	kp_str model_version; /* of Mistral's SentencePiece files, "v3": there is a tokenizer.model.v3 (or .v3m1) */
	struct kp_named_template templates[KP_MAX_NAMED_TEMPLATES];
	size_t n_templates;
	kp_str preprocessor,
		processor;      /* the text of preprocessor_config.json, processor_config.json */
	kp_str select_strategy; /* config.json's vision_feature_select_strategy, "" */
	uint32_t vision_patch;  /* its vision_config.patch_size, 0 */
};

/* A directory or a GGUF file; the archive of GetTokenizer. Everything found is in the arena. */
void kp_model_files_from_path(const char *path, struct kp_arena *a, struct kp_model_files *ret);
void kp_model_files_from_zip(kp_str zip, struct kp_arena *a, struct kp_model_files *ret);

#endif

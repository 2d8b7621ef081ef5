/* What the loaders share among themselves. */
#ifndef KP_TOKEN_LOAD_H
#define KP_TOKEN_LOAD_H

#include "token/internal.h"

/* Copies the chat template into the tokenizer; KP_STR_NULL: none. */
int kp_load_template(struct kp_tokenizer *t, kp_str source, struct kp_err *err) KP_MUST_USE;

/* The contents of a zip archive's regular files, names and bytes in the arena; directories are left out, names are labels
   and never paths. Limits: max_bytes unpacked in all, max_files. Stored and deflated entries only, CRC checked.
   wanted: those for which it says false are not unpacked, their bytes are empty; NULL: all are. */
int kp_zip_read(kp_str zip, size_t max_bytes, size_t max_files, bool (*wanted)(kp_str name),
	struct kp_arena *a, struct kp_tokenizer_file **ret, size_t *ret_n,
	struct kp_err *err) KP_MUST_USE;

/* kp_tokenizer_from_path, with `load` for what lies there; NULL: kp_tokenizer_from_files. */
typedef int kp_load_fn(void *ctx, const struct kp_tokenizer_file *files, size_t n,
	struct kp_tokenizer **ret, struct kp_err *err);
int kp_load_path(const char *path, kp_load_fn *load, void *ctx, struct kp_tokenizer **ret,
	struct kp_err *err) KP_MUST_USE;

/* tokenizer.json with its companions (each may be KP_STR_NULL). */
struct kp_hf_files {
	kp_str tokenizer, config, generation, chat_template;
	bool version_1; /* ids as tokenizers 1.0 gives them */
};
/* Appends what base64, padded or not, stands for. */
int kp_token_base64(kp_str text, struct kp_buf *out, struct kp_err *err) KP_MUST_USE;
/* A SentencePiece model, with its companions. */
int kp_load_spm(kp_str model, const struct kp_hf_files *files, struct kp_tokenizer **ret,
	struct kp_err *err) KP_MUST_USE;
/* Mistral's tekken.json; a tiktoken file, told by its name. */
int kp_load_tekken(const struct kp_hf_files *files, kp_str text, struct kp_tokenizer **ret,
	struct kp_err *err) KP_MUST_USE;
bool kp_tiktoken_is(kp_str name);
int kp_load_tiktoken(const struct kp_hf_files *files, kp_str name, kp_str text,
	struct kp_tokenizer **ret, struct kp_err *err) KP_MUST_USE;
int kp_load_hf(
	const struct kp_hf_files *files, struct kp_tokenizer **ret, struct kp_err *err) KP_MUST_USE;

#endif

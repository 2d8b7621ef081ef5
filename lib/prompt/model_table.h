/* The model table: which chat template a model gets. Its own, unless the table says that what the model was trained with is code, not that
   template (or that it has none): then the native template which stands for that code. Engines choose the same way. Pure. */
#ifndef KP_PROMPT_MODEL_TABLE_H
#define KP_PROMPT_MODEL_TABLE_H

#include "prompt/model_files.h"
#include "token/tokenizer.h"

struct kp_model_choice {
	const char *native; /* a name of template/native.h; NULL: the model's own */
	char why[96];       /* "architecture `GptOssForCausalLM`", "" for the model's own */
};

/* want: "" or "Auto": by the table; "Own": the model's own; else a native template's name. INVALID_ARGUMENT: there is none of that name.
   FAILED_PRECONDITION: the tokenizer lacks control tokens of the native template, which would come out as text. */
int kp_model_choose(kp_str want, const struct kp_tokenizer *t, const struct kp_model_files *files,
	struct kp_model_choice *ret, struct kp_err *err) KP_MUST_USE;

#endif

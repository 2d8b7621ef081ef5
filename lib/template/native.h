/* Models whose own templating is code instead of a chat template: the same prompts, written as templates (lib/template/native/), so that
   they are rendered, marked with origins, probed and limited like any other. Proven byte by byte beside the code they stand for:
     deepseek_v32, deepseek_v4   DeepSeek's encoders, called as vLLM calls them
     harmony                     openai-harmony, given what vLLM makes of a chat (gpt-oss)
     kimi_k3                     Kimi K3's encoder as vLLM calls it, by llama.cpp's port of it
     mistral_v1, _v2, _v3, _v7,  mistral-common's instruct tokenizers of these versions, for text
     _v11, _v13
   They get the variables of apply_chat_template and messages of their shape (adapt.h). */
#ifndef KP_TEMPLATE_NATIVE_H
#define KP_TEMPLATE_NATIVE_H

#include "base/buf.h"

struct kp_native_template {
	const char *name;
	const char *first; /* a line in front of the others, or NULL */
	const char *const *lines;
	size_t n_lines;
};
extern const struct kp_native_template kp_native_templates[];
extern const size_t kp_n_native_templates;

/* Adds the source of the one of this name; false: there is none. */
bool kp_template_native(kp_str name, struct kp_buf *out);

#endif

/* A model's text stack: tokenizer, chat template and what was found out about them at load.
   Immutable, shared by all loops. Two engines whose stacks have the same fingerprint serve the same
   prompts as the same ids. */
#ifndef KP_PROMPT_TEXT_STACK_H
#define KP_PROMPT_TEXT_STACK_H

#include "base/ref.h"
#include "core/turn.h"
#include "prompt/model_table.h"
#include "prompt/parsers.h"
#include "prompt/vision.h"
#include "template/adapt.h"

/* A template with a name, as the model has them beside its default one. */
struct kp_text_template {
	kp_str name;
	struct kp_template *chat;
	struct kp_template_shape shape;
};

struct kp_text_stack {
	struct kp_refcount ref;
	struct kp_tokenizer *tokenizer;
	const struct kp_tokenizer_info *info; /* the tokenizer's */
	struct kp_template *chat;             /* the default one; NULL: the model has none */
	struct kp_token_policy *policy;       /* for rendered prompts */
	enum kp_text_policy policy_kind;
	struct kp_template_shape shape;       /* what `chat` wants messages to look like */
	struct kp_model_choice choice;        /* where `chat` is from */
	struct kp_parsers parsers;            /* of what the model writes */
	kp_str tool_parser, reasoning_parser; /* asked for by name; "": not */
	struct kp_text_template *named;       /* the others */
	size_t n_named;
	const struct kp_vision *vision; /* NULL: the model takes no images, because: */
	const char *no_vision;          /* "has no preprocessor_config.json" */
	struct kp_arena *arena;         /* of names and what vision is */
	uint64_t fingerprint;
};

/* What a user may want otherwise than the model table has it. */
struct kp_text_options {
	kp_str chat_template; /* as kp_model_choose wants it; "": by the table */
	enum kp_text_policy
		policy; /* what text of clients may make control tokens; 0: the default */
	kp_str tool_parser, reasoning_parser; /* as kp_parsers_named wants them */
};
extern const char *const kp_text_policy_names[]; /* by enum kp_text_policy, NULL behind the last */

/* Blocking (reads, compiles; up to some 100 ms): control thread. The zip is what an engine's
 * GetTokenizer sends. */
int kp_text_stack_from_zip(kp_str zip, const struct kp_text_options *opts,
	struct kp_text_stack **ret, struct kp_err *err) KP_MUST_USE;
int kp_text_stack_from_path(const char *path, const struct kp_text_options *opts,
	struct kp_text_stack **ret, struct kp_err *err) KP_MUST_USE;
/* Of a tokenizer that is there already; it is taken over, also on failure. */
int kp_text_stack_from_tokenizer(struct kp_tokenizer *t, const struct kp_model_files *files,
	const struct kp_text_options *opts, struct kp_text_stack **ret,
	struct kp_err *err) KP_MUST_USE;
/* The same model with another chat template. Up to a second of computing for a bad one, at most max_memory bytes
   for it; errors as kp_template_compile. Any thread. */
int kp_text_stack_with_template(const struct kp_text_stack *of, kp_str source, size_t max_memory,
	struct kp_text_stack **ret, struct kp_err *err) KP_MUST_USE;
struct kp_text_stack *kp_text_stack_ref(struct kp_text_stack *s);
void kp_text_stack_unref(struct kp_text_stack *s); /* any thread; NULL is fine */
KP_AUTO_DEFINE(struct kp_text_stack, text_stack, kp_text_stack_unref);

/* Members of an object: "prompt" (the text), "runs" ([{"end": byte, "origin": "trusted"|"client"|"assistant"}, ...]). */
void kp_text_json(const struct kp_text *text, struct kp_buf *out);
/* Is it the name of one of the model's templates ("default", "tool_use")? Then a turn's template_source may be it. */
bool kp_text_stack_has(const struct kp_text_stack *s, kp_str name);
/* In one line, for people: "harmony (architecture `GptOssForCausalLM`)", "the model's own, and tool_use, rag", "none". */
void kp_text_stack_describe(const struct kp_text_stack *s, struct kp_buf *out);
/* {"system": "text", ..., "arguments": "object", ...}: the words of template/shape.h. */
void kp_text_shape_json(const struct kp_template_shape *s, struct kp_buf *out);
/* {"tools": "hermes", "reasoning": "qwen3", "why": "the template writes `<tool_call>`"}; "none". */
void kp_text_parsers_json(const struct kp_parsers *p, struct kp_buf *out);
/* Members of an object: "chatTemplate" (as described), "textPolicy", "parsers", "shape" (of the default template). */
void kp_text_stack_json(const struct kp_text_stack *s, struct kp_buf *out);

/* Renders the turn's chat: by the template that template_source names, else, as transformers chooses, by "tool_use" when there are tools
 * and such a template, else by the default one. FAILED_PRECONDITION when the model has no chat template.
 * Pure; now_wall_ns is what strftime_now sees. */
int kp_text_stack_render(const struct kp_text_stack *s, const struct kp_turn *turn,
	int64_t now_wall_ns, struct kp_text *ret, struct kp_err *err) KP_MUST_USE;

#endif

/* A model's text stack: tokenizer, chat template and what was found out about them at load.
   Immutable, shared by all loops. Two engines whose stacks have the same fingerprint serve the same
   prompts as the same ids. */
#ifndef KP_PROMPT_TEXT_STACK_H
#define KP_PROMPT_TEXT_STACK_H

#include "base/ref.h"
#include "core/turn.h"
#include "token/tokenizer.h"
#include "template/adapt.h"

struct kp_text_stack {
	struct kp_refcount ref;
	struct kp_tokenizer *tokenizer;
	const struct kp_tokenizer_info *info; /* the tokenizer's */
	struct kp_template *chat;             /* NULL: the model has no chat template */
	struct kp_token_policy *policy;       /* for rendered prompts */
	struct kp_template_shape shape;       /* what the template wants messages to look like */
	uint64_t fingerprint;
};

/* Blocking (reads, compiles; up to some 100 ms): control thread. The zip is what an engine's
 * GetTokenizer sends. */
int kp_text_stack_from_zip(kp_str zip, struct kp_text_stack **ret, struct kp_err *err) KP_MUST_USE;
int kp_text_stack_from_path(
	const char *path, struct kp_text_stack **ret, struct kp_err *err) KP_MUST_USE;
/* Of a tokenizer that is there already; it is taken over, also on failure. */
int kp_text_stack_from_tokenizer(
	struct kp_tokenizer *t, struct kp_text_stack **ret, struct kp_err *err) KP_MUST_USE;
/* The same model with another chat template. Up to a second of computing for a bad one; errors as kp_template_compile. Any thread. */
int kp_text_stack_with_template(const struct kp_text_stack *of, kp_str source,
	struct kp_text_stack **ret, struct kp_err *err) KP_MUST_USE;
struct kp_text_stack *kp_text_stack_ref(struct kp_text_stack *s);
void kp_text_stack_unref(struct kp_text_stack *s); /* any thread; NULL is fine */
KP_AUTO_DEFINE(struct kp_text_stack, text_stack, kp_text_stack_unref);

/* Renders the turn's chat by the stack's template, whatever its template_source. FAILED_PRECONDITION when the model has no chat template.
 * Pure; now_wall_ns is what strftime_now sees. */
int kp_text_stack_render(const struct kp_text_stack *s, const struct kp_turn *turn,
	int64_t now_wall_ns, struct kp_text *ret, struct kp_err *err) KP_MUST_USE;

#endif

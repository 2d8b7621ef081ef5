/* Which parsers a model's output gets, and its tokens to them. Chosen when the model is loaded: by what its chat template writes (or by the native template that
   stands for it); its name is no evidence. A model of which nothing is known has none. */
#ifndef KP_PROMPT_PARSERS_H
#define KP_PROMPT_PARSERS_H

#include "parse/parser.h"
#include "token/tokenizer.h"

struct kp_template;

struct kp_parsers {
	const struct kp_grammar *tools;     /* NULL: none */
	const struct kp_thinking *thinking; /* NULL: none */
	char why[96];                       /* of tools: "the template writes `<tool_call>`" */
	const struct kp_lexicon *lexicon;   /* of both, and the controls */
	/* Added tokens of the vocabulary that stand in their markers. */
	const kp_str *controls;
	const kp_id *control_ids; /* ascending */
	size_t n_controls;
};

/* native: the name of the native template, NULL: none. chat may be NULL. */
void kp_parsers_choose(struct kp_parsers *p, const char *native, const struct kp_template *chat);
/* Chosen by name instead: also by vLLM's and SGLang's names, or `none`; empty: as it was. what: the operands' names for errors. INVALID_ARGUMENT: no such parser. */
int kp_parsers_named(struct kp_parsers *p, kp_str tools, kp_str reasoning,
	const char *const what[2], struct kp_err *err) KP_MUST_USE;
/* After tools or thinking were set: finds the controls and compiles the markers; they lie in the arena. t NULL: no vocabulary, markers are text. */
int kp_parsers_compile(struct kp_parsers *p, const struct kp_tokenizer *t, struct kp_arena *a,
	struct kp_err *err) KP_MUST_USE;

/* Is the added token by itself where thoughts or calls begin or end? Turns never are. */
bool kp_parsers_is_marker(const struct kp_parsers *p, kp_str token);

/* One choice's tokens: detokenizer and parser. parser NULL: what the detokenizer gives is appended to `text`. */
int kp_parsers_feed(const struct kp_parsers *p, struct kp_detok *d, struct kp_parser *parser,
	kp_id id, struct kp_buf *text, struct kp_err *err) KP_MUST_USE;

#endif

/* What POST /parse and `kubectl kelpie parse` do: run the parsers on a text, or on token ids, and tell what clients of the chat API would get. docs/parsers.md
   has the request and the answer. */
#ifndef KP_PROMPT_PARSE_ASK_H
#define KP_PROMPT_PARSE_ASK_H

#include "prompt/text_stack.h"

enum { KP_PARSE_ASK_MAX = 8 << 20 }; /* bytes of a request */

struct kp_parse_ask {
	/* The model of that name (KP_STR_NULL: none was named); *ret: borrowed, or NULL when there is no model to ask. -1: there is none of the name. */
	int (*model)(void *ctx, kp_str name, struct kp_text_stack **ret, struct kp_err *err);
	void *ctx;
	struct kp_rng *rng;
};
/* Appends the answer's JSON. */
int kp_parse_answer(const struct kp_parse_ask *ask, kp_str body, struct kp_buf *out,
	struct kp_err *err) KP_MUST_USE;

#endif

/* continue_final_message as transformers does it: the final message's text gets a mark at its end, the conversation is rendered with it,
   and the prompt ends where the mark came out. So the template's own text behind the message (the end of the turn) is cut, whatever
   it is, and the message's text may occur in it. */
#ifndef KP_TEMPLATE_PREFILL_H
#define KP_TEMPLATE_PREFILL_H

#include "template/template.h"

/* The messages with the mark in the final one; its last text part if its content is in parts. INVALID_ARGUMENT: no text there. */
int kp_template_prefill_mark(const struct kp_jv *messages, struct kp_arena *a, struct kp_jv *ret,
	struct kp_err *err) KP_MUST_USE;
/* Cuts the text at the mark; white space before it too if the template trims the message. INVALID_ARGUMENT: the message, as it was before
   the mark, did not come through. */
int kp_template_prefill_cut(const struct kp_jv *messages, struct kp_text *text, struct kp_arena *a,
	struct kp_err *err) KP_MUST_USE;

#endif

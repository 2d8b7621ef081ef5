/* From what a client wants of an answer (its format, the tools that must or may be called) and how the model writes to a constraint for the engine: plain where
   the whole output is the answer, else a structural tag of xgrammar's that leaves thoughts free and has calls in the family's own markup. Pure.
   docs/structured-output.md. */
#ifndef KP_PARSE_CONSTRAIN_H
#define KP_PARSE_CONSTRAIN_H

#include "core/turn.h"
#include "parse/parser.h"

/* Of a model and a request. Markers that the vocabulary has as tokens are asked for as such: spelled out they would be no markers to the parser. */
struct kp_constrain_opts {
	const struct kp_grammar *tools;     /* the model's; NULL: none is known */
	const struct kp_thinking *thinking; /* NULL: none */
	enum kp_parse_start start;          /* as the parser's */
	const kp_str *controls;             /* texts of added tokens that stand in markers */
	const kp_id *control_ids;
	size_t n_controls;
	const struct kp_tool_offer *offer; /* n 0: no tools, or tool_choice none */
	const struct kp_chat *chat;        /* NULL: not a chat */
	const struct kp_output_format *format;
};

/* *ret lies in the arena or borrows from the format. *ret_reads: whose calls the output will hold; NULL: those of o->tools. INVALID_ARGUMENT, with the
   parameter, for what cannot be constrained; RESOURCE_EXHAUSTED: over KP_MAX_CONSTRAINT. */
int kp_constrain(const struct kp_constrain_opts *o, struct kp_arena *a, struct kp_constraint *ret,
	const struct kp_grammar **ret_reads, struct kp_err *err) KP_MUST_USE;

/* The form that calls of the grammar get in this vocabulary, or NULL. */
const struct kp_call_form *kp_form_of(const struct kp_grammar *g, const kp_str *controls, size_t n);

#endif

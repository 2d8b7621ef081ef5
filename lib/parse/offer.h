/* The tools that a request offers: what a parser needs of them. */
#ifndef KP_PARSE_OFFER_H
#define KP_PARSE_OFFER_H

#include "json/value.h"

struct kp_offered_tool {
	kp_str name;
	const struct kp_jv *parameters; /* the schema, or NULL */
	bool strict;                    /* the client wants calls to keep to it */
};
struct kp_tool_offer {
	const struct kp_offered_tool *tools;
	size_t n;
};

/* tools: an ARRAY as in OpenAI's API (or Anthropic's: input_schema), NONE for none; it must live as long. What is no function is passed over. */
int kp_tool_offer_create(struct kp_arena *a, const struct kp_jv *tools, struct kp_tool_offer *ret,
	struct kp_err *err) KP_MUST_USE;
const struct kp_offered_tool *kp_tool_offer_find(
	const struct kp_tool_offer *o, kp_str name); /* NULL: not offered */
/* The types of a parameter as kp_typing_of gives them; 0 when nothing is known of it. *ret_known: the schema names it. */
unsigned kp_tool_offer_types(const struct kp_offered_tool *tool, kp_str parameter, bool *ret_known);

#endif

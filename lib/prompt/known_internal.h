/* What is known of a turn's messages, between reading them and keeping them. */
#ifndef KP_PROMPT_KNOWN_INTERNAL_H
#define KP_PROMPT_KNOWN_INTERNAL_H

#include "json/value.h"
#include "prompt/cache_internal.h"
#include "template/replay.h"
#include "template/shape.h"

/* A node's `more`: of the messages from its begin on. */
struct kp_known_values {
	size_t bytes; /* of the node with this, but for the memories */
	uint32_t n;
	struct kp_template_shape shape;
	const struct kp_jv *items, *shaped; /* as read; as a template of that shape takes them */
	struct kp_tpl_memory **memories;
	/* The prompt that was made with these messages, and where all of its messages' texts lay in it, from the first on; n_rendered 0: not known. */
	struct kp_prompt_link prompt;
	const struct kp_tpl_rendered *rendered;
	uint32_t n_rendered;
};

/* Of one turn, in its arena. */
struct kp_known {
	struct kp_prompt_ask ask;       /* counts a node until it is let go */
	struct kp_text text;            /* all messages, in the body */
	uint32_t n_known, n_keep;       /* of the turn's: the first ones */
	const struct kp_jv *items;      /* the turn's */
	const struct kp_jmember *rest;  /* behind the known ones */
	const struct kp_jv *shaped;     /* the turn's, or NULL */
	struct kp_template_shape shape; /* of these */
	struct kp_tpl_memory **own;     /* of those behind the known ones, until they are kept */
	uint32_t n_own;
	struct kp_tpl_rendered *rendered; /* of the first n_keep, or NULL */
	struct kp_prompt_node *
		prompt; /* counted: of an earlier turn, which rendered what it had in common; or NULL */
};

#endif

/* What a chat template wants messages to look like, found out by rendering a few conversations of marked texts and looking at which marks
   come through. The API's messages are OpenAI's; templates were written for many other shapes (content as text or as parts, arguments
   as JSON text or as an object, tools with or without their "function" wrapper), and most lose what has another shape without a
   word. adapt.h rewrites messages accordingly. Pure. */
#ifndef KP_TEMPLATE_SHAPE_H
#define KP_TEMPLATE_SHAPE_H

#include "template/template.h"

enum kp_shape_role {
	KP_SHAPE_SYSTEM = 0,
	KP_SHAPE_USER,
	KP_SHAPE_ASSISTANT,
	KP_SHAPE_TOOL,
	KP_SHAPE_ROLES
};
enum kp_shape_content {
	KP_CONTENT_LOST = 0, /* shown in no form: this role is not for this template */
	KP_CONTENT_TEXT,
	KP_CONTENT_PARTS, /* [{"type": "text", "text": ...}, ...] */
	KP_CONTENT_EITHER,
};
enum kp_shape_args { KP_ARGS_LOST = 0, KP_ARGS_OBJECT, KP_ARGS_TEXT };
/* What has to stand beside the calls of a message that says nothing else. */
enum kp_shape_beside { KP_BESIDE_NOTHING = 0, KP_BESIDE_EMPTY, KP_BESIDE_NULL };
enum kp_shape_tools {
	KP_TOOLS_LOST = 0,
	KP_TOOLS_WRAPPED, /* {"type": "function", "function": {"name", ...}} */
	KP_TOOLS_FLAT,    /* {"name", ...} */
};

struct kp_template_shape {
	enum kp_shape_content content[KP_SHAPE_ROLES];
	enum kp_shape_args args;   /* of tool calls in history; LOST: calls are not shown */
	enum kp_shape_tools tools; /* LOST: name, description or parameters do not come through */
	enum kp_shape_beside beside_calls; /* the `content` that calls come through with */
	bool parallel_calls;               /* a message may have several calls */
	bool developer_role;               /* the template knows it by name, and shows its text */
	bool reasoning;      /* of a message whose tool calls are being answered is shown */
	bool past_reasoning; /* of an earlier turn is shown */
};

/* vars: what the template gets besides messages and tools (the special tokens), at most 16. About 30 renders of up to 200,000 steps:
   control thread. */
void kp_template_probe(const struct kp_template *t, const struct kp_template_var *vars,
	size_t n_vars, struct kp_template_shape *ret);

#endif

/* What an output has to look like, for the engine that makes it: engine-neutral. Made of a turn and its model (parse/constrain.h), carried with the sampling to
   the engine, which is told it in its own words (lib/engine) or refuses it by name. */
#ifndef KP_CORE_CONSTRAINT_H
#define KP_CORE_CONSTRAINT_H

#include "base/str.h"

enum kp_constraint_kind {
	KP_CONSTRAINT_NONE = 0,
	KP_CONSTRAINT_JSON_OBJECT, /* any JSON object */
	KP_CONSTRAINT_JSON_SCHEMA, /* text: the schema, as JSON */
	KP_CONSTRAINT_REGEX,       /* the whole output matches */
	KP_CONSTRAINT_GRAMMAR,     /* in the engine's own notation of EBNF, start rule `root` */
	KP_CONSTRAINT_CHOICE,      /* the output is one of `choices` */
	KP_CONSTRAINT_TAG,         /* text: a structural tag of xgrammar's, as JSON */
};

enum {
	KP_MAX_CONSTRAINT = 1 << 20, /* bytes of text, and of all choices together */
	KP_MAX_CONSTRAINT_CHOICES = 1024,
};

/* Holds from the first token of the output on. */
struct kp_constraint {
	enum kp_constraint_kind kind;
	kp_str text;
	const kp_str *choices;
	size_t n_choices;
};

#endif

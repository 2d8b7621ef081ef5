/* Inside of lib/parse: where the machines can be. */
#ifndef KP_PARSE_MODES_H
#define KP_PARSE_MODES_H

#include "json/value.h"

enum kp_mode {
	KP_M_TEXT = 0,
	KP_M_THOUGHT,
	KP_M_CALLS,  /* between opening marker and call, and between calls */
	KP_M_NAME,   /* of a call */
	KP_M_ID,     /* Mistral's [CALL_ID] */
	KP_M_ARGS,   /* JSON passed on as it is */
	KP_M_BROKEN, /* it is none: passed on up to the closing marker */
	KP_M_AFTER,  /* behind the arguments */
	KP_M_JSON,   /* an object with name and arguments in it */
	KP_M_PARAMS, /* tags: between parameters */
	KP_M_KEY,    /* a parameter's name */
	KP_M_VALUE_OPEN,
	KP_M_VALUE,
	KP_M_VALUE_AFTER, /* behind what closes a value, if a tag follows */
	KP_M_KEY_GUESS,   /* a parameter's begin inside of a value whose end may be missing */
	KP_M_PYTHON,
	KP_M_BRACES,
	KP_M_TYPE,    /* of a parameter, where the family says it */
	KP_M_TREE,    /* between the tags of elements */
	KP_M_ELEMENT, /* in a tag */
	KP_M_LEAF,    /* in an element that has no others */
	KP_M_HEADER,
	KP_M_MESSAGE,
	KP_N_MODES
};

/* Where a JSON object of a call stands (body_json.c). */
enum kp_envelope {
	KP_E_WAIT = 0, /* an object, or the array around them */
	KP_E_KEY,      /* a key or the end */
	KP_E_IN_KEY,
	KP_E_COLON,
	KP_E_VALUE,
	KP_E_STRING, /* name, identifier, arguments in a string */
	KP_E_ARGS,
	KP_E_SKIP,
	KP_E_NEXT, /* , or } */
	KP_E_DONE, /* behind an object */
};
enum kp_member {
	KP_MEMBER_OTHER = 0,
	KP_MEMBER_NAME,
	KP_MEMBER_ARGS,
	KP_MEMBER_ID,
	KP_MEMBER_FUNCTION
};
enum kp_python {
	KP_PY_WAIT = 0,
	KP_PY_NAME,
	KP_PY_OPEN,
	KP_PY_KEY,
	KP_PY_EQUALS,
	KP_PY_VALUE,
	KP_PY_NEXT
};

/* An element that is open (body_tree.c). */
enum { KP_TREE_DEPTH = 24 };
struct kp_element {
	size_t name;                /* where its name begins in the names of all */
	const struct kp_jv *schema; /* NULL: nothing is known */
	uint8_t kind;               /* '{', '[', 0: not known yet */
	bool has_child;
};

#endif

/* Inside of lib/parse: what counts as a marker where. */
#ifndef KP_PARSE_LEXER_H
#define KP_PARSE_LEXER_H

#include "parse/grammar.h"

enum { KP_MARK_MAX = 64, KP_SET_MAX = 24, KP_SUFFIX_MAX = 24 };

enum kp_mark {
	KP_K_NONE = 0,
	KP_K_THINK_OPEN,
	KP_K_THINK_CLOSE,
	KP_K_OPEN,
	KP_K_CLOSE,
	KP_K_CALL_OPEN,
	KP_K_CALL_CLOSE,
	KP_K_DROP,
	KP_K_NAME_END,
	KP_K_ID,
	KP_K_FENCE,
	KP_K_KEY_OPEN,
	KP_K_KEY_END,
	KP_K_VALUE_OPEN,
	KP_K_VALUE_CLOSE,
	KP_K_QUOTE,
	KP_K_TYPE_OPEN,
	KP_K_TYPE_CLOSE,
	KP_K_ELEMENT, /* a tag follows */
	KP_K_START,   /* channels: <|start|> */
	KP_K_CHANNEL,
	KP_K_MESSAGE,
	KP_K_CONSTRAIN,
	KP_K_END,
};

/* The markers that are live in one state of the machine. */
struct kp_set {
	struct kp_marker {
		char text[KP_MARK_MAX];
		uint8_t n;
		enum kp_mark kind;
		uint64_t control; /* bytes that must come from an added token */
		uint64_t special; /* and from a special one at that */
		bool suffixed;    /* a suffix may stand before its last byte */
		uint8_t word; /* where any word may stand, the byte \1 in its text; 0: nowhere */
	} m[KP_SET_MAX];
	size_t n;
	uint64_t first[4]; /* bytes that one begins with */
};
enum kp_set_name {
	KP_SET_BEGIN = 0, /* text, nothing visible yet */
	KP_SET_TEXT,
	KP_SET_THOUGHT,
	KP_SET_CALLS,
	KP_SET_NAME,
	KP_SET_ID,
	KP_SET_ARGS,
	KP_SET_STRING, /* inside of a JSON or Python string: only special tokens are markers */
	KP_SET_AFTER,
	KP_SET_PARAMS,
	KP_SET_KEY,
	KP_SET_VALUE_OPEN,
	KP_SET_VALUE,
	KP_SET_VALUE_AFTER,
	KP_SET_BRACES,
	KP_SET_QUOTED,
	KP_SET_TYPE,
	KP_SET_TREE,
	KP_SET_ELEMENT,
	KP_SET_HEADER,
	KP_SET_MESSAGE,
	KP_N_SETS
};

/* Of a model: with its tools, and for requests without. */
struct kp_lexicon {
	const struct kp_grammar *tools;
	const struct kp_thinking *thinking;
	struct kp_set with_tools[KP_N_SETS], without[KP_N_SETS];
};

struct kp_parser;
void kp_lex_push(struct kp_parser *p, kp_str text, bool control, bool hidden);
void kp_lex_settle(struct kp_parser *p, bool at_end);

#endif

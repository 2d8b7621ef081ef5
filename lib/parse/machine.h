/* Inside of lib/parse: the parser's state, and its parts. parser.c feeds bytes to the lexer (lexer.c), which gives data and markers to the machine of the
   mode: text and thoughts (parser.c), calls (calls.c), JSON (body_json.c), tags (body_tags.c), elements (body_tree.c), Python and braces (body_python.c), channels (channels.c). */
#ifndef KP_PARSE_MACHINE_H
#define KP_PARSE_MACHINE_H

#include "parse/jscan.h"
#include "parse/lexer.h"
#include "parse/literal.h"
#include "parse/modes.h"
#include "parse/parser.h"

#include "base/rand.h"

enum { KP_NAME_MAX = 256, KP_LOOK_AHEAD = 512 };

struct kp_parser {
	const struct kp_grammar *g; /* NULL: calls are text */
	const struct kp_thinking *t;
	const struct kp_tool_offer *offer;
	struct kp_rng *rng;
	void (*emit)(void *ctx, const struct kp_event *ev);
	void *ctx;
	uint32_t choice;
	bool one_call;

	/* lexer.c */
	const struct kp_set *sets; /* of the lexicon */
	char held[KP_MARK_MAX];
	uint64_t held_control, held_hidden;
	uint8_t n_held;
	char suffix[KP_SUFFIX_MAX + 1]; /* of markers that have one */
	uint8_t n_suffix;
	bool has_suffix;

	/* output: what is next to each other and of one kind leaves as one event */
	enum kp_event_kind out_kind;
	struct kp_buf out;
	uint64_t n_dropped;

	uint8_t mode;       /* enum kp_mode */
	uint8_t skip_lines; /* line ends that are markup */
	struct kp_buf
		space; /* white space of the text, which may turn out to be markup before a call */
	bool has_text; /* something visible came */
	bool had_thought, muted;

	/* calls.c */
	enum kp_body body;
	struct kp_buf raw; /* everything since the text, while it may be no call */
	bool confirmed;    /* the call has begun for the client */
	bool is_bare;      /* without a marker */
	bool in_section;
	size_t n_calls, n_calls_before; /* before: of this section */
	struct kp_buf name, id;
	struct kp_buf word; /* a key, a string, a value that must be whole to be typed */
	struct kp_buf args; /* arguments that came before the name */
	struct kp_jscan scan;

	/* body_json.c */
	uint8_t envelope, member; /* enum kp_envelope, kp_member */
	bool in_array, has_name, has_args, escaped;
	uint8_t level; /* 2: inside of "function" */

	/* body_tags.c */
	const struct kp_offered_tool *tool;
	unsigned types;
	bool is_marked; /* the type came with the parameter */
	bool is_open, has_key, is_streaming, call_closed;
	struct kp_buf key, tail, given;

	/* body_python.c */
	uint8_t python; /* enum kp_python */
	bool in_list;
	struct kp_literal literal;

	/* body_tree.c */
	struct kp_element elements[KP_TREE_DEPTH];
	uint8_t n_elements;
	struct kp_buf names; /* of open elements, each ended by a zero byte */

	/* channels.c */
	struct kp_buf header;
	enum kp_event_kind message_kind;
};

/* parser.c */
enum kp_set_name kp_parser_live(const struct kp_parser *p);
/* Takes at least a byte, or changes the mode and takes none. */
size_t kp_parser_data(struct kp_parser *p, kp_str run, bool hidden);
void kp_parser_mark(struct kp_parser *p, enum kp_mark kind, kp_str text);
void kp_out(struct kp_parser *p, enum kp_event_kind kind, kp_str text);
void kp_out_flush(struct kp_parser *p, bool whole);
void kp_out_text(struct kp_parser *p, kp_str text);
void kp_text_again(struct kp_parser *p); /* mode: text */

/* calls.c */
void kp_calls_open(struct kp_parser *p, kp_str text, bool bare);
void kp_calls_next(struct kp_parser *p);              /* a call begins */
void kp_calls_close(struct kp_parser *p);             /* the section ends */
void kp_calls_reject(struct kp_parser *p);            /* what was held is text */
bool kp_call_start(struct kp_parser *p, kp_str name); /* false: rejected */
void kp_call_args(struct kp_parser *p, kp_str json);
void kp_call_end(struct kp_parser *p);
void kp_call_raw(struct kp_parser *p, char c, bool in_string); /* a byte of the model's own JSON */
size_t kp_calls_data(struct kp_parser *p, kp_str run);
void kp_calls_mark(struct kp_parser *p, enum kp_mark kind, kp_str text);
void kp_calls_finish(struct kp_parser *p, bool truncated);
kp_str kp_head_attribute(kp_str head, kp_str want);
bool kp_name_is_good(kp_str name);
static inline bool kp_is_space(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}
bool kp_all_space(kp_str s);

/* the bodies */
void kp_json_body_begin(struct kp_parser *p);
size_t kp_json_body_data(struct kp_parser *p, kp_str run);
void kp_json_body_finish(struct kp_parser *p, bool truncated);
bool kp_json_unescape(kp_str raw, struct kp_buf *out);
void kp_tags_begin(struct kp_parser *p); /* the name is known */
size_t kp_tags_data(struct kp_parser *p, kp_str run);
bool kp_tags_mark(struct kp_parser *p, enum kp_mark kind, kp_str text); /* false: not its affair */
void kp_tags_end(struct kp_parser *p);                                  /* of the call */
void kp_tags_finish(struct kp_parser *p, bool truncated);
void kp_value_begin(struct kp_parser *p); /* of the parameter `key` of the type `types` */
void kp_value_text(struct kp_parser *p, kp_str text);
void kp_value_end(struct kp_parser *p);
void kp_put_escaped(struct kp_parser *p, kp_str text); /* into a string of the arguments */
unsigned kp_type_named(kp_str name);                   /* 0: a string, or no type */
void kp_tree_begin(struct kp_parser *p);
size_t kp_tree_data(struct kp_parser *p, kp_str run);
bool kp_tree_mark(struct kp_parser *p, enum kp_mark kind, kp_str text); /* false: not its affair */
void kp_tree_lead(struct kp_parser *p); /* what stands before the next value */
void kp_tree_end(struct kp_parser *p);  /* closes all */
void kp_python_begin(struct kp_parser *p);
size_t kp_python_data(struct kp_parser *p, kp_str run);
void kp_python_finish(struct kp_parser *p, bool truncated);
void kp_braces_begin(struct kp_parser *p);
size_t kp_braces_data(struct kp_parser *p, kp_str run);
void kp_braces_mark(struct kp_parser *p);
void kp_object_key(struct kp_parser *p, kp_str key); /* {"key": or ,"key": */
void kp_object_end(struct kp_parser *p);
void kp_channels_begin(struct kp_parser *p);
size_t kp_channels_data(struct kp_parser *p, kp_str run);
void kp_channels_mark(struct kp_parser *p, enum kp_mark kind, kp_str text);
void kp_channels_finish(struct kp_parser *p, bool truncated);

#endif

/* Text of a model to events: visible text, reasoning, tool calls. One per choice; the same events, when joined, however the text is cut. Nothing is
   guessed and taken back: an event is final. What cannot be read as a call is shown as text. docs/parsers.md.

   Linear in the text; holds at most what may still become a marker, and a call until its name is known (struct kp_parse_opts.max_bytes). One thread. */
#ifndef KP_PARSE_PARSER_H
#define KP_PARSE_PARSER_H

#include "core/event.h"
#include "core/text.h"
#include "parse/grammar.h"
#include "parse/offer.h"

struct kp_arena;
struct kp_lexicon;
struct kp_parser;
struct kp_rng;

/* What counts as a marker where: made once for a model (some 80 KiB in the arena), for any number of parsers on any threads. Either of tools and thinking may be
   NULL: those are text. controls: texts of the vocabulary's added tokens that stand in their markers: there only the token is the marker, the same text
   written out is text; n 0: markers are found by text alone. Copied. RESOURCE_EXHAUSTED: the arena is full. */
int kp_lexicon_create(struct kp_arena *a, const struct kp_grammar *tools,
	const struct kp_thinking *thinking, const kp_str *controls, size_t n,
	const struct kp_lexicon **ret, struct kp_err *err) KP_MUST_USE;

enum kp_parse_start {
	KP_PARSE_AUTO = 0, /* by the family */
	KP_PARSE_IN_TEXT,
	KP_PARSE_IN_THOUGHT
};

struct kp_parse_opts {
	const struct kp_lexicon *lexicon; /* must live as long */
	const struct kp_tool_offer
		*offer; /* of the request; without tools in it calls are text. Must live as long */
	enum kp_parse_start start;
	bool one_call;      /* parallel_tool_calls: false: what follows the first call is dropped */
	uint32_t choice;    /* of the events */
	size_t max_bytes;   /* of what is held; 0: 64 MiB */
	struct kp_rng *rng; /* identifiers of calls; must live as long */
	void (*emit)(void *ctx, const struct kp_event *ev);
	void *ctx;
};
struct kp_parser *kp_parser_create(const struct kp_parse_opts *opts);
void kp_parser_destroy(struct kp_parser *p); /* NULL is fine */
KP_AUTO_DEFINE(struct kp_parser, parser, kp_parser_destroy);

/* Text, valid UTF-8 as a whole. RESOURCE_EXHAUSTED: more was to be held than max_bytes; the parser is of no use then. */
int kp_parser_feed(struct kp_parser *p, kp_str text, struct kp_err *err) KP_MUST_USE;
/* One added token, with its text. hidden: where it is no marker it is not shown (a special token). */
int kp_parser_feed_control(
	struct kp_parser *p, kp_str text, bool hidden, struct kp_err *err) KP_MUST_USE;
/* What is known so far becomes events; neighbours of one kind are one event. Call it behind each piece that arrived. */
void kp_parser_flush(struct kp_parser *p);
/* truncated: the text was cut (finish reason length), so a call that has no end stays as it is; else it is completed where only closing tags lack. */
int kp_parser_finish(struct kp_parser *p, bool truncated, struct kp_err *err) KP_MUST_USE;

size_t kp_parser_n_calls(const struct kp_parser *p);
bool kp_parser_in_thought(const struct kp_parser *p);
/* Bytes of markup that could be given to nobody (a damaged parameter of a call that had begun). */
uint64_t kp_parser_n_dropped(const struct kp_parser *p);

/* Where the model begins, by the end of the rendered prompt: behind the last turn's begin, is a thought open (the template opened it), or closed (an empty
   block)? AUTO: the prompt says nothing. Only so many last bytes are looked at. A marker that a client wrote, in a message or a tool's result, is none. */
enum { KP_PARSE_TAIL = 4096 };
enum kp_parse_start kp_parse_start_of(const struct kp_thinking *t, const struct kp_text *prompt);
/* Does a parser that starts so begin inside of a thought? */
bool kp_parse_begins_in_thought(const struct kp_thinking *t, enum kp_parse_start start);

#endif

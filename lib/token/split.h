/* The pre-tokenizers of a tokenizer as a list of steps. Each cuts a piece into smaller ones and may write them anew; what comes out of the last
   one goes to the model. For the patterns that have a scanner of their own see pretok.h. Immutable after loading; working memory belongs
   to the caller. */
#ifndef KP_TOKEN_SPLIT_H
#define KP_TOKEN_SPLIT_H

#include "token/find.h"

enum { KP_SPLIT_MAX = 16 };
enum kp_split_kind {
	KP_SPLIT_PATTERN = 0,
	KP_SPLIT_SPACE, /* white space */
	KP_SPLIT_DIGIT, /* numbers */
	KP_SPLIT_PUNCTUATION,
	KP_SPLIT_WORDS, /* Whitespace: runs of word characters, runs of others that are no white space */
	KP_SPLIT_SCRIPTS,
	KP_SPLIT_FIXED, /* `length` characters each */
	KP_SPLIT_METASPACE,
	KP_SPLIT_BYTES, /* ByteLevel: GPT-2's pattern if `regex`, then the alphabet */
};
enum kp_split_behavior {
	KP_SPLIT_REMOVED = 0,
	KP_SPLIT_ISOLATED,
	KP_SPLIT_WITH_PREVIOUS,
	KP_SPLIT_WITH_NEXT,
	KP_SPLIT_CONTIGUOUS,
};
enum kp_split_scheme { KP_SCHEME_NEVER = 0, KP_SCHEME_ALWAYS, KP_SCHEME_FIRST };

struct kp_split_step {
	enum kp_split_kind kind;
	enum kp_split_behavior behavior;
	enum kp_split_scheme scheme; /* METASPACE; BYTES: ALWAYS is add_prefix_space */
	bool invert;
	bool cut;     /* METASPACE: split; BYTES: use_regex */
	bool plain;   /* BYTES: leave bytes as they are, the model takes them so */
	char mark[4]; /* METASPACE: the replacement */
	size_t mark_n;
	size_t length; /* FIXED */
	struct kp_pattern pattern;
};
struct kp_split {
	struct kp_split_step step[KP_SPLIT_MAX];
	size_t n;
};
void kp_split_fini(struct kp_split *s);

/* A piece. first: it begins at the begin of the whole text, as the reference counts; first_n: how many bytes at its begin do, were it cut
   there. */
struct kp_piece {
	kp_str s;
	bool first;
	size_t first_n;
};
/* Takes a piece; false: stop. 16 bytes are readable at s.p whenever the text that was given in had them behind it. */
typedef bool kp_piece_sink(void *ctx, kp_str s);

struct kp_split_work {
	struct kp_buf text[KP_SPLIT_MAX]; /* what a step wrote anew */
	struct kp_find_work find;
};
void kp_split_work_init(struct kp_split_work *w);
void kp_split_work_fini(struct kp_split_work *w);

/* RESOURCE_EXHAUSTED from a pattern, or beyond memory; false from the sink ends it with -1 and no error set. */
int kp_split_run(const struct kp_split *s, struct kp_piece piece, struct kp_split_work *w,
	kp_piece_sink *sink, void *ctx, struct kp_err *err) KP_MUST_USE;

#endif

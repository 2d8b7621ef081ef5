/* A tokenizer's decoders. Up to where the chain joins its tokens (Fuse, ByteLevel, its end) each token's text depends on the token and on whether
   it is the first or the last one, so it is worked out for every token at load; what comes behind works on the joined text, byte by byte,
   with a few numbers of state. */
#ifndef KP_TOKEN_DECODER_H
#define KP_TOKEN_DECODER_H

#include "base/arena.h"
#include "token/bpe.h"
#include "token/find.h"

enum { KP_DECODER_MAX = 16, KP_DECODER_OPS = 16 };
enum kp_decoder_kind {
	KP_DEC_REPLACE,
	KP_DEC_STRIP,
	KP_DEC_METASPACE,
	KP_DEC_WORDPIECE,
	KP_DEC_BPE,
	KP_DEC_CTC,
	KP_DEC_SPACES, /* no decoder: tokens joined by blanks */
	KP_DEC_BYTES,  /* ByteLevel; the end of its part of the chain */
};

struct kp_decoder_step {
	enum kp_decoder_kind kind;
	struct kp_pattern pattern; /* REPLACE */
	kp_str text; /* REPLACE: content; WORDPIECE: prefix; BPE: suffix; CTC: pad; STRIP, METASPACE: the character */
	kp_str text2;       /* CTC: the word delimiter */
	size_t start, stop; /* STRIP */
	bool flag;          /* METASPACE: the first token's marks vanish; WORDPIECE, CTC: cleanup */
};
/* On the joined text. */
struct kp_decoder_op {
	kp_str find, content; /* replace; or, strip: find is the character */
	uint8_t *
		fail; /* of find: how much of it still matches behind i bytes that did and one that did not */
	size_t start, stop;
	bool strip;
};
struct kp_decoder {
	struct kp_decoder_step step[KP_DECODER_MAX];
	size_t n;
	struct kp_decoder_op op[KP_DECODER_OPS];
	size_t n_ops;
	bool fallback; /* ByteFallback: tokens <0xNN> are bytes */
	bool per_char; /* SentencePiece: characters of such bytes stand even beside broken ones */
	uint8_t bos_space; /* SentencePiece: 1: the first text loses a blank at its begin; 2: every token does as long as there is no text */
	kp_str unknown;    /* what KP_SHAPE_UNK reads as */
	bool dedup;        /* CTC: a token that repeats the one before vanishes */
	bool any_first;    /* a first token may read differently */
	bool any_last;
};
void kp_decoder_fini(struct kp_decoder *d);

/* Sets fail. TOO_LARGE: find has more than 255 bytes. */
int kp_decoder_add_op(struct kp_decoder *d, struct kp_decoder_op op, struct kp_arena *a,
	struct kp_err *err) KP_MUST_USE;
/* WordPiece's cleanup, as replacements in order. */
struct kp_cleanup {
	kp_str find, content;
};
extern const struct kp_cleanup kp_cleanups[11];

/* Appends what a token reads as; false: it vanishes (CTC). */
bool kp_decoder_token(const struct kp_decoder *d, kp_str token, bool first, bool last,
	struct kp_find_work *work, struct kp_buf *out, struct kp_err *err);
/* The byte of a token <0xNN>, -1 when it is none. */
int kp_decoder_byte(kp_str token);

#endif

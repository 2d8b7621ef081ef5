/* Added tokens: the texts that are cut out before anything else, as Hugging Face's AddedVocabulary does it, restricted by where
   the text came from (policy.c). Immutable after loading. */
#ifndef KP_TOKEN_ADDED_H
#define KP_TOKEN_ADDED_H

#include "core/ids.h"
#include "core/text.h"
#include "token/effort.h"

enum {
	KP_ADDED_SPECIAL = 1,
	KP_ADDED_NORMALIZED = 2, /* matched in normalized text, after the others */
	KP_ADDED_LSTRIP = 4,
	KP_ADDED_RSTRIP = 8,
	KP_ADDED_WORD = 16, /* single_word */
	KP_ADDED_SYMBOL =
		32, /* SentencePiece's user-defined piece: normalization leaves it alone */
	KP_ADDED_CUT =
		64, /* what stands before it and itself never depend on what follows (cut.c) */
	KP_ADDED_ASCII = 128, /* LSTRIP, RSTRIP: ASCII white space only */
};

enum { KP_ADDED_FIRSTS = 8 };

struct kp_added {
	kp_str text;  /* as matched (normalized, where KP_ADDED_NORMALIZED) */
	kp_str shown; /* as written in the file */
	kp_id id;
	uint8_t flags;
};

/* The tokens of one pass, sorted by text: `order` holds indices into the tokenizer's list. */
struct kp_matcher {
	const struct kp_added *added;
	uint32_t *order;
	size_t n;
	bool first[256];        /* bytes that begin a token */
	bool alone[256];        /* bytes that are one */
	uint64_t pair[256][4];  /* bit b of row a: a token begins with a and b */
	uint32_t begin[256][2]; /* where in `order` the tokens with this first byte are */
	uint8_t firsts[KP_ADDED_FIRSTS][16]; /* these bytes, when they are so few: 16 of each */
	size_t n_firsts;                     /* how many there are */
	bool longest_first; /* llama.cpp: a token gives way to a longer one that begins within it. See gguf_vocab.c */
};
int kp_matcher_init(struct kp_matcher *m, const struct kp_added *added, size_t n, bool normalized,
	struct kp_err *err) KP_MUST_USE;
/* Makes it pass over the tokens that begin with c. */
void kp_matcher_leave_out(struct kp_matcher *m, uint8_t c);
void kp_matcher_fini(struct kp_matcher *m);

/* Where text came from. policy NULL: everything is trusted. shift and maps translate places in normalized text. */
struct kp_token_policy;
struct kp_norm_map;
struct kp_origins {
	const struct kp_token_policy *policy;
	const struct kp_run *runs;
	size_t n_runs;
	size_t shift;
	const struct kp_norm_map *map; /* of the normalizers, first to last */
	size_t n_maps;
	struct kp_effort *effort; /* what searching may take, NULL: no limit */
};
/* Does the policy say of one of kp_tokenizer's rows who may write it? */
bool kp_policy_rules_rows(const struct kp_token_policy *p);
/* May the added token with this index stand at [from, to) of the (possibly normalized) text? */
bool kp_policy_allows(const struct kp_origins *o, size_t index, size_t from, size_t to);

/* Goes through a text: each call gives the next match, with the plain text before it being [*done, ret->from).
   false: no more; the rest from *done is plain (or the effort is over). */
struct kp_match {
	size_t from, to;
	size_t end; /* of its text, before the white space that rstrip swallows */
	const struct kp_added *token;
};
struct kp_match_state {
	size_t at;         /* where the search goes on */
	size_t done;       /* end of the last match, white space that it swallowed included */
	size_t seen, from; /* the bytes of [from, seen), at most 64, that begin a token are */
	uint64_t firsts;   /* these */
};
bool kp_matcher_next(const struct kp_matcher *m, const struct kp_origins *o, kp_str text,
	struct kp_match_state *state, struct kp_match *ret);

/* White space from `at` on, as rstrip swallows it: where it ends. */
size_t kp_matcher_skip_space(kp_str text, size_t at);
/* Length of the longest token that may stand at `at`; 0: none. */
size_t kp_matcher_at(
	const struct kp_matcher *m, const struct kp_origins *o, kp_str text, size_t at);

#endif

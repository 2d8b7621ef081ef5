/* Patterns of Replace and Split: a literal text or a regular expression, and the matches of one in a text as Hugging Face tokenizers finds
   them (its regex library is Oniguruma 6.9.10 with Ruby's syntax and Unicode 16).

   A regular expression is translated to PCRE2's syntax with every class of characters written out from our own tables, so that nothing
   depends on PCRE2's Unicode version; syntax that the two read differently is refused by name. Immutable after creation; working memory
   belongs to the caller (one thread). */
#ifndef KP_TOKEN_FIND_H
#define KP_TOKEN_FIND_H

#include "base/buf.h"
#include "token/effort.h"

/* Whose classes of characters \p{..} means. */
enum kp_classes {
	KP_CLASSES_HF = 0,
	KP_CLASSES_LLAMA, /* llama.cpp's: one Unicode version older */
	KP_CLASSES_HF_1, /* tokenizers 1.0's: one younger; \p{L} to \p{S}, \p{Lu}, \p{Ll}, \p{Lo} and the like only */
};
struct kp_pattern {
	kp_str literal;          /* borrowed; KP_STR_NULL: the regular expression */
	kp_str regex;            /* borrowed: its source; KP_STR_NULL: none */
	enum kp_classes classes; /* of the expression */
	void *code;              /* pcre2_code */
};
/* Limits: 4096 bytes of pattern, which is kept as it lies. UNIMPLEMENTED names what is not known in it. */
int kp_pattern_regex(kp_str pattern, enum kp_classes classes, struct kp_pattern *ret,
	struct kp_err *err) KP_MUST_USE;
static inline struct kp_pattern kp_pattern_literal(kp_str text)
{
	return (struct kp_pattern){ .literal = { text.p ? text.p : "", text.n } };
}
void kp_pattern_fini(struct kp_pattern *p);

/* What searching needs, made at the first search. Zeroed: none yet. */
struct kp_find_work {
	void *data, *context, *stack; /* PCRE2's */
	struct kp_effort *
		effort; /* the caller's, what searching may take; NULL: no limit but each match's own */
};
void kp_find_work_fini(struct kp_find_work *w);

/* The matches of a pattern in valid UTF-8, left to right, not overlapping; an empty one never directly behind another. */
struct kp_find {
	const struct kp_pattern *pattern;
	struct kp_find_work *work;
	kp_str s;
	size_t at;
	size_t last; /* end of the last match; SIZE_MAX: none yet */
};
static inline struct kp_find kp_find_begin(
	const struct kp_pattern *pattern, struct kp_find_work *work, kp_str s)
{
	return (struct kp_find){ .pattern = pattern, .work = work, .s = s, .last = SIZE_MAX };
}
/* 1: *ret_from, *ret_to; 0: no more; -1: RESOURCE_EXHAUSTED, the pattern takes too long on this text. */
int kp_find_next(
	struct kp_find *f, size_t *ret_from, size_t *ret_to, struct kp_err *err) KP_MUST_USE;

/* The translation alone, for tests. Appends PCRE2's pattern. */
int kp_regex_translate(kp_str pattern, enum kp_classes classes, struct kp_buf *out,
	struct kp_err *err) KP_MUST_USE;

#endif

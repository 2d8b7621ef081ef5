/* Character classes for the scalar half of the pre-tokenizers (pretok_*.c): the piece that begins at a place, for any valid
   UTF-8. */
#ifndef KP_TOKEN_PRETOK_H
#define KP_TOKEN_PRETOK_H

#include "token/span.h"
#include "token/unicode.h"

/* Class of the character at p < end, 0 at the end; *ret_n its length (0 at the end). */
static inline unsigned kp_class_at(const uint8_t *p, const uint8_t *end, size_t *ret_n)
{
	if (p >= end) {
		*ret_n = 0;
		return 0;
	}
	return kp_uc_class(kp_uc_get(p, ret_n));
}

/* End of the run of characters that have one of the bits in `any`. */
static inline const uint8_t *kp_run(const uint8_t *p, const uint8_t *end, unsigned any)
{
	size_t n;
	while (p < end && (kp_uc_class(kp_uc_get(p, &n)) & any)) {
		p += n;
	}
	return p;
}
/* End of the run of characters that have none of them. */
static inline const uint8_t *kp_run_not(const uint8_t *p, const uint8_t *end, unsigned none)
{
	size_t n;
	while (p < end && !(kp_uc_class(kp_uc_get(p, &n)) & none)) {
		p += n;
	}
	return p;
}

/* `\s+(?!\S)|\s+` at white space: the whole run at the end of the text or when it is one character, else all but its last one. */
static inline size_t kp_space_piece(const uint8_t *p, const uint8_t *end)
{
	const uint8_t *q = p, *last = p;
	size_t n;
	while (q < end && (kp_uc_class(kp_uc_get(q, &n)) & KP_UC_SPACE)) {
		last = q;
		q += n;
	}
	return (size_t)((q == end || last == p ? q : last) - p);
}

static inline bool kp_is_newline(const uint8_t *p)
{
	return *p == '\n' || *p == '\r';
}

/* `\s*[\r\n]+|\s+(?!\S)|\s+` at white space. */
static inline size_t kp_line_piece(const uint8_t *p, const uint8_t *end)
{
	const uint8_t *q = p, *line = NULL;
	size_t n;
	while (q < end && (kp_uc_class(kp_uc_get(q, &n)) & KP_UC_SPACE)) {
		line = kp_is_newline(q) ? q + 1 : line;
		q += n;
	}
	return line ? (size_t)(line - p) : kp_space_piece(p, end);
}

/* Length of 's 't 're 've 'm 'll 'd at p, which is the quote; 0: none. any_case: also U+017F, which folds to s. */
static inline size_t kp_contraction(const uint8_t *p, const uint8_t *end, bool any_case)
{
	size_t left = (size_t)(end - p);
	if (left < 2) {
		return 0;
	}
	uint8_t fold = any_case ? 0x20 : 0;
	uint8_t a = p[1] | fold, b = left > 2 ? p[2] | fold : 0;
	if (a == 's' || a == 't' || a == 'm' || a == 'd') {
		return 2;
	}
	if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) {
		return 3;
	}
	return any_case && p[1] == 0xc5 && left > 2 && p[2] == 0xbf ? 3 : 0;
}

#endif

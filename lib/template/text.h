/* Strings and buffers with the origin of every byte (text.c); see value.h for how a string holds a buffer. */
#ifndef KP_TEMPLATE_TEXT_H
#define KP_TEMPLATE_TEXT_H

#include "template/value.h"

int kp_tpl_buf_new(struct kp_interp *I, size_t cap, struct kp_tpl_buf **ret);
int kp_tpl_buf_grow(struct kp_interp *I, struct kp_tpl_buf *b, size_t n);
int kp_tpl_buf_grow_runs(struct kp_interp *I, struct kp_tpl_buf *b, uint32_t n);
int kp_tpl_buf_run(struct kp_interp *I, struct kp_tpl_buf *b, uint32_t end, uint8_t origin);
/* The last n bytes, which the caller has written into the room it made, have this origin. */
static inline int kp_tpl_buf_mark(
	struct kp_interp *I, struct kp_tpl_buf *b, size_t n, uint8_t origin)
{
	b->n += (uint32_t)n;
	if (KP_LIKELY(b->n_runs && b->runs[b->n_runs - 1].origin == origin)) {
		b->runs[b->n_runs - 1].end = b->n;
		return 0;
	}
	if (KP_LIKELY(b->n_runs < b->cap_runs)) {
		b->runs[b->n_runs++] = (struct kp_run){ .end = b->n, .origin = origin };
		return 0;
	}
	return kp_tpl_buf_run(I, b, b->n, origin);
}
static inline int kp_tpl_buf_add(
	struct kp_interp *I, struct kp_tpl_buf *b, kp_str s, uint8_t origin)
{
	if (KP_UNLIKELY(s.n == 0)) {
		return 0;
	}
	if (KP_UNLIKELY(b->cap - b->n < s.n) && kp_tpl_buf_grow(I, b, s.n)) {
		return -1;
	}
	memcpy(b->p + b->n, s.p, s.n);
	return kp_tpl_buf_mark(I, b, s.n, origin);
}
/* A string value, or bytes [from, to) of one, with their origins. */
int kp_tpl_buf_add_sub(struct kp_interp *I, struct kp_tpl_buf *b, const struct kp_tv *s,
	uint32_t from, uint32_t to);
static inline int kp_tpl_buf_add_str(
	struct kp_interp *I, struct kp_tpl_buf *b, const struct kp_tv *s)
{
	return KP_LIKELY(!(s->flags & KP_TVF_MIXED))
		       ? kp_tpl_buf_add(I, b, kp_str_n(s->s, s->n), s->origin)
		       : kp_tpl_buf_add_sub(I, b, s, 0, s->n);
}
int kp_tpl_buf_fill(struct kp_interp *I, struct kp_tpl_buf *b, char c, size_t n, uint8_t origin);
int kp_tpl_buf_cp(struct kp_interp *I, struct kp_tpl_buf *b, uint32_t cp, uint8_t origin);
/* The buffer as a value; it becomes the value's, but may still be appended to through values. */
struct kp_tv kp_tpl_buf_value(struct kp_tpl_buf *b);
/* Copies s into the arena. */
int kp_tpl_str_dup(struct kp_interp *I, kp_str s, uint8_t origin, struct kp_tv *ret);
int kp_tpl_str_sub(
	struct kp_interp *I, const struct kp_tv *s, uint32_t from, uint32_t to, struct kp_tv *ret);
int kp_tpl_str_concat(
	struct kp_interp *I, const struct kp_tv *a, const struct kp_tv *b, struct kp_tv *ret);
/* Origin of byte i, for callers that walk upwards: *cursor starts at 0. */
uint8_t kp_tpl_str_origin(const struct kp_tv *s, uint32_t i, uint32_t *cursor);
bool kp_tpl_is_ascii(kp_str s);
/* Byte offset of code point `cp` (<= number of code points). */
uint32_t kp_tpl_cp_offset(kp_str s, size_t cp);
size_t kp_tpl_cp_count(kp_str s);
/* markupsafe.escape of any value (text printed, & < > ' " escaped), result MARKUP. */
int kp_tpl_escape(struct kp_interp *I, const struct kp_tv *v, struct kp_tv *ret);

#endif

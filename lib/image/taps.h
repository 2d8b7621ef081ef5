/* The two passes of a resize: portable (taps.c), AVX2 (taps_avx2.c) and AVX-512 (taps_avx512.c); the same bits. */
#ifndef KP_IMAGE_TAPS_H
#define KP_IMAGE_TAPS_H

#include "base/err.h"

enum {
	KP_TAPS_BITS = 22,
	/* A coefficient is high * 2^11 + low, so that both fit products of 16 bits. */
	KP_TAPS_LOW_BITS = 11,
	KP_TAPS_ROWS = 4,  /* that are made at once: they share the work on the coefficients */
	KP_TAPS_GROUP = 4, /* coefficients of an output pixel are padded with zeros to a multiple */
};

/* For each output pixel where its input begins, how many input pixels it takes, and `stride` coefficients. Were each to take as many as the one that takes
   most, none would reach over the end. */
struct kp_taps {
	uint32_t n, stride;
	uint32_t *first, *count;
	int32_t *k;
	void *wide_block; /* NULL, or the same as AVX-512 takes it: */
	uint8_t *wide;
	size_t wide_step; /* of a block of a row, or of an output row */
};

/* KP_TAPS_ROWS output rows, or one: n = taps->n pixels of RGB from a row of RGB, rows `pitch` bytes apart. May read KP_IMAGE_PAD bytes behind a row. */
typedef void kp_taps_row_fn(
	const struct kp_taps *t, const uint8_t *from, size_t pitch, uint8_t *to, bool is_one);
/* Output row y: `bytes` bytes from rows `pitch` bytes apart; `from` is the first that counts. */
typedef void kp_taps_column_fn(const struct kp_taps *t, uint32_t y, const uint8_t *from,
	size_t pitch, uint8_t *to, size_t bytes);

kp_taps_row_fn kp_taps_row_portable;
kp_taps_column_fn kp_taps_column_portable;
#if defined(__x86_64__)
kp_taps_row_fn kp_taps_row_avx2;
kp_taps_column_fn kp_taps_column_avx2;
bool kp_taps_is_wide(void); /* the processor has what taps_avx512.c takes */
/* Lays out t->wide for them; false: not for this scale, or out of memory. */
bool kp_taps_widen_row(struct kp_taps *t);
bool kp_taps_widen_column(struct kp_taps *t);
kp_taps_row_fn kp_taps_row_avx512;
kp_taps_column_fn kp_taps_column_avx512;
#endif

static inline uint8_t kp_taps_clip(int32_t sum)
{
	int32_t v = sum >> KP_TAPS_BITS;
	return v < 0 ? 0 : v > 255 ? 255 : (uint8_t)v;
}

#endif

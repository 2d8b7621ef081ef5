/* The two passes of a resize: portable (taps.c) and AVX2 (taps_avx2.c); the same bits. */
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

/* For each output pixel where its input begins, how many input pixels it takes, and `stride` coefficients. */
struct kp_taps {
	uint32_t n, stride;
	uint32_t *first, *count;
	int32_t *k;
};

/* KP_TAPS_ROWS output rows, or one: n = taps->n pixels of RGB from a row of RGB, rows `pitch` bytes apart. May read KP_IMAGE_PAD bytes behind a row. */
typedef void kp_taps_row_fn(
	const struct kp_taps *t, const uint8_t *from, size_t pitch, uint8_t *to, bool is_one);
/* One output row: `bytes` bytes from `count` rows, `pitch` bytes apart, with coefficients k. */
typedef void kp_taps_column_fn(const int32_t *k, uint32_t count, const uint8_t *from, size_t pitch,
	uint8_t *to, size_t bytes);

kp_taps_row_fn kp_taps_row_portable;
kp_taps_column_fn kp_taps_column_portable;
#if defined(__x86_64__)
kp_taps_row_fn kp_taps_row_avx2;
kp_taps_column_fn kp_taps_column_avx2;
#endif

static inline uint8_t kp_taps_clip(int32_t sum)
{
	int32_t v = sum >> KP_TAPS_BITS;
	return v < 0 ? 0 : v > 255 ? 255 : (uint8_t)v;
}

#endif

/* Resizing as Pillow does it, bit by bit: separable filters widened by the scale when an image becomes smaller
   (antialiasing), horizontally first, each pass rounded to 8 bits; coefficients are fixed-point numbers of 22 bits (Pillow,
   src/libImaging/Resample.c, is where the numbers come from; tests/oracle/image runs it beside ours). */
#ifndef KP_IMAGE_RESAMPLE_H
#define KP_IMAGE_RESAMPLE_H

#include "image/image.h"
#include "image/taps.h"

/* Numbers are Pillow's, which preprocessor_config.json has. */
enum kp_image_filter { KP_IMAGE_LANCZOS = 1, KP_IMAGE_BILINEAR = 2, KP_IMAGE_BICUBIC = 3 };

/* *ret is the caller's, also where the size is the same (a copy). RESOURCE_EXHAUSTED when memory is gone. */
int kp_image_resize(const struct kp_image *from, uint32_t width, uint32_t height,
	enum kp_image_filter filter, struct kp_image *ret, struct kp_err *err) KP_MUST_USE;

/* The same row by row, from top to bottom. `from` stays until kp_resizer_fini. */
struct kp_resizer {
	const struct kp_image *from;
	uint32_t width, height, y;           /* y: the next row */
	struct kp_taps *columns, *rows;      /* n 0: that direction keeps its size */
	uint8_t *window;                     /* rows [begin, end) of from, resized across */
	uint32_t n_window, begin, end, last; /* last: none is needed from there on */
	kp_taps_row_fn *row;
	kp_taps_column_fn *column;
};
int kp_resizer_init(struct kp_resizer *r, const struct kp_image *from, uint32_t width,
	uint32_t height, enum kp_image_filter filter, struct kp_err *err) KP_MUST_USE;
/* The next n rows, without gaps. */
void kp_resizer_rows(struct kp_resizer *r, uint32_t n, uint8_t *to);
void kp_resizer_fini(struct kp_resizer *r);

/* For tests: resizers that are made from now on take no more of the processor than this. */
enum kp_image_simd { KP_IMAGE_SIMD_ANY = 0, KP_IMAGE_SIMD_NONE, KP_IMAGE_SIMD_AVX2 };
void kp_image_limit_simd(enum kp_image_simd limit);

#endif

/* Resizing as Pillow does it, bit by bit: separable filters widened by the scale when an image becomes smaller
   (antialiasing), horizontally first, each pass rounded to 8 bits; coefficients are fixed-point numbers of 22 bits (Pillow,
   src/libImaging/Resample.c, is where the numbers come from; tests/oracle/image runs it beside ours). */
#ifndef KP_IMAGE_RESAMPLE_H
#define KP_IMAGE_RESAMPLE_H

#include "image/image.h"

/* Numbers are Pillow's, which preprocessor_config.json has. */
enum kp_image_filter { KP_IMAGE_LANCZOS = 1, KP_IMAGE_BILINEAR = 2, KP_IMAGE_BICUBIC = 3 };

/* *ret is the caller's, also where the size is the same (a copy). RESOURCE_EXHAUSTED when memory is gone. */
int kp_image_resize(const struct kp_image *from, uint32_t width, uint32_t height,
	enum kp_image_filter filter, struct kp_image *ret, struct kp_err *err) KP_MUST_USE;

/* For tests: the halves without SIMD from now on. */
void kp_image_portable_only(bool on);

#endif

/* What the formats' decoders share. Each gives pixels as they are stored; decode.c makes them upright. */
#ifndef KP_IMAGE_CODEC_H
#define KP_IMAGE_CODEC_H

#include "image/image.h"

/* Reads the head: size and orientation as stored. */
typedef int kp_image_probe_fn(kp_str bytes, struct kp_image_info *ret, struct kp_err *err);
/* RGB over the background. *orientation may be found only now (it is 1 before). */
typedef int kp_image_decode_fn(kp_str bytes, const struct kp_image_limits *limits,
	struct kp_image *ret, uint8_t *orientation, struct kp_err *err);

kp_image_probe_fn kp_jpeg_probe, kp_png_probe, kp_webp_probe;
kp_image_decode_fn kp_jpeg_decode, kp_png_decode, kp_webp_decode;

/* "decode the PNG image: why" */
int kp_image_damaged(struct kp_err *err, enum kp_image_format f, const char *why);
int kp_image_check_size(
	uint64_t width, uint64_t height, const struct kp_image_limits *limits, struct kp_err *err);

/* The orientation of an EXIF block (TIFF 6.0, with or without "Exif\0\0" in front), 1 when it says none. */
uint8_t kp_exif_orientation(kp_str exif);

/* c over b with opacity a, rounded as Pillow's paste does. */
static inline uint8_t kp_over(uint32_t c, uint32_t b, uint32_t a)
{
	uint32_t t = c * a + b * (255 - a) + 128;
	return (uint8_t)((t + (t >> 8)) >> 8);
}
/* n pixels of RGBA to RGB; in place is fine. */
void kp_image_flatten(const uint8_t *rgba, uint8_t *rgb, size_t n, const uint8_t background[3]);

#endif

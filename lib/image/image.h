/* Images of requests: from a file's bytes to RGB, as Pillow makes it of them.

   A decoded image is upright (the EXIF orientation is applied first), opaque (what is transparent is laid over a
   background) and has three bytes a pixel. Sizes are read and judged before anything of their size is allocated. Pure: no
   file, no clock, no thread of its own; decoding takes milliseconds to a second and belongs on a worker, never on a loop. */
#ifndef KP_IMAGE_IMAGE_H
#define KP_IMAGE_IMAGE_H

#include "base/err.h"
#include "base/str.h"

enum kp_image_format { KP_IMAGE_NONE = 0, KP_IMAGE_JPEG, KP_IMAGE_PNG, KP_IMAGE_WEBP };

enum {
	KP_IMAGE_MAX_SIDE = 65535,
	KP_IMAGE_PAD = 64, /* bytes behind the last pixel that may be read, for SIMD */
};

/* Rows from top to bottom without gaps, R, G, B. Zeroed is empty. */
struct kp_image {
	uint8_t *px;
	uint32_t width, height;
};

struct kp_image_limits {
	uint64_t max_pixels;   /* of one image, before it is turned; 0: Pillow's 178,956,970 */
	uint8_t background[3]; /* under what is transparent; Pillow's users take white */
};

/* What the head of a file says, found without decoding it. */
struct kp_image_info {
	enum kp_image_format format;
	uint32_t width, height; /* upright: sides are exchanged where the orientation says so */
	uint8_t orientation;    /* EXIF's, 1 to 8 */
	/* What decoding holds at most beside file and picture (3 bytes a pixel), but for what does not grow with the picture's area. */
	uint64_t decoder_bytes;
};

/* The format by the first bytes; NONE: another one. */
enum kp_image_format kp_image_sniff(kp_str bytes);
const char *kp_image_format_name(enum kp_image_format f); /* "JPEG" */

/* INVALID_ARGUMENT for what is no image of these formats or is damaged, RESOURCE_EXHAUSTED for one that is larger than
   the limits; messages never contain bytes of the image. PNG's EXIF behind the pixels counts only for decode. */
int kp_image_probe(kp_str bytes, const struct kp_image_limits *limits, struct kp_image_info *ret,
	struct kp_err *err) KP_MUST_USE;
/* *ret is the caller's (kp_image_fini). Of an animation the first frame. */
int kp_image_decode(kp_str bytes, const struct kp_image_limits *limits, struct kp_image *ret,
	struct kp_err *err) KP_MUST_USE;

/* Pixels of that size, not zeroed. */
int kp_image_init(
	struct kp_image *i, uint32_t width, uint32_t height, struct kp_err *err) KP_MUST_USE;
void kp_image_fini(struct kp_image *i);
static inline void kp_auto_image(struct kp_image *i)
{
	kp_image_fini(i);
}

#endif

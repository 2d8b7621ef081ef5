/* From a decoded image to the numbers a vision model takes, as the image processors of Hugging Face's transformers make them
   (their PIL backend): resize, crop, scale, normalize, cut into patches. A processor is read from preprocessor_config.json;
   one that is not known is refused by name, never approximated.

     Qwen2-VL, 2.5-VL, 3-VL   sides to multiples of patch * merge within a range of pixels; float32 [patches][3 * temporal * patch * patch],
                              patches in blocks of merge by merge, each picture repeated `temporal` times
     CLIP, LLaVA-1.5          the shorter side to a length, the middle cut out; float32 [3][height][width] */
#ifndef KP_IMAGE_PROCESSOR_H
#define KP_IMAGE_PROCESSOR_H

#include "image/resample.h"
#include "json/value.h"

enum kp_image_layout { KP_IMAGE_PATCHES = 1, KP_IMAGE_PLANES };

/* Immutable once read; no memory of its own. */
struct kp_image_processor {
	enum kp_image_layout layout;
	enum kp_image_filter filter;
	bool resizes, crops, pads_to_square;
	uint32_t patch, merge, temporal; /* PATCHES */
	uint64_t min_pixels, max_pixels; /* PATCHES */
	uint32_t short_side;             /* PLANES: or, when 0, */
	uint32_t height, width;          /* exactly these */
	uint32_t crop_height, crop_width;
	uint8_t square[3];   /* what pads to a square */
	float value[3][256]; /* of each channel and byte: scaled and normalized */
};

/* What becomes of an image of a given size, known before it is decoded. */
struct kp_image_plan {
	uint32_t width, height;         /* after resizing */
	uint32_t out_width, out_height; /* after cropping */
	uint32_t grid_h, grid_w;        /* PATCHES: patches down and across */
	uint32_t n_tokens; /* PATCHES: places in the prompt; PLANES: 0, the model's own number */
	size_t n_floats;   /* or bytes */
};

/* `config` is the object of preprocessor_config.json. INVALID_ARGUMENT that names the member. */
int kp_image_processor_read(
	struct kp_image_processor *p, const struct kp_jv *config, struct kp_err *err) KP_MUST_USE;
/* INVALID_ARGUMENT: sides that differ by more than the model takes (Qwen: 200 times). */
int kp_image_processor_plan(const struct kp_image_processor *p, uint32_t width, uint32_t height,
	struct kp_image_plan *ret, struct kp_err *err) KP_MUST_USE;
/* Writes plan->n_floats floats; `plan` is of i's size. RESOURCE_EXHAUSTED when memory is gone. */
int kp_image_processor_run(const struct kp_image_processor *p, const struct kp_image_plan *plan,
	const struct kp_image *i, float *ret, struct kp_err *err) KP_MUST_USE;
/* The same in its place before it is scaled and normalized, for engines that do that: plan->n_floats bytes. */
int kp_image_processor_run_bytes(const struct kp_image_processor *p,
	const struct kp_image_plan *plan, const struct kp_image *i, uint8_t *ret,
	struct kp_err *err) KP_MUST_USE;

/* The one or the other in pieces of some 256 KiB, which are gone after each call. */
typedef int kp_image_put_fn(void *user, kp_str numbers, struct kp_err *err);
int kp_image_processor_put(const struct kp_image_processor *p, const struct kp_image_plan *plan,
	const struct kp_image *i, bool is_bytes, kp_image_put_fn *put, void *user,
	struct kp_err *err) KP_MUST_USE;

#endif

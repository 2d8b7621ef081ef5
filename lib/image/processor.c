/* DESIGN: plan (sizes only) and run (pixels). A byte becomes its float by a table of 3 * 256 values, so the result is the
   reference's to the bit. */
#include "image/processor.h"

#include "base/mem.h"

#include <math.h>

enum { MAX_RATIO = 200 };

/* --- plan ----------------------------------------------------------------------------------------------------------- */

/* Qwen's smart_resize: both sides multiples of `unit`, the area within the range, the shape kept as near as can be. */
static void fit_area(const struct kp_image_processor *p, uint32_t width, uint32_t height,
	struct kp_image_plan *plan)
{
	double unit = (double)p->patch * p->merge, w = width, h = height;
	double to_w = rint(w / unit) * unit, to_h = rint(h / unit) * unit;
	if (to_w * to_h > (double)p->max_pixels) {
		double beta = sqrt(h * w / (double)p->max_pixels);
		to_h = fmax(unit, floor(h / beta / unit) * unit);
		to_w = fmax(unit, floor(w / beta / unit) * unit);
	} else if (to_w * to_h < (double)p->min_pixels) {
		double beta = sqrt((double)p->min_pixels / (h * w));
		to_h = ceil(h * beta / unit) * unit;
		to_w = ceil(w * beta / unit) * unit;
	}
	plan->width = (uint32_t)to_w;
	plan->height = (uint32_t)to_h;
}

static int plan_patches(const struct kp_image_processor *p, uint32_t width, uint32_t height,
	struct kp_image_plan *plan, struct kp_err *err)
{
	uint32_t unit = p->patch * p->merge;
	uint32_t longer = KP_MAX(width, height), shorter = KP_MIN(width, height);
	if ((double)longer / shorter > MAX_RATIO) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"an image of %u by %u pixels: one side is more than %d times the other",
			width, height, MAX_RATIO);
	}
	plan->width = width;
	plan->height = height;
	if (p->resizes) {
		fit_area(p, width, height, plan);
	} else if (width % unit || height % unit) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"an image of %u by %u pixels: not multiples of %u, and `do_resize` is false",
			width, height, unit);
	}
	plan->out_width = plan->width;
	plan->out_height = plan->height;
	plan->grid_w = plan->width / p->patch;
	plan->grid_h = plan->height / p->patch;
	plan->n_tokens = plan->grid_w * plan->grid_h / (p->merge * p->merge);
	plan->n_floats = (size_t)plan->width * plan->height * 3 * p->temporal;
	return 0;
}

static int plan_planes(const struct kp_image_processor *p, uint32_t width, uint32_t height,
	struct kp_image_plan *plan, struct kp_err *err)
{
	if (p->pads_to_square) {
		width = height = KP_MAX(width, height);
	}
	plan->width = width;
	plan->height = height;
	if (p->resizes && !p->short_side) {
		plan->width = p->width;
		plan->height = p->height;
	} else if (p->resizes) {
		bool tall = width <= height;
		double longer = (double)p->short_side * (tall ? height : width);
		longer = floor(longer / (tall ? width : height));
		if (longer > KP_IMAGE_MAX_SIDE) {
			return kp_err_set(err, KP_INVALID_ARGUMENT,
				"an image of %u by %u pixels: too narrow for a shorter side of %u",
				width, height, p->short_side);
		}
		plan->width = tall ? p->short_side : (uint32_t)longer;
		plan->height = tall ? (uint32_t)longer : p->short_side;
	}
	plan->out_width = p->crops ? p->crop_width : plan->width;
	plan->out_height = p->crops ? p->crop_height : plan->height;
	plan->n_floats = (size_t)plan->out_width * plan->out_height * 3;
	return 0;
}

int kp_image_processor_plan(const struct kp_image_processor *p, uint32_t width, uint32_t height,
	struct kp_image_plan *ret, struct kp_err *err)
{
	struct kp_image_plan plan = { 0 };
	int status = p->layout == KP_IMAGE_PATCHES ? plan_patches(p, width, height, &plan, err)
						   : plan_planes(p, width, height, &plan, err);
	if (!status) {
		*ret = plan;
	}
	return status;
}

/* --- run ------------------------------------------------------------------------------------------------------------ */

/* One channel of n pixels of RGB; n is a constant where it can be one, the loop's own cost being as much as a pixel's. */
static inline __attribute__((always_inline)) void write_row(
	const float *restrict value, const uint8_t *restrict s, uint32_t n, float *restrict to)
{
#pragma GCC unroll 16
	for (uint32_t x = 0; x < n; x++) {
		to[x] = value[s[(size_t)x * 3]];
	}
}

/* One channel of a patch. */
static inline __attribute__((always_inline)) void write_square(
	const float *value, const uint8_t *from, size_t pitch, uint32_t patch, float *to)
{
	for (uint32_t y = 0; y < patch; y++) {
		write_row(value, from + y * pitch, patch, to + (size_t)y * patch);
	}
}

/* One patch: [channel][temporal][row][column]. */
static float *write_patch(
	const struct kp_image_processor *p, const uint8_t *from, size_t pitch, float *to)
{
	size_t n = (size_t)p->patch * p->patch;
	for (int c = 0; c < 3; c++, to += n) {
		if (p->patch == 14) {
			write_square(p->value[c], from + c, pitch, 14, to);
		} else if (p->patch == 16) {
			write_square(p->value[c], from + c, pitch, 16, to);
		} else {
			write_square(p->value[c], from + c, pitch, p->patch, to);
		}
		for (uint32_t t = 1; t < p->temporal; t++, to += n) {
			memcpy(to + n, to, n * sizeof(float));
		}
	}
	return to;
}

static uint8_t *write_patch_bytes(
	const struct kp_image_processor *p, const uint8_t *from, size_t pitch, uint8_t *to)
{
	size_t n = (size_t)p->patch * p->patch;
	for (int c = 0; c < 3; c++, to += n) {
		for (uint32_t y = 0; y < p->patch; y++) {
			const uint8_t *s = from + y * pitch + c;
			for (uint32_t x = 0; x < p->patch; x++) {
				to[(size_t)y * p->patch + x] = s[(size_t)x * 3];
			}
		}
		for (uint32_t t = 1; t < p->temporal; t++, to += n) {
			memcpy(to + n, to, n);
		}
	}
	return to;
}

/* Where the numbers go, the one or the other. */
struct out {
	float *floats;
	uint8_t *bytes;
};

/* Blocks of merge by merge patches, row by row; within a block its patches row by row. A row of blocks is resized at a time. */
static int write_patches(const struct kp_image_processor *p, const struct kp_image_plan *plan,
	const struct kp_image *i, struct out to, struct kp_err *err)
{
	size_t pitch = (size_t)plan->width * 3;
	uint32_t unit = p->patch * p->merge;
	uint8_t *band = kp_try_malloc(pitch * unit);
	struct kp_resizer r;
	if (!band) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "process an image: out of memory");
	}
	if (kp_resizer_init(&r, i, plan->width, plan->height, p->filter, err)) {
		kp_mem_free(band);
		return -1;
	}
	for (uint32_t by = 0; by < plan->grid_h; by += p->merge) {
		kp_resizer_rows(&r, unit, band);
		for (uint32_t bx = 0; bx < plan->grid_w; bx += p->merge) {
			for (uint32_t m = 0; m < p->merge * p->merge; m++) {
				uint32_t y = m / p->merge * p->patch;
				uint32_t x = (bx + m % p->merge) * p->patch;
				const uint8_t *from = band + y * pitch + (size_t)x * 3;
				if (to.bytes) {
					to.bytes = write_patch_bytes(p, from, pitch, to.bytes);
				} else {
					to.floats = write_patch(p, from, pitch, to.floats);
				}
			}
		}
	}
	kp_resizer_fini(&r);
	kp_mem_free(band);
	return 0;
}

/* The middle of the image, black around it where it is smaller. */
static void write_planes(const struct kp_image_processor *p, const struct kp_image_plan *plan,
	const struct kp_image *i, struct out to)
{
	/* Rounded down when cut, and down when padded: transformers' center_crop pads by the half rounded up and then cuts
	   the rounded-down middle of that. */
	int64_t top = ((int64_t)i->height - plan->out_height) >> 1;
	int64_t left = ((int64_t)i->width - plan->out_width) >> 1;
	for (int c = 0; c < 3; c++) {
		for (uint32_t y = 0; y < plan->out_height; y++) {
			int64_t row = top + y;
			bool inside = row >= 0 && row < i->height;
			for (uint32_t x = 0; x < plan->out_width; x++) {
				int64_t column = left + x;
				uint8_t b = 0;
				if (inside && column >= 0 && column < i->width) {
					b = i->px[((size_t)row * i->width + (size_t)column) * 3 +
						  c];
				}
				if (to.bytes) {
					*to.bytes++ = b;
				} else {
					*to.floats++ = p->value[c][b];
				}
			}
		}
	}
}

static int square_of(const struct kp_image_processor *p, const struct kp_image *i,
	struct kp_image *ret, struct kp_err *err)
{
	uint32_t side = KP_MAX(i->width, i->height);
	if (kp_image_init(ret, side, side, err)) {
		return -1;
	}
	for (size_t n = 0; n < (size_t)side * side; n++) {
		memcpy(ret->px + n * 3, p->square, 3);
	}
	size_t top = (side - i->height) / 2, left = (side - i->width) / 2;
	for (uint32_t y = 0; y < i->height; y++) {
		memcpy(ret->px + ((top + y) * side + left) * 3, i->px + (size_t)y * i->width * 3,
			(size_t)i->width * 3);
	}
	return 0;
}

static int run(const struct kp_image_processor *p, const struct kp_image_plan *plan,
	const struct kp_image *i, struct out ret, struct kp_err *err)
{
	struct kp_image square = { 0 }, resized = { 0 };
	const struct kp_image *at = i;
	int status = 0;
	if (p->pads_to_square && i->width != i->height) {
		status = square_of(p, i, &square, err);
		at = &square;
	}
	if (!status && p->layout == KP_IMAGE_PATCHES) {
		return write_patches(p, plan, at, ret, err);
	}
	if (!status && (at->width != plan->width || at->height != plan->height)) {
		status = kp_image_resize(at, plan->width, plan->height, p->filter, &resized, err);
		at = &resized;
	}
	if (!status) {
		write_planes(p, plan, at, ret);
	}
	kp_image_fini(&square);
	kp_image_fini(&resized);
	return status;
}

int kp_image_processor_run(const struct kp_image_processor *p, const struct kp_image_plan *plan,
	const struct kp_image *i, float *ret, struct kp_err *err)
{
	return run(p, plan, i, (struct out){ .floats = ret }, err);
}

int kp_image_processor_run_bytes(const struct kp_image_processor *p,
	const struct kp_image_plan *plan, const struct kp_image *i, uint8_t *ret,
	struct kp_err *err)
{
	return run(p, plan, i, (struct out){ .bytes = ret }, err);
}

/* DESIGN: plan (sizes only) and run (pixels). A byte becomes its float by a table of 3 * 256 values, so the result is the
   reference's to the bit. Patches and rows are written one behind the other, into the caller's memory or into a piece that is handed on when it is full. */
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

enum { PIECE = 256 << 10 };

/* Where the next numbers go. */
struct target {
	void *to;
	bool is_bytes;  /* what is written; else floats */
	uint8_t *piece; /* NULL: `to` is memory for all of them */
	size_t room;    /* bytes of the piece */
	kp_image_put_fn *put;
	void *user;
};

static int flush(struct target *t, struct kp_err *err)
{
	size_t n = t->piece ? (size_t)((uint8_t *)t->to - t->piece) : 0;
	if (n && t->put(t->user, kp_str_n(t->piece, n), err)) {
		return -1;
	}
	t->to = t->piece ? t->piece : t->to;
	return 0;
}

/* n numbers fit at t->to. */
static int make_room(struct target *t, size_t n, struct kp_err *err)
{
	size_t bytes = t->is_bytes ? n : n * sizeof(float);
	size_t used = t->piece ? (size_t)((uint8_t *)t->to - t->piece) : 0;
	return t->piece && used + bytes > t->room ? flush(t, err) : 0;
}

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

/* merge by merge patches, row by row. */
static int write_block(const struct kp_image_processor *p, const uint8_t *from, size_t pitch,
	struct target *t, struct kp_err *err)
{
	for (uint32_t m = 0; m < p->merge * p->merge; m++) {
		size_t y = (size_t)(m / p->merge) * p->patch, x = (size_t)(m % p->merge) * p->patch;
		if (make_room(t, (size_t)3 * p->temporal * p->patch * p->patch, err)) {
			return -1;
		}
		if (t->is_bytes) {
			t->to = write_patch_bytes(p, from + y * pitch + x * 3, pitch, t->to);
		} else {
			t->to = write_patch(p, from + y * pitch + x * 3, pitch, t->to);
		}
	}
	return 0;
}

/* Blocks, row by row. A row of blocks is resized at a time. */
static int write_patches(const struct kp_image_processor *p, const struct kp_image_plan *plan,
	const struct kp_image *i, struct target *t, struct kp_err *err)
{
	int status = 0;
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
	for (uint32_t by = 0; !status && by < plan->grid_h; by += p->merge) {
		kp_resizer_rows(&r, unit, band);
		for (uint32_t bx = 0; !status && bx < plan->grid_w; bx += p->merge) {
			const uint8_t *from = band + (size_t)bx * p->patch * 3;
			status = write_block(p, from, pitch, t, err);
		}
	}
	kp_resizer_fini(&r);
	kp_mem_free(band);
	return status;
}

/* The middle of the image, black around it where it is smaller. */
static int write_planes(const struct kp_image_processor *p, const struct kp_image_plan *plan,
	const struct kp_image *i, struct target *t, struct kp_err *err)
{
	/* Rounded down when cut, and down when padded: transformers' center_crop pads by the half rounded up and then cuts
	   the rounded-down middle of that. */
	int64_t top = ((int64_t)i->height - plan->out_height) >> 1;
	int64_t left = ((int64_t)i->width - plan->out_width) >> 1;
	for (int c = 0; c < 3; c++) {
		for (uint32_t y = 0; y < plan->out_height; y++) {
			int64_t row = top + y;
			if (make_room(t, plan->out_width, err)) {
				return -1;
			}
			uint8_t *bytes = t->to;
			float *floats = t->to;
			bool inside = row >= 0 && row < i->height;
			for (uint32_t x = 0; x < plan->out_width; x++) {
				int64_t column = left + x;
				uint8_t b = 0;
				if (inside && column >= 0 && column < i->width) {
					b = i->px[((size_t)row * i->width + (size_t)column) * 3 +
						  c];
				}
				if (t->is_bytes) {
					*bytes++ = b;
				} else {
					*floats++ = p->value[c][b];
				}
			}
			t->to = t->is_bytes ? (void *)bytes : (void *)floats;
		}
	}
	return 0;
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
	const struct kp_image *i, struct target *t, struct kp_err *err)
{
	struct kp_image square = { 0 }, resized = { 0 };
	const struct kp_image *at = i;
	int status = 0;
	if (p->pads_to_square && i->width != i->height) {
		status = square_of(p, i, &square, err);
		at = &square;
	}
	if (!status && p->layout == KP_IMAGE_PATCHES) {
		return write_patches(p, plan, at, t, err);
	}
	if (!status && (at->width != plan->width || at->height != plan->height)) {
		status = kp_image_resize(at, plan->width, plan->height, p->filter, &resized, err);
		at = &resized;
	}
	if (!status) {
		status = write_planes(p, plan, at, t, err);
	}
	kp_image_fini(&square);
	kp_image_fini(&resized);
	return status;
}

int kp_image_processor_run(const struct kp_image_processor *p, const struct kp_image_plan *plan,
	const struct kp_image *i, float *ret, struct kp_err *err)
{
	struct target t = { .to = ret };
	return run(p, plan, i, &t, err);
}

int kp_image_processor_run_bytes(const struct kp_image_processor *p,
	const struct kp_image_plan *plan, const struct kp_image *i, uint8_t *ret,
	struct kp_err *err)
{
	struct target t = { .to = ret, .is_bytes = true };
	return run(p, plan, i, &t, err);
}

int kp_image_processor_put(const struct kp_image_processor *p, const struct kp_image_plan *plan,
	const struct kp_image *i, bool is_bytes, kp_image_put_fn *put, void *user,
	struct kp_err *err)
{
	/* What is written at once: a patch, or a row. */
	size_t unit = p->layout == KP_IMAGE_PATCHES ? (size_t)3 * p->temporal * p->patch * p->patch
						    : plan->out_width;
	struct target t = { .is_bytes = is_bytes,
		.room = KP_MAX(unit * sizeof(float), (size_t)PIECE),
		.put = put,
		.user = user };
	t.to = t.piece = kp_try_malloc(t.room);
	if (!t.piece) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "process an image: out of memory");
	}
	int status = run(p, plan, i, &t, err) || flush(&t, err) ? -1 : 0;
	kp_mem_free(t.piece);
	return status;
}

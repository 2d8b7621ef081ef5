/* DESIGN: one walk over the members we know; those that change the picture in a way we do not do are refused. Defaults are
   those of the class that the file names. */
#include "image/processor.h"

#include <math.h>

static const float clip_mean[3] = { 0.48145466f, 0.4578275f, 0.40821073f };
static const float clip_std[3] = { 0.26862954f, 0.26130258f, 0.27577711f };

static const struct {
	kp_str name; /* without "Fast" or "Pil" behind it */
	enum kp_image_layout layout;
} classes[] = {
	{ KP_S_INIT("Qwen2VLImageProcessor"), KP_IMAGE_PATCHES },
	{ KP_S_INIT("Qwen2_5_VLImageProcessor"), KP_IMAGE_PATCHES },
	{ KP_S_INIT("Qwen3VLImageProcessor"), KP_IMAGE_PATCHES },
	{ KP_S_INIT("CLIPImageProcessor"), KP_IMAGE_PLANES },
	{ KP_S_INIT("CLIPFeatureExtractor"), KP_IMAGE_PLANES },
	{ KP_S_INIT("LlavaImageProcessor"), KP_IMAGE_PLANES },
};

static int wrong(struct kp_err *err, const char *member, const char *what)
{
	return kp_err_set(
		err, KP_INVALID_ARGUMENT, "preprocessor_config.json: `%s`: %s", member, what);
}

static const struct kp_jv *member(const struct kp_jv *config, const char *name)
{
	const struct kp_jv *v = kp_jv_get(config, kp_str_c(name));
	return v && v->type != KP_JSON_NULL ? v : NULL;
}

static bool number_of(const struct kp_jv *v, double *ret)
{
	return kp_jv_is(v, KP_JSON_NUMBER) && kp_str_f64(v->s, ret) && isfinite(*ret);
}

static int read_bool(const struct kp_jv *config, const char *name, bool *value, struct kp_err *err)
{
	const struct kp_jv *v = member(config, name);
	if (!v) {
		return 0;
	}
	if (v->type != KP_JSON_TRUE && v->type != KP_JSON_FALSE) {
		return wrong(err, name, "not a boolean");
	}
	*value = v->type == KP_JSON_TRUE;
	return 0;
}

static int read_whole(const struct kp_jv *config, const char *name, uint64_t least, uint64_t most,
	uint64_t *value, struct kp_err *err)
{
	const struct kp_jv *v = member(config, name);
	double d;
	if (!v) {
		return 0;
	}
	if (!number_of(v, &d) || d != floor(d) || d < (double)least || d > (double)most) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"preprocessor_config.json: `%s`: not an integer from %llu to %llu", name,
			(unsigned long long)least, (unsigned long long)most);
	}
	*value = (uint64_t)d;
	return 0;
}

static int read_u32(const struct kp_jv *config, const char *name, uint32_t most, uint32_t *value,
	struct kp_err *err)
{
	uint64_t v = *value;
	if (read_whole(config, name, 1, most, &v, err)) {
		return -1;
	}
	*value = (uint32_t)v;
	return 0;
}

/* A number for all channels, or three. */
static int read_three(
	const struct kp_jv *config, const char *name, float value[3], struct kp_err *err)
{
	const struct kp_jv *v = member(config, name);
	if (!v) {
		return 0;
	}
	bool list = v->type == KP_JSON_ARRAY && v->n == 3;
	for (uint32_t c = 0; c < 3; c++) {
		double d;
		if (!number_of(list ? &v->items[c] : v, &d)) {
			return wrong(err, name, "neither a number nor three numbers");
		}
		value[c] = (float)d;
	}
	return 0;
}

/* --- sizes ---------------------------------------------------------------------------------------------------------- */

enum { MAX_SIDE = 16384, MAX_PATCH = 256 };
static const uint64_t max_area = (uint64_t)1 << 32;

static int read_area(struct kp_image_processor *p, const struct kp_jv *config, struct kp_err *err)
{
	const struct kp_jv *size = member(config, "size");
	if (size && size->type != KP_JSON_OBJECT) {
		return wrong(err, "size", "not an object");
	}
	if (size && (read_whole(size, "shortest_edge", 1, max_area, &p->min_pixels, err) ||
			    read_whole(size, "longest_edge", 1, max_area, &p->max_pixels, err))) {
		return -1;
	}
	/* The older names win, as in transformers. */
	if (read_whole(config, "min_pixels", 1, max_area, &p->min_pixels, err) ||
		read_whole(config, "max_pixels", 1, max_area, &p->max_pixels, err)) {
		return -1;
	}
	return p->min_pixels > p->max_pixels
		       ? wrong(err, "size", "the least number of pixels is above the most")
		       : 0;
}

static int read_sides(struct kp_image_processor *p, const struct kp_jv *config, struct kp_err *err)
{
	const struct kp_jv *size = member(config, "size");
	if (kp_jv_is(size, KP_JSON_OBJECT)) {
		p->short_side = 0;
		if (kp_jv_get(size, KP_S("longest_edge")) || kp_jv_get(size, KP_S("max_height"))) {
			return wrong(
				err, "size", "`longest_edge` and `max_height` are not supported");
		}
		if (read_u32(size, "shortest_edge", MAX_SIDE, &p->short_side, err) ||
			read_u32(size, "height", MAX_SIDE, &p->height, err) ||
			read_u32(size, "width", MAX_SIDE, &p->width, err)) {
			return -1;
		}
		if (!p->short_side && (!p->height || !p->width)) {
			return wrong(
				err, "size", "neither `shortest_edge` nor `height` and `width`");
		}
	} else if (read_u32(config, "size", MAX_SIDE, &p->short_side, err)) {
		return -1;
	}
	const struct kp_jv *crop = member(config, "crop_size");
	if (kp_jv_is(crop, KP_JSON_OBJECT)) {
		return read_u32(crop, "height", MAX_SIDE, &p->crop_height, err) ||
				       read_u32(crop, "width", MAX_SIDE, &p->crop_width, err)
			       ? -1
			       : 0;
	}
	if (read_u32(config, "crop_size", MAX_SIDE, &p->crop_height, err)) {
		return -1;
	}
	p->crop_width = crop ? p->crop_height : p->crop_width;
	return 0;
}

/* --- values --------------------------------------------------------------------------------------------------------- */

/* Scaled in double precision and rounded, then normalized in single precision, as numpy does it there. */
static int read_values(struct kp_image_processor *p, const struct kp_jv *config, struct kp_err *err)
{
	float mean[3] = { clip_mean[0], clip_mean[1], clip_mean[2] };
	float std[3] = { clip_std[0], clip_std[1], clip_std[2] };
	double factor = 1.0 / 255;
	bool rescales = true, normalizes = true;
	if (read_three(config, "image_mean", mean, err) ||
		read_three(config, "image_std", std, err) ||
		read_bool(config, "do_rescale", &rescales, err) ||
		read_bool(config, "do_normalize", &normalizes, err)) {
		return -1;
	}
	const struct kp_jv *v = member(config, "rescale_factor");
	if (v && !number_of(v, &factor)) {
		return wrong(err, "rescale_factor", "not a number");
	}
	for (int c = 0; c < 3; c++) {
		if (normalizes && std[c] == 0.0f) {
			return wrong(err, "image_std", "zero");
		}
		for (int b = 0; b < 256; b++) {
			float f = rescales ? (float)(b * factor) : (float)b;
			p->value[c][b] = normalizes ? (f - mean[c]) / std[c] : f;
		}
		p->square[c] = (uint8_t)((double)KP_MIN(KP_MAX(mean[c], 0.0f), 1.0f) * 255);
	}
	return 0;
}

static int read_filter(struct kp_image_processor *p, const struct kp_jv *config, struct kp_err *err)
{
	uint64_t filter = KP_IMAGE_BICUBIC;
	if (read_whole(config, "resample", KP_IMAGE_LANCZOS, KP_IMAGE_BICUBIC, &filter, err)) {
		return -1;
	}
	p->filter = (enum kp_image_filter)filter;
	return 0;
}

static int read_class(struct kp_image_processor *p, const struct kp_jv *config, struct kp_err *err)
{
	kp_str name = kp_jv_str(config, KP_S("image_processor_type"));
	if (!name.n) {
		name = kp_jv_str(config, KP_S("feature_extractor_type"));
	}
	kp_str full = name;
	if (kp_str_ends(name, KP_S("Fast"))) {
		name.n -= 4;
	} else if (kp_str_ends(name, KP_S("Pil"))) {
		name.n -= 3;
	}
	for (size_t i = 0; i < KP_LEN(classes); i++) {
		if (kp_str_eq(classes[i].name, name)) {
			p->layout = classes[i].layout;
			return 0;
		}
	}
	return kp_err_set(err, KP_INVALID_ARGUMENT,
		"preprocessor_config.json: `image_processor_type`: `%" KP_FMT "` is not supported",
		KP_ARG(kp_str_sub(full, 0, 64)));
}

int kp_image_processor_read(
	struct kp_image_processor *p, const struct kp_jv *config, struct kp_err *err)
{
	*p = (struct kp_image_processor){ .resizes = true,
		.patch = 14,
		.merge = 2,
		.temporal = 2,
		.min_pixels = 56 * 56,
		.max_pixels = 28 * 28 * 1280,
		.short_side = 224,
		.crop_height = 224,
		.crop_width = 224 };
	if (!kp_jv_is(config, KP_JSON_OBJECT)) {
		return kp_err_set(
			err, KP_INVALID_ARGUMENT, "preprocessor_config.json: not an object");
	}
	if (read_class(p, config, err) || read_filter(p, config, err) ||
		read_values(p, config, err) || read_bool(config, "do_resize", &p->resizes, err)) {
		return -1;
	}
	if (p->layout == KP_IMAGE_PATCHES) {
		return read_area(p, config, err) ||
				       read_u32(config, "patch_size", MAX_PATCH, &p->patch, err) ||
				       read_u32(config, "merge_size", 16, &p->merge, err) ||
				       read_u32(
					       config, "temporal_patch_size", 16, &p->temporal, err)
			       ? -1
			       : 0;
	}
	p->crops = true;
	return read_sides(p, config, err) || read_bool(config, "do_center_crop", &p->crops, err) ||
			       read_bool(config, "do_pad", &p->pads_to_square, err)
		       ? -1
		       : 0;
}

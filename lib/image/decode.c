/* DESIGN: sniff ► head ► limits ► the format's decoder ► upright. A decoder gives RGB as stored; only turning needs a second
   image, and only where the orientation says so. */
#include "image/codec.h"

#include "base/mem.h"

enum {
	DEFAULT_MAX_PIXELS = 178956970
}; /* Pillow's limit against bombs, Image.MAX_IMAGE_PIXELS * 2 */

static const struct {
	const char *name;
	kp_image_probe_fn *probe;
	kp_image_decode_fn *decode;
} formats[] = {
	[KP_IMAGE_JPEG] = { "JPEG", kp_jpeg_probe, kp_jpeg_decode },
	[KP_IMAGE_PNG] = { "PNG", kp_png_probe, kp_png_decode },
	[KP_IMAGE_WEBP] = { "WebP", kp_webp_probe, kp_webp_decode },
};

enum kp_image_format kp_image_sniff(kp_str b)
{
	if (kp_str_starts(b, KP_S("\xff\xd8\xff"))) {
		return KP_IMAGE_JPEG;
	}
	if (kp_str_starts(b, KP_S("\x89PNG\r\n\x1a\n"))) {
		return KP_IMAGE_PNG;
	}
	if (kp_str_starts(b, KP_S("RIFF")) && kp_str_eq(kp_str_sub(b, 8, 12), KP_S("WEBP"))) {
		return KP_IMAGE_WEBP;
	}
	return KP_IMAGE_NONE;
}

const char *kp_image_format_name(enum kp_image_format f)
{
	return f == KP_IMAGE_NONE ? "none" : formats[f].name;
}

int kp_image_damaged(struct kp_err *err, enum kp_image_format f, const char *why)
{
	return kp_err_set(
		err, KP_INVALID_ARGUMENT, "decode the %s image: %s", kp_image_format_name(f), why);
}

int kp_image_check_size(
	uint64_t width, uint64_t height, const struct kp_image_limits *limits, struct kp_err *err)
{
	uint64_t max = limits->max_pixels ? limits->max_pixels : DEFAULT_MAX_PIXELS;
	if (!width || !height) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "an image of %llu by %llu pixels",
			(unsigned long long)width, (unsigned long long)height);
	}
	if (width > KP_IMAGE_MAX_SIDE || height > KP_IMAGE_MAX_SIDE || width * height > max) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED,
			"an image of %llu by %llu pixels: at most %llu pixels, %d a side",
			(unsigned long long)width, (unsigned long long)height,
			(unsigned long long)max, KP_IMAGE_MAX_SIDE);
	}
	return 0;
}

int kp_image_init(struct kp_image *i, uint32_t width, uint32_t height, struct kp_err *err)
{
	i->px = kp_try_malloc_large((size_t)width * height * 3 + KP_IMAGE_PAD);
	if (!i->px) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED,
			"allocate an image of %u by %u pixels: out of memory", width, height);
	}
	memset(i->px + (size_t)width * height * 3, 0, KP_IMAGE_PAD);
	i->width = width;
	i->height = height;
	return 0;
}

void kp_image_fini(struct kp_image *i)
{
	kp_free(&i->px);
	i->width = i->height = 0;
}

void kp_image_flatten(const uint8_t *rgba, uint8_t *rgb, size_t n, const uint8_t background[3])
{
	for (; n; n--, rgba += 4, rgb += 3) {
		uint8_t a = rgba[3];
		if (a == 255) {
			rgb[0] = rgba[0], rgb[1] = rgba[1], rgb[2] = rgba[2];
		} else {
			rgb[0] = kp_over(rgba[0], background[0], a);
			rgb[1] = kp_over(rgba[1], background[1], a);
			rgb[2] = kp_over(rgba[2], background[2], a);
		}
	}
}

static int probe_stored(kp_str bytes, const struct kp_image_limits *limits,
	struct kp_image_info *info, struct kp_err *err)
{
	*info = (struct kp_image_info){ .format = kp_image_sniff(bytes), .orientation = 1 };
	if (info->format == KP_IMAGE_NONE) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"not an image that is supported: JPEG, PNG or WebP");
	}
	return formats[info->format].probe(bytes, info, err) ||
			       kp_image_check_size(info->width, info->height, limits, err)
		       ? -1
		       : 0;
}

int kp_image_probe(kp_str bytes, const struct kp_image_limits *limits, struct kp_image_info *ret,
	struct kp_err *err)
{
	struct kp_image_info info;
	if (probe_stored(bytes, limits, &info, err)) {
		return -1;
	}
	if (info.orientation >= 5) {
		uint32_t width = info.width;
		info.width = info.height;
		info.height = width;
	}
	*ret = info;
	return 0;
}

/* Copies `from` into `to` in tiles, so that reading by columns stays within the cache: pixel (x, y) of `to` stands at
   first + x * dx + y * dy of `from`, in bytes. */
static void turn(struct kp_image *to, const uint8_t *first, ptrdiff_t dx, ptrdiff_t dy)
{
	enum { TILE = 32 };
	for (uint32_t ty = 0; ty < to->height; ty += TILE) {
		uint32_t y_end = KP_MIN(ty + TILE, to->height);
		for (uint32_t tx = 0; tx < to->width; tx += TILE) {
			uint32_t x_end = KP_MIN(tx + TILE, to->width);
			for (uint32_t y = ty; y < y_end; y++) {
				const uint8_t *s = first + (ptrdiff_t)y * dy + (ptrdiff_t)tx * dx;
				uint8_t *d = to->px + ((size_t)y * to->width + tx) * 3;
				for (uint32_t x = tx; x < x_end; x++, s += dx, d += 3) {
					d[0] = s[0], d[1] = s[1], d[2] = s[2];
				}
			}
		}
	}
}

/* EXIF 2.32, 4.6.4.A: where the stored first row and first column are seen. */
static int upright(struct kp_image *i, uint8_t orientation, struct kp_err *err)
{
	if (orientation == 1) {
		return 0;
	}
	bool across = orientation >= 5;
	ptrdiff_t column = 3, row = (ptrdiff_t)i->width * 3;
	bool right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
	bool bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
	const uint8_t *first = i->px + (right ? row - column : 0) +
			       (bottom ? row * ((ptrdiff_t)i->height - 1) : 0);
	column = right ? -column : column;
	row = bottom ? -row : row;
	struct kp_image to;
	if (kp_image_init(&to, across ? i->height : i->width, across ? i->width : i->height, err)) {
		return -1;
	}
	turn(&to, first, across ? row : column, across ? column : row);
	kp_image_fini(i);
	*i = to;
	return 0;
}

int kp_image_decode(kp_str bytes, const struct kp_image_limits *limits, struct kp_image *ret,
	struct kp_err *err)
{
	struct kp_image_info info;
	struct kp_image i = { 0 };
	if (probe_stored(bytes, limits, &info, err) ||
		formats[info.format].decode(bytes, limits, &i, &info.orientation, err)) {
		return -1;
	}
	if (upright(&i, info.orientation, err)) {
		kp_image_fini(&i);
		return -1;
	}
	*ret = i;
	return 0;
}

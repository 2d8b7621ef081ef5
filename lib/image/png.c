/* DESIGN: libpng over one slice, errors by longjmp as in jpeg.c. Everything becomes 8-bit RGB or RGBA by libpng's own steps
   (palettes, small depths, tRNS, the upper byte of 16 bits); RGBA is read whole and flattened in place. Gamma and profiles
   have no effect, as in Pillow: of chunks that are no pixels only PLTE, tRNS and eXIf, which may stand behind the pixels, are read. Texts and profiles are
   skipped, since each may be a thousand times its size, and all together as much again.
   Behind the last pixel libpng inflates to the end of the stream, and throws that away: a small file could have gigabytes there. So a row may take no more of the file than
   a row can need. */
#include "image/codec.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdio.h>

#include <png.h>

enum {
	MAX_CHUNK = 8 << 20,
	MAX_CHUNKS = 1000,
	ROW_PER_PIXEL = 9, /* at most 8 bytes, which zlib makes no ninth longer */
	ROW_MORE = 64 << 10,
	INTERLACED_PASSES = 7,
};

struct png {
	png_structp p;
	png_infop info;
	kp_str rest;
	size_t budget; /* bytes that may be read until it is set anew */
	char why[96];
	struct kp_image image;
	png_bytepp rows;
};

KP_NORETURN static void fail(png_structp p, png_const_charp why)
{
	struct png *g = png_get_error_ptr(p);
	snprintf(g->why, sizeof(g->why), "%s", why);
	png_longjmp(p, 1);
}
static void quiet(png_structp p, png_const_charp why)
{
	(void)p, (void)why;
}
static void take(png_structp p, png_bytep to, size_t n)
{
	struct png *g = png_get_io_ptr(p);
	if (n > g->rest.n) {
		png_error(p, "it ends too early");
	}
	if (n > g->budget) {
		png_error(p, "it has more data than pixels");
	}
	g->budget -= n;
	memcpy(to, g->rest.p, n);
	g->rest = kp_str_skip(g->rest, n);
}

static int create(struct png *g, kp_str bytes, struct kp_err *err)
{
	*g = (struct png){ .rest = bytes, .budget = SIZE_MAX };
	g->p = png_create_read_struct(PNG_LIBPNG_VER_STRING, g, fail, quiet);
	g->info = g->p ? png_create_info_struct(g->p) : NULL;
	if (!g->info) {
		png_destroy_read_struct(&g->p, NULL, NULL);
		return kp_err_set(
			err, KP_RESOURCE_EXHAUSTED, "decode the PNG image: out of memory");
	}
	png_set_read_fn(g->p, g, take);
	png_set_user_limits(g->p, KP_IMAGE_MAX_SIDE, KP_IMAGE_MAX_SIDE);
	png_set_chunk_malloc_max(g->p, MAX_CHUNK);
	png_set_chunk_cache_max(g->p, MAX_CHUNKS);
	png_set_keep_unknown_chunks(g->p, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
	png_set_keep_unknown_chunks(g->p, PNG_HANDLE_CHUNK_AS_DEFAULT, (png_const_bytep) "eXIf", 1);
	return 0;
}

static void destroy(struct png *g)
{
	kp_free(&g->rows);
	png_destroy_read_struct(&g->p, &g->info, NULL);
}

static uint8_t orientation(const struct png *g)
{
	png_uint_32 n;
	png_bytep exif;
	return png_get_eXIf_1(g->p, g->info, &n, &exif) ? kp_exif_orientation(kp_str_n(exif, n))
							: 1;
}

static int probe(struct png *g, struct kp_image_info *ret, struct kp_err *err)
{
	if (setjmp(png_jmpbuf(g->p))) {
		return kp_image_damaged(err, KP_IMAGE_PNG, g->why);
	}
	png_read_info(g->p, g->info);
	ret->width = png_get_image_width(g->p, g->info);
	ret->height = png_get_image_height(g->p, g->info);
	ret->orientation = orientation(g);
	ret->decoder_bytes =
		(uint64_t)ret->width *
		ret->height; /* what may be transparent has 4 bytes a pixel until it is laid over the background */
	return 0;
}

int kp_png_probe(kp_str bytes, struct kp_image_info *ret, struct kp_err *err)
{
	struct png g;
	if (create(&g, bytes, err)) {
		return -1;
	}
	int status = probe(&g, ret, err);
	destroy(&g);
	return status;
}

/* To RGB, or to RGBA where anything can be transparent; whether it is the latter. */
static bool set_steps(struct png *g)
{
	png_set_expand(g->p);
	png_set_strip_16(g->p);
	png_set_gray_to_rgb(g->p);
	png_set_interlace_handling(g->p);
	png_read_update_info(g->p, g->info);
	return png_get_channels(g->p, g->info) == 4;
}

/* As png_read_image does it. */
static void read_rows(struct png *g, uint32_t width, uint32_t height)
{
	bool is_interlaced = png_get_interlace_type(g->p, g->info) != PNG_INTERLACE_NONE;
	for (int pass = 0; pass < (is_interlaced ? INTERLACED_PASSES : 1); pass++) {
		for (uint32_t y = 0; y < height; y++) {
			g->budget = (size_t)width * ROW_PER_PIXEL + ROW_MORE;
			png_read_row(g->p, g->rows[y], NULL);
		}
	}
	g->budget = SIZE_MAX;
}

static int read_pixels(struct png *g, const struct kp_image_limits *limits, struct kp_err *err)
{
	uint32_t width = png_get_image_width(g->p, g->info);
	uint32_t height = png_get_image_height(g->p, g->info);
	bool alpha = set_steps(g);
	size_t stride = (size_t)width * (alpha ? 4 : 3);
	struct kp_image *i = &g->image;
	i->px = kp_try_malloc(stride * height + KP_IMAGE_PAD);
	g->rows = kp_try_malloc(sizeof(*g->rows) * height);
	if (!i->px || !g->rows) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED,
			"decode the PNG image of %u by %u pixels: out of memory", width, height);
	}
	memset(i->px + stride * height, 0, KP_IMAGE_PAD);
	for (uint32_t y = 0; y < height; y++) {
		g->rows[y] = i->px + stride * y;
	}
	i->width = width;
	i->height = height;
	read_rows(g, width, height);
	png_read_end(g->p, g->info);
	if (alpha) {
		kp_image_flatten(i->px, i->px, (size_t)width * height, limits->background);
	}
	return 0;
}

static int decode(struct png *g, const struct kp_image_limits *limits, uint8_t *ret_orientation,
	struct kp_err *err)
{
	if (setjmp(png_jmpbuf(g->p))) {
		return kp_image_damaged(err, KP_IMAGE_PNG, g->why);
	}
	png_read_info(g->p, g->info);
	if (read_pixels(g, limits, err)) {
		return -1;
	}
	*ret_orientation = orientation(g);
	return 0;
}

int kp_png_decode(kp_str bytes, const struct kp_image_limits *limits, struct kp_image *ret,
	uint8_t *ret_orientation, struct kp_err *err)
{
	struct png g;
	if (create(&g, bytes, err)) {
		return -1;
	}
	int status = decode(&g, limits, ret_orientation, err);
	destroy(&g);
	if (status) {
		kp_image_fini(&g.image);
		return -1;
	}
	*ret = g.image;
	return 0;
}

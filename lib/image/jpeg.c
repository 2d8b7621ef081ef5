/* DESIGN: libjpeg-turbo over one slice. It reports errors by longjmp, so everything it touches lies in one struct and every
   call stands behind one setjmp, in a function that owns nothing. A file that ends too early is an error, as in Pillow; damage that libjpeg only
   warns of is not. A progressive file of very many scans costs time without end: at most MAX_SCANS, of large pictures fewer. */
#include "image/codec.h"

#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>
#include <jerror.h>

enum { MAX_SCANS = 100, MAX_MEMORY = 1 << 30, MAX_EXIF = 65533 };
#define MAX_SCANNED UINT64_C(4000000000) /* pixels of all scans: seconds */

struct jpeg {
	struct jpeg_decompress_struct d;
	struct jpeg_error_mgr errors;
	struct jpeg_progress_mgr progress;
	struct jpeg_source_mgr source;
	jmp_buf failed;
	char why[JMSG_LENGTH_MAX];
	struct kp_image image;
};

KP_NORETURN static void fail(j_common_ptr d)
{
	struct jpeg *j = d->client_data;
	d->err->format_message(d, j->why);
	longjmp(j->failed, 1);
}
static void quiet(j_common_ptr d)
{
	(void)d;
}
static void quiet_level(j_common_ptr d, int level)
{
	(void)d, (void)level;
}
static void watch(j_common_ptr d)
{
	struct jpeg *j = d->client_data;
	uint64_t pixels = (uint64_t)j->d.image_width * j->d.image_height;
	int most = pixels * MAX_SCANS > MAX_SCANNED ? (int)(MAX_SCANNED / pixels) : MAX_SCANS;
	if (j->d.input_scan_number > most) {
		snprintf(j->why, sizeof(j->why), "more than %d scans", most);
		longjmp(j->failed, 1);
	}
}
static void source_nothing(j_decompress_ptr d)
{
	(void)d;
}
static boolean source_more(j_decompress_ptr d)
{
	struct jpeg *j = d->client_data;
	snprintf(j->why, sizeof(j->why), "it ends too early");
	longjmp(j->failed, 1);
}
static void source_skip(j_decompress_ptr d, long n)
{
	if (n > 0) {
		if ((size_t)n > d->src->bytes_in_buffer) {
			source_more(d);
		}
		d->src->next_input_byte += n;
		d->src->bytes_in_buffer -= (size_t)n;
	}
}

/* Call once setjmp stands. */
static void begin(struct jpeg *j, kp_str bytes)
{
	j->d.err = jpeg_std_error(&j->errors);
	j->errors.error_exit = fail;
	j->errors.output_message = quiet;
	j->errors.emit_message = quiet_level;
	j->d.client_data = j;
	jpeg_create_decompress(&j->d);
	j->d.mem->max_memory_to_use = MAX_MEMORY;
	j->progress.progress_monitor = watch;
	j->d.progress = &j->progress;
	j->source = (struct jpeg_source_mgr){ (const JOCTET *)bytes.p, bytes.n, source_nothing,
		source_more, source_skip, jpeg_resync_to_restart, source_nothing };
	j->d.src = &j->source;
	jpeg_save_markers(&j->d, JPEG_APP0 + 1, MAX_EXIF);
	jpeg_read_header(&j->d, TRUE);
}

static uint8_t orientation(const struct jpeg *j)
{
	for (jpeg_saved_marker_ptr m = j->d.marker_list; m; m = m->next) {
		kp_str s = kp_str_n(m->data, m->data_length);
		if (m->marker == JPEG_APP0 + 1 && kp_str_starts(s, KP_S("Exif\0\0"))) {
			return kp_exif_orientation(s);
		}
	}
	return 1;
}

/* Of a file with several scans all coefficients are kept, 6 bytes a pixel where no colour is subsampled. */
static uint64_t coefficients_bytes(struct jpeg *j)
{
	uint64_t blocks = 0;
	for (int i = 0; i < j->d.num_components && jpeg_has_multiple_scans(&j->d); i++) {
		const jpeg_component_info *c = &j->d.comp_info[i];
		uint64_t h = (uint64_t)c->h_samp_factor, v = (uint64_t)c->v_samp_factor;
		blocks += (c->width_in_blocks + h - 1) / h * h *
			  ((c->height_in_blocks + v - 1) / v * v);
	}
	return blocks * sizeof(JBLOCK);
}

static int probe(struct jpeg *j, kp_str bytes, struct kp_image_info *ret, struct kp_err *err)
{
	if (setjmp(j->failed)) {
		return kp_image_damaged(err, KP_IMAGE_JPEG, j->why);
	}
	begin(j, bytes);
	ret->width = j->d.image_width;
	ret->height = j->d.image_height;
	ret->orientation = orientation(j);
	ret->decoder_bytes = coefficients_bytes(j);
	return 0;
}

int kp_jpeg_probe(kp_str bytes, struct kp_image_info *ret, struct kp_err *err)
{
	struct jpeg j = { 0 };
	int status = probe(&j, bytes, ret, err);
	jpeg_destroy_decompress(&j.d);
	return status;
}

/* Adobe writes CMYK inverted, and so does everybody: 255 is no ink. In place, the end first reads ahead of writing. */
static void from_cmyk(const uint8_t *cmyk, uint8_t *rgb, size_t n)
{
	for (; n; n--, cmyk += 4, rgb += 3) {
		int light = cmyk[3];
		for (int c = 0; c < 3; c++) {
			int ink = (255 - cmyk[c]) * light + 128;
			rgb[c] = (uint8_t)(light - ((ink + (ink >> 8)) >> 8));
		}
	}
}

static void read_rows(struct jpeg *j)
{
	struct kp_image *i = &j->image;
	bool cmyk = j->d.output_components == 4;
	uint8_t *line = NULL;
	if (cmyk) {
		line = j->d.mem->alloc_large(
			(j_common_ptr)&j->d, JPOOL_IMAGE, (size_t)i->width * 4);
	}
	while (j->d.output_scanline < j->d.output_height) {
		uint8_t *to = i->px + (size_t)j->d.output_scanline * i->width * 3;
		JSAMPROW row = cmyk ? line : to;
		if (jpeg_read_scanlines(&j->d, &row, 1) == 1 && cmyk) {
			from_cmyk(line, to, i->width);
		}
	}
	jpeg_finish_decompress(&j->d);
}

static int decode(struct jpeg *j, kp_str bytes, uint8_t *ret_orientation, struct kp_err *err)
{
	if (setjmp(j->failed)) {
		return kp_image_damaged(err, KP_IMAGE_JPEG, j->why);
	}
	begin(j, bytes);
	*ret_orientation = orientation(j);
	j->d.out_color_space = j->d.num_components == 4 ? JCS_CMYK : JCS_RGB;
	jpeg_start_decompress(&j->d);
	if (kp_image_init(&j->image, j->d.output_width, j->d.output_height, err)) {
		return -1;
	}
	read_rows(j);
	return 0;
}

int kp_jpeg_decode(kp_str bytes, const struct kp_image_limits *limits, struct kp_image *ret,
	uint8_t *ret_orientation, struct kp_err *err)
{
	(void)limits;
	struct jpeg j = { 0 };
	int status = decode(&j, bytes, ret_orientation, err);
	jpeg_destroy_decompress(&j.d);
	if (status) {
		kp_image_fini(&j.image);
		return -1;
	}
	*ret = j.image;
	return 0;
}

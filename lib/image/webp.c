/* DESIGN: libwebp's demuxer finds canvas, first frame and EXIF; the frame is decoded right into the canvas. Without
   transparency the canvas is the RGB image itself, else RGBA that is flattened in place. */
#include "image/codec.h"

#include "base/mem.h"

#include <webp/decode.h>
#include <webp/demux.h>

struct webp {
	WebPDemuxer *demux;
	WebPIterator frame;
	uint32_t width, height;
	bool alpha;
};

static void close_webp(struct webp *w)
{
	WebPDemuxReleaseIterator(&w->frame);
	WebPDemuxDelete(w->demux);
}

static int open_webp(struct webp *w, kp_str bytes, struct kp_err *err)
{
	WebPData data = { (const uint8_t *)bytes.p, bytes.n };
	*w = (struct webp){ .demux = WebPDemux(&data) };
	if (!w->demux || !WebPDemuxGetFrame(w->demux, 1, &w->frame)) {
		close_webp(w);
		return kp_image_damaged(err, KP_IMAGE_WEBP, "it is damaged or ends too early");
	}
	w->width = WebPDemuxGetI(w->demux, WEBP_FF_CANVAS_WIDTH);
	w->height = WebPDemuxGetI(w->demux, WEBP_FF_CANVAS_HEIGHT);
	w->alpha = WebPDemuxGetI(w->demux, WEBP_FF_FORMAT_FLAGS) & ALPHA_FLAG;
	return 0;
}

static uint8_t orientation(const struct webp *w)
{
	WebPChunkIterator chunk = { 0 };
	uint8_t found = 1;
	if (WebPDemuxGetChunk(w->demux, "EXIF", 1, &chunk)) {
		found = kp_exif_orientation(kp_str_n(chunk.chunk.bytes, chunk.chunk.size));
	}
	WebPDemuxReleaseChunkIterator(&chunk);
	return found;
}

/* A lossless frame is made in 4 bytes a pixel beside the canvas, the transparency of a lossy one in one, or two. */
static uint64_t decoder_bytes(const struct webp *w)
{
	WebPBitstreamFeatures f = { 0 };
	uint64_t pixels = (uint64_t)w->frame.width * (uint64_t)w->frame.height;
	bool is_known = WebPGetFeatures(w->frame.fragment.bytes, w->frame.fragment.size, &f) ==
			VP8_STATUS_OK;
	uint64_t canvas = w->alpha ? (uint64_t)w->width * w->height : 0;
	return canvas + pixels * (is_known && f.format == 1 ? (f.has_alpha ? 2 : 0) : 4);
}

int kp_webp_probe(kp_str bytes, struct kp_image_info *ret, struct kp_err *err)
{
	struct webp w;
	if (open_webp(&w, bytes, err)) {
		return -1;
	}
	ret->width = w.width;
	ret->height = w.height;
	ret->orientation = orientation(&w);
	ret->decoder_bytes = decoder_bytes(&w);
	close_webp(&w);
	return 0;
}

static bool decode_frame(const struct webp *w, uint8_t *canvas, size_t pixel)
{
	const WebPIterator *f = &w->frame;
	size_t stride = (size_t)w->width * pixel;
	size_t offset = (size_t)f->y_offset * stride + (size_t)f->x_offset * pixel;
	uint8_t *at = canvas + offset;
	size_t room = stride * w->height - offset;
	const uint8_t *p = f->fragment.bytes;
	size_t n = f->fragment.size;
	return pixel == 4 ? WebPDecodeRGBAInto(p, n, at, room, (int)stride) != NULL
			  : WebPDecodeRGBInto(p, n, at, room, (int)stride) != NULL;
}

int kp_webp_decode(kp_str bytes, const struct kp_image_limits *limits, struct kp_image *ret,
	uint8_t *ret_orientation, struct kp_err *err)
{
	struct webp w;
	if (open_webp(&w, bytes, err)) {
		return -1;
	}
	size_t n = (size_t)w.width * w.height, pixel = w.alpha ? 4 : 3;
	struct kp_image i = { kp_try_malloc_large(n * pixel + KP_IMAGE_PAD), w.width, w.height };
	int status = 0;
	if (!i.px) {
		status = kp_err_set(err, KP_RESOURCE_EXHAUSTED,
			"decode the WebP image of %u by %u pixels: out of memory", w.width,
			w.height);
	} else {
		memset(i.px, 0,
			n * pixel + KP_IMAGE_PAD); /* around a first frame that is smaller */
		*ret_orientation = orientation(&w);
		status = decode_frame(&w, i.px, pixel)
				 ? 0
				 : kp_image_damaged(err, KP_IMAGE_WEBP, "its pixels are damaged");
	}
	if (!status && w.alpha) {
		kp_image_flatten(i.px, i.px, n, limits->background);
	}
	close_webp(&w);
	if (status) {
		kp_image_fini(&i);
		return -1;
	}
	*ret = i;
	return 0;
}

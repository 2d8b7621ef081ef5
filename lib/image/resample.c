/* DESIGN: coefficients of both directions are computed once (double precision, then 22 bits). The result is made row by row, from top to bottom; the
   horizontal pass makes rows as the vertical one comes to need them, into a window that slides down the image, so that what is between the passes stays in
   the processor's caches. A direction that keeps its size is left out. Memory: the result, the window, and the coefficients (in all at most the input's
   width times the filter's). */
#include "image/resample.h"
#include "image/taps.h"

#include "base/mem.h"

#include <math.h>

static double triangle(double x)
{
	x = fabs(x);
	return x < 1.0 ? 1.0 - x : 0.0;
}
/* Keys' cubic with a = -0.5. */
static double cubic(double x)
{
	const double a = -0.5;
	x = fabs(x);
	if (x < 1.0) {
		return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
	}
	return x < 2.0 ? (((x - 5) * x + 8) * x - 4) * a : 0.0;
}
static double sinc(double x)
{
	x *= M_PI;
	return x == 0.0 ? 1.0 : sin(x) / x;
}
static double lanczos(double x)
{
	return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0;
}

static const struct {
	double (*at)(double x);
	double support; /* zero beyond */
} filters[] = {
	[KP_IMAGE_LANCZOS] = { lanczos, 3.0 },
	[KP_IMAGE_BILINEAR] = { triangle, 1.0 },
	[KP_IMAGE_BICUBIC] = { cubic, 2.0 },
};

static enum kp_image_simd simd_limit;

void kp_image_limit_simd(enum kp_image_simd limit)
{
	simd_limit = limit;
}

static void taps_fini(struct kp_taps *t)
{
	kp_free(&t->first);
	kp_free(&t->count);
	kp_free(&t->k);
	kp_free(&t->wide_block);
}

/* Of one output pixel: the input pixels that count and their share. */
static void taps_of(struct kp_taps *t, uint32_t i, double centre, double support, double widened,
	enum kp_image_filter filter, uint32_t from, double *share)
{
	int first = KP_MAX((int)(centre - support + 0.5), 0);
	int end = KP_MIN((int)(centre + support + 0.5), (int)from);
	double all = 0.0;
	for (int x = first; x < end; x++) {
		share[x - first] = filters[filter].at((x - centre + 0.5) * (1.0 / widened));
		all += share[x - first];
	}
	t->first[i] = (uint32_t)first;
	t->count[i] = (uint32_t)(end - first);
	int32_t *k = t->k + (size_t)i * t->stride;
	for (int x = 0; x < end - first; x++) {
		double v = (all != 0.0 ? share[x] / all : share[x]) * (1 << KP_TAPS_BITS);
		k[x] = (int32_t)(v < 0 ? v - 0.5 : v + 0.5);
	}
}

/* At the end of a line, where fewer pixels are left than elsewhere: zeros in front, so that as many are read of each pixel as of any other, and none behind
   the line. */
static void even_out(struct kp_taps *t, uint32_t from)
{
	uint32_t most = 0;
	for (uint32_t i = 0; i < t->n; i++) {
		most = KP_MAX(most, t->count[i]);
	}
	for (uint32_t i = t->n; i-- > 0 && t->first[i] + most > from;) {
		int32_t *k = t->k + (size_t)i * t->stride;
		uint32_t back = t->first[i] + most - from;
		memmove(k + back, k, (most - back) * sizeof(*k));
		memset(k, 0, back * sizeof(*k));
		t->first[i] -= back;
		t->count[i] = most;
	}
}

static int taps_init(struct kp_taps *t, uint32_t from, uint32_t to, enum kp_image_filter filter,
	struct kp_err *err)
{
	double scale = (double)from / to;
	double widened = KP_MAX(scale, 1.0);
	double support = filters[filter].support * widened;
	uint32_t most = (uint32_t)ceil(support) * 2 + 1;
	*t = (struct kp_taps){ .n = to,
		.stride = (most + KP_TAPS_GROUP - 1) / KP_TAPS_GROUP * KP_TAPS_GROUP };
	t->first = kp_try_malloc(sizeof(*t->first) * to);
	t->count = kp_try_malloc(sizeof(*t->count) * to);
	t->k = kp_try_malloc(sizeof(*t->k) * to * t->stride);
	double *share = kp_try_malloc(sizeof(*share) * most);
	bool ok = t->first && t->count && t->k && share;
	if (ok) {
		memset(t->k, 0, sizeof(*t->k) * to * t->stride);
		for (uint32_t i = 0; i < to; i++) {
			taps_of(t, i, (i + 0.5) * scale, support, widened, filter, from, share);
		}
	}
	kp_free(&share);
	if (ok) {
		even_out(t, from);
	}
	return ok ? 0 : kp_err_set(err, KP_RESOURCE_EXHAUSTED, "resize an image: out of memory");
}

static void choose(struct kp_resizer *r)
{
	r->row = kp_taps_row_portable;
	r->column = kp_taps_column_portable;
#if defined(__x86_64__)
	if (simd_limit == KP_IMAGE_SIMD_NONE || !__builtin_cpu_supports("avx2")) {
		return;
	}
	r->row = kp_taps_row_avx2;
	r->column = kp_taps_column_avx2;
	if (simd_limit == KP_IMAGE_SIMD_AVX2 || !kp_taps_is_wide()) {
		return;
	}
	if (r->columns->n && kp_taps_widen_row(r->columns)) {
		r->row = kp_taps_row_avx512;
	}
	if (r->rows->n && kp_taps_widen_column(r->rows)) {
		r->column = kp_taps_column_avx512;
	}
#endif
}

enum { WINDOW = 32 }; /* rows that it has more than the filter is high */

int kp_resizer_init(struct kp_resizer *r, const struct kp_image *from, uint32_t width,
	uint32_t height, enum kp_image_filter filter, struct kp_err *err)
{
	*r = (struct kp_resizer){ .from = from, .width = width, .height = height };
	r->columns = kp_try_malloc(2 * sizeof(*r->columns));
	if (!r->columns) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "resize an image: out of memory");
	}
	memset(r->columns, 0, 2 * sizeof(*r->columns));
	r->rows = r->columns + 1;
	if ((width != from->width && taps_init(r->columns, from->width, width, filter, err)) ||
		(height != from->height && taps_init(r->rows, from->height, height, filter, err))) {
		kp_resizer_fini(r);
		return -1;
	}
	choose(r);
	if (!r->columns->n || !r->rows->n) {
		return 0; /* no pass, or one alone */
	}
	uint32_t most = 0;
	for (uint32_t y = 0; y < height; y++) {
		most = KP_MAX(most, r->rows->count[y]);
	}
	r->n_window = most + WINDOW;
	r->window = kp_try_malloc((size_t)r->n_window * width * 3 + KP_IMAGE_PAD);
	if (!r->window) {
		kp_resizer_fini(r);
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "resize an image: out of memory");
	}
	r->begin = r->end = r->rows->first[0];
	r->last = r->rows->first[height - 1] + r->rows->count[height - 1];
	return 0;
}

void kp_resizer_fini(struct kp_resizer *r)
{
	if (r->columns) {
		taps_fini(r->columns);
		taps_fini(r->rows);
	}
	kp_free(&r->columns);
	kp_free(&r->window);
}

static const uint8_t *row_of(const struct kp_image *i, uint32_t y)
{
	return i->px + (size_t)y * i->width * 3;
}

/* The window has rows [first, first + count), as wide as the result. Where they are. */
static const uint8_t *slide(struct kp_resizer *r, uint32_t first, uint32_t count)
{
	size_t pitch = (size_t)r->width * 3;
	while (r->end < first + count) {
		/* Past the last row that is needed there may be none. */
		bool is_one = r->end + KP_TAPS_ROWS > r->last;
		uint32_t n = is_one ? 1 : KP_TAPS_ROWS;
		if (r->end - r->begin + n > r->n_window) {
			memmove(r->window, r->window + (first - r->begin) * pitch,
				(r->end - first) * pitch);
			r->begin = first;
		}
		r->row(r->columns, row_of(r->from, r->end), (size_t)r->from->width * 3,
			r->window + (r->end - r->begin) * pitch, is_one);
		r->end += n;
	}
	return r->window + (first - r->begin) * pitch;
}

void kp_resizer_rows(struct kp_resizer *r, uint32_t n, uint8_t *to)
{
	size_t pitch = (size_t)r->width * 3;
	for (; n; n--, r->y++, to += pitch) {
		if (!r->rows->n && !r->columns->n) {
			memcpy(to, row_of(r->from, r->y), pitch);
		} else if (!r->rows->n) {
			r->row(r->columns, row_of(r->from, r->y), 0, to, true);
		} else {
			uint32_t first = r->rows->first[r->y], count = r->rows->count[r->y];
			const uint8_t *from =
				r->columns->n ? slide(r, first, count) : row_of(r->from, first);
			r->column(r->rows, r->y, from, pitch, to, pitch);
		}
	}
}

int kp_image_resize(const struct kp_image *from, uint32_t width, uint32_t height,
	enum kp_image_filter filter, struct kp_image *ret, struct kp_err *err)
{
	struct kp_resizer r;
	struct kp_image to;
	if (kp_resizer_init(&r, from, width, height, filter, err)) {
		return -1;
	}
	int status = kp_image_init(&to, width, height, err);
	if (!status) {
		kp_resizer_rows(&r, height, to.px);
		*ret = to;
	}
	kp_resizer_fini(&r);
	return status;
}

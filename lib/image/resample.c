/* DESIGN: coefficients of both directions are computed once (double precision, then 22 bits); the horizontal pass makes only
   those rows that the vertical one reads. A direction that keeps its size is left out. Memory: the result, the rows between
   the passes, and the coefficients (in all at most the input's width times the filter's). */
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

static bool portable_only;

void kp_image_portable_only(bool on)
{
	portable_only = on;
}

static void taps_fini(struct kp_taps *t)
{
	kp_free(&t->first);
	kp_free(&t->count);
	kp_free(&t->k);
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
	return ok ? 0 : kp_err_set(err, KP_RESOURCE_EXHAUSTED, "resize an image: out of memory");
}

static kp_taps_row_fn *row_half(void)
{
#if defined(__x86_64__)
	if (!portable_only && __builtin_cpu_supports("avx2")) {
		return kp_taps_row_avx2;
	}
#endif
	return kp_taps_row_portable;
}
static kp_taps_column_fn *column_half(void)
{
#if defined(__x86_64__)
	if (!portable_only && __builtin_cpu_supports("avx2")) {
		return kp_taps_column_avx2;
	}
#endif
	return kp_taps_column_portable;
}

/* Rows [first, end) of `from` to the width of t. */
static int across(const struct kp_image *from, const struct kp_taps *t, uint32_t first,
	uint32_t end, struct kp_image *ret, struct kp_err *err)
{
	if (kp_image_init(ret, t->n, end - first, err)) {
		return -1;
	}
	kp_taps_row_fn *row = row_half();
	for (uint32_t y = first; y < end; y++) {
		row(t, from->px + (size_t)y * from->width * 3,
			ret->px + (size_t)(y - first) * t->n * 3);
	}
	return 0;
}

/* `skipped` rows stand above from's first. */
static int down(const struct kp_image *from, const struct kp_taps *t, uint32_t skipped,
	struct kp_image *ret, struct kp_err *err)
{
	if (kp_image_init(ret, from->width, t->n, err)) {
		return -1;
	}
	kp_taps_column_fn *column = column_half();
	size_t pitch = (size_t)from->width * 3;
	for (uint32_t y = 0; y < t->n; y++) {
		column(t->k + (size_t)y * t->stride, t->count[y],
			from->px + (t->first[y] - skipped) * pitch, pitch, ret->px + y * pitch,
			pitch);
	}
	return 0;
}

static int resize(const struct kp_image *from, const struct kp_taps *columns,
	const struct kp_taps *rows, struct kp_image *ret, struct kp_err *err)
{
	bool same_width = columns->n == from->width, same_height = rows->n == from->height;
	uint32_t first = same_height ? 0 : rows->first[0];
	uint32_t end =
		same_height ? from->height : rows->first[rows->n - 1] + rows->count[rows->n - 1];
	if (same_width) {
		return down(from, rows, 0, ret, err);
	}
	struct kp_image between = { 0 };
	if (across(from, columns, first, end, &between, err)) {
		return -1;
	}
	if (same_height) {
		*ret = between;
		return 0;
	}
	int status = down(&between, rows, first, ret, err);
	kp_image_fini(&between);
	return status;
}

int kp_image_resize(const struct kp_image *from, uint32_t width, uint32_t height,
	enum kp_image_filter filter, struct kp_image *ret, struct kp_err *err)
{
	struct kp_image to = { 0 };
	if (width == from->width && height == from->height) {
		if (kp_image_init(&to, width, height, err)) {
			return -1;
		}
		memcpy(to.px, from->px, (size_t)width * height * 3);
		*ret = to;
		return 0;
	}
	struct kp_taps columns = { 0 }, rows = { 0 };
	int status = taps_init(&columns, from->width, width, filter, err) ||
				     taps_init(&rows, from->height, height, filter, err) ||
				     resize(from, &columns, &rows, &to, err)
			     ? -1
			     : 0;
	taps_fini(&columns);
	taps_fini(&rows);
	if (!status) {
		*ret = to;
	}
	return status;
}

/* DESIGN: sums are integers, so their order does not matter and every half gives the same bits. |k| adds up to less than
   1.5 * 2^22 for each filter, so 255 times that fits 31 bits. */
#include "image/taps.h"

static void make_row(const struct kp_taps *t, const uint8_t *from, uint8_t *to)
{
	for (uint32_t x = 0; x < t->n; x++, to += 3) {
		const uint8_t *p = from + (size_t)t->first[x] * 3;
		const int32_t *k = t->k + (size_t)x * t->stride;
		int32_t r = 1 << (KP_TAPS_BITS - 1), g = r, b = r;
		for (uint32_t i = 0; i < t->count[x]; i++, p += 3) {
			r += p[0] * k[i];
			g += p[1] * k[i];
			b += p[2] * k[i];
		}
		to[0] = kp_taps_clip(r);
		to[1] = kp_taps_clip(g);
		to[2] = kp_taps_clip(b);
	}
}

void kp_taps_row_portable(
	const struct kp_taps *t, const uint8_t *from, size_t pitch, uint8_t *to, bool is_one)
{
	size_t out = (size_t)t->n * 3;
	for (size_t r = 0; r < (is_one ? 1 : KP_TAPS_ROWS); r++) {
		make_row(t, from + r * pitch, to + r * out);
	}
}

void kp_taps_column_portable(const struct kp_taps *t, uint32_t row, const uint8_t *from,
	size_t pitch, uint8_t *to, size_t bytes)
{
	const int32_t *k = t->k + (size_t)row * t->stride;
	enum { BLOCK = 256 };
	int32_t sum[BLOCK];
	for (size_t at = 0; at < bytes; at += BLOCK) {
		size_t n = KP_MIN((size_t)BLOCK, bytes - at);
		for (size_t i = 0; i < n; i++) {
			sum[i] = 1 << (KP_TAPS_BITS - 1);
		}
		for (uint32_t y = 0; y < t->count[row]; y++) {
			const uint8_t *p = from + y * pitch + at;
			for (size_t i = 0; i < n; i++) {
				sum[i] += p[i] * k[y];
			}
		}
		for (size_t i = 0; i < n; i++) {
			to[at + i] = kp_taps_clip(sum[i]);
		}
	}
}

/* DESIGN: pmaddwd multiplies 16 pairs of 16 bits and adds neighbours. A coefficient has 23 bits and a sign, so it is split
   into a high and a low part of 12 and 11 bits, each summed by itself; both together are the exact sum. Compiled for AVX2
   whatever the build's flags are; resample.c calls it only where the processor has it. */
#include "image/taps.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2")))

enum { LOW_MASK = (1 << KP_TAPS_LOW_BITS) - 1 };

/* Two output pixels beside each other, a in the low half and b in the high one. */
AVX2 static inline __m256i halves(const void *a, const void *b)
{
	__m256i low = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)a));
	return _mm256_inserti128_si256(low, _mm_loadu_si128((const __m128i *)b), 1);
}

/* Four coefficients of each half as pairs of 16 bits, as pmaddwd takes them: high and low parts of the first two, and of the others. */
struct four {
	__m256i high[2], low[2];
};
AVX2 static inline struct four four_coefficients(const int32_t *a, const int32_t *b)
{
	__m256i k = halves(a, b);
	__m256i parts = _mm256_packs_epi32(_mm256_srai_epi32(k, KP_TAPS_LOW_BITS),
		_mm256_and_si256(k, _mm256_set1_epi32(LOW_MASK)));
	return (struct four){ .high = { _mm256_shuffle_epi32(parts, 0x00),
				      _mm256_shuffle_epi32(parts, 0x55) },
		.low = { _mm256_shuffle_epi32(parts, 0xaa), _mm256_shuffle_epi32(parts, 0xff) } };
}

/* Of four pixels of RGB in each half the first two, or the last two: each channel's two side by side, as 16 bits. */
AVX2 static inline __m256i two_pixels(__m256i px, bool is_last)
{
	const __m256i first = _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1,
		-1, 0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1);
	const __m256i last = _mm256_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1,
		-1, -1, 6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
	return _mm256_shuffle_epi8(px, is_last ? last : first);
}

AVX2 static inline __m256i finish(__m256i high, __m256i low)
{
	const __m256i half = _mm256_set1_epi32(1 << (KP_TAPS_BITS - 1));
	__m256i sum = _mm256_add_epi32(_mm256_slli_epi32(high, KP_TAPS_LOW_BITS), low);
	return _mm256_srai_epi32(_mm256_add_epi32(sum, half), KP_TAPS_BITS);
}

/* Eight pixels: four of each half, as 32 bits R, G, B and nothing. */
AVX2 static inline void put_eight(const __m256i v[4], uint8_t *to)
{
	const __m256i order = _mm256_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1,
		-1, 0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
	__m256i words = _mm256_packs_epi32(v[0], v[1]), more = _mm256_packs_epi32(v[2], v[3]);
	__m256i px = _mm256_shuffle_epi8(_mm256_packus_epi16(words, more), order);
	__m128i behind = _mm256_extracti128_si256(px, 1);
	int32_t end = _mm_extract_epi32(behind, 2);
	_mm_storeu_si128((__m128i *)(void *)to, _mm256_castsi256_si128(px));
	_mm_storel_epi64((__m128i *)(void *)(to + 12), behind);
	memcpy(to + 20, &end, 4);
}

/* Four pixels of a and of b, times their coefficients. */
AVX2 static inline __attribute__((always_inline)) void times_four(
	const struct four *f, const uint8_t *a, const uint8_t *b, __m256i *high, __m256i *low)
{
	__m256i px = halves(a, b);
	__m256i first = two_pixels(px, false), last = two_pixels(px, true);
	*high = _mm256_add_epi32(
		_mm256_madd_epi16(first, f->high[0]), _mm256_madd_epi16(last, f->high[1]));
	*low = _mm256_add_epi32(
		_mm256_madd_epi16(first, f->low[0]), _mm256_madd_epi16(last, f->low[1]));
}

/* Output pixels x and x + 4 of each of `rows` rows, which is a constant where this is called. */
AVX2 static inline __attribute__((always_inline)) void make_two(const struct kp_taps *t, uint32_t x,
	const uint8_t *from, size_t pitch, int rows, __m256i *to, size_t step)
{
	const uint8_t *a = from + (size_t)t->first[x] * 3, *b = from + (size_t)t->first[x + 4] * 3;
	const int32_t *k = t->k + (size_t)x * t->stride, *k_b = k + (size_t)4 * t->stride;
	uint32_t count = KP_MAX(t->count[x], t->count[x + 4]);
	__m256i high[KP_TAPS_ROWS], low[KP_TAPS_ROWS];
	struct four f = four_coefficients(k, k_b);
#pragma GCC unroll 4
	for (int r = 0; r < rows; r++) {
		times_four(&f, a + (size_t)r * pitch, b + (size_t)r * pitch, &high[r], &low[r]);
	}
	for (uint32_t i = KP_TAPS_GROUP; i < count; i += KP_TAPS_GROUP) {
		f = four_coefficients(k + i, k_b + i);
		a += 12;
		b += 12;
#pragma GCC unroll 4
		for (int r = 0; r < rows; r++) {
			__m256i h, l;
			times_four(&f, a + (size_t)r * pitch, b + (size_t)r * pitch, &h, &l);
			high[r] = _mm256_add_epi32(high[r], h);
			low[r] = _mm256_add_epi32(low[r], l);
		}
	}
#pragma GCC unroll 4
	for (int r = 0; r < rows; r++) {
		to[(size_t)r * step] = finish(high[r], low[r]);
	}
}

AVX2 static inline __attribute__((always_inline)) void make_rows(
	const struct kp_taps *t, const uint8_t *from, size_t pitch, uint8_t *to, int rows)
{
	size_t out = (size_t)t->n * 3;
	__m256i v[KP_TAPS_ROWS][4];
	for (uint32_t x = 0; x < t->n; x += 8) {
		uint32_t at = KP_MIN(x, t->n - 8); /* the last ones are made with some before */
#pragma GCC unroll 4
		for (uint32_t i = 0; i < 4; i++) {
			make_two(t, at + i, from, pitch, rows, &v[0][i], 4);
		}
#pragma GCC unroll 4
		for (int r = 0; r < rows; r++) {
			put_eight(v[r], to + (size_t)r * out + (size_t)at * 3);
		}
	}
}

AVX2 void kp_taps_row_avx2(
	const struct kp_taps *t, const uint8_t *from, size_t pitch, uint8_t *to, bool is_one)
{
	if (t->n < 8) {
		kp_taps_row_portable(t, from, pitch, to, is_one);
	} else if (is_one) {
		make_rows(t, from, pitch, to, 1);
	} else {
		make_rows(t, from, pitch, to, KP_TAPS_ROWS);
	}
}

/* Two coefficients as pairs of 16 bits, everywhere. */
AVX2 static inline void two_coefficients(const int32_t *k, __m256i *high, __m256i *low)
{
	int64_t both;
	memcpy(&both, k, sizeof(both));
	__m256i v = _mm256_set1_epi64x(both);
	__m256i h = _mm256_srai_epi32(v, KP_TAPS_LOW_BITS);
	__m256i l = _mm256_and_si256(v, _mm256_set1_epi32(LOW_MASK));
	*high = _mm256_packs_epi32(h, h);
	*low = _mm256_packs_epi32(l, l);
}

/* 32 bytes of each of two rows, times their coefficients. */
AVX2 static inline __attribute__((always_inline)) void times_two(const int32_t *k,
	const uint8_t *first, const uint8_t *second, __m256i high[4], __m256i low[4])
{
	const __m256i zero = _mm256_setzero_si256();
	__m256i a = _mm256_loadu_si256((const __m256i *)(const void *)first);
	__m256i b = _mm256_loadu_si256((const __m256i *)(const void *)second);
	__m256i kh, kl;
	two_coefficients(k, &kh, &kl);
	__m256i front = _mm256_unpacklo_epi8(a, b), back = _mm256_unpackhi_epi8(a, b);
	const __m256i pairs[4] = { _mm256_unpacklo_epi8(front, zero),
		_mm256_unpackhi_epi8(front, zero), _mm256_unpacklo_epi8(back, zero),
		_mm256_unpackhi_epi8(back, zero) };
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++) {
		high[i] = _mm256_madd_epi16(pairs[i], kh);
		low[i] = _mm256_madd_epi16(pairs[i], kl);
	}
}

/* 32 bytes of an output row. Of an odd number of rows the last one is taken twice, the second time with the zero behind the coefficients. */
AVX2 static inline __attribute__((always_inline)) void column32(
	const int32_t *k, uint32_t count, const uint8_t *p, size_t pitch, uint8_t *to)
{
	__m256i high[4], low[4], h[4], l[4];
	times_two(k, p, count > 1 ? p + pitch : p, high, low);
	for (uint32_t y = 2; y < count; y += 2) {
		p += 2 * pitch;
		times_two(k + y, p, y + 1 < count ? p + pitch : p, h, l);
#pragma GCC unroll 4
		for (int i = 0; i < 4; i++) {
			high[i] = _mm256_add_epi32(high[i], h[i]);
			low[i] = _mm256_add_epi32(low[i], l[i]);
		}
	}
	/* Unpacking and packing both work within halves, so the order is the first one. */
	__m256i words = _mm256_packs_epi32(finish(high[0], low[0]), finish(high[1], low[1]));
	__m256i more = _mm256_packs_epi32(finish(high[2], low[2]), finish(high[3], low[3]));
	_mm256_storeu_si256((__m256i *)(void *)to, _mm256_packus_epi16(words, more));
}

AVX2 void kp_taps_column_avx2(const struct kp_taps *t, uint32_t y, const uint8_t *from,
	size_t pitch, uint8_t *to, size_t bytes)
{
	if (bytes < 32) {
		kp_taps_column_portable(t, y, from, pitch, to, bytes);
		return;
	}
	for (size_t i = 0; i < bytes; i += 32) {
		size_t at = KP_MIN(i, bytes - 32); /* the last ones are made with some before */
		column32(t->k + (size_t)y * t->stride, t->count[y], from + at, pitch, to + at);
	}
}
#endif

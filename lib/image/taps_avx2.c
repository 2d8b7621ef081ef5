/* DESIGN: pmaddwd multiplies 16 pairs of 16 bits and adds neighbours. A coefficient has 23 bits and a sign, so it is split
   into a high and a low part of 12 and 11 bits, each summed by itself; both together are the exact sum. Compiled for AVX2
   whatever the build's flags are; resample.c calls it only where the processor has it. */
#include "image/taps.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2")))

enum { LOW_MASK = (1 << KP_TAPS_LOW_BITS) - 1 };

/* Two 16-bit parts beside each other, as pmaddwd takes them: of coefficients a and b. */
static inline int32_t high_pair(int32_t a, int32_t b)
{
	return (int32_t)((uint32_t)(a >> KP_TAPS_LOW_BITS & 0xffff) |
			 (uint32_t)(b >> KP_TAPS_LOW_BITS) << 16);
}
static inline int32_t low_pair(int32_t a, int32_t b)
{
	return (a & LOW_MASK) | (b & LOW_MASK) << 16;
}

/* Four pixels of RGB: the first two's channels side by side in the low half, the others' in the high half. */
AVX2 static inline __m256i four_pixels(const uint8_t *p)
{
	const __m128i order = _mm_setr_epi8(0, 3, 1, 4, 2, 5, -1, -1, 6, 9, 7, 10, 8, 11, -1, -1);
	__m128i px = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)p), order);
	return _mm256_cvtepu8_epi16(px);
}

/* Four coefficients of 32 bits as pairs under four_pixels. */
AVX2 static inline void four_coefficients(const int32_t *k, __m256i *high, __m256i *low)
{
	__m128i v = _mm_loadu_si128((const __m128i *)(const void *)k);
	__m128i h = _mm_srai_epi32(v, KP_TAPS_LOW_BITS);
	__m128i l = _mm_and_si128(v, _mm_set1_epi32(LOW_MASK));
	/* 16-bit pairs (k0 k1) and (k2 k3), each four times. */
	__m128i hp = _mm_packs_epi32(h, h), lp = _mm_packs_epi32(l, l);
	__m256i spread = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
	*high = _mm256_permutevar8x32_epi32(_mm256_castsi128_si256(hp), spread);
	*low = _mm256_permutevar8x32_epi32(_mm256_castsi128_si256(lp), spread);
}

/* One pixel: the sums of its four columns' parts. */
AVX2 static inline void put_pixel(__m256i high, __m256i low, uint8_t *to)
{
	const __m128i half = _mm_set1_epi32(1 << (KP_TAPS_BITS - 1));
	__m256i both = _mm256_add_epi32(_mm256_slli_epi32(high, KP_TAPS_LOW_BITS), low);
	__m128i sum =
		_mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
	sum = _mm_srai_epi32(_mm_add_epi32(sum, half), KP_TAPS_BITS);
	sum = _mm_packus_epi16(_mm_packs_epi32(sum, sum), sum);
	uint32_t rgb = (uint32_t)_mm_cvtsi128_si32(sum);
	to[0] = (uint8_t)rgb;
	to[1] = (uint8_t)(rgb >> 8);
	to[2] = (uint8_t)(rgb >> 16);
}

/* `rows` is a constant where this is called. */
AVX2 static inline __attribute__((always_inline)) void make_rows(
	const struct kp_taps *t, const uint8_t *from, size_t pitch, uint8_t *to, int rows)
{
	size_t out = (size_t)t->n * 3;
	for (uint32_t x = 0; x < t->n; x++, to += 3) {
		const uint8_t *p = from + (size_t)t->first[x] * 3;
		const int32_t *k = t->k + (size_t)x * t->stride;
		__m256i high[KP_TAPS_ROWS], low[KP_TAPS_ROWS];
#pragma GCC unroll 4
		for (int r = 0; r < rows; r++) {
			high[r] = low[r] = _mm256_setzero_si256();
		}
		for (uint32_t i = 0; i < t->count[x]; i += KP_TAPS_GROUP, p += 12) {
			__m256i kh, kl;
			four_coefficients(k + i, &kh, &kl);
#pragma GCC unroll 4
			for (int r = 0; r < rows; r++) {
				__m256i px = four_pixels(p + (size_t)r * pitch);
				high[r] = _mm256_add_epi32(high[r], _mm256_madd_epi16(px, kh));
				low[r] = _mm256_add_epi32(low[r], _mm256_madd_epi16(px, kl));
			}
		}
#pragma GCC unroll 4
		for (int r = 0; r < rows; r++) {
			put_pixel(high[r], low[r], to + (size_t)r * out);
		}
	}
}

AVX2 void kp_taps_row_avx2(
	const struct kp_taps *t, const uint8_t *from, size_t pitch, uint8_t *to, bool is_one)
{
	if (is_one) {
		make_rows(t, from, pitch, to, 1);
	} else {
		make_rows(t, from, pitch, to, KP_TAPS_ROWS);
	}
}

/* 16 bytes of an output row. */
AVX2 static inline void column16(
	const int32_t *k, uint32_t count, const uint8_t *p, size_t pitch, uint8_t *to)
{
	__m256i h0 = _mm256_setzero_si256(), h1 = h0, l0 = h0, l1 = h0;
	for (uint32_t y = 0; y < count; y += 2) {
		bool pair = y + 1 < count;
		__m128i a = _mm_loadu_si128((const __m128i *)(const void *)(p + y * pitch));
		__m128i b =
			pair ? _mm_loadu_si128((const __m128i *)(const void *)(p + (y + 1) * pitch))
			     : _mm_setzero_si128();
		__m256i first = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(a, b));
		__m256i second = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(a, b));
		int32_t kb = pair ? k[y + 1] : 0;
		__m256i kh = _mm256_set1_epi32(high_pair(k[y], kb));
		__m256i kl = _mm256_set1_epi32(low_pair(k[y], kb));
		h0 = _mm256_add_epi32(h0, _mm256_madd_epi16(first, kh));
		l0 = _mm256_add_epi32(l0, _mm256_madd_epi16(first, kl));
		h1 = _mm256_add_epi32(h1, _mm256_madd_epi16(second, kh));
		l1 = _mm256_add_epi32(l1, _mm256_madd_epi16(second, kl));
	}
	const __m256i half = _mm256_set1_epi32(1 << (KP_TAPS_BITS - 1));
	__m256i s0 = _mm256_add_epi32(_mm256_slli_epi32(h0, KP_TAPS_LOW_BITS), l0);
	__m256i s1 = _mm256_add_epi32(_mm256_slli_epi32(h1, KP_TAPS_LOW_BITS), l1);
	s0 = _mm256_srai_epi32(_mm256_add_epi32(s0, half), KP_TAPS_BITS);
	s1 = _mm256_srai_epi32(_mm256_add_epi32(s1, half), KP_TAPS_BITS);
	/* Packing works by halves; the quarters are put in order again. */
	__m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(s0, s1), 0xd8);
	__m256i bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(words, words), 0xd8);
	_mm_storeu_si128((__m128i *)(void *)to, _mm256_castsi256_si128(bytes));
}

AVX2 void kp_taps_column_avx2(const int32_t *k, uint32_t count, const uint8_t *from, size_t pitch,
	uint8_t *to, size_t bytes)
{
	size_t at = 0;
	for (; at + 16 <= bytes; at += 16) {
		column16(k, count, from + at, pitch, to + at);
	}
	if (at < bytes) {
		kp_taps_column_portable(k, count, from + at, pitch, to + at, bytes - at);
	}
}
#endif

/* DESIGN: vpdpbusd multiplies four bytes by four signed bytes and adds them up, so a coefficient is three signed digits of base 256 (|k| is below
   1.5 * 2^22), each summed by itself; the three together are the exact sum.

   Across, an output byte is one lane: vpermb brings the four input bytes of each of 16 output bytes from a stretch of 64, and the order is the same for
   the next four coefficients, 12 bytes further on. So 16 output bytes must begin within 64 input bytes: where a row shrinks to less than a third it is
   AVX2's. Down, bytes of four rows are put side by side.

   Orders and digits are laid out once for a resize (kp_taps_widen_*). Compiled for these instructions whatever the build's flags are; resample.c calls it
   only where the processor has them. */
#include "image/taps.h"

#if defined(__x86_64__)
#include "base/mem.h"

#include <immintrin.h>
#include <string.h>

#define WIDE __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")))

enum {
	LANES = 16, /* output bytes of a block of a row */
	BLOCK = 64, /* bytes of a vector */
	DIGITS = 3,
};

/* A row's blocks: this, then `groups` times three vectors of digits. */
struct block {
	uint8_t order[BLOCK];
	uint32_t from, to; /* bytes of the row */
	uint32_t groups;
	uint8_t filled[BLOCK - 12];
};

bool kp_taps_is_wide(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") &&
	       __builtin_cpu_supports("avx512vnni");
}

static int8_t digit_of(int32_t k, int i)
{
	int32_t low = (int8_t)k;
	int32_t rest = (k - low) / 256;
	int32_t middle = (int8_t)rest;
	return (int8_t)(i == 0 ? low : i == 1 ? middle : (rest - middle) / 256);
}

static uint8_t *room(struct kp_taps *t, size_t n)
{
	t->wide_block = kp_try_malloc(n + BLOCK);
	return t->wide_block ? (uint8_t *)(((uintptr_t)t->wide_block + BLOCK - 1) &
					   ~(uintptr_t)(BLOCK - 1))
			     : NULL;
}

static void fill_block(const struct kp_taps *t, struct block *b, int8_t *digits, uint32_t to)
{
	b->from = t->first[to / 3] * 3;
	b->to = to;
	uint32_t count = 0;
	for (uint32_t i = 0; i < LANES; i++) {
		uint32_t px = (to + i) / 3, at = t->first[px] * 3 - b->from + (to + i) % 3;
		count = KP_MAX(count, t->count[px]);
		for (uint32_t j = 0; j < 4; j++) {
			b->order[4 * i + j] = (uint8_t)(at + 3 * j);
		}
	}
	b->groups = (count + 3) / 4;
	for (uint32_t g = 0; g < b->groups; g++) {
		for (uint32_t i = 0; i < BLOCK; i++) {
			const int32_t *k = t->k + (size_t)((to + i / 4) / 3) * t->stride;
			for (int d = 0; d < DIGITS; d++) {
				digits[(g * DIGITS + d) * BLOCK + i] =
					digit_of(k[g * 4 + i % 4], d);
			}
		}
	}
}

bool kp_taps_widen_row(struct kp_taps *t)
{
	uint32_t bytes = t->n * 3;
	size_t blocks = (bytes + LANES - 1) / LANES;
	if (bytes < LANES) {
		return false;
	}
	for (uint32_t px = 0; px < t->n; px++) {
		uint32_t last = KP_MIN(px + (LANES + 1) / 3, t->n - 1);
		if ((t->first[last] - t->first[px]) * 3 + 2 + 9 >= BLOCK) {
			return false;
		}
	}
	t->wide_step = sizeof(struct block) + t->stride / 4 * DIGITS * BLOCK;
	t->wide = room(t, blocks * t->wide_step);
	for (size_t i = 0; t->wide && i < blocks; i++) {
		struct block b = { 0 };
		uint8_t *at = t->wide + i * t->wide_step;
		/* The last bytes are made with some before. */
		fill_block(t, &b, (int8_t *)at + sizeof(b),
			KP_MIN((uint32_t)i * LANES, bytes - LANES));
		memcpy(at, &b, sizeof(b));
	}
	return t->wide != NULL;
}

bool kp_taps_widen_column(struct kp_taps *t)
{
	t->wide_step = (size_t)t->stride * DIGITS;
	t->wide = room(t, t->n * t->wide_step);
	for (size_t y = 0; t->wide && y < t->n; y++) {
		for (size_t i = 0; i < t->stride; i++) {
			for (int d = 0; d < DIGITS; d++) {
				t->wide[y * t->wide_step + (i / 4 * DIGITS + (size_t)d) * 4 +
					i % 4] = (uint8_t)digit_of(t->k[y * t->stride + i], d);
			}
		}
	}
	return t->wide != NULL;
}

/* The sums of a coefficient's digits, the highest last. Arrays of vectors are of the unaligned type: where gcc 12's AddressSanitizer keeps them, 64 bytes are
   not aligned (GCC's bug 110027); elsewhere they are registers. */
struct sums {
	__m512i_u of[DIGITS];
};
WIDE static inline struct sums no_sums(void)
{
	__m512i zero = _mm512_setzero_si512();
	return (struct sums){ { _mm512_set1_epi32(1 << (KP_TAPS_BITS - 1)), zero, zero } };
}
WIDE static inline __m512i finish(struct sums s)
{
	__m512i v = _mm512_add_epi32(_mm512_slli_epi32(s.of[2], 8), s.of[1]);
	v = _mm512_add_epi32(_mm512_slli_epi32(v, 8), s.of[0]);
	return _mm512_srai_epi32(v, KP_TAPS_BITS);
}

/* `rows` is a constant where this is called. */
WIDE static inline __attribute__((always_inline)) void make_rows(
	const struct kp_taps *t, const uint8_t *from, size_t pitch, uint8_t *to, size_t rows)
{
	size_t out = (size_t)t->n * 3;
	const uint8_t *end = t->wide + (out + LANES - 1) / LANES * t->wide_step;
	for (const uint8_t *at = t->wide; at < end; at += t->wide_step) {
		const struct block *b = (const void *)at;
		const uint8_t *p = from + b->from, *digits = at + sizeof(*b);
		__m512i order = _mm512_load_si512(b->order);
		struct sums s[KP_TAPS_ROWS];
#pragma GCC unroll 4
		for (size_t r = 0; r < rows; r++) {
			s[r] = no_sums();
		}
		for (uint32_t g = b->groups; g; g--, p += 12, digits += DIGITS * BLOCK) {
			__m512i k0 = _mm512_load_si512(digits);
			__m512i k1 = _mm512_load_si512(digits + BLOCK);
			__m512i k2 = _mm512_load_si512(digits + 2 * BLOCK);
#pragma GCC unroll 4
			for (size_t r = 0; r < rows; r++) {
				__m512i px = _mm512_permutexvar_epi8(
					order, _mm512_loadu_si512(p + r * pitch));
				s[r].of[0] = _mm512_dpbusd_epi32(s[r].of[0], px, k0);
				s[r].of[1] = _mm512_dpbusd_epi32(s[r].of[1], px, k1);
				s[r].of[2] = _mm512_dpbusd_epi32(s[r].of[2], px, k2);
			}
		}
#pragma GCC unroll 4
		for (size_t r = 0; r < rows; r++) {
			__m512i v = _mm512_max_epi32(finish(s[r]), _mm512_setzero_si512());
			_mm_storeu_si128((__m128i *)(void *)(to + r * out + b->to),
				_mm512_cvtusepi32_epi8(v));
		}
	}
}

WIDE void kp_taps_row_avx512(
	const struct kp_taps *t, const uint8_t *from, size_t pitch, uint8_t *to, bool is_one)
{
	if (is_one) {
		make_rows(t, from, pitch, to, 1);
	} else {
		make_rows(t, from, pitch, to, KP_TAPS_ROWS);
	}
}

WIDE static inline __m512i load(const uint8_t *p)
{
	return _mm512_loadu_si512(p);
}
WIDE static inline __m512i spread(const uint8_t *digits)
{
	int32_t four;
	memcpy(&four, digits, sizeof(four));
	return _mm512_set1_epi32(four);
}

/* 64 bytes of an output row. Where there are no four rows any more, any will do for the others: their coefficients are zeros. */
WIDE static inline __attribute__((always_inline)) void column64(
	const uint8_t *digits, uint32_t count, const uint8_t *p, size_t pitch, uint8_t *to)
{
	struct sums s[4] = { no_sums(), no_sums(), no_sums(), no_sums() };
	for (uint32_t y = 0; y < count; y += 4, p += 4 * pitch, digits += 4 * DIGITS) {
		__m512i a = load(p), b = load(y + 1 < count ? p + pitch : p);
		__m512i c = load(y + 2 < count ? p + 2 * pitch : p);
		__m512i d = load(y + 3 < count ? p + 3 * pitch : p);
		__m512i ab = _mm512_unpacklo_epi8(a, b), ab_back = _mm512_unpackhi_epi8(a, b);
		__m512i cd = _mm512_unpacklo_epi8(c, d), cd_back = _mm512_unpackhi_epi8(c, d);
		const __m512i_u px[4] = { _mm512_unpacklo_epi16(ab, cd),
			_mm512_unpackhi_epi16(ab, cd), _mm512_unpacklo_epi16(ab_back, cd_back),
			_mm512_unpackhi_epi16(ab_back, cd_back) };
#pragma GCC unroll 3
		for (size_t i = 0; i < DIGITS; i++) {
			__m512i k = spread(digits + 4 * i);
#pragma GCC unroll 4
			for (size_t j = 0; j < 4; j++) {
				s[j].of[i] = _mm512_dpbusd_epi32(s[j].of[i], px[j], k);
			}
		}
	}
	/* Unpacking and packing both work within quarters, so the order is the first one. */
	__m512i words = _mm512_packs_epi32(finish(s[0]), finish(s[1]));
	__m512i more = _mm512_packs_epi32(finish(s[2]), finish(s[3]));
	_mm512_storeu_si512(to, _mm512_packus_epi16(words, more));
}

WIDE void kp_taps_column_avx512(const struct kp_taps *t, uint32_t y, const uint8_t *from,
	size_t pitch, uint8_t *to, size_t bytes)
{
	if (bytes < BLOCK) {
		kp_taps_column_avx2(t, y, from, pitch, to, bytes);
		return;
	}
	const uint8_t *digits = t->wide + y * t->wide_step;
	for (size_t i = 0; i < bytes; i += BLOCK) {
		size_t at = KP_MIN(i, bytes - BLOCK); /* the last ones are made with some before */
		column64(digits, t->count[y], from + at, pitch, to + at);
	}
}
#endif

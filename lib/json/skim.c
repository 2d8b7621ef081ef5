/* DESIGN: most of a request is strings, so only quotes are looked for: 64 bytes at a time, as masks of quotes and of backslashes, of which the quotes that begin or end a string are left. What
   stands between two strings is short, and is looked at byte by byte, for brackets of either kind. */
#include "json/skim.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { BLOCK = 64, BATCH = 32 };

struct masks {
	uint64_t quote, back;
};

#if defined(__SSE2__)
static void find(const char *p, size_t blocks, struct masks *ret)
{
	const __m128i quote = _mm_set1_epi8('"'), back = _mm_set1_epi8('\\');
	for (size_t k = 0; k < blocks; k++) {
		struct masks m = { 0, 0 };
		for (int i = 0; i < BLOCK; i += 16, p += 16) {
			__m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
			m.quote |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(v, quote))
				   << i;
			m.back |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(v, back))
				  << i;
		}
		ret[k] = m;
	}
}
#else
static void find(const char *p, size_t blocks, struct masks *ret)
{
	for (size_t k = 0; k < blocks; k++, p += BLOCK) {
		ret[k] = (struct masks){ 0, 0 };
		for (int i = 0; i < BLOCK; i++) {
			ret[k].quote |= (uint64_t)(p[i] == '"') << i;
			ret[k].back |= (uint64_t)(p[i] == '\\') << i;
		}
	}
}
#endif

#if defined(__x86_64__)
#define WIDE __attribute__((target("avx2")))
WIDE static uint64_t equal(__m256i low, __m256i high, __m256i c)
{
	return (uint64_t)(unsigned)_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, c)) |
	       (uint64_t)(unsigned)_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, c)) << 32;
}

WIDE static void find_wide(const char *p, size_t blocks, struct masks *ret)
{
	const __m256i quote = _mm256_set1_epi8('"'), back = _mm256_set1_epi8('\\');
	for (size_t k = 0; k < blocks; k++, p += BLOCK) {
		__m256i low = _mm256_loadu_si256((const __m256i *)(const void *)p),
			high = _mm256_loadu_si256((const __m256i *)(const void *)(p + 32));
		ret[k].quote = equal(low, high, quote);
		ret[k].back = equal(low, high, back);
	}
}

static bool is_wide(void)
{
	return __builtin_cpu_supports("avx2");
}
#else
#define find_wide find
static bool is_wide(void)
{
	return false;
}
#endif

/* What stands behind an odd number of backslashes in a row. *carry: bit 0 is the last block's first bit of the next one. */
static uint64_t escaped(uint64_t back, uint64_t *carry)
{
	const uint64_t odd = UINT64_C(0xaaaaaaaaaaaaaaaa);
	uint64_t first = back & ~*carry, /* a backslash that is escaped itself escapes nothing */
		behind = first << 1 | odd;
	/* Subtracting carries through each row, from its begin: where it began decides which places of it are escapes. */
	uint64_t place = (behind - first) ^ odd, ret = place ^ (back | *carry);
	*carry = (place & back) >> (BLOCK - 1);
	return ret;
}

struct skim {
	const char *from; /* of what is outside of strings and was not looked at yet */
	size_t depth;
	bool is_inside;
	uint64_t carry;
};

/* Counts brackets up to `to`; the place behind the one that closes the first, or NULL. */
static const char *count(struct skim *s, const char *to)
{
	for (const char *p = s->from; p < to; p++) {
		if (*p == '[' || *p == '{') {
			s->depth++;
		} else if ((*p == ']' || *p == '}') && --s->depth == 0) {
			return p + 1;
		}
	}
	return NULL;
}

static const char *take(struct skim *s, const char *p, const struct masks *m, size_t blocks)
{
	for (size_t k = 0; k < blocks; k++, p += BLOCK) {
		uint64_t ends = m[k].quote & ~escaped(m[k].back, &s->carry);
		for (; ends; ends &= ends - 1) {
			const char *q = p + __builtin_ctzll(ends);
			const char *done = s->is_inside ? NULL : count(s, q);
			if (done) {
				return done;
			}
			s->is_inside = !s->is_inside;
			s->from = q + 1;
		}
	}
	return NULL;
}

const char *kp_json_skim(const char *p, const char *end)
{
	struct masks m[BATCH];
	struct skim s = { .from = p };
	void (*masks)(const char *, size_t, struct masks *) = is_wide() ? find_wide : find;
	while (end - p >= BLOCK) {
		size_t blocks = KP_MIN((size_t)(end - p) / BLOCK, (size_t)BATCH);
		masks(p, blocks, m);
		const char *done = take(&s, p, m, blocks);
		if (done) {
			return done;
		}
		p += blocks * BLOCK;
	}
	char rest[BLOCK] = { 0 };
	memcpy(rest, p, (size_t)(end - p));
	find(rest, 1, m);
	const char *done = take(&s, p, m, 1);
	return done || s.is_inside ? done : count(&s, end);
}

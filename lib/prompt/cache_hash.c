/* DESIGN: a block's pairs of words, each added to a pair of the key, are multiplied and the products summed (as UMAC does it), which the processor does side by side; one
   folded multiplication then takes the sum into the hash of what stands before. */
#include "prompt/cache_hash.h"

#include "base/map.h"
#include "base/rand.h"

#include <string.h>

static uint64_t fold(uint64_t a, uint64_t b)
{
	__extension__ typedef unsigned __int128 wide;
	wide m = (wide)a * b;
	return (uint64_t)m ^ (uint64_t)(m >> 64);
}

static uint64_t load(const char *p)
{
	uint64_t x;
	memcpy(&x, p, sizeof(x));
	return x;
}

void kp_prompt_hash_key_make(struct kp_prompt_hash_key *k)
{
	kp_random_bytes(k, sizeof(*k));
}

static uint64_t block(const struct kp_prompt_hash_key *k, uint64_t h, const char *p)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < KP_PROMPT_BLOCK / 8; i += 2) {
		sum += fold(load(p + 8 * i) ^ k->word[i], load(p + 8 * i + 8) ^ k->word[i + 1]);
	}
	return fold(h ^ sum, k->word[KP_PROMPT_BLOCK / 8] | 1) + sum;
}

struct runs {
	const struct kp_run *p, *end;
	uint32_t begin; /* of *p */
};

/* Takes the runs that begin before `to` into h. */
static uint64_t runs_to(const struct kp_prompt_hash_key *k, uint64_t h, struct runs *r, size_t to)
{
	for (; r->p < r->end && r->begin < to; r->begin = r->p->end, r->p++) {
		if (r->p->end != r->begin) {
			h = fold(h ^ ((uint64_t)r->begin << 2 | r->p->origin),
				k->word[KP_PROMPT_BLOCK / 8 + 1] | 1);
		}
	}
	return h;
}

/* From `at` on, where h is the hash of what stands before. */
static size_t hash_from(const struct kp_prompt_hash_key *k, uint64_t h, size_t at,
	const struct kp_text *text, uint64_t *ret)
{
	const struct kp_run whole = { .end = (uint32_t)text->s.n, .origin = KP_ORIGIN_TRUSTED };
	struct runs r = { .p = &whole, .end = &whole + 1 };
	size_t n = 0;
	char rest[KP_PROMPT_BLOCK] = { 0 };
	if (text->n_runs) {
		r = (struct runs){ .p = text->runs, .end = text->runs + text->n_runs };
	}
	if (at) {
		(void)runs_to(k, 0, &r, at);
	}
	for (; text->s.n - at >= KP_PROMPT_BLOCK; at += KP_PROMPT_BLOCK) {
		h = runs_to(k, block(k, h, text->s.p + at), &r, at + KP_PROMPT_BLOCK);
		ret[n++] = h;
	}
	if (text->s.n > at) {
		memcpy(rest, text->s.p + at, text->s.n - at);
	}
	h = runs_to(k, block(k, h, rest), &r, text->s.n);
	ret[n++] = fold(h ^ text->s.n, k->word[KP_PROMPT_BLOCK / 8 + 2] | 1);
	return n;
}

size_t kp_prompt_hash(
	const struct kp_prompt_hash_key *k, kp_str scope, const struct kp_text *text, uint64_t *ret)
{
	return hash_from(k, kp_siphash(scope.p, scope.n, k->scope), 0, text, ret);
}

size_t kp_prompt_hash_rest(const struct kp_prompt_hash_key *k, uint64_t h, size_t blocks,
	const struct kp_text *text, uint64_t *ret)
{
	return hash_from(k, h, blocks * KP_PROMPT_BLOCK, text, ret);
}

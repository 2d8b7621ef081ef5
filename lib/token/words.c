/* DESIGN: see words.h. Full lines continue in the next one; a few lines behind the last serve the last ones. */
#include "token/words.h"
#include "base/mem.h"

#include <string.h>

static int put(struct kp_words *w, const struct kp_vocab *v, kp_id id, struct kp_err *err)
{
	kp_str s = kp_vocab_bytes(v, id);
	unsigned char bytes[16] = { 0 };
	memcpy(bytes, s.p, s.n);
	struct kp_word x = { .lo = kp_load64(bytes),
		.hi = (uint32_t)kp_load64(bytes + 8),
		.info = (uint32_t)s.n << 20 | id };
	uint64_t h = kp_hash_fold(x.lo, (uint64_t)s.n << 32 | x.hi);
	size_t at = (size_t)((h >> 32) * w->n_lines >> 32) * 4,
	       end = KP_MIN(at + 4 * KP_WORD_SPILL, 4 * ((size_t)w->n_lines + KP_WORD_SPILL - 1));
	while (at < end && w->word[at].info) {
		at++;
	}
	if (at == end) {
		return kp_err_set(
			err, KP_INVALID_ARGUMENT, "index `%zu` tokens: made to collide", v->n);
	}
	w->word[at] = x;
	return 0;
}

static bool wanted(const struct kp_vocab *v, kp_id id, uint8_t flags)
{
	return (v->tok[id].flags & flags) && v->tok[id].n && v->tok[id].n <= KP_WORD_MAX;
}

int kp_words_create(struct kp_words *w, const struct kp_vocab *v, uint8_t flags, struct kp_err *err)
{
	size_t n = 0;
	for (kp_id id = 0; id < v->n; id++) {
		n += wanted(v, id, flags);
	}
	w->n_lines = (uint32_t)(n * 3 / 8 + 1); /* two thirds full */
	size_t bytes = ((size_t)w->n_lines + KP_WORD_SPILL) * 4 * sizeof(*w->word);
	w->block = kp_try_malloc(bytes + 63);
	if (!w->block) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "index `%zu` tokens", n);
	}
	w->word = (struct kp_word *)(((uintptr_t)w->block + 63) & ~(uintptr_t)63);
	memset(w->word, 0, bytes);
	for (kp_id id = 0; id < v->n; id++) {
		if (wanted(v, id, flags) && put(w, v, id, err)) {
			return -1;
		}
	}
	return 0;
}

void kp_words_fini(struct kp_words *w)
{
	kp_free(&w->block);
	w->word = NULL;
}

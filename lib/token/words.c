/* DESIGN: see words.h. Full lines continue in the next one; a few lines behind the last serve the last ones. */
#include "token/words.h"
#include "base/mem.h"

#include <string.h>

/* The token's bytes as pieces have them; how many, or more than KP_WORD_MAX. */
static size_t spelling(const struct kp_vocab *v, kp_id id, bool blank, unsigned char out[16])
{
	kp_str s = kp_vocab_bytes(v, id);
	size_t n = 0;
	memset(out, 0, 16);
	while (s.n && n <= KP_WORD_MAX) {
		bool mark = blank && kp_str_starts(s, KP_S("▁"));
		out[n++] = mark ? ' ' : (unsigned char)s.p[0];
		s = kp_str_skip(s, mark ? 3 : 1);
	}
	return n;
}

static struct kp_word *first_line(const struct kp_words *w, const struct kp_word *x)
{
	uint64_t h = kp_hash_fold(x->lo, (uint64_t)(x->info >> 20) << 32 | x->hi);
	return w->word + ((h >> 32) * w->n_lines >> 32) * 4;
}

static int put(struct kp_words *w, const struct kp_word *x, size_t n_tokens, struct kp_err *err)
{
	size_t at = (size_t)(first_line(w, x) - w->word),
	       end = KP_MIN(at + 4 * KP_WORD_SPILL, 4 * ((size_t)w->n_lines + KP_WORD_SPILL - 1));
	while (at < end && w->word[at].info) {
		at++;
	}
	if (at == end) {
		return kp_err_set(
			err, KP_INVALID_ARGUMENT, "index `%zu` tokens: made to collide", n_tokens);
	}
	w->word[at] = *x;
	return 0;
}

static bool wanted(const struct kp_vocab *v, kp_id id, uint8_t flags, bool blank)
{
	unsigned char bytes[16];
	return (v->tok[id].flags & flags) && v->tok[id].n &&
	       v->tok[id].n <= (blank ? 3 : 1) * KP_WORD_MAX &&
	       spelling(v, id, blank, bytes) <= KP_WORD_MAX;
}

static void add_longer(struct kp_words *w, kp_str s)
{
	uint64_t bit = kp_hash_bytes(s.p, s.n) >> (64 - KP_LONGER_BITS);
	w->longer[bit >> 6] |= UINT64_C(1) << (bit & 63);
}

/* Lines are anywhere in memory: each is sent for some words before its own is put there. */
static int put_all(
	struct kp_words *w, const struct kp_vocab *v, uint8_t flags, bool blank, struct kp_err *err)
{
	struct kp_word wait[16];
	size_t n = 0, done = 0;
	for (kp_id id = 0; id < v->n; id++) {
		unsigned char bytes[16];
		if ((v->tok[id].flags & flags) && v->tok[id].n > KP_WORD_MAX) {
			add_longer(w, kp_vocab_bytes(v, id));
		}
		if (!wanted(v, id, flags, blank)) {
			continue;
		}
		if (n - done == KP_LEN(wait) && put(w, &wait[done++ % KP_LEN(wait)], v->n, err)) {
			return -1;
		}
		size_t len = spelling(v, id, blank, bytes);
		struct kp_word *x = &wait[n++ % KP_LEN(wait)];
		*x = (struct kp_word){ .lo = kp_load64(bytes),
			.hi = (uint32_t)kp_load64(bytes + 8),
			.info = (uint32_t)len << 20 | id };
		__builtin_prefetch(first_line(w, x), 1);
	}
	while (done < n) {
		if (put(w, &wait[done++ % KP_LEN(wait)], v->n, err)) {
			return -1;
		}
	}
	return 0;
}

int kp_words_create(
	struct kp_words *w, const struct kp_vocab *v, uint8_t flags, bool blank, struct kp_err *err)
{
	size_t n = 0;
	for (kp_id id = 0; id < v->n; id++) {
		n += wanted(v, id, flags, blank);
	}
	w->n_lines = (uint32_t)(n * 3 / 8 + 1); /* two thirds full */
	size_t bytes = ((size_t)w->n_lines + KP_WORD_SPILL) * 4 * sizeof(*w->word);
	w->block = kp_try_malloc(bytes + 63);
	w->longer = kp_try_malloc(KP_LONGER_WORDS * sizeof(*w->longer));
	if (!w->block || !w->longer) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "index `%zu` tokens", n);
	}
	w->word = (struct kp_word *)(((uintptr_t)w->block + 63) & ~(uintptr_t)63);
	memset(w->word, 0, bytes);
	memset(w->longer, 0, KP_LONGER_WORDS * sizeof(*w->longer));
	return put_all(w, v, flags, blank, err);
}

void kp_words_fini(struct kp_words *w)
{
	kp_free(&w->block);
	kp_free(&w->longer);
	w->word = NULL;
}

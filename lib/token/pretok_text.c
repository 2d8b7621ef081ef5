/* DESIGN: pieces of text for a BPE that has the whole text as one piece (Gemma): cut where no merge can reach over (borders.h), blanks standing for the "▁" that the
   normalizer would write. The block half leaves words of ASCII letters and the blank before them uncut and asks at every other border; the scalar half
   asks at every border. Where one cuts and the other does not, the ids are the same. */
#include "token/block.h"
#include "token/pretok.h"

/* The borders of q that are none, since no two such characters are in a token; *ret_unsure: those for which the characters around decide. */
static inline uint64_t ask(
	const struct kp_borders *c, const uint8_t *p, uint64_t q, uint64_t *ret_unsure)
{
	uint64_t cut = 0, unsure = 0;
	for (; q; q &= q - 1) {
		unsigned i = (unsigned)__builtin_ctzll(q),
			 pair = kp_borders_ascii(c, p[i - 1], p[i]);
		cut |= (uint64_t)(pair == KP_PAIR_APART) << i;
		unsure |= (uint64_t)(pair == KP_PAIR_INSIDE) << i;
	}
	*ret_unsure = unsure;
	return cut;
}

/* What those are cut at, left to right, since over a cut nothing reaches; n: bytes that show. */
static inline uint64_t ask_around(
	const struct kp_borders *c, const uint8_t *p, unsigned n, uint64_t unsure, uint64_t cut)
{
	for (; KP_UNLIKELY(unsure); unsure &= unsure - 1) {
		unsigned i = (unsigned)__builtin_ctzll(unsure);
		bool before = i > 1 && !(cut >> (i - 1) & 1);
		bool joined =
			kp_borders_joined(c, KP_PAIR_INSIDE, before ? p[i - 2] : KP_BORDER_NONE,
				p[i - 1], p[i], i + 1 < n ? p[i + 1] : KP_BORDER_NONE);
		cut |= (uint64_t)!joined << i;
	}
	return cut;
}

/* The characters behind rows of blanks that can be cut there. */
static inline uint64_t behind_blanks(const struct kp_borders *c, const struct kp_block *b)
{
	uint64_t blank = b->a.blank, m = b->valid & ~blank & blank << 1 & blank << 2;
	for (uint64_t q = m; q; q &= q - 1) {
		unsigned i = (unsigned)__builtin_ctzll(q);
		uint64_t before = ~blank & ((UINT64_C(1) << i) - 1); /* not blank */
		unsigned row = before ? i + (unsigned)__builtin_clzll(before) - 64 : i;
		m &= row > c->blanks ? ~(q & -q) : UINT64_MAX;
	}
	return m;
}

static inline uint64_t starts(
	const struct kp_borders *c, const uint8_t *p, const uint8_t *end, bool *ret_all)
{
	struct kp_block b;
	kp_block_load(&b, p, end, 0);
	uint64_t letter = b.a.letter, m = c->blanks ? behind_blanks(c, &b) : 0;
	/* A border is certain when the character behind it shows too. Rows of blanks are tokens. */
	uint64_t unsure, q = (b.all ? b.valid : b.valid >> 1) & ~UINT64_C(1) &
			     ~(letter & (letter | b.a.blank) << 1) & ~m;
	if (kp_borders_ascii(c, ' ', ' ') == KP_PAIR_TOKEN) {
		q &= ~(b.a.blank & b.a.blank << 1);
	}
	m |= ask(c, p, q, &unsure);
	m = ask_around(c, p, b.n, unsure, m);
	*ret_all = b.all;
	return m;
}

static void run(struct kp_span *e, const uint8_t *p, const uint8_t *end, const uint8_t *readable)
{
	const struct kp_borders *c = &e->t->model.borders;
	const uint8_t *letters = p; /* up to here there is no long piece of letters */
	while (p < end && !e->failed) {
		kp_span_room(e, &p, &end, &readable);
		if (e->queued >= e->full) {
			kp_span_step(e);
		}
		size_t n = 0;
		if (KP_LIKELY(!(kp_load64(p) & UINT64_C(0x8080808080808080)))) {
			bool all;
			uint64_t m = starts(c, p, end, &all);
			if (KP_LIKELY(m || all)) {
				p = kp_span_block(e, p, m, all ? end : NULL);
				continue;
			}
			n = p < letters ? 0 : kp_borders_letters(c, p, end, &letters);
		}
		n = n ? n : kp_borders_next(c, p, end);
		kp_span_push(e, p, n);
		p += n;
	}
}

/* The whole text is one piece. */
static size_t piece(const uint8_t *p, const uint8_t *end)
{
	return (size_t)(end - p);
}

const struct kp_pretok kp_pretok_text = { "text", run, piece };

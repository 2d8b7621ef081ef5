/* DESIGN: the tables of bpe.h from a vocabulary and its merges, once per load; temporary memory is 8 bytes per id.

   mark_characters decides which characters may enter a merge whole. A character of the vocabulary is built from its bytes by merges
   of known ranks. If at each of these steps every merge that could join the symbol at its left or right edge with
   something outside has a higher rank, no text around can come in between; if besides every merge of the whole
   character ranks above its own steps, starting with it whole changes nothing that happens earlier. "Outside" is limited
   to what valid UTF-8 can have there: symbols that end, or begin, at a character border. */
#include "token/bpe.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "token/hash.h"

#include <string.h>

/* Collisions that a table of n entries may have in all while it is filled; a hundred times what chance gives. */
#define KP_TABLE_PROBES(n) ((n)*128 + 65536)

kp_id kp_vocab_find(const struct kp_vocab *v, kp_str bytes)
{
	uint64_t h = kp_hash_bytes(bytes.p, bytes.n);
	uint32_t tag = (uint32_t)(h >> 52) << 20;
	for (size_t i = (size_t)h & v->slot_mask; v->slot[i]; i = (i + 1) & v->slot_mask) {
		uint32_t e = v->slot[i];
		if ((e & 0xfff00000) == tag &&
			kp_str_eq(kp_vocab_bytes(v, (e & 0xfffff) - 1), bytes)) {
			return (e & 0xfffff) - 1;
		}
	}
	return KP_BPE_GAP;
}

int kp_vocab_index(struct kp_vocab *v, struct kp_err *err)
{
	size_t slots = 16, probes = 0;
	while (slots < v->n + v->n / 2) {
		slots *= 2;
	}
	v->slot_mask = slots - 1;
	v->slot = kp_try_malloc(slots * sizeof(*v->slot));
	if (!v->slot) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "index `%zu` tokens", v->n);
	}
	memset(v->slot, 0, slots * sizeof(*v->slot));
	for (kp_id id = 0; id < v->n; id++) {
		if (!(v->tok[id].flags & KP_TOK_WORD)) {
			continue;
		}
		kp_str bytes = kp_vocab_bytes(v, id);
		uint64_t h = kp_hash_bytes(bytes.p, bytes.n);
		uint32_t tag = (uint32_t)(h >> 52) << 20;
		size_t i = (size_t)h & v->slot_mask;
		for (; v->slot[i]; i = (i + 1) & v->slot_mask) {
			if ((v->slot[i] & 0xfff00000) == tag &&
				kp_str_eq(kp_vocab_bytes(v, (v->slot[i] & 0xfffff) - 1), bytes)) {
				return kp_err_set(err, KP_INVALID_ARGUMENT,
					"load token `%u`: the same text as token `%u`", id,
					(v->slot[i] & 0xfffff) - 1);
			}
			if (++probes > KP_TABLE_PROBES(v->n)) {
				return kp_err_set(err, KP_INVALID_ARGUMENT,
					"index `%zu` tokens: made to collide", v->n);
			}
		}
		v->slot[i] = tag | (id + 1);
	}
	return 0;
}

/* --- pairs ------------------------------------------------------------------------------------------------------- */

static void put_pair(
	struct kp_bpe *b, kp_id left, kp_id right, uint32_t rank, bool keep_last, size_t *probes)
{
	uint64_t key = (uint64_t)left << 20 | right;
	size_t i = (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> b->shift);
	for (; b->pair[i] != UINT64_MAX && b->pair[i] >> 24 != key; i = (i + 1) & b->mask) {
		++*probes;
	}
	if (b->pair[i] == UINT64_MAX || keep_last) {
		b->pair[i] = key << 24 | rank;
	}
}

static int make_pairs(
	struct kp_bpe *b, const struct kp_merge *m, size_t n, bool keep_last, struct kp_err *err)
{
	unsigned bits = 4;
	while (((size_t)3 << bits) / 4 < n) {
		bits++;
	}
	size_t slots = (size_t)1 << bits;
	b->shift = 64 - bits;
	b->mask = slots - 1;
	b->n_merges = n;
	b->pair = kp_try_malloc(slots * sizeof(*b->pair));
	b->product = kp_try_malloc((n + 1) * sizeof(*b->product));
	if (!b->pair || !b->product) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "build `%zu` merges", n);
	}
	memset(b->pair, 0xff, slots * sizeof(*b->pair));
	size_t probes = 0;
	for (size_t i = 0; i < n; i++) {
		put_pair(b, m[i].left, m[i].right, (uint32_t)i, keep_last, &probes);
		b->product[i] = m[i].product;
		if (probes > KP_TABLE_PROBES(n)) {
			return kp_err_set(
				err, KP_INVALID_ARGUMENT, "build `%zu` merges: made to collide", n);
		}
	}
	return 0;
}

/* --- characters -------------------------------------------------------------------------------------------------- */

struct edges {
	uint32_t *
		left; /* least rank of a merge that joins the symbol to one on its left that ends a character */
	uint32_t *right; /* the same to the right */
};

static bool ends_character(kp_str s)
{
	return s.n && (uint8_t)s.p[s.n - 1] < 0xc0 && kp_utf8_incomplete_tail(s) == 0;
}

static bool starts_character(kp_str s)
{
	return s.n && ((uint8_t)s.p[0] & 0xc0) != 0x80;
}

static int make_edges(const struct kp_vocab *v, const struct kp_merge *m, size_t n, struct edges *e,
	struct kp_err *err)
{
	e->left = kp_try_malloc(2 * v->n * sizeof(*e->left));
	if (!e->left) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "build `%zu` merges", n);
	}
	memset(e->left, 0xff, 2 * v->n * sizeof(*e->left));
	e->right = e->left + v->n;
	for (size_t i = n; i-- > 0;) {
		if (ends_character(kp_vocab_bytes(v, m[i].left))) {
			e->left[m[i].right] = (uint32_t)i;
		}
		if (starts_character(kp_vocab_bytes(v, m[i].right))) {
			e->right[m[i].left] = (uint32_t)i;
		}
	}
	return 0;
}

/* Merges the 2 or 3 bytes of a character alone; the id, or KP_BPE_GAP when something around could interfere. */
static kp_id whole_character(const struct kp_bpe *b, const struct edges *e, kp_str s)
{
	kp_id sym[3] = { 0, 0, 0 };
	size_t k = s.n;
	uint32_t highest = 0;
	for (size_t i = 0; i < k; i++) {
		sym[i] = b->byte_id[(uint8_t)s.p[i]];
		if (sym[i] == KP_BPE_GAP) {
			return KP_BPE_GAP;
		}
	}
	while (k > 1) {
		uint32_t first = kp_bpe_rank(b, sym[0], sym[1]);
		uint32_t second = k == 3 ? kp_bpe_rank(b, sym[1], sym[2]) : UINT32_MAX;
		uint32_t rank = KP_MIN(first, second);
		if (rank == UINT32_MAX || e->left[sym[0]] <= rank || e->right[sym[k - 1]] <= rank) {
			return KP_BPE_GAP;
		}
		if (first <= second) {
			sym[0] = b->product[rank];
			sym[1] = sym[2];
		} else {
			sym[1] = b->product[rank];
		}
		highest = KP_MAX(highest, rank);
		k--;
	}
	return e->left[sym[0]] > highest && e->right[sym[0]] > highest ? sym[0] : KP_BPE_GAP;
}

static int mark_characters(struct kp_bpe *b, const struct kp_merge *m, size_t n, struct kp_err *err)
{
	enum { N2 = 1 << 11, N3 = 1 << 16 };
	struct edges e = { NULL, NULL };
	b->char2 = kp_try_malloc((N2 + N3) * sizeof(*b->char2));
	if (!b->char2 || make_edges(b->vocab, m, n, &e, err)) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "build `%zu` merges", n);
	}
	b->char3 = b->char2 + N2;
	for (size_t i = 0; i < N2 + N3; i++) {
		b->char2[i] = KP_BPE_GAP;
	}
	for (kp_id id = 0; id < b->vocab->n; id++) {
		kp_str s = kp_vocab_bytes(b->vocab, id);
		uint32_t cp;
		if (!(b->vocab->tok[id].flags & KP_TOK_WORD) || s.n < 2 || s.n > 3 ||
			kp_utf8_decode(s.p, s.n, &cp) != s.n) {
			continue;
		}
		(s.n == 2 ? b->char2 : b->char3)[cp] = whole_character(b, &e, s);
	}
	kp_free(&e.left);
	return 0;
}

/* Which tokens are what their own bytes encode to (Llama 3 has 588 that are not). Bytes that are not valid UTF-8 are
   never a whole piece of a text. */
static void mark_self(const struct kp_bpe *b, struct kp_vocab *v)
{
	kp_id out[KP_BPE_SMALL];
	for (kp_id id = 0; id < v->n; id++) {
		kp_str s = kp_vocab_bytes(v, id);
		if ((v->tok[id].flags & KP_TOK_WORD) && s.n && s.n <= KP_BPE_SMALL &&
			kp_utf8_ok(s) && kp_bpe_small(b, (const uint8_t *)s.p, s.n, out) == 1 &&
			out[0] == id) {
			v->tok[id].flags |= KP_TOK_SELF;
		}
	}
}

int kp_bpe_create(struct kp_bpe *b, struct kp_vocab *vocab, const struct kp_merge *merges, size_t n,
	bool keep_last, bool drop_gaps, struct kp_err *err)
{
	if (n > KP_BPE_MAX_MERGES) {
		return kp_err_set(
			err, KP_TOO_LARGE, "load `%zu` merges: at most %d", n, KP_BPE_MAX_MERGES);
	}
	*b = (struct kp_bpe){ .vocab = vocab, .drop_gaps = drop_gaps };
	for (size_t c = 0; c < 256; c++) {
		char byte = (char)c;
		b->byte_id[c] = kp_vocab_find(vocab, kp_str_n(&byte, 1));
	}
	if (make_pairs(b, merges, n, keep_last, err) || mark_characters(b, merges, n, err)) {
		return -1;
	}
	mark_self(b, vocab);
	return 0;
}

void kp_bpe_fini(struct kp_bpe *b)
{
	kp_free(&b->pair);
	kp_free(&b->product);
	kp_free(&b->char2);
	b->char3 = NULL;
}

/* DESIGN: the tables of bpe.h from a vocabulary and its merges, once per load; temporary memory is 8 bytes per id. */
#include "token/bpe.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "token/bpe_ascii.h"
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
	return KP_BPE_NO_ID;
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

/* Lines are anywhere in memory: each is sent for so many pairs before it is written. */
enum { AHEAD = 16 };

static struct kp_pair_line *pair_line(const struct kp_bpe *b, const struct kp_merge *m)
{
	return &b->line[(kp_pair_place(m->left, m->right) >> (64 - b->line_bits)) + 1];
}

static int put_pair(struct kp_bpe *b, const struct kp_merge *m, uint32_t rank, bool keep_last,
	struct kp_err *err)
{
	uint64_t place = kp_pair_place(m->left, m->right);
	uint32_t tag = (uint32_t)(place << b->line_bits >> 32) + 1;
	struct kp_pair_line *l = pair_line(b, m);
	for (unsigned moved = 0; moved < KP_PAIR_SPILL; moved++, l++, tag++) {
		for (size_t i = 0; i < 8; i++) {
			if (l->tag[i] == 0) {
				l->tag[i] = tag;
				l->rank[i] = rank;
				return 0;
			}
			if (l->tag[i] == tag) {
				l->rank[i] = keep_last ? rank : l->rank[i];
				return 0;
			}
		}
	}
	return kp_err_set(
		err, KP_INVALID_ARGUMENT, "build `%u` merges: made to collide", b->n_merges);
}

static int make_pairs(
	struct kp_bpe *b, const struct kp_merge *m, bool keep_last, struct kp_err *err)
{
	b->line_bits = 12; /* the tag has line_bits - 8 bits left for how far a pair was moved on */
	while (b->n_merges / 5 >
		(size_t)1 << b->line_bits) { /* one line in twelve is full, or fewer */
		b->line_bits++;
	}
	size_t bytes = kp_pair_lines(b->line_bits) * sizeof(*b->line);
	b->line_block = kp_try_malloc(bytes + 63);
	if (!b->line_block) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "build `%u` merges", b->n_merges);
	}
	b->line = (struct kp_pair_line *)(((uintptr_t)b->line_block + 63) & ~(uintptr_t)63);
	memset(b->line, 0, bytes);
	for (uint32_t i = 0; i < b->n_merges; i++) {
		__builtin_prefetch(pair_line(b, &m[KP_MIN(i + AHEAD, b->n_merges - 1)]), 1);
		if (put_pair(b, &m[i], b->by_product ? m[i].product : i, keep_last, err)) {
			return -1;
		}
	}
	return 0;
}

static int make_partners(struct kp_bpe *b, const struct kp_merge *merges, struct kp_err *err)
{
	size_t n = b->vocab->n + 1; /* b->gap among them */
	b->partners = kp_try_malloc(n * sizeof(*b->partners));
	if (!b->partners) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "build `%u` merges", b->n_merges);
	}
	memset(b->partners, 0, n * sizeof(*b->partners));
	for (uint32_t i = 0; i < b->n_merges; i++) {
		const struct kp_merge *m = &merges[i];
		b->partners[m->left].right |= UINT64_C(1) << (m->right & 63);
		b->partners[m->right].left |= UINT64_C(1) << (m->left & 63);
	}
	return 0;
}

static int make_byte_pairs(struct kp_bpe *b, const struct kp_merge *m, struct kp_err *err)
{
	b->byte_pair = kp_try_malloc(65536 * sizeof(*b->byte_pair));
	if (!b->byte_pair) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "build `%u` merges", b->n_merges);
	}
	for (size_t i = 0; i < 65536; i++) {
		b->byte_pair[i] = kp_bpe_rank(b, b->byte_id[i >> 8], b->byte_id[i & 255]);
	}
	if (b->by_product) {
		return 0;
	}
	b->product = kp_try_malloc(KP_MAX(b->n_merges, 1U) * sizeof(*b->product));
	if (!b->product) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "build `%u` merges", b->n_merges);
	}
	for (uint32_t i = 0; i < b->n_merges; i++) {
		b->product[i] = m[i].product;
	}
	return 0;
}

static int make_tables(
	struct kp_bpe *b, const struct kp_merge *merges, bool keep_last, struct kp_err *err)
{
	return make_pairs(b, merges, keep_last, err) || make_partners(b, merges, err) ||
			       make_byte_pairs(b, merges, err)
		       ? -1
		       : 0;
}

int kp_bpe_rebuild(struct kp_bpe *b, const struct kp_merge *merges, size_t n, bool by_product,
	struct kp_err *err)
{
	kp_free(&b->line_block);
	kp_free(&b->partners);
	kp_free(&b->product);
	kp_free(&b->byte_pair);
	b->n_merges = (uint32_t)n;
	b->by_product = by_product;
	return make_tables(b, merges, true, err);
}

static int begin(struct kp_bpe *b, struct kp_vocab *vocab, const struct kp_merge *merges, size_t n,
	bool keep_last, bool drop_gaps, struct kp_err *err)
{
	*b = (struct kp_bpe){ .vocab = vocab,
		.by_product = b->by_product,
		.drop_gaps = drop_gaps,
		.n_merges = (uint32_t)n,
		.gap = (kp_id)vocab->n };
	if (n > KP_BPE_MAX_MERGES) {
		return kp_err_set(
			err, KP_TOO_LARGE, "load `%zu` merges: at most %d", n, KP_BPE_MAX_MERGES);
	}
	for (size_t c = 0; c < 256; c++) {
		char byte = (char)c;
		kp_id id = kp_vocab_find(vocab, kp_str_n(&byte, 1));
		b->byte_id[c] = id == KP_BPE_NO_ID ? b->gap : id;
	}
	return make_tables(b, merges, keep_last, err);
}

int kp_bpe_create(struct kp_bpe *b, struct kp_vocab *vocab, const struct kp_merge *merges, size_t n,
	bool keep_last, bool drop_gaps, struct kp_err *err)
{
	struct kp_merge *live = NULL;
	int r = begin(b, vocab, merges, n, keep_last, drop_gaps, err) ||
				kp_bpe_drop_dead(b, vocab, NULL, &live, err) ||
				kp_bpe_find_chars(b, live, err) ||
				kp_bpe_find_ascii(b, live, false, err)
			? -1
			: 0;
	kp_mem_free(live);
	return r;
}

int kp_bpe_create_text(struct kp_bpe *b, struct kp_vocab *vocab, const struct kp_merge *merges,
	size_t n, struct kp_err *err)
{
	return begin(b, vocab, merges, n, true, false, err);
}

void kp_bpe_fini(struct kp_bpe *b)
{
	kp_free(&b->line_block);
	kp_free(&b->partners);
	kp_free(&b->product);
	kp_free(&b->byte_pair);
	kp_free(&b->ascii);
	kp_free(&b->char_index);
	kp_free(&b->chars);
}

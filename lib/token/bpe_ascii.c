/* DESIGN: long pieces of ASCII in which merges are local, as in random letters: most merges and most borders are known from the letters beside them.

   Two letters x, y between w and z merge first whatever stands further off, when their rank r is below that of every merge that joins x to something that ends in w, and
   below that of any that joins y to something that begins with z: as long as both are there, no other merge takes one of them. What they give
   may stand there from the begin when no merge of it has a lower rank than r, as nothing is then brought forward that had to wait. Both hold for what lies beside them
   after such a merge too, since only the last letter before and the first one behind count. So all of these merges are made at once, without a queue.

   Of the symbols that are left, of one or two letters, neighbours are never joined when no merge is of something that ends in the one and something that begins with the other.
   What lies between two such borders is merged by itself, many side by side (bpe.h).

   The facts are found at load, over all merges that ever happen. A set by hash that says yes by mistake leaves a border uncut. Threads: reads only b. */
#include "token/bpe_ascii.h"
#include "base/mem.h"
#include "token/hash.h"

#include <string.h>

enum {
	CHUNK = 1024, /* letters that are looked at together */
	PERIOD = 60,
	STRETCHES = 2 * (CHUNK + 1) / KP_BPE_SOME +
		    4, /* two that follow each other are more than KP_BPE_SOME */
	NEVER = KP_ASCII_NEVER,
};

/* An entry of b->ascii, for two letters side by side, by the second one << 7 | the first one: bits 0 to 9 their rank (NEVER: they do not merge, or not at once); 10 to 19 the least
   rank of all merges of the first one alone and something that begins with the second one; 20 to 29 of something that ends in the first one and the second one alone. Ranks
   are coarse: where one is less than another, so is what it stands for. Bit 31: one of them is no symbol. */
#define NO_PAIR   ((uint32_t)NEVER << 20 | (uint32_t)NEVER << 10 | NEVER)
#define NO_SYMBOL (UINT32_C(1) << 31)

/* Six bits behind the first one. */
static uint32_t coarse(uint32_t rank)
{
	unsigned bits = rank < 128 ? 0 : 25 - (unsigned)__builtin_clz(rank);
	return KP_MIN((bits << 6) + (rank >> bits), NEVER - 1U);
}

/* Where the set has the border between two symbols. */
static inline size_t border_bit(kp_id left, kp_id right)
{
	return (left * UINT32_C(0x85ebca6b) + right) * UINT32_C(0x9e3779b1) >>
	       (32 - KP_ASCII_SET_BITS);
}

/* --- at load ----------------------------------------------------------------------------------------------------------- */

static void lower(uint32_t *entry, unsigned shift, uint32_t rank)
{
	uint32_t mask = (uint32_t)NEVER << shift, x = coarse(rank) << shift;
	if (x < (*entry & mask)) {
		*entry = (*entry & ~mask) | x;
	}
}

/* The symbol that two letters, if it is two, may have become. KP_BPE_NO_ID: none. */
static kp_id symbol_of(const struct kp_bpe *b, kp_str s)
{
	uint32_t rank;
	if (s.n == 1) {
		return b->byte_id[(uint8_t)s.p[0]];
	}
	rank = b->byte_pair[(uint8_t)s.p[0] << 8 | (uint8_t)s.p[1]];
	return rank == KP_BPE_NONE ? KP_BPE_NO_ID : kp_bpe_product(b, rank);
}

/* The borders that a merge of l and r is over, between symbols of up to two letters. */
static void put_borders(struct kp_bpe *b, kp_str l, kp_str r)
{
	uint32_t *set = b->ascii + KP_ASCII_SET;
	for (unsigned k = 0; k < 4; k++) {
		size_t n_left = 1 + (k & 1), n_right = 1 + (k >> 1);
		if (l.n < n_left || r.n < n_right) {
			continue;
		}
		kp_id x = symbol_of(b, kp_str_skip(l, l.n - n_left)),
		      y = symbol_of(b, kp_str_sub(r, 0, n_right));
		if (x != KP_BPE_NO_ID && y != KP_BPE_NO_ID) {
			size_t bit = border_bit(x, y);
			set[bit >> 5] |= UINT32_C(1) << (bit & 31);
		}
	}
}

static void put_merge(struct kp_bpe *b, const struct kp_merge *m, uint32_t rank)
{
	/* Products are read in order mostly, their sides are not. */
	kp_str made = kp_vocab_bytes(b->vocab, m->product);
	size_t n = KP_MIN((size_t)b->vocab->tok[m->left].n, made.n);
	kp_str l = kp_str_sub(made, 0, n), r = kp_str_skip(made, n);
	uint8_t x = l.n ? (uint8_t)l.p[l.n - 1] : 255, y = r.n ? (uint8_t)r.p[0] : 255;
	if ((x | y) >= 128) {
		return;
	}
	uint32_t *entry = &b->ascii[y << 7 | x];
	if (m->left == b->byte_id[x]) {
		lower(entry, 10, rank);
	}
	if (m->right == b->byte_id[y]) {
		lower(entry, 20, rank);
	}
	put_borders(b, l, r);
}

/* The ranks of pairs of letters that may merge at once. first: of each id, the least rank of its merges. */
static void put_pairs(struct kp_bpe *b, const uint32_t *first, bool blank)
{
	for (size_t i = 0; i < KP_ASCII_PRODUCT; i++) {
		size_t x = i & 127, y = i >> 7;
		uint32_t rank = b->byte_pair[x << 8 | y];
		bool gap = b->byte_id[x] == b->gap || b->byte_id[y] == b->gap;
		gap |= blank && (x == ' ' || y == ' ');
		b->ascii[i] |= gap ? NO_SYMBOL : 0;
		if (rank != KP_BPE_NONE) {
			kp_id made = kp_bpe_product(b, rank);
			b->ascii[KP_ASCII_PRODUCT + i] = made;
			if (first[made] > rank) {
				lower(&b->ascii[i], 0, rank);
			}
		}
	}
}

int kp_bpe_find_ascii(struct kp_bpe *b, const struct kp_merge *m, bool blank, struct kp_err *err)
{
	size_t bytes = b->vocab->n * sizeof(uint32_t);
	uint32_t *first = kp_try_malloc(bytes);
	b->ascii = kp_try_malloc(KP_ASCII_WORDS * sizeof(*b->ascii));
	if (!first || !b->ascii) {
		kp_mem_free(first);
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "build `%u` merges", b->n_merges);
	}
	memset(first, 0xff, bytes);
	memset(b->ascii, 0, KP_ASCII_WORDS * sizeof(*b->ascii));
	for (size_t i = 0; i < KP_ASCII_PRODUCT; i++) {
		b->ascii[i] = NO_PAIR;
	}
	for (uint32_t i = 0; i < b->n_merges; i++) {
		uint32_t rank = kp_bpe_merge_rank(b, m, i);
		first[m[i].left] = KP_MIN(first[m[i].left], rank);
		first[m[i].right] = KP_MIN(first[m[i].right], rank);
		put_merge(b, &m[i], rank);
	}
	put_pairs(b, first, blank);
	kp_mem_free(first);
	return 0;
}

bool kp_bpe_ascii_ok(const struct kp_bpe *b)
{
	bool ok = true;
	for (size_t i = 0; b->ascii && i < KP_ASCII_PRODUCT; i++) {
		ok &= b->ascii[KP_ASCII_PRODUCT + i] < b->gap;
	}
	return ok;
}

/* --- encoding ---------------------------------------------------------------------------------------------------------- */

/* Symbols from..to of a chunk, merged by themselves. */
struct stretch {
	size_t from, to;
	struct kp_bpe_job *job; /* NULL: there are too many of them */
};

struct chunk {
	const struct kp_bpe *b;
	uint8_t text[8 + CHUNK + 16]; /* the letters, the two that follow, and zeros around them */
	uint32_t pair[4 + CHUNK + 64 +
		      4]; /* of each letter and the next, one more in front and behind */
	/* The symbols that are left when what merges at once has merged. */
	kp_id sym[CHUNK + 32];
	uint32_t rank[CHUNK + 32]; /* of each and the one before it */
	uint16_t ask[CHUNK + 1];   /* those whose rank does not follow from two letters */
	uint32_t cut[CHUNK +
		     2]; /* those before which nothing ever joins: << 16 | the letter it begins with */
	size_t n_sym, n_cut, n_ask;
	struct stretch stretch[STRETCHES];
	size_t n;
	struct kp_bpe_job few[STRETCHES], many[STRETCHES];
	size_t n_few, n_many;
};

/* Takes n letters of a piece that has `left` from p on. false: not all of them are ASCII and symbols. */
static bool take_letters(struct chunk *c, const uint8_t *p, size_t n, size_t left)
{
	uint8_t *letter = c->text + 8;
	uint32_t *pair = c->pair + 4, all = 0;
	size_t seen = KP_MIN(left, n + 2), i;
	uint64_t high = 0;
	memcpy(letter, p, seen);
	memset(letter + seen, 0, 8);
	for (i = 0; i < seen; i += 8) {
		high |= kp_load64(letter + i);
	}
	if (high & UINT64_C(0x8080808080808080)) {
		return false;
	}
	for (i = 0; i + 1 < seen; i++) {
		pair[i] = c->b->ascii[letter[i + 1] << 7 | letter[i]];
		all |= pair[i];
	}
	pair[i] = pair[i + 1] = NO_PAIR; /* behind the last one there is none */
	return !(all & NO_SYMBOL);
}

struct symbols {
	size_t k, asks, cuts;
	kp_id before;
};

/* The symbols that begin at each bit of `is`, of the 64 letters from `at` on; once: those of two letters; behind: those behind such a one. */
static inline void add_symbols(
	struct chunk *c, struct symbols *s, size_t at, uint64_t is, uint64_t once, uint64_t behind)
{
	const struct kp_bpe *b = c->b;
	const kp_id *product = b->ascii + KP_ASCII_PRODUCT;
	const uint32_t *set = b->ascii + KP_ASCII_SET;
	const uint8_t *letters = c->text + 8 + at;
	size_t k = s->k, asks = s->asks, cuts = s->cuts;
	kp_id before = s->before;
	for (; is; is &= is - 1) {
		size_t i = (size_t)__builtin_ctzll(is);
		const uint8_t *p = letters + i;
		uint32_t m = once >> i & 1;
		kp_id one = b->byte_id[p[0]], sym = one ^ ((one ^ product[p[1] << 7 | p[0]]) & -m);
		size_t bit = border_bit(before, sym);
		uint32_t joins = set[bit >> 5] >> (bit & 31) & 1;
		c->sym[k] = before = sym;
		c->rank[k] = b->byte_pair[p[-1] << 8 | p[0]] | (joins - 1); /* KP_BPE_NONE */
		c->ask[asks] = (uint16_t)k;
		asks += joins & (m | (behind >> i & 1)) & (k != 0);
		c->cut[cuts] = (uint32_t)(k << 16 | (at + i));
		cuts += joins ^ 1;
		k++;
	}
	*s = (struct symbols){ k, asks, cuts, before };
}

/* What merges at once, in the first n letters, and what is known of the symbols that are left. No branches: nothing in such text can be guessed. */
static void look(struct chunk *c, size_t n)
{
	struct symbols s = { .before = c->b->gap };
	uint64_t last = 0; /* the 64 letters before */
	for (size_t at = 0; at < n; at += 64) {
		uint64_t valid = n - at < 64 ? (UINT64_C(1) << (n - at)) - 1 : UINT64_MAX;
		uint64_t once = kp_at_once(c->pair + 4 + at) & valid;
		uint64_t second = once << 1 | last >> 63, behind = once << 2 | last >> 62;
		add_symbols(c, &s, at, valid & ~second, once, behind);
		last = once;
	}
	c->rank[0] = c->rank[s.k] = KP_BPE_NONE;
	c->n_sym = s.k;
	c->n_cut = s.cuts;
	c->n_ask = s.asks;
}

static void add_stretch(struct chunk *c, size_t from, size_t to)
{
	struct stretch *x = &c->stretch[c->n++];
	size_t n = to - from;
	*x = (struct stretch){ from, to, NULL };
	if (n > KP_BPE_MANY) {
		return;
	}
	x->job = n > KP_BPE_SOME ? &c->many[c->n_many++] : &c->few[c->n_few++];
	*x->job = (struct kp_bpe_job){
		.sym = c->sym + from, .rank = c->rank + from, .n = n, .ids = c->sym + from
	};
}

/* Stretches of few symbols between cuts where there are such, up to the last cut. */
static void find_stretches(struct chunk *c)
{
	size_t from = 0, last = 0;
	c->n = c->n_few = c->n_many = 0;
	for (size_t i = 0; i < c->n_cut; i++) {
		size_t cut = c->cut[i] >> 16;
		if (KP_UNLIKELY(cut - from > KP_BPE_SOME)) {
			if (last > from) {
				add_stretch(c, from, last);
				from = last;
			}
			if (cut - from > KP_BPE_SOME) {
				add_stretch(c, from, cut);
				from = cut;
			}
		}
		last = cut;
	}
	if (last > from) {
		add_stretch(c, from, last);
	}
}

/* The ranks that are not known yet, some at once: the lines of the table are on their way from memory together. */
static void find_ranks(struct chunk *c)
{
	enum { BATCH = 32 };
	struct kp_pair_at at[BATCH];
	for (size_t from = 0; from < c->n_ask; from += BATCH) {
		size_t n = KP_MIN(c->n_ask - from, (size_t)BATCH);
		for (size_t i = 0; i < n; i++) {
			const kp_id *sym = c->sym + c->ask[from + i];
			at[i] = kp_bpe_pair(c->b, sym[-1], sym[0]);
			__builtin_prefetch(at[i].line);
		}
		for (size_t i = 0; i < n; i++) {
			c->rank[c->ask[from + i]] = kp_bpe_rank_at(at[i]);
		}
	}
}

static int merge_stretches(struct chunk *c, struct kp_ids *work, struct kp_err *err)
{
	if (!kp_ids_reserve(work, c->n_sym)) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "encode `%zu` symbols", c->n_sym);
	}
	find_ranks(c);
	kp_bpe_merge_some(c->b, c->few, c->n_few);
	kp_bpe_merge_windows(c->b, c->many, c->n_many);
	for (size_t i = 0; i < c->n; i++) {
		const struct stretch *x = &c->stretch[i];
		if (x->job) {
			memcpy(work->p + work->n, x->job->ids, x->job->n * sizeof(kp_id));
			work->n += x->job->n;
		} else if (kp_bpe_symbols(c->b, c->sym + x->from, x->to - x->from, work, err)) {
			return -1;
		}
	}
	return 0;
}

/* How many of the letters at p lie before the first cut behind the chunk that begins there, which has none. What a letter becomes depends on three before it, so text that
   repeats what the chunk has is passed over. */
static size_t find_cut(struct chunk *c, const uint8_t *p, size_t n)
{
	size_t at = 0;
	while (at + PERIOD + 8 <= n && kp_load64(p + at) == kp_load64(p + at + PERIOD)) {
		at += 8;
	}
	for (at = KP_MAX(at, (size_t)CHUNK) - 8; at + 8 < n; at += CHUNK - 8) {
		size_t take = KP_MIN((size_t)CHUNK, n - at);
		if (!take_letters(c, p + at, take, n - at)) {
			break;
		}
		look(c, take);
		for (size_t i = 0; i < c->n_cut; i++) {
			if ((c->cut[i] & 0xffff) >= 4) {
				return at + (c->cut[i] & 0xffff);
			}
		}
	}
	return n;
}

int kp_bpe_ascii(const struct kp_bpe *b, const uint8_t *p, size_t n, struct kp_ids *work,
	size_t *ret_done, size_t *ret_apart, struct kp_err *err)
{
	struct chunk *c = kp_try_malloc(sizeof(*c));
	size_t done = 0, apart = n;
	if (!c) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "encode one piece of `%zu` bytes", n);
	}
	c->b = b;
	memset(c->text, 0, 8);
	c->pair[3] = NO_PAIR;
	while (done < n) {
		size_t take = KP_MIN((size_t)CHUNK, n - done);
		apart = n - done;
		if (!take_letters(c, p + done, take, n - done)) {
			break;
		}
		look(c, take);
		if (take == n - done) {
			c->cut[c->n_cut++] = (uint32_t)(c->n_sym << 16 | take);
		}
		find_stretches(c);
		if (c->n == 0) {
			apart = find_cut(c, p + done, n - done);
			break;
		}
		if (merge_stretches(c, work, err)) {
			kp_mem_free(c);
			return -1;
		}
		done += c->cut[c->n_cut - 1] & 0xffff;
	}
	kp_mem_free(c);
	*ret_done = done;
	*ret_apart = apart;
	return 0;
}

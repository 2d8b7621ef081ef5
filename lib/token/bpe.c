/* DESIGN: how one piece becomes ids.

   The pair table is one open-addressing array of 64-bit words that hold pair and rank together, so a look-up is one cache line.
   kp_bpe_small keeps rank and position of every pair in one 32-bit word and takes the minimum over all of them each time: no
   queue, no allocation, and for the lengths that text has (5 to 30 bytes) nothing is faster. Characters whose own merges no
   neighbour can disturb (see mark_characters in bpe_build.c) enter as one symbol, which saves two thirds of the work in CJK text.

   kp_bpe_long goes left to right in windows. What makes it exact: a token sequence is the encoding of its text as soon as every
   two neighbours are what their own bytes encode to, because the first merge over a border would happen in the pair alone just
   as well. So a window starts one token before the part it may change, and is accepted when that token comes out
   unchanged; otherwise it starts further left. Text on which this reaches back too far is given to kp_bpe_heap, a plain
   priority queue over a linked list. Threads: reads only b. */
#include "token/bpe.h"
#include "base/mem.h"

#include <string.h>

enum { NONE = 0x7fffffff, WINDOW = 192, BACK_MAX = 4096 };

/* The symbols the merge starts from: whole characters where that is safe, else bytes. Returns how many. */
static size_t symbols(const struct kp_bpe *b, const uint8_t *p, size_t n, kp_id *sym)
{
	size_t k = 0, i = 0;
	while (i < n) {
		uint8_t c = p[i];
		kp_id id = KP_BPE_GAP;
		if (c >= 0xe0 && c < 0xf0 && n - i >= 3) {
			id = b->char3[(size_t)(c & 15) << 12 | (size_t)(p[i + 1] & 63) << 6 |
				      (p[i + 2] & 63)];
			i += id != KP_BPE_GAP ? 2 : 0;
		} else if (c >= 0xc2 && c < 0xe0 && n - i >= 2) {
			id = b->char2[(size_t)(c & 31) << 6 | (p[i + 1] & 63)];
			i += id != KP_BPE_GAP ? 1 : 0;
		}
		if (id == KP_BPE_GAP) {
			id = b->byte_id[c];
		}
		i++;
		sym[k] = id;
		k += id != KP_BPE_GAP || !b->drop_gaps;
	}
	return k;
}

/* rank << 8 | position, so that the least one is the next merge; NONE when the pair never merges. */
static inline int32_t pair_key(const struct kp_bpe *b, kp_id left, kp_id right, size_t at)
{
	uint32_t rank = kp_bpe_rank(b, left, right);
	return rank == UINT32_MAX ? NONE : (int32_t)(rank << 8 | (uint32_t)at);
}

static inline int32_t least(const int32_t *key, size_t n)
{
	int32_t m0 = NONE, m1 = NONE, m2 = NONE, m3 = NONE;
	for (size_t i = 0; i < n; i += 4) { /* padded to four */
		m0 = KP_MIN(m0, key[i]);
		m1 = KP_MIN(m1, key[i + 1]);
		m2 = KP_MIN(m2, key[i + 2]);
		m3 = KP_MIN(m3, key[i + 3]);
	}
	m0 = KP_MIN(m0, m1);
	m2 = KP_MIN(m2, m3);
	return KP_MIN(m0, m2);
}

size_t kp_bpe_small(const struct kp_bpe *b, const uint8_t *p, size_t n, kp_id *out)
{
	kp_id sym[KP_BPE_SMALL + 1];
	int32_t key[KP_BPE_SMALL + 4];
	uint8_t next[KP_BPE_SMALL + 1], prev[KP_BPE_SMALL + 1];
	size_t k = symbols(b, p, n, sym), live = k;
	if (k < 2) {
		out[0] = sym[0];
		return k && sym[0] != KP_BPE_GAP;
	}
	for (size_t i = 0; i + 1 < k; i++) {
		key[i] = pair_key(b, sym[i], sym[i + 1], i);
		next[i] = (uint8_t)(i + 1);
		prev[i + 1] = (uint8_t)i;
	}
	size_t n_keys = k - 1, last = k - 1;
	key[n_keys] = key[n_keys + 1] = key[n_keys + 2] = NONE;
	for (;;) {
		int32_t m = least(key, n_keys);
		if (m == NONE) {
			break;
		}
		size_t i = (size_t)(m & 255), j = next[i];
		kp_id made = b->product[m >> 8];
		sym[i] = made;
		live--;
		if (j == last) {
			last = i;
			key[i] = NONE;
		} else {
			size_t after = next[j];
			next[i] = (uint8_t)after;
			prev[after] = (uint8_t)i;
			key[j] = NONE;
			key[i] = pair_key(b, made, sym[after], i);
		}
		if (i) {
			key[prev[i]] = pair_key(b, sym[prev[i]], made, prev[i]);
		}
	}
	size_t n_out = 0;
	for (size_t i = 0;; i = next[i]) {
		out[n_out] = sym[i];
		n_out += sym[i] != KP_BPE_GAP;
		if (i == last) {
			return n_out;
		}
	}
}

/* --- the queue --------------------------------------------------------------------------------------------------- */

struct heap {
	uint64_t *e; /* rank << 32 | position, least first, four children each */
	size_t n;
};

static void sift_down(struct heap *h, size_t i)
{
	uint64_t x = h->e[i];
	for (;;) {
		size_t c = 4 * i + 1, best = c;
		if (c >= h->n) {
			break;
		}
		size_t end = KP_MIN(c + 4, h->n);
		for (size_t k = c + 1; k < end; k++) {
			best = h->e[k] < h->e[best] ? k : best;
		}
		if (h->e[best] >= x) {
			break;
		}
		h->e[i] = h->e[best];
		i = best;
	}
	h->e[i] = x;
}

static void push(struct heap *h, uint32_t rank, uint32_t at)
{
	if (rank == UINT32_MAX) {
		return;
	}
	uint64_t x = (uint64_t)rank << 32 | at;
	size_t i = h->n++;
	while (i && h->e[(i - 1) / 4] > x) {
		h->e[i] = h->e[(i - 1) / 4];
		i = (i - 1) / 4;
	}
	h->e[i] = x;
}

struct list {
	kp_id *sym;
	uint32_t *next, *prev,
		*rank; /* rank of the pair that starts here; an entry of another rank is stale */
};

/* Merges until no pair is left; position 0 always stays the first symbol. */
static void run_heap(const struct kp_bpe *b, struct heap *h, struct list *l)
{
	while (h->n) {
		uint32_t i = (uint32_t)h->e[0], rank = (uint32_t)(h->e[0] >> 32);
		h->e[0] = h->e[--h->n];
		if (h->n) {
			sift_down(h, 0);
		}
		if (l->rank[i] != rank) {
			continue;
		}
		uint32_t j = l->next[i], after = l->next[j];
		l->sym[i] = b->product[rank];
		l->rank[j] = UINT32_MAX;
		l->next[i] = after;
		l->rank[i] = UINT32_MAX;
		if (after != UINT32_MAX) {
			l->prev[after] = i;
			l->rank[i] = kp_bpe_rank(b, l->sym[i], l->sym[after]);
			push(h, l->rank[i], i);
		}
		if (i) {
			uint32_t before = l->prev[i];
			l->rank[before] = kp_bpe_rank(b, l->sym[before], l->sym[i]);
			push(h, l->rank[before], before);
		}
	}
}

int kp_bpe_heap(
	const struct kp_bpe *b, const uint8_t *p, size_t n, struct kp_ids *work, struct kp_err *err)
{
	if (n == 0) {
		return 0;
	}
	/* One block: the queue (at most two entries per symbol: n - 1 at first, one more per merge), then the four arrays. */
	size_t bytes;
	if (n >= UINT32_MAX ||
		!kp_size_mul(n, 2 * sizeof(uint64_t) + 4 * sizeof(uint32_t), &bytes)) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "encode one piece of `%zu` bytes", n);
	}
	uint64_t *block = kp_try_malloc(bytes);
	if (!block || !kp_ids_reserve(work, n)) {
		kp_mem_free(block);
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "encode one piece of `%zu` bytes", n);
	}
	struct heap h = { .e = block };
	uint32_t *at = (uint32_t *)(block + 2 * n);
	struct list l = { .sym = at, .next = at + n, .prev = at + 2 * n, .rank = at + 3 * n };
	size_t k = symbols(b, p, n, l.sym);
	for (size_t i = 0; i < k; i++) {
		l.next[i] = i + 1 < k ? (uint32_t)(i + 1) : UINT32_MAX;
		l.prev[i] = (uint32_t)(i - 1);
		l.rank[i] = i + 1 < k ? kp_bpe_rank(b, l.sym[i], l.sym[i + 1]) : UINT32_MAX;
		if (l.rank[i] != UINT32_MAX) {
			h.e[h.n++] = (uint64_t)l.rank[i] << 32 | i;
		}
	}
	for (size_t i = h.n / 4 + 1; i-- > 0;) {
		if (i < h.n) {
			sift_down(&h, i);
		}
	}
	run_heap(b, &h, &l);
	for (uint32_t i = 0; k && i != UINT32_MAX; i = l.next[i]) {
		if (l.sym[i] != KP_BPE_GAP) {
			work->p[work->n++] = l.sym[i];
		}
	}
	kp_mem_free(block);
	return 0;
}

/* --- windows ----------------------------------------------------------------------------------------------------- */

static int window(
	const struct kp_bpe *b, const uint8_t *p, size_t n, struct kp_ids *work, struct kp_err *err)
{
	if (n > KP_BPE_SMALL) {
		return kp_bpe_heap(b, p, n, work, err);
	}
	if (!kp_ids_reserve(work, n)) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "encode one piece of `%zu` bytes", n);
	}
	work->n += kp_bpe_small(b, p, n, work->p + work->n);
	return 0;
}

/* Extends the exact encoding of p[0, done) at work->p[first..) to p[0, to). 1: done, 0: reaches back too far. */
static int extend(const struct kp_bpe *b, const uint8_t *p, size_t first, size_t done, size_t to,
	size_t *budget, struct kp_ids *work, struct kp_err *err)
{
	size_t start = done, keep = work->n;
	for (size_t back = 3;; back *= 2) {
		while (back && keep > first) {
			start -= b->vocab->tok[work->p[--keep]].n;
			back--;
		}
		if (done - start > BACK_MAX || *budget < to - start) {
			return 0;
		}
		*budget -= to - start;
		/* The new encoding of the window goes behind the old one, and over it when it fits. */
		size_t old = work->n;
		if (window(b, p + start, to - start, work, err)) {
			return -1;
		}
		if (keep == first || (work->n > old && work->p[old] == work->p[keep])) {
			memmove(work->p + keep, work->p + old, (work->n - old) * sizeof(kp_id));
			work->n = keep + (work->n - old);
			return 1;
		}
		work->n = old;
	}
}

int kp_bpe_long(
	const struct kp_bpe *b, const uint8_t *p, size_t n, struct kp_ids *work, struct kp_err *err)
{
	size_t first = work->n, done = 0,
	       budget = 8 * n; /* bytes of windows before the queue is cheaper */
	bool gaps = false;
	for (size_t i = 0; i < n && !gaps; i++) {
		gaps = b->byte_id[p[i]] == KP_BPE_GAP; /* ids would not add up to the bytes */
	}
	while (!gaps && done < n) {
		size_t to = KP_MIN(n, done + WINDOW);
		while (to < n && (p[to] & 0xc0) == 0x80) {
			to++;
		}
		int r = extend(b, p, first, done, to, &budget, work, err);
		if (r < 0) {
			return -1;
		}
		if (r == 0) {
			break;
		}
		done = to;
	}
	if (done < n) {
		work->n = first;
		return kp_bpe_heap(b, p, n, work, err);
	}
	return 0;
}

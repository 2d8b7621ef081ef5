/* DESIGN: how one piece becomes ids.

   The pair table has eight pairs to a cache line and is searched without a branch, so the look-ups of a piece run side by side.
   kp_bpe_small keeps rank and position of every pair in one 32-bit word and takes the minimum over all of them each time: no
   queue, no allocation, and for the lengths that text has (5 to 30 bytes) nothing is faster. Characters whose own merges no
   neighbour can disturb (bpe_chars.c) enter as one symbol, which saves two thirds of the work in CJK text.

   kp_bpe_long goes left to right in windows. What makes it exact: a token sequence is the encoding of its text as soon as every
   two neighbours are what their own bytes encode to, because the first merge over a border would happen in the pair alone just
   as well. So a window starts one token before the part it may change, and is accepted when that token comes out
   unchanged; otherwise it starts further left. Text on which this reaches back too far is given to kp_bpe_heap, a plain
   priority queue over a linked list. Threads: reads only b. */
#include "token/bpe.h"
#include "base/mem.h"

#include <string.h>

enum { TAIL = 16, STEP_MIN = 64, BACK_MAX = 4096 };
#define NONE UINT64_MAX

/* May the character c, len bytes at p, start whole between its neighbours? */
static inline bool stands_alone(const struct kp_char *c, const uint8_t *start, const uint8_t *p,
	const uint8_t *end, size_t len)
{
	unsigned before = p > start ? p[-1] : 256, behind = p + len < end ? p[len] : 256;
	bool left = before < 0x80   ? !c->not_behind_ascii
		    : before < 0xc0 ? !(c->before >> (before & 63) & 1)
				    : before == 256;
	bool right = behind < 0x80 ? !c->not_before_ascii
				   : behind >= 0xc0 &&
					     (behind == 256 || !(c->behind >> (behind & 63) & 1));
	return left && right;
}

/* The symbol that the merge of [start, end) starts from at p: a whole character where that is safe, else a byte. */
static inline kp_id symbol(const struct kp_bpe *b, const uint8_t *start, const uint8_t *p,
	const uint8_t *end, size_t *ret_n)
{
	uint8_t c = p[0];
	size_t len = c < 0xe0 ? 2 : 3, left = (size_t)(end - p);
	if (c >= 0xc2 && c < 0xf0 && left >= len) {
		size_t cp =
			len == 2 ? (size_t)(c & 31) << 6 | (p[1] & 63)
				 : (size_t)(c & 15) << 12 | (size_t)(p[1] & 63) << 6 | (p[2] & 63);
		const struct kp_char *x = &b->chars[b->char_index[cp]];
		if (x->id != KP_BPE_NO_ID && stands_alone(x, start, p, end, len)) {
			*ret_n = len;
			return x->id;
		}
	}
	*ret_n = 1;
	return b->byte_id[c];
}

enum { GROUP = 8, GROUPS = KP_BPE_SMALL / GROUP };

/* One piece being merged. key: rank << 8 | position of the pair that starts at a symbol, so that the least one is the next
   merge; NONE when the pair never merges. least: of each group of eight. Words of 64 bits, since the compiler would otherwise read keys
   as vectors right after they were written one by one, which the processor cannot forward. */
struct small {
	kp_id sym[KP_BPE_SMALL + 1];
	uint8_t next[KP_BPE_SMALL + 1], prev[KP_BPE_SMALL + 1];
	uint64_t key[KP_BPE_SMALL + GROUP], least[GROUPS];
};

static inline uint64_t key_of(uint32_t rank, size_t at)
{
	return rank == KP_BPE_NONE ? NONE : (uint64_t)rank << 8 | at;
}

static inline void update_group(struct small *w, size_t group)
{
	const uint64_t *k = w->key + group * GROUP;
	uint64_t a = KP_MIN(k[0], k[1]), b = KP_MIN(k[2], k[3]), c = KP_MIN(k[4], k[5]),
		 d = KP_MIN(k[6], k[7]);
	a = KP_MIN(a, b);
	c = KP_MIN(c, d);
	w->least[group] = KP_MIN(a, c);
}

static inline uint64_t least(const struct small *w, size_t groups)
{
	uint64_t m = w->least[0];
	for (size_t i = 1; i < groups; i++) {
		m = KP_MIN(m, w->least[i]);
	}
	return m;
}

/* Fills the symbols and the keys of all pairs. Two bytes have a table of their own, which ASCII text finds in the first-level cache. */
static size_t prepare(const struct kp_bpe *b, const uint8_t *p, size_t n, struct small *w)
{
	size_t k = 0, i = 0;
	unsigned before = 256; /* the byte that the symbol before is; 256: it is a character */
	while (i < n) {
		size_t len;
		unsigned c = p[i];
		kp_id id = symbol(b, p, p + i, p + n, &len);
		i += len;
		if (id == b->gap && b->drop_gaps) {
			continue;
		}
		c = len == 1 ? c : 256;
		w->sym[k] = id;
		if (k) {
			uint32_t rank = (before | c) < 256 ? b->byte_pair[before << 8 | c]
							   : kp_bpe_rank(b, w->sym[k - 1], id);
			w->key[k - 1] = key_of(rank, k - 1);
			w->next[k - 1] = (uint8_t)k;
			w->prev[k] = (uint8_t)(k - 1);
		}
		before = c;
		k++;
	}
	return k;
}

static size_t collect(const struct kp_bpe *b, const struct small *w, size_t last, kp_id *out)
{
	size_t n = 0;
	for (size_t i = 0;; i = w->next[i]) {
		out[n] = w->sym[i];
		n += w->sym[i] != b->gap;
		if (i == last) {
			return n;
		}
	}
}

/* Puts a pair's key in; `done`: a group that is brought up to date later anyway. */
static inline void set_key(struct small *w, size_t at, uint64_t key, size_t done)
{
	w->key[at] = key;
	if (at / GROUP != done) {
		update_group(w, at / GROUP);
	}
}

/* Merges k symbols, whose keys are set, and collects them. */
static inline size_t merge_small(const struct kp_bpe *b, struct small *w, size_t k, kp_id *out)
{
	size_t groups = (k - 1 + GROUP - 1) / GROUP, last = k - 1;
	for (size_t i = k - 1; i < groups * GROUP; i++) {
		w->key[i] = NONE;
	}
	for (size_t i = 0; i < groups; i++) {
		update_group(w, i);
	}
	for (uint64_t m; (m = least(w, groups)) != NONE;) {
		uint32_t rank = (uint32_t)(m >> 8);
		size_t i = (size_t)(m & 255), j = w->next[i], g = i / GROUP;
		kp_id made = kp_bpe_product(b, rank);
		w->sym[i] = made;
		w->key[i] = NONE;
		if (j == last) {
			last = i;
		} else {
			size_t after = w->next[j];
			w->next[i] = (uint8_t)after;
			w->prev[after] = (uint8_t)i;
			set_key(w, j, NONE, g);
			w->key[i] = key_of(kp_bpe_rank(b, made, w->sym[after]), i);
		}
		if (i) {
			size_t before = w->prev[i];
			set_key(w, before, key_of(kp_bpe_rank(b, w->sym[before], made), before), g);
		}
		update_group(w, g);
	}
	return collect(b, w, last, out);
}

size_t kp_bpe_small(const struct kp_bpe *b, const uint8_t *p, size_t n, kp_id *out)
{
	struct small w;
	w.sym[0] = b->gap;
	size_t k = prepare(b, p, n, &w);
	if (k < 2) {
		out[0] = w.sym[0];
		return k && w.sym[0] != b->gap;
	}
	return merge_small(b, &w, k, out);
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
	if (rank == KP_BPE_NONE) {
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
		l->sym[i] = kp_bpe_product(b, rank);
		l->rank[j] = KP_BPE_NONE;
		l->next[i] = after;
		l->rank[i] = KP_BPE_NONE;
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

/* One block: the queue (at most two entries per symbol: n - 1 at first, one more per merge), then the four arrays. */
static uint64_t *heap_block(
	size_t n, struct heap *h, struct list *l, struct kp_ids *work, struct kp_err *err)
{
	size_t bytes;
	uint64_t *block = NULL;
	if (n < UINT32_MAX && kp_size_mul(n, 2 * sizeof(uint64_t) + 4 * sizeof(uint32_t), &bytes)) {
		block = kp_try_malloc(bytes);
	}
	if (!block || !kp_ids_reserve(work, n)) {
		kp_mem_free(block);
		(void)kp_err_set(err, KP_RESOURCE_EXHAUSTED, "encode one piece of `%zu` bytes", n);
		return NULL;
	}
	*h = (struct heap){ .e = block };
	uint32_t *at = (uint32_t *)(block + 2 * n);
	*l = (struct list){ .sym = at, .next = at + n, .prev = at + 2 * n, .rank = at + 3 * n };
	return block;
}

/* Merges the k symbols of l and appends what is left of them. */
static void merge_heap(
	const struct kp_bpe *b, struct heap *h, struct list *l, size_t k, struct kp_ids *work)
{
	for (size_t i = 0; i < k; i++) {
		l->next[i] = i + 1 < k ? (uint32_t)(i + 1) : UINT32_MAX;
		l->prev[i] = (uint32_t)(i - 1);
		l->rank[i] = i + 1 < k ? kp_bpe_rank(b, l->sym[i], l->sym[i + 1]) : KP_BPE_NONE;
		if (l->rank[i] != KP_BPE_NONE) {
			h->e[h->n++] = (uint64_t)l->rank[i] << 32 | i;
		}
	}
	for (size_t i = h->n / 4 + 1; i-- > 0;) {
		if (i < h->n) {
			sift_down(h, i);
		}
	}
	run_heap(b, h, l);
	for (uint32_t i = 0; k && i != UINT32_MAX; i = l->next[i]) {
		if (l->sym[i] != b->gap) {
			work->p[work->n++] = l->sym[i];
		}
	}
}

int kp_bpe_heap(
	const struct kp_bpe *b, const uint8_t *p, size_t n, struct kp_ids *work, struct kp_err *err)
{
	if (n == 0) {
		return 0;
	}
	struct heap h;
	struct list l;
	uint64_t *block = heap_block(n, &h, &l, work, err);
	if (!block) {
		return -1;
	}
	size_t k = 0;
	for (size_t i = 0, len; i < n; i += len) {
		kp_id id = symbol(b, p, p + i, p + n, &len);
		l.sym[k] = id;
		k += id != b->gap || !b->drop_gaps;
	}
	merge_heap(b, &h, &l, k, work);
	kp_mem_free(block);
	return 0;
}

int kp_bpe_symbols(
	const struct kp_bpe *b, const kp_id *sym, size_t n, struct kp_ids *work, struct kp_err *err)
{
	if (n == 0) {
		return 0;
	}
	if (n > KP_BPE_SMALL) {
		struct heap h;
		struct list l;
		uint64_t *block = heap_block(n, &h, &l, work, err);
		if (!block) {
			return -1;
		}
		memcpy(l.sym, sym, n * sizeof(*sym));
		merge_heap(b, &h, &l, n, work);
		kp_mem_free(block);
		return 0;
	}
	if (!kp_ids_reserve(work, n)) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "encode `%zu` symbols", n);
	}
	struct small w;
	for (size_t i = 0; i < n; i++) {
		w.sym[i] = sym[i];
		if (i) {
			w.key[i - 1] = key_of(kp_bpe_rank(b, sym[i - 1], sym[i]), i - 1);
			w.next[i - 1] = (uint8_t)i;
			w.prev[i] = (uint8_t)(i - 1);
		}
	}
	if (n == 1) {
		work->p[work->n++] = sym[0];
	} else {
		work->n += merge_small(b, &w, n, work->p + work->n);
	}
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

/* Extends the exact encoding of p[0, *done) at work->p[first..) and moves *done on. 1: done, 0: reaches back too far. */
static int extend(const struct kp_bpe *b, const uint8_t *p, size_t n, size_t first, size_t *done,
	size_t *budget, struct kp_ids *work, struct kp_err *err)
{
	size_t start = *done, keep = work->n;
	for (size_t back = TAIL;; back = 2 * (*done - start)) {
		/* At least one token, which must come out as it was, and about `back` bytes in all. */
		do {
			size_t token = keep > first ? b->vocab->tok[work->p[--keep]].n : 0;
			start -= KP_MIN(token, start); /* tables of an image may lie */
		} while (keep > first && *done - start < back);
		size_t to = KP_MIN(n, KP_MAX(start + KP_BPE_SMALL, *done + STEP_MIN));
		while (to < n && (p[to] & 0xc0) == 0x80) {
			to--; /* no character is cut */
		}
		if (*done - start > BACK_MAX || *budget < to - start) {
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
			*done = to;
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
		gaps = b->byte_id[p[i]] == b->gap; /* ids would not add up to the bytes */
	}
	int r = gaps ? 0 : 1;
	while (r == 1 && done < n) {
		r = extend(b, p, n, first, &done, &budget, work, err);
	}
	if (r == 0) {
		work->n = first;
		return kp_bpe_heap(b, p, n, work, err);
	}
	return r < 0 ? -1 : 0;
}

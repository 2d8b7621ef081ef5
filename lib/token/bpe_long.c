/* DESIGN: pieces of more than KP_BPE_SMALL symbols.

   They are merged in parts. What makes it exact: a token sequence is the encoding of its symbols as soon as every two neighbours are
   what their own symbols encode to, because the first merge over a border would happen in the pair alone just as well. So parts of PART symbols are merged by themselves,
   many side by side; then what lies around each border, likewise, and where its first and last token are those that the parts have there, all of it fits.

   Where they do not, and in text that repeats itself, it goes left to right in windows: a window starts one token
   before the part it may change, and is accepted when that token comes out unchanged; otherwise it starts further left. A window that has the symbols of the
   one before has its ids too, which is how runs of one character cost next to nothing. Text on which this reaches back too far is given to a plain
   priority queue over a linked list. Threads: reads only b. */
#include "token/bpe_ascii.h"
#include "base/mem.h"

#include <string.h>

enum {
	WINDOW = 128,
	TAIL = 16,
	STEP_MIN = 48,
	BACK_MAX = 4096,
	ALONE = 160, /* symbols that are not worth parts */
	PART = 60,   /* text whose period divides it goes by windows */
	PARTS = 32,
	SIDE = 6, /* symbols around a border, at least */
	KNOWN_BITS = 12,
	KNOWN = 1 << KNOWN_BITS,
};

/* --- the queue --------------------------------------------------------------------------------------------------- */

struct heap {
	uint64_t *e; /* rank << 32 | position, least first, four children each */
	size_t n;
	struct kp_merge last; /* the last merge */
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
		h->last = (struct kp_merge){ l->sym[i], l->sym[j], kp_bpe_product(b, rank) };
		l->sym[i] = h->last.product;
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
static uint64_t *heap_block(size_t n, struct heap *h, struct list *l, struct kp_err *err)
{
	size_t bytes;
	uint64_t *block = NULL;
	if (n < UINT32_MAX && kp_size_mul(n, 2 * sizeof(uint64_t) + 4 * sizeof(uint32_t), &bytes)) {
		block = kp_try_malloc(bytes);
	}
	if (!block) {
		(void)kp_err_set(
			err, KP_RESOURCE_EXHAUSTED, "encode one piece of `%zu` symbols", n);
		return NULL;
	}
	*h = (struct heap){ .e = block };
	uint32_t *at = (uint32_t *)(block + 2 * n);
	*l = (struct list){ .sym = at, .next = at + n, .prev = at + 2 * n, .rank = at + 3 * n };
	return block;
}

/* Merges k > 0 symbols of l; how many ids come out. len: as kp_bpe_small_lengths, or NULL. */
static size_t merge_heap(
	const struct kp_bpe *b, struct heap *h, struct list *l, size_t k, kp_id *out, uint16_t *len)
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
	size_t n = 0;
	for (uint32_t i = 0; i != UINT32_MAX; i = l->next[i]) {
		if (l->sym[i] != b->gap) {
			if (len) {
				len[n] = (uint16_t)(KP_MIN(l->next[i], (uint32_t)k) - i);
			}
			out[n++] = l->sym[i];
		}
	}
	return n;
}

/* Appends to work, which has room. */
static int by_heap(
	const struct kp_bpe *b, const kp_id *sym, size_t n, struct kp_ids *work, struct kp_err *err)
{
	struct heap h;
	struct list l;
	uint64_t *block = n ? heap_block(n, &h, &l, err) : NULL;
	if (!block) {
		return n ? -1 : 0;
	}
	memcpy(l.sym, sym, n * sizeof(*sym));
	work->n += merge_heap(b, &h, &l, n, work->p + work->n, NULL);
	kp_mem_free(block);
	return 0;
}

bool kp_bpe_last_merge(const struct kp_bpe *b, const kp_id *sym, size_t n, struct kp_merge *ret)
{
	if (n <= KP_BPE_SMALL) {
		return kp_bpe_small_last(b, sym, n, ret);
	}
	struct kp_err err = KP_ERR_INIT;
	struct heap h;
	struct list l;
	kp_id *out = kp_try_malloc(n * sizeof(*out));
	uint64_t *block = out ? heap_block(n, &h, &l, &err) : NULL;
	bool one = false;
	if (block) {
		memcpy(l.sym, sym, n * sizeof(*sym));
		one = merge_heap(b, &h, &l, n, out, NULL) == 1;
		*ret = h.last;
	}
	kp_mem_free(block);
	kp_mem_free(out);
	return one;
}

/* --- windows ----------------------------------------------------------------------------------------------------- */

enum { WINDOW_MAX = 2 * BACK_MAX + WINDOW };

/* Symbols from..to, merged by themselves. */
struct part {
	size_t from, to;
	kp_id out[KP_BPE_MANY];
	uint16_t len[KP_BPE_MANY];
	size_t n;    /* of out; 0: it was too long */
	size_t last; /* around a border: its last token is this one of the part behind */
};

struct windows {
	const struct kp_bpe *b;
	const kp_id *sym;       /* of n */
	size_t n, done, budget; /* budget: symbols of windows before the queue is cheaper */
	kp_id *out;             /* the encoding of the first `done` symbols, `count` ids */
	uint16_t *len;          /* of each of them: its symbols */
	size_t count;
	/* The last window's place, and what it gave. */
	size_t last, last_n, last_count;
	kp_id last_out[WINDOW_MAX];
	uint16_t last_len[WINDOW_MAX];
	struct part part[PARTS], around[PARTS]; /* around[i]: the begin of part[i] */
	uint32_t rank[KP_BPE_MANY + PARTS * PART +
		      4]; /* of each symbol from rank_at on and the one before */
	size_t rank_at;
	uint64_t known[KNOWN]; /* by hash: 40 bits of pair, 24 of rank */
};

static int window(struct windows *w, size_t start, size_t n, struct kp_err *err)
{
	const kp_id *sym = w->sym + start;
	bool same = n == w->last_n && memcmp(sym, w->sym + w->last, n * sizeof(*sym)) == 0;
	w->last = start;
	if (same) {
		return 0;
	}
	w->last_n = n;
	if (n <= KP_BPE_SMALL) {
		w->last_count = kp_bpe_small_lengths(w->b, sym, n, w->last_out, w->last_len);
		return 0;
	}
	struct heap h;
	struct list l;
	uint64_t *block = heap_block(n, &h, &l, err);
	if (!block) {
		return -1;
	}
	memcpy(l.sym, sym, n * sizeof(*sym));
	w->last_count = merge_heap(w->b, &h, &l, n, w->last_out, w->last_len);
	kp_mem_free(block);
	return 0;
}

/* One window, not beyond `end`. 1: done moved on, 0: it reaches back too far. */
static int extend(struct windows *w, size_t end, struct kp_err *err)
{
	size_t start = w->done, keep = w->count;
	for (size_t back = TAIL;; back = 2 * (w->done - start)) {
		/* At least one token, which must come out as it was, and about `back` symbols in all. */
		do {
			start -= keep ? w->len[--keep] : 0;
		} while (keep && w->done - start < back);
		size_t behind = w->done - start;
		size_t to = KP_MIN(
			end, KP_MAX(start + WINDOW, w->done + KP_MAX((size_t)STEP_MIN, behind)));
		if (behind > BACK_MAX || w->budget < to - start) {
			return 0;
		}
		w->budget -= to - start;
		if (window(w, start, to - start, err)) {
			return -1;
		}
		if (keep == 0 || (w->last_count && w->last_out[0] == w->out[keep])) {
			memcpy(w->out + keep, w->last_out, w->last_count * sizeof(kp_id));
			memcpy(w->len + keep, w->last_len, w->last_count * sizeof(*w->len));
			w->count = keep + w->last_count;
			w->done = to;
			return 1;
		}
	}
}

/* The same up to `end`. */
static int extend_to(struct windows *w, size_t end, struct kp_err *err)
{
	int r = 1;
	while (r == 1 && w->done < end) {
		r = extend(w, end, err);
	}
	return r;
}

/* --- parts ------------------------------------------------------------------------------------------------------- */

/* The ranks of each two symbols up to `end`, and of those before that a part around a border may have. Most pairs of a text are few ones. */
static void find_ranks(struct windows *w, size_t end)
{
	w->rank_at = w->done - KP_MIN(w->done, (size_t)KP_BPE_MANY);
	for (size_t i = w->rank_at; i + 1 < end; i++) {
		kp_id left = w->sym[i], right = w->sym[i + 1];
		uint64_t pair = (uint64_t)left << 44 | (uint64_t)right << 24,
			 *known = &w->known[kp_pair_place(left, right) >> (64 - KNOWN_BITS)];
		if (KP_UNLIKELY((*known ^ pair) >> 24)) {
			*known = pair | (kp_bpe_rank(w->b, left, right) & 0xffffff);
		}
		w->rank[i + 1 - w->rank_at] = *known & 0xffffff;
	}
}

static void merge_parts(const struct windows *w, struct part *part, size_t n)
{
	struct kp_bpe_job job[PARTS];
	for (size_t i = 0; i < n; i++) {
		struct part *x = &part[i];
		job[i] = (struct kp_bpe_job){ .sym = w->sym + x->from,
			.rank = w->rank + (x->from - w->rank_at),
			.ids = x->out,
			.len = x->len };
		if (x->to - x->from <= KP_BPE_MANY) {
			job[i].n = x->to - x->from;
		}
	}
	kp_bpe_merge_windows(w->b, job, n);
	for (size_t i = 0; i < n; i++) {
		part[i].n = job[i].n;
	}
}

/* What lies around the begin of part i: whole tokens, about SIDE symbols on each side. */
static void find_around(struct windows *w, size_t i)
{
	const struct part *right = &w->part[i], *left = right - 1;
	const uint16_t *len = i ? left->len : w->len;
	struct part *x = &w->around[i];
	size_t k = i ? left->n : w->count, j = 0;
	x->from = x->to = right->from;
	while (k && right->from - x->from < SIDE) {
		x->from -= len[--k];
	}
	while (j < right->n && x->to - right->from < SIDE) {
		x->to += right->len[j++];
	}
	x->last = j - 1;
}

static void append(struct windows *w, const struct part *x, size_t from)
{
	memcpy(w->out + w->count, x->out + from, (x->n - from) * sizeof(*x->out));
	memcpy(w->len + w->count, x->len + from, (x->n - from) * sizeof(*x->len));
	w->count += x->n - from;
	w->done = x->to;
}

/* Adds part i to what is done, if it fits. */
static bool add_part(struct windows *w, size_t i)
{
	const struct part *x = &w->part[i], *a = &w->around[i];
	size_t keep = w->count, at = w->done;
	if (keep == 0) {
		append(w, x, 0);
		return true;
	}
	while (at > a->from) {
		at -= w->len[--keep];
	}
	if (a->n == 0 || at != a->from || w->out[keep] != a->out[0] ||
		a->out[a->n - 1] != x->out[a->last]) {
		return false;
	}
	w->count = keep;
	append(w, a, 0);
	append(w, x, a->last + 1);
	return true;
}

/* The next PARTS parts, or one window. As extend. */
static int by_parts(struct windows *w, struct kp_err *err)
{
	const kp_id *sym = w->sym + w->done;
	size_t n = 0, at = w->done, end = KP_MIN(w->n, at + PARTS * PART);
	if (end - at >= 2 * PART && memcmp(sym, sym + PART, PART * sizeof(*sym)) == 0) {
		return extend(w, w->n, err);
	}
	for (; at < end; n++) {
		w->part[n].from = at;
		w->part[n].to = at = KP_MIN(at + PART, end);
	}
	find_ranks(w, end);
	merge_parts(w, w->part, n);
	for (size_t i = 0; i < n; i++) {
		find_around(w, i);
	}
	merge_parts(w, w->around, n);
	int r = 1;
	for (size_t i = 0; r == 1 && i < n; i++) {
		r = add_part(w, i) ? 1 : extend_to(w, w->part[i].to, err);
	}
	return r;
}

static int by_windows(
	const struct kp_bpe *b, const kp_id *sym, size_t n, struct kp_ids *work, struct kp_err *err)
{
	size_t bytes;
	uint16_t *len = kp_size_mul(n, sizeof(*len), &bytes) ? kp_try_malloc(bytes) : NULL;
	struct windows *w = kp_try_malloc(sizeof(*w));
	int r = -1;
	if (len && w) {
		w->b = b;
		w->sym = sym;
		w->n = n;
		w->done = w->count = w->last = w->last_n = w->last_count = 0;
		w->budget = 8 * n;
		memset(w->known, 0xff, sizeof(w->known));
		w->out = work->p + work->n;
		w->len = len;
		for (r = 1; r == 1 && w->done < n;) {
			r = by_parts(w, err);
		}
		work->n += r == 1 ? w->count : 0;
	} else {
		(void)kp_err_set(
			err, KP_RESOURCE_EXHAUSTED, "encode one piece of `%zu` symbols", n);
	}
	kp_mem_free(len);
	kp_mem_free(w);
	return r == 0 ? by_heap(b, sym, n, work, err) : KP_MIN(r, 0);
}

int kp_bpe_symbols(
	const struct kp_bpe *b, const kp_id *sym, size_t n, struct kp_ids *work, struct kp_err *err)
{
	if (n == 0) {
		return 0;
	}
	if (!kp_ids_reserve(work, n)) {
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "encode `%zu` symbols", n);
	}
	if (n <= ALONE) {
		work->n += kp_bpe_small_symbols(b, sym, n, work->p + work->n);
		return 0;
	}
	for (size_t i = 0; i < n; i++) {
		if (sym[i] == b->gap) { /* ids would not add up to the symbols */
			return by_heap(b, sym, n, work, err);
		}
	}
	return by_windows(b, sym, n, work, err);
}

/* --- bytes ------------------------------------------------------------------------------------------------------- */

static int long_bytes(const struct kp_bpe *b, const uint8_t *p, size_t n, bool heap,
	struct kp_ids *work, struct kp_err *err)
{
	size_t bytes;
	kp_id *sym = kp_size_mul(n, sizeof(*sym), &bytes) ? kp_try_malloc(bytes + 1) : NULL;
	if (!sym || !kp_ids_reserve(work, n)) {
		kp_mem_free(sym);
		return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "encode one piece of `%zu` bytes", n);
	}
	size_t k = kp_bpe_start(b, p, n, sym);
	int r = heap ? by_heap(b, sym, k, work, err) : kp_bpe_symbols(b, sym, k, work, err);
	kp_mem_free(sym);
	return r;
}

int kp_bpe_long(
	const struct kp_bpe *b, const uint8_t *p, size_t n, struct kp_ids *work, struct kp_err *err)
{
	size_t done = 0, apart = n;
	while (n) {
		if (b->ascii && kp_bpe_ascii(b, p, n, work, &done, &apart, err)) {
			return -1;
		}
		p += done;
		n -= done;
		if (n && long_bytes(b, p, apart, false, work, err)) {
			return -1;
		}
		p += KP_MIN(apart, n);
		n -= KP_MIN(apart, n);
	}
	return 0;
}

int kp_bpe_heap(
	const struct kp_bpe *b, const uint8_t *p, size_t n, struct kp_ids *work, struct kp_err *err)
{
	return long_bytes(b, p, n, true, work, err);
}

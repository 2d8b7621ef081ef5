/* DESIGN: how one piece becomes ids.

   The pair table has eight pairs to a cache line and is searched without a branch, so the look-ups of a piece run side by side.
   kp_bpe_small keeps rank and position of every pair in one 32-bit word and takes the minimum over all of them each time: no
   queue, no allocation, and for the lengths that text has (5 to 30 bytes) nothing is faster. Characters whose own merges no
   neighbour can disturb (bpe_chars.c) enter as one symbol, which saves two thirds of the work in CJK text. Threads: reads only b. */
#include "token/bpe.h"
#include "base/mem.h"

#include <string.h>

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
   merge; the rank is KP_BPE_NONE when the pair never merges. least: of each group of eight. Words of 64 bits, since the compiler would otherwise read keys
   as vectors right after they were written one by one, which the processor cannot forward. */
struct small {
	kp_id sym[KP_BPE_SMALL + 1];
	uint8_t next[KP_BPE_SMALL + 1], prev[KP_BPE_SMALL + 1];
	uint64_t key[KP_BPE_SMALL + GROUP], least[GROUPS];
};

static inline uint64_t key_of(uint32_t rank, size_t at)
{
	return (uint64_t)rank << 8 | at;
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

/* k: symbols at first. len: how many of them each id stands for, or NULL. */
static inline size_t collect(const struct kp_bpe *b, const struct small *w, size_t k, size_t last,
	kp_id *out, uint16_t *len)
{
	size_t n = 0;
	for (size_t i = 0;; i = w->next[i]) {
		out[n] = w->sym[i];
		if (len) {
			len[n] = (uint16_t)((i == last ? k : w->next[i]) - i);
		}
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

/* Merges k symbols, whose keys are set, and collects them. last_merge: where the last merge is kept, or NULL. */
static inline __attribute__((always_inline)) size_t merge_small(const struct kp_bpe *b,
	struct small *w, size_t k, kp_id *out, uint16_t *len, struct kp_merge *last_merge)
{
	size_t groups = (k - 1 + GROUP - 1) / GROUP, last = k - 1;
	for (size_t i = k - 1; i < groups * GROUP; i++) {
		w->key[i] = NONE;
	}
	for (size_t i = 0; i < groups; i++) {
		update_group(w, i);
	}
	for (uint64_t m; (uint32_t)((m = least(w, groups)) >> 8) != KP_BPE_NONE;) {
		uint32_t rank = (uint32_t)(m >> 8);
		size_t i = (size_t)(m & 255), j = w->next[i], g = i / GROUP;
		kp_id made = kp_bpe_product(b, rank);
		if (last_merge) {
			*last_merge = (struct kp_merge){ w->sym[i], w->sym[j], made };
		}
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
	return collect(b, w, k, last, out, len);
}

/* --- many short pieces --------------------------------------------------------------------------------------------------- */

enum {
	FEW = KP_BPE_FEW,
	MANY = KP_BPE_MANY,
	LANES = 16,
	LEAST = 1 << 23,                 /* of all keys: kp_least wants it */
	NEVER = LEAST + (0xffffff << 6), /* keys from here on: a pair that never merges, or none */
};

/* As small, for a piece as most are: places from 1, so that there is one before the first and one behind the last, both without a symbol, and every merge is the
   same few lines without a branch. What they cost is waiting for the tables, so LANES pieces take one merge each in turn. By then the keys that were written one by one
   can be read as vectors. */
struct lane {
	_Alignas(16) uint32_t key[MANY + 2]; /* rank << 6 | place, from LEAST on */
	kp_id sym[MANY + 2];
	uint8_t next[MANY + 2], prev[MANY + 2];
	size_t k; /* symbols, at places 1 to k */
	struct kp_bpe_job *job;
	/* The merge under way: its place, its neighbours', and where the ranks of the two new pairs are. */
	size_t at, before, after;
	struct kp_pair_at pair[2];
	struct kp_merge last;
	uint32_t last_rank;
};

static inline uint32_t lane_key(uint32_t rank, size_t at)
{
	return LEAST + ((rank & 0xffffff) << 6 | (uint32_t)at);
}

/* The keys that a piece of at most `most` symbols has, in vectors. */
static inline size_t lane_vectors(size_t most)
{
	return (most + 2 + 3) / 4;
}

/* One merge in three steps, each of which leaves something on its way from memory for the next. The first: what merges; false: nothing does. */
static inline bool merge_find(const struct kp_bpe *b, struct lane *w, size_t most)
{
	uint32_t m = kp_least(w->key, lane_vectors(most));
	if (m >= NEVER) {
		return false;
	}
	uint32_t rank = (m - LEAST) >> 6;
	size_t i = m & 63, j = w->next[i];
	kp_id made = kp_bpe_product(b, rank);
	w->last = (struct kp_merge){ w->sym[i], w->sym[j], made };
	w->last_rank = rank;
	w->at = i;
	w->after = w->next[j];
	w->before = w->prev[i];
	__builtin_prefetch(&b->partners[made]);
	__builtin_prefetch(&b->partners[w->sym[w->after]]);
	__builtin_prefetch(&b->partners[w->sym[w->before]]);
	w->sym[i] = made;
	w->next[i] = (uint8_t)w->after;
	w->prev[w->after] = (uint8_t)i;
	w->key[j] = NEVER;
	return true;
}

static inline void merge_pairs(const struct kp_bpe *b, struct lane *w)
{
	kp_id made = w->sym[w->at];
	w->pair[0] = kp_bpe_pair(b, w->sym[w->before], made);
	w->pair[1] = kp_bpe_pair(b, made, w->sym[w->after]);
	__builtin_prefetch(w->pair[0].line);
	__builtin_prefetch(w->pair[1].line);
}

static inline void merge_ranks(struct lane *w)
{
	w->key[w->at] = lane_key(kp_bpe_rank_at(w->pair[1]), w->at);
	w->key[w->before] = lane_key(kp_bpe_rank_at(w->pair[0]), w->before);
}

static inline void put(struct lane *w, kp_id id, uint32_t rank)
{
	size_t k = ++w->k;
	w->sym[k] = id;
	w->next[k] = (uint8_t)(k + 1);
	w->prev[k] = (uint8_t)(k - 1);
	w->key[k - 1] = lane_key(rank, k - 1);
}

static inline void begin(const struct kp_bpe *b, struct lane *w, size_t most)
{
	memset(w->key, 0x7f, 16 * lane_vectors(most));
	w->sym[0] = b->gap;
	w->k = 0;
	w->last_rank = KP_BPE_NONE;
}

/* begin_symbols where the ranks are known: four at a time. */
static inline __attribute__((always_inline)) void begin_ranked(
	struct lane *w, const struct kp_bpe_job *job, size_t most)
{
	static const uint8_t place[MANY + 3] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
		15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35,
		36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56,
		57, 58, 59, 60, 61, 62, 63, 64 };
	typedef uint32_t four __attribute__((vector_size(16)));
	uint32_t n = (uint32_t)job->n;
	four at = { 0, 1, 2, 3 };
	for (size_t i = 0; i < n; i += 4, at += 4) {
		four key, real = (four)(at - 1 < (four){ 0 } + (n - 1));
		memcpy(&key, job->rank + i, sizeof(key));
		key = LEAST + ((key & 0xffffff) << 6 | at);
		key = (key & real) | (NEVER & ~real);
		memcpy(w->key + i, &key, sizeof(key));
	}
	memcpy(w->sym + 1, job->sym, n * sizeof(*job->sym));
	memcpy(w->next, place + 1, most + 2);
	memcpy(w->prev + 1, place, most + 1);
	w->k = n;
}

static void begin_symbols(const struct kp_bpe *b, struct lane *w, const struct kp_bpe_job *job)
{
	struct kp_pair_at pair[MANY];
	for (size_t i = 1; i < job->n; i++) {
		pair[i] = kp_bpe_pair(b, job->sym[i - 1], job->sym[i]);
		__builtin_prefetch(pair[i].line);
	}
	for (size_t i = 0; i < job->n; i++) {
		put(w, job->sym[i], i ? kp_bpe_rank_at(pair[i]) : KP_BPE_NONE);
	}
}

static inline __attribute__((always_inline)) void begin_job(
	const struct kp_bpe *b, struct lane *w, struct kp_bpe_job *job, size_t most)
{
	begin(b, w, most);
	w->job = job;
	if (!job->p) {
		if (job->rank) {
			begin_ranked(w, job, most);
		} else {
			begin_symbols(b, w, job);
		}
		w->sym[w->k + 1] = b->gap;
		return;
	}
	unsigned before = 256; /* as in prepare */
	for (size_t i = 0, len; i < job->n; i += len) {
		unsigned c = job->p[i];
		kp_id id = symbol(b, job->p, job->p + i, job->p + job->n, &len);
		if (id == b->gap && b->drop_gaps) {
			continue;
		}
		c = len == 1 ? c : 256;
		put(w, id,
			(before | c) < 256 ? b->byte_pair[before << 8 | c]
					   : kp_bpe_rank(b, w->sym[w->k], id));
		before = c;
	}
	w->sym[w->k + 1] = b->gap;
}

static inline size_t end(const struct kp_bpe *b, const struct lane *w, kp_id *out, uint16_t *len)
{
	size_t n = 0;
	for (size_t i = 1; i <= w->k; i = w->next[i]) {
		out[n] = w->sym[i];
		if (len) {
			len[n] = (uint16_t)(w->next[i] - i);
		}
		n += w->sym[i] != b->gap;
	}
	return n;
}

/* The same without gaps. */
static inline size_t end_symbols(const struct lane *w, kp_id *out)
{
	size_t n = 0;
	for (size_t i = 1; i <= w->k; i = w->next[i]) {
		out[n++] = w->sym[i];
	}
	return n;
}

static void end_job(const struct kp_bpe *b, const struct lane *w)
{
	struct kp_bpe_job *job = w->job;
	job->n = job->p || job->len ? end(b, w, job->ids, job->len) : end_symbols(w, job->ids);
	job->last = w->last;
	job->last_rank = w->last_rank;
}

static inline __attribute__((always_inline)) void merge_all(
	const struct kp_bpe *b, struct kp_bpe_job *job, size_t n, size_t most)
{
	struct lane lane[LANES], *live[LANES];
	size_t n_live = 0, at = 0;
	for (; at < n && n_live < LANES; n_live++) {
		live[n_live] = &lane[n_live];
		begin_job(b, live[n_live], &job[at++], most);
	}
	while (n_live) {
		for (size_t i = 0; i < n_live;) {
			if (KP_LIKELY(merge_find(b, live[i], most))) {
				i++;
				continue;
			}
			end_job(b, live[i]);
			if (at < n) {
				begin_job(b, live[i], &job[at++], most);
			} else {
				live[i] = live[--n_live];
			}
		}
		for (size_t i = 0; i < n_live; i++) {
			merge_pairs(b, live[i]);
		}
		for (size_t i = 0; i < n_live; i++) {
			merge_ranks(live[i]);
		}
	}
}

void kp_bpe_merge_all(const struct kp_bpe *b, struct kp_bpe_job *job, size_t n)
{
	merge_all(b, job, n, FEW);
}

void kp_bpe_merge_some(const struct kp_bpe *b, struct kp_bpe_job *job, size_t n)
{
	merge_all(b, job, n, KP_BPE_SOME);
}

void kp_bpe_merge_windows(const struct kp_bpe *b, struct kp_bpe_job *job, size_t n)
{
	merge_all(b, job, n, MANY);
}

/* Those of w, of which there are few. */
static size_t small_few(const struct kp_bpe *b, const struct small *w, size_t k, kp_id *out)
{
	struct lane lane;
	begin(b, &lane, FEW);
	for (size_t i = 0; i < k; i++) {
		put(&lane, w->sym[i], i ? (uint32_t)(w->key[i - 1] >> 8) : KP_BPE_NONE);
	}
	lane.sym[k + 1] = b->gap;
	while (merge_find(b, &lane, FEW)) {
		merge_pairs(b, &lane);
		merge_ranks(&lane);
	}
	return end(b, &lane, out, NULL);
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
	return k <= FEW ? small_few(b, &w, k, out) : merge_small(b, &w, k, out, NULL, NULL);
}

static void prepare_symbols(const struct kp_bpe *b, const kp_id *sym, size_t n, struct small *w)
{
	for (size_t i = 0; i < n; i++) {
		w->sym[i] = sym[i];
		if (i) {
			w->key[i - 1] = key_of(kp_bpe_rank(b, sym[i - 1], sym[i]), i - 1);
			w->next[i - 1] = (uint8_t)i;
			w->prev[i] = (uint8_t)(i - 1);
		}
	}
}

size_t kp_bpe_small_symbols(const struct kp_bpe *b, const kp_id *sym, size_t n, kp_id *out)
{
	if (n < 2) {
		out[0] = n ? sym[0] : 0;
		return n;
	}
	struct small w;
	prepare_symbols(b, sym, n, &w);
	return merge_small(b, &w, n, out, NULL, NULL);
}

size_t kp_bpe_small_lengths(
	const struct kp_bpe *b, const kp_id *sym, size_t n, kp_id *out, uint16_t *len)
{
	if (n < 2) {
		out[0] = n ? sym[0] : 0;
		len[0] = 1;
		return n;
	}
	struct small w;
	prepare_symbols(b, sym, n, &w);
	return merge_small(b, &w, n, out, len, NULL);
}

bool kp_bpe_small_last(const struct kp_bpe *b, const kp_id *sym, size_t n, struct kp_merge *ret)
{
	struct small w;
	kp_id out[KP_BPE_SMALL];
	if (n < 2) {
		return false;
	}
	prepare_symbols(b, sym, n, &w);
	return merge_small(b, &w, n, out, NULL, ret) == 1;
}

size_t kp_bpe_start(const struct kp_bpe *b, const uint8_t *p, size_t n, kp_id *sym)
{
	size_t k = 0;
	for (size_t i = 0, len; i < n; i += len) {
		kp_id id = symbol(b, p, p + i, p + n, &len);
		sym[k] = id;
		k += id != b->gap || !b->drop_gaps;
	}
	return k;
}

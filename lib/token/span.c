/* DESIGN: pieces to ids, through the scratch's caches (scratch.h), else as a whole word, else by merging. Nothing is allocated per piece; ids are
   collected in the scratch and copied to the caller's array in blocks, so the array's maximum is exact.

   What new text costs is waiting for memory: the cache, the table of words and the merges' tables do not fit the processor's second-level cache. So pieces are
   queued while the cache's lines for them are on their way. A full queue is worked off in steps, each for all pieces before the next one: look into the cache; look those up
   that it does not know as words; merge those that are none, several side by side (kp_bpe_merge_all); copy all ids; put what was new into the cache. */
#include "token/span.h"

#include <string.h>

#define M(n) (UINT64_MAX >> (64 - 8 * (n)))
const uint64_t kp_key_masks[16][2] = { { 0, 0 }, { M(1), 0 }, { M(2), 0 }, { M(3), 0 }, { M(4), 0 },
	{ M(5), 0 }, { M(6), 0 }, { M(7), 0 }, { M(8), 0 }, { M(8), M(1) }, { M(8), M(2) },
	{ M(8), M(3) }, { M(8), M(4) }, { M(8), M(5) }, { M(8), M(6) }, { M(8), M(7) } };
#undef M

void kp_span_flush(struct kp_span *e)
{
	size_t room = e->ids->max - e->ids->n, n = KP_MIN(e->n, room);
	if (!e->failed && n && kp_ids_reserve(e->ids, n)) {
		memcpy(e->ids->p + e->ids->n, e->out, n * sizeof(kp_id));
		e->ids->n += n;
	}
	if (!e->failed && (n < e->n || e->ids->failed)) {
		e->failed = true;
		kp_err_set(e->err, KP_RESOURCE_EXHAUSTED, "encode text: more than `%zu` tokens",
			e->ids->max);
	}
	e->n = 0;
}

void kp_span_add(struct kp_span *e, const kp_id *ids, size_t n)
{
	while (n && !e->failed) {
		size_t k = KP_MIN(n, (size_t)KP_OUT);
		if (e->n + k > KP_OUT + KP_OUT_ROOM - 4) {
			kp_span_flush(e);
		}
		memcpy(e->out + e->n, ids, k * sizeof(kp_id));
		e->n += k;
		ids += k;
		n -= k;
		if (e->n > KP_OUT) {
			kp_span_flush(e);
		}
	}
}

/* A piece that is longer than a word of kp_words as one token, where the reference looks whole pieces up; else merging finds it
   just as well. KP_BPE_NO_ID: none. */
static kp_id whole(const struct kp_tokenizer *t, const uint8_t *p, size_t n)
{
	return t->ignore_merges && t->words.longer && kp_words_may(&t->words, kp_hash_bytes(p, n))
		       ? kp_vocab_find(&t->vocab, kp_str_n((const char *)p, n))
		       : KP_BPE_NO_ID;
}

/* Appends the ids of text to those in the scratch's work array. */
static bool append_text(struct kp_span *e, kp_str s)
{
	const struct kp_tokenizer *t = e->t;
	e->failed = e->failed || kp_model_encode(&t->model, &t->vocab, &t->bpe, s, &e->s->model,
					 &e->s->work, e->err);
	return !e->failed;
}

_Static_assert((int)KP_ROW_MIN >= (int)KP_CACHE_KEY, "only long pieces are asked for rows");

/* A long piece with rows of a character that no token is long enough for: its ids in the work array. False: it has none. */
static bool encode_rows(struct kp_span *e, const uint8_t *p, size_t n)
{
	struct kp_ids *ids = &e->s->work;
	kp_str s = kp_str_n((const char *)p, n);
	size_t at, len;
	const struct kp_row *row = kp_rows_long(e->t, s, &at, &len);
	if (!row) {
		return false;
	}
	kp_ids_reset(ids);
	for (; row && (at == 0 || append_text(e, kp_str_sub(s, 0, at)));
		row = kp_rows_long(e->t, s, &at, &len)) {
		kp_rows_add(e->t, row, len, ids);
		s = kp_str_skip(s, at + len);
	}
	if ((s.n == 0 || append_text(e, s)) && ids->failed) {
		e->failed = true;
		(void)kp_err_set(
			e->err, KP_RESOURCE_EXHAUSTED, "encode one piece of `%zu` bytes", n);
	}
	return true;
}

/* A piece through a text model: its ids in the work array. */
static bool encode_text(struct kp_span *e, const uint8_t *p, size_t n)
{
	kp_ids_reset(&e->s->work);
	return append_text(e, kp_str_n((const char *)p, n));
}

void kp_span_uncached(struct kp_span *e, kp_str s)
{
	kp_span_flush(e);
	if (!e->failed && encode_text(e, (const uint8_t *)s.p, s.n)) {
		kp_span_add(e, e->s->work.p, e->s->work.n);
	}
}

static void miss_text(struct kp_span *e, const uint8_t *p, size_t n, struct kp_cache_key key)
{
	if (!encode_text(e, p, n)) {
		return;
	}
	const struct kp_ids *ids = &e->s->work;
	struct kp_cache_entry *c = kp_bucket(e->table, e->bucket_mask, key);
	c[1] = c[0];
	c->key = key;
	if (ids->n <= 4) {
		memset(c->id, 0, sizeof(c->id));
		for (size_t i = 0; i < ids->n; i++) {
			c->id[i] = ids->p[i];
		}
		c->id[0] |= (kp_id)ids->n << 24;
	} else {
		c->id[0] = (kp_id)KP_CACHE_FAR << 24;
		kp_cache_put_long(e->s, (unsigned)(e->tag >> 60), p, n,
			kp_hash_fold(key.lo, key.hi), ids->p, ids->n);
	}
	kp_span_add(e, ids->p, ids->n);
}

/* Byte-level, or text that is cut: short pieces are merged at once. */
static bool merges_at_once(const struct kp_tokenizer *t)
{
	return t->model.kind == KP_MODEL_BYTES || t->cut_text;
}

static size_t merge(const struct kp_tokenizer *t, const uint8_t *p, size_t n, kp_id *ids)
{
	return t->cut_text ? kp_model_small(&t->model, &t->vocab, &t->bpe, p, n, ids)
			   : kp_bpe_small(&t->bpe, p, n, ids);
}

void kp_span_token(struct kp_span *e, kp_id id)
{
	if (e->queued == 0 || !merges_at_once(e->t)) {
		kp_span_drain(e);
		kp_span_add(e, &id, 1);
		return;
	}
	if (e->queued >= e->full) {
		kp_span_step(e);
	}
	struct kp_cache_key key = { id, e->tag };
	e->queue[e->queued++] =
		(struct kp_queued){ key, kp_bucket(e->table, e->bucket_mask, key), e->tail, 0 };
}

/* Keeps what a short piece gave. */
static void keep(struct kp_span *e, const uint8_t *p, size_t n, struct kp_cache_key key,
	const kp_id *ids, size_t count)
{
	struct kp_cache_entry *c = kp_bucket(e->table, e->bucket_mask, key);
	c[1] = c[0];
	c->key = key;
	if (count <= 4) {
		memcpy(c->id, ids, sizeof(c->id));
		c->id[0] = (count ? ids[0] : 0) | (kp_id)count << 24;
	} else { /* the entry only says where to look */
		c->id[0] = (kp_id)KP_CACHE_FAR << 24;
		kp_cache_put_long(e->s, (unsigned)(e->tag >> 60), p, n,
			kp_hash_fold(key.lo, key.hi), ids, count);
	}
}

static void miss(struct kp_span *e, const uint8_t *p, size_t n, struct kp_cache_key key)
{
	if (KP_UNLIKELY(!merges_at_once(e->t))) {
		miss_text(e, p, n, key);
		return;
	}
	kp_id ids[KP_CACHE_KEY];
	size_t count = 1;
	ids[0] = n <= KP_WORD_MAX ? kp_words_find(&e->t->words, key.lo, (uint32_t)key.hi, n)
				  : whole(e->t, p, n);
	if (ids[0] == KP_BPE_NO_ID) {
		count = merge(e->t, p, n, ids);
	}
	keep(e, p, n, key, ids, count);
	memcpy(e->out + e->n, ids, count * sizeof(kp_id));
	e->n += count;
}

static void far(struct kp_span *e, const uint8_t *p, size_t n, struct kp_cache_key key)
{
	uint64_t hash = kp_hash_fold(key.lo, key.hi);
	size_t count;
	const kp_id *found = kp_cache_get_long(e->s, (unsigned)(e->tag >> 60), p, n, hash, &count);
	if (KP_UNLIKELY(!merges_at_once(e->t))) {
		if (found) {
			kp_span_add(e, found, count);
		} else {
			miss_text(e, p, n, key);
		}
		return;
	}
	if (!found) { /* the log began anew since then */
		kp_id ids[KP_CACHE_KEY];
		count = merge(e->t, p, n, ids);
		kp_cache_put_long(e->s, (unsigned)(e->tag >> 60), p, n, hash, ids, count);
		memcpy(e->out + e->n, ids, count * sizeof(kp_id));
	} else {
		memcpy(e->out + e->n, found, count * sizeof(kp_id));
	}
	e->n += count;
}

/* The ids of a piece that no cache keeps, put into the caller's array at once. */
static void encode_straight(struct kp_span *e, const uint8_t *p, size_t n)
{
	const struct kp_tokenizer *t = e->t;
	kp_span_flush(e);
	if (!e->failed) {
		e->failed = t->model.kind ? kp_model_encode(&t->model, &t->vocab, &t->bpe,
						    kp_str_n(p, n), &e->s->model, e->ids, e->err)
					  : kp_bpe_long(&t->bpe, p, n, e->ids, e->err);
	}
}

static void long_piece(struct kp_span *e, const uint8_t *p, size_t n, uint64_t hash)
{
	unsigned slot = (unsigned)(e->tag >> 60);
	size_t count;
	const kp_id *found = hash ? kp_cache_get_long(e->s, slot, p, n, hash, &count) : NULL;
	if (found) {
		kp_span_add(e, found, count);
		return;
	}
	kp_id small[KP_BPE_SMALL];
	const kp_id *ids = small;
	small[0] = whole(e->t, p, n);
	if (small[0] != KP_BPE_NO_ID) {
		count = 1;
	} else if (encode_rows(e, p, n)) {
		if (e->failed) {
			return;
		}
		ids = e->s->work.p;
		count = e->s->work.n;
	} else if (n <= KP_BPE_SMALL && merges_at_once(e->t)) {
		count = merge(e->t, p, n, small);
	} else if (!hash && merges_at_once(e->t) && e->ids->max - e->ids->n > e->n + 2 * n) {
		encode_straight(e, p, n);
		return;
	} else if (e->t->model.kind) {
		if (!encode_text(e, p, n)) {
			return;
		}
		ids = e->s->work.p;
		count = e->s->work.n;
	} else {
		kp_ids_reset(&e->s->work);
		if (kp_bpe_long(&e->t->bpe, p, n, &e->s->work, e->err)) {
			e->failed = true;
			return;
		}
		ids = e->s->work.p;
		count = e->s->work.n;
	}
	kp_span_add(e, ids, count);
	if (hash) {
		kp_cache_put_long(e->s, slot, p, n, hash, ids, count);
	}
}

/* Takes the ids of a short piece out of its bucket. */
static inline void take(struct kp_span *e, const struct kp_cache_entry *c, struct kp_cache_key k,
	const uint8_t *p, size_t n)
{
	if (KP_UNLIKELY(c->key.lo != k.lo || c->key.hi != k.hi)) {
		c++;
		if (KP_UNLIKELY(c->key.lo != k.lo || c->key.hi != k.hi)) {
			miss(e, p, n, k);
			return;
		}
	}
	kp_id id[4];
	memcpy(id, c->id, sizeof(id));
	size_t count = id[0] >> 24;
	if (KP_UNLIKELY(count == KP_CACHE_FAR)) {
		far(e, p, n, k);
		return;
	}
	id[0] &= 0xffffff;
	memcpy(e->out + e->n, id, sizeof(id));
	e->n += count;
}

/* Where in the cache each queued piece from `from` to n is. Those that it does not have are put into `missed`, and those and long ones are sent to e->apart. No branch, so that
   they wait for memory side by side. */
static size_t look_up(struct kp_span *e, size_t from, size_t n, size_t *ret_long)
{
	size_t k = 0, l = 0;
	for (size_t i = from; i < n; i++) {
		struct kp_queued *q = &e->queue[i];
		struct kp_cache_entry *c = q->bucket;
		uint64_t first = (c->key.lo ^ q->key.lo) | (c->key.hi ^ q->key.hi),
			 second = (c[1].key.lo ^ q->key.lo) | (c[1].key.hi ^ q->key.hi);
		bool is_short = q->n <= KP_CACHE_KEY, unknown = (first != 0) & (second != 0);
		uintptr_t there = (uintptr_t)(c + (first != 0)), apart = (uintptr_t)&e->apart,
			  mask = -(uintptr_t)(unknown | !is_short);
		q->bucket = (struct kp_cache_entry *)(there ^ ((there ^ apart) & mask));
		e->missed_at[k] = (uint32_t)i;
		k += unknown & is_short;
		e->long_at[l] = (uint32_t)i;
		l += !is_short;
	}
	*ret_long = l;
	return k;
}

/* What is to be merged side by side, and where the number of ids goes. */
struct jobs {
	size_t n;
	struct kp_bpe_job job[KP_QUEUE_ROOM + KP_LONGS];
	uint32_t *count[KP_QUEUE_ROOM + KP_LONGS];
};

static void add_job(struct jobs *j, struct kp_bpe_job job, uint32_t *count)
{
	j->job[j->n] = job;
	j->count[j->n++] = count;
}

static void merge_jobs(const struct kp_tokenizer *t, struct jobs *j, bool few)
{
	(few ? kp_bpe_merge_all : kp_bpe_merge_windows)(&t->bpe, j->job, j->n);
	for (size_t i = 0; i < j->n; i++) {
		*j->count[i] = (uint32_t)j->job[i].n;
	}
}

/* The merges of a piece. sym: room for as many as it has bytes, for text. */
static struct kp_bpe_job make_job(
	const struct kp_tokenizer *t, const struct kp_queued *q, kp_id *ids, kp_id *sym)
{
	struct kp_bpe_job job = { .p = q->p, .n = q->n, .ids = ids };
	if (t->cut_text) {
		job.p = NULL;
		job.sym = sym;
		job.n = kp_model_symbols(&t->model, &t->vocab, q->p, q->n, sym);
	}
	return job;
}

/* The ids of k missed pieces, or what is to be merged for them. */
static void resolve_short(struct kp_span *e, size_t k, struct jobs *few)
{
	const struct kp_tokenizer *t = e->t;
	for (size_t i = 0; i < k; i++) {
		const struct kp_queued *q = &e->queue[e->missed_at[i]];
		__builtin_prefetch(kp_words_line(
			&t->words, kp_words_hash(q->key.lo, (uint32_t)q->key.hi, q->n)));
	}
	for (size_t i = 0; i < k; i++) {
		const struct kp_queued *q = &e->queue[e->missed_at[i]];
		kp_id id = q->n == 0 ? (kp_id)q->key.lo
			   : q->n <= KP_WORD_MAX
				   ? kp_words_find(&t->words, q->key.lo, (uint32_t)q->key.hi, q->n)
				   : whole(t, q->p, q->n);
		struct kp_missed *m = &e->missed[i];
		m->ids[0] = id;
		m->count = 1;
		if (id == KP_BPE_NO_ID) {
			add_job(few, make_job(t, q, m->ids, m->sym), &m->count);
		}
	}
}

/* The same of the n longer pieces, the first of those that nobody knows; how many. Text has fewer symbols than bytes. */
static size_t resolve_long(struct kp_span *e, size_t n, struct jobs *few, struct jobs *many)
{
	const struct kp_tokenizer *t = e->t;
	size_t k = 0, count, row_at;
	for (size_t i = 0; i < n && k < KP_LONGS; i++) {
		const struct kp_queued *q = &e->queue[e->long_at[i]];
		if (q->n > KP_BPE_MANY ||
			kp_cache_get_long(
				e->s, (unsigned)(e->tag >> 60), q->p, q->n, q->key.lo, &count) ||
			whole(t, q->p, q->n) != KP_BPE_NO_ID ||
			kp_rows_long(t, kp_str_n((const char *)q->p, q->n), &row_at, &count)) {
			continue;
		}
		struct kp_long *x = &e->longs[k++];
		x->q = q;
		struct kp_bpe_job job = make_job(t, q, x->ids, x->sym);
		add_job(job.n <= KP_BPE_FEW ? few : many, job, &x->count);
	}
	return k;
}

/* The ids of k missed pieces and some of the n longer ones; how many of those. */
static size_t resolve(struct kp_span *e, size_t k, size_t n)
{
	struct jobs few, many;
	few.n = many.n = 0;
	resolve_short(e, k, &few);
	size_t n_long = resolve_long(e, n, &few, &many);
	merge_jobs(e->t, &few, true);
	merge_jobs(e->t, &many, false);
	return n_long;
}

/* The ids of a piece that are not in its entry. next, next_long: of those that are resolved; end_long: behind the last of the longer ones. */
static void take_apart(struct kp_span *e, const struct kp_queued *q, size_t *next,
	const struct kp_long **next_long, const struct kp_long *end_long)
{
	const struct kp_long *x = *next_long;
	if (q->bucket != &e->apart) {
		far(e, q->p, q->n, q->key);
	} else if (x < end_long && x->q == q) {
		kp_span_add(e, x->ids, x->count);
		kp_cache_put_long(
			e->s, (unsigned)(e->tag >> 60), q->p, q->n, q->key.lo, x->ids, x->count);
		++*next_long;
	} else if (q->n > KP_CACHE_KEY) {
		long_piece(e, q->p, q->n, q->key.lo);
	} else {
		const struct kp_missed *m = &e->missed[(*next)++];
		memcpy(e->out + e->n, m->ids, sizeof(m->ids));
		e->n += m->count;
	}
}

/* Takes the pieces of the queue from `i` on as long as their ids are in their entries; up to which. */
static size_t take_near(struct kp_span *e, size_t i, size_t n)
{
	size_t out = e->n;
	for (; i < n && out <= KP_OUT; i++) {
		const struct kp_queued *q = &e->queue[i];
		const struct kp_cache_entry *c = q->bucket;
		uint64_t first = (c->key.lo ^ q->key.lo) | (c->key.hi ^ q->key.hi),
			 second = (c[1].key.lo ^ q->key.lo) | (c[1].key.hi ^ q->key.hi);
		kp_id id[4];
		memcpy(id, c[first != 0].id, sizeof(id));
		size_t count = id[0] >> 24;
		if (KP_UNLIKELY(((first != 0) & (second != 0)) | (q->n > KP_CACHE_KEY) |
				(count == KP_CACHE_FAR))) {
			break;
		}
		id[0] &= 0xffffff;
		memcpy(e->out + out, id, sizeof(id));
		out += count;
	}
	e->n = out;
	return i;
}

static inline bool is_key(const struct kp_cache_entry *c, const struct kp_cache_key *k)
{
	return c->key.lo == k->lo && c->key.hi == k->hi;
}

/* A piece that take_near leaves, if the cache has it all the same. */
static bool take_far(struct kp_span *e, const struct kp_queued *q)
{
	bool is_short = q->n <= KP_CACHE_KEY;
	if (is_short && !is_key(q->bucket, &q->key) && !is_key(q->bucket + 1, &q->key)) {
		return false;
	}
	uint64_t hash = is_short ? kp_hash_fold(q->key.lo, q->key.hi) : q->key.lo;
	size_t n;
	const kp_id *ids =
		hash ? kp_cache_get_long(e->s, (unsigned)(e->tag >> 60), q->p, q->n, hash, &n)
		     : NULL;
	if (ids) {
		kp_span_add(e, ids, n);
	}
	return ids != NULL;
}

/* Takes those from `i` on as long as the cache has them, which for text that comes again is all of them; up to which. */
static size_t take_known(struct kp_span *e, size_t i, size_t n)
{
	while ((i = take_near(e, i, n)) < n && !e->failed) {
		if (e->n > KP_OUT) {
			kp_span_flush(e);
		} else if (take_far(e, &e->queue[i])) {
			i++;
		} else {
			break;
		}
	}
	return i;
}

/* The ids of the queued pieces from `from` to n, for models whose short pieces are merged at once. The cache changes when all are taken. */
static void drain_at_once(struct kp_span *e, size_t from, size_t n)
{
	e->apart.id[0] = (kp_id)KP_CACHE_FAR << 24;
	size_t n_long, k = look_up(e, from, n, &n_long), next = 0, out = e->n;
	const struct kp_long *next_long = e->longs, *end_long = e->longs + resolve(e, k, n_long);
	for (const struct kp_queued *q = e->queue + from, *last = e->queue + n; q < last; q++) {
		kp_id id[4];
		memcpy(id, q->bucket->id, sizeof(id));
		size_t count = id[0] >> 24;
		if (KP_UNLIKELY(count == KP_CACHE_FAR) || KP_UNLIKELY(out > KP_OUT)) {
			e->n = out;
			if (out > KP_OUT) {
				kp_span_flush(e);
			}
			if (count == KP_CACHE_FAR) {
				take_apart(e, q, &next, &next_long, end_long);
				out = e->n;
				if (e->failed) {
					break;
				}
				continue;
			}
			out = e->n;
		}
		id[0] &= 0xffffff;
		memcpy(e->out + out, id, sizeof(id));
		out += count;
	}
	e->n = out;
	for (size_t i = 0; i < k; i++) {
		const struct kp_missed *m = &e->missed[i];
		const struct kp_queued *q = &e->queue[e->missed_at[i]];
		const struct kp_cache_entry *c = kp_bucket(e->table, e->bucket_mask, q->key);
		if (c->key.lo != q->key.lo || c->key.hi != q->key.hi) {
			keep(e, q->p, q->n, q->key, m->ids, m->count);
		}
	}
}

void kp_span_step(struct kp_span *e)
{
	if (merges_at_once(e->t) && e->full == KP_QUEUE_STEP) {
		e->taken = take_known(e, 0, e->queued);
		if (e->taken < e->queued) {
			e->full = KP_QUEUE;
			return;
		}
		e->queued = 0;
	}
	kp_span_drain(e);
}

void kp_span_drain(struct kp_span *e)
{
	size_t n = e->queued, from = e->taken;
	e->queued = e->taken = 0;
	e->full = KP_QUEUE_STEP;
	if (merges_at_once(e->t)) {
		from = from ? from : take_known(e, 0, n);
		if (from < n && !e->failed) {
			drain_at_once(e, from, n);
		}
		return;
	}
	for (size_t i = 0; i < n && !e->failed; i++) {
		const struct kp_queued *q = &e->queue[i];
		if (KP_UNLIKELY(e->n > KP_OUT)) {
			kp_span_flush(e);
		}
		if (KP_UNLIKELY(q->n > KP_CACHE_KEY)) {
			long_piece(e, q->p, q->n, q->key.lo);
		} else {
			take(e, q->bucket, q->key, q->p, q->n);
		}
	}
}

void kp_span_one(struct kp_span *e, const uint8_t *p, size_t n)
{
	if (e->n > KP_OUT) {
		kp_span_flush(e);
	}
	if (n > KP_CACHE_KEY) {
		long_piece(e, p, n, kp_cache_long(e->s, (unsigned)(e->tag >> 60), p, n));
		return;
	}
	uint8_t padded[16] = { 0 };
	memcpy(padded, p, n);
	struct kp_cache_key k = kp_span_key(e->tag, padded, n);
	take(e, kp_bucket(e->table, e->bucket_mask, k), k, padded, n);
}

/* DESIGN: chained hash tables of slots that lie in the nodes; how many chains there are is settled at the start by the bytes allowed. Which shard: by the first block's hash. Where
   a text's known part ends is found by halving, see cache_table.h. Nothing is compared, freed or copied under a lock; the slots of a long text are put in from its begin on and taken
   out from its end on, some at a time, so that what is there is always a beginning. Lock: a leaf. Bytes are counted over all shards, and the
   shard whose oldest node is the oldest gives it up (each shard tells its own in an atomic), so the order is that of one list, nearly. */
#include "prompt/cache_table.h"

#include "base/mem.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
	SHARDS = 16,
	CHAIN_BYTES = 512, /* bytes allowed for which there is one chain */
	BATCH = 512,       /* slots that are put in or taken out at once: 128 KiB of text */
};

struct shard {
	pthread_mutex_t lock;
	struct kp_prompt_slot **chain;
	size_t mask;
	struct kp_list lru; /* nodes without any below them, the oldest first */
	size_t n_nodes;
	uint64_t evictions;
	_Atomic uint64_t oldest; /* used of the first in lru; UINT64_MAX: none */
};

struct kp_prompt_table {
	struct shard *shard[SHARDS];
	size_t max_bytes;
	atomic_size_t bytes;  /* of tables and nodes */
	_Atomic uint64_t now; /* counts uses */
};

struct kp_prompt_table *kp_prompt_table_create(size_t max_bytes)
{
	struct kp_prompt_table *t = kp_new(struct kp_prompt_table);
	size_t chains = 1;
	while (chains * 2 <= max_bytes / CHAIN_BYTES / SHARDS) {
		chains *= 2;
	}
	t->max_bytes = max_bytes;
	for (size_t i = 0; i < SHARDS; i++) {
		struct shard *s = t->shard[i] = kp_new(struct shard);
		pthread_mutex_init(&s->lock, NULL);
		s->chain = kp_xcalloc(chains, sizeof(struct kp_prompt_slot *));
		s->mask = chains - 1;
		kp_list_init(&s->lru);
		atomic_init(&s->oldest, UINT64_MAX);
	}
	atomic_init(&t->bytes, SHARDS * chains * sizeof(struct kp_prompt_slot *));
	return t;
}

/* Takes the oldest node out of the list, or gives NULL. What it hangs on follows it, unless it has others, or was used later by itself. */
static struct kp_prompt_node *take_oldest(struct shard *s)
{
	struct kp_list *l = kp_list_pop(&s->lru);
	struct kp_prompt_node *n = l ? KP_CONTAINER(l, struct kp_prompt_node, lru) : NULL;
	struct kp_prompt_node *parent = n ? n->parent : NULL;
	if (n) {
		n->is_kept = false;
	}
	if (parent && --parent->n_children == 0) {
		/* Before the first of a list that goes round stands its last. */
		kp_list_push(parent->used > n->used ? &s->lru : s->lru.next, &parent->lru);
	}
	return n;
}

void kp_prompt_table_destroy(struct kp_prompt_table *t)
{
	if (!t) {
		return;
	}
	for (size_t i = 0; i < SHARDS; i++) {
		struct shard *s = t->shard[i];
		struct kp_prompt_node *n;
		while ((n = take_oldest(s))) {
			kp_prompt_node_unref(n);
		}
		pthread_mutex_destroy(&s->lock);
		kp_free(&s->chain);
		kp_free(&t->shard[i]);
	}
	kp_mem_free(t);
}

size_t kp_prompt_table_max(const struct kp_prompt_table *t)
{
	return t->max_bytes;
}

static unsigned shard_of(const uint64_t *hashes)
{
	return (unsigned)(hashes[0] >> 32) % SHARDS;
}

static struct kp_prompt_slot **chain(const struct shard *s, uint64_t hash)
{
	return &s->chain[hash & s->mask];
}

/* The newest slot of that hash, or NULL. */
static struct kp_prompt_slot *newest(const struct shard *s, uint64_t hash)
{
	struct kp_prompt_slot *x = *chain(s, hash);
	while (x && x->hash != hash) {
		x = x->next;
	}
	return x;
}

/* n is the latest now. Those above it are not looked at: they are not in the list while n is there. */
static void touch(struct kp_prompt_table *t, struct shard *s, struct kp_prompt_node *n)
{
	n->used = atomic_fetch_add_explicit(&t->now, 1, memory_order_relaxed);
	if (kp_list_linked(&n->lru)) {
		kp_list_del(&n->lru);
		kp_list_push(&s->lru, &n->lru);
	}
}

static void tell_oldest(struct shard *s)
{
	uint64_t used = kp_list_empty(&s->lru)
				? UINT64_MAX
				: KP_CONTAINER(s->lru.next, struct kp_prompt_node, lru)->used;
	atomic_store_explicit(&s->oldest, used, memory_order_relaxed);
}

size_t kp_prompt_table_find(struct kp_prompt_table *t, const uint64_t *hashes, size_t n_hashes,
	struct kp_prompt_node *ret[KP_PROMPT_FOUND])
{
	struct shard *s = t->shard[shard_of(hashes)];
	uint64_t hash = hashes[n_hashes - 1];
	size_t n = 0;
	pthread_mutex_lock(&s->lock);
	if (!newest(s, hash)) {
		size_t lo = 0, hi = n_hashes - 1; /* how many blocks are known */
		while (lo < hi) {
			size_t mid = (lo + hi + 1) / 2;
			if (newest(s, hashes[mid - 1])) {
				lo = mid;
			} else {
				hi = mid - 1;
			}
		}
		hash = lo ? hashes[lo - 1] : hash;
	}
	for (struct kp_prompt_slot *x = newest(s, hash); x && n < KP_PROMPT_FOUND; x = x->older) {
		kp_ref_get(&x->node->ref);
		ret[n++] = x->node;
	}
	for (size_t i = n; i-- > 0;) {
		touch(t, s, ret[i]);
	}
	tell_oldest(s);
	pthread_mutex_unlock(&s->lock);
	return n;
}

/* x stands in the chain where `*at` points to. */
static void put_in_chain(
	struct kp_prompt_slot *x, struct kp_prompt_slot **at, struct kp_prompt_slot *next)
{
	x->points_here = at;
	x->next = next;
	*at = x;
	if (next) {
		next->points_here = &x->next;
	}
}

/* The next BATCH slots of n, from its begin on. */
static void link_some(struct shard *s, struct kp_prompt_node *n)
{
	size_t end = KP_MIN(n->n_slots, n->n_linked + BATCH);
	for (; n->n_linked < end; n->n_linked++) {
		struct kp_prompt_slot *x = &n->slots[n->n_linked], *before = newest(s, x->hash);
		x->older = before;
		if (before) {
			before->newer = x;
			put_in_chain(x, before->points_here, before->next);
		} else {
			struct kp_prompt_slot **head = chain(s, x->hash);
			put_in_chain(x, head, *head);
		}
	}
}

/* The last BATCH of those that are linked. */
static void unlink_some(struct kp_prompt_node *n)
{
	size_t end = n->n_linked > BATCH ? n->n_linked - BATCH : 0;
	while (n->n_linked > end) {
		struct kp_prompt_slot *x = &n->slots[--n->n_linked];
		if (x->older) {
			x->older->newer = x->newer;
		}
		if (x->newer) {
			x->newer->older = x->older;
		} else if (x->older) {
			put_in_chain(x->older, x->points_here, x->next);
		} else {
			*x->points_here = x->next;
			if (x->next) {
				x->next->points_here = x->points_here;
			}
		}
	}
}

/* Lets others in. */
static void breathe(struct shard *s)
{
	pthread_mutex_unlock(&s->lock);
	pthread_mutex_lock(&s->lock);
}

/* Lets the oldest of all go; false: there is none. */
static bool evict(struct kp_prompt_table *t)
{
	struct shard *s = t->shard[0];
	uint64_t oldest = UINT64_MAX;
	for (size_t i = 0; i < SHARDS; i++) {
		uint64_t used = atomic_load_explicit(&t->shard[i]->oldest, memory_order_relaxed);
		if (used < oldest) {
			oldest = used;
			s = t->shard[i];
		}
	}
	if (oldest == UINT64_MAX) {
		return false;
	}
	pthread_mutex_lock(&s->lock);
	struct kp_prompt_node *n = take_oldest(s);
	if (n) {
		s->n_nodes--;
		s->evictions++;
		atomic_fetch_sub_explicit(&t->bytes, n->bytes, memory_order_relaxed);
	}
	tell_oldest(s);
	while (n && n->n_linked) {
		unlink_some(n);
		breathe(s);
	}
	pthread_mutex_unlock(&s->lock);
	kp_prompt_node_unref(n);
	return true;
}

/* Until no more bytes are kept than may be. */
static void shrink(struct kp_prompt_table *t)
{
	while (atomic_load_explicit(&t->bytes, memory_order_relaxed) > t->max_bytes && evict(t)) {
	}
}

struct kp_prompt_link kp_prompt_table_link(const struct kp_prompt_node *n)
{
	return (struct kp_prompt_link){ n->slots[n->n_slots - 1].hash, n->serial, n->shard };
}

struct kp_prompt_node *kp_prompt_table_get(
	struct kp_prompt_table *t, const struct kp_prompt_link *link)
{
	struct shard *s = t->shard[link->shard];
	pthread_mutex_lock(&s->lock);
	struct kp_prompt_slot *x = newest(s, link->hash);
	while (x && x->node->serial != link->serial) {
		x = x->older;
	}
	struct kp_prompt_node *n = x ? x->node : NULL;
	if (n) {
		kp_ref_get(&n->ref);
		touch(t, s, n);
		tell_oldest(s);
	}
	pthread_mutex_unlock(&s->lock);
	return n;
}

struct kp_prompt_link kp_prompt_table_add(struct kp_prompt_table *t, const uint64_t *hashes,
	size_t n_hashes, struct kp_prompt_node *n)
{
	struct kp_prompt_node *parent = n->parent;
	struct kp_prompt_link link = { 0 };
	n->shard = parent ? parent->shard : shard_of(hashes);
	struct shard *s = t->shard[n->shard];
	pthread_mutex_lock(&s->lock);
	bool has_parent = !parent || parent->is_kept;
	if (has_parent && !newest(s, hashes[n_hashes - 1])) {
		kp_ref_get(&n->ref); /* the table's */
		n->is_kept = true;
		n->serial = atomic_fetch_add_explicit(&t->now, 1, memory_order_relaxed) + 1;
		link = kp_prompt_table_link(n);
		kp_list_push(&s->lru, &n->lru);
		touch(t, s, n);
		if (parent) {
			parent->n_children++;
			kp_list_del(&parent->lru);
		}
		tell_oldest(s);
		s->n_nodes++;
		atomic_fetch_add_explicit(&t->bytes, n->bytes, memory_order_relaxed);
		while (n->is_kept && n->n_linked < n->n_slots) {
			link_some(s, n);
			if (n->n_linked < n->n_slots) {
				breathe(s);
			}
		}
	}
	pthread_mutex_unlock(&s->lock);
	kp_prompt_node_unref(n);
	shrink(t);
	return link;
}

void kp_prompt_table_resize(struct kp_prompt_table *t, struct kp_prompt_node *n, size_t bytes)
{
	struct shard *s = t->shard[n->shard];
	pthread_mutex_lock(&s->lock);
	if (n->is_kept && bytes > n->bytes) {
		atomic_fetch_add_explicit(&t->bytes, bytes - n->bytes, memory_order_relaxed);
		n->bytes = bytes;
	}
	pthread_mutex_unlock(&s->lock);
	shrink(t);
}

void kp_prompt_table_stats(struct kp_prompt_table *t, struct kp_prompt_cache_stats *ret)
{
	*ret = (struct kp_prompt_cache_stats){ .max_bytes = t->max_bytes,
		.bytes = atomic_load_explicit(&t->bytes, memory_order_relaxed) };
	for (size_t i = 0; i < SHARDS; i++) {
		struct shard *s = t->shard[i];
		pthread_mutex_lock(&s->lock);
		ret->entries += s->n_nodes;
		ret->evictions += s->evictions;
		pthread_mutex_unlock(&s->lock);
	}
}

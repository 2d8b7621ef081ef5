/* Finds nodes by hash, and lets the oldest go when there are too many bytes. In shards, each with a lock that is held for a few look-ups; all of a
   conversation, whatever begins with the same block, is in one shard.

   Only nodes that none hangs on can be let go, so what is there of a text is there from its begin: of the blocks of a text, those that are known are the first ones. Using a
   node says nothing of those above it, which are thirty in a conversation and lie anywhere in memory: they cannot go before it, and go right after it. */
#ifndef KP_PROMPT_CACHE_TABLE_H
#define KP_PROMPT_CACHE_TABLE_H

#include "prompt/cache.h"
#include "prompt/cache_node.h"

struct kp_prompt_table;
struct kp_prompt_table *kp_prompt_table_create(size_t max_bytes);
void kp_prompt_table_destroy(struct kp_prompt_table *t);
size_t kp_prompt_table_max(const struct kp_prompt_table *t);

enum { KP_PROMPT_FOUND = 4 };
/* hashes: of kp_prompt_hash. Gives nodes, counted for the caller, whose text is likely to begin with as many blocks of this one as any: the one that is the
   same to the end, or some of those that have the most. Returns how many. */
size_t kp_prompt_table_find(struct kp_prompt_table *t, const uint64_t *hashes, size_t n_hashes,
	struct kp_prompt_node *ret[KP_PROMPT_FOUND]);
/* A node of the table that is found without its text. */
struct kp_prompt_link kp_prompt_table_link(const struct kp_prompt_node *n);
/* Counted for the caller, and used; NULL: it is not there any more. */
struct kp_prompt_node *kp_prompt_table_get(
	struct kp_prompt_table *t, const struct kp_prompt_link *link);
/* Takes over the caller's count of n. n's slots are those of `hashes` from its begin on; nothing is kept if what n hangs on is gone meanwhile, or the whole is
   there by now. Of hashes, the last is looked at, and of a root the first. Returns how it is found again. */
struct kp_prompt_link kp_prompt_table_add(struct kp_prompt_table *t, const uint64_t *hashes,
	size_t n_hashes, struct kp_prompt_node *n);
/* n has so many bytes now, at least; nothing where it is not kept any more. */
void kp_prompt_table_resize(struct kp_prompt_table *t, struct kp_prompt_node *n, size_t bytes);
void kp_prompt_table_stats(struct kp_prompt_table *t, struct kp_prompt_cache_stats *ret);

#endif

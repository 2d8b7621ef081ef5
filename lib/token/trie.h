/* A set of texts by their bytes, for "which of them begin here": a hash table of edges, eight bytes each. Immutable after the last insert;
   bounded probes whoever made the texts. */
#ifndef KP_TOKEN_TRIE_H
#define KP_TOKEN_TRIE_H

#include "core/ids.h"
#include "base/str.h"

enum { KP_TRIE_ROOT = 0, KP_TRIE_MAX = (1 << 24) - 1 };
#define KP_TRIE_NONE UINT32_MAX
struct kp_trie {
	uint64_t *edge; /* node << 40 | byte << 32 | child; 0: free */
	size_t mask, n_edges, probes;
	kp_id *value; /* by node; KP_NO_ID: no text ends there */
	size_t n, cap;
};
int kp_trie_init(struct kp_trie *t, struct kp_err *err) KP_MUST_USE;
void kp_trie_fini(struct kp_trie *t);
/* The last one given for a text counts. TOO_LARGE beyond KP_TRIE_MAX nodes. */
int kp_trie_add(struct kp_trie *t, kp_str text, kp_id value, struct kp_err *err) KP_MUST_USE;

static inline size_t kp_trie_slot(const struct kp_trie *t, uint32_t node, uint8_t byte)
{
	uint64_t key = (uint64_t)node << 8 | byte;
	return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 20) & t->mask;
}
/* The node behind `byte`, KP_TRIE_NONE when there is none. */
static inline uint32_t kp_trie_step(const struct kp_trie *t, uint32_t node, uint8_t byte)
{
	uint64_t key = (uint64_t)node << 8 | byte;
	for (size_t i = kp_trie_slot(t, node, byte);; i = (i + 1) & t->mask) {
		if (t->edge[i] >> 32 == key && (uint32_t)t->edge[i]) {
			return (uint32_t)t->edge[i];
		}
		if (t->edge[i] == 0) {
			return KP_TRIE_NONE;
		}
	}
}

#endif

/* DESIGN: see trie.h. The root is no edge's child, so a child is never 0 and an edge never all zero. The table doubles at half full. */
#include "token/trie.h"
#include "base/mem.h"

#include <string.h>

enum { FIRST = 1 << 10 };
#define NO_VALUE UINT32_MAX

int kp_trie_init(struct kp_trie *t, struct kp_err *err)
{
	*t = (struct kp_trie){ .mask = FIRST - 1, .n = 1, .cap = FIRST };
	t->edge = kp_xcalloc(FIRST, sizeof(*t->edge));
	t->value = kp_xmalloc(FIRST * sizeof(*t->value));
	t->value[0] = NO_VALUE;
	(void)err;
	return 0;
}

void kp_trie_fini(struct kp_trie *t)
{
	kp_free(&t->edge);
	kp_free(&t->value);
}

static int full(struct kp_err *err)
{
	return kp_err_set(err, KP_RESOURCE_EXHAUSTED, "index `vocabulary`: out of memory");
}

static void put(struct kp_trie *t, uint64_t edge)
{
	uint64_t key = edge >> 32;
	size_t i = kp_trie_slot(t, (uint32_t)(key >> 8), (uint8_t)key);
	for (; t->edge[i]; i = (i + 1) & t->mask) {
		t->probes++;
	}
	t->edge[i] = edge;
}

static int grow_edges(struct kp_trie *t, struct kp_err *err)
{
	size_t slots = (t->mask + 1) * 2;
	uint64_t *old = t->edge, *edge = kp_try_malloc(slots * sizeof(*edge));
	if (!edge) {
		return full(err);
	}
	memset(edge, 0, slots * sizeof(*edge));
	size_t n = t->mask + 1;
	t->edge = edge;
	t->mask = slots - 1;
	t->probes = 0;
	for (size_t i = 0; i < n; i++) {
		if (old[i]) {
			put(t, old[i]);
		}
	}
	kp_free(&old);
	return 0;
}

static int new_node(struct kp_trie *t, uint32_t parent, uint8_t byte, struct kp_err *err)
{
	if (t->n == KP_TRIE_MAX) {
		return kp_err_set(
			err, KP_TOO_LARGE, "index vocabulary: more than `%d` nodes", KP_TRIE_MAX);
	}
	if (t->n_edges * 2 > t->mask && grow_edges(t, err)) {
		return -1;
	}
	if (t->n == t->cap) {
		void *p = kp_try_realloc(t->value, t->cap * 2 * sizeof(*t->value));
		if (!p) {
			return full(err);
		}
		t->value = p;
		t->cap *= 2;
	}
	put(t, (uint64_t)parent << 40 | (uint64_t)byte << 32 | t->n);
	t->n_edges++;
	t->value[t->n++] = NO_VALUE;
	if (t->probes > 64 * t->n_edges + 65536) {
		return kp_err_set(err, KP_INVALID_ARGUMENT,
			"index `%zu` nodes of the vocabulary: made to collide", t->n);
	}
	return 0;
}

int kp_trie_add(struct kp_trie *t, kp_str text, kp_id value, struct kp_err *err)
{
	uint32_t node = KP_TRIE_ROOT;
	for (size_t i = 0; i < text.n; i++) {
		uint8_t c = (uint8_t)text.p[i];
		uint32_t child = kp_trie_step(t, node, c);
		if (child == KP_TRIE_NONE) {
			if (new_node(t, node, c, err)) {
				return -1;
			}
			child = (uint32_t)t->n - 1;
		}
		node = child;
	}
	t->value[node] = value;
	return 0;
}

/* What the cache keeps of one prompt. A node has the text from a cut of its parent on (a root: from the begin) to the end of a prompt, with origins, ids and
   cuts. So what prompts have in common is kept once, and the next turn of a conversation adds what it added.

   Immutable but for what the table owns (node->lru, slots, used). Counted: the table, each child and each reader hold one. */
#ifndef KP_PROMPT_CACHE_NODE_H
#define KP_PROMPT_CACHE_NODE_H

#include "base/list.h"
#include "base/ref.h"
#include "token/tokenizer.h"

enum {
	KP_PROMPT_BLOCK =
		256, /* bytes from one point of a text that can be looked up to the next */
	KP_PROMPT_DEPTH =
		32, /* nodes above one another; then one is made anew with the whole text */
};

/* One of a node's beginnings, in the table. Those of one hash hang on one another, and only the newest is in the chain: completions behind one long beginning without
   a cut have many. */
struct kp_prompt_slot {
	uint64_t hash;
	struct kp_prompt_node *node;
	struct kp_prompt_slot *newer, *older;       /* of the same hash */
	struct kp_prompt_slot *next, **points_here; /* in the chain; the newest only */
};

struct kp_prompt_node {
	struct kp_refcount ref;
	struct kp_prompt_node *parent;      /* counted; NULL: a root */
	kp_str scope;                       /* of a root: whose text it is */
	unsigned depth;                     /* of nodes above it */
	struct kp_prompt_node *const *line; /* those above it, `depth`, the root first */
	size_t bytes;                       /* of this node's memory */
	struct kp_cut from;                 /* where it begins; a root: zero */
	uint32_t end, n_ids;                /* of the prompt: bytes, ids */
	const char *text;                   /* bytes from.text to end */
	const struct kp_run *runs;          /* those that are not over at from.text */
	const kp_id *ids;                   /* from.ids to n_ids */
	kp_str packed;                      /* the same as varints, as engines are sent them */
	size_t from_packed;                 /* bytes of such before them */
	const struct kp_cut *cuts;          /* behind `from`, ascending */
	size_t n_runs, n_cuts;
	void *more; /* what else is known of the text, set before others see the node; freed by: */
	void (*more_free)(void *more);
	/* --- the table's */
	struct kp_list lru; /* while none hangs on it */
	unsigned shard;
	uint64_t serial;     /* of its time in the table, not 0 */
	unsigned n_children; /* nodes in the table that hang on it */
	bool is_kept;        /* in the table */
	uint64_t used;
	struct kp_prompt_slot *slots;
	size_t n_slots, n_linked; /* of them in the table: the first ones */
};

/* A place in what is kept: the ids up to the cut are those of the node's prompt. */
struct kp_prompt_place {
	struct kp_prompt_node *node; /* NULL: none */
	struct kp_cut cut;
	bool is_exact; /* the whole prompt: cut is its end */
};

/* Builds a node for a prompt: a child at `at`, or a root when at->node is NULL. packed: all of its ids. cuts: all behind at->cut. A text without ids (ids->p NULL) has a number of
   something else in their place, which its cuts count. NULL when memory is gone or
   the node would have more than max_bytes. */
struct kp_prompt_node *kp_prompt_node_create(const struct kp_prompt_place *at, kp_str scope,
	const struct kp_text *text, const struct kp_ids *ids, kp_str packed,
	const struct kp_cuts *cuts, const uint64_t *hashes, size_t n_hashes, size_t max_bytes);
void kp_prompt_node_unref(struct kp_prompt_node *n);

/* The last place of n's prompt at which the ids are those of `text` too; node NULL: there is none. The place borrows n or a node above it. */
struct kp_prompt_place kp_prompt_node_match(
	struct kp_prompt_node *n, kp_str scope, const struct kp_text *text);

/* The same, where it is known that the first `same` bytes of text are those of n's prompt. */
struct kp_prompt_place kp_prompt_node_place(
	struct kp_prompt_node *n, const struct kp_text *text, size_t same);
/* Whether bytes and origins in [from, to) are those of n's prompt, which is as long at least. */
bool kp_prompt_node_agrees(
	const struct kp_prompt_node *n, const struct kp_text *text, size_t from, size_t to);
/* Copies [from, to) of n's prompt to the same places behind out. */
void kp_prompt_node_copy(const struct kp_prompt_node *n, char *out, size_t from, size_t to);
/* The hash of the first n_blocks blocks of the prompt, not more than it has. */
uint64_t kp_prompt_node_hash(const struct kp_prompt_node *n, size_t n_blocks);
/* Whose prompt it is. */
kp_str kp_prompt_node_scope(const struct kp_prompt_node *n);

/* Appends the ids up to the place, and the same packed (unless NULL); all of the cuts up to it. */
void kp_prompt_place_ids(
	const struct kp_prompt_place *at, struct kp_ids *out, struct kp_buf *packed);
size_t kp_prompt_place_n_cuts(const struct kp_prompt_place *at);
void kp_prompt_place_cuts(const struct kp_prompt_place *at, struct kp_cut *out);

#endif

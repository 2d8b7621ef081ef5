/* What the prompt cache and the known messages share: one table, one key, one way to look a text up. */
#ifndef KP_PROMPT_CACHE_INTERNAL_H
#define KP_PROMPT_CACHE_INTERNAL_H

#include "prompt/cache_hash.h"
#include "prompt/cache_table.h"

enum {
	KP_PROMPT_SCOPE_MAX =
		2048, /* bytes of a scope; model and salt are limited where they are read */
	KP_PROMPT_KEPT_SHARE = 4, /* one node has at most this part of all bytes */
};

struct kp_prompt_cache {
	struct kp_prompt_hash_key key;
	struct kp_prompt_table *table;
};

/* Whose a text is, as bytes: different ones are different bytes. numbers[3]: 0 or 1 are prompts (add_special), 2 messages. false: too long. */
bool kp_prompt_put_scope(
	struct kp_buf *b, const uint64_t numbers[4], kp_str model, kp_str tenant, kp_str salt);

/* One text on its way. */
struct kp_prompt_ask {
	struct kp_prompt_cache *c;
	kp_str scope;
	const struct kp_text *text;
	uint64_t *hashes; /* room for them, as kp_prompt_hash wants it */
	size_t n_hashes;
	struct kp_prompt_place at;
	struct kp_prompt_node *held; /* keeps `at` alive; counted */
	struct kp_buf *packed;
	struct kp_prompt_link link; /* where it is kept */
};
/* Fills hashes, at and held. */
void kp_prompt_look_up(struct kp_prompt_ask *q);

#endif

/* Keyed hashes of a text's beginnings: one for each KP_PROMPT_BLOCK bytes, and one of the whole. They depend on the scope, on the bytes and on where runs of one
   origin begin. Nothing but speed hangs on them (what is found is compared), but the key is secret, so that nobody outside can choose texts that meet. */
#ifndef KP_PROMPT_CACHE_HASH_H
#define KP_PROMPT_CACHE_HASH_H

#include "core/text.h"
#include "prompt/cache_node.h"

enum { KP_PROMPT_KEY_WORDS = KP_PROMPT_BLOCK / 8 + 4 };
struct kp_prompt_hash_key {
	uint8_t scope[16];
	uint64_t word[KP_PROMPT_KEY_WORDS];
};
void kp_prompt_hash_key_make(struct kp_prompt_hash_key *k); /* random */

/* ret: room for text->s.n / KP_PROMPT_BLOCK + 1; ret[i] is that of the first (i + 1) blocks, the last one that of the whole text. Returns how many. */
size_t kp_prompt_hash(const struct kp_prompt_hash_key *k, kp_str scope, const struct kp_text *text,
	uint64_t *ret);
/* The same behind the first `blocks` blocks, at least one, whose hash is h: ret[0] is that of one block more, or of the whole. What stands before is not read. */
size_t kp_prompt_hash_rest(const struct kp_prompt_hash_key *k, uint64_t h, size_t blocks,
	const struct kp_text *text, uint64_t *ret);

#endif

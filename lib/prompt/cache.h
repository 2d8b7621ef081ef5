/* The prompt cache: ids of prompts that were encoded before, so that the next turn of a conversation costs only its new text.

   L0: the same text and origins give the ids at once. L1: of a text that begins as an earlier one did, the ids up to the last cut of the common
   part (struct kp_cut: behind a control token) are taken and only the rest is encoded. Both give exactly what kp_tokenizer_encode gives, because what
   is found is compared byte by byte, origin by origin; hashes only say where to look.

   Who shares: texts of one scope (model, text stack, tenant, salt), one policy and one add_special, and nobody else; whether another scope has a text
   cannot be seen in the time either, since the scope is part of every key.

   Any thread. Memory: at most max_bytes, the least recently used goes first; a text that needs more than a quarter of it is not kept. */
#ifndef KP_PROMPT_CACHE_H
#define KP_PROMPT_CACHE_H

#include "token/tokenizer.h"

struct kp_prompt_cache;

/* max_bytes: for all that is kept, texts, ids and tables. The hash's key is new with each cache. */
struct kp_prompt_cache *kp_prompt_cache_create(size_t max_bytes);
/* When no other thread uses it any more. NULL is fine. */
void kp_prompt_cache_destroy(struct kp_prompt_cache *c);

struct kp_prompt_scope {
	uint64_t fingerprint; /* of the text stack: tokenizer, template */
	kp_str model, tenant, salt;
};

/* Tokens of one prompt, by where they came from. */
struct kp_prompt_use {
	size_t exact, prefix, encoded;
};

/* As kp_tokenizer_encode, into the empty `ids`. opts->cuts and opts->from are the cache's own and must not be set; file_limits neither.
   c NULL: nothing is looked up or kept. packed: empty; gets the ids once more, as the varints that
   engines are sent (kp_wire_add_varints), or stays empty where nothing was looked up. */
int kp_prompt_cache_encode(struct kp_prompt_cache *c, const struct kp_prompt_scope *scope,
	const struct kp_tokenizer *t, struct kp_token_scratch *s, const struct kp_text *text,
	const struct kp_encode_opts *opts, struct kp_ids *ids, struct kp_buf *packed,
	struct kp_prompt_use *ret, struct kp_err *err) KP_MUST_USE;

/* Names a prompt that is kept; serial 0: none. */
struct kp_prompt_link {
	uint64_t hash, serial;
	unsigned shard;
};
struct kp_prompt_node;
/* Counted for the caller; NULL: it is not kept any more. */
struct kp_prompt_node *kp_prompt_cache_recall(
	struct kp_prompt_cache *c, const struct kp_prompt_link *link);
/* What the caller knows of a text by other means than its bytes. */
struct kp_prompt_hint {
	struct kp_prompt_node *node; /* of kp_prompt_cache_recall; NULL: nothing */
	size_t same; /* the first bytes of the text, and their origins, are those of node's prompt */
	char *room; /* the text, where some of these bytes are not there: they are put there as far as they are needed, and the last KP_PARSE_TAIL bytes always. NULL: all are there */
	struct kp_prompt_link link; /* what comes out: how this prompt is found again */
};
/* The same, with a hint. */
int kp_prompt_cache_encode_by(struct kp_prompt_cache *c, const struct kp_prompt_scope *scope,
	const struct kp_tokenizer *t, struct kp_token_scratch *s, const struct kp_text *text,
	const struct kp_encode_opts *opts, struct kp_prompt_hint *hint, struct kp_ids *ids,
	struct kp_buf *packed, struct kp_prompt_use *ret, struct kp_err *err) KP_MUST_USE;

struct kp_prompt_cache_stats {
	size_t bytes, max_bytes, entries;
	uint64_t evictions;
};
/* Takes each lock for a moment. */
void kp_prompt_cache_stats(struct kp_prompt_cache *c, struct kp_prompt_cache_stats *ret);

#endif

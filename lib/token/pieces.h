/* What a text's tokens are, for people: JSON that /v1/tokenize and kubectl-kelpie show. */
#ifndef KP_TOKEN_PIECES_H
#define KP_TOKEN_PIECES_H

#include "token/tokenizer.h"

/* Appends the token as its file writes it, which is what Hugging Face's convert_ids_to_tokens gives: a byte-level vocabulary's in GPT-2's
   alphabet ("Ġthe"), others as they are ("▁the", "<0x0A>"). Nothing for an id that is no token. */
void kp_token_written(const struct kp_tokenizer *t, kp_id id, struct kp_buf *out);

/* Appends [{"id", "token" (as written), "bytes" (what it decodes to), "special", "added", "origin"}, ...]. text: what was encoded, or NULL. origin
   says who wrote the token's bytes ("trusted": the template, or a prompt; "client", "assistant", "mixed", or "tokenizer": they are not in the text); it is left out where
   the bytes are not those of the text, as behind a normalizer. */
void kp_token_pieces(const struct kp_tokenizer *t, const struct kp_text *text, const kp_id *ids,
	size_t n, struct kp_buf *out);

#endif

/* A vocabulary: ids to bytes and back. Immutable once it is indexed; its memory is the tokenizer's. */
#ifndef KP_TOKEN_VOCAB_H
#define KP_TOKEN_VOCAB_H

#include "base/err.h"
#include "base/str.h"
#include "core/ids.h"

struct kp_tok {      /* one id; 8 bytes, since decoding reads nothing else */
	uint32_t at; /* its bytes in the blob */
	uint16_t n;
	uint8_t flags;
	uint8_t shape; /* KP_SHAPE_* */
};
enum {
	KP_SHAPE_HIDDEN = 1, /* decodes to nothing */
	KP_SHAPE_UNK = 2,    /* decodes to the decoder's `unknown` */
	KP_SHAPE_UNUSED = 3, /* SentencePiece's UNUSED */
	KP_SHAPE_RAW = 4,    /* reads as its text, without the decoder's steps */
	KP_SHAPE_BYTE = 5,   /* <0xNN> that reads as its byte, whatever stands beside it */
};
enum {
	KP_TOK_KNOWN = 1,
	KP_TOK_SPECIAL = 2, /* skipped by skip_special */
	KP_TOK_ADDED = 4,
	KP_TOK_WORD = 8,  /* part of the byte-level vocabulary: merges may give it */
	KP_TOK_BYTE = 32, /* of decoded tokens: a byte of ByteFallback */
	KP_TOK_WAIT = 64, /* of decoded tokens: reads differently at the end */
	KP_TOK_GONE =
		128, /* of decoded tokens: CTC leaves it out, and what stands beside it meets */
	KP_TOK_SELF = 16, /* its bytes encode to just this id: looking a whole piece up is exact */
};

struct kp_vocab { /* ids to bytes and back */
	const char *blob;
	size_t blob_n;
	struct kp_tok *tok; /* n of them, by id */
	size_t n;
	uint32_t *
		slot; /* hash table of the KP_TOK_WORD ids: 12 bits of hash, 20 bits of id + 1; 0 empty */
	size_t slot_mask;
};
static inline kp_str kp_vocab_bytes(const struct kp_vocab *v, kp_id id)
{
	return kp_str_n(v->blob + v->tok[id].at, v->tok[id].n);
}
/* Fills the hash table from tok. INVALID_ARGUMENT when two words have the same bytes. */
int kp_vocab_index(struct kp_vocab *v, struct kp_err *err) KP_MUST_USE;
/* KP_BPE_NO_ID when no word has these bytes. */
kp_id kp_vocab_find(const struct kp_vocab *v, kp_str bytes);

#endif

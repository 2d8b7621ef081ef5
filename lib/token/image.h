/* The one block that a loaded tokenizer lies in, whether it was just built or mapped from a file: a head, the facts (all that is no table, as a
   stream of numbers and texts) and the tables, flat arrays of ids and offsets without a pointer. A build copies its tables into such a block
   and throws itself away; struct kp_tokenizer is then made from the block alone, so what runs is always what an image says.

   Nothing in a block is believed: bounds are checked at once, and every index that encoding or decoding follows lies in its table, so that a
   block that someone made up gives wrong ids at worst. Whether it is the right one is for its keeper to know (images.h). */
#ifndef KP_TOKEN_IMAGE_H
#define KP_TOKEN_IMAGE_H

#include "base/buf.h"
#include "token/digest.h"

struct kp_tokenizer;
struct kp_token_image {
	char *p; /* of a mapping; NULL: none */
	size_t n;
};
enum { KP_IMAGE_MAX = 1 << 30, KP_IMAGE_TABLES = 22 };

/* A block of the tables and facts of a tokenizer that was built. RESOURCE_EXHAUSTED. */
int kp_token_image_make(
	struct kp_tokenizer *built, struct kp_token_image *ret, struct kp_err *err) KP_MUST_USE;
/* The tokenizer in the block, which is the tokenizer's from then on. DATA_LOSS says what is wrong with it, and it stays the caller's. */
int kp_token_image_open(
	struct kp_token_image image, struct kp_tokenizer **ret, struct kp_err *err) KP_MUST_USE;
void kp_token_image_fini(struct kp_token_image *image);

/* Sets name and checksum; the block must not be shared yet. */
void kp_token_image_sign(
	struct kp_token_image *image, const struct kp_digest_key *key, struct kp_digest name);
/* Is it whole, and the one with this name? DATA_LOSS says what is wrong. */
int kp_token_image_verify(const struct kp_token_image *image, const struct kp_digest_key *key,
	struct kp_digest name, struct kp_err *err) KP_MUST_USE;
/* The file `name` in the directory, read-only and shared. NOT_FOUND; DATA_LOSS: no regular file, or too short or long for an image. */
int kp_token_image_map(int directory, const char *name, struct kp_token_image *ret,
	struct kp_err *err) KP_MUST_USE;

/* --- between the files of the image ------------------------------------------------------------------------------- */

/* Everything of a tokenizer that is no table, to or from bytes; what is read points into them. */
void kp_facts_write(struct kp_tokenizer *t, struct kp_buf *out);
int kp_facts_read(struct kp_tokenizer *t, kp_str in, struct kp_err *err) KP_MUST_USE;
/* Does every index in the tables and facts lie where it should? */
int kp_token_image_check(const struct kp_tokenizer *t, struct kp_err *err) KP_MUST_USE;

#endif

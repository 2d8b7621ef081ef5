/* A directory of images (image.h), so that a tokenizer is built from its files once and mapped from then on: read-only, and shared with every
   other process that maps it. An image's name is a keyed digest of the files it was made of and of the program's build, so files that change, or another
   build, have another image. What is found is verified before it is used (whole, its own name inside, a keyed checksum, every bound and index); one that
   fails is refused, said why, and built anew.

   What is relied on: the directory is ours alone (made 0700; refused when others may write into it), and files appear by renaming only, 0600. The key
   lies in it (`key`, 0600, random), so that nobody who only writes tokenizer files can make two have one name. Whoever can write
   into the directory can make us read wrong ids, but not crash.

   Limits: KP_IMAGES_MAX images, the one that was used longest ago goes first. Blocking; one thread at a time. */
#ifndef KP_TOKEN_IMAGES_H
#define KP_TOKEN_IMAGES_H

#include "token/tokenizer.h"

enum { KP_IMAGES_MAX = 16 };

struct kp_token_images;
/* Counts since it was opened, and why the last image was refused or could not be written (OK: none was). */
struct kp_token_images_info {
	uint64_t mapped, built, refused, unwritten;
	struct kp_err last;
};

/* Makes the directory (not its parents) when it is missing. */
int kp_token_images_open(
	const char *directory, struct kp_token_images **ret, struct kp_err *err) KP_MUST_USE;
void kp_token_images_close(struct kp_token_images *s); /* NULL is fine */
const struct kp_token_images_info *kp_token_images_info(const struct kp_token_images *s);

/* As kp_tokenizer_from_zip and kp_tokenizer_from_path; s may be NULL: no images. An image that cannot be used or written is no error. */
int kp_token_images_zip(struct kp_token_images *s, kp_str zip, struct kp_tokenizer **ret,
	struct kp_err *err) KP_MUST_USE;
int kp_token_images_path(struct kp_token_images *s, const char *path, struct kp_tokenizer **ret,
	struct kp_err *err) KP_MUST_USE;

#endif

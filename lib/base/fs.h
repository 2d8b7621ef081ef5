/* Files, with limits. Blocking: never called on a loop thread while it serves. */
#ifndef KP_BASE_FS_H
#define KP_BASE_FS_H

#include "base/buf.h"

/* The whole file into *b (appended; b's maximum is the limit; unchanged on failure). TOO_LARGE
   names the limit, and the file's size where it has one. */
int kp_fs_read(const char *path, struct kp_buf *b, struct kp_err *err) KP_MUST_USE;

/* A regular file's bytes in pages of their own; kp_fs_unmap takes a zeroed one. */
struct kp_mapping {
	kp_str bytes;
};
/* A copy: whoever writes to the file later changes nothing here. */
int kp_fs_load(
	const char *path, size_t max_bytes, struct kp_mapping *ret, struct kp_err *err) KP_MUST_USE;
/* The file itself, for what is large and looked at in parts. Who cuts it short while it is used ends the process (SIGBUS). */
int kp_fs_map(
	const char *path, size_t max_bytes, struct kp_mapping *ret, struct kp_err *err) KP_MUST_USE;
void kp_fs_unmap(struct kp_mapping *m);
/* Writes beside the target and renames, mode as given (umask not applied). */
int kp_fs_write_atomic(
	const char *path, kp_str content, unsigned mode, struct kp_err *err) KP_MUST_USE;

#endif

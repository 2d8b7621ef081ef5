/* Files, with limits. Blocking: never called on a loop thread while it serves. */
#ifndef KP_BASE_FS_H
#define KP_BASE_FS_H

#include "base/buf.h"

/* The whole file into *b (appended; b's maximum is the limit; unchanged on failure). TOO_LARGE
   names the limit, and the file's size where it has one. */
int kp_fs_read(const char *path, struct kp_buf *b, struct kp_err *err) KP_MUST_USE;

/* A read-only mapping of a file; kp_fs_unmap takes a zeroed one. */
struct kp_mapping {
	kp_str bytes;
};
int kp_fs_map(
	const char *path, size_t max_bytes, struct kp_mapping *ret, struct kp_err *err) KP_MUST_USE;
void kp_fs_unmap(struct kp_mapping *m);
/* Writes beside the target and renames, mode as given (umask not applied). */
int kp_fs_write_atomic(
	const char *path, kp_str content, unsigned mode, struct kp_err *err) KP_MUST_USE;

#endif

/* The last program that a gateway took, as a file, so that it serves the same after a restart without its
   operator. Format (docs/control.md): "KPLPROG" and a byte with the version 1; the length of the body, 64
   bits, little-endian; SHA-256 of the body; the body, which is the OperatorMessage with the whole program. */
#ifndef KP_CONTROL_LAST_GOOD_H
#define KP_CONTROL_LAST_GOOD_H

#include "control/message.h"

/* Appended to `out`, whose maximum should be KP_CONTROL_TO_GATEWAY_MAX and a few. */
int kp_last_good_encode(const struct kp_revision *revision, const struct kp_items *items,
	struct kp_buf *out, struct kp_err *err) KP_MUST_USE;
/* DATA_LOSS for a damaged file, UNIMPLEMENTED for a version that is not known: to be logged and passed
   over. The items' hash is the revision's. */
int kp_last_good_decode(kp_str bytes, struct kp_revision *ret_revision, struct kp_items **ret,
	struct kp_err *err) KP_MUST_USE;

/* Blocking. Replaces the file at once (mode 0600), or leaves it as it is. */
int kp_last_good_write(const char *path, const struct kp_revision *revision,
	const struct kp_items *items, struct kp_err *err) KP_MUST_USE;
/* NOT_FOUND: there is no such file. */
int kp_last_good_read(const char *path, struct kp_revision *ret_revision, struct kp_items **ret,
	struct kp_err *err) KP_MUST_USE;

#endif

/* Stop strings over a growing text, byte by byte, whatever its pieces. The match that ends first
   wins; of those that end at the same byte the longest, so the visible text is the one an engine
   would have shown had it checked after every byte. Exactly the longest suffix that may still
   become a match is held back. */
#ifndef KP_PARSE_STOP_H
#define KP_PARSE_STOP_H

#include "base/arena.h"
#include "base/buf.h"

enum { KP_STOP_MAX = 16, KP_STOP_MAX_BYTES = 1024 /* of one string */ };

/* The strings of one request, prepared once; shared by its choices. */
struct kp_stop_set;
/* Strings must not be empty (INVALID_ARGUMENT, param "stop"); duplicates are fine. The texts are
 * copied into the arena. */
int kp_stop_set_create(struct kp_arena *a, const kp_str *strings, size_t n,
	const struct kp_stop_set **ret, struct kp_err *err) KP_MUST_USE;

/* One choice. */
struct kp_stop {
	const struct kp_stop_set *set; /* NULL: no stop strings, everything passes */
	uint16_t at[KP_STOP_MAX]; /* per string: how many of its bytes the text's end matches */
	struct kp_buf held;       /* not released yet */
	int matched;              /* index of the string that matched, -1 none yet */
};
void kp_stop_init(struct kp_stop *s, const struct kp_stop_set *set);
void kp_stop_fini(struct kp_stop *s);
/* Appends to `out` what may be shown. true: a string matched; what follows it is dropped, and with
 * include the string itself is shown. */
bool kp_stop_feed(struct kp_stop *s, kp_str text, bool include, struct kp_buf *out);
/* End of the text without a match: releases what was held. Text that is fed later is another one. */
void kp_stop_finish(struct kp_stop *s, struct kp_buf *out);
kp_str kp_stop_text(const struct kp_stop_set *set, int index);

#endif

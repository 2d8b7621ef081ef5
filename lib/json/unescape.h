/* The escapes of JSON string literals (RFC 8259), for the pull reader. */
#ifndef KP_JSON_UNESCAPE_H
#define KP_JSON_UNESCAPE_H

#include "base/macros.h"

#include <stddef.h>

/* The escape at p, behind the backslash: writes at most 4 bytes to out and says how many in *ret_n; the place behind it, or
   NULL with *why. end: of the text, which may be before the escape's end. */
const char *kp_json_escape(
	const char *p, const char *end, char *out, size_t *ret_n, const char **why);

enum kp_json_unescaped {
	KP_JSON_AT_QUOTE = 0, /* done: p is at the closing quote */
	KP_JSON_NO_ROOM,      /* more room is needed; goes on from where it is */
	KP_JSON_WRONG, /* p is at what is wrong, or at the end of the text; `why` says what it is */
};
/* Bytes of room that are not used for every literal: what is written there is not part of the text. A room of the literal's
   length and this is always enough. */
enum { KP_JSON_UNESCAPE_SLACK = 160 };

struct kp_json_unescape {
	const char *p, *end; /* what is left of the literal, and of the whole text */
	char *at, *limit;    /* where to write, and the end of the room */
	bool non_ascii; /* a byte above 0x7f may have been passed (never missed); escapes do not count */
	const char *why;
};
enum kp_json_unescaped kp_json_unescape_some(struct kp_json_unescape *u);
/* The same as on a processor of the least kind, for tests. */
enum kp_json_unescaped kp_json_unescape_narrow(struct kp_json_unescape *u);

#endif

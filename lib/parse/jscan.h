/* Follows one JSON value (RFC 8259) byte by byte, so that a caller who passes the bytes on knows where it ends and whether it is one. Keeps nothing of the
   text. Strict, but for one thing that models do: line ends and tabs inside of strings are let through (the caller escapes them). */
#ifndef KP_PARSE_JSCAN_H
#define KP_PARSE_JSCAN_H

#include "base/macros.h"

enum { KP_JSCAN_DEPTH = 256 };

enum kp_jscan_result {
	KP_JSCAN_MORE = 0, /* the byte belongs to the value, which goes on */
	KP_JSCAN_END,      /* the byte is the value's last */
	KP_JSCAN_PAST,     /* the value, a number, ended before this byte, which is not taken */
	KP_JSCAN_BAD,      /* no JSON (or nested deeper than KP_JSCAN_DEPTH) */
};

struct kp_jscan {
	uint8_t state;
	uint8_t hex;         /* digits of \u that are to come */
	const char *literal; /* the rest of true, false, null */
	uint16_t depth;
	uint64_t is_object[KP_JSCAN_DEPTH / 64];
};
void kp_jscan_init(struct kp_jscan *s); /* white space before the value is part of it */
enum kp_jscan_result kp_jscan_byte(struct kp_jscan *s, char c);
bool kp_jscan_in_string(const struct kp_jscan *s);
/* How many of the n bytes lie inside of a string, without its end, and change nothing. */
size_t kp_jscan_plain(const struct kp_jscan *s, const char *p, size_t n);
/* May the value end here? Only a number at its top has no end of its own. */
bool kp_jscan_finish(const struct kp_jscan *s);

#endif

/* Append writer for JSON answers: escapes what RFC 8259 demands (`"`, `\`, below 0x20) and leaves UTF-8 as it is. */
#ifndef KP_JSON_WRITE_H
#define KP_JSON_WRITE_H

#include "base/buf.h"

/* "s" with quotes. s must be valid UTF-8 (invalid parts come out as U+FFFD). */
void kp_json_w_str(struct kp_buf *b, kp_str s);
/* The inside of a string literal only, no quotes. */
void kp_json_w_esc(struct kp_buf *b, kp_str s);
/* Shortest decimal that reads back as the same double; null for NaN and infinities. Integral values get ".0" as in Python. */
void kp_json_w_f64(struct kp_buf *b, double v);

#endif

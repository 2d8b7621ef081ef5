/* Append writer for JSON answers: escapes what RFC 8259 demands (`"`, `\`, below 0x20) and leaves
 * UTF-8 as it is. */
#ifndef KP_JSON_WRITE_H
#define KP_JSON_WRITE_H

#include "base/buf.h"

/* "s" with quotes. Invalid UTF-8 in s comes out as U+FFFD. */
void kp_json_w_str(struct kp_buf *b, kp_str s);
/* The inside of a string literal only, no quotes. */
void kp_json_w_esc(struct kp_buf *b, kp_str s);
/* As Python's repr(float): the shortest decimal that reads back as the same double, ".0" on
   integral values, exponent below 1e-4 and from 1e16 on. null for NaN and infinities. */
void kp_json_w_f64(struct kp_buf *b, double v);
/* The shortest decimal that reads back as the same float, in the same style. */
void kp_json_w_f32(struct kp_buf *b, float v);
/* An error as OpenAI shapes it, on every listener: {"error":{"message","type","param","code"}}. `code` is
   the machine word of the error, or null; `param` the input that is wrong, or null. */
void kp_json_w_err(struct kp_buf *b, const struct kp_err *err);

#endif

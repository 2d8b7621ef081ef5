/* Regular expressions of ECMA-262 with the flag u, as PCRE2 patterns. What a pattern means where the two differ: \d \w \b are ASCII, \s is ECMA's white space, `$` only
   the very end, `.` no line end of four kinds, references to groups that took no part match nothing. Escapes, groups and quantifiers that ECMA-262 does not have are
   refused, among them PCRE2's own (inline options, possessive quantifiers, recursion, verbs); so are lookbehinds of varying length, and names of properties
   that PCRE2 does not know. Braces and brackets that stand for themselves are taken as without the flag. */
#ifndef KP_JSONSCHEMA_REGEX_H
#define KP_JSONSCHEMA_REGEX_H

#include "base/buf.h"

enum { KP_JS_REGEX_MAX = 8192 /* bytes of a pattern */ };

struct kp_js_regex;

/* INVALID_ARGUMENT with what is wrong, and where in the pattern. */
int kp_js_regex_compile(kp_str pattern, struct kp_js_regex **ret, struct kp_err *err) KP_MUST_USE;
void kp_js_regex_destroy(struct kp_js_regex *re);
/* What it takes of memory: a short pattern may be a lot of code. */
size_t kp_js_regex_bytes(const struct kp_js_regex *re);
/* Is it found anywhere in s (valid UTF-8)? 1, 0; -1: the limit of backtracking. *ret_dear: it took much more than it should, up to some milliseconds. Threads may share re. */
int kp_js_regex_find(const struct kp_js_regex *re, kp_str s, bool *ret_dear) KP_MUST_USE;
/* The translation alone. */
int kp_js_regex_translate(kp_str pattern, struct kp_buf *out, struct kp_err *err) KP_MUST_USE;

#endif

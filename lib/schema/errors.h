/* Field errors: everything that is wrong with one object, each with its path, in the words of kube-apiserver:

     spec.endpoints[0].port: Invalid value: 70000: should be less than or equal to 65535

   Differences to its texts: no "<path> in body" before "should", rules show the scalar they refused instead of its type, values
   longer than 100 characters are cut. */
#ifndef KP_SCHEMA_ERRORS_H
#define KP_SCHEMA_ERRORS_H

#include "base/arena.h"
#include "base/buf.h"

#include <jansson.h>

enum kp_field_error {
	KP_FIELD_INVALID,
	KP_FIELD_TYPE,     /* as INVALID; rules are not run after it */
	KP_FIELD_REQUIRED, /* nor after the next four */
	KP_FIELD_UNSUPPORTED,
	KP_FIELD_TOO_LONG,
	KP_FIELD_TOO_MANY,
	KP_FIELD_DUPLICATE,
	KP_FIELD_FORBIDDEN,
	KP_FIELD_UNKNOWN, /* a member the schema does not have */
};
struct kp_field_err {
	enum kp_field_error type;
	const char *path; /* "spec.endpoints[0].port"; "" for the object itself */
	const char *text; /* "Invalid value: 70000: should be ..." */
};
/* At most `max` errors are kept, the rest is counted. Texts live in the arena. The path is where the code that checks is now. */
struct kp_field_errors {
	struct kp_arena *arena;
	struct kp_field_err *p;
	size_t n, max, omitted;
	bool blocking; /* one was of a kind after which rules are not run */
	char path[512];
	size_t path_n;
};

int kp_field_errors_init(
	struct kp_field_errors *e, struct kp_arena *a, size_t max, struct kp_err *err) KP_MUST_USE;

/* Go down one step; go back with kp_field_pop(e, the number returned). Paths beyond 500 bytes are cut. */
size_t kp_field_push(struct kp_field_errors *e, kp_str member);  /* ".member" */
size_t kp_field_push_key(struct kp_field_errors *e, kp_str key); /* "[key]" */
size_t kp_field_push_index(struct kp_field_errors *e, size_t index);
static inline void kp_field_pop(struct kp_field_errors *e, size_t mark)
{
	e->path_n = mark;
	e->path[mark] = '\0';
}

/* An error at the current path. value NULL: none is shown; detail may be "". */
void kp_field_add(struct kp_field_errors *e, enum kp_field_error type, const json_t *value,
	const char *fmt, ...) KP_PRINTF(4, 5);
/* The same for a text as value. */
void kp_field_add_str(struct kp_field_errors *e, enum kp_field_error type, kp_str value,
	const char *fmt, ...) KP_PRINTF(4, 5);
/* Go's strconv.Quote, as far as a terminal is concerned. */
void kp_field_quote(struct kp_buf *b, kp_str s);

#endif

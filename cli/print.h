/* Tables as kubectl prints them, and members of an answer that may be anything. */
#ifndef CLI_PRINT_H
#define CLI_PRINT_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/vec.h"

#include <jansson.h>

/* Text for a terminal: invalid UTF-8, control characters and those that change the direction of writing come
   out as U+FFFD, line breaks and tabs as a space. */
void kp_print_text(struct kp_buf *out, kp_str text);

/* "Name:    text", the text at column `width`; "<none>" for "". */
void kp_print_line(struct kp_buf *out, int width, const char *name, kp_str text);

struct kp_table {
	struct kp_arena *arena;
	const char *const *columns;
	size_t n_columns, column; /* column: of the next cell */
	KP_VEC(kp_str)
	cells;
};
/* columns: NULL behind the last; of the first n only, if n is not 0. */
void kp_table_init(struct kp_table *t, struct kp_arena *a, const char *const *columns, size_t n);
/* The next cell, cleaned; "" shows as "<none>". Those behind the last column are dropped. */
void kp_table_add(struct kp_table *t, kp_str text);
void kp_table_addf(struct kp_table *t, const char *fmt, ...) KP_PRINTF(2, 3);
void kp_table_end_row(struct kp_table *t);
/* Each line with `indent` in front. No rows: nothing. Frees the cells. */
void kp_table_print(struct kp_table *t, const char *indent, struct kp_buf *out);

/* Members: "", 0, false, no elements when they are absent or of another type. */
kp_str kp_at_str(const json_t *object, const char *key);
int64_t kp_at_int(const json_t *object, const char *key);
double kp_at_real(const json_t *object, const char *key);
bool kp_at_bool(const json_t *object, const char *key);
const json_t *kp_at_list(const json_t *object, const char *key);
/* "5m12s" since the time of a member; "" when there is none. */
kp_str kp_at_age(struct kp_arena *a, const json_t *object, const char *key, int64_t now_ns);
/* "a, b" of a list of strings. */
kp_str kp_at_joined(struct kp_arena *a, const json_t *object, const char *key);

#endif

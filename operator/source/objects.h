/* Our objects as an API server has them, into a checked set: one that makes no sense, alone or with the others, is left
   out and named, the others count. Pure but for the caller's check. */
#ifndef OPERATOR_SOURCE_OBJECTS_H
#define OPERATOR_SOURCE_OBJECTS_H

#include "api/manifest.h"
#include "base/map.h"
#include "json/jansson.h"

struct kp_objects_input {
	enum kp_kind kind;
	const json_t *json;
};
/* The rules between objects, and what is made of the set. Objects that the problems name are left out, and it is called
   again. */
typedef int kp_objects_check(void *ctx, const struct kp_object_set *set,
	struct kp_problems *problems, struct kp_err *err);

struct kp_objects {
	struct kp_object_set
		*set; /* in memory of its own, so that somebody may keep it (and leave NULL) */
	struct kp_buf left_out; /* lines, for people */
	size_t n_left_out;
	struct kp_map why; /* "InferenceEngine default/demo" -> why it is left out, a char * */
};
/* -1: nothing can be made of them; left_out says what it says all the same. To be ended in any case. */
int kp_objects_read(const struct kp_objects_input *in, size_t n, kp_objects_check *check, void *ctx,
	struct kp_objects *ret, struct kp_err *err) KP_MUST_USE;
void kp_objects_fini(struct kp_objects *o);
/* "" when it is not left out. */
kp_str kp_objects_problem(const struct kp_objects *o, enum kp_kind kind, kp_str ns, kp_str name);
/* Appends a line, if there is room, and counts it. */
void kp_objects_add_line(struct kp_buf *b, size_t *n, kp_str line);

#endif
